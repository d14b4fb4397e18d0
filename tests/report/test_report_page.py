"""The report in a real browser, opened from disk: its numbers are those of the Python API."""

import csv
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest

import holdfast as hf
from accessibility import violations
from holdfast.certificates.proportions import share_intervals
from holdfast.cli.app import run as holdfast
from holdfast.report.text import percent
from holdfast.runs.certified import CertifiedRun
from holdfast.runs.imported import ImportedRun
from holdfast.runs.tsv import log_table, write_log
from holdfast.scores.rounding import ceil_decimals, floor_decimals, format_number
from made_runs import made_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Download, Page

HOSTILE = "\"><img src=x onerror=hacked=1>'&lt;"
ASSETS = Path(__file__).resolve().parents[2] / "src" / "holdfast" / "report" / "assets"
Opened = Callable[[Path], "Page"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``a``: embedded images with pictures; ``b``: made up, both sides; ``p`` and ``c``: logs of b, imported."""
    folder = tmp_path_factory.mktemp("runs")
    embedded = ["--model", "fashion-mnist", "--data", "fashion-mnist", "--sigma", "0.25", "--n", "400", "--seed", "5"]
    assert holdfast(["certify", *embedded, "--out", str(folder / "a"), "--skip", "12", "--max", "40"]) == 0
    made_run(folder / "b", 60, sides="both", seed=1)
    for measure, name in {"margin": "p", "label": "c"}.items():
        log = folder / f"{measure}_sigma0.25.tsv"
        assert holdfast(["export", str(folder / "b"), "--measure", measure, "--out", str(log)]) == 0
        assert holdfast(["import", str(log), "--out", str(folder / name)]) == 0
    return folder


@pytest.fixture
def opened(chromium: "Browser") -> Iterator[Opened]:
    """Opens a report, in a browser that is offline; afterwards nothing may have been complained of or asked for."""
    context = chromium.new_context(offline=True, accept_downloads=True)
    complaints: list[str] = []

    def open_page(path: Path) -> "Page":
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.on(
            "request",
            lambda request: None if request.url[:5] in ("file:", "data:", "blob:") else complaints.append(request.url),
        )
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]")
        return page

    yield open_page
    context.close()
    assert complaints == []


def written(folder: Path, out: Path, *names: str) -> Path:
    assert holdfast(["report", *(str(folder / name) for name in names), "--format", "html", "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def report_a(runs: Path) -> Path:
    return written(runs, runs / "a.html", "a")


def move(page: "Page", slider: str, value: int) -> None:
    page.locator(f"#{slider}").evaluate(
        "(node, value) => { node.value = value; node.dispatchEvent(new Event('input', { bubbles: true })); }", value
    )


def set_radius(page: "Page", radius: float) -> None:
    """Moves the slider to the step that says the radius."""
    said = page.evaluate("JSON.parse(document.getElementById('document').textContent).radii")
    move(page, "radius", said.index(format_number(radius)))
    assert page.locator("#radius-value").inner_text() == format_number(radius)


def shares(page: "Page") -> dict[str, str]:
    """The comparison's shares by the series' key."""
    rows = page.locator("#comparison tbody tr").all()
    return {str(row.get_attribute("data-series")): row.locator(".share").inner_text() for row in rows}


def saved(page: "Page", button: str, path: Path) -> list[dict[str, str]]:
    with page.expect_download() as waiting:
        page.locator(button).click()
    found: Download = waiting.value
    found.save_as(path)
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(("measure", "thresholds"), [("score", (0.0, 0.5, 0.93)), ("margin", (-1.0, 0.7))])
def test_both_sliders_show_the_python_apis_numbers(
    runs: Path, report_a: Path, opened: Opened, measure: str, thresholds: tuple[float, ...]
) -> None:
    run = hf.Run.open(runs / "a")
    page = opened(report_a)
    page.locator("#measure").select_option(measure)
    for threshold in thresholds:
        move(page, "threshold", round(threshold * 10_000))
        for radius in (0.0, 0.125, 0.25, 0.5, 1.0):
            set_radius(page, radius)
            found = shares(page)
            for method in run.methods(measure):
                share = float(
                    run.certified_accuracy(measure, radii=[radius], thresholds=[threshold], method=method)[0, 0]
                )
                assert found[f"{measure}/0/{method}"] == f"{percent(share)}%"
            own = run.certified_accuracy(measure, radii=[radius], thresholds=[threshold])[0, 0]
            count = round(own * len(run))
            of = share_intervals(len(run))
            assert page.locator("#verdict-count").inner_text() == f"{count} of {len(run)}"
            assert page.locator("#verdict-interval").inner_text() == (
                f"{floor_decimals(100 * of.lower[count], 1)}% to {ceil_decimals(100 * of.upper[count], 1)}%"
            )


def test_the_label_and_the_chart_follow_the_radius(runs: Path, report_a: Path, opened: Opened) -> None:
    run = hf.Run.open(runs / "a")
    page = opened(report_a)
    page.locator("#measure").select_option("label")
    assert page.locator("#threshold-control").is_hidden()
    for radius in (0.0, 0.25, 0.4):
        set_radius(page, radius)
        share = float(run.certified_accuracy("label", radii=[radius])[0, 0])
        assert shares(page) == {"label/0/votes-clopper-pearson": f"{percent(share)}%"}
    box = page.locator("#by-radius svg").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] * 0.97, box["y"] + box["height"] / 2)
    assert page.locator("#radius-value").inner_text() == "1"


def test_the_sliders_answer_to_the_keyboard_and_the_threshold_can_be_typed(report_a: Path, opened: Opened) -> None:
    page = opened(report_a)
    page.locator("#threshold").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#threshold-number").input_value() == "0.51"
    page.locator("#radius").focus()
    before = page.locator("#radius-value").inner_text()
    page.keyboard.press("ArrowLeft")
    assert float(page.locator("#radius-value").inner_text()) < float(before)
    page.locator("#threshold-number").fill("0.7345")
    assert "above 0.7345" in page.locator("#verdict").inner_text()
    assert page.locator("#threshold").get_attribute("aria-valuetext") == "average score above 0.7345"


def test_the_table_sorts_filters_and_turns_its_pages(runs: Path, report_a: Path, opened: Opened) -> None:
    run = hf.Run.open(runs / "a")
    assert isinstance(run, CertifiedRun)
    page = opened(report_a)
    set_radius(page, 0.25)
    at = run.lower("score", "cdf-berk-jones", np.array([0.25]))[:, 0]
    index = run.answers.index

    def column(name: str) -> list[str]:
        heads = page.locator("#table thead th").all_inner_texts()
        k = next(k for k, text in enumerate(heads) if text.startswith(name))
        return [row.locator("td").nth(k).inner_text() for row in page.locator("#table tbody tr").all()]

    fragile = [floor_decimals(value, 3) for value in np.sort(at)]
    page.locator("#order").select_option("fragile")
    assert column("score within 0.25") == fragile[:25]
    page.locator("#next").click()
    assert column("score within 0.25") == fragile[25:]
    page.locator("#order").select_option("confident")
    assert column("score within 0.25") == [floor_decimals(value, 3) for value in np.sort(at)[::-1]][:25]
    page.locator("#order").select_option("gap")
    gaps = [float(text) for text in column("gap")]
    assert gaps == sorted(gaps, reverse=True)
    # The gap is the difference of two radii: of the label, and of a score above the threshold, on the report's axis.
    radii, labels = column("radius with"), column("radius of the label")
    for gap, radius, label in zip(gaps, radii, labels, strict=True):
        assert gap == pytest.approx(float(label) - (0 if radius == "none" else float(radius)), abs=1.1e-3)
    page.locator("#table thead button[data-column=index]").click()
    assert column("input") == [str(each) for each in np.sort(index)[:25]]
    page.locator("#table thead button[data-column=index]").click()
    assert column("input")[0] == str(index.max())
    assert page.locator("#table th[aria-sort=descending]").inner_text().startswith("input")
    page.locator("#state").select_option("right")
    assert page.locator("#found").inner_text().startswith(f"{int(run.correct.sum())} of 40 inputs")
    page.locator("#state").select_option("")
    assert "7 (sneaker)" in page.locator("#class option").all_inner_texts()
    page.locator("#class").select_option("7")
    either = (run.answers.label == 7) | (run.answers.predicted == 7)
    assert page.locator("#found").inner_text().startswith(f"{int(either.sum())} of 40 inputs")
    page.locator("#class").select_option("")
    page.locator("#search").fill(str(index[3]))
    assert column("input") == [str(index[3])]
    assert page.locator("#table .picture").count() == 1
    names = run.config["label_names"]
    assert column("label") == [f"{run.answers.label[3]} ({names[run.answers.label[3]]})"]
    assert column("answer") == [f"{run.answers.predicted[3]} ({names[run.answers.predicted[3]]})"]


def test_an_input_has_its_certificate_in_words_its_curves_and_its_histogram(
    runs: Path, report_a: Path, opened: Opened, tmp_path: Path
) -> None:
    run = hf.Run.open(runs / "a")
    assert isinstance(run, CertifiedRun)
    page = opened(report_a)
    page.locator("#order").select_option("index")
    names = run.config["label_names"]
    for position in (0, 7, 31):
        entry = run.entries[position]
        page.locator("#search").fill(str(entry.index))
        set_radius(page, 0.25)
        page.locator("#table .link").press("Enter")
        said = page.locator("#words").inner_text()
        assert said == entry.certificate.describe(names[entry.certificate.predicted])
        rows = saved(page, "#csv-curve", tmp_path / f"{position}.csv")
        for row in rows:
            expected = floor_decimals(entry.certificate.score.lower(float(row["radius"])), 4)
            assert row["score_lower_cdf-berk-jones"] == expected
        counts = saved(page, "#csv-histogram", tmp_path / f"{position}-counts.csv")
        of = entry.certificate.evidence["score"]
        for row in counts[:50]:
            assert row["measure"] == "score"
            within = (of.grid.edges >= float(row["from"]) - 1e-9) & (of.grid.edges < float(row["to"]) - 1e-9)
            within[-1] = row["to"] == "1"
            assert int(row["copies"]) == of.counts[within].sum()
        page.locator("#entry-radius").focus()
        page.keyboard.press("End")
        assert "up to radius 1," in page.locator("#words").inner_text()
        page.keyboard.press("Escape")
        assert page.locator("#entry").is_hidden()
        # The browser tells the page of the closing a moment later.
        page.wait_for_function("index => document.activeElement.textContent === index", arg=str(entry.index))


def test_an_input_has_an_address_and_neighbours(runs: Path, report_a: Path, opened: Opened) -> None:
    run = hf.Run.open(runs / "a")
    index = run.answers.index
    page = opened(report_a)
    page.goto(f"{report_a.as_uri()}#run-0-input-{index[5]}")
    page.reload()
    page.wait_for_selector("#entry[open]")
    assert page.locator("#entry-title").inner_text() == f"Input {index[5]}"
    page.locator("#entry-close").click()
    page.locator("#order").select_option("index")
    page.locator("#table .link").first.click()
    page.locator("#entry button[data-step='1']").click()
    assert page.locator("#entry-title").inner_text() == f"Input {index[1]}"


def test_csv_is_read_back_as_the_python_apis_numbers(runs: Path, opened: Opened, tmp_path: Path) -> None:
    page = opened(written(runs, tmp_path / "b.html", "b"))
    run = hf.Run.open(runs / "b")
    assert isinstance(run, CertifiedRun)
    move(page, "threshold", 6_100)
    rows = saved(page, "#csv-accuracy", tmp_path / "accuracy.csv")
    thresholds = sorted({float(row["threshold"]) for row in rows})
    radii = sorted({float(row["radius"]) for row in rows})
    assert 0.61 in thresholds
    for method in run.methods("score"):
        table = run.certified_accuracy("score", radii=radii, thresholds=thresholds, method=method)
        counts = [int(row["count"]) for row in rows if row["method"] == method]
        assert counts == np.rint(table * len(run)).astype(int).ravel().tolist()
    assert all(
        float(row["interval_low"]) <= float(row["share_rounded_down"]) <= float(row["interval_high"]) for row in rows
    )
    bounds = saved(page, "#csv-bounds", tmp_path / "bounds.csv")
    assert len(bounds) == 60 * (2 * 3 + 2)
    at = np.array(radii)
    exact = {
        (measure, method, side): getattr(run, side)(measure, method, at)
        for measure in ("score", "margin")
        for method in run.methods(measure)
        for side in ("lower", "upper")
    }
    for row in bounds:
        values = exact[row["measure"], row["method"], row["side"]][int(row["index"])]
        to_text = floor_decimals if row["side"] == "lower" else ceil_decimals
        assert [row[f"at_{format_number(radius)}"] for radius in radii] == [to_text(value, 4) for value in values]
    page.locator("#state").select_option("wrong")
    inputs = saved(page, "#csv-inputs", tmp_path / "inputs.csv")
    assert {row["right?"] for row in inputs} == {"wrong"}
    assert len(inputs) == int((~run.correct & ~run.answers.abstained).sum())


def test_a_two_sided_certificate_is_said_with_both_sides(runs: Path, opened: Opened, tmp_path: Path) -> None:
    page = opened(written(runs, tmp_path / "b.html", "b"))
    run = hf.Run.open(runs / "b")
    assert isinstance(run, CertifiedRun)
    set_radius(page, 0.25)
    page.locator("#search").fill("17")
    page.locator("#table .link").click()
    assert page.locator("#words").inner_text() == run.entries[17].certificate.describe()
    assert "and at most" in page.locator("#words").inner_text()
    assert page.locator("#entry .band").count() == 2


def test_runs_are_compared_and_imported_ones_show_what_there_is(runs: Path, opened: Opened, tmp_path: Path) -> None:
    page = opened(written(runs, tmp_path / "all.html", "a", "b", "p", "c"))
    page.locator("#measure").select_option("margin")
    move(page, "threshold", 3_000)
    set_radius(page, 0.5)
    found = shares(page)
    for position, name in enumerate("abp"):
        run = hf.Run.open(runs / name)
        for method in run.methods("margin"):
            share = float(run.certified_accuracy("margin", radii=[0.5], thresholds=[0.3], method=method)[0, 0])
            assert found[f"margin/{position}/{method}"] == f"{percent(share)}%"
    assert len(found) == 8
    # Between known radii an imported bound has the value of the next larger one.
    imported = hf.Run.open(runs / "p")
    set_radius(page, 0.375)
    share = float(imported.certified_accuracy("margin", radii=[0.5], thresholds=[0.3])[0, 0])
    assert shares(page)["margin/2/cdf-berk-jones"] == f"{percent(share)}%"
    page.locator("#legend input").first.uncheck()
    assert page.locator("#by-radius path.line").count() == 2
    page.locator("#run").select_option("p")
    assert page.locator("#found").inner_text().startswith("60 of 60")
    page.locator("#table .link").first.click()
    assert "imported log" in page.locator("#words").inner_text()
    page.keyboard.press("Escape")
    page.locator("#measure").select_option("label")
    logged = hf.Run.open(runs / "c")
    assert isinstance(logged, ImportedRun)
    set_radius(page, 0.25)
    share = float(logged.certified_accuracy("label", radii=[0.25])[0, 0])
    assert shares(page)["label/3/votes-clopper-pearson"] == f"{percent(share)}%"


def test_a_score_must_exceed_its_threshold_and_a_label_may_reach_its_radius(opened: Opened, tmp_path: Path) -> None:
    """As the papers count: the bound strictly above, the radius up to and including."""
    right = [0, 1, 2], [1, 1, 1], [1, 1, 1]
    write_log(tmp_path / "score_sigma0.25.tsv", log_table(*right, [[0.7] * 14] * 3, [1.0] * 3))
    write_log(tmp_path / "label_sigma0.25.tsv", log_table(*right, [[0.25]] * 3, [1.0] * 3))
    for name in ("score", "label"):
        assert holdfast(["import", str(tmp_path / f"{name}_sigma0.25.tsv"), "--out", str(tmp_path / name)]) == 0
    page = opened(written(tmp_path, tmp_path / "exact.html", "score", "label"))
    for threshold, share in {6_900: "100.0%", 7_000: "0.0%"}.items():
        move(page, "threshold", threshold)
        assert shares(page)["score/0/cdf-dkw"] == share
        assert page.locator("#by-threshold circle").first.get_attribute("cy") == page.locator(
            "#by-radius circle"
        ).first.get_attribute("cy")
    page.locator("#measure").select_option("label")
    set_radius(page, 0.25)
    assert shares(page)["label/1/votes-clopper-pearson"] == "100.0%"
    page.locator("#radius").press("ArrowRight")
    assert shares(page)["label/1/votes-clopper-pearson"] == "0.0%"


def test_a_hostile_name_is_shown_and_never_run(opened: Opened, tmp_path: Path) -> None:
    names = ("</script><script>hacked=2</script>", HOSTILE, "=1+cmd|' /C calc'!A0")
    made_run(tmp_path / HOSTILE, 9, names=names, data="<svg onload=hacked=3>")
    page = opened(written(tmp_path, tmp_path / "hostile.html", HOSTILE))
    assert page.locator("h1").inner_text() == HOSTILE
    assert page.title() == f"{HOSTILE}: certified confidence"
    assert "<svg onload=hacked=3>" in page.locator("#facts").inner_text()
    shown = page.locator("#class option").all_inner_texts()
    assert set(shown[1:]) <= {f"{k} ({name})" for k, name in enumerate(names)}
    page.locator("#table .link").first.click()
    assert page.evaluate("typeof hacked") == "undefined"
    page.keyboard.press("Escape")
    rows = saved(page, "#csv-inputs", tmp_path / "inputs.csv")
    assert {row["label"] for row in rows} <= {names[0], names[1], f"'{names[2]}"}
    assert rows[0]["run"] == HOSTILE


def test_light_dark_and_phone(report_a: Path, chromium: "Browser") -> None:
    schemes: dict[Literal["light", "dark"], bool] = {"light": False, "dark": True}
    for scheme, dark in schemes.items():
        context = chromium.new_context(color_scheme=scheme, viewport={"width": 360, "height": 740})
        page = context.new_page()
        page.goto(report_a.as_uri())
        page.wait_for_selector("html[data-ready]")

        def ground(page: "Page" = page) -> list[int]:
            colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
            return [int(part) for part in re.findall(r"\d+", colour)]

        assert (max(ground()) < 64) == dark
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        page.locator("#theme").click()
        assert min(ground()) > 192
        page.locator("#theme").click()
        assert max(ground()) < 64
        assert page.locator("#theme").inner_text() == "Theme: dark"
        page.reload()
        page.wait_for_selector("html[data-ready]")
        assert max(ground()) < 64
        context.close()


def test_on_a_phone_numbers_come_first_and_what_sticks_is_small(
    runs: Path, report_a: Path, chromium: "Browser"
) -> None:
    context = chromium.new_context(viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto(report_a.as_uri())
    page.wait_for_selector("html[data-ready]")
    heads = page.locator("#table thead th").all_inner_texts()
    assert heads[1] == "input"
    assert [head.split("\n")[0].split()[0] for head in heads[2:7]] == ["score", "score", "radius", "radius", "gap"]
    assert heads[7:] == ["label", "answer", "right?"]
    first = page.locator("#table tbody tr").first
    for k in (2, 3, 4):
        box = first.locator("td").nth(k).bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= 390
    page.locator("#table tbody tr").nth(20).scroll_into_view_if_needed()
    controls = page.locator("#controls").bounding_box()
    assert controls is not None
    assert controls["y"] + controls["height"] <= 80
    for slider in ("#threshold", "#radius"):
        box = page.locator(slider).bounding_box()
        assert box is not None
        assert box["y"] >= 0
    # A chart is drawn as large as it is shown, so its words are; and it is drawn anew when the screen is turned.
    sizes = "[...document.querySelectorAll('#by-radius text')].map((text) => text.getBoundingClientRect().height)"
    assert min(page.evaluate(sizes)) >= 14
    page.set_viewport_size({"width": 1280, "height": 800})
    page.wait_for_function("document.querySelector('#by-radius svg').viewBox.baseVal.width === 560")
    assert min(page.evaluate(sizes)) >= 14
    assert page.locator("#table thead th").all_inner_texts()[2] == "label"
    context.close()


def test_on_a_phone_all_numbers_of_two_runs_are_on_the_screen(runs: Path, chromium: "Browser", tmp_path: Path) -> None:
    context = chromium.new_context(viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto(written(runs, tmp_path / "two.html", "a", "b").as_uri())
    page.wait_for_selector("html[data-ready]")
    heads = ["run and bound", "share", "95% interval", "right and certified", "right at all"]
    assert page.locator("#comparison thead th").all_inner_texts() == heads
    names = page.locator("#comparison tbody th").all_inner_texts()
    assert names == page.locator("#legend label").all_inner_texts()
    for cell in page.locator("#comparison th, #comparison td").all():
        box = cell.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= 390
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_against_the_report(
    runs: Path, report_a: Path, chromium: "Browser", tmp_path: Path, scheme: Literal["light", "dark"], width: int
) -> None:
    for report in (report_a, written(runs, tmp_path / "two.html", "b", "p")):
        context = chromium.new_context(
            color_scheme=scheme, viewport={"width": width, "height": 800}, reduced_motion="reduce"
        )
        page = context.new_page()
        page.goto(report.as_uri())
        page.wait_for_selector("html[data-ready]")
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        assert violations(page) == []
        page.locator("#table .link").first.click()
        assert violations(page) == []
        context.close()


def test_every_control_has_a_name_and_text_stands_out(report_a: Path, opened: Opened) -> None:
    page = opened(report_a)
    nameless = page.evaluate(
        "[...document.querySelectorAll('input, select, button')].filter(node => !node.hidden && !(node.labels?.length)"
        " && !node.getAttribute('aria-label') && !node.textContent.trim()).map(node => node.outerHTML)"
    )
    assert nameless == []
    for theme in ("light", "dark"):
        page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
        colours = {
            name: page.evaluate(
                "name => getComputedStyle(document.documentElement).getPropertyValue(name)", f"--{name}"
            )
            for name in ("ground", "raised", "ink", "muted", "accent", *(f"c{k}" for k in range(7)))
        }
        for name in ("ink", "muted", "accent"):
            assert min(contrast(colours[name], colours[on]) for on in ("ground", "raised")) >= 4.5
        for k in range(7):
            assert contrast(colours[f"c{k}"], colours["ground"]) >= 3  # lines and marks


def contrast(one: str, two: str) -> float:
    """The WCAG's contrast ratio."""

    def luminance(colour: str) -> float:
        parts = [int(colour.strip()[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(two)))
    return (high + 0.05) / (low + 0.05)


def test_the_pages_rounding_is_pythons(chromium: "Browser") -> None:
    page = chromium.new_page()
    page.add_script_tag(content=(ASSETS / "rounding.js").read_text())
    units = [*range(-10_000, 10_001, 7), -1, 0, 1, 9_999, 10_000, 29_999]
    for decimals in (1, 3, 4):
        down, up = page.evaluate(
            "([units, decimals]) => [units.map(u => lowerText(u, decimals)), units.map(u => upperText(u, decimals))]",
            [units, decimals],
        )
        assert down == [floor_decimals(u / 10_000, decimals) for u in units]
        assert up == [ceil_decimals(u / 10_000, decimals) for u in units]
    shares = [(k, n) for n in (3, 7, 500, 10_000) for k in range(0, n + 1, max(1, n // 50))]
    found = page.evaluate("shares => shares.map(([k, n]) => percentOf(k, n))", shares)
    assert found == [f"{percent(k / n)}%" for k, n in shares]
    page.close()


@pytest.mark.slow
def test_ten_thousand_certificates_open_from_less_than_20_mb(chromium: "Browser", tmp_path: Path) -> None:
    made_run(tmp_path / "big", 10_000, n=200)
    path = written(tmp_path, tmp_path / "big.html", "big")
    assert path.stat().st_size < 20e6
    page = chromium.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]")
    assert page.locator("#found").inner_text().startswith("10,000 of 10,000")
    page.close()


def test_text_with_any_separator_is_quoted(chromium: "Browser") -> None:
    source = (ASSETS / "csv.js").read_text(encoding="utf-8")
    page = chromium.new_page()
    found = page.evaluate(
        f"(values) => {{ {source}\n return values.map(csvCell); }}", ["a", "a,b", "a;b", "a\tb", 'a"b', 0.5]
    )
    page.close()
    assert found == ["a", '"a,b"', '"a;b"', '"a\tb"', '"a""b"', "0.5"]
