// Numbers, counts and names as people write them.

const whole = new Intl.NumberFormat("en-US");

/** 1234 → "1,234". */
export const number = whole.format;

/** count(1, "sample") → "1 sample", count(3, "class", "classes") → "3 classes". */
export const count = (n, one, many = `${one}s`) => `${number(n)} ${n === 1 ? one : many}`;

// Between a number and its sign no line breaks.
const SIGN = "\u00a0%";

/** 0.0483 → "4.8 %"; small shares keep two digits. */
export function percent(share) {
  if (!Number.isFinite(share)) return "–";
  const value = 100 * share;
  if (value > 0 && value < 0.01) return `< 0.01${SIGN}`;
  const digits = (value > 0 && value < 1) || (value > 99.9 && value < 100) ? 2 : 1;
  return `${Number(value.toFixed(digits))}${SIGN}`;
}

const MOST_DIGITS = 9;

/** An unknown score with enough digits: 0.42, 0.958, 0.99998. The mode of rounding may also be "ceil" or "floor". */
export function score(value, roundingMode = "halfExpand") {
  if (!Number.isFinite(value)) return "–";
  const crowded = value > 0.99 && value < 1;
  const digits = crowded
    ? { maximumFractionDigits: Math.min(MOST_DIGITS, Math.ceil(-Math.log10(1 - value)) + 1) }
    : { maximumSignificantDigits: 3 };
  const format = new Intl.NumberFormat("en-US", { ...digits, roundingMode, useGrouping: false });
  const rounded = Number(format.format(value));
  if (crowded && rounded === 1 && roundingMode !== "ceil") return `> ${1 - 10 ** -MOST_DIGITS}`;
  return String(rounded);
}

/** The threshold of a model, or that each class has its own. */
export const nameThreshold = (threshold) => (threshold === null ? "one for each class" : score(threshold));

// British English has no comma before the last of a list.
const disjunction = new Intl.ListFormat("en-GB", { type: "disjunction" });
const conjunction = new Intl.ListFormat("en-GB", { type: "conjunction" });

/** ["1", "3", "8"] → "1, 3 or 8". */
export const listOr = (names) => disjunction.format(names);

/** ["1", "3", "8"] → "1, 3 and 8". */
export const listAnd = (names) => conjunction.format(names);

/** Compare names as people order them: "class 2" comes before "class 10". */
export const compareNames = new Intl.Collator("en", { numeric: true }).compare;

/** Bytes as "1.2 MB". */
export function bytes(n) {
  if (n < 1000) return `${n} bytes`;
  if (n < 1e6) return `${Math.round(n / 1000)} kB`;
  return `${Number((n / 1e6).toPrecision(3))} MB`;
}

/** A time as the reader's clock shows it. */
export function time(iso) {
  const date = new Date(iso);
  if (Number.isNaN(date.getTime())) return iso ?? "–";
  const today = new Date().toDateString() === date.toDateString();
  const options = today ? { timeStyle: "medium" } : { dateStyle: "medium", timeStyle: "short" };
  return date.toLocaleString(undefined, options);
}
