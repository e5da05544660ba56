"""A loaded recognizer equals the saved one, in any process; a corrupted file raises an error and runs nothing."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from same import check_same, check_same_labels, check_same_model
from scale import examples
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from srosr import BPDN, OMP, Lasso, ModelFileError, Queries, Ridge, SelectAtoms, SROSRClassifier, load
from srosr.model_files.file_format import read_model, write_model

TYPED = ("predict", "unknown_score", "log_p_value", "candidate", "class_scores")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    X, X_test, y, _ = train_test_split(X, y, train_size=200, test_size=80, random_state=0, stratify=y)
    known = y < 5
    return X[known], y[known], X_test


def fitted(digits, **parameters):
    return SROSRClassifier(**({"n_repeats": 3, "random_state": 0} | parameters)).fit(digits[0], digits[1])


def assert_same(a, b, X):
    check_same_model(b, a, X)
    found, expected = ({name: getattr(clf, name)(X) for name in TYPED} for clf in (b, a))
    assert [values.dtype for values in found.values()] == [values.dtype for values in expected.values()]
    for name in ("log_p_value", "class_scores"):
        check_same(found[name], expected[name])
    assert a.unknown_label_ == b.unknown_label_
    assert type(a.unknown_label_) is type(b.unknown_label_)
    for name, value in a.get_params().items():
        assert b.get_params()[name] == value, name


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"problem": BPDN(0.3)},
        {"problem": Ridge(0.1)},
        {"problem": OMP(5)},
        {"rule": "paper", "problem": Lasso(0.05), "openness": 0.2},
        {"rule": "matched", "threshold": 0.3},
        {"kernel": "rbf", "gamma": 0.001},
        {"kernel": "poly", "degree": 2, "normalize": "feature"},
        {"calibration": "split"},
        {"per_class": True, "target_rejection": 0.1},
        {"threshold": "f", "tail_size": "auto"},
        {"unknown_label": -99},
        {"random_state": np.int64(3), "threshold": np.float64(0.9)},
        {"random_state": np.random.RandomState(1)},
    ],
    ids=lambda parameters: str(parameters).split(" at 0x")[0],  # the same in every process
)
def test_a_saved_recognizer_predicts_the_same(digits, tmp_path, parameters):
    clf = fitted(digits, **parameters)
    clf.save(tmp_path / "model.srosr")
    again = load(tmp_path / "model.srosr")
    if isinstance(clf.random_state, np.random.RandomState):  # what it would draw next is no part of a model
        clf.set_params(random_state=None)
    assert_same(clf, again, digits[2])
    np.testing.assert_array_equal(clf.thresholds_, again.thresholds_)
    assert clf.threshold_info_.detail == again.threshold_info_.detail
    # Everything that needs more than predicting works on.
    again.set_threshold(target_rejection=0.2)
    clf.set_threshold(target_rejection=0.2)
    check_same(again.threshold_, clf.threshold_)
    pd.testing.assert_frame_equal(again.evidence(digits[2]), clf.evidence(digits[2]))
    check_same(again.explain(digits[2][0]).to_dict(), clf.explain(digits[2][0]).to_dict())


@pytest.mark.parametrize(
    "names",
    [
        np.array(["zero", "one", "two", "three", "four"]),
        np.array(["zero", "one", "two", "three", "four"], dtype=object),
        np.array([0, 1, 2, 3, 4], dtype=np.uint8),
        np.array([-2, 1, 2, 3, 4]),
        np.array([0.5, 1.5, 2.5, 3.5, 4.5]) * 2,
    ],
    ids=lambda n: str(n.dtype),
)
def test_labels_of_every_kind_come_back(digits, tmp_path, names):
    X, y, X_test = digits
    clf = SROSRClassifier(n_repeats=2, random_state=0).fit(X, names[y])
    clf.save(tmp_path / "model.srosr")
    assert_same(clf, load(tmp_path / "model.srosr"), X_test)


@pytest.mark.slow
def test_it_answers_the_same_in_another_process(digits, tmp_path):
    clf = fitted(digits)
    clf.save(tmp_path / "model.srosr")
    np.save(tmp_path / "X.npy", digits[2])
    program = (
        "import sys, numpy as np, srosr\n"
        "clf = srosr.load(sys.argv[1] + '/model.srosr')\n"
        "X = np.load(sys.argv[1] + '/X.npy')\n"
        "np.savez(sys.argv[1] + '/out.npz', s=clf.unknown_score(X), l=clf.log_p_value(X), p=clf.predict(X))\n"
    )
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, env=environment, timeout=300)
    with np.load(tmp_path / "out.npz") as out:
        check_same(out["s"], clf.unknown_score(digits[2]))
        check_same(out["l"], clf.log_p_value(digits[2]))
        check_same_labels(out["p"], clf.predict(digits[2]), out["s"], clf.threshold_)


def test_classes_may_come_and_go_before_and_after_saving(digits, tmp_path):
    X, y, X_test = digits
    clf = SROSRClassifier(n_repeats=3, random_state=0).fit(X[y < 4], y[y < 4]).add_class(X[y == 4], 4)
    clf.save(tmp_path / "grown.srosr")
    again = load(tmp_path / "grown.srosr")
    assert_same(clf, again, X_test)
    assert_same(clf.remove_class(0), again.remove_class(0), X_test)


def test_similarities_by_hand_are_saved_with_their_gram_matrix(digits, tmp_path):
    X, y, X_test = digits
    clf = SROSRClassifier(kernel="precomputed", n_repeats=2, random_state=0, calibration="split").fit(X @ X.T, y)
    clf.save(tmp_path / "model.srosr")
    atoms = X[np.sort(clf.training_rows_)]
    queries = Queries(X_test @ atoms.T, np.einsum("ij,ij->i", X_test, X_test))
    assert_same(clf, load(tmp_path / "model.srosr"), queries)


def test_names_of_features_are_kept_and_still_checked(digits, tmp_path):
    X, y, X_test = digits
    names = [f"pixel {i}" for i in range(64)]
    clf = SROSRClassifier(n_repeats=2, random_state=0).fit(pd.DataFrame(X, columns=names), y)
    clf.save(tmp_path / "model.srosr")
    again = load(tmp_path / "model.srosr")
    assert_same(clf, again, pd.DataFrame(X_test, columns=names))
    with pytest.raises(ValueError, match="feature names"):
        again.predict(pd.DataFrame(X_test, columns=names[::-1]))


def test_what_is_saved_is_what_was_fitted_whatever_was_set_since(digits, tmp_path):
    clf = fitted(digits)
    scores = clf.unknown_score(digits[2])
    clf.set_params(kernel="rbf", rule="paper", normalize=False)
    clf.save(tmp_path / "model.srosr")
    again = load(tmp_path / "model.srosr")
    check_same(again.unknown_score(digits[2]), scores)
    assert (again.kernel, again.rule, again.normalize) == ("linear", "calibrated", True)
    assert clf.explain(digits[2][0]).rule == "calibrated"


def test_one_sample_of_each_class_can_be_saved(digits, tmp_path):
    X, y, X_test = digits
    rows = np.unique(y, return_index=True)[1]
    with pytest.warns(UserWarning):
        clf = SROSRClassifier(n_repeats=3, random_state=0).fit(X[rows], y[rows])
    clf.save(tmp_path / "model.srosr")
    assert_same(clf, load(tmp_path / "model.srosr"), X_test)


def test_saving_needs_a_fit_and_a_kernel_with_a_name(digits, tmp_path):
    with pytest.raises(Exception, match="not fitted"):
        SROSRClassifier().save(tmp_path / "model.srosr")
    clf = fitted(digits, kernel=lambda A, B: A @ B.T)
    with pytest.raises(ValueError, match="kernel that is a function"):
        clf.save(tmp_path / "model.srosr")
    assert not (tmp_path / "model.srosr").exists()


# -- files that are not what they seem -------------------------------------------------------------------


def make_state(clf, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.srosr"
    clf.save(path)
    return read_model(path)


@pytest.fixture(scope="module")
def state(digits, tmp_path_factory):
    return make_state(fitted(digits), tmp_path_factory)


@pytest.fixture(scope="module")
def small_state(digits, tmp_path_factory):
    return make_state(fitted(digits, atoms=SelectAtoms(0.3)), tmp_path_factory)


@pytest.fixture(scope="module", params=["all samples", "small dictionary"])
def any_state(request):
    return request.getfixturevalue("state" if request.param == "all samples" else "small_state")


def write_corrupted(state, tmp_path, settings_=None, arrays=None, **others):
    """Write a file with a valid digest whose content has been changed, and return its path."""
    from dataclasses import replace

    path = tmp_path / "corrupted.srosr"
    write_model(
        path,
        replace(
            state,
            settings=state.settings if settings_ is None else settings_,
            arrays=state.arrays if arrays is None else arrays,
            **others,
        ),
    )
    return path


def works(clf):
    """Check that a loaded model predicts, explains and changes, and raises only errors of ours."""
    X = np.ones((2, 64)) + np.arange(64) / 64
    if clf.dictionary_.n_features != 64:
        return
    assert np.isfinite(clf.unknown_score(X)).all()
    clf.predict(X)
    str(clf.explain(X[0]))
    clf.set_threshold(target_rejection=0.2)
    with contextlib.suppress(ValueError):
        clf.add_class(X, 77).remove_class(77)


def test_a_truncated_or_flipped_file_raises_an_error(state, tmp_path):
    path = write_corrupted(state, tmp_path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for cut in [0, 1, 7, 8, 100, len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:cut])
        with pytest.raises(ModelFileError):
            load(path)
    for place in rng.integers(0, len(whole), 40):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(flipped))
        with pytest.raises(ModelFileError):
            load(path)


def test_a_model_of_another_kind_is_named(state, tmp_path):
    with pytest.raises(ModelFileError, match="holds a Perceptron"):
        load(write_corrupted(state, tmp_path, kind="Perceptron"))
    with pytest.raises(ModelFileError):  # one of ours, but not this one
        load(write_corrupted(state, tmp_path, kind="WSVM"))


@settings(max_examples=examples(80), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_invalid_content_raises_an_error_or_is_harmless(any_state, tmp_path, data):
    """Arrays dropped, reshaped, retyped, with numbers out of range: a ModelFileError, or a model that works."""
    arrays = dict(any_state.arrays)
    name = data.draw(st.sampled_from(sorted(arrays)))
    value = arrays[name]
    how = data.draw(st.sampled_from(["drop", "cut", "negative", "huge", "nan", "retype", "flatten", "empty"]))
    if how == "drop":
        del arrays[name]
    elif how == "cut":
        arrays[name] = value[:-1] if value.ndim else value
    elif how == "flatten":
        arrays[name] = value.reshape(-1)
    elif how == "empty":
        arrays[name] = value.reshape(-1)[:0]
    elif value.dtype.kind in "iuf":
        if how == "negative":
            arrays[name] = np.asarray(-value - 1)
        elif how == "huge":
            arrays[name] = np.asarray(value + np.asarray(10**12).astype(value.dtype))
        elif how == "nan" and value.dtype.kind == "f":
            arrays[name] = np.full_like(value, np.nan)
        elif how == "retype":
            arrays[name] = value.astype(np.float32)
    path = write_corrupted(any_state, tmp_path, arrays=arrays)
    try:
        clf = load(path)
    except ModelFileError:
        return
    works(clf)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_invalid_settings_raise_an_error_or_are_harmless(any_state, tmp_path, data):
    unexpected = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-5, 10**9),
        st.floats(-2, 2),
        st.text(max_size=5),
        st.just([]),
        st.just({}),
    )
    settings_ = {k: dict(v) if isinstance(v, dict) else v for k, v in any_state.settings.items()}
    name = data.draw(st.sampled_from(sorted(settings_)))
    if isinstance(settings_[name], dict) and settings_[name] and data.draw(st.booleans()):
        inside = data.draw(st.sampled_from(sorted(settings_[name])))
        settings_[name][inside] = data.draw(unexpected)
    elif data.draw(st.booleans()):
        settings_[name] = data.draw(unexpected)
    else:
        del settings_[name]
    path = write_corrupted(any_state, tmp_path, settings_)
    try:
        clf = load(path)
    except ModelFileError:
        return
    works(clf)


def test_a_number_of_samples_that_cannot_be_is_an_error(state, small_state, tmp_path):
    """Where all samples are atoms there is no such number; that of a small dictionary is bounded on both sides."""
    cases = [(state, 1), (state, 101), (small_state, None), (small_state, 1), (small_state, 10**9)]
    for original, n_samples in cases:
        assert original.settings["n_samples"] != n_samples
        with pytest.raises(ModelFileError, match="samples"):
            load(write_corrupted(original, tmp_path, original.settings | {"n_samples": n_samples}))


@pytest.fixture(scope="module")
def bare_state(digits, tmp_path_factory):
    options = {"label_by": "residual", "evidence_kinds": ["concentration"]}
    return make_state(fitted(digits, atoms=SelectAtoms(0.3), **options), tmp_path_factory)


@pytest.mark.parametrize("name", ["small_state", "bare_state"], ids=["class scores", "codes alone"])
def test_sizes_of_classes_that_cannot_be_are_an_error(name, request, tmp_path):
    original = request.getfixturevalue(name)
    sizes = original.arrays["class_sizes"]
    assert int(sizes.sum()) == original.settings["n_samples"] > original.arrays["dictionary/values"].shape[0]
    changed = [sizes[:-1], sizes[None], sizes.astype(np.float64), sizes * 0, -sizes, sizes + 1, sizes + 2**62]
    for wrong in changed:
        with pytest.raises(ModelFileError, match=r"sizes of classes|numbers of samples"):
            load(write_corrupted(original, tmp_path, arrays=original.arrays | {"class_sizes": wrong}))
    arrays = {name: array for name, array in original.arrays.items() if name != "class_sizes"}
    with pytest.raises(ModelFileError, match="class_sizes"):
        load(write_corrupted(original, tmp_path, arrays=arrays))


@pytest.mark.parametrize("pairs", [[[0, 0]], [[0, "3"]], [0, 3], [[0]], [[None, 3]], [[[0], 3]]], ids=str)
def test_numbers_of_atoms_that_cannot_be_are_an_error(small_state, tmp_path, pairs):
    atoms = small_state.settings["parameters"]["atoms"] | {"n_atoms": pairs}
    settings_ = small_state.settings | {"parameters": small_state.settings["parameters"] | {"atoms": atoms}}
    with pytest.raises(ModelFileError, match=r"invalid (atoms|counts)"):
        load(write_corrupted(small_state, tmp_path, settings_))


def test_a_parameter_of_a_later_version_is_ignored(state, tmp_path, digits):
    settings_ = {**state.settings, "parameters": {**state.settings["parameters"], "from_the_future": 1}}
    assert load(write_corrupted(state, tmp_path, settings_)).predict(digits[2]).shape == (80,)


def test_scores_do_not_depend_on_what_was_coded_before(tmp_path):
    """Over independent atoms BPDN uses a factor for few samples and an inverse for many; the model keeps both."""
    rng = np.random.default_rng(4)
    centers = rng.standard_normal((3, 80))
    X, y = np.repeat(centers, 12, axis=0) + 0.8 * rng.standard_normal((36, 80)), np.repeat(np.arange(3), 12)
    new = np.repeat(centers, 40, axis=0) + 0.8 * rng.standard_normal((120, 80))
    clf = SROSRClassifier(BPDN(0.3), n_repeats=5, random_state=0).fit(X, y)
    clf.save(tmp_path / "model.srosr")
    loaded = load(tmp_path / "model.srosr")
    few, many = clf.unknown_score(new[:2]), clf.unknown_score(new)
    check_same(loaded.unknown_score(new), many)
    np.testing.assert_array_equal(clf.unknown_score(new[:2]), few)
    np.testing.assert_array_equal(loaded.unknown_score(new[:2]), load(tmp_path / "model.srosr").unknown_score(new[:2]))
