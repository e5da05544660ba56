// Which decisions are shown, and in which order.
import { isNear } from "./score_scale.js";
import { state } from "./state.js";
import { compareNames } from "./wording.js";

/** The fields of the form above the table, and the column that orders it. */
export const filter = { kind: "all", label: "", text: "" };
export const order = { by: "row", down: false };

/** Whether the threshold being tried would decide otherwise; a sample without a score is rejected by each. */
export function wouldChange(decision) {
  if (!state.trial || !Number.isFinite(decision.unknown_score)) return false;
  return decision.unknown_score > state.trial.threshold !== (decision.verdict === "rejected");
}

/** The kinds of decisions that can be shown. */
export const KINDS = {
  all: () => true,
  rejected: (d) => d.verdict === "rejected",
  recognized: (d) => d.verdict === "recognized",
  near: isNear,
  changes: wouldChange,
};

/** Return the name of the sample that a decision is on. */
export const nameOf = (decision) => decision.file ?? state.samples?.describe(decision.row) ?? `Row ${decision.row}`;

const KEYS = {
  row: (d) => d.row,
  label: (d) => (d.verdict === "rejected" ? "\uffff" : d.label),
  truth: (d) => state.samples?.truth(d.row) ?? "",
  score: (d) => d.unknown_score ?? Infinity,
  candidate: (d) => d.candidate,
  set: (d) => d.prediction_set?.length ?? 0,
};

/** Return the places in `state.decisions` of those shown, in their order. */
export function choosePlaces() {
  const text = filter.text.trim().toLowerCase();
  const fits = (decision) =>
    KINDS[filter.kind](decision) &&
    (!filter.label || decision.candidate === filter.label) &&
    `${nameOf(decision)} ${decision.label} ${decision.candidate}`.toLowerCase().includes(text);
  const key = (place) => KEYS[order.by](state.decisions[place]);
  const compare = (a, b) => (typeof a === "number" ? a - b : compareNames(a, b));
  const sign = order.down ? -1 : 1;
  const places = [...state.decisions.keys()].filter((place) => fits(state.decisions[place]));
  return places.sort((a, b) => sign * compare(key(a), key(b)) || a - b);
}
