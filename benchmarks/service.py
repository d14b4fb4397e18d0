"""64 callers at once against one caller with a batch: is every answer right, is none lost, and what does sharing cost?

The service runs in a process of its own, the callers in this one, on the same cores. Each caller asks again as soon as it is
answered, with a seed by which answers are checked afterwards; 429 is an answer too, after which it waits as it is told to.
The batch is measured before and after each of several stretches of load, since other programs may use the cores too; for the
same reason processor time per copy is given beside throughput.
"""

import argparse
import io
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np

import holdfast as hf
from holdfast.zoo.datasets.embedded import load_fashion_mnist
from holdfast.zoo.pretrained import EMBEDDED_SIGMA, load_embedded_model

INPUTS = 64
CHECKED = 1_000


@dataclass
class Tally:
    """What the callers saw; each caller has its own list, so nothing is locked."""

    statuses: Counter[int] = field(default_factory=Counter)
    answers: list[tuple[int, int, bytes]] = field(default_factory=list)
    lost: int = 0
    seconds: float = 0.0
    used: float = 0.0
    memory: list[int] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--callers", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0, help="of load, in all")
    parser.add_argument("--stretches", type=int, default=1)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--queue", type=int, default=128)
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    data = load_fashion_mnist()
    xs = data.batch(np.arange(INPUTS))
    smoothed = hf.SmoothedClassifier(load_embedded_model().net, EMBEDDED_SIGMA, inputs="images", compile=False)

    batches = [Batch.measured(smoothed, xs, options.n)]
    stretches: list[Tally] = []
    process, url = start(options.queue)
    try:
        for number in range(options.stretches):
            stretches.append(load(url, process.pid, xs, options, number))
            batches.append(Batch.measured(smoothed, xs, options.n))
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)

    statuses = sum((each.statuses for each in stretches), Counter[int]())
    memory = [each for tally in stretches for each in tally.memory]
    copies = statuses[200] * options.n
    speed, cost = copies / sum(each.seconds for each in stretches), 1e6 * sum(each.used for each in stretches) / copies
    batch_speed = statistics.mean(each.copies_per_second for each in batches)
    batch_cost = statistics.mean(each.microseconds_per_copy for each in batches)
    result = {
        "callers": options.callers,
        "seconds": [round(each.seconds, 1) for each in stretches],
        "n": options.n,
        "statuses": {str(status): count for status, count in sorted(statuses.items())},
        "lost": sum(each.lost for each in stretches),
        "wrong": sum(count_wrong(smoothed, xs, each, options.n) for each in stretches),
        "checked": sum(min(CHECKED, len(each.answers)) for each in stretches),
        "batch_copies_per_second": [round(each.copies_per_second) for each in batches],
        "service_copies_per_second": [round(each.statuses[200] * options.n / each.seconds) for each in stretches],
        "ratio": round(speed / batch_speed, 3),
        "batch_processor_us_per_copy": [round(each.microseconds_per_copy, 2) for each in batches],
        "service_processor_us_per_copy": round(cost, 2),
        "ratio_by_processor_time": round(batch_cost / cost, 3),
        "memory_mb": [round(each / 1e6) for each in memory],
        "memory_growth_mb": round((statistics.mean(memory[-5:]) - statistics.mean(memory[3:8])) / 1e6, 1),
    }
    print(json.dumps(result, indent=2))
    if options.save:
        Path(__file__).with_suffix(".json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class Batch:
    """One caller with all inputs at once, whose certificates are written out as the service writes them."""

    copies_per_second: float
    microseconds_per_copy: float

    @classmethod
    def measured(cls, smoothed: hf.SmoothedClassifier, xs: np.ndarray, n: int) -> "Batch":
        smoothed.certify_many(xs[:4], n=n)
        began, used = time.monotonic(), time.process_time()
        for cert in smoothed.certify_many(xs, n=n):
            json.dumps(cert.to_dict())
        copies = len(xs) * n
        return cls(copies / (time.monotonic() - began), 1e6 * (time.process_time() - used) / copies)


def processor_seconds(pid: int) -> float:
    """What a process has used of all processors."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def start(queue: int) -> tuple[subprocess.Popen[str], str]:
    """The service, and where it listens."""
    command = [sys.executable, "-m", "holdfast", "serve", "--no-open", "--port", "0", "--queue", str(queue)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    found = re.search(r"http://\S+", process.stdout.readline())
    assert found
    url = found[0]
    for _ in range(300):
        try:
            if httpx.get(f"{url}v1/ready").status_code == 200:
                return process, url
        except httpx.TransportError:
            time.sleep(0.1)
    raise RuntimeError("the service did not start")


def load(url: str, pid: int, xs: np.ndarray, options: argparse.Namespace, stretch: int) -> Tally:
    """All callers until the time is up; requests that are under way then are waited for, and count."""
    bodies = [npy(x) for x in xs]
    tallies = [Tally() for _ in range(options.callers)]
    began, used = time.monotonic(), processor_seconds(pid)
    until = began + options.seconds / options.stretches

    def call(number: int) -> None:
        mine, turn = tallies[number], 0
        with httpx.Client(base_url=url, timeout=300.0) as client:
            while time.monotonic() < until:
                k, seed = (number + 7 * turn) % len(xs), number + options.callers * (turn + 1_000 * stretch)
                turn += 1
                try:
                    answer = client.post(
                        f"/v1/certify?n={options.n}&seed={seed}&index={k}",
                        content=bodies[k],
                        headers={"Content-Type": "application/x-npy"},
                    )
                except httpx.HTTPError:
                    mine.lost += 1
                    continue
                mine.statuses[answer.status_code] += 1
                if answer.status_code == 200:
                    mine.answers.append((k, seed, answer.content))
                elif answer.status_code == 429:
                    time.sleep(int(answer.headers["Retry-After"]))

    threads = [threading.Thread(target=call, args=(number,)) for number in range(options.callers)]
    for each in threads:
        each.start()
    memory = []
    while any(each.is_alive() for each in threads):
        memory.append(resident(pid))
        for each in threads:
            each.join(1.0 / len(threads))
    merged = Tally(seconds=time.monotonic() - began, used=processor_seconds(pid) - used, memory=memory)
    for tally in tallies:
        merged.statuses += tally.statuses
        merged.answers += tally.answers
        merged.lost += tally.lost
    return merged


def count_wrong(smoothed: hf.SmoothedClassifier, xs: np.ndarray, tally: Tally, n: int) -> int:
    """Answers that are not the library's own, among some spread over all callers and over the whole time."""
    step = max(1, len(tally.answers) // CHECKED)
    wrong = 0
    for k, seed, content in tally.answers[::step]:
        found = hf.Certificate.from_dict(json.loads(content))
        wrong += found != smoothed.certify(xs[k], n=n, seed=seed, index=k, progress=False)
    return wrong


def npy(x: np.ndarray) -> bytes:
    target = io.BytesIO()
    np.save(target, x, allow_pickle=False)
    return target.getvalue()


def resident(pid: int) -> int:
    """Memory of a process, in bytes."""
    pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
