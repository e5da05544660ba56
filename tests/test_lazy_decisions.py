"""Decisions on Dask collections: what ``model.decide`` returns for every chunk, computed when asked for."""

import doctest
import os
import re
import sys
from pathlib import Path

import counted_model
import numpy as np
import pandas as pd
import pytest
from counted_model import CountedOSNN, RecordingOSNN, name_shared
from same import check_same_decisions
from scale import slow_except
from sklearn.exceptions import NotFittedError
from worlds import World

from srosr import OSNN, SROSRClassifier, open_set_methods
from srosr.classifiers.base import Decisions
from srosr.distributed.dask_cluster import DaskCluster
from srosr.distributed.lazy_decisions import DaskDecisions, decide

dask = pytest.importorskip("dask", reason='lazy decisions need Dask: pip install "srosr[cluster]"')
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

pytestmark = pytest.mark.filterwarnings("ignore::srosr.SROSRWarning")

FIELDS = ("label", "candidate", "unknown_score", "rejected")
CHUNKS = (40, 1, 35, 24)
# A fast method of every base class; the others are slow.
QUICK = ("calibrated", "naive", "svm-pairwise", "openmax", "osnn", "mahalanobis")


@pytest.fixture(scope="module")
def train():
    return World(0).known(20)


@pytest.fixture(scope="module")
def new():
    world = World(0)
    return np.concatenate([world.fresh(50)[0], world.unknowns(50)])


@pytest.fixture(scope="module")
def model(train):
    return OSNN(random_state=0).fit(*train)


@pytest.fixture(scope="module")
def named(train):
    return OSNN(random_state=0).fit(as_frame(train[0]), train[1])


def as_frame(X):
    return pd.DataFrame(X).add_prefix("p")


def chunked(X, sizes=CHUNKS):
    return da.from_array(X, chunks=(sizes, (X.shape[1],)))


def decide_in_parts(model, X, sizes=CHUNKS):
    """Return what the model itself decides on the rows of each chunk, and the threshold of each decision."""
    ends = np.cumsum(sizes)
    parts = [model.decide(X[end - size : end]) for size, end in zip(sizes, ends, strict=True)]
    decided = Decisions(*(np.concatenate([getattr(part, name) for part in parts]) for name in FIELDS))
    return decided, model.thresholds_[np.searchsorted(model.classes_, decided.candidate)]


def check_decided(found, expected):
    decided, thresholds = expected
    for name in FIELDS:
        assert getattr(found, name).dtype == getattr(decided, name).dtype, name
    check_same_decisions(found, decided, thresholds)


# --- arrays ---


@pytest.mark.parametrize("name", slow_except(QUICK, open_set_methods()))
def test_every_method_decides_on_chunks_as_on_their_rows(name, train, new):
    clf = open_set_methods()[name]
    few = {"n_repeats": 3, "cv": 4, "random_state": 0}
    clf.set_params(**{k: v for k, v in few.items() if k in clf.get_params()}).fit(*train)
    for scheduler in ("synchronous", "threads"):
        found = decide(clf, chunked(new)).compute(scheduler=scheduler)
        check_decided(found, decide_in_parts(clf, new))


@pytest.mark.parametrize("labels", [
    np.array(["ant", "bee", "cat", "dog"]),
    np.array(["ant", "bee", "cat", "dog"], dtype=object),
    np.array([0, 1, 2, 200], dtype=np.uint8),
    np.array([0.0, 1.0, 2.0, -2.0]),
    np.array([False, True, True, False]),
], ids=["text", "objects", "bytes", "floats", "bools"])  # fmt: skip
def test_labels_of_every_type_keep_it(labels, train, new):
    X, y = train
    clf = OSNN().fit(X, labels[y])
    lazy = decide(clf, chunked(new))
    expected = decide_in_parts(clf, new)
    assert [getattr(lazy, name).dtype for name in FIELDS] == [getattr(expected[0], name).dtype for name in FIELDS]
    check_decided(lazy.compute(), expected)


