"""Numbers for Prometheus, in its text format."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram, Info, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from holdfast.version import installed_version

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_BUCKETS = (0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0)


@dataclass
class Load:
    """What the scheduler has done so far, and has to do now.

    Attributes:
        capacity: requests that are taken at once.
        taken: requests that wait or are being answered.
        copies: noisy copies run.
        rounds: jobs run.
        shared_rounds: jobs that served several requests.
        speed: recent copies per second.
        failures: jobs that failed since the last one that did not.
    """

    capacity: int
    taken: int = 0
    copies: int = 0
    rounds: int = 0
    shared_rounds: int = 0
    speed: float = 0.0
    failures: int = 0


class Metrics:
    """Counts responses and times answers; reads the scheduler's load when it is asked."""

    def __init__(self, load: Load, ready: Callable[[], bool]) -> None:
        self._load = load
        self._ready = ready
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
        now = self._load
        yield CounterMetricFamily("holdfast_copies", "Noisy copies run.", now.copies)
        yield CounterMetricFamily("holdfast_rounds", "Passes over the device.", now.rounds)
        yield CounterMetricFamily("holdfast_shared_rounds", "Passes that served several requests.", now.shared_rounds)
        yield GaugeMetricFamily("holdfast_copies_per_second", "Recent speed.", round(now.speed, 1))
        yield GaugeMetricFamily("holdfast_requests_open", "Requests that wait or are being answered.", now.taken)
        yield GaugeMetricFamily("holdfast_requests_capacity", "Requests that are taken at once.", now.capacity)
        yield GaugeMetricFamily("holdfast_ready", "Whether the device works.", self._ready())
