"""Child processes of the server: messages are never misread, and whatever a child does, the server goes on."""

import asyncio
import io
import json
import logging
import math
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress

import numpy as np
import pytest
from child_pools import PoolInThread, is_gone
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scale import examples

from srosr.server import frames, json_text, process_pool
from srosr.server.frames import MOST_BYTES, TYPES, FrameError, pack, read_message, receive_message, write_message
from srosr.server.process_pool import ChildCrashed, JobError, JobTimeout, PoolBusy

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at processes in /proc")

_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
_HEADS = st.dictionaries(st.text(max_size=10), _VALUES, max_size=5)
_ARRAYS = st.dictionaries(
    st.text(max_size=5),
    st.sampled_from(TYPES).flatmap(lambda kind: hnp.arrays(kind, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0))),
    max_size=3,
)


# -- messages ---------------------------------------------------------------------------------------------


def receive(data):
    """Read a message as the server does, from bytes and an end."""

    async def read():
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        return await asyncio.wait_for(receive_message(reader), 10)

    return asyncio.run(read())


@settings(max_examples=examples(100))
@given(_HEADS, _ARRAYS)
def test_what_is_written_is_read(head, arrays):
    stream = io.BytesIO()
    write_message(stream, head, arrays)
    for found in (read_message(io.BytesIO(stream.getvalue())), receive(stream.getvalue())):
        assert found.head == head
        assert list(found.arrays) == list(arrays)
        for name, array in arrays.items():
            assert found.arrays[name].dtype == array.dtype and found.arrays[name].shape == array.shape
            assert found.arrays[name].tobytes() == array.tobytes()


@settings(max_examples=examples(200))
@given(_HEADS, _ARRAYS, st.data())
def test_a_message_that_is_cut_or_altered_is_an_end_or_an_error(head, arrays, data):
    content = bytearray(b"".join(pack(head, arrays)))
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(content[: data.draw(st.integers(0, len(content)))])
    for read in (lambda: read_message(io.BytesIO(cut)), lambda: receive(cut)):
        try:
            found = read()
        except FrameError:
            continue
        assert found is None or isinstance(found.head, dict)


@settings(max_examples=examples(200))
@given(st.binary(max_size=200))
def test_garbage_neither_hangs_nor_takes_memory(content):
    for read in (lambda: read_message(io.BytesIO(content)), lambda: receive(content)):
        with suppress(FrameError):
            assert read() is None


@settings(max_examples=examples(100))
@given(_VALUES, st.integers(-1, 5), st.integers(1, 4))
def test_long_json_is_the_same_as_short(value, many, piece):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_text, "_MANY", many)
        patch.setattr(json_text, "_PIECE", piece)
        assert json_text.write_json(value) == json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.parametrize("value", [math.nan, [0.0] * 3000 + [math.inf], {"a": [{"b": -math.inf}] * 3000}])
def test_json_has_no_numbers_that_are_not_finite(value):
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text.write_json(value)


def frame(text):
    return struct.pack(">I", len(text)) + text


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xff\xff\xff{}",
        b"\x00\x00\x00\x00",
        frame(b"[" * 100_000),
        frame(b'{"head":{}}'),
        frame(b'{"head":[],"arrays":[]}'),
        *(
            frame(json.dumps({"head": {}, "arrays": [spec] * n}).encode())
            for n, spec in [
                (1, 3),
                (1, {"name": "X", "type": "object", "shape": [1]}),
                (1, {"name": "X", "type": "float64", "shape": [MOST_BYTES]}),
                (1, {"name": "X", "type": "float64", "shape": [2**40, 2**40]}),
                (1, {"name": "X", "type": "float64", "shape": [-1]}),
                (1, {"name": "X", "type": "float64", "shape": [True]}),
                (1, {"name": "X", "type": "float64", "shape": [1] * 40}),
                (1, {"name": 3, "type": "float64", "shape": [1]}),
                (2, {"name": "X", "type": "uint8", "shape": [0]}),
                (1000, {"name": "X", "type": "uint8", "shape": [0]}),
            ]
        ),
    ],
)
def test_messages_beyond_the_limits_are_errors(content):
    with pytest.raises(FrameError):
        read_message(io.BytesIO(content))
    with pytest.raises(FrameError):
        receive(content)


def test_bytes_that_are_announced_but_do_not_come_are_not_waited_for_in_memory():
    said = frame(json.dumps({"head": {}, "arrays": [{"name": "X", "type": "uint8", "shape": [2**31]}]}).encode())
    assert read_message(io.BytesIO(said + b"abc")) is None
    assert receive(said + b"abc") is None


