"""Two hundred SIGKILLs and fifty SIGTERMs of small local runs: each must end as an undisturbed one does.

``python benchmarks/kills.py [--kills 200] [--terms 50]``. Each process is a fork of this one, which has imported everything, so that
signals come at any step: while the folder is made, while parts, exports and the manifest are written, and after the end.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch

import holdfast as hf
import holdfast.runs.writer as writer
from holdfast.cli.app import main as holdfast
from holdfast.runs.certified import CertifiedRun

QUESTION = ["--model", "fashion-mnist", "--data", "fashion-mnist", "--sigma", "0.25", "--seed", "7"]
SIZE = ["--n", "300", "--n0", "10", "--max", "12", "--batch", "100", "--no-progress"]


def started(out: Path) -> int:
    """A process that certifies into the folder, or goes on with it."""
    child = os.fork()
    if child == 0:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        sys.argv = ["holdfast", "certify", *QUESTION, *SIZE, "--out", str(out)]
        try:
            holdfast()
        except SystemExit as stop:
            os._exit(int(stop.code or 0))
        finally:
            os._exit(99)
    return child


def ended(child: int) -> int:
    """Its exit code; minus the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def certificates(out: Path) -> list[hf.Certificate]:
    run = hf.Run.open(out)
    assert isinstance(run, CertifiedRun)
    assert run.status == "complete", run.status
    assert run.verify().ok, str(run.verify())
    return [entry.certificate for entry in run]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--terms", type=int, default=50)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    writer._SECONDS = 0.0  # a part for each input: more steps to be killed at
    chance = random.Random(0)
    signals = [signal.SIGKILL] * asked.kills + [signal.SIGTERM] * asked.terms
    chance.shuffle(signals)
    ends: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        began = time.perf_counter()
        assert ended(started(folder / "undisturbed")) == 0
        whole = time.perf_counter() - began
        expected, runs = certificates(folder / "undisturbed"), 0
        while signals:
            out, kept = folder / f"run-{runs}", dict[str, bytes]()
            while True:
                child = started(out)
                if not signals:
                    code = ended(child)
                else:
                    time.sleep(chance.uniform(0, whole))
                    os.kill(child, signals[-1])
                    code = ended(child)
                    if code != 0:  # or it had ended before
                        sent = signals.pop()
                        ends[f"{sent.name}: exit {code}"] += 1
                        assert code in (-sent, 128 + sent), f"{sent.name}: exit {code}"
                if code == 0:
                    break
                parts = {path.name: path.read_bytes() for path in out.glob("certificates/*.parquet")}
                assert kept.items() <= parts.items(), "something that was finished was done again"
                kept = parts
            assert certificates(out) == expected, "results differ from an undisturbed run"
            assert not list(out.rglob("*.partial")), "temporaries were left"
            assert ended(started(out)) == 0, "a complete run says so"
            shutil.rmtree(out)
            runs += 1
        took = time.perf_counter() - began
        print(f"{asked.kills} SIGKILLs, {asked.terms} SIGTERMs, {runs} runs of {len(expected)} inputs, {took:.0f} s")
        print(f"results identical to an undisturbed run ({whole:.2f} s); ends: {dict(sorted(ends.items()))}")


if __name__ == "__main__":
    main()
