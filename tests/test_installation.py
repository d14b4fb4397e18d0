"""What is installed, what is imported, and what is said where a package is missing."""

import ast
import re
import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import typer

import holdfast as hf
from holdfast.bounds.named import band_names
from holdfast.cli import certify, options
from holdfast.cli.app import app
from holdfast.errors import MissingPackage, explain_missing_packages
from holdfast.measures import DEFAULT_MEASURES
from holdfast.service.security import OPEN_ROUTES

ROOT = Path(__file__).resolve().parents[1]
RUN = ROOT / "experiments" / "training" / "runs" / "certified-sigma0.25"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
THERE_WHERE_NEEDED = {
    "IPython",
    "timm",
    "triton",
}  # in a notebook; what a user must install to fit torch; with torch for CUDA


def named(requirement: str) -> str:
    """The distribution of a requirement, as package indexes compare names."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=!~; ]", requirement)[0]).lower()


CORE = {named(requirement) for requirement in PROJECT["dependencies"]}
EXTRAS = {
    extra: {named(requirement) for requirement in requirements}
    for extra, requirements in PROJECT["optional-dependencies"].items()
    if extra != "dev"
}


def imported_names() -> set[str]:
    """Top-level names that any file of the package imports, wherever in it."""
    found = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"holdfast"}


DISTRIBUTIONS = packages_distributions()
THIRD_PARTY = {
    name: {named(each) for each in DISTRIBUTIONS.get(name, [name])} for name in imported_names() - THERE_WHERE_NEEDED
}


NO_TORCH = """
import sys
from importlib.machinery import PathFinder

