// The chosen model: its facts are loaded here, and every change of it goes through here.
import { modelPath, request, streamResult } from "./api.js";
import { clearSamples, decide } from "./deciding.js";
import { announce } from "./dom.js";
import { clearNotices, runJob, showDone } from "./jobs.js";
import { changed, state } from "./state.js";

/** Load the list of models. */
export async function loadModels(options) {
  const found = await request("/v1/models", options);
  state.models = found.models;
  state.readOnly = found.read_only;
  state.demo = found.demo;
  return found.models;
}

const OF_MODEL = ["name", "version", "method", "classes", "features", "takes", "picture_shape", "changes"];
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
  let info;
  let scores;
  try {
    info = await request(modelPath(name), options);
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
  const problem = state.models.find((model) => model.name === name)?.problem ?? null;
  state.model = { ...pick(info, OF_MODEL), problem };
  state.info = info;
  state.scores = scores && dropMissing(scores);
  state.trial = null;
  state.versions.set(info.version, pick(info, ["classes", "thresholds"]));
  changed(other ? "model trial samples decisions selection" : "model trial");
  return true;
}

/** Leave out scores that are not finite: JSON has null for them. */
function dropMissing(scores) {
  const places = scores.known.flatMap((score, i) => (score === null ? [] : [i]));
  return {
    ...scores,
    known: places.map((i) => scores.known[i]),
    known_right: places.map((i) => scores.known_right[i]),
    simulated: scores.simulated.filter((score) => score !== null),
  };
}

const pick = (object, names) => Object.fromEntries(names.filter((n) => n in object).map((n) => [n, object[n]]));

/**
 * Change a model: send the request, load what it has become, decide again on the samples. `model` is the one that the
 * user has looked at when asked, {name, version}: another version is not changed. `describe(result)` says in words
 * what was done.
 */
export async function changeModel(slot, { name, version }, endpoint, parts, { title, describe }) {
  clearNotices();
  countChanges(1);
  let result;
  let shown = false;
  try {
    result = await runJob(slot, title, ({ signal, report }) =>
      streamResult(modelPath(name, endpoint), report, { ...parts, signal, headers: { "If-Match": `"${version}"` } }),
    );
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
