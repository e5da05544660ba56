"""
Quick start: handwritten digits, some of them unknown
=====================================================

Learn the digits 0 to 5, then classify all ten. The recognizer labels each picture with
one of the six, or rejects it as unknown. It never sees a 6, 7, 8 or 9 before testing.
"""

# %%
# The digits come with scikit-learn: 8 × 8 pixels, 64 features per picture. Only known
# classes go into ``fit``.

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from srosr import SROSRClassifier

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
known = y_train < 6
clf = SROSRClassifier(random_state=0).fit(X_train[known], y_train[known])

# %%
# ``predict`` returns a class or ``unknown_label_``, which is −1 if classes are numbers.

labels = clf.predict(X_test)
print("truth  ", y_test[:15])
print("answer ", labels[:15])

# %%
# Behind every answer are a candidate, the best known class, and an unknown score
# between 0 and 1. The score is one minus a p-value: the share of known samples that
# look less unusual. A sample is rejected if its score is above ``threshold_``, which
# was chosen on held-out training samples so that about 5 % of known ones are rejected.

candidates, scores = clf.candidate(X_test), clf.unknown_score(X_test)
print(f"threshold {clf.threshold_:.3f}: {clf.threshold_info_.detail}")
for truth, candidate, score in zip(y_test[:5], candidates[:5], scores[:5], strict=True):
    print(f"a {truth}: candidate {candidate}, unknown score {score:.4f}")

# %%
# How good are the answers? Give all unknown digits the same label; then every metric
# applies.

from srosr import (
    mark_unknown,
    open_set_auroc,
    open_set_f_measure,
    recognition_accuracy,
    rejection_accuracy,
)

truth = mark_unknown(y_test, clf.classes_, unknown_label=-1)
answers = {
    "known digits recognized": recognition_accuracy(truth, labels, unknown_label=-1),
    "unknown digits rejected": rejection_accuracy(truth, labels, unknown_label=-1),
    "F-measure": open_set_f_measure(truth, labels, unknown_label=-1),
    "AUROC of the score": open_set_auroc(truth, scores, unknown_label=-1),
}
for name, value in answers.items():
    print(f"{name:25} {value:.3f}")

# %%
# Twenty of the test pictures with their answers, and the scores of all of them. The
# scores of unknown samples pile up near 1, so we plot the logarithm of the p-value,
# with unusual samples to the right.

import numpy as np
from matplotlib import pyplot as plt

KNOWN, UNKNOWN = "#1f6f8b", "#d1603d"
figure = plt.figure(figsize=(10, 3.8), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=[1, 1.15])

rng = np.random.default_rng(1)
shown = np.concatenate(
    [
        rng.choice(np.flatnonzero(truth != -1), 10, False),
        rng.choice(np.flatnonzero(truth == -1), 10, False),
    ]
)
for ax, i in zip(left.subplots(4, 5).flat, shown, strict=True):
    ax.imshow(X_test[i].reshape(8, 8), cmap="Greys")
    rejected = labels[i] == -1
    ax.set_title(
        "unknown" if rejected else f"it is a {labels[i]}",
        fontsize=8,
        color=UNKNOWN if rejected else KNOWN,
        pad=2,
    )
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_color(UNKNOWN if truth[i] == -1 else KNOWN)
    ax.spines[:].set_linewidth(1.6)

ax = right.subplots()
surprise = -clf.log_p_value(X_test) / np.log(10)
bins = np.linspace(0, surprise.max(), 40)
for is_unknown, color, name in (
    (False, KNOWN, "digits 0 to 5, known"),
    (True, UNKNOWN, "digits 6 to 9, never seen"),
):
    ax.hist(
        surprise[(truth == -1) == is_unknown],
        bins,
        color=color,
        alpha=0.6,
        label=name,
    )
ax.axvline(
    -np.log10(1 - clf.threshold_),
    color="#2b2d42",
    linewidth=1,
    linestyle="--",
    label="threshold: rejected to the right",
)
ax.set(xlabel="−log₁₀ of the p-value", ylabel="test pictures")
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Left: a blue frame is a known digit, an orange frame an unknown one; the text is the
# answer.
