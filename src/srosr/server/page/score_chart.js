// The scores of held-out known samples and of simulated unknowns, with the threshold between them.
import { h, s } from "./dom.js";
import { countAbove, scoreScale } from "./score_scale.js";
import { state } from "./state.js";
import { percent, score } from "./wording.js";

const WIDTH = 320;
const HEIGHT = 130;
const TOP = 8;
const BOTTOM = 20;
const BINS = 40;

/** Draw both distributions; `trial` is the threshold being tried, or null. */
export function drawScores(threshold, trial) {
  const scale = scoreScale();
  const { known, simulated } = state.scores;
  const x = (value) => 6 + scale.place(value) * (WIDTH - 12);
  const floor = HEIGHT - BOTTOM;
  const shapes = [
    [simulated, "density simulated"],
    [known, "density known"],
  ].map(([scores, name]) => s("path", { class: name, d: outline(countBins(scores, scale), floor) }));
  const line = (value, name) => s("line", { class: name, x1: x(value), x2: x(value), y1: 2, y2: floor });
  const ticks = scale.ticks.map((tick) => {
    const place = x(tick);
    const anchor = place < 20 ? "start" : place > WIDTH - 24 ? "end" : "middle";
    return s("text", { class: "tick-label", x: place, y: HEIGHT - 5, "text-anchor": anchor }, scale.name(tick));
  });
  const shown = trial ?? threshold;
  const samples = `Unknown scores of ${known.length} known samples and ${simulated.length} simulated unknowns.`;
  const above = shown === null ? null : percent(countAbove(known, shown) / known.length);
  const text =
    shown === null ? samples : `${samples} Threshold ${score(shown)}: ${above} of known samples lie above it.`;
  return [
    s(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": text, class: "score-chart" },
      shapes,
      s("line", { class: "axis", x1: 6, x2: WIDTH - 6, y1: floor, y2: floor }),
      ticks,
      threshold === null ? null : line(threshold, trial === null ? "threshold-line" : "threshold-line before"),
      trial === null ? null : line(trial, "threshold-line trial"),
    ),
    makeLegend(simulated.length > 0),
  ];
}

function makeLegend(withSimulated) {
  const entry = (name, text) => [h(`span.swatch.${name}`), text];
  return h(
    "p.chart-legend",
    entry("known", "known samples"),
    withSimulated && entry("simulated", "simulated unknowns"),
  );
}

function countBins(scores, scale) {
  const bins = new Array(BINS).fill(0);
  for (const value of scores) bins[Math.min(BINS - 1, Math.floor(scale.place(value) * BINS))] += 1;
  const most = Math.max(...bins, 1);
  return bins.map((n) => n / most);
}

/** Return the path of a smooth outline: each bin is averaged with its neighbors. */
function outline(bins, floor) {
  const smooth = bins.map((n, i) => (n + 0.5 * ((bins[i - 1] ?? n) + (bins[i + 1] ?? n))) / 2);
  const points = smooth.map(
    (n, i) => `${(6 + ((i + 0.5) / BINS) * (WIDTH - 12)).toFixed(1)},${(floor - n * (floor - TOP)).toFixed(1)}`,
  );
  return `M6,${floor} L${points.join(" L")} L${WIDTH - 6},${floor} Z`;
}
