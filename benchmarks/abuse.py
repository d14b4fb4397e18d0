"""Minutes of mixed abuse of a service on this machine, and an honest caller beside it.

``python benchmarks/abuse.py [--seconds 300]``. The abusers have a key of their own, or none: idle and dawdling connections, bodies that
do not arrive, streams that nobody reads, broken HTTP, forged and huge certificates, a new alpha with every question, the largest n,
wrong keys. It prints what the honest caller got and how long that took, every status, and memory, descriptors, kept calibrations
and logs of the service as time went on. It fails on any 5xx but 503, on an honest request that was refused, and on growth.
"""

import argparse
import json
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np

import holdfast as hf
from holdfast.zoo.datasets.embedded import load_fashion_mnist
from holdfast.zoo.pretrained import EMBEDDED_SIGMA, load_embedded_model

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from serving import NPY, npy

HONEST, ABUSER = "the-key-of-the-honest-caller", "the-key-of-those-who-abuse-it"
IDLE = 100


@dataclass
class Attack:
    """Where it goes, and what came back; counters are of one thread each."""

    host: str
    port: int
    inputs: list[bytes]
    certificate: bytes
    until: float
    statuses: Counter[str] = field(default_factory=Counter)

    def line(self) -> socket.socket:
        found = socket.socket()
        found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        found.settimeout(5)
        found.connect((self.host, self.port))
        return found

    def post(self, path: str, body: bytes, kind: str, chance: random.Random, *, key: str = ABUSER) -> bytes:
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {key}\r\nContent-Type: {kind}\r\n"
        length = chance.choice((len(body), len(body), len(body) + 100, 2**31))
        return f"{head}Content-Length: {length}\r\n\r\n".encode() + body

    def repeat(self, number: int, move: Callable[["Attack", random.Random], str]) -> None:
        chance, seen = random.Random(number), Counter[str]()
        while time.monotonic() < self.until:
            try:
                seen[f"{move.__name__}: {move(self, chance)}"] += 1
            except OSError as error:
                seen[f"{move.__name__}: {type(error).__name__}"] += 1
        self.statuses.update(seen)


def idle(attack: Attack, chance: random.Random) -> str:
    lines = [attack.line() for _ in range(IDLE)]
    for each in lines[::2]:
        each.sendall(b"POST /v1/certify HTTP/1.1\r\nHost:")
    time.sleep(chance.uniform(0, 3))
    for each in lines:
        each.close()
    return f"{IDLE} connections"


