"""
Explaining a refusal
====================

"Unknown" alone is a poor answer. ``explain`` says what the decision was made of: which
training samples rebuilt the sample, what each class left unexplained, which evidence
spoke for a stranger, and how unusual that is among known samples.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from srosr import SROSRClassifier

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
known = y_train < 6
clf = SROSRClassifier(random_state=0).fit(X_train[known], y_train[known])

# %%
# A stranger
# ----------
# A 7, which the classifier has never met. The explanation prints as text.

seven = X_test[y_test == 7][0]
explanation = clf.explain(seven)
print(explanation)

# %%
# Its figure: the sample and the training pictures with the largest coefficients; the
# reconstruction error of every class, with a bar that nine in ten held-out samples of
# the candidate class stay below; what each kind of evidence adds to the score; and the
# code itself, a band for each class.

from matplotlib import pyplot as plt

from srosr import ExplanationDisplay


def draw(explanation):
    _, axes = plt.subplots(2, 2, figsize=(9.5, 6), layout="constrained")
    ExplanationDisplay(explanation).plot(axes.ravel(), image_shape=(8, 8))
    plt.show()


draw(explanation)

# %%
# A known digit
# -------------
# The same for a 3 that is recognised. Compare how much of the code lies on the
# candidate class, and how its error compares with those of the other classes.

three = X_test[(y_test == 3) & (clf.predict(X_test) == 3)][0]
print(clf.explain(three))
draw(clf.explain(three))

# %%
# Numbers instead of words
# ------------------------
# All that the text says is there as numbers. ``reasons`` are the fewest pieces of
# evidence without which the sample would have been accepted.

print("refused:", explanation.refused, " candidate:", explanation.candidate)
print("reasons:", explanation.reasons)
for part in explanation.evidence[:3]:
    print(
        f"{part.name:14} value {part.value:.3f}, usually {part.typical:.3f}:"
        f" adds {part.contribution:+.2f}"
    )
for atom in explanation.atoms[:3]:
    print(
        f"training sample {atom.row}: class {atom.label}, {atom.share:.0%} of the code"
    )

# %%
# A known sample that is refused
# ------------------------------
# About one known sample in twenty is refused, by choice. Looking at the strangest of
# them is often the quickest way to wrong labels and odd samples in one's data.

is_known = y_test < 6
strangest = np.flatnonzero(is_known)[clf.log_p_value(X_test[is_known]).argmin()]
print("a", y_test[strangest])
print(clf.explain(X_test[strangest]))
draw(clf.explain(X_test[strangest]))