def test_only_plain_arrays_are_sent():
    for array in (np.array([{}], dtype=object), np.array(["a"]), np.zeros(3, np.complex128)):
        with pytest.raises(FrameError):
            pack({}, {"X": array})


# -- the pool ---------------------------------------------------------------------------------------------


@pytest.fixture
def tempers(monkeypatch):
    """Let children run the jobs of jobs_for_children."""
    monkeypatch.setattr(process_pool, "_MODULE", "jobs_for_children")


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setattr(process_pool, "_MODULE", "jobs_for_children")
    patch.setenv("SROSR_TOKEN", "a secret of the server")
    with PoolInThread("reader", 1, tmp_path_factory.mktemp("folder"), memory=300 * 10**6, seconds=30) as pool:
        yield pool
    patch.undo()


def test_a_job_gets_its_header_and_arrays_and_answers(reader):
    arrays = {"X": np.random.default_rng(0).normal(size=(300, 70)), "small": np.zeros((2, 8, 8), np.uint8)}
    header, found = reader.run("echo", {"text": "é\udc80\n", "list": [1, None]}, arrays)
    assert header["text"] == "é\udc80\n" and header["list"] == [1, None]
    assert all((found[name] == arrays[name]).all() for name in arrays)
    assert reader.run("echo", {})[0]["pid"] == header["pid"]


def test_large_arrays_pass(reader):
    X = np.arange(5_000_000, dtype=np.float64)
    assert (reader.run("echo", {}, {"X": X})[1]["X"] == X).all()


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_number_that_cannot_be_sent_is_an_error_at_once_and_costs_no_process(reader, number):
    pid = reader.run("echo", {})[0]["pid"]
    with pytest.raises(JobError, match="not finite") as caught:
        reader.begin("echo", {"threshold": number}).result(10)
    assert caught.value.status == 422 and reader.run("echo", {})[0]["pid"] == pid


def test_what_is_too_large_to_be_sent_is_an_error_at_once(reader, monkeypatch):
    pid = reader.run("echo", {})[0]["pid"]
    with monkeypatch.context() as patch:
        patch.setattr(frames, "MOST_TEXT", 1000)
        with pytest.raises(JobError, match="send fewer samples") as caught:
            reader.begin("echo", {"labels": ["a"] * 1000}).result(10)
    assert caught.value.status == 413 and reader.run("echo", {})[0]["pid"] == pid


def test_a_job_whose_message_stops_is_an_error_at_once(reader, monkeypatch):
    async def stop(writer, parts):
        raise RuntimeError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(process_pool, "send_parts", stop)
        with pytest.raises(RuntimeError, match="stopped"):
            reader.begin("echo", {}).result(10)
    assert reader.run("echo", {"n": 1})[0]["n"] == 1


def test_long_headers_are_written_beside_the_event_loop(reader, monkeypatch):
    threads = []
    monkeypatch.setattr(frames, "pack", lambda *given: threads.append(threading.current_thread()) or pack(*given))
    labels = ["é"] * 100_000
    assert reader.run("echo", {"labels": labels})[0]["labels"] == labels
    reader.run("echo", {"labels": ["a"]})
    assert threads[0] is not reader.thread and threads[1] is reader.thread


def test_progress_arrives_before_the_result(reader):
    seen = []
    reader.run("sleep", {"seconds": 0}, on_progress=seen.append)
    assert seen == [{"kind": "progress", "stage": "Sleeping", "done": 0, "of": 1}]


def test_what_a_job_prints_does_not_reach_the_connection(reader, caplog):
    with caplog.at_level(logging.WARNING, "srosr.server"):
        assert reader.run("speak", {})[0] == {"read": ""}
        assert reader.run("echo", {"n": 1})[0]["n"] == 1
        end = time.monotonic() + 10
        while "standard error" not in caplog.text and time.monotonic() < end:
            time.sleep(0.02)
    assert "to standard output" in caplog.text and "to descriptor 1" in caplog.text
    assert r"line\x1b[31m" in caplog.text


def test_a_refusal_is_an_error_with_its_status(reader):
    pid = reader.run("echo", {})[0]["pid"]
    with pytest.raises(JobError, match=r"There is a reason\.") as caught:
        reader.run("refuse", {})
    assert caught.value.status == 409
    assert reader.run("echo", {})[0]["pid"] == pid


@pytest.mark.parametrize("job", ["fail", "tell_no_json"])
def test_a_bug_tells_the_client_nothing(reader, caplog, job):
    with caplog.at_level(logging.WARNING, "srosr.server"), pytest.raises(ChildCrashed) as caught:
        reader.run(job, {})
    assert "secret" not in caught.value.message and caught.value.status == 503
    assert reader.run("echo", {"n": 1})[0]["n"] == 1


