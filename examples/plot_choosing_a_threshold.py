"""
Choosing a threshold
====================

An unknown score becomes a decision by a threshold. A low one refuses many strangers and
many known samples with them; a high one lets both in. Where to put it is a question of
what errors cost, and it can be answered without a single unknown sample.
``set_threshold`` changes it in no time, for nothing is fitted again.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from srosr import SROSRClassifier
from srosr.metrics import mark_unknown, open_set_f_measure

X, y = load_digits(return_X_y=True)
X = X + np.random.default_rng(0).normal(0, 3, X.shape)  # noise, or all is too easy
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
known = y_train < 6
clf = SROSRClassifier(random_state=0).fit(X_train[known], y_train[known])
truth = mark_unknown(y_test, clf.classes_, unknown_label=-1)
strange = truth == -1

# %%
# Five ways to say what is wanted
# -------------------------------
# - ``target_rejection``: the share of known samples that may be refused, by held-out
#   training samples.
# - ``"risk"``, ``"f"``, ``"youden"``: known classes are left out in turn and play the
#   strangers; the threshold is the best on them by the open set risk (the share of
#   strangers accepted plus λ times the share of known samples that are not given their
#   class), by F-measure, or by Youden's J.
# - ``per_class=True``: a target for each class of its own, for classes differ in how
#   much they vary.
# - a number, if you know it.
# - ``calibration="split"``, given to the constructor: a part of the training samples is
#   kept out of everything else. In return the target is a guarantee (see below).

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
print(f"{'':16}  threshold  known refused  unknown refused      F  kind")
for name, choice in choices.items():
    clf.set_threshold(**choice)
    labels = clf.predict(X_test)
    points[name] = np.mean(labels[~strange] == -1), np.mean(labels[strange] == -1)
    f = open_set_f_measure(truth, labels, unknown_label=-1)
    print(
        f"{name:16}  {clf.threshold_:9.4f}  {points[name][0]:13.3f}"
        f"  {points[name][1]:15.3f}  {f:.3f}  {clf.threshold_info_.kind}"
    )

# %%
# ``threshold_info_`` says in words where a threshold comes from, and ``thresholds_``
# has one for each class:

clf.set_threshold(target_rejection=0.05, per_class=True)
print(clf.threshold_info_.detail)
print(dict(zip(clf.classes_.tolist(), clf.thresholds_.round(3).tolist(), strict=True)))

# %%
# A guarantee
# -----------
# With ``calibration="split"`` the threshold is split-conformal. If new samples come
# from the known classes in the proportions of the training samples, the chance that one
# of them is refused is at most the target: whatever the data, but on the average over
# drawings of training samples, not for each of them. The price is a smaller dictionary.

split = SROSRClassifier(
    calibration="split", calibration_size=0.25, target_rejection=0.05, random_state=0
)
split.fit(X_train[known], y_train[known])
print(split.threshold_info_.detail)
labels = split.predict(X_test)
points["split, 5 %"] = np.mean(labels[~strange] == -1), np.mean(labels[strange] == -1)
print("known refused {:.3f}, unknown refused {:.3f}".format(*points["split, 5 %"]))

# %%
# Is a target kept on samples that had no part in choosing it? On the left the share of
# known test samples that was refused against the target; on the right what every choice
# means for known and unknown samples. The line is what all thresholds of this
# classifier can do; the split classifier has a line of its own.

from matplotlib import pyplot as plt

KNOWN, UNKNOWN, INK, PALE = "#1f6f8b", "#d1603d", "#2b2d42", "#b8bcc8"
scores = clf.unknown_score(X_test)
targets = np.linspace(0.01, 0.3, 15)
kept = [
    np.mean(scores[~strange] > clf.set_threshold(target_rejection=t).threshold_)
    for t in targets
]

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
left.plot(targets, targets, color=PALE, linestyle="--", label="as asked")
left.plot(targets, kept, color=KNOWN, label="known test samples refused")
left.set(xlabel="target", ylabel="share")

levels = np.sort(scores)
right.plot(
    [np.mean(scores[~strange] > t) for t in levels],
    [np.mean(scores[strange] > t) for t in levels],
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
    xlabel="known samples refused",
    ylabel="unknown samples refused",
    xlim=(-0.01, 0.32),
    ylim=(0, 1.02),
)
for ax in (left, right):
    ax.legend(frameon=False, fontsize="small")
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
