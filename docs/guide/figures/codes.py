"""Codes of a seven and a two over the training samples of 4 to 9, and what each class leaves unexplained."""

import matplotlib.pyplot as plt
import numpy as np
from digits_example import clf, seven, two

from srosr import class_residuals
from srosr._support.plotting import INK, KNOWN_COLOR, PALE, SHADE, UNKNOWN_COLOR, remove_spines

samples = np.stack([seven, two])
codes = clf.encode(samples)
residuals = class_residuals(clf.dictionary_.query(samples), codes, clf.dictionary_)
slices = clf.dictionary_.class_slices

figure, axes = plt.subplots(2, 3, figsize=(8.4, 4.6), width_ratios=[0.55, 2, 1], layout="constrained")
kinds = [("a seven, known", KNOWN_COLOR), ("a two, unknown", UNKNOWN_COLOR)]
for row, picture, code, errors, (title, color) in zip(axes, samples, codes.toarray(), residuals, kinds, strict=True):
    row[0].imshow(picture.reshape(8, 8), cmap="Greys")
    row[0].set_axis_off()
    row[0].set_title(title, fontsize="small", color=color)
    best = int(np.argmin(errors))
    for k, part in enumerate(slices):
        if k % 2 == 0:
            row[1].axvspan(part.start - 0.5, part.stop - 0.5, color=SHADE, linewidth=0, zorder=0)
        used = np.flatnonzero(code[part]) + part.start
        ink = color if k == best else INK
        row[1].vlines(used, 0, code[used], color=ink, linewidth=1.2)
        row[1].plot(used, code[used], "o", color=ink, markersize=3.5)
    row[1].axhline(0, color=INK, linewidth=0.6)
    row[1].set_xticks([(part.start + part.stop - 1) / 2 for part in slices], clf.classes_)
    row[1].set_ylabel("coefficient")
    row[1].set_xlim(-0.5, slices[-1].stop - 0.5)
    row[2].bar(range(len(errors)), errors, color=[color if k == best else PALE for k in range(len(errors))], width=0.72)
    row[2].set_xticks(range(len(errors)), clf.classes_)
    row[2].set_ylim(0, 1.05)
    row[2].set_ylabel("residual $r_k$")
    for ax in row[1:]:
        remove_spines(ax)
        ax.tick_params(axis="x", length=0)
axes[1, 1].set_xlabel("training samples, by class")
axes[1, 2].set_xlabel("class")