@pytest.mark.parametrize("how", ["exit", "segmentation fault"])
def test_a_child_that_dies_costs_one_job(reader, how):
    pid = reader.run("echo", {})[0]["pid"]
    with pytest.raises(ChildCrashed):
        reader.run("die", {"how": how})
    assert reader.run("echo", {})[0]["pid"] != pid


def test_a_child_that_dies_without_a_job_costs_none(reader):
    pid = reader.run("echo", {})[0]["pid"]
    os.kill(pid, signal.SIGKILL)
    assert is_gone(pid)
    time.sleep(0.2)
    assert reader.run("echo", {})[0]["pid"] != pid


def test_memory_is_limited(reader):
    with pytest.raises(JobError, match="does not fit into the memory allowed") as caught:
        reader.run("take_memory", {"size": 10**9, "names": ["a.csv"]})
    assert caught.value.status == 413 and caught.value.message.startswith("a.csv")
    assert reader.run("take_memory", {"size": 10**8})[0]["size"] == 10**8


def test_what_is_sent_is_limited_by_the_memory_too(reader):
    with pytest.raises(JobError) as caught:
        reader.run("echo", {}, {"X": np.zeros(60_000_000)})
    assert caught.value.status in (413, 503)
    assert reader.run("echo", {"n": 1})[0]["n"] == 1


def test_a_child_has_limits_and_no_secrets(reader):
    found = reader.run("describe", {})[0]
    limits = found["limits"]
    assert limits["RLIMIT_CORE"] == 0 and 0 < limits["RLIMIT_FSIZE"] <= 2**20 and 0 < limits["RLIMIT_NOFILE"] <= 256
    assert 300 * 10**6 < limits["RLIMIT_AS"] < 3 * 10**9
    assert 0 < limits["RLIMIT_CPU"] < 600
    assert "SROSR_TOKEN" not in found["environment"] and "secret" not in json.dumps(found["environment"])
    assert found["environment"]["OMP_NUM_THREADS"] == "1"
    own = [path for path in found["files"] if not path.startswith(("pipe:", "/dev/null", "/proc/"))]
    assert own == []


def test_signals_for_the_server_do_not_end_a_child(reader):
    pid = reader.run("echo", {})[0]["pid"]
    job = reader.begin("sleep", {"seconds": 0.3})
    time.sleep(0.1)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(pid, number)
    assert job.result(30)[0]["pid"] == pid


def test_a_cancelled_job_ends_its_process(reader):
    pid = reader.run("echo", {})[0]["pid"]
    job = reader.begin("sleep", {"seconds": 600})
    time.sleep(0.2)
    job.cancel()
    assert is_gone(pid)
    assert reader.run("echo", {})[0]["pid"] != pid


def test_a_job_that_takes_too_long_is_ended(reader):
    pid = reader.run("echo", {})[0]["pid"]
    with pytest.raises(JobTimeout, match=r"longer than the 0\.3 seconds allowed") as caught:
        reader.run("sleep", {"seconds": 600}, seconds=0.3)
    assert caught.value.status == 504 and is_gone(pid)


def test_jobs_wait_their_turn_and_too_many_are_refused(tempers, tmp_path):
    with PoolInThread("reader", 1, tmp_path, waiting=1) as pool:
        first = pool.begin("sleep", {"seconds": 1.0})
        time.sleep(0.2)
        second = pool.begin("echo", {"n": 2})
        time.sleep(0.1)
        with pytest.raises(PoolBusy) as caught:
            pool.run("echo", {})
        assert caught.value.status == 429
        assert second.result(30)[0]["n"] == 2 and first.done()
        # One that gives up while it waits makes room, and costs no process.
        pid = pool.run("echo", {})[0]["pid"]
        busy = pool.begin("sleep", {"seconds": 0.5})
        time.sleep(0.1)
        waiting = pool.begin("echo", {})
        time.sleep(0.1)
        waiting.cancel()
        assert busy.result(30)[0]["pid"] == pid
        assert pool.run("echo", {})[0]["pid"] == pid


def test_a_process_is_kept_for_jobs_that_are_not_long(tempers, tmp_path):
    with PoolInThread("worker", 2, tmp_path, long_jobs=("sleep",), waiting=2) as pool:
        long = [pool.begin("sleep", {"seconds": 60}) for _ in range(3)]
        time.sleep(0.2)
        with pytest.raises(PoolBusy):
            pool.run("sleep", {"seconds": 0})
        assert [pool.run("echo", {"n": n})[0]["n"] for n in range(3)] == [0, 1, 2]
        assert not any(job.done() for job in long)
        for job in long:
            job.cancel()
        assert pool.run("sleep", {"seconds": 0})[0]["pid"] in pool.pool.pids


