"""One monitor a model: what is decided over HTTP is recorded, and watched for a change."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from datetime import UTC, datetime
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

from ..classifiers.base import Decisions
from ..monitor.stream_monitor import Monitor
from ..operations.input_errors import end_sentence
from .model_store import ServedModel

#: Samples of a block: small, since people look at the page after minutes.
BLOCK = 50
logger = logging.getLogger("srosr.server")


class ModelWatch:
    """The monitor of one snapshot of a model, and the times of its blocks."""

    def __init__(self, model: ServedModel) -> None:
        self.model = model
        self._lock = Lock()
        self._monitor: Monitor | None = None
        #: Why there is no monitor.
        self.problem: str | None = None
        self._begin()

    def _begin(self) -> None:
        self._times: dict[int, str] = {}
        self._since = _now()
        try:
            self._monitor = Monitor(self.model.clf, block=BLOCK)
        except ValueError as error:
            self.problem = end_sentence(error)
        except Exception:  # a model is served whether or not it can be watched
            logger.exception("%s cannot be monitored", self.model.name)
            self.problem = "The model cannot be monitored; the log of the server says why."

    @property
    def has_alarm(self) -> bool:
        """Whether the stream has changed."""
        return self._monitor is not None and self._monitor.alarm is not None

    def record(self, model: ServedModel, decisions: Decisions) -> None:
        """Count decisions; those of another snapshot belong to another monitor. Called in the recorder's thread."""
        if self._monitor is None or model is not self.model:
            return
        try:
            with self._lock:
                for block in self._monitor.record(decisions):
                    self._times[block.start] = _now()
                if len(self._times) > 2 * len(self._monitor.blocks):
                    self._forget_times(self._monitor)
        except Exception as error:  # decisions are more important than what is counted of them
            logger.exception("monitoring of %s failed", model.name)
            self._monitor = None
            self.problem = f"Monitoring stopped: {end_sentence(error)}"

    def _forget_times(self, monitor: Monitor) -> None:
        """Keep the times of blocks that there still are: older ones were merged."""
        self._times = {block.start: self._times[block.start] for block in monitor.blocks}

    def restart(self) -> None:
        """Begin a new watch: earlier samples and the alarm are forgotten."""
        with self._lock:
            if self._monitor is not None:
                self._begin()

    def describe(self) -> dict[str, Any]:
        """Return a JSON-serializable dict of what was seen."""
        with self._lock:
            monitor = self._monitor
            if monitor is None:
                return {
                    "summary": None, "facts": [], "blocks": [], "alarm": None, "block": BLOCK, "since": self._since,
                    "problem": self.problem,
                }  # fmt: skip
            summary = monitor.summary
            self._forget_times(monitor)
            blocks = [{**monitor.describe_block(block), "time": self._times[block.start]} for block in monitor.blocks]
        numbers = summary.to_dict()
        return {
            "summary": numbers,
            "facts": [list(fact) for fact in summary.list_facts()],
            "blocks": blocks,
            "alarm": numbers["alarm"],
            "block": BLOCK,
            "since": self._since,
            "problem": None,
        }


class Recorder:
    """A thread that counts decisions in the order in which they were made, so that nobody waits for it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._work: SimpleQueue[tuple[ModelWatch, ServedModel, Decisions] | asyncio.Event | None] = SimpleQueue()
        Thread(target=self._record, name="srosr-recorder", daemon=True).start()

    def put(self, watch: ModelWatch, model: ServedModel, decisions: Decisions) -> None:
        """Count decisions soon."""
        self._work.put((watch, model, decisions))

    async def catch_up(self) -> None:
        """Wait until all that was put so far is counted."""
        done = asyncio.Event()
        self._work.put(done)
        await done.wait()

    def close(self) -> None:
        """End the thread."""
        self._work.put(None)

    def _record(self) -> None:
        while (item := self._work.get()) is not None:
            if isinstance(item, asyncio.Event):
                with suppress(RuntimeError):  # the loop may be closed by now
                    self._loop.call_soon_threadsafe(item.set)
            else:
                watch, model, decisions = item
                watch.record(model, decisions)
                del watch, model, decisions
            del item  # a snapshot must not live on while the thread waits


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
