"""
Adding and removing a class
===========================

Strangers that keep coming back deserve a name. ``add_class`` takes them in without
fitting again: the new samples join the dictionary, and only they are held out and
coded. ``remove_class`` forgets a class.
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
    """Of each digit: shares that are recognised, refused, taken for another."""
    labels = clf.predict(X_test)
    rows = []
    for digit in range(10):
        answers = labels[y_test == digit]
        right, refused = np.mean(answers == digit), np.mean(answers == -1)
        rows.append([right, refused, 1 - right - refused])
    return np.array(rows)


# %%
# Sevens are refused, as they should be: nobody has told the classifier of them.

before = shares(clf)
print("classes:", clf.classes_, "  sevens refused:", before[7, 1].round(3))

# %%
# Twenty of them, with a name. Their class is known from now on, and the threshold is
# chosen anew.

sevens = X_train[y_train == 7][:20]
start = time.perf_counter()
clf.add_class(sevens, 7)
seconds_added = time.perf_counter() - start
after = shares(clf)
print("classes:", clf.classes_, "  sevens recognised:", after[7, 0].round(3))

# %%
# Would a new fit have said the same? With ``recalibrate="all"`` it would, to rounding.
# The default, ``"new"``, keeps what was learnt of the other classes; it is quicker and
# not quite the same.

start = time.perf_counter()
chosen = known.copy()
chosen[np.flatnonzero(y_train == 7)[:20]] = True
again = SROSRClassifier(random_state=0).fit(X_train[chosen], y_train[chosen])
seconds_fit = time.perf_counter() - start
differ = clf.predict(X_test) != again.predict(X_test)
print(f"labels that differ from a new fit's: {differ.mean():.1%}")
print(f"adding took {seconds_added:.2f} s, fitting again {seconds_fit:.2f} s")

# %%
# A class goes as easily. Zeros are strangers now.

clf.remove_class(0)
removed = shares(clf)
print("classes:", clf.classes_, "  zeros refused:", removed[0, 1].round(3))

# %%
# What became of the test samples of every digit, in the three states:

from matplotlib import pyplot as plt

figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), sharey=True, layout="constrained")
states = {"0 to 5": before, "0 to 5 and 7": after, "1 to 5 and 7": removed}
for ax, (name, table) in zip(axes, states.items(), strict=True):
    bottom = np.zeros(10)
    for column, (colour, text) in enumerate(
        (
            ("#1f6f8b", "recognised"),
            ("#d1603d", "refused"),
            ("#b8bcc8", "taken for another"),
        )
    ):
        ax.bar(
            range(10),
            table[:, column],
            bottom=bottom,
            color=colour,
            width=0.75,
            label=text,
        )
        bottom += table[:, column]
    ax.set(title=f"known: {name}", xlabel="digit", xticks=range(10))
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("share of its test samples")
figure.legend(
    *axes[0].get_legend_handles_labels(),
    loc="outside upper center",
    ncols=3,
    frameon=False,
)
plt.show()
