"""Atom samplers: the open set risk is its formula, selection and learning lower it, and all keep one contract."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples, slow_except
from scipy.spatial.distance import cdist, pdist
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from srosr import KMeansAtoms, LearnAtoms, RandomAtoms, SelectAtoms
from srosr.atoms import learn_atoms
from srosr.atoms.atom_sampler import count_class_atoms
from srosr.atoms.open_risk import OpenRisk, count_samples, draw_groups

SELECTING = (SelectAtoms, RandomAtoms)
LEARNING = (LearnAtoms, KMeansAtoms)
ALL = SELECTING + LEARNING
PENALTY = 0.05
RNG = np.random.default_rng


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def make_classes(sizes=(9, 7, 8), n_features=5, seed=0):
    """Return samples scattered about one direction a class, in random order."""
    rng = RNG(seed)
    y = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.normal(size=(len(sizes), n_features))[y] + 0.7 * rng.normal(size=(len(y), n_features))
    order = rng.permutation(len(y))
    return X[order], y[order]


def compare(a, b, width):
    squares = cdist(a, b, "sqeuclidean")
    return 0.5 * np.exp(-squares / width) + 0.5 * np.exp(-4.0 * squares / width)


def risk_of(atoms, samples, y):
    """Return the risk by a least-squares problem with the penalty as further rows."""
    width = pdist(samples, "sqeuclidean").mean()
    membership = (y[:, None] == np.unique(y)).astype(float)
    values, vectors = np.linalg.eigh(compare(atoms, atoms, width))
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    left = np.vstack([compare(samples, atoms, width), np.sqrt(PENALTY) * root])
    right = np.vstack([membership, np.zeros((len(atoms), membership.shape[1]))])
    solution = np.linalg.lstsq(left, right, rcond=1e-12)[0]
    return np.sum((left @ solution - right) ** 2) / len(samples)


def make_risk(samples, y):
    membership = (y[:, None] == np.unique(y)).astype(float)
    return OpenRisk(samples, membership, pdist(samples, "sqeuclidean").mean())


# --- the risk -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_atoms", [1, 4, 12])
def test_the_risk_is_that_of_regularized_least_squares(n_atoms):
    X, y = make_classes()
    X, atoms = unit(X), unit(RNG(1).normal(size=(n_atoms, X.shape[1])))
    assert make_risk(X, y).measure(atoms) == pytest.approx(risk_of(atoms, X, y), rel=1e-6)


def test_a_copy_of_an_atom_changes_nothing():
    X, y = make_classes()
    risk = make_risk(X, y)
    assert risk.measure(np.vstack([X[:4], X[:4]])) == pytest.approx(risk.measure(X[:4]), rel=1e-6)


def test_the_gradient_is_the_slope_of_the_risk():
    X, y = make_classes()
    risk, atoms, way = make_risk(X, y), RNG(1).normal(size=(6, 5)), RNG(2).normal(size=(6, 5))
    value, gradient = risk.differentiate(atoms)
    slope = (risk.measure(atoms + 1e-5 * way) - risk.measure(atoms - 1e-5 * way)) / 2e-5
    assert value == pytest.approx(risk.measure(atoms), rel=1e-9)
    assert np.sum(gradient * way) == pytest.approx(slope, rel=1e-5)


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30))
def test_more_atoms_have_no_larger_risk_and_none_beat_all_samples(seed, n_atoms):
    X, y = make_classes(seed=seed % 100)
    risk, atoms = make_risk(X, y), RNG(seed).normal(size=(n_atoms + 1, 5))
    assert risk.measure(atoms) <= risk.measure(atoms[:-1]) + 1e-7
    assert risk.measure(X) <= risk.measure(atoms) + 1e-7


def test_the_risk_bounds_wrong_answers_at_one_half():
    X, y = make_classes()
    width, atoms = pdist(X, "sqeuclidean").mean(), X[::3]
    membership = (y[:, None] == np.arange(3)).astype(float)
    similar = compare(X, atoms, width)
    coefficients = np.linalg.solve(similar.T @ similar + PENALTY * compare(atoms, atoms, width), similar.T @ membership)
    scores, own = similar @ coefficients, membership.astype(bool)
    lost = np.mean(scores[own] <= 0.5)
    accepted = np.mean((np.where(own, -np.inf, scores) >= 0.5).any(axis=1))
    assert accepted + lost <= 4.0 * make_risk(X, y).measure(atoms)


# --- selection ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("normalize", [True, False])
def test_each_selected_sample_is_the_one_that_lowers_the_risk_most(normalize):
    X, y = make_classes()
    sampler = SelectAtoms({0: 3, 1: 1, 2: 2}, normalize=normalize)
    sampler.fit_resample(X, y)
    rows, path = unit(X) if normalize else X, sampler.risk_paths_[0]
    # The order over all classes follows from the path: rebuild it step by step.
    left, chosen = {0: 3, 1: 1, 2: 2}, []
    for step in range(6):
        free = [i for i in range(len(y)) if left[y[i]] and i not in chosen]
        risks = [risk_of(rows[[*chosen, i]], rows, y) for i in free]
        chosen.append(free[int(np.argmin(risks))])
        left[y[chosen[-1]]] -= 1
        assert path[step + 1] == pytest.approx(min(risks), rel=1e-6)
    assert sorted(chosen) == sorted(sampler.sample_indices_)


def test_the_risk_falls_with_every_selected_sample():
    X, y = load_digits(n_class=4, return_X_y=True)
    sampler = SelectAtoms(0.2)
    sampler.fit_resample(X, y)
    (path,) = sampler.risk_paths_
    assert path[0] == pytest.approx(1.0) and (np.diff(path) < 0).all()
    assert path[-1] == pytest.approx(risk_of(unit(X)[sampler.sample_indices_], unit(X), y), rel=1e-4)


def test_copies_of_samples_are_selected_last():
    X, y = make_classes((6, 6, 6))
    sampler = SelectAtoms(6)
    sampler.fit_resample(np.vstack([X, X]), np.concatenate([y, y]))
    assert set(sampler.sample_indices_ % len(X)) == set(range(len(X)))


def test_fewer_atoms_of_the_same_samples_are_chosen_first():
    X, y = make_classes((20, 20))
    few, many = SelectAtoms(3), SelectAtoms(6)
    few.fit_resample(X, y), many.fit_resample(X, y)
    assert few.sample_indices_.tolist() == [*many.sample_indices_[:3], *many.sample_indices_[6:9]]


# --- learning -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("normalize", [True, False])
def test_learning_starts_at_the_centers_and_lowers_the_risk_at_every_step(normalize):
    X, y = load_digits(n_class=4, return_X_y=True)
    X = X if normalize else X / 40.0
    sampler = LearnAtoms(4, normalize=normalize, max_iter=20, random_state=0)
    atoms, _ = sampler.fit_resample(X, y)
    rows, (path,) = unit(X) if normalize else X, sampler.risk_paths_
    centers, _ = KMeansAtoms(4, normalize=normalize, random_state=0).fit_resample(X, y)
    assert path[0] == pytest.approx(risk_of(centers, rows, y), rel=0.02)
    assert path[-1] == pytest.approx(risk_of(atoms, rows, y), rel=1e-6)
    assert (np.diff(path) <= 0).all() and path[-1] < 0.8 * path[0]


def test_more_features_than_samples_give_the_same_atoms_as_their_span():
    X, y = make_classes((8, 8), n_features=4)
    basis = np.linalg.qr(RNG(3).normal(size=(30, 4)))[0]
    few = LearnAtoms(2, max_iter=5, random_state=0).fit_resample(X, y)[0]
    many = LearnAtoms(2, max_iter=5, random_state=0).fit_resample(X @ basis.T, y)[0]
    assert many.shape == (4, 30)
    np.testing.assert_allclose(many, few @ basis.T, atol=1e-6)


def test_learned_atoms_name_the_nearest_sample_of_their_class():
    X, y = make_classes((12, 15, 9))
    for kind in LEARNING:
        sampler = kind(3, random_state=0)
        atoms, labels = sampler.fit_resample(X, y)
        for atom, label, row in zip(atoms, labels, sampler.nearest_indices_, strict=True):
            own = np.flatnonzero(y == label)
            assert row == own[np.linalg.norm(unit(X)[own] - atom, axis=1).argmin()]


# --- the baselines ------------------------------------------------------------------------------------


def test_centers_are_those_of_samples_of_unit_length():
    X, y = make_classes((9, 12))
    atoms, _ = KMeansAtoms(1, random_state=0).fit_resample(X, y)
    means = [unit(X)[y == k].mean(axis=0) for k in range(2)]
    np.testing.assert_allclose(atoms, unit(np.array(means)), atol=1e-12)


# --- the contract -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL)
@settings(max_examples=examples(15), deadline=None)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=2, max_size=4),
    share=st.floats(0.01, 1.0),
    normalize=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_every_class_gets_its_number_of_atoms(kind, sizes, share, normalize, seed):
    X, y = make_classes(sizes, seed=seed)
    sampler = kind(share, normalize=normalize, random_state=0)
    if kind is LearnAtoms:
        sampler.set_params(max_iter=2)
    atoms, labels = sampler.fit_resample(X, y)
    wanted = [max(1, round(share * size)) for size in sizes]
    assert np.bincount(labels).tolist() == wanted == sampler.n_atoms_.tolist()
    assert atoms.shape == (sum(wanted), X.shape[1]) and np.isfinite(atoms).all()
    if kind in SELECTING:
        rows = sampler.sample_indices_
        assert len(set(rows)) == len(rows)
        assert (X[rows] == atoms).all() and (y[rows] == labels).all()
    else:
        assert sampler.sample_indices_ is None
        assert (y[sampler.nearest_indices_] == labels).all()
        if normalize:
            np.testing.assert_allclose(np.linalg.norm(atoms, axis=1), 1.0)


@pytest.mark.parametrize("kind", ALL)
def test_the_same_seed_gives_the_same_atoms(kind):
    X, y = make_classes((14, 11, 17))
    sampler = kind(0.3, random_state=5)
    first, again = sampler.fit_resample(X, y)[0], clone(sampler).fit_resample(X, y)[0]
    assert (first == again).all()


@pytest.mark.parametrize("kind", ALL)
def test_the_length_of_samples_does_not_matter_at_unit_length(kind):
    X, y = make_classes((14, 11, 17))
    longer = X * 2.0 ** RNG(0).integers(-3, 4, size=(len(X), 1))  # powers of two: no rounding
    one, other = kind(0.3, random_state=5), kind(0.3, random_state=5)
    one.fit_resample(X, y), other.fit_resample(longer, y)
    assert (one.nearest_indices_ == other.nearest_indices_).all()


@pytest.mark.parametrize("kind", ALL)
def test_a_share_of_one_keeps_all_samples(kind):
    X, y = make_classes((4, 5))
    sampler = kind(1.0, normalize=False, random_state=0)
    if kind is LearnAtoms:
        sampler.set_params(max_iter=1)
    atoms, _ = sampler.fit_resample(X, y)
    assert len(atoms) == 9
    if kind is not LearnAtoms:
        assert {tuple(row) for row in atoms} == {tuple(row) for row in X}


@pytest.mark.parametrize("kind", ALL)
def test_labels_may_be_text_and_keep_their_type(kind):
    X, y = make_classes((6, 5))
    names = np.array(["ash", "oak"])[y]
    _, labels = kind(2, random_state=0).fit_resample(X.tolist(), names.tolist())
    assert labels.tolist() == ["ash", "ash", "oak", "oak"]


@pytest.mark.parametrize("kind", ALL)
def test_samples_of_length_zero_and_copies_do_no_harm(kind):
    X, y = make_classes((8, 8))
    X[y == 0] = X[y == 0][0]
    X[np.flatnonzero(y == 1)[:3]] = 0.0
    atoms, labels = kind(4, random_state=0).fit_resample(X, y)
    assert np.isfinite(atoms).all() and np.bincount(labels).tolist() == [4, 4]


def test_the_risk_of_many_atoms_is_measured_on_ten_samples_for_each_within_memory():
    """With three for each, the atoms fit these samples and not new ones."""
    assert [count_samples(n) for n in (10, 600, 1748)] == [6000, 6000, 17_480]
    assert all(count_samples(n) * n <= 4 * 10**7 for n in (2000, 3000, 4096))
    class_of = np.repeat(np.arange(4), 10_000)
    (group,) = draw_groups(class_of, np.full(4, 250), None, np.random.RandomState(0))
    np.testing.assert_array_equal(np.bincount(class_of[group.samples]), np.full(4, 2500))


@pytest.mark.parametrize("kind", [SelectAtoms, LearnAtoms])
def test_many_samples_are_drawn_and_many_classes_are_divided(kind, monkeypatch):
    monkeypatch.setattr(draw_groups, "__defaults__", (40,))
    monkeypatch.setattr(learn_atoms, "GROUP_ATOMS", 12)
    X, y = make_classes((30, 40, 20, 25, 35, 30), n_features=6)
    sampler = kind(0.2, max_samples=60, random_state=0)
    atoms, labels = sampler.fit_resample(X, y)
    assert np.bincount(labels).tolist() == [6, 8, 4, 5, 7, 6]
    assert len(sampler.risk_paths_) > 1 and all((np.diff(path) <= 0).all() for path in sampler.risk_paths_)
    assert (clone(sampler).fit_resample(X, y)[0] == atoms).all()


def test_groups_hold_every_class_once_and_samples_of_others():
    y = np.sort(RNG(0).integers(10, size=400))
    groups = draw_groups(y, np.bincount(y), 100, np.random.RandomState(0), size=90)
    assert list(itertools.chain(*(group.classes for group in groups))) == list(range(10))
    for group in groups:
        own = np.isin(y[group.samples], group.classes)
        assert len(set(group.samples)) == len(group.samples) <= 100 and 0 < own.sum() < len(own)
        assert (group.build_membership(y).sum(axis=1) == own).all()


# --- bad input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "n_atoms, message",
    [
        (0, "at least 1 atom a class, got 0"),
        (-2, "at least 1 atom a class, got -2"),
        (7, "asks for 7 atoms of class 1, which has 6 samples; give at most 6, or a share"),
        (0.0, "above 0 up to 1.0"),
        (1.5, "above 0 up to 1.0"),
        (-0.5, "above 0 up to 1.0"),
        (float("nan"), "above 0 up to 1.0"),
        (True, "above 0 up to 1.0"),
        (None, "above 0 up to 1.0"),
        ("0.5", "above 0 up to 1.0"),
        ({0: 2}, "one number for each class of y; 1 is only in one of the two"),
        ({0: 2, 1: 2, "c": 1}, "'c' is only in one of the two"),
        ({0: 2, 1: 0}, "n_atoms of class 1 must be a positive integer, got 0"),
        ({0: 2, 1: True}, "n_atoms of class 1 must be a positive integer, got True"),
        ({0: 9, 1: 2}, "asks for 9 atoms of class 0, which has 8 samples"),
    ],
)
@pytest.mark.parametrize("kind", ALL)
def test_a_number_of_atoms_that_cannot_be_is_an_error(kind, n_atoms, message):
    X, y = make_classes((8, 6))
    with pytest.raises(ValueError, match=re.escape(message)):
        kind(n_atoms).fit_resample(X, y)


@pytest.mark.parametrize("kind", ALL)
def test_samples_that_cannot_be_are_an_error(kind):
    X, y = make_classes((8, 6))
    broken = X.copy()
    broken[2, 1] = np.nan
    for bad, labels, message in [
        (broken, y, "X contains NaN"),
        (X, y[:-1], "one label for each of the 14 samples of X"),
        (X, np.zeros(14), "y has one class, 0.0; at least two"),
        (X, np.where(y == 0, np.nan, 1.0), "y contains NaN"),
        (X, [None, *y[1:].tolist()], "y mixes types or has missing values"),
        (X[:, 0], y, "2D array"),
        (X.astype(str).astype(object) + "m", y, "could not convert string"),
    ]:
        with pytest.raises(ValueError, match=re.escape(message)):
            kind(2).fit_resample(bad, labels)


@pytest.mark.parametrize(
    "sampler, message",
    [
        (SelectAtoms(criterion="risk"), 'criterion must be "open-risk"'),
        (SelectAtoms(max_samples=0), "max_samples must be a positive integer"),
        (LearnAtoms(max_iter=0), "max_iter must be a positive integer"),
        (LearnAtoms(max_samples=2.5), "max_samples must be a positive integer"),
        (RandomAtoms(normalize="yes"), "normalize must be True or False"),
    ],
)
def test_parameters_that_cannot_be_are_an_error(sampler, message):
    X, y = make_classes((8, 6))
    with pytest.raises(ValueError, match=re.escape(message)):
        sampler.fit_resample(X, y)


def test_a_share_is_rounded_and_never_takes_the_last_atom():
    counts = count_class_atoms(0.25, np.arange(5), np.array([1, 6, 10, 14, 100]))
    assert counts.tolist() == [1, 2, 2, 4, 25]


# --- what it is for -----------------------------------------------------------------------------------


def measure_auroc(sampler, X, y, X_test, is_unknown):
    """Return how well the largest ridge score over the atoms, learned from all samples, ranks unknown samples."""
    atoms, rows, new = unit(sampler.fit_resample(X, y)[0]), unit(X), unit(X_test)
    width = pdist(rows, "sqeuclidean").mean()
    similar, own, asked = (np.exp(-cdist(part, atoms, "sqeuclidean") / width) for part in (rows, atoms, new))
    membership = (y[:, None] == np.unique(y)).astype(float)
    coefficients = np.linalg.solve(similar.T @ similar + PENALTY * own, similar.T @ membership)
    return roc_auc_score(is_unknown, -(asked @ coefficients).max(axis=1))


@pytest.mark.parametrize("share", slow_except([0.05], [0.05, 0.1]))
def test_atoms_of_a_small_risk_recognize_unknown_digits_better(share):
    X, y = load_digits(return_X_y=True)
    aurocs = {kind: [] for kind in (SelectAtoms, RandomAtoms, LearnAtoms, KMeansAtoms)}
    for seed in range(3):
        order = RNG(seed).permutation(len(y))
        known = np.isin(y, RNG(seed).permutation(10)[:6])
        train, test = order[:900][known[order[:900]]], order[900:]
        for kind, found in aurocs.items():
            sampler = kind(share, random_state=seed)
            found.append(measure_auroc(sampler, X[train], y[train], X[test], ~known[test]))
    mean = {kind: np.mean(found) for kind, found in aurocs.items()}
    assert mean[SelectAtoms] > mean[RandomAtoms]
    assert mean[LearnAtoms] > mean[KMeansAtoms]
