"""Model files of the rivals: what they hold is checked before it is believed."""

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
    """What the file of a fitted rival holds."""
    if name not in _states:
        clf = clone(RIVALS[name])
        few = {"n_repeats": 2, "cv": 2, "random_state": 0}
        clf.set_params(**{k: v for k, v in few.items() if k in clf.get_params()})
        clf.fit(*World(0, n_features=6).known(9)).save(tmp_path / "model")
        _states[name] = read_model(tmp_path / "model")
    return _states[name]


def spoilt(state, path, **changes):
    """A file with a valid digest whose content has been changed."""
    write_model(path, replace(state, **changes))
    return path


def refused_or_harmless(path):
    """Either a ModelFileError, or a model that answers and takes a threshold."""
    try:
        clf = srosr.load(path)
    except ModelFileError:
        return "refused"
    X = World(1, n_features=clf.n_features_in_).known(3)[0]
    with np.errstate(all="ignore"):
        assert clf.predict(X).shape == clf.unknown_score(X).shape == (12,)
        assert not np.isnan(clf.unknown_score(X)).any()
        clf.set_threshold(target_rejection=0.1)
        clf.set_threshold("youden")
    return "harmless"


def spoil(value, how):
    """A changed array, or None where the change makes no sense for it."""
    if how == "cut":
        return value[:-1] if value.ndim else None
    if how == "longer":
        return np.concatenate([value, value[:1]]) if value.ndim else None
    if how == "flatten":
        return value.reshape(-1) if value.ndim != 1 else value[:, None]
    if how == "empty":
        return value.reshape(-1)[:0]
    if how == "text":
        return np.full(value.shape, "x")
    if value.dtype.kind not in "if":
        return None
    if how == "negative":
        return np.asarray(-value - 1)
    if how == "huge":
        return np.asarray(value + np.asarray(10**12).astype(value.dtype))
    if how == "nan":
        return np.full(value.shape, np.nan)
    return value.astype(np.float32)


@every
def test_arrays_that_make_no_sense_are_refused_or_harmless(name, state, tmp_path):
    outcomes = []
    for key, value in state.arrays.items():
        without = {k: v for k, v in state.arrays.items() if k != key}
        outcomes.append(refused_or_harmless(spoilt(state, tmp_path / "m", arrays=without)))
        for how in ("cut", "longer", "flatten", "empty", "text", "negative", "huge", "nan", "retype"):
            changed = spoil(value, how)
            if changed is not None:
                path = spoilt(state, tmp_path / "m", arrays=without | {key: changed})
                outcomes.append(refused_or_harmless(path))
    assert outcomes.count("refused") > len(outcomes) / 2


@every
def test_every_array_and_number_of_a_model_is_checked(name, state, tmp_path):
    """Wrong shapes, types and numbers that are not finite: refused, not tried out."""
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
                srosr.load(spoilt(state, tmp_path / "m", arrays=state.arrays | {key: changed}))
                pytest.fail(f"{key}: {how}")
    for key, value in state.settings.get("numbers", {}).items():
        for changed in (None, "x", [], True, 1e200, -abs(value) - 1):
            numbers = state.settings["numbers"] | {key: changed}
            with pytest.raises(ModelFileError):
                srosr.load(spoilt(state, tmp_path / "m", settings=state.settings | {"numbers": numbers}))
                pytest.fail(f"{key}: {changed}")


def test_a_small_file_cannot_ask_for_much_memory(tmp_path):
    """Shapes that broadcast against each other are refused before anything is computed."""
    import tracemalloc

    from srosr.rivals import EVM

    EVM(cv=2).fit(*World(0).known(9)).save(tmp_path / "model")
    state = read_model(tmp_path / "model")
    tracemalloc.start()
    try:
        for key in ("model/shape", "model/scale", "samples"):
            changed = state.arrays | {key: np.ones((20_000, 1, 1) if key != "samples" else (20_000, 20))}
            with pytest.raises(ModelFileError):
                srosr.load(spoilt(state, tmp_path / "m", arrays=changed))
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


@every
def test_settings_that_make_no_sense_are_refused_or_harmless(name, state, tmp_path):
    def variants(settings):
        for key, value in settings.items():
            yield {k: v for k, v in settings.items() if k != key}
            for bad in (None, -1, 10**9, 0.5, "x", [], {}, True):
                yield settings | {key: bad}
            if isinstance(value, dict):
                for changed in variants(value):
                    yield settings | {key: changed}

    outcomes = [refused_or_harmless(spoilt(state, tmp_path / "m", settings=s)) for s in variants(state.settings)]
    assert outcomes.count("refused") > len(outcomes) / 3


@every
def test_a_file_of_another_rival_is_not_taken_for_this_one(name, state, tmp_path):
    for kind in ("SROSRClassifier", "OSNN", "SCIRejection", "Nobody"):
        if kind != state.kind:
            refused_or_harmless(spoilt(state, tmp_path / "m", kind=kind))
    with pytest.raises(ModelFileError, match="Nobody"):
        srosr.load(spoilt(state, tmp_path / "m", kind="Nobody"))


def test_classifiers_of_others_are_not_written(tmp_path):
    from srosr.rivals import OSNN

    class Mine(OSNN):
        pass

    mine = Mine(cv=2).fit(*World(0).known(9))
    assert isinstance(mine, OpenSetClassifier)
    with pytest.raises(ValueError, match="Mine"):
        mine.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_model_that_does_not_declare_itself_is_not_written(tmp_path, monkeypatch):
    from srosr.rivals import OSNN
    from srosr.rivals.cross_fitted import Model

    clf = OSNN(cv=2).fit(*World(0).known(9))
    with monkeypatch.context() as patch:
        patch.setattr(OSNN, "model_type", Model)
        with pytest.raises(TypeError, match="model_type must be NearestOfClass"):
            clf.save(tmp_path / "model")
    monkeypatch.setattr(type(clf.model_), "shapes", staticmethod(lambda n_classes, n_columns: {}))
    with pytest.raises(TypeError, match="shapes must have the arrays members"):
        clf.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
