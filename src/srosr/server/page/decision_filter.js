// Which decisions are shown, and in which order.
import { isNear } from "./score_scale.js";
import { state } from "./state.js";

export const filter = { kind: "all", label: "", text: "" };
export const order = { by: "row", down: false };

/** Whether the threshold being tried would decide otherwise; a sample without a score is rejected by each. */
export function wouldChange(decision) {
  if (!state.trial || !Number.isFinite(decision.unknown_score)) return false;
  return decision.unknown_score > state.trial.threshold !== (decision.verdict === "rejected");
}

const KINDS = {
  all: () => true,
  rejected: (d) => d.verdict === "rejected",
  recognized: (d) => d.verdict === "recognized",
  near: isNear,
  changes: wouldChange,
};

/** Return how many decisions there are of each kind. */
export function countKinds() {
  const counts = { all: 0, rejected: 0, recognized: 0, near: 0, changes: 0 };
  for (const decision of state.decisions) {
    for (const kind of Object.keys(counts)) if (KINDS[kind](decision)) counts[kind] += 1;
  }
  return counts;
}

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
  const fits = KINDS[filter.kind];
  const text = filter.text.trim().toLowerCase();
  const places = [];
  state.decisions.forEach((decision, place) => {
    if (!fits(decision)) return;
    if (filter.label && decision.candidate !== filter.label) return;
    if (text && !`${nameOf(decision)} ${decision.label} ${decision.candidate}`.toLowerCase().includes(text)) return;
    places.push(place);
  });
  const key = KEYS[order.by];
  const sign = order.down ? -1 : 1;
  const compare = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));
  if (order.by !== "row" || order.down) {
    places.sort((a, b) => sign * compare(key(state.decisions[a]), key(state.decisions[b])) || a - b);
  }
  return places;
}
