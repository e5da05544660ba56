// The chosen model: its facts are loaded here, and every change of it goes through here.
import { modelPath, request, streamResult } from "./api.js";
import { decide } from "./deciding.js";
import { announce } from "./dom.js";
import { runJob, showDone } from "./jobs.js";
import { changed, state } from "./state.js";

/** Load the list of models. */
export async function loadModels(options) {
  const found = await request("/v1/models", options);
  state.models = found.models;
  state.readOnly = found.read_only;
  state.demo = found.demo;
  return found.models;
}

/** Load the facts and the held-out scores of a model, and make it the chosen one. */
export async function loadModel(name) {
  const [info, scores] = await Promise.all([
    request(modelPath(name)),
    request(modelPath(name, "scores")).catch((error) => {
      if (error.status === 409 || error.status === 404) return null; // a model without held-out scores
      throw error;
    }),
  ]);
  const entry = state.models.find((model) => model.name === name);
  state.model = { ...entry, ...pick(info, ["version", "can_change", "takes", "picture_shape"]) };
  state.info = info;
  state.scores = scores && dropMissing(scores);
  state.trial = null;
  changed("model trial");
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
 * Change the model: send the request, load what it has become, decide again on the samples.
 * `describe(result)` says in words what was done.
 */
export async function changeModel(slot, endpoint, parts, { title, describe }) {
  const { name, version } = state.model;
  const result = await runJob(slot, title, ({ signal, report }) =>
    streamResult(modelPath(name, endpoint), report, { ...parts, signal, headers: { "If-Match": `"${version}"` } }),
  );
  if (!result) return null;
  await loadModels();
  await loadModel(name);
  const text = describe(result);
  showDone(slot, text);
  announce(text);
  changed("history");
  if (state.samples) await decide(state.samples, { record: false });
  return result;
}
