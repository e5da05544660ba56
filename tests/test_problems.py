"""Problems are immutable values that raise a ValueError naming an invalid argument."""

import copy
import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from srosr import BPDN, OMP, Lasso, Ridge

ALL = [BPDN(0.1), Lasso(0.1), Ridge(0.1), OMP(3)]
ARGUMENT = {BPDN: "epsilon", Lasso: "alpha", Ridge: "alpha", OMP: "n_nonzero"}


@pytest.mark.parametrize("kind", ARGUMENT)
@pytest.mark.parametrize("value", [-1, -1e-9, float("nan"), float("inf"), "0.1", None, [0.1], True])
def test_an_invalid_parameter_raises_an_error_that_names_it(kind, value):
    with pytest.raises(ValueError, match=ARGUMENT[kind]):
        kind(value)


@pytest.mark.parametrize("kind", [Lasso, Ridge])
def test_zero_alpha_raises_an_error(kind):
    with pytest.raises(ValueError, match="alpha"):
        kind(0)


@pytest.mark.parametrize("value", [0, 2.5, 3.0])
def test_omp_takes_positive_integers_only(value):
    with pytest.raises(ValueError, match="n_nonzero"):
        OMP(value)


def test_zero_epsilon_is_basis_pursuit_and_allowed():
    assert BPDN(0).epsilon == 0.0


@pytest.mark.parametrize("kind", ARGUMENT)
def test_keyword_and_position_mean_the_same(kind):
    assert kind(2) == kind(**{ARGUMENT[kind]: 2})


@pytest.mark.parametrize("kind", ARGUMENT)
def test_numpy_scalars_are_numbers(kind):
    value = np.int64(2) if kind is OMP else np.float32(0.5)
    assert getattr(kind(value), ARGUMENT[kind]) == value


@pytest.mark.parametrize("problem", ALL, ids=repr)
def test_problems_cannot_be_changed(problem):
    with pytest.raises(FrozenInstanceError):
        setattr(problem, ARGUMENT[type(problem)], 1)


@pytest.mark.parametrize("problem", ALL, ids=repr)
def test_problems_are_values(problem):
    """Equal by content, hashable, copied and pickled unchanged: what clone and GridSearchCV rely on."""
    for twin in (copy.deepcopy(problem), pickle.loads(pickle.dumps(problem))):
        assert twin == problem
        assert hash(twin) == hash(problem)
    assert len({*ALL, problem}) == len(ALL)


def test_problems_of_different_kind_differ():
    assert Lasso(0.1) != Ridge(0.1)
    assert Lasso(0.1) != Lasso(0.2)
