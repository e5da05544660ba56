"""
A model in use: promises, another domain, more samples
======================================================

The later digits of scikit-learn come from other writers than the first ones. A model
that is fitted to the first writers rejects too many digits of the later ones.
``recalibrate`` sets its threshold by a hundred fresh samples, ``update`` teaches it
their handwriting.
"""

import copy

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from srosr import SROSRClassifier

X, y = load_digits(return_X_y=True)
known, row = y < 6, np.arange(len(y))
first = known & (row < 800)
clf = SROSRClassifier(calibration="split", target_rejection=0.1, random_state=0)
clf.fit(X[first], y[first])

# %%
# A quarter of the training samples was kept for calibration. For samples like them the
# promise holds, for each class:

print(clf.guarantees())

# %%
# The later writers are not like them. Some of their known digits are fresh samples, the
# others show what happens.

later = np.random.default_rng(0).permutation(np.flatnonzero(known & (row >= 900)))
fresh, test = later[:120], later[120:]
unknown = np.flatnonzero(~known & (row >= 900))
half, other_half = fresh[:60], fresh[60:]

both = copy.copy(clf).update(X[half], y[half])
both.recalibrate(X[other_half], y[other_half])
models = {
    "fitted": clf,
    "recalibrated": copy.copy(clf).recalibrate(X[fresh], y[fresh]),
    "updated": copy.copy(clf).update(X[fresh], y[fresh]),
    "updated and\nrecalibrated": both,
}
rates = {}
for name, model in models.items():
    rates[name] = [model.decide(X[rows]).rejected.mean() for rows in (test, unknown)]
    print(
        " ".join(name.split()), np.round(rates[name], 3), "of known, unknown rejected"
    )

# %%
# Recalibration alone restores the promise, at the price of unknown samples that are now
# accepted. More samples make known and unknown easier to tell apart, but the threshold
# of an updated model speaks of old and new writers together. Both together do best.

fig, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
place = np.arange(len(rates))
ax.axhline(0.1, color="black", linestyle="--", linewidth=1, zorder=0, label="target")
for i, (name, color) in enumerate([("known", "#0072b2"), ("unknown", "#d55e00")]):
    heights = [rate[i] for rate in rates.values()]
    bars = ax.bar(place + 0.4 * i - 0.2, heights, 0.38, label=name, color=color)
    for text in ax.bar_label(bars, fmt="%.2f", fontsize=8, padding=1):
        text.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.5})
ax.set_xticks(place, list(rates))
ax.set(ylabel="share rejected", ylim=(0, 1.1))
fig.legend(ncols=3, loc="outside upper center", frameon=False)

# %%
# Which classes cannot be excluded? A prediction set has one class for most known
# samples and none for most unknown ones.

sets = both.prediction_set(X[np.concatenate([test, unknown])], coverage=0.9)
print(sets)
inside = sets.contains[np.arange(len(test)), y[test]]
print("known samples whose class is in the set:", inside.mean().round(3))

# %%
# Of a batch in which half of the samples is unknown, reject so that at most a fifth of
# the rejected ones is known:

batch = np.concatenate([test[:150], unknown[:150]])
rejected = both.decide(X[batch], fdr=0.2).rejected
share = rejected[:150].sum() / rejected.sum()
print(rejected.sum(), "rejected, of these known:", share.round(3))
