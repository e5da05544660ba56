"""The same classifier twice: with a class for every point, and with rejection."""

import matplotlib.pyplot as plt
from matplotlib.colors import ListedColormap
from three_clouds import COLORS, X, grid, side, unknown, y

from srosr import KNNDistance
from srosr._support.plotting import INK, UNKNOWN_COLOR

clf = KNNDistance(random_state=0).fit(X, y)
panels = {
    "closed set: every point has a class": (clf.candidate(grid), clf.candidate(unknown)[0]),
    "open set: every class has a boundary": (clf.predict(grid), clf.predict(unknown)[0]),
}
figure, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained", sharex=True, sharey=True)
for ax, (title, (answers, answer)) in zip(axes, panels.items(), strict=True):
    ax.imshow(
        answers.reshape(len(side), len(side)), origin="lower", extent=(-6, 6, -6, 6), vmin=-1, vmax=2, alpha=0.28,
        cmap=ListedColormap(["white", *COLORS]), interpolation="nearest",
    )  # fmt: skip
    for k, color in enumerate(COLORS):
        ax.plot(*X[y == k].T, "o", color=color, markersize=3.5, markeredgewidth=0)
    for place, name, color in zip([(-2.0, -3.1), (2.0, -4.1), (0.7, 4.4)], "ABC", COLORS, strict=True):
        ax.text(*place, f"class {name}", ha="center", color=color, weight="bold")
    ax.plot(*unknown.T, "*", color=UNKNOWN_COLOR, markersize=15, markeredgecolor=INK, markeredgewidth=0.6)
    text = f"unknown sample,\nanswer: {'ABC'[answer] if answer >= 0 else 'unknown'}"
    ax.annotate(text, unknown[0], xytext=(0, -14), textcoords="offset points", ha="center", va="top", fontsize="small")
    ax.set_title(title, fontsize="medium")
    ax.set(xticks=[], yticks=[], xlim=(-6, 6), ylim=(-6, 6))
