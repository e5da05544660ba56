"""Micro-batches: who is decided together, who waits, and that company changes nothing."""

import asyncio
import json
import os
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from same import check_same, check_same_decisions, check_same_labels
from server_runs import make_samples, save_model, server_required

server_required()

from srosr.classifiers.base import Decisions  # noqa: E402
from srosr.operations.input_errors import InputError  # noqa: E402
from srosr.server import batching, decide_route, model_store  # noqa: E402
from srosr.server.batching import MOST_ROWS, Batcher, TooManyWaiting, decide_samples  # noqa: E402
from srosr.server.model_store import ModelStore  # noqa: E402
from srosr.server.private_folder import make_private_folder  # noqa: E402
from srosr.server.request_samples import RequestSamples  # noqa: E402
from srosr.server.schemas import DecideParameters  # noqa: E402
from srosr.server.settings import ServerSettings  # noqa: E402
from srosr.server.watching import ModelWatch  # noqa: E402


def load_model(folder, **parameters):
    save_model(folder / "model.srosr", **parameters)
    store = ModelStore({"model": folder / "model.srosr"}, ServerSettings(jobs=1), folder)
    store.load_all()
    return store.get("model")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return load_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def samples():
    X, _, unknown = make_samples(seed=1)
    return np.concatenate([X, unknown])


async def decide(batcher, model, X, **options):
    """Return all decisions on samples."""
    return [found async for _, found in batcher.decide(model, X, np.arange(len(X)), **options)]


def run(test, **options):
    """Run a test with a batcher; return the sizes of the batches, too."""
    sizes = []

    async def main():
        batcher = Batcher(
            options.get("wait", 0.05), options.get("waiting", 1000), threads=options.get("threads", 1),
            on_batch=sizes.append, on_decisions=options.get("on_decisions"),
        )  # fmt: skip
        try:
            return await test(batcher)
        finally:
            batcher.close()

    return asyncio.run(main()), sizes


def test_requests_that_wait_are_decided_together(model, samples):
    async def test(batcher):
        return await asyncio.gather(*(decide(batcher, model, samples[i : i + 1]) for i in range(10)))

    _, sizes = run(test)
    # The first goes at once, since nobody is arriving; the others wait for the coder and go together.
    assert sizes == [1, 9]


@pytest.mark.parametrize("coverage", [None, 0.9])
def test_a_decision_in_a_batch_is_the_decision_alone(model, samples, coverage):
    order = np.random.default_rng(0).permutation(len(samples))

    async def test(batcher):
        pieces = np.array_split(order, [1, 4, 9, 40])
        found = await asyncio.gather(*(decide(batcher, model, samples[piece], coverage=coverage) for piece in pieces))
        return list(zip(pieces, found, strict=True))

    found, sizes = run(test)
    assert max(sizes) > 40
    for piece, (decisions,) in found:
        for place, row in enumerate(piece):
            alone = decide_samples(model, samples[row : row + 1], coverage)
            # Products of many rows and of one differ in their last bits.
            check_same(decisions.unknown_score[place], alone.unknown_score[0])
            check_same_labels(decisions.label[[place]], alone.label, alone.unknown_score, model.clf.threshold_)
            assert decisions.candidate[place] == alone.candidate[0]
            if coverage is not None:
                assert decisions.prediction_set[place].tolist() == alone.prediction_set[0].tolist()


def test_requests_with_and_without_sets_are_decided_apart(model, samples):
    async def test(batcher):
        return await asyncio.gather(
            *(decide(batcher, model, samples[i : i + 1], coverage=0.9 if i % 2 else None) for i in range(6))
        )

    found, sizes = run(test)
    assert sum(sizes) == 6 and len(sizes) >= 2
    for i, (decisions,) in enumerate(found):
        assert (decisions.prediction_set is not None) == bool(i % 2)


@pytest.mark.parametrize("threads", [1, 3])
def test_pieces_come_and_are_recorded_in_order_and_are_the_decisions_on_the_whole(model, samples, threads):
    large = np.random.default_rng(0).permutation(np.tile(samples, (16, 1)))
    recorded = []

    async def test(batcher):
        return await decide(batcher, model, large)

    parts, _ = run(test, threads=threads, on_decisions=lambda model, decisions: recorded.append(decisions))
    whole = decide_samples(model, large, None)
    for found in (parts, recorded):
        check_same(np.concatenate([part.unknown_score for part in found]), whole.unknown_score)


