"""Build wheel and sdist, install them into empty environments, and use them there: without torch, and with it.

Prints sizes and seconds. Needs no more than Python; pip finds packages where it always does.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUN = ROOT / "experiments" / "training" / "runs" / "certified-sigma0.25"
TORCH_FREE = """
import sys
import holdfast as hf

scores = hf.ScoreSamples([0.1] * 50 + [0.9] * 950, sigma=0.25)
assert 0.0 < hf.bound(scores, alpha=1e-3).lower(0.25) < 0.86
try:
    hf.SmoothedClassifier
except hf.InvalidArgument as error:
    assert "pip install 'holdfast-certify[torch]'" in str(error), error
else:
    raise AssertionError("torch is here")
"""
REPEATS = 5


class Environment:
    """A virtual environment with Holdfast in it, and an empty folder to work in."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder / "venv", with_pip=True)
        self.bin = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
        self.work = folder / "work"
        self.work.mkdir()
        self._size_before = _size(folder / "venv")
        self._venv = folder / "venv"

    def install(self, *what: str) -> None:
        """With pip, from where it finds packages."""
        self.run("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what)

    def run(self, program: str, *arguments: str, code: int = 0) -> str:
        """The program's output; anything but the expected exit code ends the check."""
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            [self.bin / program, *arguments], cwd=self.work, env=env, capture_output=True, text=True, check=False
        )
        if done.returncode != code:
            sys.exit(f"{program} {' '.join(arguments)} exited with {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def seconds(self, program: str, *arguments: str) -> float:
        """Of the fastest run of several."""
        taken = []
        for _ in range(REPEATS):
            begun = time.perf_counter()
            self.run(program, *arguments)
            taken.append(time.perf_counter() - begun)
        return min(taken)

    @property
    def megabytes(self) -> float:
        """What was installed, without pip."""
        return (_size(self._venv) - self._size_before) / 1e6


def main() -> None:
    """Check wheel and sdist."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="*", default=[], metavar="EXTRA", help="Also install these, for their sizes.")
    extras = parser.parse_args().sizes
    with tempfile.TemporaryDirectory(prefix="holdfast-install-") as scratch:
        folder = Path(scratch)
        wheel, sdist = _build(folder)
        for path in (wheel, sdist):
            print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB")
        _check_without_torch(Environment(folder / "core"), wheel)
        for name, distribution in (("wheel", wheel), ("sdist", sdist)):
            _check_demo(Environment(folder / name), name, distribution)
        for extra in extras:
            environment = Environment(folder / extra)
            environment.install("-c", str(ROOT / "constraints.txt"), f"{wheel}[{extra}]")
            print(f"with [{extra}]: {environment.megabytes:,.0f} MB")


def _build(folder: Path) -> tuple[Path, Path]:
    builder = Environment(folder / "build")
    builder.install("build")
    builder.run("python", "-m", "build", "--outdir", str(folder / "dist"), str(ROOT))
    (wheel,), (sdist,) = (folder / "dist").glob("*.whl"), (folder / "dist").glob("*.tar.gz")
    return wheel, sdist


def _check_without_torch(core: Environment, wheel: Path) -> None:
    core.install("-c", str(ROOT / "constraints.txt"), str(wheel))
    print(f"core: {core.megabytes:,.0f} MB")
    core.run("python", "-c", TORCH_FREE)
    core.run("holdfast", "report", str(RUN), "--figures", "figures")
    if not (core.work / "figures" / "report.html").is_file():
        sys.exit("no report was written")
    core.run("holdfast", "verify", str(RUN))
    core.run("holdfast", "doctor")
    command = ("certify", "--model", "fashion-mnist", "--data", "fashion-mnist", "--sigma", "0.25", "--out", "run")
    said = " ".join(core.run("holdfast", *command, code=2).split())
    if "pip install 'holdfast-certify[torch]'" not in said:
        sys.exit(f"certify does not say how to install torch: {said}")
    print("without torch: import, bound, report, verify and doctor work, and certify says what to install")
    load = f" (load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores)" if os.name == "posix" else ""
    bare = core.seconds("python", "-c", "pass")
    importing, helping = core.seconds("python", "-c", "import holdfast"), core.seconds("holdfast", "--help")
    print(f"python: {bare:.2f} s; import holdfast: {importing:.2f} s; holdfast --help: {helping:.2f} s{load}")


def _check_demo(environment: Environment, name: str, distribution: Path) -> None:
    environment.install("-c", str(ROOT / "constraints.txt"), f"{distribution}[torch]")
    begun = time.perf_counter()
    environment.run("holdfast", "demo")
    taken = time.perf_counter() - begun
    print(f"{name} with [torch]: {environment.megabytes:,.0f} MB; holdfast demo: {taken:.0f} s")


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


if __name__ == "__main__":
    main()
