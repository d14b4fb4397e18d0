"""The documentation says what the software does: names, commands, options, formulas."""

import importlib.util
import re
import signal
import socket
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path

import httpx
import matplotlib as mpl
import pytest
from matplotlib import pyplot

import holdfast as hf
from holdfast.cli.app import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_public_names_are_sorted_documented_and_there() -> None:
    def isort(name: str) -> tuple[int, str]:
        return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)

    assert sorted(hf.__all__, key=isort) == hf.__all__
    assert len(hf.__all__) <= 71
    page = (ROOT / "docs" / "python.md").read_text()
    for name in hf.__all__:
        assert getattr(hf, name) is not None
        assert re.search(rf"\b{name}\b", page), f"{name} is not in docs/python.md"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = hf.Nonsense


def test_the_command_reference_is_what_the_commands_say() -> None:
    spec = importlib.util.spec_from_file_location("write_commands", ROOT / "docs" / "write_commands.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "commands.md").read_text() == module.document(), "run 'make docs'"


def test_every_command_is_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    for name in COMMANDS:
        assert f"holdfast {name}" in readme or f"make {name}" in readme


def test_every_file_a_page_names_exists() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"
    for path in re.findall(r"`([a-z_]+(?:/[a-z_]+)*\.py)`", (ROOT / "docs" / "formulas.md").read_text()):
        assert (ROOT / "src" / "holdfast" / path).is_file(), f"docs/formulas.md names {path}"


def test_the_readmes_python_runs_when_it_is_pasted_into_an_empty_file(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.S)
    said = [
        subprocess.run([sys.executable, "-c", block], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
        for block in blocks
    ]
    assert said[0].startswith("Class 9: for every perturbation up to radius 0.25, the average score stays at least 0.")
    default, paper, aimed = (float(number) for number in said[1].split())
    assert paper < default < aimed


BLOCKS = {
    f"{page.name}:{page.read_text()[: block.start()].count(chr(10)) + 1}": block[1]
    for page in PAGES
    for block in re.finditer(r"```python\n(.*?)```", page.read_text(), flags=re.S)
}
SERVES = {place: block for place, block in BLOCKS.items() if "hf.serve(" in block}
PORTS = re.compile("8023|8501")
"""What the pages listen on: somebody else may listen there already, so each block is given a free one."""


def given_port(block: str) -> tuple[str, int]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return PORTS.sub(str(port), block), port


@pytest.mark.parametrize("place", sorted(BLOCKS.keys() - SERVES))
def test_every_python_block_runs_when_it_is_pasted_into_an_empty_file(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "import timm" in BLOCKS[place]:
        pytest.importorskip("timm", reason="a package that no extra installs")
    monkeypatch.chdir(tmp_path)
    with mpl.rc_context({"backend": "agg"}), warnings.catch_warnings():
        if re.search(r"torch\.(export|jit|onnx)\.", BLOCKS[place]):
            warnings.simplefilter("ignore")  # torch's, of its exporters
        exec(compile(given_port(BLOCKS[place])[0], "pasted.py", "exec"), {"__name__": "__main__"})
        pyplot.close("all")


@pytest.mark.parametrize("place", SERVES)
def test_a_block_that_serves_runs_until_ctrl_c_when_it_is_pasted_into_an_empty_file(place: str, tmp_path: Path) -> None:
    (tmp_path / "pasted.py").write_text((given := given_port(SERVES[place]))[0])
    image, _ = hf.datasets.load("fashion-mnist")[0]
    with subprocess.Popen([sys.executable, "pasted.py"], cwd=tmp_path, stderr=subprocess.PIPE, text=True) as serving:
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{given[1]}", timeout=60) as client:
                until = time.monotonic() + 60
                while time.monotonic() < until and serving.poll() is None:
                    with suppress(httpx.ConnectError):
                        client.get("/v1/health")
                        break
                    time.sleep(0.1)
                answer = client.post("/v1/certify?n=500", json={"input": image.tolist()})
        finally:
            serving.send_signal(signal.SIGINT)
        _, said = serving.communicate(timeout=60)
    assert (answer.status_code, answer.json()["predicted"], serving.returncode) == (200, 9, 0)
    assert "Traceback" not in said


def test_the_readme_is_short_and_begins_with_what_it_is_a_figure_commands_and_python() -> None:
    readme = (ROOT / "README.md").read_text()
    assert len(readme.split()) < 900
    parts = ["**Certified confidence", "![", "make demo", "```python"]
    assert [readme.index(part) for part in parts] == sorted(readme.index(part) for part in parts)
    assert readme.index("```python") < readme.index("\n## ")


def test_every_bound_says_what_it_guarantees_and_where_it_comes_from() -> None:
    for method in (
        *(hf.CDF, hf.Naive, hf.Tangent, hf.Tangents, hf.BerkJones, hf.DKW),
        *(hf.Betting, hf.EmpiricalBernstein, hf.Hoeffding, hf.LabelCertificate),
    ):
        text = method.__doc__ or ""
        assert "Guarantee:" in text
        assert "Source:" in text
    for estimate in (hf.Empirical, hf.EmpiricalMean):
        assert "Not a certificate" in (estimate.__doc__ or "")
