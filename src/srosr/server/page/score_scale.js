// Where an unknown score lies on a bar or an axis, and what a threshold does to scores.
import { state } from "./state.js";

const FINEST = 1e-9;
const CROWD = 0.9;

/**
 * Whether scores run from 0 to 1 and crowd near 1, as one minus a p-value does: one in twenty known samples is beyond
 * 0.9. They are drawn by −log10(1 − score).
 */
export function isLogarithmic() {
  const range = state.scores?.score_range;
  return Boolean(range && range[0] === 0 && range[1] === 1 && at(state.scores.known, 0.95) >= CROWD);
}

const decades = (score) => -Math.log10(Math.max(1 - score, FINEST));

let cachedFor = null;
let cached = null;

/** Return {place, ticks, name}: place(score) is between 0 and 1, name(tick) its text. */
export function scoreScale() {
  // Without held-out scores the scale is that of the decisions.
  const key = state.scores ?? state.decisions;
  if (key !== cachedFor) cached = isLogarithmic() ? makeLogarithmic() : makeLinear();
  cachedFor = key;
  return cached;
}

function makeLogarithmic() {
  const simulated = state.scores?.simulated ?? [];
  const known = state.scores?.known ?? [];
  const most = Math.max(decades(at(simulated, 0.9)), decades(at(known, 0.998)), 2);
  const end = Math.min(Math.ceil(most), 7);
  const ticks = [0];
  for (let d = 1; d <= end; d += end > 5 ? 2 : 1) ticks.push(1 - 10 ** -d);
  return {
    place: (score) => (Number.isFinite(score) ? Math.min(Math.max(decades(score) / end, 0), 1) : 1),
    ticks,
    name: nameNearOne,
  };
}

/** 0.9, 0.99, 0.999, 1−10⁻⁵: nines are hard to count. */
function nameNearOne(tick) {
  const d = Math.round(decades(tick));
  if (d < 4) return tick.toFixed(d);
  return `1−10⁻${String(d).replace(/./g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit])}`;
}

function makeLinear() {
  const all = [...(state.scores?.known ?? []), ...(state.scores?.simulated ?? [])].sort((a, b) => a - b);
  const seen = all.length ? all : state.decisions.map((d) => d.unknown_score).filter(Number.isFinite);
  const low = all.length ? at(all, 0.002) : seen.reduce((a, b) => Math.min(a, b), 0);
  const high = all.length ? at(all, 0.998) : seen.reduce((a, b) => Math.max(a, b), 1);
  const span = high - low || 1;
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((place) => Number((low + place * span).toPrecision(3)));
  return {
    place: (score) => (Number.isFinite(score) ? Math.min(Math.max((score - low) / span, 0), 1) : 1),
    ticks,
    name: String,
  };
}

/** Return the quantile of sorted numbers, 0 if there are none. */
export function at(sorted, share) {
  return sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] : 0;
}

/** Return how many of sorted scores exceed a threshold. */
export const countAbove = (sorted, threshold) => sorted.length - 1 - sorted.findLastIndex((one) => one <= threshold);

/** Return the smallest threshold that rejects at most this share of the known scores. */
export function thresholdFor(share) {
  const known = state.scores.known;
  const place = Math.max(Math.ceil((1 - share) * known.length - 1e-9), 1) - 1;
  return known[place];
}

/** Return the share of known held-out samples that a threshold rejects. */
export function shareRejected(threshold) {
  const known = state.scores?.known ?? [];
  return known.length ? countAbove(known, threshold) / known.length : null;
}

/** Return what a threshold does to the held-out samples: shares of known rejected and right, of simulated rejected. */
export function effectOf(threshold) {
  const { known, known_right: right, simulated } = state.scores;
  const rejected = countAbove(known, threshold);
  const accepted = right.slice(0, known.length - rejected).filter(Boolean).length;
  return {
    rejected: known.length ? rejected / known.length : null,
    right: known.length ? accepted / known.length : null,
    simulated: simulated.length ? countAbove(simulated, threshold) / simulated.length : null,
  };
}

/** Return the shares of the model as it is: those of its own summary where classes have thresholds of their own. */
export function currentEffect() {
  const { threshold, held_out: held } = state.model;
  if (threshold !== null) return effectOf(threshold);
  return { rejected: held.rejected, right: held.recognized, simulated: held.simulated_unknowns_rejected };
}

/** Return the threshold of the class that a sample comes closest to, of the version that has decided. */
export function thresholdOf(decision) {
  const { classes, thresholds } = state.versions.get(state.run?.version) ?? { classes: [], thresholds: [] };
  return thresholds[classes.indexOf(decision.candidate)] ?? state.run?.threshold ?? null;
}

const bands = new WeakMap();

/**
 * Whether a score is close to its threshold. Where scores crowd near 1: what is missing to 1 is between half and twice
 * what the threshold misses. Elsewhere: a threshold that rejects half or twice as many known samples would decide
 * otherwise.
 */
export function isNear(decision) {
  const threshold = thresholdOf(decision);
  const known = state.scores?.known;
  if (threshold === null || !Number.isFinite(decision.unknown_score) || !known?.length) return false;
  if (!bands.has(known)) bands.set(known, new Map());
  const found = bands.get(known);
  if (!found.has(threshold)) found.set(threshold, findBand(known, threshold));
  const [low, high] = found.get(threshold);
  return decision.unknown_score > low && decision.unknown_score <= high;
}

function findBand(known, threshold) {
  if (isLogarithmic()) return [Math.max(1 - 2 * (1 - threshold), 0), 1 - (1 - threshold) / 2];
  const above = countAbove(known, threshold);
  const quantile = (n) => known[Math.max(known.length - 1 - Math.floor(n), 0)];
  const low = Math.min(quantile(2 * Math.max(above, 1)), threshold);
  const high = above ? Math.max(quantile(above / 2), threshold) : 2 * threshold - low;
  return [low, high];
}
