"""A fit whose held-out samples are coded by the workers of a Dask cluster: the same model to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from srosr import SROSRClassifier
from srosr.distributed import ClusterError

pytest.importorskip("distributed")

X, Y = load_digits(return_X_y=True)
KNOWN = np.flatnonzero(Y[:600] < 5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{}, {"rule": "paper", "threshold": 0.01}, {"atoms": 0.3}, {"kernel": "rbf"}], ids=str
)
def test_the_model_is_the_same_to_the_bit(options):
    alone, spread = (SROSRClassifier(n_repeats=4, random_state=0, **options) for _ in range(2))
    alone.fit(X[KNOWN], Y[KNOWN])
    spread.fit(X[KNOWN], Y[KNOWN], cluster="local:2")
    np.testing.assert_array_equal(spread.unknown_score(X[600:]), alone.unknown_score(X[600:]))
    np.testing.assert_array_equal(spread.evidence_weights_, alone.evidence_weights_)
    for name in ("known", "simulated", "held_out"):
        a, b = getattr(alone.calibration_, name), getattr(spread.calibration_, name)
        np.testing.assert_array_equal(a.values, b.values)
    assert not hasattr(spread, "_workers")


@pytest.mark.parametrize(
    ("address", "error", "says"),
    [
        ("somewhere", ValueError, "is not a cluster"),
        ("tcp://127.0.0.1:9", ClusterError, "no Dask scheduler answers"),
    ],
)
def test_a_cluster_that_is_none_leaves_the_classifier_as_it_was(address, error, says):
    clf = SROSRClassifier(n_repeats=2, random_state=0).fit(X[KNOWN], Y[KNOWN])
    before = clf.unknown_score(X[600:650])
    with pytest.raises(error, match=says):
        clf.fit(X[KNOWN[:100]], Y[KNOWN[:100]], cluster=address)
    np.testing.assert_array_equal(clf.unknown_score(X[600:650]), before)
    assert not hasattr(clf, "_workers")
