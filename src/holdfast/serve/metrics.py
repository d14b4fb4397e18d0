"""Numbers for Prometheus, in its text format."""

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from holdfast.serve.device import Device
from holdfast.version import installed_version

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS = (0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0)
_PAGE = 4_096


class Metrics:
    """Counts what was answered, and reads the rest from the device when it is asked."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._lock = threading.Lock()
        self._answers: Counter[tuple[str, int]] = Counter()
        self._buckets: Counter[float] = Counter()
        self._seconds = 0.0
        self._timed = 0

    def answered(self, route: str, status: int) -> None:
        """A response was begun."""
        with self._lock:
            self._answers[route, status] += 1

    def took(self, seconds: float) -> None:
        """A certificate or a decision was made in so long."""
        with self._lock:
            self._timed += 1
            self._seconds += seconds
            for bucket in _BUCKETS:
                self._buckets[bucket] += seconds <= bucket

    def text(self) -> str:
        """Everything, one line each."""
        with self._lock:
            return "\n".join([*self._lines(), ""])

    def _lines(self) -> Iterator[str]:
        device = self._device
        yield from _family("holdfast_info", "gauge", "The version that runs.")
        yield f'holdfast_info{{version="{installed_version()}"}} 1'
        yield from _family("holdfast_responses_total", "counter", "Responses by route and status.")
        for (route, status), count in sorted(self._answers.items()):
            yield f'holdfast_responses_total{{route="{route}",status="{status}"}} {count}'
        for name, kind, value, words in (
            ("holdfast_copies_total", "counter", device.copies, "Noisy copies run."),
            ("holdfast_rounds_total", "counter", device.rounds, "Passes over the device."),
            ("holdfast_shared_rounds_total", "counter", device.shared, "Passes that served several requests."),
            ("holdfast_copies_per_second", "gauge", round(device.speed, 1), "Recent speed."),
            ("holdfast_requests_open", "gauge", device.taken, "Requests that wait or are being answered."),
            ("holdfast_requests_capacity", "gauge", device.capacity, "Requests that are taken at once."),
            ("holdfast_ready", "gauge", int(device.alive), "Whether the device works."),
            ("process_resident_memory_bytes", "gauge", resident_bytes(), "Memory of the process."),
        ):
            yield from _family(name, kind, words)
            yield f"{name} {value}"
        yield from _family("holdfast_answer_seconds", "histogram", "From the device's taking a request to its answer.")
        for bucket in _BUCKETS:
            yield f'holdfast_answer_seconds_bucket{{le="{bucket:g}"}} {self._buckets[bucket]}'
        yield f'holdfast_answer_seconds_bucket{{le="+Inf"}} {self._timed}'
        yield f"holdfast_answer_seconds_sum {self._seconds:.6f}"
        yield f"holdfast_answer_seconds_count {self._timed}"


def _family(name: str, kind: str, words: str) -> tuple[str, str]:
    return f"# HELP {name} {words}", f"# TYPE {name} {kind}"


def resident_bytes() -> int:
    """Memory of this process; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0