def broken(attack: Attack, chance: random.Random) -> str:
    with attack.line() as line:
        if chance.random() < 0.3:  # chunks that are none, after the answer
            line.sendall(b"POST /v1/nothing HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
            found = status(line)
            line.sendall(b"no chunk\r\n")
            return found
        line.sendall(
            chance.choice(
                (b"\x00" * 1_000, b"GET / HTTP/9.9\r\n\r\n", b"A" * 100_000, chance.randbytes(500), b"\r\n" * 50)
            )
        )
        return status(line)


def question(attack: Attack, chance: random.Random) -> str:
    alpha, n = chance.uniform(1e-6, 0.1), chance.choice((100, 1_000, 5_000, 1_000_000))
    path = chance.choice(("/v1/certify", "/v1/certify/stream", "/v1/decide", "/v1/triage", "/v1/certify"))
    asked = (
        f"?n={n}&alpha={alpha}"
        if "certify" in path
        else f"?at_least=0.9&radius=0.2&alpha={alpha}"
        if "decide" in path
        else ""
    )
    key = chance.choice((ABUSER, ABUSER, "x"))
    body, kind = chance.choice(attack.inputs), chance.choice((NPY, NPY, "image/png", "application/json", "\xff"))
    with attack.line() as line:
        line.sendall(
            attack.post(
                path + asked,
                chance.choice((body, body, body[:50])),
                kind,
                chance,
                key=key,
            )
        )
        line.settimeout(chance.uniform(0.01, 3))
        return status(line)


def forged(attack: Attack, chance: random.Random) -> str:
    document = json.loads(attack.certificate)
    document["alpha"] = chance.uniform(1e-9, 0.5)
    if chance.random() < 0.5:
        document[chance.choice([*document])] = chance.choice((None, -1, 10**30, "x" * 1_000, [[]], {}))
    with attack.line() as line:
        line.sendall(attack.post("/v1/read", json.dumps(document).encode(), "application/json", chance))
        line.settimeout(chance.uniform(0.01, 5))
        return status(line)


def unread(attack: Attack, chance: random.Random) -> str:
    lines = [attack.line() for _ in range(8)]
    for each in lines:
        body = chance.choice(attack.inputs)
        path = "/v1/certify/stream?n=1000000&sides=both"
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {ABUSER}\r\nContent-Type: {NPY}\r\n"
        each.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    time.sleep(chance.uniform(0, 10))
    for each in lines:
        each.close()
    return "8 streams"


def status(line: socket.socket) -> str:
    """The first line of what comes back."""
    found = line.recv(64)
    return (
        found.split(b" ")[1].decode("latin-1") if found.startswith(b"HTTP/") else "closed" if not found else "no HTTP"
    )


MOVES = (idle, broken, broken, question, question, question, forged, forged, unread, unread)


def watched(pid: int, cache: Path, log: Path) -> tuple[int, int, int, int]:
    """Megabytes, descriptors, kept calibrations, and kilobytes of stderr."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    descriptors = len([*Path(f"/proc/{pid}/fd").iterdir()])
    return (
        pages * os.sysconf("SC_PAGE_SIZE") // 2**20,
        descriptors,
        len([*cache.rglob("*.json")]),
        log.stat().st_size // 1_000,
    )


def honest(host: str, port: int, body: bytes) -> tuple[int, float]:
    """The status, and how long it took; a certificate from 2,000 copies."""
    began, headers = time.monotonic(), {"Content-Type": NPY, "X-API-Key": HONEST}
    response = httpx.post(f"http://{host}:{port}/v1/certify?n=2000", content=body, headers=headers, timeout=60.0)
    return response.status_code, time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    asked = parser.parse_args()
    xs = load_fashion_mnist().batch(np.arange(20))
    smoothed = hf.SmoothedClassifier(load_embedded_model().net, EMBEDDED_SIGMA, inputs="images", compile=False)
    certificate = json.dumps(smoothed.certify(xs[0], n=1_000_000, seed=1, sides="both").to_dict()).encode()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        keys, log, cache = folder / "keys.toml", folder / "stderr", folder / "cache"
        keys.write_text(f'[honest]\nkey = "{HONEST}"\n[abuser]\nkey = "{ABUSER}"\n', encoding="ascii")
        keys.chmod(0o600)
        command = [sys.executable, "-m", "holdfast", "serve", "--no-open", "--port", "0", "--keys", str(keys)]
        with log.open("wb") as errors:
            service = subprocess.Popen(
                [*command, "--access-log", str(folder / "access")], stdout=subprocess.PIPE, stderr=errors,
                env={**os.environ, "HOLDFAST_CACHE": str(cache), "COLUMNS": "200"},
            )  # fmt: skip
        assert service.stdout is not None
        address = re.search(r"http://(\S+):(\d+)/", service.stdout.readline().decode())
        assert address is not None
        host, port = address[1], int(address[2])
        alone = [honest(host, port, npy(x))[1] for x in xs]
        seen = [watched(service.pid, cache, log)]
        began = time.monotonic()
        attack = Attack(host, port, [npy(x) for x in xs], certificate, began + asked.seconds)
        threads = [threading.Thread(target=attack.repeat, args=(k, move)) for k, move in enumerate(MOVES)]
        for each in threads:
            each.start()
        took, answers = list[float](), Counter[int]()
        while time.monotonic() < attack.until:
            code, seconds = honest(host, port, attack.inputs[len(took) % 20])
            answers[code] += 1
            took.append(seconds)
            if time.monotonic() > began + asked.seconds * len(seen) / 20:
                seen.append(watched(service.pid, cache, log))
            time.sleep(0.2)
        for each in threads:
            each.join()
        time.sleep(20)
        seen.append(watched(service.pid, cache, log))
        service.send_signal(signal.SIGINT)
        code = service.wait(30)
        access = sum(path.stat().st_size for path in folder.glob("access*"))
        logged = Counter(
            json.loads(line)["status"] for path in folder.glob("access*") for line in path.read_text().splitlines()
        )
    for said, count in sorted(attack.statuses.items()):
        print(f"{count:8,}  {said}")
    cuts = statistics.quantiles(took, n=100)
    print(f"honest caller: {dict(answers)}; alone: median {statistics.median(alone):.2f} s")
    print(
        f"beside the abuse: median {statistics.median(took):.2f} s, 95% {cuts[94]:.2f} s, 99% {cuts[98]:.2f} s, longest {max(took):.2f} s"
    )
    print(f"statuses in the access log ({access / 1e6:.1f} MB): {dict(sorted(logged.items()))}")
    print("MB, descriptors, kept calibrations, kB of stderr:", *seen)
    print(f"exit code {code}, {asked.seconds:.0f} s")
    assert set(answers) == {200}, "the honest caller was refused"
    assert not {each for each in logged if each >= 500 and each != 503}, "it failed"
    middle = len(seen) // 2
    assert seen[-1][0] < 1.2 * max(each[0] for each in seen[:middle]) + 50, "memory grows"
    assert seen[-1][1] <= seen[0][1] + 2, "descriptors are left open"
    assert max(each[2] for each in seen) < 300, "calibrations fill the disk"
    assert seen[-1][3] < 100, "the log grows"
    assert not code, "it did not end as it should"


if __name__ == "__main__":
    main()
