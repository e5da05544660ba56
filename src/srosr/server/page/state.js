// What the page knows, and who wants to hear of it.

export const state = {
  models: [],
  readOnly: false,
  demo: false,
  /** The facts of the chosen model, with what is wrong with its file as `problem`, and its held-out scores. */
  model: null,
  scores: null,
  /** The samples, the answer of the server without its decisions, and the decisions. */
  samples: null,
  run: null,
  decisions: [],
  /** Positions in `decisions` that the user has ticked. */
  selected: new Set(),
  /** The threshold being tried: {share, threshold}, or null. */
  trial: null,
  /** The models by version that the page has met: decisions are drawn by the thresholds they were made with. */
  versions: new Map(),
  /** How many changes of models are under way. */
  changing: 0,
};

const listeners = [];

/** Call `listener` when one of the named parts of the state has changed. */
export const on = (names, listener) => listeners.push([new Set(names.split(" ")), listener]);

/** Tell everyone that these parts have changed; each listener is called once. */
export function changed(names) {
  const parts = new Set(names.split(" "));
  for (const [wanted, listener] of listeners) if (!wanted.isDisjointFrom(parts)) listener();
}

/** Return why a change of the model is not possible, in the words of the server, or null if it is. */
export function whyNot(change) {
  if (state.readOnly) return "The server is read-only: nothing can be changed.";
  if (!state.model || state.model.changes.includes(change)) return null;
  return `${state.model.name} holds ${state.model.method}, which cannot do ${change}.`;
}

/** Whether decisions are of another version than the model that serves now. */
export const isStale = () => Boolean(state.run && state.model && state.run.version !== state.model.version);

/** Return the decisions with this verdict. */
export const decided = (verdict) => state.decisions.filter((decision) => decision.verdict === verdict);
