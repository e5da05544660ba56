"""
Explaining a rejection
======================

"Unknown" alone is a poor answer. ``explain`` says what the decision is based on: which
training samples the sample was reconstructed from, how much each class leaves
unexplained, which evidence suggests an unknown sample, and how unusual that is among
known samples.
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
# An unknown digit
# ----------------
# A 7, which the classifier has never seen. The explanation prints as text.

seven = X_test[y_test == 7][0]
explanation = clf.explain(seven)
print(explanation)

# %%
# The same as a figure: the sample and the training pictures with the largest
# coefficients; the reconstruction error of every class, with a line that nine in ten
# held-out samples of the candidate class stay below; what each kind of evidence adds to
# the score; and the code itself, with a band for each class.

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
# The same for a 3 that is recognized. Note how much of the code lies on the candidate
# class, and how its error compares with those of the other classes.

three = X_test[(y_test == 3) & (clf.predict(X_test) == 3)][0]
print(clf.explain(three))
draw(clf.explain(three))

# %%
# Numbers instead of words
# ------------------------
# Everything in the text is available as numbers. ``reasons`` is the smallest set of
# evidence without which the sample would have been accepted.

print("rejected:", explanation.rejected, " candidate:", explanation.candidate)
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
# A known sample that is rejected
# -------------------------------
# By choice, about one known sample in twenty is rejected. Looking at the most unusual
# one is often the fastest way to find wrong labels and odd samples in your data.

is_known = y_test < 6
most_unusual = np.flatnonzero(is_known)[clf.log_p_value(X_test[is_known]).argmin()]
print("a", y_test[most_unusual])
print(clf.explain(X_test[most_unusual]))
draw(clf.explain(X_test[most_unusual]))
