"""Openness by the number of unknown classes."""

import matplotlib.pyplot as plt

from srosr import openness
from srosr._support.plotting import INK, KNOWN_COLOR, UNKNOWN_COLOR, remove_spines

STROKES = {6: (KNOWN_COLOR, "-"), 10: (UNKNOWN_COLOR, (0, (6, 2))), 20: (INK, (0, (2, 1.5)))}
# Known classes, unknown classes at the largest level, and the offset of the name from the dot.
PAPER = {
    "MNIST": (6, 4, (-6, 5)),
    "UIUC": (10, 10, (6, -13)),
    "Yale B": (10, 28, (-6, 5)),
    "Caltech": (20, 40, (12, -15)),
}
figure, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
for n, (color, dashes) in STROKES.items():
    values = [100 * openness(n, n, n + more) for more in range(41)]
    ax.plot(values, color=color, linestyle=dashes, linewidth=2)
    ax.annotate(
        f"{n} known classes", (40, values[-1]), xytext=(8, 0), textcoords="offset points", va="center", color=color
    )
for name, (n, more, place) in PAPER.items():
    at = 100 * openness(n, n, n + more)
    ax.plot(more, at, "o", color=STROKES[n][0], clip_on=False)
    side = "right" if place[0] < 0 or name == "Caltech" else "left"
    ax.annotate(name, (more, at), xytext=place, textcoords="offset points", fontsize="small", ha=side)
remove_spines(ax)
ax.set(xlim=(0, 40), ylim=(0, None), xlabel="unknown classes in the test", ylabel="openness, %")
