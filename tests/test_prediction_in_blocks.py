"""Prediction in threads: evidence is built block by block and files are read ahead, and no answer depends on it."""

import io
import threading

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from fitted import fit_once
from same import check_same, check_same_decisions
from threadpoolctl import ThreadpoolController, threadpool_limits
from worlds import World

from srosr import SROSRClassifier
from srosr._support.threads import ThreadPool, map_ahead, one_blas_thread
from srosr.cli.app import main
from srosr.coding.encode import sparse_encode
from srosr.evidence.coded_blocks import map_blocks
from srosr.evidence.table import Evidence
from srosr.operations import model_input
from srosr.tables.formats import open_rows
from srosr.tables.read_options import ReadOptions
from srosr.tables.text_table import TextRows


@pytest.fixture(scope="module")
def world():
    return World(0, n_known=4)


@pytest.fixture(scope="module")
def clf(world):
    return fit_once(SROSRClassifier(n_repeats=3, random_state=0), *world.known(40))


@pytest.fixture(scope="module")
def samples(world):
    return np.vstack([world.fresh(180)[0], world.known(180)[0]])


# --- evidence in blocks ---


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 64, 255, 513, 769, 900])
def test_evidence_in_blocks_is_that_of_all_samples_at_once(clf, samples, n, n_jobs):
    with one_blas_thread():
        queries = clf.dictionary_.query(samples[:n])
        codes = sparse_encode(queries, clf.dictionary_, clf.problem_)
        blocks = map_blocks(clf._build_evidence, queries, codes, n_jobs)
        whole = clf._build_evidence(queries, codes)
    assert (len(blocks) > 1) == (n > 512)
    assert all(len(block) >= min(n, 256) for block in blocks)
    parts = Evidence.concatenate(blocks)
    for name in ("values", "residuals", "class_scores", "empty"):
        check_same(getattr(parts, name), getattr(whole, name))


def test_the_number_of_threads_changes_no_decision(clf, samples):
    many = np.vstack([samples, samples[::-1]])
    found = []
    for n_jobs in (1, 2, 5):
        clf.n_jobs = n_jobs
        found.append(clf.decide(many))
    for other in found[1:]:
        check_same_decisions(other, found[0], clf.threshold_)


def test_what_fails_in_a_block_is_raised(clf, samples):
    queries = clf.dictionary_.query(samples)
    codes = sparse_encode(queries, clf.dictionary_, clf.problem_)

    def fail(queries, codes):
        raise ValueError(f"{len(queries)} samples")

    with pytest.raises(ValueError, match="samples"):
        map_blocks(fail, queries, codes, 2)


# --- one BLAS thread ---


def test_any_thread_can_limit_blas_to_one_thread():
    libraries = ThreadpoolController().select(user_api="blas").lib_controllers

    def count():
        with one_blas_thread():
            return [library.get_num_threads() for library in libraries]

    with threadpool_limits(2):
        before = [library.get_num_threads() for library in libraries]
        for _ in range(2):
            assert count() == [1] * len(libraries)  # here, and then elsewhere
            with ThreadPool(1) as pool:
                assert pool.submit(count).result() == [1] * len(libraries)
            assert [library.get_num_threads() for library in libraries] == before


# --- several items at a time ---


def test_results_come_in_order_and_several_are_computed_at_a_time():
    started = [threading.Event() for _ in range(6)]
    together = threading.Barrier(2)

    def work(number):
        started[number].set()
        together.wait(10)  # raises unless two are at work
        return 10 * number

    with ThreadPool(2) as pool:
        results = map_ahead(work, iter(range(6)), pool)
        for number in range(6):
            assert next(results) == 10 * number
            assert not any(event.is_set() for event in started[number + 4 :])
        assert next(results, None) is None


def test_an_error_of_the_source_is_raised_after_the_results_before_it():
    def fetch():
        yield 1
        yield 2
        raise OSError("damaged")

    seen = []
    with pytest.raises(OSError, match="damaged"), ThreadPool(2) as pool:
        for item in map_ahead(lambda number: -number, fetch(), pool):
            seen.append(item)
    assert seen == [-1, -2]


def test_without_threads_an_item_is_fetched_when_it_is_wanted():
    items = iter(range(3))
    results = map_ahead(str, items, ThreadPool(0))
    assert next(results) == "0" and next(items) == 1 and next(results) == "2"


def test_files_are_read_ahead_and_streams_are_not(tmp_path):
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n3,4\n")
    assert open_rows(tmp_path / "rows.csv", labels="no").may_read_ahead
    stream = TextRows(io.BytesIO(b"a,b\n1,2\n3,4\n"), "standard input", ReadOptions(labels="no"))
    assert not stream.may_read_ahead


# --- the command ---


@pytest.fixture
def folder(tmp_path, clf, samples, monkeypatch):
    """Return a folder with a model and a table of six batches."""
    monkeypatch.setattr(model_input, "choose_batch_size", lambda clf: 137)
    clf.save(tmp_path / "model.srosr")
    names = [f"f{j}" for j in range(samples.shape[1])]
    pd.DataFrame(samples[:800], columns=names).to_csv(tmp_path / "rows.csv", index=False)
    return tmp_path


def predict(folder, *arguments):
    command = ["predict", folder / "model.srosr", folder / "rows.csv", *arguments]
    return CliRunner().invoke(main, [str(word) for word in command])


def test_the_command_decides_alike_with_one_thread_and_with_several(folder):
    for jobs in (1, 3):
        assert predict(folder, "-o", folder / f"{jobs}.csv", "--jobs", jobs).exit_code == 0
    alone, several = (pd.read_csv(folder / f"{jobs}.csv").to_dict("list") for jobs in (1, 3))
    check_same(several, alone)
    assert several["row"] == list(range(800))


@pytest.mark.parametrize("fault", [100, 200, 700])
def test_a_fault_in_the_file_is_reported_alike_with_several_threads_and_leaves_no_file(folder, fault):
    lines = (folder / "rows.csv").read_text().splitlines()
    lines[fault] = "oops" + lines[fault][lines[fault].index(",") :]
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    alone, several = predict(folder, "--jobs", 1), predict(folder, "--jobs", 2)
    assert alone.exit_code == several.exit_code == 2
    assert alone.stdout == several.stdout == "" and alone.stderr == several.stderr
    assert f"line {fault + 1}" in several.stderr
    assert predict(folder, "-o", folder / "out.csv", "--jobs", 2).exit_code == 2
    assert not (folder / "out.csv").exists()


def test_a_classifier_that_fails_midway_leaves_no_file_and_no_thread(folder, monkeypatch):
    decide, calls = SROSRClassifier.decide, []

    def fail_later(self, X, **options):
        calls.append(len(X))
        if len(calls) == 3:
            raise MemoryError
        return decide(self, X, **options)

    monkeypatch.setattr(SROSRClassifier, "decide", fail_later)
    before = set(threading.enumerate())
    assert predict(folder, "-o", folder / "out.csv", "--jobs", 2).exit_code != 0
    assert 3 <= len(calls) <= 5 and set(calls) == {137}  # two at a time, and at most one more fetched
    assert not list(folder.glob("out*")) and set(threading.enumerate()) <= before
