// Decisions: the samples go to the server, and the answers come back.
import { modelPath, request } from "./api.js";
import { announce, find } from "./dom.js";
import { dropJob, runJob } from "./jobs.js";
import { changed, decided, isStale, state } from "./state.js";
import { count } from "./wording.js";

let runs = 0;

/**
 * Decide on these samples, or again on the present ones; the decisions on these stay until the others are there.
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
  const parameters = record && (!added || before.length) ? {} : { record: false };
  if (before.length) parameters.rows = [...samples.items.keys()].slice(before.length);
  const work = async (job) => {
    try {
      return await request(modelPath(state.model.name, "decide"), { ...samples.request(parameters), ...job });
    } catch (error) {
      if (error.status === 422 && samples.reading) find("reading").open = true; // there it can be put right
      throw error;
    }
  };
  const cancelled = again ? "Cancelled: these are the decisions of before." : "Cancelled.";
  const answer = await runJob(find("decide-job"), "Deciding", work, { cancelled });
  if (turn !== runs) return;
  if (answer && before.length && answer.version !== versionBefore) return decide(samples, { record: false });
  showBusy(false);
  if (answer) takeAnswer(answer, before);
  changed("decisions selection");
}

function takeAnswer({ decisions, ...run }, before) {
  const rest = decisions.map((decision) => ({ ...decision, row: decision.row + before.length }));
  Object.assign(state, { run: { ...run, rows: run.rows + before.length }, decisions: [...before, ...rest] });
  for (const place of [...state.selected]) if (place >= state.decisions.length) state.selected.delete(place);
  const rejected = decided("rejected").length;
  announce(`${count(state.decisions.length, "sample")} decided, ${rejected} rejected as unknown.`);
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
  find("area-decisions").classList.add("filled");
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

const showBusy = (busy) => {
  find("area-decisions").ariaBusy = String(busy);
};

/** Scroll to the decisions if they would appear below the screen. */
function bringIntoView() {
  const heading = find("title-decisions");
  if (heading.checkVisibility() && heading.getBoundingClientRect().top > 0.6 * innerHeight) heading.scrollIntoView();
}
