"""Models that many tests ask questions of: each is fitted once in a process."""

import copy

import joblib

from srosr.scoring import cross_fitting

#: scikit-learn's checks that cannot pass, with the reason.
MINUS_ONE = {"check_classifiers_classes": "it learns a class -1, which stands for rejected samples"}

_models = {}


def fit_once(clf, X, y, **given):
    """Return a classifier with the parameters of ``clf``, fitted to these samples: a copy, which a test may change.

    Give it a seed (``random_state``), and patch no constant but those of ``cross_fitting``, or which model a test gets
    depends on the tests before it.
    """
    constants = cross_fitting.MOST_REPEATS, cross_fitting.ROTATIONS
    key = joblib.hash((type(clf).__qualname__, clf.get_params(deep=False), X, y, given, constants))
    if key not in _models:
        _models[key] = copy.deepcopy(clf).fit(X, y, **given)
    return copy.deepcopy(_models[key])
