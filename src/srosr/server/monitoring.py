"""What a server counts: its requests and decisions for Prometheus, and a monitor of what each model decides."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from threading import Lock
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

from ..classifiers.base import Decisions
from ..monitor.stream_monitor import Monitor
from ..operations.input_errors import end_sentence
from .store import ServedModel

#: Samples of a block of a monitor: few, since people look at the page after minutes.
BLOCK = 50
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
logger = logging.getLogger("srosr.server")


class ServerMetrics:
    """The counters of one server, in a registry of their own."""

    def __init__(self) -> None:
        disable_created_metrics()  # when a counter began is of no use here, and twice the lines
        self._registry = CollectorRegistry()

        def count(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"srosr_{name}", text, labels, registry=self._registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"srosr_{name}", text, labels, registry=self._registry)

        def measure(name: str, text: str, label: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(f"srosr_{name}", text, [label], buckets=buckets, registry=self._registry)

        self.requests = count("requests", "Requests by route, method and status", "route", "method", "status")
        self.samples = count("samples", "Samples decided by model and verdict", "model", "verdict")
        self.loads = count("model_loads", "Models loaded from their files", "model")
        self.failures = count("model_load_failures", "Model files that could not be loaded", "model")
        self.changes = count("model_changes", "Changes of models by kind", "model", "change")
        self.seconds = measure("request_seconds", "Time from the head of a request to its answer", "route", _SECONDS)
        self.batch = measure("batch_rows", "Rows decided at a time", "model", _ROWS)
        self.in_flight = gauge("requests_in_flight", "Requests being served")
        self.info = gauge("model_info", "The version that is served", "model", "version")
        self.problem = gauge("model_problem", "1 if the model file cannot be loaded", "model")
        self.alarm = gauge("monitor_alarm", "1 if the stream of samples has changed", "model")
        self.queue = gauge("queue_length", "Pieces that wait for the coder", "model")
        self.restarts = gauge("child_restarts", "Children that were replaced", "kind")

    def count_samples(self, model: str, decisions: Decisions) -> None:
        """Count decisions."""
        rejected = int(decisions.rejected.sum())
        self.samples.labels(model, "rejected").inc(rejected)
        self.samples.labels(model, "recognized").inc(len(decisions) - rejected)

    def render(self) -> bytes:
        """Return all numbers as text."""
        return generate_latest(self._registry)


class ModelWatch:
    """The monitor of one snapshot of a model, and the times of its blocks."""

    def __init__(self, model: ServedModel) -> None:
        self.model, self._lock = model, Lock()
        self._monitor: Monitor | None = None
        self.restart()

    @property
    def has_alarm(self) -> bool:
        """Whether the stream has changed."""
        return self._monitor is not None and self._monitor.alarm is not None

    def restart(self) -> None:
        """Begin a new watch: earlier samples and the alarm are forgotten."""
        with self._lock:
            self._times: dict[int, str] = {}
            self._since = _now()
            #: Why there is no monitor.
            self.problem: str | None = None
            try:
                self._monitor = Monitor(self.model.clf, block=BLOCK)
            except ValueError as error:
                self.problem = end_sentence(error)

    def record(self, model: ServedModel, decisions: Decisions) -> None:
        """Count decisions; those of another snapshot belong to another monitor."""
        if self._monitor is None or model is not self.model:
            return
        try:
            with self._lock:
                for block in self._monitor.record(decisions):
                    self._times[block.start] = _now()
                # Of blocks that there still are: older ones were merged.
                self._times = {block.start: self._times[block.start] for block in self._monitor.blocks}
        except Exception as error:  # decisions are more important than what is counted of them
            logger.exception("monitoring of %s failed", model.name)
            self._monitor, self.problem = None, f"Monitoring stopped: {end_sentence(error)}"

    def describe(self) -> dict[str, Any]:
        """Return a JSON-serializable dict of what was seen."""
        found: dict[str, Any] = {"summary": None, "facts": [], "blocks": [], "alarm": None}
        with self._lock:
            if self._monitor is not None:
                summary = self._monitor.summary
                found["summary"] = summary.to_dict()
                found["facts"] = [list(fact) for fact in summary.list_facts()]
                found["alarm"] = found["summary"]["alarm"]
                found["blocks"] = [
                    {**self._monitor.describe_block(block), "time": self._times[block.start]}
                    for block in self._monitor.blocks
                ]
            return {**found, "block": BLOCK, "since": self._since, "problem": self.problem}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
