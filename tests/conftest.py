import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import settings

from holdfast.noise import seed
from holdfast.service import service

if TYPE_CHECKING:
    from playwright.sync_api import Browser

settings.register_profile("holdfast", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("holdfast")
torch.set_num_threads(1)

PUBLISHED = Path(__file__).resolve().parents[2] / "shared" / "data" / "published"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """What is secret in use follows from the test's name here: what passed once passes again."""
    chance = random.Random(item.nodeid)
    for module in (seed, service):
        setattr(module, "secrets", SimpleNamespace(randbits=chance.getrandbits, token_bytes=chance.randbytes))  # noqa: B010


@pytest.fixture(autouse=True)
def compile_times(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """What compiling took in one test, or what stood in for it, decides nothing in another."""
    monkeypatch.setattr("holdfast.models.fast.compile_times._folder", lambda: tmp_path)
    return tmp_path / "holdfast"


@pytest.fixture
def published() -> Path:
    """The logs published with the paper and by Cohen et al.; they are not part of the repository."""
    if not PUBLISHED.is_dir():
        pytest.skip("the published logs are not here: expected ../shared/data/published beside the checkout")
    return PUBLISHED


@pytest.fixture(scope="session")
def chromium() -> "Iterator[Browser]":
    """A real browser without a window; ``make test`` installs it where it can."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is missing")
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next((found for found in map(shutil.which, names) if found), None)
    if program is None:
        pytest.skip(f"no browser here (looked for {', '.join(names)}); 'apt-get install chromium' brings one")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


@pytest.fixture
def two_threads() -> Iterator[None]:
    """As most machines have them."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)
