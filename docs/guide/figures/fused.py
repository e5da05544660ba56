"""Fused scores of held-out samples, their distribution, and the scores of simulated unknowns."""

import matplotlib.pyplot as plt
import numpy as np
from digits_example import clf

from srosr._support.plotting import INK, KNOWN_COLOR, UNKNOWN_COLOR, draw_histogram, remove_spines

learned = clf.calibration_
rule = learned.rule
known = rule.fusion.score(learned.held_out.values)
unknowns = rule.simulated.score(learned.simulated.values[learned.simulated.unknown])
limit = rule.distribution.ppf(clf.threshold_)

figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.6), layout="constrained")
edges = np.linspace(known.min(), np.quantile(unknowns, 0.995), 41)
draw_histogram(left, known, edges, KNOWN_COLOR, "held-out known samples")
draw_histogram(left, unknowns, edges, UNKNOWN_COLOR, "simulated unknowns")
left.set_ylabel("% of the group")
left.legend(frameon=False, fontsize="small")
line = np.linspace(edges[0], edges[-1], 400)
right.plot(line, rule.distribution.cdf(line), color=KNOWN_COLOR, linewidth=2)
right.axhline(clf.threshold_, color=INK, linewidth=1, linestyle=(0, (4, 2)))
right.annotate(
    f"threshold {clf.threshold_:.3f}", (edges[-1], clf.threshold_), xytext=(0, -4), textcoords="offset points",
    ha="right", va="top", fontsize="small",
)  # fmt: skip
right.axvline(rule.distribution.tail.u, color=INK, linewidth=0.8, linestyle=":")
right.annotate(
    "tail\nbegins", (rule.distribution.tail.u, 0.05), xytext=(4, 0), textcoords="offset points", fontsize="small"
)
right.set_ylabel("unknown score")
right.set_ylim(0, 1.02)
for ax in (left, right):
    remove_spines(ax)
    ax.set_xlim(edges[0], edges[-1])
    ax.set_xlabel("fused score")
left.axvline(limit, color=INK, linewidth=1, linestyle=(0, (4, 2)))