def test_small_requests_are_not_spread_over_the_coders(model, samples):
    async def test(batcher):
        return await asyncio.gather(*(decide(batcher, model, samples[i : i + 1]) for i in range(10)))

    _, sizes = run(test, threads=4)
    assert sizes == [1, 9]


def test_a_sample_waits_for_another_that_is_arriving_but_not_longer_than_stated(model, samples):
    async def test(batcher):
        loop = asyncio.get_running_loop()
        with batcher.announce():  # somebody whose body never ends
            started = loop.time()
            await decide(batcher, model, samples[:1])
            return loop.time() - started

    waited, _ = run(test, wait=0.2)
    assert waited >= 0.19  # the longest wait of who is arriving began a moment before

    async def together(batcher):
        async def late():
            with batcher.announce() as arrived:
                await asyncio.sleep(0.02)
                arrived()
                await decide(batcher, model, samples[1:2])

        async def early():
            await asyncio.sleep(0.01)
            await decide(batcher, model, samples[:1])

        await asyncio.gather(late(), early())

    _, sizes = run(together, wait=5.0)
    assert sizes == [2]


def test_nobody_waits_for_an_upload_that_stands_still(model, samples):
    async def test(batcher):
        loop = asyncio.get_running_loop()
        with batcher.announce():
            await asyncio.sleep(0.4)
            started = loop.time()
            for row in range(3):
                await decide(batcher, model, samples[row : row + 1])
            return loop.time() - started

    waited, _ = run(test, wait=0.4)
    assert waited < 0.4


def test_a_large_request_does_not_wait_for_others(model, samples):
    async def test(batcher):
        with batcher.announce():
            await asyncio.wait_for(decide(batcher, model, np.tile(samples, (2, 1))), 10)

    _, sizes = run(test, wait=60.0)
    assert sum(sizes) == 2 * len(samples)


# --- small and large requests, with a model that takes a stated time ---


class SlowModel:
    """Takes a stated time for each row."""

    def __init__(self, seconds):
        self.seconds = seconds

    def decide(self, X, coverage=None):
        time.sleep(self.seconds * len(X))
        column = np.zeros(len(X))
        return Decisions(column, column, column, column > 0)


@pytest.fixture
def slow(monkeypatch):
    monkeypatch.setattr(batching, "name_features", lambda clf, X: X)
    return SimpleNamespace(clf=SlowModel(0.0004))  # a piece of the most rows takes 0.1 s


