"""Coding on a device over any dictionary that hypothesis comes up with."""

from __future__ import annotations

import numpy as np
import pytest
import scale
from device_cases import (
    CLEAR,
    CPU,
    TOL,
    assert_certified,
    assert_same,
    encode,
    one_thread,  # noqa: F401
)
from families import cases
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from reference import bpdn_by_conic_solver, bpdn_gap, least_squares_residual

from srosr import BPDN, Lasso, Ridge, sparse_encode
from srosr.coding.device import device_coder as device_coder_module
from srosr.coding.device import many_atoms as many_atoms_module


def examples(n):
    """Return settings for n examples, fewer in the default run, and the same on every machine."""
    return settings(
        max_examples=scale.examples(n),
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )


shares = st.sampled_from([0.9, 0.5, 0.2, 0.05, 0.01, 1e-3])


@examples(200)
@given(cases(), shares)
def test_lasso_codes_of_any_family_are_certified_and_optimal(case, share):
    largest = np.abs(case.atoms @ case.queries.T).max()
    assume(largest > 0)
    found, right = (sparse_encode(case.queries, case.atoms, Lasso(share * largest), device=d) for d in (CPU, "cpu"))
    assert set(found.status) == {"ok"}
    assert_certified(found)
    np.testing.assert_allclose(found.objective, right.objective, rtol=TOL)


@examples(200)
@given(cases(max_queries=2), st.sampled_from([0.9, 0.5, 0.2, 0.05, 0.01]))
def test_bpdn_codes_of_any_family_are_certified_and_optimal(case, share):
    for y in case.queries:
        nearest, length = least_squares_residual(case.atoms, y), np.linalg.norm(y)
        inside = np.sqrt(max(0.0, length**2 - nearest**2))
        if inside <= 1e-9 * length:
            continue
        problem = BPDN(np.hypot(nearest, share * inside))
        found, right = (sparse_encode(y[None], case.atoms, problem, device=d) for d in (CPU, "cpu"))
        assert found.status[0] == "ok"
        assert_certified(found)
        np.testing.assert_allclose(found.objective, right.objective, rtol=2 * TOL)
        left = np.linalg.norm(y - found.toarray()[0] @ case.atoms)
        assert left == pytest.approx(problem.epsilon, abs=1.01 * TOL * length)


integers = st.integers(1, 12).flatmap(
    lambda n: st.integers(1, 5).flatmap(
        lambda m: st.tuples(
            arrays(np.int64, (n, m), elements=st.integers(-2, 2)), arrays(np.int64, (3, m), elements=st.integers(-3, 3))
        )
    )
)


@examples(300)
@given(integers, st.sampled_from([1 / 2, 1 / 3, 0.1, 0.01]))
def test_codes_over_small_integers_with_all_their_ties_are_those_of_the_cpu(numbers, share):
    atoms, X = (values.astype(float) for values in numbers)
    largest = np.abs(atoms @ X.T).max()
    assume(largest > 0)
    # Not the very distance of a sample to a span: there rounding decides whether epsilon is in reach.
    epsilon = 0.987654321 * share * np.linalg.norm(X, axis=1).max()
    for problem in (Lasso(share * largest), BPDN(epsilon), Ridge(share * largest)):
        assert_same(encode(X, atoms, problem), sparse_encode(X, atoms, problem))


@examples(80)
@given(cases(CLEAR, max_queries=2), shares)
def test_working_sets_give_the_codes_of_the_cpu_over_any_family(case, share):
    largest = np.abs(case.atoms @ case.queries.T).max()
    assume(largest > 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device_coder_module, "MOST_ATOMS", 0)
        patch.setattr(many_atoms_module, "WORKING_SET", 4)
        found = encode(case.queries, case.atoms, Lasso(share * largest))
    assert_same(found, sparse_encode(case.queries, case.atoms, Lasso(share * largest)))


@examples(60)
@given(cases(max_queries=1), st.sampled_from([0.5, 0.1]))
def test_a_gap_of_bpdn_is_not_flattering(case, share):
    """What the device reports is at least what the features show."""
    y = case.queries[0]
    nearest, length = least_squares_residual(case.atoms, y), np.linalg.norm(y)
    inside = np.sqrt(max(0.0, length**2 - nearest**2))
    assume(inside > 1e-3 * length)
    epsilon = np.hypot(nearest, share * inside)
    code = encode(y[None], case.atoms, BPDN(epsilon))
    exact = bpdn_by_conic_solver(case.atoms, y, epsilon)
    assert 1 - exact.upper / code.objective[0] <= code.gap[0] + TOL
    assert bpdn_gap(case.atoms, y, epsilon, code.toarray()[0]) <= 10 * TOL / share**2
