"""The call paths of fit and predict: as CONTRIBUTING has it, each step once, in one thread where that suffices."""

from __future__ import annotations

import re
import sys
import threading
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from fitted import fit_once
from same import check_same
from sklearn.utils.validation import validate_data
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits
from worlds import World

import srosr
from srosr import Lasso, SROSRClassifier, sparse_encode
from srosr._support import threads
from srosr._support.threads import ThreadPool, one_blas_thread
from srosr.evidence import ridge
from srosr.evidence.class_scores import CLASS_SCORES, ClassScorer, HoldOut

PACKAGE = Path(srosr.__file__).parent
CONTRIBUTING = Path(__file__).parent.parent / "CONTRIBUTING.md"


@pytest.fixture(scope="module")
def world():
    world = World(0, n_known=4)
    return *world.known(12), world.fresh(6)[0]


@pytest.fixture(scope="module")
def fitted(world):
    return fit_once(SROSRClassifier(n_repeats=3, random_state=0), *world[:2])


def documented_steps(heading):
    """Read the steps "`file`: `function`" under a heading, in order."""
    section = CONTRIBUTING.read_text("utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"`([\w/]+\.py)`:\s+`([\w.]+)`", section)


def trace_calls(function):
    """Call a function and return the calls inside the package, as pairs of file and qualified name."""
    calls = []

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            path = Path(frame.f_code.co_filename).relative_to(PACKAGE).as_posix()
            calls.append((path, frame.f_code.co_qualname))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return calls


def find_missing_step(steps, calls):
    """Return the first step that does not follow the ones before it, None if all do."""
    rest = iter(calls)
    for file, name in steps:
        if not any(f == file and (q == name or q.endswith((f".{name}", f"{name}.__init__"))) for f, q in rest):
            return file, name
    return None


def test_the_documented_call_path_of_fit_is_the_one_taken(world):
    X, y, _ = world
    clf = SROSRClassifier(n_repeats=2, random_state=0, calibration="split")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # too few samples for a guarantee
        calls = trace_calls(lambda: clf.fit(X, y))
    steps = documented_steps("The call path of `fit`")
    assert len(steps) > 10
    assert find_missing_step(steps, calls) is None


def test_the_documented_call_path_of_fit_with_atoms_is_the_one_taken(world):
    X, y = (part[:24] for part in world[:2])  # of two classes
    calls = trace_calls(lambda: SROSRClassifier(atoms=0.5, random_state=0).fit(X, y))
    steps = documented_steps("The call path of `fit` with `atoms`")
    assert len(steps) > 10
    assert find_missing_step(steps, calls) is None


def test_the_documented_call_path_of_predict_is_the_one_taken(world, fitted):
    steps = documented_steps("The call path of `predict`")
    assert len(steps) > 10
    assert find_missing_step(steps, trace_calls(lambda: fitted.predict(world[2].tolist()))) is None


def test_a_step_out_of_order_is_found():
    calls = [("a.py", "first"), ("b.py", "Second.run"), ("a.py", "third")]
    assert find_missing_step([("a.py", "first"), ("b.py", "run"), ("a.py", "third")], calls) is None
    assert find_missing_step([("b.py", "run"), ("a.py", "first")], calls) == ("a.py", "first")


@pytest.mark.parametrize("as_list", [True, False])
def test_queries_are_validated_at_most_once(world, fitted, as_list, monkeypatch):
    checked = []

    def count(*arguments, **options):
        checked.append(1)
        return validate_data(*arguments, **options)

    monkeypatch.setattr("srosr.classifiers.base.validate_data", count)
    monkeypatch.setattr("srosr.dictionary.dictionary._check_array", lambda *_, **__: pytest.fail("validated again"))
    fitted.predict(world[2].tolist() if as_list else world[2])
    assert len(checked) == as_list


@pytest.mark.parametrize(
    "spoil, message",
    [
        (lambda X: X * np.nan, "NaN"),
        (lambda X: X * np.inf, "infinity|NaN"),
        (lambda X: X[:, :-1], "features"),
        (lambda X: X[:0], "0 sample"),
        (lambda X: X[0], "2D"),
        (lambda X: X.astype(complex), "[Cc]omplex"),
    ],
)
def test_arrays_that_are_not_as_they_should_be_do_not_pass_unchecked(world, fitted, spoil, message):
    with pytest.raises(ValueError, match=message):
        fitted.predict(spoil(world[2] + 1.0))


def test_the_ridge_systems_of_a_fit_are_factored_once(world, monkeypatch):
    made = []
    init = ridge.RidgeRegression.__init__
    monkeypatch.setattr(ridge.RidgeRegression, "__init__", lambda *a: made.append(1) or init(*a))
    SROSRClassifier(n_repeats=2, random_state=0).fit(*world[:2])
    assert len(made) == 4, "collaborative, local, gaussian and standardized"


def test_holding_out_atoms_does_not_change_the_scores_of_new_samples(world, fitted):
    dictionary = fitted.dictionary_
    held = [HoldOut(np.arange(3), np.arange(3), np.arange(4))]
    with one_blas_thread():
        queries = dictionary.query(world[2])
        both, alone = (ClassScorer(dictionary, CLASS_SCORES, plan).score(queries).by_kind for plan in (held, []))
    check_same(both, alone)


def test_little_work_starts_no_thread_and_gives_the_same_scores(world, fitted, monkeypatch):
    X = world[2]
    started = []
    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda thread: started.append(thread.name) or start(thread))
    inline = fitted.unknown_score(X)
    assert not started
    monkeypatch.setattr("srosr.coding.encode._INLINE_WORK", 0)
    check_same(fitted.unknown_score(X), inline)
    assert started


