// Work that takes a while: a bar, what is being done, a way to cancel it, and its error where it was started.
import { announce, fill, focusHeading, h } from "./dom.js";
import { number } from "./wording.js";

const running = new WeakMap();

/**
 * Run `work({signal, onProgress})`, showing it in `slot`. Return its result, or null if it failed or was cancelled;
 * `cancelled` says what is then; `again` starts it once more after an error.
 */
export async function runJob(slot, title, work, { cancelled = "Cancelled.", again = null } = {}) {
  running.get(slot)?.abort();
  const control = new AbortController();
  running.set(slot, control);
  const bar = h("progress", { ariaLabel: title });
  const stage = h("span", title);
  const cancel = h("button.button.small", { onclick: () => control.abort() }, "Cancel");
  // Work that is over at once should not flash a bar.
  const shown = setTimeout(() => fill(slot, h("div.job-line", stage, cancel), bar), 150);
  fill(slot);
  const onProgress = ({ stage: name, done, of }) => {
    if (of) Object.assign(bar, { max: of, value: done });
    else bar.removeAttribute("value");
    stage.textContent = of ? `${name}: ${number(done)} of ${number(of)}` : name;
  };
  try {
    const result = await work({ signal: control.signal, onProgress });
    if (running.get(slot) === control) finish(slot, () => fill(slot));
    return result;
  } catch (error) {
    if (running.get(slot) !== control) return null;
    if (error.name === "AbortError") {
      finish(slot, () => fill(slot, h("p.quiet", cancelled)));
      announce(cancelled);
    } else finish(slot, () => showError(slot, error, again));
    return null;
  } finally {
    clearTimeout(shown);
    if (running.get(slot) === control) running.delete(slot);
  }
}

/** Put the end of a job into its slot; a focus that was on its button does not fall out of the page. */
function finish(slot, show) {
  const held = slot.contains(document.activeElement);
  show();
  if (!held) return;
  slot.tabIndex = -1;
  if (slot.childElementCount) slot.focus({ preventScroll: true });
  else focusHeading(slot);
}

/** Cancel what runs in a slot without a word, and empty the slot: what it was about is gone. */
export function dropJob(slot) {
  running.get(slot)?.abort();
  running.delete(slot);
  fill(slot);
}

/** Empty a slot that only says how something ended. */
export function clearNotice(slot) {
  if (!running.has(slot)) fill(slot);
}

/** Empty all slots on the page that only say how something ended. */
export const clearNotices = () => document.querySelectorAll(".slot").forEach(clearNotice);

/** Show an error, in the server's words, next to what caused it; `again` is what a button to try again does. */
export function showError(slot, error, again = null) {
  if (error.status === undefined) console.error(error); // a mistake in the page, not an answer
  const close = () => finish(slot, () => fill(slot));
  const retry = again && h("button.button.small", { onclick: () => finish(slot, again) }, "Try again");
  const dismiss = h("button.close", { ariaLabel: "Dismiss", onclick: close }, "×");
  fill(slot, h("div.error", { role: "alert" }, h("p", error.message), retry, dismiss));
}

/** Show how something ended, in words that the caller announces. */
export const showDone = (slot, text) => fill(slot, h("p.done", text));
