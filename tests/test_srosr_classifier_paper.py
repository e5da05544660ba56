"""The rules "paper" and "matched" are the paper's two algorithms, to ten digits."""

from functools import cache
from itertools import product

import numpy as np
import pytest
import srosr_reference as reference
from fitted import fit_once
from scale import slow_except
from worlds import World

from srosr import BPDN, Lasso
from srosr.classifiers.srosr_classifier import SROSRClassifier

REPEATS, TAIL_SIZE = 10, 0.4
PROBLEMS = {"lasso": (Lasso(0.05), ("lasso", 0.05)), "bpdn": (BPDN(0.001), ("bpdn", 0.001))}
# The likelihood is flat at its maximum: searched by its values, sigma and xi agree to 1e-8 and S to 1e-9 at best. Found
# as a root of its slope they agree to about 1e-12.
EXACT = 1e-10


@cache
def samples(seed, sizes=15):
    """Return four classes to learn, with fewer atoms than features, and test samples half of which are unknown."""
    world = World(seed, n_features=80, n_directions=4)
    X, y = world.known(np.array(sizes))
    return X, y, np.vstack([world.fresh(30)[0], world.unknowns(30)])


@cache
def by_the_paper(problem, seed, sizes=15):
    X, y, _ = samples(seed, sizes)
    return reference.train(X, y, PROBLEMS[problem][1], seed=seed, n_repeats=REPEATS, tail_size=TAIL_SIZE, weight=np.nan)


def fit(problem, seed, sizes=15, **parameters):
    clf = SROSRClassifier(
        PROBLEMS[problem][0],
        **({"rule": "paper", "n_repeats": REPEATS, "tail_size": TAIL_SIZE, "random_state": seed} | parameters),
    )
    return fit_once(clf, *samples(seed, sizes)[:2])


def compare(clf, model, X_test):
    """Check that candidates, S and every tail agree."""
    candidate, S = reference.scores(model, X_test)
    assert np.mean((S > 0) & (S < 1)) > 0.05, "the test samples see no tail from inside"
    np.testing.assert_array_equal(clf.candidate(X_test), candidate)
    np.testing.assert_allclose(clf.unknown_score(X_test) * (1 + model.weight), S, rtol=0, atol=EXACT)
    tails = clf.calibration_.tails
    for ours, theirs in zip(tails.matched + tails.nonmatched, model.matched + model.nonmatched, strict=True):
        assert ours.u == pytest.approx(theirs.u, abs=1e-13)
        assert ours.sigma == pytest.approx(theirs.sigma, rel=EXACT)
        assert ours.xi == pytest.approx(theirs.xi, abs=EXACT)


# Seed, parameters, and the weight of the non-matched half.
CASES = {
    "openness 0": (0, {}, 1 / 3),
    "openness 0.3": (1, {"openness": 0.3}, 0.7 / 3),
    "weight given": (2, {"weight": 0.8, "openness": 0.3}, 0.8),
    "weight 0": (3, {"weight": 0.0}, 0.0),
}
QUICK = [("lasso", "openness 0"), ("bpdn", "openness 0"), ("bpdn", "weight given")]


@pytest.mark.parametrize(("problem", "case"), slow_except(QUICK, product(PROBLEMS, CASES)))
def test_rule_paper_is_the_papers_two_algorithms(problem, case):
    seed, parameters, weight = CASES[case]
    model = by_the_paper(problem, seed)._replace(weight=weight)
    compare(fit(problem, seed, **parameters), model, samples(seed)[2])


@pytest.mark.parametrize("problem", PROBLEMS)
def test_rule_matched_is_the_papers_without_the_nonmatched_half(problem):
    clf = fit(problem, 0, rule="matched", openness=0.2, weight=0.5)
    compare(clf, by_the_paper(problem, 0)._replace(weight=0.0), samples(0)[2])


@pytest.mark.parametrize("problem", slow_except(["bpdn"], PROBLEMS))
def test_a_class_of_fewer_than_ten_samples_shares_the_tails_of_all_classes(problem):
    sizes = (15, 6, 14, 9)
    clf = fit(problem, 4, sizes)
    np.testing.assert_array_equal(clf.pooled_, [False, True, False, True])
    assert clf.calibration_.tails.matched[1] == clf.calibration_.tails.matched[3]
    compare(clf, by_the_paper(problem, 4, sizes)._replace(weight=1 / 3), samples(4, sizes)[2])


@pytest.mark.parametrize("c", [0.0, 0.05, 0.4, 0.75, 1.0])
def test_the_papers_delta_of_c_times_one_plus_w_is_the_threshold_c(c):
    """Unknown if S > delta, delta = c(1 + w): the paper's notation for its four values."""
    X_test = samples(1)[2]
    model = by_the_paper("bpdn", 1)._replace(weight=0.7 / 3)
    clf = fit("bpdn", 1, openness=0.3, threshold=c)
    assert clf.threshold_ == c
    delta = c * (1 + model.weight)
    _, S = reference.scores(model, X_test)
    # At 0 and at delta itself rounding may decide; S is exactly 0 below both thresholds.
    assert (np.abs(S - delta)[S > 0] > 1e-9).all() or c in (0.0, 1.0)
    np.testing.assert_array_equal(clf.predict(X_test), reference.decide(model, X_test, delta, -1))


def test_infeasible_samples_have_the_status_infeasible():
    """What the comparison with least squares rests on."""
    codes = fit("bpdn", 0).encode(samples(0)[2])
    assert set(np.asarray(codes.status).astype(str)) == {"infeasible"}


@pytest.mark.slow
def test_the_references_fit_of_a_tail_is_a_maximum():
    """Check the reference itself: no other scale and shape, near or far, has a greater likelihood."""
    rng = np.random.default_rng(0)
    for xi, n in [(-0.6, 20), (-0.2, 40), (0.0, 25), (0.4, 15)]:
        z = -np.log(rng.random(n)) if xi == 0 else (rng.random(n) ** -xi - 1) / xi

        def likelihood(sigma, xi, z=z):
            inside = 1 + xi * z / sigma
            if (inside <= 0).any() or xi < -1:
                return -np.inf
            return -len(z) * np.log(sigma) - (1 + 1 / xi) * np.log(inside).sum()

        sigma, shape = reference.maximum_likelihood(z)
        best = likelihood(sigma, shape) if shape > -1 else -n * np.log(z.max())
        others = [likelihood(s, x) for s in np.geomspace(0.01, 100, 300) for x in np.linspace(-0.999, 4, 301) if x]
        near = [likelihood(sigma * (1 + a), shape + b) for a in (-1e-4, 0, 1e-4) for b in (-1e-4, 0, 1e-4)]
        assert best >= max(others)
        assert best >= max(near) - 1e-12 * abs(best)
