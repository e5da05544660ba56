// Long work on the samples of the page: its result is of use only while they and the model stay.
import { modelPath, request } from "./api.js";
import { dropJob, runJob, showError } from "./jobs.js";
import { on, state } from "./state.js";

const running = new Map(); // the samples that the job of a slot is about

on("samples", () => {
  for (const [slot, samples] of running) if (samples !== state.samples) dropJob(slot);
});

/** Let the server work on the samples of the page; return the result, or null if none fits what is there then. */
export async function workOnSamples(slot, title, endpoint, parts) {
  const { samples, model } = state;
  running.set(slot, samples);
  const work = (job) => request(modelPath(model.name, endpoint), { ...parts, ...job });
  const found = await runJob(slot, title, work);
  if (running.get(slot) === samples) running.delete(slot);
  if (!found || samples !== state.samples) return null;
  if (found.version === model.version && model.version === state.model.version) return found;
  showError(slot, { message: "The model has changed meanwhile: start again.", status: 409 });
  return null;
}
