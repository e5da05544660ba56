"""What the routes of a server share."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastapi import Request

from ..classifiers.base import Decisions
from .batching import Batcher
from .demo_model import DigitSamples
from .monitoring import ModelWatch, ServerMetrics
from .pool import OnProgress, Pool
from .samples import Samples
from .schemas import ApiError, Parameters
from .settings import ServerSettings
from .store import ModelStore, ServedModel

_PROGRESS_KEY = re.compile(r"[A-Za-z0-9_-]{16,64}", re.ASCII)
#: What is said of the progress of work that has not begun, or has ended.
NO_PROGRESS = {"stage": None, "done": None, "of": None}


class Service:
    """What the routes share: models, their batchers and monitors, child processes, counters; made in the event loop."""

    def __init__(self, settings: ServerSettings, store: ModelStore, folder: Path, demo: DigitSamples | None) -> None:
        self.settings, self.store, self.folder, self.demo = settings, store, folder, demo
        limits = settings.limits
        self.metrics = ServerMetrics()
        self.readers = Pool(
            "reader", settings.readers, memory=limits.reader_memory, seconds=limits.read_seconds, folder=folder
        )
        self.workers = Pool("worker", settings.workers, memory=None, seconds=limits.work_seconds, folder=folder)
        self.batchers = {name: self._make_batcher(name) for name in store.names}
        self.watches = {name: ModelWatch(store.get(name)) for name in store.names}
        #: Few large bodies are received and read at a time.
        self.large = asyncio.Semaphore(limits.large_bodies)
        #: Changes of a model wait for each other.
        self.changing = {name: asyncio.Lock() for name in store.names}
        #: How far the work of requests is, by their keys.
        self.progress: dict[str, dict[str, Any]] = {}
        # Counts decisions in the order in which they were made, so that no request waits for it.
        self._recorder = ThreadPoolExecutor(1, "srosr-recorder")
        self._watching = asyncio.create_task(store.watch())
        store.on_swap = self._take_swap
        store.on_failure = lambda name: self.metrics.failures.labels(name).inc()

    def _make_batcher(self, name: str) -> Batcher:
        self.metrics.loads.labels(name).inc()
        settings, batches = self.settings, self.metrics.batch.labels(name)
        return Batcher(
            settings.longest_wait, settings.limits.waiting, threads=settings.count_coders(),
            on_decisions=self.record, on_batch=batches.observe,
        )  # fmt: skip

    async def close(self) -> None:
        """End children and threads, and remove the private folder."""
        self._watching.cancel()
        await asyncio.gather(self.readers.close(), self.workers.close())
        for batcher in self.batchers.values():
            batcher.close()
        self._recorder.shutdown(wait=False)
        await asyncio.to_thread(shutil.rmtree, self.folder, True)

    def record(self, model: ServedModel, decisions: Decisions) -> None:
        """Let the monitor of a model count decisions, soon."""
        self._recorder.submit(self.watches[model.name].record, model, decisions)

    async def catch_up(self) -> None:
        """Wait until all decisions so far are counted."""
        await asyncio.get_running_loop().run_in_executor(self._recorder, lambda: None)

    def _take_swap(self, model: ServedModel) -> None:
        self.watches[model.name] = ModelWatch(model)
        self.metrics.loads.labels(model.name).inc()

    @contextmanager
    def follow(self, request: Request) -> Iterator[OnProgress]:
        """Give what takes the progress of a request, which others can ask for by its key."""
        key = request.headers.get("progress-key")
        if key is None:
            yield lambda said: None
            return
        if _PROGRESS_KEY.fullmatch(key) is None or key in self.progress:
            raise ApiError(400, "Progress-Key must be new, and 16 to 64 letters, digits, hyphens or underscores.")
        self.progress[key] = found = dict.fromkeys(NO_PROGRESS)
        try:
            yield lambda said: found.update((name, said.get(name)) for name in NO_PROGRESS)
        finally:
            del self.progress[key]

    async def work(
        self,
        job: str,
        model: ServedModel,
        parameters: Parameters,
        samples: Samples | None,
        on_progress: OnProgress,
        **more: Any,
    ) -> dict[str, Any]:
        """Let a child do a job with a model, and samples if there are any; return its result."""
        header = parameters.model_dump() | {
            "model": str(model.path),
            "version": model.version,
            "name": model.name,
            "jobs": self.settings.jobs,
            "device": self.settings.device,
            "picture_shape": model.picture_shape,
        }
        values, arrays = (None, {}) if samples is None else samples.pack()
        given = {**header, "samples": values, **more}
        result, _ = await self.workers.run(job, given, arrays, on_progress=on_progress)
        return result

    def render_metrics(self) -> bytes:
        """Return all counters, and the state of models and children, for Prometheus."""
        metrics = self.metrics
        metrics.info.clear()
        for name in self.store.names:
            metrics.info.labels(name, self.store.get(name).version).set(1)
            metrics.problem.labels(name).set(self.store.find_problem(name) is not None)
            metrics.alarm.labels(name).set(self.watches[name].has_alarm)
            metrics.queue.labels(name).set(self.batchers[name].waiting)
        metrics.restarts.labels("reader").set(self.readers.restarts)
        metrics.restarts.labels("worker").set(self.workers.restarts)
        return metrics.render()
