// The chosen model: its facts are loaded here, and every change of it goes through here.
import { modelPath, request } from "./api.js";
import { clearSamples, decide } from "./deciding.js";
import { ask } from "./dialogs.js";
import { announce } from "./dom.js";
import { clearNotices, runJob, showDone } from "./jobs.js";
import { changed, isStale, state } from "./state.js";

/** Load the list of models. */
export async function loadModels(options) {
  const { models, read_only: readOnly, demo } = await request("/v1/models", options);
  Object.assign(state, { models, readOnly, demo });
  return models;
}

let loads = 0;
let wanted = null;

/** Return the name of the model that the user has chosen last, though it may still be on its way. */
export const wantedModel = () => wanted ?? state.model?.name ?? null;

/**
 * Load the facts and the held-out scores of a model, and make it the chosen one. Samples decided by another model go.
 * Return whether it was done: a model that was chosen later wins.
 */
export async function loadModel(name, options) {
  loads += 1;
  const turn = loads;
  wanted = name;
  let model;
  let scores;
  try {
    model = await request(modelPath(name), options);
    // The scores come after the facts: if the model changes between, the page notices that the facts are old.
    scores = await request(modelPath(name, "scores"), options).catch((error) => {
      if (error.status === 409 || error.status === 404) return null; // a model without held-out scores
      throw error;
    });
  } catch (error) {
    if (turn !== loads) return false;
    wanted = null;
    throw error;
  }
  if (turn !== loads) return false;
  wanted = null;
  const other = state.model && state.model.name !== name;
  if (other) {
    clearSamples();
    clearNotices();
  }
  const problem = state.models.find((one) => one.name === name)?.problem ?? null;
  Object.assign(state, { model: { ...model, problem }, scores: scores && dropMissing(scores), trial: null });
  state.versions.set(model.version, model);
  changed(other ? "model trial samples decisions selection" : "model trial");
  return true;
}

/** Leave out scores that are not finite: JSON has null for them. */
function dropMissing(scores) {
  const isKnown = (_, i) => scores.known[i] !== null;
  return {
    ...scores,
    known: scores.known.filter(isKnown),
    known_right: scores.known_right.filter(isKnown),
    simulated: scores.simulated.filter((score) => score !== null),
  };
}

/**
 * Ask whether to change the model; then send the request, load what the model has become, and decide again on the
 * samples. A version other than the one that the user has looked at when asked is not changed. `question`, `text` and
 * `action` are those of the question, `title` is that of the work, `describe(result)` says in words what was done.
 * Return the result, null if there is none.
 */
export async function changeModel(slot, endpoint, parts, { question, text, action, danger, title, describe }) {
  const { name, version } = state.model;
  const stale = isStale() ? " The model has changed since these samples were decided." : "";
  const note = `The model file on the server is changed; the version before is kept and can be restored.${stale}`;
  if (!(await ask({ title: question, text: [text, note], action, danger }))) return null;
  clearNotices();
  countChanges(1);
  let result;
  let shown = false;
  try {
    const headers = { "If-Match": `"${version}"` };
    const work = (job) => request(modelPath(name, endpoint), { ...parts, ...job, headers });
    result = await runJob(slot, title, work);
    if (result) shown = await showChange(slot, name, describe(result));
  } finally {
    countChanges(-1);
  }
  if (shown && state.samples) await decide(state.samples, { record: false });
  return result;
}

/** Load what a model has become and say what was done; return whether the page shows it. */
async function showChange(slot, name, text) {
  announce(text);
  if (wantedModel() !== name) return false;
  try {
    await loadModels();
    if (!(await loadModel(name))) return false;
  } catch (error) {
    showDone(slot, `${text} The page cannot show it yet: ${error.message}`);
    return false;
  }
  showDone(slot, text);
  changed("history");
  return true;
}

function countChanges(by) {
  state.changing += by;
  changed("changing");
}
