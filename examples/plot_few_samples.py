"""
Embeddings with few samples per class
=====================================

Embeddings from a neural network are vectors of unit length in which related classes lie
near each other. Often only a few are labeled: five pictures of a product, five
recordings of a voice. This example generates such vectors, learns from five of each
class, and shows what one, two or ten would change.
"""

# %%
# Forty classes in eight groups: the direction of a class is near that of its group. A
# sample deviates from its class along a few directions that all classes share (in
# pictures: pose, light) and by some noise.

import numpy as np


def make_embeddings(n_classes=40, n_groups=8, n_each=30, n_features=128, seed=0):
    rng = np.random.default_rng(seed)
    groups = rng.normal(size=(n_groups, n_features))
    centers = groups[np.arange(n_classes) % n_groups] + rng.normal(
        size=(n_classes, n_features)
    )
    shared = rng.normal(size=(6, n_features))
    y = np.repeat(np.arange(n_classes), n_each)
    X = (
        centers[y]
        + 0.6 * rng.normal(size=(len(y), 6)) @ shared
        + 1.1 * rng.normal(size=(len(y), n_features))
    )
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


X, y = make_embeddings()
is_known = y < 25
print(
    X.shape,
    "classes:",
    len(np.unique(y)),
    "known:",
    len(np.unique(y[is_known])),
)

# %%
# The first samples of each known class are for training, the last twenty of every class
# for testing.

place = np.tile(np.arange(30), 40)
test = place >= 10


def training(n):
    chosen = is_known & (place < n)
    return X[chosen], y[chosen]


# %%
# Learn from five of each. Samples are held out in turn, so even this few are enough for
# thresholds and tails. A class with fewer than ten samples shares the tails of all
# classes.

from srosr import (
    SROSRClassifier,
    mark_unknown,
    open_set_auroc,
    recognition_accuracy,
    rejection_accuracy,
)

clf = SROSRClassifier(random_state=0).fit(*training(5))
truth = mark_unknown(y[test], clf.classes_, unknown_label=-1)
labels, scores = clf.predict(X[test]), clf.unknown_score(X[test])
print(f"threshold {clf.threshold_:.3f}: {clf.threshold_info_.detail}")
recognized = recognition_accuracy(truth, labels, unknown_label=-1)
rejected = rejection_accuracy(truth, labels, unknown_label=-1)
print(f"known samples recognized {recognized:.3f}")
print(f"known samples rejected   {np.mean(labels[truth != -1] == -1):.3f}")
print(f"unknown samples rejected {rejected:.3f}")

# %%
# With one sample per class nothing can be held out. Known classes are then left out in
# turn as simulated unknowns, the threshold accepts 5 % of those, and a
# :class:`~srosr.CalibrationWarning` says so. We silence it here.

import warnings

from srosr import CalibrationWarning

rows = []
for n in (1, 2, 3, 5, 7, 10):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        few = SROSRClassifier(random_state=0).fit(*training(n))
    answers = few.predict(X[test])
    rows.append(
        (
            n,
            open_set_auroc(truth, few.unknown_score(X[test]), unknown_label=-1),
            np.mean(answers[truth != -1] == -1),
            rejection_accuracy(truth, answers, unknown_label=-1),
        )
    )
    text = (
        "{:2d} each: AUROC {:.3f}, rejected {:.3f} of known, {:.3f} of unknown samples"
    )
    print(text.format(*rows[-1]))

# %%
# Left: scores of the classifier with five samples per class, as −log₁₀ of the p-value.
# Right: the effect of more samples. The dotted line is the target share of known
# samples to reject.

from matplotlib import pyplot as plt

KNOWN, UNKNOWN, INK = "#1f6f8b", "#d1603d", "#2b2d42"
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
surprise = -clf.log_p_value(X[test]) / np.log(10)
bins = np.linspace(0, surprise.max(), 40)
left.hist(
    surprise[truth != -1],
    bins,
    color=KNOWN,
    alpha=0.6,
    density=True,
    label="25 known classes",
)
left.hist(
    surprise[truth == -1],
    bins,
    color=UNKNOWN,
    alpha=0.6,
    density=True,
    label="15 unknown classes",
)
left.axvline(
    -np.log10(1 - clf.threshold_),
    color=INK,
    linewidth=1,
    linestyle="--",
    label="threshold",
)
left.set(
    title="five samples per class", xlabel="−log₁₀ of the p-value", ylabel="density"
)

n, auroc, known_rejected, unknown_rejected = np.transpose(rows)
right.plot(n, auroc, "o-", color=INK, label="AUROC")
right.plot(n, unknown_rejected, "s--", color=UNKNOWN, label="unknown samples rejected")
right.plot(n, known_rejected, "^-.", color=KNOWN, label="known samples rejected")
right.axhline(0.05, color=KNOWN, linewidth=0.8, linestyle=":")
right.set(
    title="samples per class",
    xlabel="training samples per class",
    ylim=(0, 1.02),
    xticks=n,
)
for ax in (left, right):
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
