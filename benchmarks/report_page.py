"""The report as one HTML file: its size, and how long a browser takes to open it, for few and for many certificates.

    python benchmarks/report_page.py [--save]

Needs Chromium and the development packages.
"""

import argparse
import contextlib
import io
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from holdfast.cli.app import run as holdfast

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from made_runs import made_run

SIZES = (100, 1_000, 10_000)


def opening(browser: Browser, path: Path, repeats: int = 3) -> float:
    """Seconds until the page is ready for its reader, the best of a few."""
    times = []
    for _ in range(repeats):
        page = browser.new_page()
        began = time.perf_counter()
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]")
        times.append(time.perf_counter() - began)
        page.close()
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", action="store_true", help="keep the numbers beside this script")
    asked = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for inputs in SIZES:
            made_run(Path(folder) / str(inputs), inputs, n=200)
            path = Path(folder) / f"{inputs}.html"
            began = time.perf_counter()
            with contextlib.redirect_stdout(io.StringIO()):
                holdfast(["report", str(Path(folder) / str(inputs)), "--format", "html", "--out", str(path)])
            writing = time.perf_counter() - began
            found[f"{inputs}"] = {
                "bytes": path.stat().st_size,
                "write_s": writing,
                "open_s": opening(browser, path),
            }
            print(inputs, found[f"{inputs}"], flush=True)
        browser.close()
    least, most = found[f"{SIZES[0]}"], found[f"{SIZES[-1]}"]
    ratio = most["open_s"] / least["open_s"]
    print(f"opening {SIZES[-1]:,} certificates takes {ratio:.1f} times as long as {SIZES[0]:,}")
    if asked.save:
        text = json.dumps({"inputs": found, "open_ratio": ratio}, indent=2)
        Path(__file__).with_suffix(".json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
