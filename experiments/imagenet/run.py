"""Certify ImageNet validation images with EfficientNet-Lite0: one stored run for each sigma.

    python -m experiments.imagenet.run --data FOLDER --out runs/imagenet

Every run is one ``holdfast certify``, and its command is printed. A run that is complete already is left as it is, and an
unfinished one goes on where it stopped: after an interruption, give the same command again.
"""

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from holdfast.cli.app import run as holdfast
from holdfast.errors import RunError
from holdfast.runs.run import Run

SIGMAS = (0.12, 0.25)


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the runs; returns the exit code of the first that failed, or 0."""
    asked = _parser().parse_args(arguments)
    for sigma in asked.sigma or SIGMAS:
        out = asked.out / f"sigma{sigma:g}"
        if _complete(out):
            print(f"{out} is complete already")
            continue
        command = _command(asked, sigma, out)
        print(shlex.join(["holdfast", *command]), flush=True)
        code = holdfast(command)
        if code != 0:
            return code
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder with val/CLASS/*.jpg, or CLASS/*.jpg")
    parser.add_argument("--out", type=Path, required=True, help="folder for the runs, one a sigma")
    parser.add_argument("--weights", help="a file of EfficientNet-Lite0 weights; default: from the installed package")
    parser.add_argument("--sigma", type=float, action="append", help="default: 0.12 and 0.25; may be repeated")
    parser.add_argument("--n", type=int, default=10_000, help="noisy copies per image")
    parser.add_argument("--n0", type=int, default=100, help="other copies per image, to choose the class")
    parser.add_argument("--skip", type=int, default=1, help="every k-th image")
    parser.add_argument("--max", type=int, help="at most this many images")
    parser.add_argument("--seed", help="for a replay; by default secret, and recorded in run.json")
    parser.add_argument("--device", default="auto", help="'auto', 'cpu' or 'cuda'")
    parser.add_argument("--precision", help="as for 'holdfast certify'; default: its own")
    parser.add_argument("--batch", type=int, help="noisy copies per forward pass")
    return parser


def _command(asked: argparse.Namespace, sigma: float, out: Path) -> list[str]:
    options = {
        "--model": asked.weights or "efficientnet-lite0",
        "--data": asked.data,
        "--split": "val",
        "--sigma": f"{sigma:g}",
        "--out": str(out),
        "--n": asked.n,
        "--n0": asked.n0,
        "--skip": asked.skip,
        "--max": asked.max,
        "--seed": asked.seed,
        "--device": asked.device,
        "--precision": asked.precision,
        "--batch": asked.batch,
    }
    return ["certify", *(str(word) for pair in options.items() if pair[1] is not None for word in pair)]


def _complete(out: Path) -> bool:
    try:
        return Run.open(out).config.get("status") == "complete"
    except RunError:
        return False


if __name__ == "__main__":
    sys.exit(main())
