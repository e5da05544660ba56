"""Model files of the rivals: their content is checked before use."""

from dataclasses import replace

import numpy as np
import pytest
from scale import slow_except
from sklearn.base import clone
from worlds import World

import srosr
from srosr import ModelFileError, OpenSetClassifier, SROSRClassifier, open_set_methods
from srosr.model_files.file_format import read_model, write_model

pytestmark = pytest.mark.filterwarnings("ignore::srosr.SROSRWarning")

RIVALS = {name: clf for name, clf in open_set_methods().items() if not isinstance(clf, SROSRClassifier)}
every = pytest.mark.parametrize("name", slow_except(["naive", "svm-pairwise", "openmax", "evm", "osnn"], RIVALS))
_states = {}


@pytest.fixture
def state(name, tmp_path):
    """Return the content of the file of a fitted rival."""
    if name not in _states:
        clf = clone(RIVALS[name])
        few = {"n_repeats": 2, "cv": 2, "random_state": 0}
        clf.set_params(**{k: v for k, v in few.items() if k in clf.get_params()})
        clf.fit(*World(0, n_features=6).known(9)).save(tmp_path / "model")
        _states[name] = read_model(tmp_path / "model")
    return _states[name]


def write_corrupted(state, path, **changes):
    """Write a file with a valid digest whose content has been changed, and return its path."""
    write_model(path, replace(state, **changes))
    return path


def load_and_use(path):
    """Return "error" where a file is no model of ours, "works" where it is one that predicts and takes a threshold."""
    try:
        clf = srosr.load(path)
    except ModelFileError:
        return "error"
    X = World(1, n_features=clf.n_features_in_).known(3)[0]
    with np.errstate(all="ignore"):
        assert clf.predict(X).shape == clf.unknown_score(X).shape == (12,)
        assert not np.isnan(clf.unknown_score(X)).any()
        clf.set_threshold(target_rejection=0.1)
        clf.set_threshold("youden")
    return "works"


MISSING = object()
LARGE = 10**12
DAMAGE = {
    "missing": lambda value: MISSING,
    "cut": lambda value: value[:-1] if value.ndim else value,
    "longer": lambda value: np.concatenate([value, value[:1]]) if value.ndim else value,
    "flattened": lambda value: value.reshape(-1) if value.ndim != 1 else value[:, None],
    "empty": lambda value: value.reshape(-1)[:0],
    "text": lambda value: np.full(value.shape, "x"),
    "nan": lambda value: np.full(value.shape, np.nan),
    "negative": lambda value: np.asarray(-value - 1),
    "large": lambda value: np.asarray(value + np.asarray(LARGE).astype(value.dtype)),
    "float32": lambda value: value.astype(np.float32),
}
OF_NUMBERS = ("nan", "negative", "large", "float32")

# Arrays whose numbers cannot be negative or large: sizes, class numbers, probabilities, parameters of distributions.
BOUNDED = {"held_out/candidate", "held_out/truth", "model/members", "model/priors", "model/taken"}
WRONG = {
    "negative": BOUNDED
    | {"classes", "dictionary/labels", "dictionary/order", "unknown_label"}
    | {f"model/{name}" for name in ("far", "inside", "match", "rest", "scale", "shape")},
    "large": BOUNDED | {"model/near"},
}
SCORES = {"held_out/scores", "held_out/simulated", "threshold/value", "threshold/per_class"}
OF_ANY_TYPE = {
    "classes",
    "dictionary/labels",
    "dictionary/values",
    "threshold/value",
    "threshold/per_class",
    "unknown_label",
}


def cannot_be_right(key, how, score_range):
    """Return whether no model can have this array with this damage; otherwise the file has to work."""
    if how == "float32":
        return key not in OF_ANY_TYPE
    if how in WRONG:
        if key in SCORES:
            return score_range[0] >= 0 if how == "negative" else score_range[1] < LARGE
        return key in WRONG[how]
    return key != "unknown_label" or how in ("missing", "empty")  # the label of the unknown may be any


@every
def test_damaged_arrays_are_errors_unless_another_model_could_have_them(name, state, tmp_path):
    found = set()
    for key, value in state.arrays.items():
        without = {k: v for k, v in state.arrays.items() if k != key}
        for how, damage in DAMAGE.items():
            if how in OF_NUMBERS and value.dtype.kind not in "if":
                continue
            changed = damage(value)
            if changed is not MISSING and changed.dtype == value.dtype and np.array_equal(changed, value):
                continue  # nothing was damaged: a number cannot be cut, an empty array not be made empty
            arrays = without if changed is MISSING else without | {key: changed}
            outcome = load_and_use(write_corrupted(state, tmp_path / "m", arrays=arrays))
            if cannot_be_right(key, how, RIVALS[name].score_range):
                assert outcome == "error", f"{key}: {how}"
                found.add(how)
    assert found == set(DAMAGE)


