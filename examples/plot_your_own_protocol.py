"""
Your own protocol
=================

One split of one data set is an anecdote. A protocol says how to draw known and unknown
classes, many times over, and which methods to run on them; ``srosr reproduce
mine.toml`` runs it and writes tables, figures and a report. This example does the same
from Python, with our own file.
"""

# %%
# The data: an ``.npz`` file with ``X`` and ``y``. A CSV file or a folder of pictures
# works too (:doc:`../datasets`).

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

folder = Path(tempfile.mkdtemp())
X, y = load_digits(return_X_y=True)
np.savez(folder / "mine.npz", X=X, y=np.array([f"digit {d}" for d in range(10)])[y])

# %%
# The protocol: each trial draws six classes as known, with twenty training samples
# each, and one to four of the others as unknown. All methods get the same samples.
# ``[method.NAME]`` sets parameters, or defines a variant under a new name.

(folder / "mine.toml").write_text(
    """
title = "Our digits"
trials = 3
methods = ["calibrated", "strict", "max-logit", "knn"]

[data]
file = "mine.npz"

[known]
classes = 6
train = 20
test = 20

[unknown]
classes = { from = 1, to = 4 }
test = 20

[method.strict]
method = "calibrated"
target_rejection = 0.01
""",
    encoding="utf-8",
)

# %%
# Read it, and check it before running: :func:`~srosr.load_protocol` checks every entry
# and reports what is wrong.

from srosr import load_protocol

protocol = load_protocol(folder / "mine.toml")
print(protocol.title, "-", [setting.name for setting in protocol.methods])
print(
    {
        unknown: f"{100 * openness:.1f} %"
        for unknown, openness in protocol.levels.items()
    }
)

# %%
# Run it. A trial depends only on its number, the seed, the protocol and the data.
# Finished trials are on disk, so a run that was killed resumes where it stopped. The
# folder then holds ``report.html``, figures and tables.

from srosr.experiments.runner import make_executor
from srosr.reports.reproduction import reproduce

outcome = reproduce(protocol, folder / "results", make_executor(jobs=2), seed=0)
print(
    sorted(
        path.name for path in outcome.folder.iterdir() if not path.name.startswith(".")
    )
)

# %%
# One row for each trial, openness, method and metric:

results = outcome.tables["results"]
print(results.head(4).to_string())
at_most = results[results.openness == results.openness.max()]
print(
    at_most.pivot_table(index="method", columns="metric", values="value")[
        ["f", "accuracy", "auroc", "oscr"]
    ].round(3)
)

# %%
# The mean over trials at each openness, with error bars of one standard deviation
# (shifted a little, so that the bars do not overlap).

from matplotlib import pyplot as plt

figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
styles = {
    "calibrated": ("#1f6f8b", "o-"),
    "strict": ("#5b8c5a", "v:"),
    "max-logit": ("#d1603d", "s--"),
    "knn": ("#2b2d42", "^-."),
}
for ax, metric, text in zip(axes, ("f", "auroc"), ("F-measure", "AUROC"), strict=True):
    for place, (method, (color, style)) in enumerate(styles.items()):
        chosen = results[(results.metric == metric) & (results.method == method)]
        values = chosen.groupby("openness").value
        x = 100 * values.mean().index + 0.12 * (place - 1.5)
        ax.errorbar(
            x,
            values.mean(),
            values.std(),
            fmt=style,
            color=color,
            label=method,
            elinewidth=0.8,
        )
    ax.set(xlabel="openness, %", ylabel=text)
    ax.spines[["top", "right"]].set_visible(False)
axes[1].legend(frameon=False, loc="lower right")
plt.show()