def test_nothing_is_computed_before_it_is_asked_for_and_every_chunk_once(train, new):
    calls = counted_model.BATCHES
    calls.clear()
    lazy = decide(RecordingOSNN().fit(*train), chunked(new))
    assert isinstance(lazy, DaskDecisions) and lazy.label.chunks == (CHUNKS,) and calls == []
    lazy.compute(scheduler="synchronous")
    assert sorted(calls) == sorted(CHUNKS)
    calls.clear()
    assert lazy.rejected[:40].compute(scheduler="synchronous").shape == (40,)
    assert calls == [40]


def test_the_model_is_one_key_of_the_graph(model, new):
    keys = [key for key in lazy_keys(decide(model, chunked(new)).label) if "srosr-model" in str(key)]
    assert len(keys) == 1
    frame = decide(model, dd.from_pandas(as_frame(new), npartitions=5))
    assert len([key for key in lazy_keys(frame) if "srosr-model" in str(key)]) == 1


def lazy_keys(collection):
    (optimized,) = dask.optimize(collection)
    return list(dict(optimized.__dask_graph__()))


def test_a_threshold_that_is_set_later_does_not_count(train, new):
    clf = OSNN(random_state=0).fit(*train)
    before = decide_in_parts(clf, new)
    lazy = decide(clf, chunked(new))
    clf.set_threshold(threshold=0.0)
    assert clf.decide(new).rejected.all()
    check_decided(lazy.compute(), before)
    assert decide(clf, chunked(new)).rejected.compute().all()


def test_a_model_keeps_its_number_of_threads_and_its_names(train, new):
    X, y = train
    clf = SROSRClassifier(n_repeats=2, random_state=0, n_jobs=2).fit(as_frame(X), y)
    with pytest.warns(UserWarning, match="valid feature names"):
        expected = decide_in_parts(clf, new)
    check_decided(decide(clf, chunked(new)).compute(), expected)
    assert clf.n_jobs == 2 and clf.feature_names_in_[0] == "p0"


def test_how_chunks_lie_in_memory_does_not_matter(train, new):
    clf = SROSRClassifier(n_repeats=2, random_state=0).fit(*train)
    lazy = decide(clf, chunked(new).map_blocks(np.asfortranarray))
    check_decided(lazy.compute(), decide_in_parts(clf, new))


def test_chunks_of_unknown_length_and_without_rows_are_fine(model, new):
    X = chunked(new)
    X = X[X[:, 0] > 0]
    assert np.isnan(X.shape[0])
    there = new[new[:, 0] > 0]
    check_decided(decide(model, X).compute(), decide_in_parts(model, there, [len(there)]))
    assert decide(model, chunked(new)[:0]).label.compute().shape == (0,)
    assert decide(model, chunked(new, (50, 0, 50))).label.compute().shape == (100,)


# --- data frames ---


@pytest.mark.parametrize("names", [True, False])
def test_a_data_frame_keeps_its_index_and_divisions(names, model, named, new, recwarn):
    table = as_frame(new)
    table.index = pd.Index(np.arange(100) * 3, name="id")
    X = dd.from_pandas(table, npartitions=3)
    clf = named if names else model
    lazy = decide(clf, X)
    assert lazy.divisions == X.divisions and tuple(lazy.columns) == FIELDS
    found = lazy.compute()
    assert found.index.equals(table.index)
    sizes = X.map_partitions(len).compute().tolist()
    check_decided(Decisions(*(found[name].to_numpy() for name in FIELDS)), decide_in_parts(model, new, sizes))
    assert (found.dtypes == lazy.dtypes).all()
    assert not [w for w in recwarn if "feature names" in str(w.message)]


def test_partitions_without_rows_are_fine(named, new):
    X = dd.from_pandas(as_frame(new), npartitions=3)
    assert len(decide(named, X[X.p0 > 1e9]).compute()) == 0


# --- bad input ---


