"""What the routes of a server share: models, coders, monitors, children, counters."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from fastapi import Request
from prometheus_client.core import GaugeMetricFamily

from .._support.messages import did_you_mean, join_names
from ..classifiers.base import Decisions
from .answers import ApiError, OnProgress
from .batching import Batcher
from .demo_model import DigitSamples
from .model_changes import Wish, settle
from .model_store import ModelStore, ServedModel
from .process_pool import ProcessPool
from .request_body import BodyBudget, receive_body
from .request_parameters import ParsedRequest, parse_request
from .request_samples import RequestSamples, read_samples
from .schemas import Parameters
from .server_metrics import ServerMetrics
from .settings import ServerSettings
from .watching import ModelWatch, Recorder

_T = TypeVar("_T")
logger = logging.getLogger("srosr.server")


class Service:
    """All that a server has; made in the event loop that serves."""

    def __init__(
        self, settings: ServerSettings, store: ModelStore, folder: Path, demo: DigitSamples | None = None
    ) -> None:
        self.settings, self.store, self.folder, self.demo = settings, store, folder, demo
        #: "starting", "ready" or "draining".
        self.status = "starting"
        self.metrics = ServerMetrics()
        limits = settings.limits
        self.budget = BodyBudget(limits.bodies, limits.samples)
        self.readers = ProcessPool(
            "reader", settings.readers, memory=limits.reader_memory, seconds=limits.read_seconds, folder=folder
        )
        self.workers = ProcessPool("worker", settings.workers, memory=None, seconds=limits.work_seconds, folder=folder)
        self._n_coders = settings.count_coders()
        self.recorder = Recorder()
        self._watches = {name: ModelWatch(self._get(name)) for name in store.names}
        self._batchers = {name: self._make_batcher(name) for name in store.names}
        #: Changes of a model wait for each other.
        self.changing = {name: asyncio.Lock() for name in store.names}
        self._commits: dict[asyncio.Task[Any], Wish] = {}
        self._removals: set[asyncio.Task[None]] = set()
        self._tasks: list[asyncio.Task[Any]] = []
        store.on_swap += [self._begin_watch, self.metrics.count_load]
        store.on_failure.append(self.metrics.count_failure)
        self.metrics.add_state(self._describe_state)

    def _get(self, name: str) -> ServedModel:
        model = self.store.get(name)
        assert model is not None  # all models are loaded before a server starts
        return model

    def _make_batcher(self, name: str) -> Batcher:
        self.metrics.count_load(self._get(name))
        return Batcher(
            self.settings.longest_wait,
            self.settings.limits.waiting,
            threads=self._n_coders,
            on_decisions=self.record,
            on_batch=lambda rows: self.metrics.count_batch(name, rows),
        )

    def record(self, model: ServedModel, decisions: Decisions) -> None:
        """Let the monitor of a model count decisions."""
        self.recorder.put(self._watches[model.name], model, decisions)

    def _begin_watch(self, model: ServedModel) -> None:
        self._watches[model.name] = ModelWatch(model)

    async def start(self) -> None:
        """Start children and look after model files; children get ready while requests are served."""
        if not self.settings.read_only:
            for name in self.store.names:
                await asyncio.to_thread(settle, self._get(name).source)
        self._tasks = [
            asyncio.create_task(self.readers.start()),
            asyncio.create_task(self.workers.start()),
            asyncio.create_task(self.store.watch()),
        ]
        self.status = "ready"

    async def close(self) -> None:
        """End children and threads, and remove the private folder."""
        self.status = "draining"
        for task in self._tasks:
            task.cancel()
        for wish in self._commits.values():
            wish.give_up()
        await asyncio.gather(*self._tasks, *self._commits, return_exceptions=True)
        await asyncio.gather(self.readers.close(), self.workers.close(), *self._removals, return_exceptions=True)
        for batcher in self._batchers.values():
            batcher.close()
        self.recorder.close()
        with suppress(OSError):
            await asyncio.to_thread(shutil.rmtree, self.folder, True)

    # -- for the routes ------------------------------------------------------------------------------------

    def find_model(self, name: str) -> ServedModel:
        """Return the current snapshot of a model, or raise if there is none."""
        model = self.store.get(name)
        if model is None:
            names = self.store.names
            guess = did_you_mean(name[:80], names)
            raise ApiError(404, f"There is no model {name[:80]!r}{guess}; there are {join_names(names, 12)}.")
        return model

    def get_batcher(self, name: str) -> Batcher:
        """Return what decides on samples of a model."""
        return self._batchers[name]

    def get_watch(self, name: str) -> ModelWatch:
        """Return the monitor of a model."""
        return self._watches[name]

    async def parse(self, request: Request, kind: type[Any]) -> ParsedRequest[Any]:
        """Receive the body of a request and return what it asks for."""
        limits = self.settings.limits
        body = await receive_body(request, limits, self.budget)
        return await parse_request(request, body, kind, limits, self.readers, self.budget)

    async def read(
        self,
        parsed: ParsedRequest[Any],
        model: ServedModel,
        on_progress: OnProgress | None = None,
        *,
        one_row: bool = False,
    ) -> RequestSamples:
        """Return the samples of a request."""
        return await read_samples(
            parsed, model, self.settings.limits, self.readers, self.folder, on_progress=on_progress, one_row=one_row
        )

    async def work(
        self,
        job: str,
        model: ServedModel,
        parameters: Parameters,
        samples: RequestSamples | None = None,
        on_progress: OnProgress | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """Let a child do a job with a model, and samples if there are any; return its result."""
        header: dict[str, Any] = parameters.model_dump() | {
            "model": str(model.path),
            "version": model.version,
            "name": model.name,
            "jobs": self.settings.jobs,
            "device": self.settings.device,
            "picture_shape": None if model.picture_shape is None else list(model.picture_shape),
        }
        arrays = {}
        if samples is not None:
            arrays = {"X": samples.X, "numbers": samples.numbers}
            if samples.thumbnails is not None:
                arrays["thumbnails"] = samples.thumbnails
            header |= {
                "data": samples.source,
                "labels": samples.labels,
                "groups": samples.groups,
                "names": samples.files,
                "notes": list(samples.notes),
                "dropped": samples.dropped,
                "seen": samples.seen,
                "label": samples.label,
                "feature_names": samples.feature_names,
            }
        result, _ = await self.workers.run(job, header | more, arrays, on_progress=on_progress)
        return result

    def begin_commit(self, commit: Coroutine[Any, Any, _T], wish: Wish) -> asyncio.Task[_T]:
        """Begin to put a changed model in place: a task of its own, which may end when nobody waits for it any more."""
        task = asyncio.create_task(commit)
        self._commits[task] = wish
        task.add_done_callback(self._end_commit)
        return task

    def _end_commit(self, task: asyncio.Task[Any]) -> None:
        wish = self._commits.pop(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not wish.is_given_up:
            logger.warning("a change failed: %s", error)

    def begin_removing(self, folder: Path) -> None:
        """Remove a folder that a worker writes into, once it has ended if it was cancelled."""
        task = asyncio.create_task(self._remove(folder))
        self._removals.add(task)
        task.add_done_callback(self._removals.discard)

    async def _remove(self, folder: Path) -> None:
        await self.workers.wait_for_ended()
        await asyncio.to_thread(shutil.rmtree, folder, True)

    def _describe_state(self) -> Iterator[GaugeMetricFamily]:
        info = GaugeMetricFamily("srosr_model_info", "The version that is served", labels=["model", "version"])
        problem = GaugeMetricFamily("srosr_model_problem", "1 if the model file cannot be loaded", labels=["model"])
        alarm = GaugeMetricFamily("srosr_monitor_alarm", "1 if the stream of samples has changed", labels=["model"])
        queue = GaugeMetricFamily("srosr_queue_length", "Pieces that wait for the coder", labels=["model"])
        for name in self.store.names:
            model = self.store.get(name)
            if model is not None:
                info.add_metric([name, model.version], 1)
            problem.add_metric([name], float(self.store.find_problem(name) is not None))
            alarm.add_metric([name], float(self._watches[name].has_alarm))
            queue.add_metric([name], self._batchers[name].waiting)
        restarts = GaugeMetricFamily("srosr_child_restarts", "Children that were replaced", labels=["kind"])
        for kind, pool in _name_pools(self):
            restarts.add_metric([kind], pool.restarts)
        yield from (info, problem, alarm, queue, restarts)


def _name_pools(service: Service) -> Iterable[tuple[str, ProcessPool]]:
    return ("reader", service.readers), ("worker", service.workers)


def get_service(request: Request) -> Service:
    """Return the service of the server that got a request."""
    service: Service = request.app.state.service
    return service
