// Decisions: the samples go to the server, the answers come back as they are made.
import { modelPath, stream } from "./api.js";
import { announce, find, oncePerFrame } from "./dom.js";
import { runJob } from "./jobs.js";
import { changed, state } from "./state.js";
import { count } from "./wording.js";

/** Decide on these samples, or again on the present ones. `record` says whether monitoring counts them. */
export async function decide(samples = state.samples, { record = true } = {}) {
  if (!samples || !state.model) return;
  if (samples !== state.samples) {
    state.samples?.close?.();
    state.selected.clear();
  }
  state.samples = samples;
  state.run = null;
  state.decisions = [];
  changed("samples decisions");
  find("title-decisions").closest("section").classList.add("filled");
  bringIntoView();
  const tell = oncePerFrame(() => changed("decisions"));
  const found = [];
  const slot = find("decide-job");
  const done = await runJob(slot, "Deciding", async ({ signal, report }) => {
    const take = (line) => {
      if (line.kind === "progress") report(line);
      else if (line.kind === "start") state.run = line;
      else if (line.kind === "decisions") {
        found.push(...line.decisions);
        state.decisions = found;
        report({ stage: "Deciding", done: found.length, of: state.run?.rows });
        tell();
      }
    };
    const parameters = record ? {} : { record: false };
    await stream(modelPath(state.model.name, "decide"), take, { ...samples.request(parameters), signal });
    return true;
  });
  if (samples !== state.samples) return;
  for (const place of [...state.selected]) if (place >= found.length) state.selected.delete(place);
  changed("decisions selection");
  if (done) {
    const rejected = found.filter((d) => d.verdict === "rejected").length;
    announce(`${count(found.length, "sample")} decided, ${rejected} rejected as unknown.`);
  }
}

/** Scroll to the decisions if they would appear below the screen. */
function bringIntoView() {
  const card = find("title-decisions");
  if (card.offsetParent && card.getBoundingClientRect().top > 0.6 * innerHeight) {
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    card.scrollIntoView({ block: "start", behavior: calm ? "auto" : "smooth" });
  }
}