@pytest.mark.parametrize("make, kind, words", [
    (lambda X: chunked(X).rechunk({1: 1}), ValueError, "X.rechunk({1: -1})"),
    (lambda X: chunked(X[:, :-1]), ValueError, "features, but the model was fitted to"),
    (lambda X: chunked(X)[:, 0], ValueError, "X must have two dimensions, samples and features, but has 1."),
    (lambda X: chunked(X).astype(complex), ValueError, "X has values of the type complex128: give numbers."),
    (lambda X: X, TypeError, "X must be a Dask array or a Dask data frame, got ndarray"),
    (as_frame, TypeError, "got DataFrame; model.decide(X) takes"),
    (lambda X: dd.from_pandas(as_frame(X), npartitions=2)["p0"], TypeError, "got Series"),
    (lambda X: dd.from_pandas(as_frame(X).drop(columns="p1"), npartitions=2), ValueError, "X lacks 'p1': the columns"),
    (lambda X: dd.from_pandas(as_frame(X).assign(id=1), npartitions=2), ValueError, "X has also 'id': the columns"),
    (lambda X: dd.from_pandas(as_frame(X).iloc[:, ::-1], npartitions=2), ValueError, "but in another order"),
    (lambda X: dd.from_pandas(as_frame(X).assign(p1="x"), npartitions=2), ValueError, "not numbers: 'p1'."),
])  # fmt: skip
def test_what_cannot_be_decided_on_is_an_error_before_anything_is_computed(make, kind, words, named, new):
    with pytest.raises(kind, match=re.escape(words)) as caught:
        decide(named, make(new))
    assert "\n" not in str(caught.value)


def test_a_data_frame_of_another_width_is_an_error_for_a_model_without_names(model, new):
    X = dd.from_pandas(as_frame(new).assign(more=0.0), npartitions=2)
    with pytest.raises(ValueError, match=r"columns, but the model was fitted to \d+ features\."):
        decide(model, X)


def test_a_model_must_be_a_fitted_one(new):
    X = chunked(new)
    with pytest.raises(NotFittedError, match="OSNN instance is not fitted"):
        decide(OSNN(), X)
    for other in ("model.srosr", OSNN, None):
        with pytest.raises(TypeError, match="model must be a fitted open set classifier of srosr, got"):
            decide(other, X)


def test_without_dask_the_extra_is_named(model, new, monkeypatch):
    monkeypatch.setitem(sys.modules, "dask.array", None)
    with pytest.raises(ImportError, match=re.escape('pip install "srosr[cluster]"')):
        decide(model, new)


def test_the_sessions_of_the_guide_run_as_printed():
    path = Path(__file__).resolve().parents[1] / "docs" / "guide" / "cluster.md"
    failed, tried = doctest.testfile(str(path), module_relative=False, encoding="utf-8")
    assert tried and not failed


# --- a cluster ---


@pytest.mark.slow
def test_each_worker_unpickles_the_model_once(train, new, tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    clf = CountedOSNN().fit(*train)
    monkeypatch.setenv(counted_model.FOLDER, str(tmp_path))
    sizes = (5,) * 20
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        workers = set(client.run(os.getpid).values())
        assert len(workers) == 2
        # Warm up, so that both workers get chunks.
        client.run(lambda: __import__("srosr").OSNN.__name__)
        found = decide(clf, chunked(new, sizes)).compute()
        ran = set(client.run(lambda dask_worker: dask_worker.state.executed_count).values())
    check_decided(found, decide_in_parts(clf, new, sizes))
    assert min(ran) > 0
    unpickled = [int(path.name.split("-")[0]) for path in tmp_path.iterdir()]
    assert {pid: unpickled.count(pid) for pid in workers} == dict.fromkeys(workers, 1)


@pytest.mark.slow
def test_what_tasks_share_reaches_each_worker_once(train, tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    clf = CountedOSNN().fit(*train)
    monkeypatch.setenv(counted_model.FOLDER, str(tmp_path))
    with DaskCluster("local:2") as cluster:
        answers = dict(cluster.run(name_shared, [0.4] * 12, shared=clf))
        assert dict(cluster.run(name_shared, [0.0] * 2, shared="other"))[1][1] == "str"
    assert len(answers) == 12 and {name for _, name in answers.values()} == {"CountedOSNN"}
    workers = {pid for pid, _ in answers.values()}
    unpickled = [int(path.name.split("-")[0]) for path in tmp_path.iterdir()]
    assert len(workers) == 2 and sorted(unpickled) == sorted(workers)
