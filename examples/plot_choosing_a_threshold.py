"""
Choosing a threshold
====================

A threshold turns an unknown score into a decision. A low threshold rejects many unknown
samples, and many known samples with them; a high one accepts both. Where to put it
depends on what errors cost, and you can choose it without a single unknown sample.
``set_threshold`` changes it instantly, because nothing is refitted.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from srosr import SROSRClassifier, mark_unknown, open_set_f_measure

X, y = load_digits(return_X_y=True)
X = X + np.random.default_rng(0).normal(0, 3, X.shape)  # noise, or it is too easy
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
known = y_train < 6
clf = SROSRClassifier(random_state=0).fit(X_train[known], y_train[known])
truth = mark_unknown(y_test, clf.classes_, unknown_label=-1)
unknown = truth == -1

# %%
# Five ways to choose
# -------------------
# - ``target_rejection``: the share of known samples that may be rejected, measured on
#   held-out training samples.
# - ``"risk"``, ``"f"``, ``"youden"``: known classes are left out in turn as simulated
#   unknowns. The threshold is the best one for them by the open set risk (the share of
#   unknown samples accepted plus λ times the share of known samples that do not get
#   their class), by F-measure, or by Youden's J.
# - ``per_class=True``: a threshold for each class, because some classes vary more than
#   others.
# - a number, if you know it.
# - ``calibration="split"``, passed to the constructor: part of the training samples is
#   reserved for the threshold. In return the target is guaranteed (see below).

choices = {
    "target 1 %": {"target_rejection": 0.01},
    "target 5 %": {"target_rejection": 0.05},
    "target 20 %": {"target_rejection": 0.2},
    "per class, 5 %": {"target_rejection": 0.05, "per_class": True},
    '"risk"': {"threshold": "risk"},
    '"risk", λ = 10': {"threshold": "risk", "risk_weight": 10},
    '"f"': {"threshold": "f"},
    '"youden"': {"threshold": "youden"},
    "0.99": {"threshold": 0.99},
}
points = {}
print(f"{'':16}  threshold  known rejected  unknown rejected      F  kind")
for name, choice in choices.items():
    clf.set_threshold(**choice)
    labels = clf.predict(X_test)
    points[name] = np.mean(labels[~unknown] == -1), np.mean(labels[unknown] == -1)
    f = open_set_f_measure(truth, labels, unknown_label=-1)
    print(
        f"{name:16}  {clf.threshold_:9.4f}  {points[name][0]:14.3f}"
        f"  {points[name][1]:16.3f}  {f:.3f}  {clf.threshold_info_.kind}"
    )

# %%
# ``threshold_info_`` says in words where a threshold comes from, and ``thresholds_``
# holds one for each class:

clf.set_threshold(target_rejection=0.05, per_class=True)
print(clf.threshold_info_.detail)
print(dict(zip(clf.classes_.tolist(), clf.thresholds_.round(3).tolist(), strict=True)))

# %%
# A guarantee
# -----------
# With ``calibration="split"`` the threshold is split-conformal. If new samples come
# from the known classes in the proportions of the training samples, the probability
# that one of them is rejected is at most the target. This holds for any data, but on
# average over draws of the training set, not for each draw. The price is a smaller
# dictionary.

split = SROSRClassifier(
    calibration="split", calibration_size=0.25, target_rejection=0.05, random_state=0
)
split.fit(X_train[known], y_train[known])
print(split.threshold_info_.detail)
labels = split.predict(X_test)
points["split, 5 %"] = np.mean(labels[~unknown] == -1), np.mean(labels[unknown] == -1)
print("known rejected {:.3f}, unknown rejected {:.3f}".format(*points["split, 5 %"]))

# %%
# Is a target met on samples that were not used to choose it? Left: the share of known
# test samples rejected, against the target. Right: what every choice means for known
# and unknown samples. The line covers all thresholds of this classifier; the split
# classifier has its own line, which is not shown.

from matplotlib import pyplot as plt

KNOWN, UNKNOWN, INK, PALE = "#1f6f8b", "#d1603d", "#2b2d42", "#b8bcc8"
scores = clf.unknown_score(X_test)
targets = np.linspace(0.01, 0.3, 15)
kept = [
    np.mean(scores[~unknown] > clf.set_threshold(target_rejection=t).threshold_)
    for t in targets
]

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
left.plot(targets, targets, color=PALE, linestyle="--", label="target")
left.plot(targets, kept, color=KNOWN, label="known test samples rejected")
left.set(xlabel="target", ylabel="share")

levels = np.sort(scores)
right.plot(
    [np.mean(scores[~unknown] > t) for t in levels],
    [np.mean(scores[unknown] > t) for t in levels],
    color=PALE,
    zorder=0,
)
for (name, (x, height)), marker in zip(points.items(), "osD^v<>PX*", strict=True):
    right.plot(
        x,
        height,
        marker,
        markersize=8,
        color=KNOWN if "%" in name else UNKNOWN,
        label=name,
        linestyle="none",
    )
right.set(
    xlabel="known samples rejected",
    ylabel="unknown samples rejected",
    xlim=(-0.01, 0.32),
    ylim=(0, 1.02),
)
for ax in (left, right):
    ax.legend(frameon=False, fontsize="small")
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
