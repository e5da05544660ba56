"""
Discovering new classes
=======================

Rejected samples are not all alike: some belong together and are a class that the model
does not know. ``discover`` groups them without labels. A person looks at the typical
samples of a group and names it, and ``add_class`` makes it a class.
"""

import numpy as np
from sklearn.datasets import load_digits

from srosr import SROSRClassifier

X, y = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(X))
train, new, later = np.split(order, [600, 1300])
known = train[y[train] < 6]
clf = SROSRClassifier(random_state=0).fit(X[known], y[known])

# %%
# The model knows the digits 0 to 5. Among the new pictures are all ten; those that it
# rejects are grouped. Nobody says how many groups there are.

found = clf.discover(X[new])
print(found)

# %%
# The six most typical pictures of each group, with its size and tightness. Groups of a
# tightness below 0.8 are called loose: they are often mixtures.

from matplotlib import pyplot as plt

figure, axes = plt.subplots(
    len(found), 6, figsize=(6, 1.15 * len(found)), squeeze=False, layout="constrained"
)
for group, line in zip(found.groups, axes, strict=True):
    for ax, row in zip(line, group.typical, strict=False):
        ax.imshow(X[new][row].reshape(8, 8), cmap="gray_r")
    for ax in line:
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
    line[0].set_ylabel(
        f"group {group.number}\n{group.size} samples\n{group.tightness_text}",
        rotation=0,
        ha="right",
        va="center",
    )
plt.show()

# %%
# A person sees which digit a group is, and leaves out a group with several of them.
# Here the true labels of the typical pictures stand for the person's eyes; groups with
# the same name become one class.

named = {}
for group in found.groups:
    seen = np.unique(y[new][list(group.typical)]).tolist()
    print(f"group {group.number}: typical pictures of {seen}")
    if len(seen) == 1:
        named.setdefault(seen[0], []).append(group.rows)
for digit, rows in named.items():
    if digit not in clf.classes_:
        clf.add_class(X[new][np.concatenate(rows)], digit)
print("classes:", clf.classes_)

# %%
# Later pictures, which had no part in this, before and after. What a group lacks of its
# class, or has of another, the new class lacks or has, too.

before = SROSRClassifier(random_state=0).fit(X[known], y[known])
for digit in range(6, 10):
    own = X[later][y[later] == digit]
    print(
        f"{digit}: rejected before {np.mean(before.predict(own) == -1):.0%}, "
        f"recognized now {np.mean(clf.predict(own) == digit):.0%}"
    )
