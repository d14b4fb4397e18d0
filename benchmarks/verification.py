"""What 'holdfast verify' finds, at full size: edits, bit flips, untouched runs, and the rates of --resample.

python benchmarks/verification.py --save
"""

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

import holdfast as hf
from holdfast.certificates.settings import Settings
from holdfast.runs.certified import CertifiedRun
from holdfast.runs.execute import Plan, execute
from holdfast.runs.resample import resample
from holdfast.runs.verify import verify
from holdfast.zoo.datasets.labelled import LabelledInputs

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from edited_runs import edit_value, files_of, flip_bit, resealed, restored
from networks import images, small_net

SIGMA = 0.2
INPUTS = 12


def smoothed(seed: int = 0) -> hf.SmoothedClassifier:
    return hf.SmoothedClassifier(small_net(seed=seed), SIGMA)


def labelled(seed: int = 1) -> LabelledInputs:
    return LabelledInputs("toys", images(INPUTS, seed=seed), np.arange(INPUTS) % 4, 20 * np.arange(INPUTS))


def certified(out: Path, data: LabelledInputs, *, net: int = 0, n: int = 400, sides: str = "lower") -> CertifiedRun:
    return execute(smoothed(net), Plan(data, Settings(n=n, n0=30, sides=sides), out), progress=False)


def opens(run: Path) -> bool:
    try:
        hf.Run.open(run)
    except hf.HoldfastError:
        return False
    return True


def faults(run: Path, trials: int, *, flips: bool, seed: int) -> dict[str, object]:
    """How many single faults verify and opening find; and how many edits verify finds where the manifest was rewritten to fit."""
    rng = np.random.default_rng(seed)
    found: Counter[str] = Counter()
    missed: list[str] = []
    files = files_of(run)
    for _ in range(trials):
        path = files[int(rng.integers(len(files)))]
        with restored(run):
            said = flip_bit(path, rng) if flips else edit_value(path, rng)
            if verify(run).ok:
                missed.append(said)
            found["by opening"] += not opens(run)
            if not flips and path.name != "manifest.json":
                resealed(run)
                found["manifest rewritten"] += 1
                found["by the rest of verify, manifest rewritten"] += not verify(run).ok
    return {"trials": trials, "by verify": trials - len(missed), "missed": missed, **found}


def rates(folder: Path, trials: int) -> dict[str, object]:
    """How often --resample flags true counts at a large error rate, and those of another network at the usual one."""
    data = labelled()
    true, other = certified(folder / "true", data, n=1_000), certified(folder / "other", data, net=1, n=1_000)
    level = 0.1
    flagged = sum(
        bool(resample(true, smoothed(), data, inputs=3, error_rate=level, progress=False).problems)
        for _ in range(trials)
    )
    false = sum(bool(resample(true, smoothed(), data, inputs=3, progress=False).problems) for _ in range(trials))
    caught = sum(bool(resample(other, smoothed(), data, inputs=1, progress=False).problems) for _ in range(trials))
    return {
        "trials": trials,
        f"true counts flagged at error rate {level}": flagged,
        "true counts flagged at error rate 0.001": false,
        "another network flagged by one input": caught,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--save", action="store_true", help="keep the numbers beside this script")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = certified(folder / "run", labelled()).path
        report: dict[str, object] = {
            "edits": faults(run, asked.trials, flips=False, seed=0),
            "flips": faults(run, asked.trials, flips=True, seed=1),
        }
        made = [
            certified(folder / f"{k}", labelled(k), net=k, n=200 + 50 * (k % 5), sides=("lower", "both")[k % 2])
            for k in range(asked.runs)
        ]
        report["untouched"] = {"runs": asked.runs, "passed": sum(verify(each.path).ok for each in made)}
        report["resample"] = rates(folder, asked.trials // 5)
    text = json.dumps(report, indent=2) + "\n"
    sys.stdout.write(text)
    if asked.save:
        Path(__file__).with_suffix(".json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
