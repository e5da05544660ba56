"""
Adding and removing a class
===========================

If the same kind of unknown sample keeps coming back, make it a class. ``add_class``
does so without refitting: the new samples join the dictionary, and only they are held
out and coded. ``remove_class`` removes a class.
"""

import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from srosr import SROSRClassifier

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
known = y_train < 6
clf = SROSRClassifier(random_state=0).fit(X_train[known], y_train[known])


def shares(clf):
    """Return the shares of each digit that are recognized, rejected, misclassified."""
    labels = clf.predict(X_test)
    rows = []
    for digit in range(10):
        answers = labels[y_test == digit]
        right, rejected = np.mean(answers == digit), np.mean(answers == -1)
        rows.append([right, rejected, 1 - right - rejected])
    return np.array(rows)


# %%
# Sevens are rejected, as they should be: the classifier has never seen one.

before = shares(clf)
print("classes:", clf.classes_, "  sevens rejected:", before[7, 1].round(3))

# %%
# Add twenty of them with a label. From now on their class is known. The threshold is
# recomputed.

sevens = X_train[y_train == 7][:20]
start = time.perf_counter()
clf.add_class(sevens, 7)
seconds_added = time.perf_counter() - start
after = shares(clf)
print("classes:", clf.classes_, "  sevens recognized:", after[7, 0].round(3))

# %%
# Does a new fit give the same labels? With ``recalibrate="all"`` it does, up to
# rounding. The default, ``"new"``, keeps what was learned from the other classes: it is
# faster and not quite the same.

start = time.perf_counter()
chosen = known.copy()
chosen[np.flatnonzero(y_train == 7)[:20]] = True
again = SROSRClassifier(random_state=0).fit(X_train[chosen], y_train[chosen])
seconds_fit = time.perf_counter() - start
differ = clf.predict(X_test) != again.predict(X_test)
print(f"labels that differ from those of a new fit: {differ.mean():.1%}")
print(f"adding took {seconds_added:.2f} s, a new fit {seconds_fit:.2f} s")

# %%
# Removing a class is just as easy. Zeros are unknown now.

clf.remove_class(0)
removed = shares(clf)
print("classes:", clf.classes_, "  zeros rejected:", removed[0, 1].round(3))

# %%
# Answers for the test samples of every digit, in the three states:

from matplotlib import pyplot as plt

figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), sharey=True, layout="constrained")
states = {"0 to 5": before, "0 to 5 and 7": after, "1 to 5 and 7": removed}
for ax, (name, table) in zip(axes, states.items(), strict=True):
    bottom = np.zeros(10)
    for column, (color, text) in enumerate(
        (
            ("#1f6f8b", "recognized"),
            ("#d1603d", "rejected"),
            ("#b8bcc8", "misclassified"),
        )
    ):
        ax.bar(
            range(10),
            table[:, column],
            bottom=bottom,
            color=color,
            width=0.75,
            label=text,
        )
        bottom += table[:, column]
    ax.set(title=f"known: {name}", xlabel="digit", xticks=range(10))
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("share of test samples")
figure.legend(
    *axes[0].get_legend_handles_labels(),
    loc="outside upper center",
    ncols=3,
    frameon=False,
)
plt.show()
