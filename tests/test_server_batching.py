"""Micro-batches: who is decided together, who waits, and that company changes nothing."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
from server_runs import make_samples, save_model, server_required

server_required()

from srosr.operations import InputError  # noqa: E402
from srosr.server.batching import MOST_ROWS, Batcher, TooManyWaiting, decide_samples  # noqa: E402
from srosr.server.model_store import ModelStore  # noqa: E402
from srosr.server.settings import ServerSettings  # noqa: E402


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


def assert_same(one, other):
    np.testing.assert_allclose(one.unknown_score, other.unknown_score, rtol=1e-9)
    for name in ("label", "candidate", "rejected"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


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
            assert decisions.unknown_score[place] == pytest.approx(alone.unknown_score[0], rel=1e-9)
            assert decisions.label[place] == alone.label[0] and decisions.candidate[place] == alone.candidate[0]
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
def test_a_large_request_is_cut_and_a_small_one_gets_its_turn_after_one_piece(model, samples, threads):
    large = np.tile(samples, (12, 1))
    finished = []

    async def test(batcher):
        async def small():
            await asyncio.sleep(0.001)
            await decide(batcher, model, samples[:1])
            finished.append("small")

        async def big():
            async for part, _ in batcher.decide(model, large, np.arange(len(large))):
                finished.append(part.stop)

        await asyncio.gather(big(), small())

    _, sizes = run(test, threads=threads)
    assert max(sizes) <= MOST_ROWS and sum(sizes) == len(large) + 1
    assert len(finished) == -(-len(large) // MOST_ROWS) + 1
    assert finished.index("small") <= threads, "the small request waited for more than a piece of each coder"


@pytest.mark.parametrize("threads", [1, 3])
def test_pieces_come_and_are_recorded_in_order_and_are_the_decisions_on_the_whole(model, samples, threads):
    large = np.random.default_rng(0).permutation(np.tile(samples, (16, 1)))
    recorded = []

    async def test(batcher):
        return await decide(batcher, model, large)

    parts, _ = run(test, threads=threads, on_decisions=lambda model, decisions: recorded.append(decisions))
    whole = decide_samples(model, large, None)
    for found in (parts, recorded):
        scores = np.concatenate([part.unknown_score for part in found])
        np.testing.assert_allclose(scores, whole.unknown_score, rtol=1e-9)


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
    assert waited >= 0.2

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
    assert_same(good.result()[0], decide_samples(model, samples[1:3], None))
    assert_same(fine.result()[0], decide_samples(model, samples[3:4], None))


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
