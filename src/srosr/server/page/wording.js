// Numbers and counts as people write them.

const whole = new Intl.NumberFormat("en-US");

/** 1234 → "1,234". */
export const number = (value) => whole.format(value);

/** count(1, "sample") → "1 sample", count(3, "class", "classes") → "3 classes". */
export const count = (n, one, many = `${one}s`) => `${number(n)} ${n === 1 ? one : many}`;

// Between a number and its sign no line breaks.
const SIGN = "\u00a0%";

/** 0.0483 → "4.8 %"; small shares keep two digits. */
export function percent(share) {
  if (share === null || share === undefined || !Number.isFinite(share)) return "–";
  const value = 100 * share;
  if (value > 0 && value < 0.01) return `< 0.01${SIGN}`;
  const digits = (value > 0 && value < 1) || (value > 99.9 && value < 100) ? 2 : 1;
  return `${Number(value.toFixed(digits))}${SIGN}`;
}

const MOST_DIGITS = 9;

/**
 * An unknown score with enough digits: 0.42, 0.958, 0.99998. `round` says where the last digit goes: Math.round to the
 * nearest, Math.ceil up, Math.floor down.
 */
export function score(value, round = Math.round) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value > 0.99 && value < 1) {
    const digits = Math.min(MOST_DIGITS, Math.ceil(-Math.log10(1 - value)) + 1);
    const rounded = round(exactly(value * 10 ** digits)) / 10 ** digits;
    if (rounded >= 1) return round === Math.ceil ? "1" : `> ${(1 - 10 ** -MOST_DIGITS).toFixed(MOST_DIGITS)}`;
    return rounded.toFixed(digits).replace(/(9\d?)0+$/, "$1");
  }
  const digits = value === 0 ? 0 : 2 - Math.floor(Math.log10(Math.abs(value)));
  const step = 10 ** Math.abs(digits);
  const rounded = digits < 0 ? round(exactly(value / step)) * step : round(exactly(value * step)) / step;
  return Number(rounded.toPrecision(4)).toString();
}

/** Take away what a product of floating point numbers has too much in its last digits. */
const exactly = (value) => Number(value.toPrecision(15));

/** The threshold of a model, or that each class has its own. */
export const nameThreshold = (threshold) => (threshold === null ? "one for each class" : score(threshold));

/** Names as a list: "3", "3 or 8", "1, 3 or 8". */
export function listOr(names, word = "or") {
  if (names.length < 2) return names.join("");
  return `${names.slice(0, -1).join(", ")} ${word} ${names.at(-1)}`;
}

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
  return new Intl.DateTimeFormat(undefined, options).format(date);
}