@pytest.mark.parametrize("threads", [1, 3])
def test_a_large_request_is_cut_and_a_small_one_gets_its_turn_after_one_piece(slow, threads):
    large = np.zeros((1200, 2))
    finished = []

    async def test(batcher):
        async def small():
            await asyncio.sleep(0.001)
            await decide(batcher, slow, large[:1])
            finished.append("small")

        async def big():
            async for part, _ in batcher.decide(slow, large, np.arange(len(large))):
                finished.append(part.stop)

        await asyncio.gather(big(), small())

    _, sizes = run(test, threads=threads)
    assert max(sizes) <= MOST_ROWS and sum(sizes) == len(large) + 1
    assert len(finished) > -(-len(large) // MOST_ROWS)
    assert finished.index("small") <= threads, "the small request waited for more than a piece of each coder"


@pytest.mark.parametrize("threads", [1, 2])
def test_small_requests_do_not_wait_for_the_pieces_of_large_ones(slow, threads):
    large, one = np.zeros((20_000, 2)), np.zeros((1, 2))

    async def test(batcher):
        bulk = [asyncio.create_task(decide(batcher, slow, large)) for _ in range(3)]
        await asyncio.sleep(0.05)
        loop, taken = asyncio.get_running_loop(), []
        for _ in range(12):
            started = loop.time()
            await decide(batcher, slow, one)
            taken.append(loop.time() - started)
        assert not any(task.done() for task in bulk), "the small ones came last"
        for task in bulk:
            task.cancel()
        await asyncio.wait(bulk)
        return taken

    taken, _ = run(test, threads=threads)
    # One coder is at a short piece, 26 ms, when a small request comes; of two one is free. In turns with pieces of
    # the most rows of three clients they would take 0.1 s and more.
    assert np.median(taken[2:]) < (0.06 if threads == 1 else 0.02)


@pytest.mark.parametrize("threads", [1, 2])
def test_large_requests_go_on_while_small_ones_come_without_end(slow, threads):
    async def test(batcher):
        async def ask():
            while True:
                await decide(batcher, slow, np.zeros((50, 2)))

        small = [asyncio.create_task(ask()) for _ in range(4)]
        await asyncio.sleep(0.01)
        await asyncio.wait_for(decide(batcher, slow, np.zeros((256, 2))), 10)
        for task in small:
            task.cancel()
        await asyncio.wait(small)

    run(test, threads=threads)


def test_a_large_request_alone_keeps_all_coders_busy_with_long_pieces(slow):
    async def test(batcher):
        started = asyncio.get_running_loop().time()
        async for _, _ in batcher.decide(slow, np.zeros((8 * MOST_ROWS, 2)), np.arange(8 * MOST_ROWS)):
            await asyncio.sleep(0)
        return asyncio.get_running_loop().time() - started

    seconds, sizes = run(test, threads=4)
    assert sizes == [MOST_ROWS] * 8 and seconds < 0.6  # 0.2 s, and 0.8 s with one coder


def test_a_request_that_has_begun_is_not_refused(slow):
    async def test(batcher):
        bulk = asyncio.create_task(decide(batcher, slow, np.zeros((1024, 2))))
        await asyncio.sleep(0.02)
        small = [asyncio.create_task(decide(batcher, slow, np.zeros((1, 2)), coverage=0.1 * i)) for i in range(1, 6)]
        await asyncio.wait([bulk, *small])
        return bulk, small

    (bulk, small), _ = run(test, waiting=3)
    assert sum(map(len, bulk.result())) == 1024
    assert [isinstance(task.exception(), TooManyWaiting) for task in small] == [False, False, False, True, True]


# --- answers ---


def write_answer(model, X, monkeypatch, **parameters):
    """Return the answer of the route and the numbers of rows that were written at a time."""
    sizes, real = [], decide_route.DecisionFormat.write

    def write(self, numbers, *more):
        sizes.append(len(numbers))
        return real(self, numbers, *more)

    monkeypatch.setattr(decide_route.DecisionFormat, "write", write)
    samples = RequestSamples(X, np.arange(len(X)), "the request")
    recorded = []

    async def test(batcher):
        service = SimpleNamespace(
            get_batcher=lambda name: batcher, metrics=SimpleNamespace(count_samples=lambda *_: None),
            record=lambda model, decisions: recorded.append(decisions),
        )  # fmt: skip
        return await decide_route._answer_json(service, model, samples, DecideParameters(**parameters))

    answer, _ = run(test, threads=2)
    return json.loads(answer.body), sizes, recorded


def test_a_long_answer_is_written_piece_by_piece(model, samples, monkeypatch):
    X = np.tile(samples, (8, 1))
    answer, sizes, _ = write_answer(model, X, monkeypatch, coverage=0.8)
    assert max(sizes) <= MOST_ROWS and sum(sizes) == len(X) and len(sizes) > 2
    assert [row["row"] for row in answer["decisions"]] == list(range(len(X)))
    expected = model.clf.decide(X)
    labels = [row["label"] for row in answer["decisions"]]
    check_same_labels(labels, expected.label, expected.unknown_score, model.clf.threshold_)
    assert answer["guarantee"] == model.clf.prediction_set(X[:1], 0.8).guarantee


def test_a_false_discovery_rate_over_pieces_is_that_of_decide(model, samples, monkeypatch):
    X = np.concatenate([np.tile(samples, (8, 1)), np.zeros((1, 6))])
    answer, sizes, recorded = write_answer(model, X, monkeypatch, fdr=0.2, coverage=None)
    expected = model.clf.decide(X, fdr=0.2)
    assert 0 < expected.rejected.sum() < len(X) and expected.rejected[-1]
    assert [row["label"] for row in answer["decisions"]] == expected.label.tolist()
    check_same([row["p_value"] for row in answer["decisions"]], expected.p_value)
    assert max(sizes) <= MOST_ROWS and answer["notes"][0].startswith("False discovery rate 0.2: approximate")
    (decisions,) = recorded
    np.testing.assert_array_equal(decisions.rejected, expected.rejected)


def test_the_times_of_a_long_watch_take_no_more_memory(model, samples):
    watch = ModelWatch(model)
    decisions = decide_samples(model, np.tile(samples, (100, 1)), None)
    for _ in range(20):
        watch.record(model, decisions)
    told = watch.describe()
    assert told["summary"]["samples"] == 20 * len(decisions)
    for _ in range(5):
        watch.record(model, decisions)
    assert len(watch._times) <= 2 * len(watch._monitor.blocks) < 25 * len(decisions) / 50


# --- models that fail ---


def test_only_the_request_at_fault_gets_the_error_and_its_row(tmp_path, samples):
    model = load_model(tmp_path, kernel="poly")
    broken = samples[:3].copy()
    broken[1] = 1e200

    async def test(batcher):
        first = asyncio.create_task(decide(batcher, model, samples[:1]))
        others = [asyncio.create_task(decide(batcher, model, X)) for X in (samples[1:3], broken, samples[3:4])]
        await asyncio.wait([first, *others])
        return others

    (good, bad, fine), sizes = run(test)
    assert sizes == [1, 6]
    with pytest.raises(InputError, match=r"^the request has a sample in row 1 that cannot be predicted: .*\.$"):
        bad.result()
    for task, X in ((good, samples[1:3]), (fine, samples[3:4])):
        check_same_decisions(task.result()[0], decide_samples(model, X, None), model.clf.threshold_)


def test_a_cancelled_request_leaves_the_queue(model, samples):
    async def test(batcher):
        running = asyncio.create_task(decide(batcher, model, np.tile(samples, (5, 1))))
        await asyncio.sleep(0)
        waiting = asyncio.create_task(decide(batcher, model, samples[:7]))
        await asyncio.sleep(0)
        assert batcher.waiting == 1
        waiting.cancel()
        await asyncio.wait([waiting])
        assert batcher.waiting == 0
        await running

    _, sizes = run(test)
    assert sum(sizes) == 5 * len(samples)


def test_too_many_waiting_requests_are_refused(model, samples):
    async def test(batcher):
        tasks = [asyncio.create_task(decide(batcher, model, samples[:1])) for _ in range(5)]
        await asyncio.wait(tasks)
        return tasks

    tasks, _ = run(test, waiting=2)
    refused = [isinstance(task.exception(), TooManyWaiting) for task in tasks]
    assert refused == [False, False, False, True, True]


def test_a_private_copy_is_removed_when_nobody_uses_the_snapshot(tmp_path):
    save_model(tmp_path / "model.srosr")
    private = tmp_path / "private"
    private.mkdir()
    store = ModelStore({"model": tmp_path / "model.srosr"}, ServerSettings(jobs=1), private)
    store.load_all()
    used = store.get("model")
    clf = save_model(tmp_path / "model.srosr", target_rejection=0.1)

    async def swap():
        return await store.refresh("model")

    swapped = asyncio.run(swap())
    assert swapped.version != used.version and swapped.clf.threshold_ == clf.threshold_
    assert Path(used.path).exists() and Path(swapped.path).exists()
    path = Path(used.path)
    del used
    assert not path.exists() and Path(swapped.path).exists()


def test_any_failure_to_load_leaves_the_old_model_serving_and_is_a_problem(tmp_path, monkeypatch):
    (tmp_path / "private").mkdir()
    save_model(tmp_path / "model.srosr")
    store = ModelStore({"model": tmp_path / "model.srosr"}, ServerSettings(jobs=1), tmp_path / "private")
    store.load_all()
    failed = []
    store.on_failure.append(failed.append)
    before = store.get("model")
    save_model(tmp_path / "model.srosr", target_rejection=0.1)

    def fail(path):
        raise KeyError(str(path))

    async def look():
        monkeypatch.setattr(model_store, "load", fail)
        assert await store.refresh("model", certain=True) is before
        problem = store.find_problem("model")
        assert problem == "The file of model cannot be loaded; the log of the server says why." and failed == ["model"]
        monkeypatch.undo()
        assert await store.refresh("model", certain=True) is not before and store.find_problem("model") is None

    asyncio.run(look())


# --- the private folder ---


@pytest.mark.skipif(os.name != "posix", reason="needs locks that end with their process")
def test_folders_of_killed_servers_are_removed_and_no_others(tmp_path):
    killed, other, link = (tmp_path / f"srosr-serve-{name}" for name in ("killed", "other", "link"))
    for folder in (killed, other):
        folder.mkdir()
        (folder / "model-0.srosr").touch()
    (killed / ".lock").touch()  # whoever held it is dead
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / ".lock").touch()
    link.symlink_to(tmp_path / "elsewhere")
    with make_private_folder(tmp_path) as first:
        assert not killed.exists() and other.exists() and (link / ".lock").exists()
        assert first.stat().st_mode & 0o777 == 0o700
        with make_private_folder(tmp_path) as second:
            assert first.is_dir() and second.is_dir() and first != second
    assert not first.exists() and not second.exists()
