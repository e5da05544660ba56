"""The trade-off between thresholds: each rejects some known samples and accepts some unknown ones."""

import matplotlib.pyplot as plt
import numpy as np
from digits_example import candidate, clf, is_known, score, truth

from srosr._support.plotting import KNOWN_COLOR, UNKNOWN_COLOR, remove_spines

levels = np.sort(score)
known, unknown = score[is_known], score[~is_known]
right = score[is_known & (candidate == truth)]
rejected_known = 1 - np.searchsorted(np.sort(known), levels, side="right") / len(known)
recognized = np.searchsorted(np.sort(right), levels, side="right") / len(known)
rejected_unknown = 1 - np.searchsorted(np.sort(unknown), levels, side="right") / len(unknown)

figure, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
ax.plot(
    100 * rejected_known, 100 * rejected_unknown, color=UNKNOWN_COLOR, linewidth=2, label="unknown samples rejected"
)
ax.plot(100 * rejected_known, 100 * recognized, color=KNOWN_COLOR, linewidth=2, label="known samples recognized")
for target in (0.01, 0.05, 0.2):
    at = clf.set_threshold(target_rejection=target).threshold_
    x, low = 100 * np.mean(known > at), 100 * np.mean(unknown > at)
    ax.plot(x, low, "o", color=UNKNOWN_COLOR)
    ax.plot(x, 100 * np.sum(right <= at) / len(known), "o", color=KNOWN_COLOR)
    ax.annotate(f"target {100 * target:.0f} %", (x, low), xytext=(6, -11), textcoords="offset points", fontsize="small")
clf.set_threshold()
remove_spines(ax)
ax.set(xlim=(0, 40), ylim=(0, 101), xlabel="% of known samples rejected", ylabel="%")
ax.legend(frameon=False, loc="lower right", fontsize="small")