@every
def test_every_array_and_number_of_a_model_is_checked(name, state, tmp_path):
    """Wrong shapes, types and numbers that are not finite are errors before anything is computed."""
    for key, value in state.arrays.items():
        if not key.startswith("model/") and key != "samples":
            continue
        bad = {"type": value.astype(np.float32), "more": np.repeat(value[None], 2, axis=0)}
        if value.size:
            bad["cut"] = value[:-1]
        if value.dtype == np.float64 and value.size:
            bad |= {"nan": np.full(value.shape, np.nan), "infinite": np.full(value.shape, np.inf)}
        if key == "model/members":
            bad |= {"unsorted": value[::-1].copy(), "one class": np.zeros_like(value), "far": value + 10**6}
        if key.split("/")[-1] in ("shape", "scale"):
            bad["negative"] = -value
        if key.split("/")[-1] in ("match", "rest", "inside"):
            bad["negative"] = np.where(np.arange(3)[:, None] > 0, -value, value)
        for how, changed in bad.items():
            with pytest.raises(ModelFileError):
                srosr.load(write_corrupted(state, tmp_path / "m", arrays=state.arrays | {key: changed}))
                pytest.fail(f"{key}: {how}")
    for key, value in state.settings.get("numbers", {}).items():
        for changed in (None, "x", [], True, 1e200, -abs(value) - 1):
            numbers = state.settings["numbers"] | {key: changed}
            with pytest.raises(ModelFileError):
                srosr.load(write_corrupted(state, tmp_path / "m", settings=state.settings | {"numbers": numbers}))
                pytest.fail(f"{key}: {changed}")


def test_a_small_file_cannot_ask_for_much_memory(tmp_path):
    """Shapes that broadcast against each other are errors before anything is computed."""
    import tracemalloc

    from srosr.rivals.evm import EVM

    EVM(cv=2).fit(*World(0).known(9)).save(tmp_path / "model")
    state = read_model(tmp_path / "model")
    tracemalloc.start()
    try:
        for key in ("model/shape", "model/scale", "samples"):
            changed = state.arrays | {key: np.ones((20_000, 1, 1) if key != "samples" else (20_000, 20))}
            with pytest.raises(ModelFileError):
                srosr.load(write_corrupted(state, tmp_path / "m", arrays=changed))
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


# Parameters of which fits only take the truth value, a seed, or nothing at all.
ANYTHING = {"coef0", "degree", "normalize", "per_class", "random_state"}
NO_NUMBERS = (None, "x", [], {}, True)


def cannot_be_a_setting(path, bad, settings):
    """Return whether no model has this value at this place of its settings."""
    group, *inside = path
    if not inside:
        empty = bad is not MISSING and bad in ([], {})
        if group == "numbers":
            return bool(settings["numbers"])
        return not empty if group in ("choice", "parameters", "tuned") else True
    if group in ("choice", "tuned"):
        return False  # kept to be read, not to compute with
    if group == "threshold" and inside[0] == "standard_error":
        return bad is not MISSING and bad is not None and not isinstance(bad, float)
    if group == "threshold":
        return bad is MISSING
    if group == "parameters":
        return inside[0] not in ANYTHING and bad is not MISSING and bad in ("x", [], {})
    return bad is MISSING or any(bad is wrong or bad == wrong for wrong in NO_NUMBERS) or bad == -1


def changes_of(settings, path=()):
    """Yield every place of nested settings, without its value and with wrong ones: place, wrong value, settings."""
    for key, value in settings.items():
        yield (*path, key), MISSING, {k: v for k, v in settings.items() if k != key}
        for bad in (None, -1, 10**9, 0.5, "x", [], {}, True):
            yield (*path, key), bad, settings | {key: bad}
        if isinstance(value, dict):
            for place, bad, changed in changes_of(value, (*path, key)):
                yield place, bad, settings | {key: changed}


@every
def test_wrong_settings_are_errors_unless_another_model_could_have_them(name, state, tmp_path):
    for place, bad, settings in changes_of(state.settings):
        outcome = load_and_use(write_corrupted(state, tmp_path / "m", settings=settings))
        if cannot_be_a_setting(place, bad, state.settings):
            assert outcome == "error", f"{'/'.join(place)}: {'missing' if bad is MISSING else repr(bad)}"


@every
def test_a_file_of_another_rival_is_not_taken_for_this_one(name, state, tmp_path):
    for kind in ("SROSRClassifier", "OSNN", "SCIRejection"):
        # Files of SCIRejection and RatioRejection hold the same things; what they hold is that of either.
        if kind != state.kind and {kind, state.kind} != {"SCIRejection", "RatioRejection"}:
            assert load_and_use(write_corrupted(state, tmp_path / "m", kind=kind)) == "error", kind
    with pytest.raises(ModelFileError, match="Nobody"):
        srosr.load(write_corrupted(state, tmp_path / "m", kind="Nobody"))


def test_classifiers_of_others_are_not_written(tmp_path):
    from srosr.rivals.osnn import OSNN

    class Mine(OSNN):
        pass

    mine = Mine(cv=2).fit(*World(0).known(9))
    assert isinstance(mine, OpenSetClassifier)
    with pytest.raises(ValueError, match="Mine"):
        mine.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_model_that_does_not_declare_itself_is_not_written(tmp_path, monkeypatch):
    from srosr.rivals.cross_fitted import Model
    from srosr.rivals.osnn import OSNN

    clf = OSNN(cv=2).fit(*World(0).known(9))
    with monkeypatch.context() as patch:
        patch.setattr(OSNN, "model_type", Model)
        with pytest.raises(TypeError, match="model_type must be NearestOfClass"):
            clf.save(tmp_path / "model")
    monkeypatch.setattr(type(clf.model_), "shapes", {})
    with pytest.raises(TypeError, match="shapes must have the arrays members"):
        clf.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
