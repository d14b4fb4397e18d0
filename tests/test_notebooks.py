"""What a notebook shows: executed in a fresh kernel, every plot appears, and the notebooks that ship run."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def executed(notebook: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """Which kinds of output each of its code cells has; an error in a cell is raised."""
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(name, str(folder / name.lower()))
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(folder)}}).execute()
    return [
        {kind for output in cell.outputs for kind in output.get("data", {"text/plain": ""})}
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def test_every_plot_appears_in_a_fresh_notebook_ours_and_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = ROOT / "tests" / "certificates" / "written_by_0_1_0"
    cells = [
        f"import json, holdfast as hf; read = lambda name: json.loads(open({str(stored)!r} + '/' + name).read())",
        "hf.Triage.from_dict(read('triage.json')).figure()",
        "cert = hf.Certificate.from_dict(read('certificate.json')); cert.plot();",
        "cert.plot();",
        "from matplotlib import pyplot; pyplot.plot([1, 2]);",
        "cert.plot(pyplot.gca());",
        "cert",
    ]
    v4: Any = nbformat.v4
    notebook = v4.new_notebook(cells=[v4.new_code_cell(cell) for cell in cells])
    shown = executed(notebook, tmp_path, monkeypatch)
    assert ["image/png" in kinds for kinds in shown] == [False, True, True, True, True, True, False]
    assert "text/html" in shown[6]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebooks_that_ship_run_and_show_what_they_promise(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    codes = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs for cell in codes)
    for cell, kinds in zip(codes, executed(notebook, tmp_path, monkeypatch), strict=True):
        last = cell.source.splitlines()[-1]
        assert ("image/png" in kinds) == last.endswith(";"), cell.source
        assert ("text/html" in kinds) == (last in ("cert", "run") or last.startswith(("smoothed.", "hf."))), cell.source