def test_a_pool_without_threads_runs_jobs_where_they_are_submitted():
    with ThreadPool(0) as pool:
        assert pool.submit(threading.get_ident).result() == threading.get_ident()
        assert pool.map(lambda n: n * n, [1, 2, 3]) == [1, 4, 9]
        with pytest.raises(ZeroDivisionError):
            pool.submit(lambda: 1 / 0)


def test_an_interrupted_job_without_threads_sets_the_stop_flag():
    def interrupt():
        raise KeyboardInterrupt

    pool = ThreadPool(0)
    with pytest.raises(KeyboardInterrupt), pool:
        pool.submit(interrupt)
    assert pool.stop[0] == 1


def test_many_threads_code_as_one_does():
    rng = np.random.default_rng(0)
    atoms, X = rng.standard_normal((60, 20)), rng.standard_normal((400, 20))
    one, three = (sparse_encode(X, atoms, Lasso(0.1), normalize=True, n_jobs=n) for n in (1, 3))
    check_same(one.toarray(), three.toarray())
    # A gap is what rounding leaves of two objectives, and these are about 1.
    np.testing.assert_allclose(one.gap, three.gap, rtol=0, atol=1e-9)


def test_blas_threads_are_as_before_afterwards():
    def count():
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    with threadpool_limits(2):  # tests run with one
        before = count()
        assert max(before) == 2
        with one_blas_thread(), one_blas_thread():
            assert set(count()) == {1}
        assert count() == before


def test_the_blas_of_torch_is_found_once_it_is_loaded(monkeypatch):
    found = []
    monkeypatch.setattr(threads, "ThreadpoolController", lambda: found.append(1) or ThreadpoolController())
    monkeypatch.setattr(threads, "_blas_libraries", cache(threads._blas_libraries.__wrapped__))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    for _ in range(2):
        with one_blas_thread():
            assert len(found) == 1
    monkeypatch.setitem(sys.modules, "torch", object())
    for _ in range(2):
        with one_blas_thread():
            assert len(found) == 2


def test_deferred_passes_run_when_they_are_first_needed_and_once(world, monkeypatch):
    from srosr.scoring import cross_test

    encode, coded = cross_test.sparse_encode, []
    monkeypatch.setattr(cross_test, "sparse_encode", lambda q, *a, **k: coded.append(len(q)) or encode(q, *a, **k))
    clf = SROSRClassifier(rule="paper", threshold=0.1, n_repeats=2, random_state=0).fit(*world[:2])
    first = sum(coded)
    clf.set_weight(0.2)
    assert sum(coded) == first
    held_out = clf.calibration_.held_out
    assert sum(coded) == first + len(held_out)
    clf.set_weight(0.1)
    assert clf.calibration_.held_out is held_out


@pytest.mark.slow
def test_the_latency_benchmark_prints_every_classifier(capsys):
    from benchmarks import latency

    latency.main(["--data", "digits", "--repeats", "5"])
    printed = capsys.readouterr().out
    assert printed.count("SROSRClassifier") == printed.count("KNNDistance") == printed.count("sklearn SVC") == 3
    assert "target for one sample: at most 1 ms" in printed
