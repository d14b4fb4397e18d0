"""Make docs/page.png again: the page of ``holdfast serve`` in a browser, with its first sample certified from 100,000 copies."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

TARGET = Path(__file__).parents[1] / "docs" / "page.png"


def main() -> None:
    """Serve, look, and stop."""
    command = [sys.executable, "-u", "-m", "holdfast", "serve", "--no-open", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service, sync_playwright() as playwright:
        assert service.stdout is not None
        address = next(found for line in service.stdout if (found := re.search(r"http://\S+", line)))
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
        page.goto(address[0])
        page.wait_for_selector("#state.certified")
        page.click("#go")
        page.wait_for_selector("#state.certified")
        page.screenshot(path=TARGET, full_page=True)
        browser.close()
        service.terminate()


if __name__ == "__main__":
    main()
