// The unknown score as a bar against the mark of the threshold.
import { bar } from "./cards.js";
import { h } from "./dom.js";
import { scoreScale, thresholdOf } from "./score_scale.js";
import { state } from "./state.js";
import { score } from "./wording.js";

/** Return a bar: filled up to the score, with a mark at the threshold and one at the threshold being tried. */
export function scoreBar(decision) {
  const share = scoreScale().place(decision.unknown_score);
  const drawn = bar("bar", share, decision.verdict === "rejected" ? ".rejected" : "");
  const threshold = thresholdOf(decision);
  if (threshold !== null) drawn.append(mark("span.bar-mark", threshold));
  markTrial(drawn);
  return h("span.score", drawn, h("span.score-number", score(decision.unknown_score)));
}

/** Set the mark of the threshold being tried on a bar, or take it away. */
export function markTrial(drawn) {
  drawn.querySelector(".trial")?.remove();
  if (state.trial) drawn.append(mark("span.bar-mark.trial", state.trial.threshold));
}

const mark = (kind, threshold) => h(kind, { style: { left: `${100 * scoreScale().place(threshold)}%` } });