def test_the_time_for_a_job_includes_its_wait_for_a_process(tempers, tmp_path):
    with PoolInThread("reader", 1, tmp_path) as pool:
        first = pool.begin("sleep", {"seconds": 1.0})
        time.sleep(0.2)
        with pytest.raises(PoolBusy):
            pool.run("echo", {}, seconds=0.3)
        assert not first.done() and first.result(30)[0]["pid"] == pool.run("echo", {})[0]["pid"]


def test_answers_go_to_those_who_asked(tempers, tmp_path):
    with PoolInThread("worker", 2, tmp_path) as pool:
        jobs = [pool.begin("echo", {"n": n}, {"X": np.full(1000, n, np.float64)}) for n in range(60)]
        for job in jobs[::7]:
            job.cancel()
        for n, job in enumerate(jobs):
            if not job.cancelled():
                header, arrays = job.result(60)
                assert header["n"] == n and (arrays["X"] == n).all()
        assert pool.run("describe", {})[0]["nice"] >= 5


def test_a_model_stays_with_the_process_that_holds_it(tempers, tmp_path):
    with PoolInThread("worker", 2, tmp_path) as pool:
        pid = pool.run("echo", {"version": "a"})[0]["pid"]
        other = pool.begin("sleep", {"seconds": 0.2})
        assert pool.run("echo", {"version": "b"})[0]["pid"] in pool.pool.pids
        other.result(30)
        assert {pool.run("echo", {"version": "a"})[0]["pid"] for _ in range(4)} == {pid}


def test_a_child_is_replaced_after_many_jobs_and_all_end_with_the_pool(tempers, tmp_path, monkeypatch):
    monkeypatch.setattr(process_pool, "_MOST_JOBS", 2)
    with PoolInThread("reader", 1, tmp_path) as pool:
        pids = [pool.run("echo", {})[0]["pid"] for _ in range(4)]
        assert pids[0] == pids[1] != pids[2] == pids[3]
        last = pool.pool.pids
    assert all(is_gone(pid) for pid in [*pids, *last])


def test_closing_ends_jobs_in_progress(tempers, tmp_path):
    pool = PoolInThread("reader", 1, tmp_path)
    job = pool.begin("sleep", {"seconds": 600})
    time.sleep(0.2)
    pids = pool.pool.pids
    pool.close()
    with pytest.raises(ChildCrashed):
        job.result(10)
    assert all(is_gone(pid) for pid in pids)


def test_a_child_that_cannot_start_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setattr(process_pool, "_MODULE", "no_such_module")
    with pytest.raises(ChildCrashed):
        PoolInThread("reader", 1, tmp_path)


_SERVER = """
import asyncio, sys, time
from pathlib import Path
from srosr.server import process_pool
process_pool._MODULE = "jobs_for_children"

async def serve():
    pool = process_pool.ProcessPool("worker", 2, memory=None, seconds=600, folder=Path(sys.argv[1]))
    await pool.start()
    job = asyncio.create_task(pool.run("burn", {}))
    await asyncio.sleep(0.3)
    print(*pool.pids, flush=True)
    await job

asyncio.run(serve())
"""


def test_children_end_with_a_server_that_is_killed(tmp_path):
    path = os.pathsep.join(sys.path)
    server = subprocess.Popen(
        [sys.executable, "-c", _SERVER, str(tmp_path)], stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": path}
    )
    try:
        pids = [int(word) for word in server.stdout.readline().split()]
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
    assert len(pids) == 2 and all(is_gone(pid) for pid in pids)


@pytest.mark.slow
def test_processor_time_is_limited(tempers, tmp_path):
    with PoolInThread("reader", 1, tmp_path, seconds=1.0) as pool:
        with pytest.raises(ChildCrashed):
            pool.run("burn", {}, seconds=60)
        assert pool.run("echo", {"n": 1})[0]["n"] == 1


@pytest.mark.slow
def test_children_work_under_uvloop(tempers, tmp_path):
    uvloop = pytest.importorskip("uvloop")

    async def work():
        pool = process_pool.ProcessPool("reader", 2, memory=None, seconds=30, folder=tmp_path)
        await pool.start()
        X = np.arange(1_000_000, dtype=np.float64)
        found = await asyncio.gather(*(pool.run("echo", {"n": n}, {"X": X}) for n in range(8)))
        job = asyncio.create_task(pool.run("sleep", {"seconds": 600}))
        await asyncio.sleep(0.2)
        job.cancel()
        await asyncio.wait([job])
        pids = pool.pids
        await pool.close()
        return found, X, pids

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found, X, pids = runner.run(work())
    assert [header["n"] for header, _ in found] == list(range(8)) and all((a["X"] == X).all() for _, a in found)
    assert all(is_gone(pid) for pid in pids)
