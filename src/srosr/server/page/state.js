// What the page knows, and who wants to hear of it.

export const state = {
  models: [],
  readOnly: false,
  demo: false,
  /** The chosen model: its entry of the list, its facts and its held-out scores. */
  model: null,
  info: null,
  scores: null,
  /** The samples, the answer's head and the decisions on them. */
  samples: null,
  run: null,
  decisions: [],
  /** Positions in `decisions` that the user has ticked. */
  selected: new Set(),
  /** The threshold being tried: {share, threshold}, or null. */
  trial: null,
  /** Classes and thresholds of the versions that the page has met: decisions are drawn by those they were made with. */
  versions: new Map(),
  /** How many changes of models are under way. */
  changing: 0,
};

const listeners = new Map();

/** Call `listener` when one of the named parts of the state has changed. */
export function on(names, listener) {
  for (const name of names.split(" ")) {
    if (!listeners.has(name)) listeners.set(name, []);
    listeners.get(name).push(listener);
  }
}

/** Tell everyone that these parts have changed; each listener is called once. */
export function changed(names) {
  const called = new Set(names.split(" ").flatMap((name) => listeners.get(name) ?? []));
  for (const listener of called) listener();
}

/** Return why a change of the model is not possible, in the words of the server, or null if it is. */
export function whyNot(change) {
  if (state.readOnly) return "The server is read-only: nothing can be changed.";
  if (!state.model || state.model.changes.includes(change)) return null;
  return `${state.model.name} holds ${state.model.method}, which cannot do ${change}.`;
}

/** Whether decisions are of another version than the model that serves now. */
export const isStale = () => Boolean(state.run && state.model && state.run.version !== state.model.version);
