// Decisions: the samples go to the server, the answers come back as they are made.
import { modelPath, stream } from "./api.js";
import { announce, find, oncePerFrame } from "./dom.js";
import { dropJob, runJob } from "./jobs.js";
import { changed, isStale, state } from "./state.js";
import { count, number } from "./wording.js";

let runs = 0;

/**
 * Decide on these samples, or again on the present ones; the decisions on these stay until all others are there.
 * `record` says whether monitoring counts them. With `added`, the first samples are those decided last: only the
 * others are sent and counted.
 */
export async function decide(samples = state.samples, { record = true, added = false } = {}) {
  if (!samples || !state.model) return;
  runs += 1;
  const turn = runs;
  const before = added && state.run && !isStale() ? state.decisions : [];
  const versionBefore = state.run?.version;
  const again = samples === state.samples && state.decisions.length > 0;
  takeSamples(samples, before);
  const found = [...before];
  let head = null;
  let failure = null;
  const tell = oncePerFrame(() => changed("decisions"));
  const work = async ({ signal, report }) => {
    const take = (line) => {
      if (signal.aborted || turn !== runs) return;
      if (line.kind === "progress") report(line);
      else if (line.kind === "start") head = { ...line, rows: line.rows + before.length };
      else if (line.kind === "decisions") {
        for (const decision of line.decisions) found.push({ ...decision, row: decision.row + before.length });
        report({ stage: "Deciding", done: found.length, of: head.rows });
        if (again) return;
        Object.assign(state, { run: head, decisions: found });
        tell();
      }
    };
    const parameters = record && (!added || before.length) ? {} : { record: false };
    const only = before.length ? samples.rows.map((_, row) => row).slice(before.length) : null;
    const parts = { ...samples.request(parameters, { only }), signal };
    await stream(modelPath(state.model.name, "decide"), take, parts).catch((error) => {
      failure = error;
      throw error;
    });
    return true;
  };
  const describeCancelled = () => {
    if (again) return "Cancelled: these are the decisions of before.";
    return head && found.length ? `Cancelled: ${number(found.length)} of ${number(head.rows)} decided.` : "Cancelled.";
  };
  const done = await runJob(find("decide-job"), "Deciding", work, { describeCancelled });
  if (turn !== runs) return;
  if (done && before.length && head.version !== versionBefore) return decide(samples, { record: false });
  showBusy(false);
  if (done) {
    Object.assign(state, { run: head, decisions: found });
    for (const place of [...state.selected]) if (place >= found.length) state.selected.delete(place);
    const rejected = found.filter((d) => d.verdict === "rejected").length;
    announce(`${count(found.length, "sample")} decided, ${rejected} rejected as unknown.`);
  } else if (failure?.status === 422 && samples.reading) find("reading").open = true;
  changed("decisions selection");
}

/** Make these the samples of the page; decisions and ticks on others go. */
function takeSamples(samples, decisions) {
  if (samples !== state.samples) {
    state.samples?.close?.();
    if (!decisions.length) {
      state.selected.clear();
      state.run = null;
    }
    Object.assign(state, { samples, decisions });
  }
  changed("samples decisions selection");
  find("title-decisions").closest("section").classList.add("filled");
  showBusy(true);
  bringIntoView();
}

/** Forget the samples and the decisions on them; who calls this tells the others. */
export function clearSamples() {
  runs += 1;
  dropJob(find("decide-job"));
  showBusy(false);
  state.samples?.close?.();
  Object.assign(state, { samples: null, run: null, decisions: [] });
  state.selected.clear();
}

function showBusy(busy) {
  find("title-decisions").closest("section").setAttribute("aria-busy", String(busy));
}

/** Scroll to the decisions if they would appear below the screen. */
function bringIntoView() {
  const card = find("title-decisions");
  if (card.offsetParent && card.getBoundingClientRect().top > 0.6 * innerHeight) {
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    card.scrollIntoView({ block: "start", behavior: calm ? "auto" : "smooth" });
  }
}
