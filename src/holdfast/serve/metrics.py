"""Numbers for Prometheus, in its text format."""

from collections.abc import Iterator
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Histogram, Info, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from holdfast.version import installed_version

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_BUCKETS = (0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0)


class SchedulerNumbers(Protocol):
    """What is read from the scheduler of the noisy copies."""

    @property
    def copies(self) -> int:
        """Noisy copies run."""

    @property
    def rounds(self) -> int:
        """Passes over the device."""

    @property
    def shared(self) -> int:
        """Passes that served several requests."""

    @property
    def speed(self) -> float:
        """Recent copies per second."""

    @property
    def taken(self) -> int:
        """Requests that wait or are being answered."""

    @property
    def capacity(self) -> int:
        """Requests that are taken at once."""

    @property
    def alive(self) -> bool:
        """Whether the device works."""


class Metrics:
    """Counts responses and times answers; reads the scheduler's numbers when it is asked."""

    def __init__(self, scheduler: SchedulerNumbers) -> None:
        self._scheduler = scheduler
        self._registry = CollectorRegistry()
        self._responses = Counter(
            "holdfast_responses", "Responses by route and status.", ("route", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "holdfast_answer_seconds",
            "From the device's taking a request to its answer.",
            buckets=_BUCKETS,
            registry=self._registry,
        )
        Info("holdfast", "The version that runs.", registry=self._registry).info({"version": installed_version()})
        ProcessCollector(registry=self._registry)

    def answered(self, route: str, status: int) -> None:
        """A response was begun."""
        self._responses.labels(route, status).inc()

    def took(self, seconds: float) -> None:
        """Record the time that a certificate or a decision took."""
        self._seconds.observe(seconds)

    def text(self) -> str:
        """Everything, one line each."""
        return generate_latest(self).decode()

    def collect(self) -> Iterator[Metric]:
        """Every metric with its present value, as prometheus_client asks for them."""
        for family in self._registry.collect():
            # prometheus_client adds the time a series began as a second series; its own switch is process-wide.
            family.samples = [each for each in family.samples if not each.name.endswith("_created")]
            yield family
        now = self._scheduler
        yield CounterMetricFamily("holdfast_copies", "Noisy copies run.", now.copies)
        yield CounterMetricFamily("holdfast_rounds", "Passes over the device.", now.rounds)
        yield CounterMetricFamily("holdfast_shared_rounds", "Passes that served several requests.", now.shared)
        yield GaugeMetricFamily("holdfast_copies_per_second", "Recent speed.", round(now.speed, 1))
        yield GaugeMetricFamily("holdfast_requests_open", "Requests that wait or are being answered.", now.taken)
        yield GaugeMetricFamily("holdfast_requests_capacity", "Requests that are taken at once.", now.capacity)
        yield GaugeMetricFamily("holdfast_ready", "Whether the device works.", now.alive)
