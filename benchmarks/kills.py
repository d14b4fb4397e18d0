"""Two hundred SIGKILLs and fifty SIGTERMs of small local runs: each must end as an undisturbed one does.

``python benchmarks/kills.py [--kills 200] [--terms 50]``. Each process is a fork of this one, which has imported everything, so that
signals come at any step: while the folder is made, while parts, exports and the manifest are written, and after the end. Before
that, ``certify``, ``train`` and ``report`` are killed once before each change that they make on the disk (``--steps 0`` leaves that out).
The Ray engine has kills of its own in ``cluster.py``.
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

import numpy as np
import torch

import holdfast as hf
import holdfast.runs.writer as writer
from holdfast.cli.app import main as holdfast
from holdfast.files import unfinished
from holdfast.runs.certified import CertifiedRun
from holdfast.zoo.checkpoint import load_checkpoint

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from killed import exit_code

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


def stepwise(folder: Path) -> None:
    """Each command is killed once before each change that it makes, and then given again."""
    data, weights = folder / "data.npz", folder / "work" / "net.safetensors"
    rng = np.random.default_rng(0)
    np.savez(data, train_images=rng.integers(0, 256, (40, 28, 28), dtype=np.uint8), train_labels=np.arange(40) % 4)
    made = folder / "made"
    assert exit_code(["certify", *QUESTION, *SIZE, "--out", made], folder) == 0
    run, page = folder / "work" / "run", folder / "work" / "figures"
    recipe = ["--sigma", "0.25", "--epochs", "2", "--batch", "20", "--no-progress"]
    commands = {
        "certify": (["certify", *QUESTION, *SIZE, "--max", "3", "--out", run], run),
        "train": (["train", "--data", data, *recipe, "--out", weights], weights),
        "report": (["report", made, "--figures", page], page),
    }
    for name, (arguments, out) in commands.items():
        (folder / "work").mkdir()
        assert exit_code(arguments, folder) == 0, name
        expected, at, code = results(out), 0, -9
        while code == -9:
            shutil.rmtree(folder / "work")
            (folder / "work").mkdir()
            code = exit_code(arguments, out.parent, at=at)
            if code == -9:
                at += 1
                assert exit_code(arguments, folder) == 0, f"{name}, step {at}: the same command again"
            assert results(out) == expected, f"{name}, step {at}: results differ from an undisturbed command"
        assert code == 0, f"{name}: exit {code}"
        shutil.rmtree(folder / "work")
        print(f"{name}: killed before each of its {at} changes on the disk; results identical", flush=True)


def results(out: Path) -> object:
    """What was made, without times; and that nothing is left over."""
    left = [path for path in out.rglob("*") if path.match(unfinished())]
    assert not left or out.name == "figures", left
    if (out / "run.json").exists():
        return certificates(out)
    if out.suffix == ".safetensors":
        net = load_checkpoint(out)
        state = {name: tensor.numpy().tobytes() for name, tensor in net.net.state_dict().items()}
        return state, {name: note for name, note in net.notes.items() if name != "seconds"}
    return {
        path.name: path.read_bytes()
        for path in (out.rglob("*") if out.is_dir() else [out])
        if not path.match(unfinished())
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--terms", type=int, default=50)
    parser.add_argument("--steps", type=int, default=1)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    writer._SECONDS = 0.0  # a part for each input: more steps to be killed at
    chance = random.Random(0)
    signals = [signal.SIGKILL] * asked.kills + [signal.SIGTERM] * asked.terms
    chance.shuffle(signals)
    ends: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if asked.steps:
            stepwise(folder)
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
