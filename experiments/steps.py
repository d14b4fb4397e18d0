"""Commands that leave something behind, followed from where they stopped."""

import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from holdfast.errors import RunError
from holdfast.runs.run import Run


@dataclass(frozen=True)
class Step:
    """A command and what it leaves behind; it is left out if that is there already."""

    argv: tuple[str, ...]
    makes: Path | None

    @classmethod
    def module(cls, command: str, makes: Path | None) -> "Step":
        """A module of Python's and its arguments, as they would be typed."""
        return cls((sys.executable, "-m", *shlex.split(command)), makes)

    @property
    def done(self) -> bool:
        """Whether the file is there, or the run complete."""
        if self.makes is None or not self.makes.exists():
            return False
        if self.makes.is_dir():
            try:
                return Run.open(self.makes).config.get("status") == "complete"
            except RunError:
                return False
        return True


def certifying_steps(weights: Path, data: str, sigma: str, options: str, run: Path, bins: int) -> list[Step]:
    """A network's run, a compact copy of it in the folder ``compact`` beside it, and the network's own softmax there."""
    kept = run.parent / "compact" / run.name
    model, whole, part, where = (shlex.quote(str(each)) for each in (weights, run, kept, data))
    return [
        Step.module(f"holdfast certify --model {model} --data {where} --sigma {sigma} --out {whole} {options}", run),
        Step.module(f"holdfast compact {whole} --bins {bins} --out {part}", kept),
        Step.module(f"experiments.paper.softmax --model {model} --data {where} --run {part}", kept / "softmax.npz"),
    ]


def follow(chains: Iterable[Sequence[Step]], last: Sequence[Step], *, at_once: int = 1, dry_run: bool = False) -> int:
    """Run what is not done yet, some chains at a time, and then the last steps, if nothing failed; an exit code, 0 if so."""
    pool = ThreadPoolExecutor(at_once)
    try:
        codes = list(pool.map(partial(_follow, dry_run=dry_run), chains))
    finally:
        pool.shutdown(cancel_futures=True)
    return max(codes, default=0) or _follow(last, dry_run=dry_run)


def _follow(chain: Sequence[Step], *, dry_run: bool) -> int:
    for step in chain:
        print(("done: " if step.done else "") + shlex.join(step.argv), flush=True)
        if dry_run or step.done:
            continue
        if step.makes is not None:
            step.makes.parent.mkdir(parents=True, exist_ok=True)
        code = subprocess.run(step.argv, check=False).returncode
        if code != 0:
            print(f"reproduce: stopped with exit code {code}; run it again to go on from here", file=sys.stderr)
            return code
    return 0
