"""The examples of docs/compat.md run as they are."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "compat.md"
EXAMPLES = re.findall(r"## ([^\n]+)\n(?:(?!\n## ).)*?```python\n(.*?)```", PAGE.read_text(), flags=re.S)


@pytest.mark.parametrize(("title", "example"), EXAMPLES, ids=[title for title, _ in EXAMPLES])
def test_every_example_runs_when_it_is_pasted_into_an_empty_file(title: str, example: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", example], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, f"{title}: {done.stderr}"
    assert not list(tmp_path.iterdir())


def test_the_page_has_an_example_of_each_shape() -> None:
    assert len(EXAMPLES) == 4
