"""Numbers for Prometheus, in its text format."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from holdfast.service.shares import FairShare
from holdfast.version import installed_version

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_BUCKETS = (0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0)


class Metrics:
    """What one service has answered and run so far, and has to do now."""

    def __init__(self, places: FairShare, ready: Callable[[], bool]) -> None:
        of = self._registry = CollectorRegistry()
        self.responses = Counter(
            "holdfast_responses", "Responses by route and status.", ("route", "status"), registry=of
        )
        self.seconds = Histogram(
            "holdfast_answer_seconds",
            "From a request's place in the queue to its answer.",
            buckets=_BUCKETS,
            registry=of,
        )
        self.copies = Counter("holdfast_copies", "Noisy copies run.", registry=of)
        self.rounds = Counter("holdfast_rounds", "Passes over the device.", registry=of)
        self.shared_rounds = Counter("holdfast_shared_rounds", "Passes that served several requests.", registry=of)
        self.speed = Gauge("holdfast_copies_per_second", "Speed of the last pass.", registry=of)
        taken = Gauge("holdfast_requests_open", "Requests that wait or are being answered.", registry=of)
        taken.set_function(lambda: places.taken)
        Gauge("holdfast_requests_capacity", "Requests that are taken at once.", registry=of).set(places.capacity)
        Gauge("holdfast_ready", "Whether the device works.", registry=of).set_function(ready)
        Info("holdfast", "The version that runs.", registry=of).info({"version": installed_version()})
        ProcessCollector(registry=of)

    def text(self) -> str:
        """Everything, one line each."""
        return generate_latest(self._registry).decode()
