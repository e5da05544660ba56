"""
Comparing rivals
================

Every open set method here keeps the same contract: ``fit``, ``predict``, ``candidate``,
``unknown_score``, ``set_threshold``. So any of them can take the place of any other,
and all can be compared on one's own data in a few lines.
"""

# %%
# Without unknown data
# --------------------
# In practice unknown samples are not at hand when a method has to be chosen.
# :class:`~srosr.LeaveClassesOut` leaves some of the known classes out of training in
# turn and lets them play the strangers; with it scikit-learn's own tools measure open
# set recognition. Five of the nineteen methods of :func:`~srosr.open_set_methods`, on
# three such splits:

import warnings

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_validate, train_test_split
from sklearn.preprocessing import normalize

from srosr import (
    LeaveClassesOut,
    TailWarning,
    open_set_auroc_scorer,
    open_set_f_scorer,
    open_set_methods,
    oscr_scorer,
)

warnings.simplefilter(
    "ignore", TailWarning
)  # of W-SVM, where classes are so far apart that few support vectors are left

X, y = load_digits(return_X_y=True)
X = X + np.random.default_rng(0).normal(0, 3, X.shape)  # noise, or all is too easy
X = normalize(X)  # the recogniser does so itself; here all methods get unit lengths
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
known = y_train < 6

names = ["calibrated", "svm", "w-svm", "knn", "max-logit"]
methods = {
    name: clone(open_set_methods()[name]).set_params(random_state=0) for name in names
}
scoring = {"OSCR": oscr_scorer, "AUROC": open_set_auroc_scorer, "F": open_set_f_scorer}
rows = {}
for name, clf in methods.items():
    cv = LeaveClassesOut(3, random_state=0)
    found = cross_validate(clf, X_train[known], y_train[known], cv=cv, scoring=scoring)
    rows[name] = {metric: found[f"test_{metric}"].mean() for metric in scoring}
print(pd.DataFrame(rows).T.round(3))

# %%
# With unknown data
# -----------------
# The four digits that nobody has seen so far show how far that estimate can be trusted.
# Every method is fitted to the known digits and meets all ten.

from srosr.metrics import (
    mark_unknown,
    open_set_auroc,
    open_set_f_measure,
    oscr_area,
    recognition_accuracy,
    rejection_accuracy,
)

rows = {}
for name, clf in methods.items():
    clf.fit(X_train[known], y_train[known])
    truth = mark_unknown(y_test, clf.classes_, unknown_label=-1)
    labels, candidates, scores = (
        clf.predict(X_test),
        clf.candidate(X_test),
        clf.unknown_score(X_test),
    )
    rows[name] = {
        "OSCR": oscr_area(truth, candidates, scores, unknown_label=-1),
        "AUROC": open_set_auroc(truth, scores, unknown_label=-1),
        "F": open_set_f_measure(truth, labels, unknown_label=-1),
        "known recognised": recognition_accuracy(truth, labels, unknown_label=-1),
        "unknown refused": rejection_accuracy(truth, labels, unknown_label=-1),
    }
print(pd.DataFrame(rows).T.round(3).to_string())

# %%
# The OSCR curve has on its vertical axis how many known samples are accepted in the
# right class, while the share of unknown samples on the horizontal one is accepted too.
# A method is better the earlier its curve rises; the dot at the end is its accuracy
# without any refusal. Right: what the first method took for what.

from matplotlib import pyplot as plt

from srosr import OpenSetConfusionDisplay, OSCRDisplay

figure, (left, right) = plt.subplots(
    1, 2, figsize=(10, 4.6), width_ratios=[1.25, 1], layout="constrained"
)
for name, clf in methods.items():
    OSCRDisplay.from_estimator(clf, X_test, y_test, name=name).plot(left)
OpenSetConfusionDisplay.from_estimator(methods["calibrated"], X_test, y_test).plot(
    right
)
plt.show()

# %%
# One data set decides nothing: :doc:`../rivals` has all methods on nine sets, and says
# where another one is the better choice.
