"""Confidence of a softmax over the plane, and at an unknown sample far from all classes."""

import matplotlib.pyplot as plt
from sklearn.linear_model import LogisticRegression
from three_clouds import COLORS, X, grid, side, unknown, y

from srosr._support.plotting import INK, UNKNOWN_COLOR

softmax = LogisticRegression().fit(X, y)
confidence = softmax.predict_proba(grid).max(axis=1).reshape(len(side), len(side))
value = softmax.predict_proba(unknown).max()

figure, ax = plt.subplots(figsize=(5.4, 4.2), layout="constrained")
drawn = ax.imshow(
    confidence, origin="lower", extent=(-6, 6, -6, 6), vmin=0.3, vmax=1.6, cmap="Greys", interpolation="bilinear",
    aspect="auto",
)  # fmt: skip
for k, color in enumerate(COLORS):
    ax.plot(*X[y == k].T, "o", color=color, markersize=3.5, markeredgewidth=0)
ax.plot(*unknown.T, "*", color=UNKNOWN_COLOR, markersize=15, markeredgecolor=INK, markeredgewidth=0.6)
ax.annotate(
    f"unknown sample:\nprobability {value:.3f}", unknown[0], xytext=(0, -14), textcoords="offset points", ha="center",
    va="top", fontsize="small", bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5},
)  # fmt: skip
ax.set(xticks=[], yticks=[])
bar = figure.colorbar(drawn, ax=ax, label="largest softmax probability", ticks=[0.4, 0.6, 0.8, 1.0])
bar.ax.set_ylim(0.3, 1.0)
