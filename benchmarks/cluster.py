"""The Ray engine on this machine: speed-up of two workers, the driver's memory, and fifty kills.

``python benchmarks/cluster.py [speed] [memory] [chaos] [--kills N] [--save]``; all three take about twenty minutes.
"""

import argparse
import json
import os
import platform
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import holdfast as hf
from holdfast.runs.certified import CertifiedRun

RESULTS = Path(__file__).with_name("cluster.json")
PAIRS, MOST_PAIRS = 3, 10
QUIET = 0.15
INPUTS = (100, 10_000, 100_000)
KILLS = 50
CHAOS = ["--model", "fashion-mnist", "--data", "fashion-mnist", "--sigma", "0.25", "--seed", "7"]
# Each engine compiles where it pays for it, which changes last digits: not here.
CHAOS_SIZE = ["--n", "10000", "--max", "150", "--no-compile"]


def deep_net() -> nn.Module:
    """Enough arithmetic for each copy that nothing else matters."""
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, padding=1), nn.ReLU()]
    for _ in range(4):
        layers += [nn.Conv2d(16, 16, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(256, 10))


def speed() -> dict[str, Any]:
    """Seconds for the same certificates with one worker and with two, in turns."""
    net, inputs = deep_net(), np.random.default_rng(0).random((10, 3, 32, 32), dtype=np.float32)
    seconds: dict[int, list[float]] = {1: [], 2: []}
    others: dict[int, list[float]] = {1: [], 2: []}
    local = hf.SmoothedClassifier(net, 0.25).certify_many(inputs, n=2_000, seed=1)
    for _ in range(MOST_PAIRS):
        if sum(max(pair) < QUIET for pair in zip(*others.values(), strict=True)) == PAIRS:
            break
        for workers, found in seconds.items():
            with hf.RayCluster(workers=workers) as cluster:
                smoothed = hf.SmoothedClassifier(net, 0.25, engine=cluster)
                smoothed.certify_many(inputs[:4], n=2_000)  # workers have started and jobs have their size
                before, began = cpu_seconds(), time.perf_counter()
                certificates = smoothed.certify_many(inputs, n=2_000, seed=1)
                found.append(time.perf_counter() - began)
                everyone, mine = (after - at for after, at in zip(cpu_seconds(), before, strict=True))
                others[workers].append((everyone - mine) / found[-1])
                assert certificates == local, "a cluster must give the certificates of the local engine"
    pairs = [one / two for one, two in zip(seconds[1], seconds[2], strict=True)]
    # Two workers need both cores: where somebody else had half of one, the pair says nothing about Holdfast.
    quiet = [pair for pair, one, two in zip(pairs, others[1], others[2], strict=True) if max(one, two) < QUIET]
    return {
        "one worker, s": seconds[1],
        "two workers, s": seconds[2],
        "speed-up of each pair": pairs,
        "speed-up, median of pairs": statistics.median(pairs),
        "speed-up of the fastest": min(seconds[1]) / min(seconds[2]),
        "cores taken by other programs, one worker": others[1],
        "cores taken by other programs, two workers": others[2],
        f"pairs with less than {QUIET} cores taken by others": len(quiet),
        "speed-up, median of those": statistics.median(quiet) if quiet else None,
        "certificates identical to the local engine's": True,
    }


def cpu_seconds() -> tuple[float, float]:
    """What all programs, and this one with its workers, have used of the processors so far."""
    tick = os.sysconf("SC_CLK_TCK")
    times = [int(each) for each in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    parents, used = {}, {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        parents[int(status.parent.name)], used[int(status.parent.name)] = (
            int(fields[1]),
            int(fields[11]) + int(fields[12]),
        )
    mine = {os.getpid()}
    while more := {process for process, parent in parents.items() if parent in mine} - mine:
        mine |= more
    everyone = sum(times) - times[3] - times[4]  # but idle and waiting for disks
    return everyone / tick, sum(used.get(process, 0) for process in mine) / tick


def memory() -> dict[str, Any]:
    """The driver's resident memory for more and more inputs of a tiny model, each in a process of its own."""
    found = {}
    for count in INPUTS:
        answer = subprocess.run(
            [sys.executable, __file__, "--driver", str(count)], check=True, capture_output=True, text=True
        )
        found[f"{count} inputs"] = json.loads(answer.stdout.splitlines()[-1])
    return found


def driver(count: int) -> None:
    """Certify so many tiny inputs into a run, and say what it took."""
    torch.manual_seed(0)
    net, inputs = nn.Linear(16, 4), np.random.default_rng(0).random((count, 16), dtype=np.float32)
    settings = hf.Settings(n=100, n0=10)
    with tempfile.TemporaryDirectory() as folder, hf.RayCluster(workers=2) as cluster:
        smoothed = hf.SmoothedClassifier(net, 0.25, engine=cluster)
        began = time.perf_counter()
        run = hf.certify_run(
            smoothed, inputs, np.zeros(count, dtype=np.int64), out=Path(folder) / "a", settings=settings, seed=1
        )
        took = time.perf_counter() - began
        assert len(run) == count
    said = Path("/proc/self/status").read_text()
    resident = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in said.splitlines() if line.startswith("Vm")}
    print(json.dumps({"seconds": took, "peak resident MB": resident["VmHWM"], "resident MB": resident["VmRSS"]}))


def chaos(number: int) -> dict[str, Any]:
    """Kill workers, and every fifth time the driver, so often in all; the results must be those of an undisturbed run."""
    chance = random.Random(0)
    drivers = -(-number // 5)
    kills = [True] * drivers + [False] * (number - drivers)
    chance.shuffle(kills)
    done: dict[str, int] = {"workers killed": 0, "drivers killed": 0, "runs": 0}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        certify(folder / "undisturbed", [])
        expected = certificates(folder / "undisturbed")
        began = time.perf_counter()
        while kills:
            out = folder / f"run-{done['runs']}"
            written = disturbed(out, kills, chance, done)
            assert certificates(out) == expected, "results differ from an undisturbed run"
            kept = all((out / "certificates" / part).read_bytes() == content for part, content in written.items())
            assert kept, "something that was finished was done again"
            done["runs"] += 1
    return {
        **done,
        "certificates in each run": len(expected),
        "seconds": time.perf_counter() - began,
        "results identical to an undisturbed local run": True,
        "parts written before a kill unchanged at the end": True,
    }


def disturbed(out: Path, kills: list[bool], chance: random.Random, done: dict[str, int]) -> dict[str, bytes]:
    """One run to its end, killed as often as it takes; returns the parts there were whenever the driver was killed."""
    written: dict[str, bytes] = {}
    process = started(out)
    pause = time.monotonic() + chance.uniform(2, 5)
    while process.poll() is None:
        time.sleep(0.05)
        workers = list(worker_ids(process.pid))
        if not kills or time.monotonic() < pause or not workers:
            continue
        if kills[0]:
            if not list(out.glob("certificates/part-*.parquet")):
                continue  # there is nothing to go on from yet
            process.kill()
            process.wait()
            written |= {path.name: path.read_bytes() for path in out.glob("certificates/part-*.parquet")}
            process = started(out)
        else:
            os.kill(chance.choice(workers), signal.SIGKILL)
        done["drivers killed" if kills.pop(0) else "workers killed"] += 1
        print(f"{len(kills)} kills are left", flush=True)
        pause = time.monotonic() + chance.uniform(2, 5)
    assert process.returncode == 0, f"exit {process.returncode}"
    return written


def worker_ids(driver_id: int) -> Iterator[int]:
    """The processes of this driver's workers: children of the raylet that is its child."""
    parents, names = {}, {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(status.parent.name)] = int(status.read_text().rsplit(")", 1)[1].split()[1])
            names[int(status.parent.name)] = (status.parent / "cmdline").read_bytes()
        except (OSError, IndexError):
            continue
    for process, parent in parents.items():
        if names.get(process, b"").startswith(b"ray::SamplingActor") and parents.get(parent) == driver_id:
            yield process


def arguments(out: Path) -> list[str]:
    code = "from holdfast.cli.app import main; main()"
    return [sys.executable, "-c", code, "certify", *CHAOS, *CHAOS_SIZE, "--out", str(out)]


def started(out: Path) -> subprocess.Popen[bytes]:
    ray = ["--engine", "ray", "--workers", "2"]
    return subprocess.Popen([*arguments(out), *ray], stdout=subprocess.DEVNULL)


def certify(out: Path, more: list[str]) -> None:
    subprocess.run([*arguments(out), *more], check=True, stdout=subprocess.DEVNULL)


def certificates(out: Path) -> list[hf.Certificate]:
    run = hf.Run.open(out)
    assert isinstance(run, CertifiedRun)
    return [entry.certificate for entry in run]


def main() -> None:
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "speed": speed,
        "memory": memory,
        "chaos": lambda: chaos(asked.kills),
    }
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(parts)}; by default all")
    parser.add_argument("--kills", type=int, default=KILLS, help="of workers and, every fifth, of the driver")
    parser.add_argument("--save", action="store_true", help=f"write the figures to {RESULTS.name}")
    parser.add_argument("--driver", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.driver:
        driver(asked.driver)
        return
    if unknown := set(asked.parts) - set(parts):
        parser.error(f"expected {', '.join(parts)}, got {', '.join(unknown)}")
    chosen = asked.parts or list(parts)
    result = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in chosen:
        result[name] = parts[name]()
        print(json.dumps({name: result[name]}, indent=2))
    if asked.save:
        machine = {"cpu": platform.machine(), "cores": os.cpu_count(), "torch": torch.__version__}
        RESULTS.write_text(json.dumps({**result, "machine": machine}, indent=2) + "\n")


if __name__ == "__main__":
    main()
