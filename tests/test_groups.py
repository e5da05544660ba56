"""Samples of one group stay on one side of every split, and rates then speak of new groups."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from fitted import fit_once
from hypothesis import given
from hypothesis import strategies as st
from same import check_same
from worlds import World

import srosr
from srosr import CalibrationWarning, SelectAtoms, SROSRClassifier
from srosr.evidence.class_scores import HoldOut
from srosr.scoring import calibration as calibration_module
from srosr.scoring import cross_fitting as cross_fitting_module
from srosr.scoring.group_splits import SampleGroups, check_groups, extend_groups
from srosr.scoring.splits import split_off_calibration


@st.composite
def grouped_samples(draw):
    """Return classes of samples, sorted, and their groups; groups may span classes."""
    n_classes, n_groups = draw(st.integers(2, 4)), draw(st.integers(2, 8))
    n = draw(st.integers(n_classes, 40))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    class_of = np.sort(np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n - n_classes)]))
    groups = np.unique(rng.integers(0, n_groups, n), return_inverse=True)[1]
    return class_of, groups


def is_closed(rows, groups):
    return not np.isin(groups[np.setdiff1d(np.arange(len(groups)), rows)], groups[rows]).any()


@given(grouped_samples(), st.floats(0.05, 0.6))
def test_splits_have_whole_groups_and_leave_every_class_a_sample(samples, share):
    class_of, groups = samples
    for held in SampleGroups(groups, class_of).draw_splits(4, share, np.random.RandomState(0)):
        assert is_closed(held, groups)
        assert set(np.delete(class_of, held)) == set(class_of)


@given(grouped_samples(), st.integers(2, 20))
def test_folds_have_every_group_once_unless_a_class_would_be_gone(samples, n_folds):
    class_of, groups = samples
    sample_groups = SampleGroups(groups, class_of)
    folds = list(sample_groups.draw_folds(np.random.RandomState(0), n_folds))
    held = np.concatenate(folds) if folds else np.empty(0, int)
    assert len(np.unique(held)) == len(held)
    for fold in folds:
        assert is_closed(fold, groups) and set(np.delete(class_of, fold)) == set(class_of)
    for g in np.unique(groups):
        rows = np.flatnonzero(groups == g)
        ends_a_class = any((class_of[rows] == k).sum() == (class_of == k).sum() for k in np.unique(class_of[rows]))
        if ends_a_class:
            assert not np.isin(rows, held).any()
        elif len(np.unique(class_of[rows])) == 1 and n_folds > len(np.unique(groups)):
            assert np.isin(rows, held).all()


@given(grouped_samples())
def test_expanding_adds_the_rest_of_the_groups_and_nothing_else(samples):
    class_of, groups = samples
    rows = np.arange(0, len(groups), 3)
    expanded = SampleGroups(groups, class_of).expand(rows)
    np.testing.assert_array_equal(expanded, np.flatnonzero([g in set(groups[rows]) for g in groups]))


@given(grouped_samples())
def test_simulated_unknowns_share_no_group_with_a_class_that_is_there(samples):
    class_of, groups = samples
    absent = np.array([0])
    rows = SampleGroups(groups, class_of).find_simulated_only(absent)
    assert set(class_of[rows]) <= {0}
    assert not np.isin(groups[class_of != 0], groups[rows]).any()


@given(grouped_samples(), st.floats(0.1, 0.6))
def test_the_calibration_split_has_whole_groups(samples, share):
    class_of, groups = samples
    usable = np.ones(len(groups), bool)
    kept, split = split_off_calibration(class_of, usable, share, np.random.RandomState(0), groups)
    np.testing.assert_array_equal(np.sort(np.concatenate([kept, split])), np.arange(len(groups)))
    assert is_closed(split, groups) and set(class_of[kept]) == set(class_of)


def make_data(seed=0, n_groups=24, per_group=8):
    """Return samples of three classes in groups, each group shifted by itself."""
    world = World(seed, n_known=3, n_features=10)
    groups = np.repeat(np.arange(n_groups), per_group)
    y = np.tile(np.arange(3), len(groups))[: len(groups)]
    return world.of(y) + 0.6 * world.rng.standard_normal((n_groups, 10))[groups], y, groups


@pytest.mark.parametrize(
    "parameters",
    [{}, {"rule": "paper"}, {"calibration": "split"}, {"atoms": 0.4}, {"max_codings": 30}],
    ids=str,
)
def test_no_sample_is_scored_beside_another_of_its_group(parameters, monkeypatch):
    X, y, groups = make_data()
    seen = []

    class Spy(HoldOut):
        def __new__(cls, test, removed, present):
            seen.append((np.asarray(test), np.asarray(removed)))
            return super().__new__(cls, test, removed, present)

    tasks = []
    make_tasks = cross_fitting_module._make_tasks

    def spy_on_tasks(whole, *rest):
        for task in make_tasks(whole, *rest):
            tasks.append((whole, task))
            yield task

    monkeypatch.setattr("srosr.scoring.cross_test.HoldOut", Spy)
    monkeypatch.setattr(cross_fitting_module, "_make_tasks", spy_on_tasks)
    monkeypatch.setattr(cross_fitting_module, "MOST_REPEATS", 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        clf = SROSRClassifier(n_repeats=4, random_state=0, **parameters).fit(X, y, groups=groups)
        _ = clf.calibration_.held_out
    if "atoms" in parameters:
        assert tasks
        for whole, task in tasks:
            own = groups[whole.order]
            kept = task.kept[~np.isin(whole.class_of[task.kept], task.absent)]
            assert not np.isin(own[kept], own[task.test]).any()
        return
    own = groups[clf.training_rows_[clf.dictionary_.order]]
    assert len(seen) > 5
    for test, removed in seen:
        left = np.delete(np.arange(len(own)), removed)
        assert not np.isin(own[left], own[test]).any()
    if parameters.get("calibration") == "split":
        aside = np.setdiff1d(np.arange(len(y)), clf.training_rows_)
        assert len(aside) and not np.isin(groups[aside], own).any()
        np.testing.assert_array_equal(np.sort(clf._calibration_groups), np.sort(groups[aside]))


def test_scores_of_held_out_groups_are_higher_where_groups_differ():
    X, y, groups = make_data(1)
    plain = SROSRClassifier(n_repeats=4, random_state=0).fit(X, y)
    grouped = SROSRClassifier(n_repeats=4, random_state=0).fit(X, y, groups=groups)
    residual = [clf.calibration_.held_out.matched.mean() for clf in (plain, grouped)]
    assert residual[1] > 1.05 * residual[0]


def test_without_groups_nothing_changes():
    X, y, _ = make_data()
    clf = SROSRClassifier(n_repeats=3, random_state=0).fit(X, y)
    one_each = SROSRClassifier(n_repeats=3, random_state=0).fit(X, y, groups=None)
    np.testing.assert_array_equal(clf.unknown_score(X), one_each.unknown_score(X))
    assert clf._row_groups is None


def test_groups_are_text_or_numbers_and_survive_a_file(tmp_path):
    X, y, groups = make_data()
    names = np.array([f"person {g}" for g in groups])
    settings = {"n_repeats": 3, "random_state": 0, "calibration": "split", "target_rejection": 0.2}
    clf = SROSRClassifier(**settings).fit(X, y, groups=names)
    of_objects = SROSRClassifier(**settings).fit(X, y, groups=names.astype(object))
    check_same(of_objects.unknown_score(X), clf.unknown_score(X))
    clf.save(tmp_path / "m")
    again = srosr.load(tmp_path / "m")
    np.testing.assert_array_equal(again._row_groups, clf._row_groups)
    np.testing.assert_array_equal(again._group_names, clf._group_names)
    assert str(again.guarantees()) == str(clf.guarantees()) and again.guarantees().unit == "group"
    assert "new group" in again.guarantees().overall
    more, more_y, _ = make_data(2, n_groups=2)
    for model in (clf, again):
        model.update(more, more_y, groups=["person 3"] * 8 + ["somebody new"] * 8)
        assert model._group_names[-1] == "somebody new"
        assert set(model._row_groups[-16:]) == {int(np.flatnonzero(model._group_names == "person 3")[0]), 24}
    check_same(again.unknown_score(X), clf.unknown_score(X))


def test_the_number_of_groups_decides_whether_a_target_is_guaranteed():
    X, y, groups = make_data(n_groups=24)
    with pytest.warns(CalibrationWarning, match="takes 19 groups in the calibration split"):
        SROSRClassifier(n_repeats=3, calibration="split", random_state=0).fit(X, y, groups=groups)
    clf = SROSRClassifier(n_repeats=3, calibration="split", calibration_size=0.5, target_rejection=0.1, random_state=0)
    clf.fit(X, y, groups=groups)
    assert clf.threshold_info_.kind == "conformal" and "groups" in clf.threshold_info_.detail


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([1, 2, 3], "groups must have one value for each of the 192 samples"),
        (np.zeros((192, 2)), "groups must have one value"),
        (np.zeros(192), r"all samples are of one group, 0\.0"),
        (["a"] * 192, "all samples are of one group, 'a'"),
        (np.r_[np.nan, np.arange(191)], "must not have missing values"),
        ([None] + ["a"] * 100 + ["b"] * 91, "must not have missing values"),
        (np.full(192, 1j), "holds values of type complex"),
    ],
    ids=["short", "two columns", "one", "one text", "NaN", "None", "complex"],
)
def test_bad_groups_are_one_sentence_and_the_model_is_as_before(groups, message):
    X, y, _ = make_data()
    clf = SROSRClassifier(n_repeats=2, random_state=0).fit(X, y)
    before = vars(clf).copy()
    with pytest.raises(ValueError, match=message) as error:
        clf.fit(X, y, groups=groups)
    assert "\n" not in str(error.value)
    assert vars(clf) == before


def test_groups_that_are_the_classes_cannot_be_held_out():
    X, y, _ = make_data()
    with pytest.raises(ValueError, match="each class would lose its last sample"):
        SROSRClassifier(n_repeats=2).fit(X, y, groups=y)


def test_new_samples_need_groups_if_the_model_has_them_and_only_then():
    X, y, groups = make_data()
    grouped = SROSRClassifier(n_repeats=2, random_state=0).fit(X, y, groups=groups)
    plain = SROSRClassifier(n_repeats=2, random_state=0).fit(X, y)
    for change in (lambda m, **k: m.update(X[:9], y[:9], **k), lambda m, **k: m.add_class(X[:9] + 3, 7, **k)):
        with pytest.raises(ValueError, match="the model was fitted with groups"):
            change(grouped)
        with pytest.raises(ValueError, match="the model was fitted without groups"):
            change(plain, groups=np.arange(9))
        change(grouped, groups=groups[:9])
    assert 7 in grouped.classes_


def test_group_names_are_numbered_on():
    numbers, names = extend_groups(["c", "a", "z"], np.array(["a", "b", "c"]), 3)
    assert numbers.tolist() == [2, 0, 3] and names.tolist() == ["a", "b", "c", "z"]
    with pytest.raises(ValueError, match="groups must be text"):
        extend_groups([1, 2], np.array(["a"]), 2)
    assert check_groups([3, 3, 5, 5], np.array([0, 1, 0, 1]))[0].tolist() == [0, 0, 1, 1]


def test_a_group_of_a_single_class_is_a_simulated_unknown_when_its_class_is_left_out():
    class_of = np.repeat([0, 1, 2, 3], 6)
    groups = np.concatenate([np.repeat([0, 1], 3), np.repeat([2, 3], 3), np.repeat([4, 5], 3), np.full(6, 6)])
    splits = calibration_module.add_only_samples(
        [np.array([0, 1, 2])], [np.array([3])], class_of, SampleGroups(groups, class_of)
    )
    assert splits[0].tolist() == [0, 1, 2, *range(18, 24)]


def list_sides(clf):
    """Return the groups of the atoms, and those of the calibration split."""
    atoms = clf._row_groups[clf.training_rows_[clf.dictionary_.order]]
    return set(clf._group_names[atoms].tolist()), set(clf._group_names[clf._calibration_groups].tolist())


def test_groups_that_return_stay_on_their_side():
    X, y, groups = make_data(3, n_groups=30)
    settings = {"n_repeats": 3, "random_state": 0, "calibration": "split", "calibration_size": 0.4}
    clf = SROSRClassifier(target_rejection=0.2, **settings).fit(X, y, groups=groups)
    rng = np.random.default_rng(0)
    for step in range(4):
        more, more_y, of = make_data(10 + step, n_groups=12)
        # Some of the groups are known, on either side, and others new.
        names = np.concatenate([rng.choice(30, 8, replace=False), 100 * (step + 1) + np.arange(4)])
        atoms, aside = list_sides(clf)
        clf.update(more, more_y, groups=names[of])
        now_atoms, now_aside = list_sides(clf)
        assert not now_atoms & now_aside
        assert atoms <= now_atoms and aside <= now_aside
    assert now_atoms & set(range(100, 600)) and now_aside & set(range(100, 600)), "new groups join both sides"
    clf.add_class(more + 5, 9, groups=names[of])
    assert not set.intersection(*list_sides(clf))


def test_a_new_class_of_a_small_dictionary_is_scored_group_by_group(monkeypatch):
    X, y, groups = make_data(n_groups=24)
    clf = fit_once(SROSRClassifier(max_codings=50, random_state=0, atoms=SelectAtoms(0.5)), X, y, groups=groups)
    from srosr.classifiers import small_dictionary

    kept = []
    find = small_dictionary.NewClass._find
    monkeypatch.setattr(small_dictionary.NewClass, "_find", lambda self, which: kept.append(which) or find(self, which))
    new = np.repeat(np.arange(100, 105), 8)
    clf.add_class(X[:40] + 4, 7, groups=new)
    for which in kept[1:]:  # the first are all samples
        out = np.setdiff1d(np.arange(40), which)
        assert len(out) and not np.isin(new[which], new[out]).any()


def test_a_small_dictionary_scores_no_samples_of_groups_that_it_has():
    X, y, groups = make_data(n_groups=24)
    clf = fit_once(SROSRClassifier(max_codings=50, random_state=0, atoms=SelectAtoms(0.5)), X, y, groups=groups)
    n = len(clf.calibration_.held_out)
    more, more_y, of = make_data(5, n_groups=4)
    clf.update(more, more_y, groups=of)
    assert len(clf.calibration_.held_out) == n
    clf.update(more, more_y, groups=of + 500)
    assert len(clf.calibration_.held_out) == n + len(more)


def test_every_group_is_equally_likely_in_the_calibration_split():
    groups = np.concatenate([np.arange(20), np.repeat(np.arange(20, 40), 20)])
    class_of = np.arange(len(groups)) % 2
    drawn = np.zeros(40)
    for seed in range(400):
        rows = SampleGroups(groups, class_of).draw_share(0.5, np.random.RandomState(seed))
        drawn[np.unique(groups[rows])] += 1
    assert np.abs(drawn / 400 - 0.5).max() < 0.12 and abs(drawn[:20].mean() - drawn[20:].mean()) < 10


def test_large_numbers_as_groups_are_told_apart():
    names = np.array([2**60, 2**60 + 1])
    numbers, joined = extend_groups(np.array([2**60 + 1, 2**60 + 2], dtype=np.uint64), names, 2)
    assert numbers.tolist() == [1, 2] and joined.tolist() == [2**60, 2**60 + 1, 2**60 + 2]


def test_missing_values_of_pandas_are_missing():
    import pandas as pd

    with pytest.raises(ValueError, match="must not have missing values"):
        check_groups(pd.array(["a", None, "b"]), np.array([0, 1, 0]))
