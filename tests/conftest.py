import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

settings.register_profile("holdfast", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("holdfast")
torch.set_num_threads(1)

PUBLISHED = Path(__file__).resolve().parents[2] / "shared" / "data" / "published"


@pytest.fixture
def published() -> Path:
    """The logs published with the paper and by Cohen et al.; they are not part of the repository."""
    if not PUBLISHED.is_dir():
        pytest.skip("the published logs are not here: expected ../shared/data/published beside the checkout")
    return PUBLISHED


@pytest.fixture(scope="session")
def chromium() -> "Iterator[Browser]":
    """A real browser, without a window."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_api.sync_playwright() as playwright:
        found = found or playwright.chromium.executable_path
        if not Path(found).is_file():
            pytest.skip(
                "there is no chromium here: apt-get install chromium, playwright install chromium, or set CHROMIUM"
            )
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()
