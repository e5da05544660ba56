"""Accuracy depends on how many strangers are met; normalised accuracy does not."""

import matplotlib.pyplot as plt
import numpy as np
from digits_example import answers, is_known, truth

from srosr._support.plotting import INK, KNOWN_COLOUR, UNKNOWN_COLOUR, tidy

recognised = np.mean(answers[is_known] == truth[is_known])
refused = np.mean(answers[~is_known] == -1)
share = np.linspace(0, 1, 101)
figure, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
for name, known, unknown, colour, dashes in (
    ("SROSRClassifier", recognised, refused, KNOWN_COLOUR, "-"),
    ("refuses everything", 0.0, 1.0, UNKNOWN_COLOUR, (0, (6, 2))),
    ("refuses nothing, always right on known samples", 1.0, 0.0, INK, (0, (2, 1.5))),
):
    ax.plot(100 * share, 100 * ((1 - share) * known + share * unknown), color=colour, linestyle=dashes, linewidth=2)
    at = 100 * (known + unknown) / 2
    name = f"{name}: normalised accuracy {at:.0f} %"
    ax.plot([], [], color=colour, linestyle=dashes, linewidth=2, label=name)
tidy(ax)
ax.set(xlim=(0, 100), ylim=(0, 101), xlabel="% of test samples that are strangers", ylabel="accuracy, %")
ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(0.0, -0.16), fontsize="small", handlelength=3.0)
