"""Unknown scores of known and of unknown test samples, with the threshold between them."""

import matplotlib.pyplot as plt
import numpy as np
from digits_example import clf, is_known, score

from srosr._support.plotting import INK, KNOWN_COLOR, UNKNOWN_COLOR, draw_histogram, remove_spines

figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
edges = np.linspace(0, 1, 41)
draw_histogram(ax, score[is_known], edges, KNOWN_COLOR, "digits 4 to 9, known")
draw_histogram(ax, score[~is_known], edges, UNKNOWN_COLOR, "digits 0 to 3, unknown")
ax.axvline(clf.threshold_, color=INK, linewidth=1.5, linestyle=(0, (4, 2)))
rejected = [np.mean(score[side] > clf.threshold_) for side in (is_known, ~is_known)]
ax.annotate(
    f"threshold {clf.threshold_:.3f}\nrejected beyond it:\n{100 * rejected[0]:.0f} % of known samples,\n"
    f"{100 * rejected[1]:.0f} % of unknown samples",
    (clf.threshold_, 0.97), xycoords=("data", "axes fraction"), xytext=(-8, 0), textcoords="offset points", ha="right",
    va="top", fontsize="small",
)  # fmt: skip
remove_spines(ax)
ax.set(xlim=(0, 1), xlabel="unknown score", ylabel="% of the group")
ax.legend(frameon=False, loc="upper left", fontsize="small")
