"""The fused score of held-out samples, its distribution, and where pretended strangers lie."""

import matplotlib.pyplot as plt
import numpy as np
from digits_example import clf

from srosr._support.plotting import INK, KNOWN_COLOUR, UNKNOWN_COLOUR, histogram, tidy

learnt = clf.calibration_
rule = learnt.rule
known = rule.fusion.score(learnt.held_out.values)
strangers = rule.simulated.score(learnt.simulated.values[learnt.simulated.stranger])
limit = rule.distribution.ppf(clf.threshold_)

figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.6), layout="constrained")
edges = np.linspace(known.min(), np.quantile(strangers, 0.995), 41)
histogram(left, known, edges, KNOWN_COLOUR, "held-out known samples")
histogram(left, strangers, edges, UNKNOWN_COLOUR, "pretended strangers")
left.set_ylabel("% of its kind")
left.legend(frameon=False, fontsize="small")
line = np.linspace(edges[0], edges[-1], 400)
right.plot(line, rule.distribution.cdf(line), color=KNOWN_COLOUR, linewidth=2)
right.axhline(clf.threshold_, color=INK, linewidth=1, linestyle=(0, (4, 2)))
right.annotate(
    f"threshold {clf.threshold_:.3f}", (edges[-1], clf.threshold_), xytext=(0, -4), textcoords="offset points",
    ha="right", va="top", fontsize="small",
)  # fmt: skip
right.axvline(rule.distribution.tail.u, color=INK, linewidth=0.8, linestyle=":")
right.annotate(
    "tail\nfrom here", (rule.distribution.tail.u, 0.05), xytext=(4, 0), textcoords="offset points", fontsize="small"
)
right.set_ylabel("unknown score")
right.set_ylim(0, 1.02)
for ax in (left, right):
    tidy(ax)
    ax.set_xlim(edges[0], edges[-1])
    ax.set_xlabel("fused score")
left.axvline(limit, color=INK, linewidth=1, linestyle=(0, (4, 2)))
