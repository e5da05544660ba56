// The unknown score as a bar against the mark of the threshold.
import { h } from "./dom.js";
import { scoreScale, thresholdOf } from "./score_scale.js";
import { state } from "./state.js";
import { score as inWords } from "./wording.js";

/** Return a bar: filled up to the score, with a mark at the threshold and one at the threshold being tried. */
export function scoreBar(decision, size = "") {
  const scale = scoreScale();
  const threshold = thresholdOf(decision);
  const rejected = decision.verdict === "rejected";
  const filled = h("span", { class: rejected ? "bar-fill rejected" : "bar-fill" });
  filled.style.width = `${100 * scale.place(decision.unknown_score)}%`;
  const bar = h("span", { class: `bar ${size}`, "aria-hidden": "true" }, filled);
  if (threshold !== null) bar.append(mark("bar-mark", scale.place(threshold)));
  markTrial(bar);
  return h("span", { class: "score" }, bar, h("span", { class: "score-number" }, inWords(decision.unknown_score)));
}

/** Set the mark of the threshold being tried on a bar, or take it away. */
export function markTrial(bar) {
  bar.querySelector(".trial")?.remove();
  if (state.trial) bar.append(mark("bar-mark trial", scoreScale().place(state.trial.threshold)));
}

function mark(name, place) {
  const line = h("span", { class: name });
  line.style.left = `${100 * place}%`;
  return line;
}
