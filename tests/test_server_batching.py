"""Batches: who is decided together, who waits, and that company changes nothing; and models whose files change."""

import asyncio
import time
from threading import Barrier
from types import SimpleNamespace

import numpy as np
import pytest
from same import check_same_decisions
from server_runs import make_samples, save_model, server_required

server_required()

from srosr.classifiers.base import Decisions  # noqa: E402
from srosr.server import batching, samples, settings  # noqa: E402
from srosr.server import store as stores  # noqa: E402
from srosr.server.batching import MOST_ROWS  # noqa: E402


def open_store(folder, **parameters):
    save_model(folder / "model.srosr", **parameters)
    (folder / "private").mkdir()
    store = stores.ModelStore({"model": folder / "model.srosr"}, settings.ServerSettings(jobs=1), folder / "private")
    store.load_all()
    return store


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return open_store(tmp_path_factory.mktemp("model")).get("model")


@pytest.fixture(scope="module")
def X():
    return np.concatenate(make_samples(seed=1)[::2])


@pytest.fixture
def slow(monkeypatch):
    """Return a model that calls ``slow.work`` with the samples of a batch; by default it takes 0.1 ms for each."""
    monkeypatch.setattr(batching, "name_features", lambda clf, X: X)
    found = SimpleNamespace(work=lambda X: time.sleep(0.0001 * len(X)))

    def decide(X, coverage=None):
        found.work(X)
        return Decisions(X[:, 0], X[:, 0], X[:, 0], X[:, 0] > 0)

    found.clf = SimpleNamespace(decide=decide)
    return found


def ask(batcher, model, X, **asked):
    X = np.zeros((X, 2)) if isinstance(X, int) else X
    return batcher.decide(model, samples.Samples(X, np.arange(len(X))), **asked)


def run(test, wait=0.05, waiting=1000, **options):
    """Run a test with a batcher; return its result and the sizes of the batches."""
    sizes = []

    async def main():
        batcher = batching.Batcher(wait, waiting, on_batch=sizes.append, **options)
        try:
            return await asyncio.wait_for(test(batcher), 60)
        finally:
            batcher.close()

    return asyncio.run(main()), sizes


def send(model, *requests, coverages=None, **options):
    """Send samples, or so many, all at once; return the decisions or errors, and the sizes of the batches."""

    async def test(batcher):
        asked = zip(requests, coverages or [None] * len(requests), strict=True)
        tasks = [ask(batcher, model, X, coverage=coverage) for X, coverage in asked]
        return await asyncio.gather(*tasks, return_exceptions=True)

    return run(test, **options)


def test_requests_that_wait_are_decided_together_as_alone_with_and_without_sets(model, X):
    pieces = np.split(np.random.default_rng(0).permutation(len(X)), [1, 4, 9, 40])
    found, sizes = send(model, *(X[piece] for piece in pieces), coverages=(asked := [None, 0.9, None, 0.9, 0.9]))
    assert sizes == [1, 94, 5]  # the first goes at once, the others while it is decided
    for piece, coverage, decisions in zip(pieces, asked, found, strict=True):
        assert (decisions.prediction_set is None) == (coverage is None)
        for place, row in enumerate(piece):
            alone = model.clf.decide(X[row : row + 1], coverage=coverage)
            check_same_decisions(decisions[place : place + 1], alone, model.clf.threshold_)
            if coverage is not None:
                assert decisions.prediction_set[place].tolist() == alone.prediction_set[0].tolist()


@pytest.mark.parametrize("threads", [1, 3])
def test_pieces_are_recorded_in_order_and_together_are_the_decisions_on_all(model, X, threads):
    large, recorded, progress = np.random.default_rng(0).permutation(np.tile(X, (16, 1))), [], []

    async def test(batcher):
        await ask(batcher, model, large, record=False)
        return await ask(batcher, model, large, on_progress=progress.append)

    found, _ = run(test, threads=threads, on_decisions=lambda model, decisions: recorded.append(decisions))
    assert [said["done"] for said in progress] == [*range(MOST_ROWS, len(large), MOST_ROWS), len(large)]
    for decisions in (found, Decisions.concatenate(recorded)):
        check_same_decisions(decisions, model.clf.decide(large), model.clf.threshold_)


@pytest.mark.parametrize(("comes", "rows", "wait", "sizes"), [
    (True, 1, 600, [2]), (False, 1, 0.2, [1]), (False, MOST_ROWS, 600, [MOST_ROWS]),
])  # fmt: skip
def test_few_samples_wait_for_others_that_arrive_but_not_too_long(slow, comes, rows, wait, sizes):
    async def test(batcher):
        async def arrive():
            with batcher.announce():
                while not comes or not batcher.waiting:
                    await asyncio.sleep(0.01)
            await ask(batcher, slow, 1)

        other, started = asyncio.create_task(arrive()), time.monotonic()
        await asyncio.sleep(0)
        await ask(batcher, slow, rows)
        other.cancel()
        return time.monotonic() - started

    taken, found = run(test, wait=wait)
    assert found == sizes and (comes or rows > 1 or taken >= 0.2)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_large_request_is_cut_and_takes_turns_with_endless_small_ones(slow, threads):
    order = []

    async def test(batcher):
        async def repeat():
            while True:
                await ask(batcher, slow, 1)

        large, small = (asyncio.create_task(work) for work in (ask(batcher, slow, 10 * MOST_ROWS), repeat()))
        await large
        small.cancel()

    _, sizes = run(test, threads=threads, on_decisions=lambda _, decisions: order.append(len(decisions)))
    assert max(sizes) == MOST_ROWS and order.count(MOST_ROWS) == 10
    assert order.index(1) <= threads + 1, "it waited for more than the pieces in work and the next one"


def test_a_large_request_alone_keeps_all_coders_busy(slow):
    meeting = Barrier(4)
    slow.work = lambda X: meeting.wait(30)  # broken, and an error, unless four pieces are decided at a time
    (found,), sizes = send(slow, 8 * MOST_ROWS, threads=4)
    assert len(found) == 8 * MOST_ROWS and sizes == [MOST_ROWS] * 8


def test_too_many_waiting_requests_are_refused_and_those_that_have_begun_are_not(slow):
    (large, small, *errors), _ = send(slow, 1000, 1, 1, 1, waiting=2)
    assert (len(large), len(small)) == (1000, 1)
    assert [(error.status, error.headers) for error in errors] == [(429, {"Retry-After": "1"})] * 2


def test_only_the_request_at_fault_gets_the_error_and_its_row(tmp_path, X):
    model, broken = open_store(tmp_path, kernel="poly").get("model"), X[:3].copy()
    broken[1] = 1e200
    (_, good, bad, fine), sizes = send(model, X[:1], X[1:3], broken, X[3:4])
    assert sizes == [1, 6]
    assert bad.message.startswith("the request has a sample in row 1 that cannot be predicted: ")
    for found, part in ((good, slice(1, 3)), (fine, slice(3, 4))):
        check_same_decisions(found, model.clf.decide(X[part]), model.clf.threshold_)


def test_a_private_copy_is_removed_when_nobody_uses_the_snapshot(tmp_path):
    store = open_store(tmp_path)
    used = store.get("model")
    clf = save_model(tmp_path / "model.srosr", target_rejection=0.1)
    swapped, path = asyncio.run(store.refresh("model")), used.path
    assert swapped.version != used.version and swapped.clf.threshold_ == clf.threshold_
    assert path.exists() and swapped.path.exists() and path != swapped.path
    del used
    assert not path.exists() and swapped.path.exists()