class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split(".")[0] == "torch" else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Finder
"""


def without_torch(code: str) -> str:
    """What a fresh process prints that finds no torch."""
    done = subprocess.run([sys.executable, "-c", NO_TORCH + code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_package_that_is_imported_is_declared() -> None:
    declared = CORE.union(*EXTRAS.values())
    assert {name for name, found in THIRD_PARTY.items() if not found & declared} == set()
    assert {"numpy", "torch", "starlette"} <= set(THIRD_PARTY)


@pytest.mark.parametrize("name", sorted(name for name, found in THIRD_PARTY.items() if not found & CORE))
def test_a_missing_package_of_an_extra_is_refused_with_the_command_that_installs_it(name: str) -> None:
    with pytest.raises(MissingPackage, match=f"this needs {name}") as refusal, explain_missing_packages():
        raise ModuleNotFoundError(f"No module named '{name}.part'", name=f"{name}.part")
    assert isinstance(refusal.value, hf.InvalidArgument | ImportError)
    command = re.search(r"pip install 'holdfast-certify\[(\w+)\]'", str(refusal.value))
    assert command is not None
    assert EXTRAS[command[1]] & THIRD_PARTY[name]


def test_an_import_that_fails_for_another_reason_is_not_explained_away() -> None:
    with pytest.raises(ModuleNotFoundError, match="numpy"), explain_missing_packages():
        raise ModuleNotFoundError("No module named 'numpy'", name="numpy")


def test_importing_holdfast_and_asking_for_help_load_no_numbers() -> None:
    heavy = {"matplotlib", "numpy", "PIL", "pyarrow", "scipy", "torch"}
    code = "import sys, {}; print(sorted({!r} & set(sys.modules)))"
    for module in ("holdfast", "holdfast.cli.app"):
        done = subprocess.run([sys.executable, "-c", code.format(module, heavy)], capture_output=True, text=True)
        assert done.stdout == "[]\n", done.stderr


def test_the_names_that_help_prints_are_those_of_the_objects() -> None:
    assert tuple(measure.name for measure in DEFAULT_MEASURES) == options.MEASURES
    assert band_names() == certify.BANDS


def test_without_torch_bounds_work_and_names_that_need_it_say_how_to_install_it() -> None:
    said = without_torch(
        "import holdfast as hf\n"
        "print(hf.bound(hf.ScoreSamples([0.9] * 1000, sigma=0.25), alpha=1e-3).lower(0.0) > 0.8)\n"
        "for name in hf.__all__:\n"
        "    try: getattr(hf, name)\n"
        "    except hf.InvalidArgument as error: print(name, error)\n"
    ).splitlines()
    assert said[0] == "True"
    assert {line.split()[0] for line in said[1:]} >= {"SmoothedClassifier", "TorchModel", "certify_run", "load"}
    assert all(re.search(r"pip install 'holdfast-certify\[(torch|serve)\]'", line) for line in said[1:])
    assert not {"Certificate", "Run", "Triage", "bound", "datasets"} & {line.split()[0] for line in said[1:]}


def test_without_torch_stored_runs_are_read_and_networks_refused_before_anything_is_done(tmp_path: Path) -> None:
    triage = tmp_path / "triage.json"
    commands = {
        f"report {RUN} --format json --out {tmp_path / 'report.json'}": 0,
        f"verify {RUN}": 0,
        f"export {RUN} --measure score --out {tmp_path / 'log.tsv'}": 0,
        f"import {tmp_path / 'log.tsv'} --out {tmp_path / 'imported'}": 0,
        f"compact {RUN} --bins 256 --out {tmp_path / 'compact'}": 0,
        f"triage {RUN} --radius 0.05 --epsilon 0.3 --out {triage}": 0,
        f"drift {triage} {RUN}": 0,
        "doctor": 0,
        f"verify {tmp_path / 'nowhere'} --model net.safetensors": MissingPackage.exit_code,
        f"certify --model fashion-mnist --data fashion-mnist --sigma 0.25 --out {tmp_path / 'run'}": 2,
        f"decide --model a --data {tmp_path} --sigma 0.25 --at-least 0.9 --radius 0.25": 2,
        "serve --no-open": MissingPackage.exit_code,
    }
    said = without_torch(
        "from holdfast.cli.app import run\n"
        f"for command in {[shlex.split(command) for command in commands]!r}:\n"
        "    sys.stderr = sys.stdout\n"
        "    print(f'exit code {run(command)}')\n"
    )
    assert [int(code) for code in re.findall(r"^exit code (\d+)$", said, flags=re.M)] == list(commands.values())
    refusals = " ".join(said[said.index("exit code 2") - 1000 :].split())
    assert refusals.count("pip install 'holdfast-certify[torch]'") >= 4
    assert not (tmp_path / "run").exists()


def test_the_lock_file_has_a_hash_for_everything_the_service_needs_but_torch() -> None:
    text = (ROOT / "requirements.lock").read_text()
    versions = dict(re.findall(r"^([\w.-]+)==(\S+)", text, flags=re.M))
    assert CORE | EXTRAS["serve"] | EXTRAS["sign"] | EXTRAS["torch"] <= versions.keys() | {"torch", "holdfast-certify"}
    assert "torch" not in versions
    for block in re.split(r"\n(?=\S)", text.strip()):
        assert block.startswith("#") or "--hash=sha256:" in block
    pinned = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    pinned = {named(name): version for name, version in pinned.items()}
    assert {name: versions[name] for name in versions if name in pinned and pinned[name] != versions[name]} == {}
    for name in ("requirements.lock", "constraints.txt"):
        assert not re.search(r"^--|file:|https?:", (ROOT / name).read_text(), flags=re.M), "no package index is named"


def test_versions_of_python_and_of_holdfast_are_the_same_wherever_they_are_named() -> None:
    classifiers = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if "Python :: 3." in each]
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text()
    assert re.findall(r'"(3\.\d+)"', workflow.partition("python-version:")[2].partition("]")[0]) == classifiers
    assert f"version: {PROJECT['version']}" in (ROOT / "CITATION.cff").read_text()
    targets = (ROOT / "Makefile").read_text()
    for target in re.findall(r"run: make (\S+)", workflow):
        assert f"\n{target}:" in targets


def test_the_image_copies_what_is_there_and_starts_a_command_that_there_is() -> None:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    for copied in re.findall(r"^COPY (.+) \S+$", text, flags=re.M):
        assert all((ROOT / name).exists() for name in copied.split())
    (entrypoint,) = re.findall(r"^ENTRYPOINT (\[.+\])$", text, flags=re.M)
    program, command, *arguments = ast.literal_eval(entrypoint)
    assert program in PROJECT["scripts"]
    typer.main.get_command(app).commands[command].make_context(command, arguments)  # type: ignore[attr-defined]
    assert re.search(r"HEALTHCHECK.*(/v1/health)'", text)[1] in OPEN_ROUTES  # type: ignore[index]
    assert text.index("USER ") < text.index("ENTRYPOINT")
    assert f"torch=={re.search(r'^torch==(.+)$', (ROOT / 'constraints.txt').read_text(), flags=re.M)[1]}" in text  # type: ignore[index]
