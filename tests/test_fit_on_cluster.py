"""A fit whose held-out samples are coded by the workers of a Dask cluster: the same model."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from same import check_same, check_same_model
from scale import slow_except
from sklearn.datasets import load_digits

from srosr import RandomAtoms, Ridge, SROSRClassifier
from srosr.distributed.dask_cluster import ClusterError

pytest.importorskip("distributed")

X, Y = load_digits(return_X_y=True)
KNOWN = np.flatnonzero(Y[:600] < 5)


def check_fit(spread, alone):
    """Check that two fits have the same calibration and decide alike."""
    for name in ("known", "simulated", "held_out"):
        check_same(getattr(spread.calibration_, name).values, getattr(alone.calibration_, name).values)
    check_same_model(spread, alone, X[600:900])


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{}, {"rule": "paper", "threshold": 0.01}, {"atoms": 0.3}, {"kernel": "rbf"}], ids=str
)
def test_the_model_is_the_same(options):
    alone, spread = (SROSRClassifier(n_repeats=4, random_state=0, **options) for _ in range(2))
    alone.fit(X[KNOWN], Y[KNOWN])
    spread.fit(X[KNOWN], Y[KNOWN], cluster="local:2")
    check_same(spread.evidence_weights_, alone.evidence_weights_)
    check_fit(spread, alone)
    assert not hasattr(spread, "_workers")


class PicklingCluster:
    """Runs tasks here, on pickled copies as workers get them."""

    address = "here"

    def __init__(self):
        self.sizes = []

    def run(self, function, tasks, shared):
        assert not any(task.atoms.has_gram for task in tasks)
        pickled = [pickle.dumps(task) for task in tasks]
        self.sizes += map(len, pickled)
        copies = pickle.dumps(shared)
        for i, task in enumerate(pickled):
            yield i, function(pickle.loads(task), shared=pickle.loads(copies))


KERNELS = [{}, {"kernel": "rbf", "gamma": 1e-3}, {"kernel": "poly", "gamma": 1e-3}, {"problem": Ridge(0.1)}]


@pytest.mark.parametrize("options", slow_except(KERNELS[:1], KERNELS), ids=str)
def test_a_task_of_a_small_dictionary_carries_no_gram_matrix(options):
    alone, spread = (
        SROSRClassifier(atoms=RandomAtoms(0.9), max_codings=20, random_state=0, **options) for _ in range(2)
    )
    alone.fit(X[KNOWN], Y[KNOWN])
    spread._workers = cluster = PicklingCluster()
    spread.fit(X[KNOWN], Y[KNOWN])
    n = 0.75 * len(KNOWN) * 0.8
    assert len(cluster.sizes) > 10 and max(cluster.sizes) < 8 * n * X.shape[1] * 2 < 8 * n**2
    check_fit(spread, alone)


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
