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

/** Return why a change of the model is not possible, in a sentence, or null if it is. */
export function whyNot(change) {
  if (state.readOnly) return "This server is read-only: models cannot be changed.";
  if (!state.model || state.model.changes.includes(change)) return null;
  return `The model ${state.model.name} cannot learn: its method (${state.model.method}) has to be fitted anew.`;
}

/** Whether decisions are of another version than the model that serves now. */
export const isStale = () => Boolean(state.run && state.model && state.run.version !== state.model.version);
