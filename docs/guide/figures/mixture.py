"""Accuracy depends on the share of unknown samples; normalized accuracy does not."""

import matplotlib.pyplot as plt
import numpy as np
from digits_example import answers, is_known, truth

from srosr._support.plotting import INK, KNOWN_COLOR, UNKNOWN_COLOR, remove_spines

recognized = np.mean(answers[is_known] == truth[is_known])
rejected = np.mean(answers[~is_known] == -1)
share = np.linspace(0, 1, 101)
figure, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
for name, known, unknown, color, dashes in (
    ("SROSRClassifier", recognized, rejected, KNOWN_COLOR, "-"),
    ("rejects everything", 0.0, 1.0, UNKNOWN_COLOR, (0, (6, 2))),
    ("rejects nothing, always right on known samples", 1.0, 0.0, INK, (0, (2, 1.5))),
):
    ax.plot(100 * share, 100 * ((1 - share) * known + share * unknown), color=color, linestyle=dashes, linewidth=2)
    at = 100 * (known + unknown) / 2
    name = f"{name}: normalized accuracy {at:.0f} %"
    ax.plot([], [], color=color, linestyle=dashes, linewidth=2, label=name)
remove_spines(ax)
ax.set(xlim=(0, 100), ylim=(0, 101), xlabel="% of test samples that are unknown", ylabel="accuracy, %")
ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(0.0, -0.16), fontsize="small", handlelength=3.0)
