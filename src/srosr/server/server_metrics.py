"""What the server counts, in the format of Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from ..classifiers.base import Decisions
from .model_store import ServedModel

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class ServerMetrics:
    """The counters of one server, in a registry of their own."""

    def __init__(self) -> None:
        disable_created_metrics()  # when a counter began is of no use here, and twice the lines
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "srosr_requests", "Requests by route, method and status", ["route", "method", "status"], registry=registry
        )
        self._seconds = Histogram(
            "srosr_request_seconds", "Time from the head of a request to the end of its answer", ["route"],
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self._received = Counter("srosr_received_bytes", "Bytes of bodies of requests", registry=registry)
        self._sent = Counter("srosr_sent_bytes", "Bytes of bodies of answers", registry=registry)
        self._samples = Counter(
            "srosr_samples", "Samples decided by model and verdict", ["model", "verdict"], registry=registry
        )
        self._batch = Histogram(
            "srosr_batch_rows", "Rows decided at a time", ["model"], buckets=_ROWS, registry=registry
        )
        self._loads = Counter("srosr_model_loads", "Models loaded from their files", ["model"], registry=registry)
        self._failures = Counter(
            "srosr_model_load_failures", "Model files that could not be loaded", ["model"], registry=registry
        )
        self._changes = Counter(
            "srosr_model_changes", "Changes of models by kind", ["model", "change"], registry=registry
        )
        self.in_flight = Gauge("srosr_requests_in_flight", "Requests being served", registry=registry)

    def add_state(self, describe: Callable[[], Iterable[GaugeMetricFamily]]) -> None:
        """Add gauges that are read when somebody asks."""
        self._registry.register(_State(describe))

    def count_request(self, route: str, method: str, status: int, seconds: float, received: int, sent: int) -> None:
        """Count a request that was answered."""
        self._requests.labels(route, method, str(status)).inc()
        self._seconds.labels(route).observe(seconds)
        self._received.inc(received)
        self._sent.inc(sent)

    def count_samples(self, model: str, decisions: Decisions) -> None:
        """Count decisions."""
        rejected = int(decisions.rejected.sum())
        if rejected:
            self._samples.labels(model, "rejected").inc(rejected)
        if rejected < len(decisions):
            self._samples.labels(model, "recognized").inc(len(decisions) - rejected)

    def count_batch(self, model: str, rows: int) -> None:
        """Count a batch."""
        self._batch.labels(model).observe(rows)

    def count_load(self, model: ServedModel) -> None:
        """Count a model that was loaded."""
        self._loads.labels(model.name).inc()

    def count_failure(self, name: str) -> None:
        """Count a file that could not be loaded."""
        self._failures.labels(name).inc()

    def count_change(self, name: str, change: str) -> None:
        """Count a change of a model."""
        self._changes.labels(name, change).inc()

    def render(self) -> bytes:
        """Return all numbers as text."""
        return generate_latest(self._registry)


class _State(Collector):
    """Gauges that are read when somebody asks."""

    def __init__(self, describe: Callable[[], Iterable[GaugeMetricFamily]]) -> None:
        self._describe = describe

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield from self._describe()

    def describe(self) -> Iterator[GaugeMetricFamily]:
        return iter(())
