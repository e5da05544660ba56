"""
Comparing rivals
================

Every open set method here has the same interface: ``fit``, ``predict``, ``candidate``,
``unknown_score``, ``set_threshold``. So you can replace any of them by any other and
compare them all on your own data in a few lines.
"""

# %%
# Without unknown data
# --------------------
# In practice you have no unknown samples when you choose a method.
# :class:`~srosr.LeaveClassesOut` leaves some of the known classes out of training in
# turn and uses them as simulated unknowns, so scikit-learn's own tools can measure open
# set recognition. Five of the twenty-three methods of :func:`~srosr.open_set_methods`,
# on three such splits:

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
)  # from W-SVM, if classes are so far apart that it has few support vectors

X, y = load_digits(return_X_y=True)
X = X + np.random.default_rng(0).normal(0, 3, X.shape)  # noise, or it is too easy
X = normalize(X)  # SROSRClassifier does so itself; here all methods get it
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
# The four digits that were never used so far show how far to trust that estimate.
# Every method is fitted to the known digits and tested on all ten.

from srosr import (
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
        "known recognized": recognition_accuracy(truth, labels, unknown_label=-1),
        "unknown rejected": rejection_accuracy(truth, labels, unknown_label=-1),
    }
print(pd.DataFrame(rows).T.round(3).to_string())

# %%
# The OSCR curve shows, on its vertical axis, the share of known samples accepted in the
# right class and, on its horizontal axis, the share of unknown samples accepted at the
# same threshold. A method is better the earlier its curve rises; the dot at the end is
# its accuracy without rejection. Right: the confusion matrix of the first method.

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
# One data set proves little: :doc:`../rivals` compares all methods on nine data sets
# and says where another method is the better choice.
