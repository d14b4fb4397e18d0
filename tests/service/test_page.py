"""The page in a real browser: what it says is what the library says."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest
from PIL import Image

import holdfast as hf
from accessibility import violations
from holdfast.certificates.describe import format_confidence
from holdfast.scores.rounding import ceil_decimals, floor_decimals
from holdfast.service.limits import Limits
from holdfast.service.service import Served
from holdfast.zoo.datasets.embedded import load_fashion_mnist
from holdfast.zoo.pretrained import EMBEDDED_SIGMA, load_embedded_model
from serving import Running, npy, running, small_served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DATA = load_fashion_mnist()
KEY = "a-key-that-nobody-guesses"


def embedded() -> Served:
    smoothed = hf.SmoothedClassifier(load_embedded_model().net, EMBEDDED_SIGMA, inputs="images", compile=False)
    return Served(smoothed, (1, 28, 28), "fashion-mnist", DATA.label_names, DATA.every(25, 20))


@pytest.fixture(scope="module")
def served() -> Iterator[Running]:
    with running(embedded(), limits=Limits()) as found:
        yield found


@pytest.fixture
def page(chromium: "Browser", served: Running) -> "Iterator[Page]":
    """The page with its samples, the first of them certified, and nothing on the console when the test is over."""
    complaints: list[str] = []
    context = chromium.new_context(viewport={"width": 1280, "height": 1000})
    found = context.new_page()
    found.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
    found.on("pageerror", lambda error: complaints.append(str(error)))
    found.goto(served.url)
    begun(found)
    found.select_option("#copies-wanted", "10000")
    yield found
    context.close()
    assert complaints == []


@pytest.fixture
def refusing_page(chromium: "Browser", served: Running) -> "Iterator[Page]":
    """The same, for what is refused: browsers say that on the console."""
    context = chromium.new_context()
    found = context.new_page()
    found.goto(served.url)
    begun(found)
    yield found
    context.close()


def begun(page: "Page") -> None:
    """The page is there, and what it begins with is certified."""
    page.wait_for_selector("#samples button:last-child img[src]")
    page.wait_for_selector('#state.certified:text-is("certified")', timeout=60_000)


def drop(page: "Page", path: Path) -> None:
    """Drop a file on the page, as a hand would."""
    content = list(path.read_bytes())
    transfer = page.evaluate_handle(
        """([bytes, name, type]) => {
            const carried = new DataTransfer();
            carried.items.add(new File([new Uint8Array(bytes)], name, { type }));
            return carried;
        }""",
        [content, path.name, {".png": "image/png", ".json": "application/json"}.get(path.suffix, "")],
    )
    page.dispatch_event("#drop", "drop", {"dataTransfer": transfer})


def slide(page: "Page", name: str, value: int) -> None:
    """Move a slider with the keyboard, from its left end."""
    page.focus(f"#{name}")
    page.keyboard.press("Home")
    least = int(page.get_attribute(f"#{name}", "min") or 0)
    jumps, steps = divmod(value - least, 40) if name == "radius" else (0, value - least)
    for _ in range(jumps):
        page.keyboard.press("PageUp")
    for _ in range(steps):
        page.keyboard.press("ArrowRight")
    assert page.input_value(f"#{name}") == str(value)


def certified(page: "Page", words: str = "certified") -> None:
    page.wait_for_selector(f'#state.certified:text-is("{words}")', timeout=60_000)


def from_a_file(page: "Page") -> None:
    """The badge says so, and does not look like that of a certificate."""
    page.wait_for_selector('#state.badge:not(.certified):text-is("from a file")')


def exported(page: "Page", folder: Path) -> tuple[Path, dict[str, Any]]:
    with page.expect_download() as download:
        page.click("#export")
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path, json.loads(path.read_text())


def sample_png(folder: Path, position: int) -> Path:
    path = folder / "image.png"
    Image.fromarray(DATA.images[position][0]).save(path)
    return path


def test_drop_an_image_move_both_sliders_read_the_verdict_export_and_read_it_again(
    page: "Page", served: Running, tmp_path: Path
) -> None:
    drop(page, sample_png(tmp_path, 0))
    certified(page)
    path, document = exported(page, tmp_path)
    cert = hf.Certificate.from_dict(document)
    assert (cert.n, cert.alpha, cert.share, document["seeded_by"]) == (10_000, 1e-3, 0.5, "service")
    alone = embedded().smoothed.certify(
        DATA.image(0), n=10_000, alpha=5e-4, claims=("label", "score"), sides="both", seed=cert.seed
    )
    name = DATA.label_names[cert.predicted]

    def check(k: int, threshold: float) -> None:
        radius = EMBEDDED_SIGMA * 4 * k / 400
        assert cert.score.lower(radius) == alone.score.lower(radius)
        lower, upper = floor_decimals(alone.score.lower(radius), 3), ceil_decimals(alone.score.upper(radius), 3)
        said = f"Class {cert.predicted} ({name}): within radius {radius:g} nobody can push the average score below {lower}."
        assert page.inner_text("#sentence") == said
        assert f"above {upper}." in page.inner_text("#sure")
        assert "99.9%" in page.inner_text("#sure")
        reach = floor_decimals(alone.score.radius(at_least=threshold), 3)
        said = page.inner_text("#answer")
        assert said.startswith("Yes: at least" if alone.score.lower(radius) >= threshold else "No promise of")
        assert f"up to radius {reach}." in said

    check(100, 0.8)
    slide(page, "radius", 137)
    check(137, 0.8)
    slide(page, "confidence", 55)
    check(137, 0.55)
    slide(page, "radius", 300)
    check(300, 0.55)
    shown = page.inner_text("#verdict")

    page.reload()
    begun(page)
    slide(page, "radius", 300)
    slide(page, "confidence", 55)
    drop(page, path)
    from_a_file(page)
    own_word = " But that these counts came from the model is the file's own word."
    assert page.inner_text("#verdict") == shown + own_word
    assert exported(page, tmp_path)[1] == document
    assert page.is_hidden("#picture")  # of another input
    assert page.is_disabled("#go")

    path.write_text(json.dumps({**document, "seeded_by": "caller"}))
    drop(page, path)
    page.wait_for_selector('#sure:has-text("chose the noise")')
    from_a_file(page)
    chosen = " Whoever made this chose the noise: it convinces nobody else."
    assert page.inner_text("#verdict") == shown + own_word + chosen


def test_a_sample_is_certified_with_the_keyboard_alone_and_only_the_question_asked_is_answered(
    page: "Page", served: Running, tmp_path: Path
) -> None:
    page.check("input[value=question]")
    page.focus("#samples button:nth-child(1)")
    page.keyboard.press("Enter")
    page.wait_for_selector('#sure:text-matches("^(True|Giving)")', timeout=60_000)
    page.wait_for_selector("#export:enabled")
    path, decision = exported(page, tmp_path)
    expected = embedded().smoothed.decide(
        DATA.image(0), at_least=0.8, radius=0.25, alpha=1e-3, n_max=10_000, seed=int(decision["seed"], 16)
    )
    assert (decision["certified"], decision["samples"]) == (expected.certified, expected.samples)
    assert page.inner_text("#answer") == expected.reason
    assert expected.samples < 10_000
    surely = "True with probability at least 99.9%, " if expected.certified else "Giving up certifies nothing"
    assert page.inner_text("#sure").startswith(surely)
    slide(page, "confidence", 60)
    assert "sliders have moved" in page.inner_text("#sure")

    path.write_text(json.dumps({**decision, "certified": True, "radius": 3, "reason": "all is well"}))
    drop(page, path)
    from_a_file(page)
    assert page.inner_text("#sentence") == (
        "A decision from a file, about an average score of 0.8 within radius 3: "
        "it holds no counts, so nothing here was checked."
    )
    assert page.inner_text("#answer") == "The file says: all is well"
    assert page.get_attribute("#answer", "class") == ""
    assert page.inner_text("#sure") == ""


def test_the_page_begins_with_a_sample_that_is_certified_from_few_copies(page: "Page") -> None:
    assert page.get_attribute("#samples button:nth-child(1)", "aria-pressed") == "true"
    assert page.inner_text("#input-note") == "Sample 1; its label is class 9 (ankle boot)."
    assert page.inner_text("#sentence").startswith("Class 9 (ankle boot): within radius 0.25 nobody can push")
    assert "from 1,000 noisy copies" in page.inner_text("#sure")
    assert "“Certify again” draws 10,000" in page.inner_text("#progress-words")
    page.select_option("#copies-wanted", "100000")
    assert "“Certify again” draws 100,000" in page.inner_text("#progress-words")
    assert page.locator("#chart path.lower").count() == 1
    assert page.locator("#copies canvas").count() == 18


def test_a_page_without_samples_asks_for_nothing(chromium: "Browser") -> None:
    with running(small_served()) as found:
        context = chromium.new_context()
        page, asked = context.new_page(), []
        page.on("request", lambda request: asked.append(request.method))
        page.goto(found.url)
        page.wait_for_selector('#model:has-text("pixels in grey, under noise")')
        page.wait_for_load_state("networkidle")
        assert set(asked) == {"GET"}
        assert page.inner_text("#sentence").startswith("Pick an image")
        assert page.is_disabled("#go")
        context.close()


def test_the_theme_is_chosen_with_a_button_and_remembered(page: "Page") -> None:
    def ground() -> int:
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return max(int(part) for part in re.findall(r"\d+", colour))

    assert page.inner_text("#theme") == "Theme: auto"
    assert ground() > 192
    page.click("#theme")
    assert page.inner_text("#theme") == "Theme: light"
    page.click("#theme")
    assert page.inner_text("#theme") == "Theme: dark"
    assert ground() < 64
    page.reload()
    begun(page)
    assert page.inner_text("#theme") == "Theme: dark"
    assert ground() < 64
    page.click("#theme")
    assert page.inner_text("#theme") == "Theme: auto"
    assert ground() > 192


@pytest.mark.parametrize("width", [1280, 390])
def test_curves_are_named_beside_the_chart_and_ticks_are_round(
    chromium: "Browser", served: Running, width: int
) -> None:
    context = chromium.new_context(viewport={"width": width, "height": 800})
    page = context.new_page()
    page.goto(served.url)
    begun(page)
    page.evaluate(
        """async () => {
            const radii = Array.from({ length: 401 }, (_, k) => k / 400), flat = (value) => radii.map(() => value);
            const curve = { lower: flat(0.5), upper: flat(1) }, at = { radii, k: 100, threshold: 0.8, support: [0, 1] };
            const { drawCurve } = await import("/page/chart.js"), by = (id) => document.getElementById(id);
            const words = { title: "score", norm: "ℓ₂" };
            drawCurve(by("chart"), by("chart-key"), { ...words, ...at, curve, labelRadius: 0.9, ghosts: [flat(0), flat(0.4)] });
        }"""
    )
    names = ["lower bound", "upper bound", "earlier looks, at fewer copies", "label safe up to here"]
    assert page.locator("#chart-key span").all_inner_texts() == names
    assert page.locator("#chart path.ghost").count() == 2
    texts = page.locator("#chart text").all_text_contents()
    ticks = [float(text) for text in texts if re.fullmatch(r"[\d.]+", text)]
    assert ticks[:6] == [0, 0.2, 0.4, 0.6, 0.8, 1]
    assert ticks[6:] == ([0, 0.2, 0.4, 0.6, 0.8, 1] if width > 480 else [0, 0.5, 1])
    assert "radius of the attack (ℓ₂)" in texts
    # Words stand outside the frame in which the curves are, and not on each other.
    frame = page.locator("#chart .ask").bounding_box()
    lowest = page.locator("#chart .mark").bounding_box()
    boxes = [text.bounding_box() for text in page.locator("#chart text").all()]
    assert frame is not None
    assert lowest is not None
    for box in boxes:
        assert box is not None
        beside = box["x"] + box["width"] < frame["x"]
        assert beside or box["y"] + box["height"] <= lowest["y"] or box["y"] >= lowest["y"] + lowest["height"]
        assert box["height"] >= 14
        for other in boxes:
            assert other is not None
            assert (
                other is box
                or box["x"] + box["width"] <= other["x"]
                or other["x"] + other["width"] <= box["x"]
                or box["y"] + box["height"] <= other["y"] + 3
                or other["y"] + other["height"] <= box["y"] + 3
            )
    context.close()


def test_what_is_spoken_is_about_the_present_image(page: "Page") -> None:
    assert (page.text_content("#spoken") or "").startswith("Sample 1. Class 9 (ankle boot): within")
    at_once = page.evaluate(
        """() => {
            document.querySelector("#samples button:nth-child(4)").click();
            return document.getElementById("spoken").textContent;
        }"""
    )
    assert at_once == "Sample 4. Sampling … "
    certified(page)
    assert (page.text_content("#spoken") or "").startswith("Sample 4. Class 3 (dress)")


def test_a_wrong_file_while_it_samples_changes_nothing_but_is_said_and_stays_true(
    refusing_page: "Page", tmp_path: Path
) -> None:
    page = refusing_page
    words, wrong = tmp_path / "words.txt", tmp_path / "wrong.json"
    words.write_text("hello")
    wrong.write_text('{"format": "nothing"}')
    page.click("#samples button:nth-child(4)")
    for path, said in ((words, "not an image that this browser can read"), (wrong, "certificate")):
        drop(page, path)
        page.wait_for_selector(f'#problem:visible:has-text("{said}")')
        assert page.inner_text("#problem").startswith(f"{path.name}: ")
        assert page.inner_text("#sentence") != "No answer."
    certified(page)
    assert page.inner_text("#problem").endswith(". What is shown is still about Sample 4.")  # also when it has ended
    assert "from 100,000 noisy copies" in page.inner_text("#sure")
    assert page.get_attribute("#samples button:nth-child(4)", "aria-pressed") == "true"


def test_a_decision_that_was_not_certified_says_so_once(page: "Page") -> None:
    page.check("input[value=question]")
    slide(page, "confidence", 99)
    page.click("#go")
    page.wait_for_selector("#answer:has-text('not certified')")
    shown = page.inner_text("#state") + page.inner_text("#verdict")
    assert shown.lower().count("not certified") == 1
    assert page.inner_text("#state") == "no promise"
    assert "Class 9 (ankle boot): within radius 0.25 somebody might push" in shown


def test_each_choice_of_the_noise_has_its_words(page: "Page") -> None:
    words = page.evaluate(
        """async () => ["service", "fresh", "caller", null].map((await import("/page/wording.js")).seeding)"""
    )
    assert len(set(words)) == 4
    assert words[3] == ""
    assert words[0].strip() in page.inner_text("#progress-words")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_against_the_page(
    chromium: "Browser", served: Running, tmp_path: Path, scheme: Literal["light", "dark"], width: int
) -> None:
    context = chromium.new_context(
        color_scheme=scheme, viewport={"width": width, "height": 800}, reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto(served.url)
    begun(page)
    page.click("summary")
    assert violations(page) == []
    (tmp_path / "words.txt").write_text("hello")
    drop(page, tmp_path / "words.txt")
    page.wait_for_selector("#problem:visible")
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()


def test_what_was_done_to_an_image_is_said(page: "Page", tmp_path: Path) -> None:
    """Flattened in the browser or in the service: the page names it, and what is certified is the image as shown."""
    grey = Image.fromarray(DATA.images[0][0])
    clear = grey.convert("RGBA")
    clear.putpixel((3, 4), (0, 0, 0, 0))
    coloured = grey.convert("RGB")
    coloured.putpixel((3, 4), (255, 0, 0))
    about = " The certificate is about the image as shown here."
    expected = {
        "grey": (grey, "as it is: 28 \u00d7 28 pixels.", 0),
        "clear": (clear, f"transparent parts put on white.{about}", 255),
        "coloured": (coloured, f"colour turned to grey.{about}", 76),
    }
    for name, (image, said, level) in expected.items():
        path = tmp_path / f"{name}.png"
        image.save(path)
        drop(page, path)
        page.wait_for_function(
            "said => document.getElementById('input-note').textContent === said", arg=f"{path.name}: {said}"
        )
        certified(page)
        shown = page.evaluate(
            """() => {
                const pen = document.createElement("canvas").getContext("2d");
                pen.drawImage(document.getElementById("picture"), 3, 4, 1, 1, 0, 0, 1, 1);
                return [...pen.getImageData(0, 0, 1, 1).data];
            }"""
        )
        assert shown == [level, level, level, 255]


def test_an_image_of_another_size_is_resized_and_said_to_be(page: "Page", tmp_path: Path) -> None:
    path = tmp_path / "large.png"
    Image.fromarray(DATA.images[3][0]).resize((280, 200)).convert("RGB").save(path)
    page.set_input_files("#file", path)
    certified(page)
    note = page.inner_text("#input-note")
    assert note == (
        "large.png: cut to its middle, resized from 280 \u00d7 200 to 28 \u00d7 28. "
        "The certificate is about the image as shown here."
    )
    hf.Certificate.from_dict(exported(page, tmp_path)[1])


def test_an_array_is_taken_and_a_wrong_file_is_refused_in_words(page: "Page", tmp_path: Path) -> None:
    good, text = tmp_path / "good.npy", tmp_path / "words.txt"
    good.write_bytes(npy(DATA.image(5)))
    page.set_input_files("#file", good)
    certified(page)
    assert page.inner_text("#input-note") == "good.npy: numbers, taken as they are."
    text.write_text("hello")
    drop(page, text)
    page.wait_for_selector("#problem:visible")
    assert "not an image that this browser can read" in page.inner_text("#problem")


def test_stop_keeps_the_last_look(chromium: "Browser", tmp_path: Path) -> None:
    """A million copies would take long; Escape ends them, and what was certified on the way can be kept."""
    with running(embedded()) as found:
        context = chromium.new_context(viewport={"width": 390, "height": 800}, color_scheme="dark")
        page = context.new_page()
        page.goto(found.url)
        begun(page)
        page.click("#samples button:nth-child(4)")
        page.wait_for_selector('#state:has-text("certified so far")')
        page.keyboard.press("Escape")
        page.wait_for_selector("#export:enabled")
        cert = hf.Certificate.from_dict(exported(page, tmp_path)[1])
        assert cert.alpha == 1e-3
        assert cert.share < 0.5 or cert.n == 100_000
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 390
        assert found.idle()
        context.close()


def test_a_key_is_asked_for_and_used(chromium: "Browser") -> None:
    with running(embedded(), key=KEY) as found:
        context = chromium.new_context()
        page = context.new_page()
        page.goto(found.url)
        page.fill("#key", KEY)
        page.keyboard.press("Enter")
        page.wait_for_selector("#samples button:last-child img[src]")
        context.close()


def test_the_routes_are_documented_with_what_they_take(chromium: "Browser") -> None:
    with running(embedded(), key=KEY) as found:
        page = chromium.new_page()
        page.goto(f"{found.url}/docs")
        page.fill("#key", KEY)
        page.keyboard.press("Enter")
        page.wait_for_selector("text=POST /v1/certify/stream")
        words = page.inner_text("main")
        for path in found.client.get("/openapi.json").json()["paths"]:
            assert path in words
        assert "Total failure probability of the answer." in words
        for scheme, width in (("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)):
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
            page.set_viewport_size({"width": width, "height": 800})
            assert violations(page) == []
            assert page.evaluate("document.documentElement.scrollWidth") == width
        # On a phone the meaning of a parameter has the whole line.
        cells = page.locator("td:nth-child(3):not(:empty)")
        wide = page.locator("main table").first.bounding_box()
        boxes = [cell.bounding_box() for cell in cells.all() if cell.is_visible()]
        assert wide is not None
        assert boxes
        assert {box["width"] for box in boxes if box} == {wide["width"]}
        page.close()


def test_numbers_are_cut_as_python_cuts_them(page: "Page") -> None:
    generator = np.random.default_rng(0)
    values = [
        0.0,
        1.0,
        0.5,
        0.1,
        0.29,
        0.3,
        1e-9,
        2.5e-7,
        0.9999999,
        0.8300000000000001,
        *generator.random(300).tolist(),
    ]
    values += [-value for value in values]
    found = page.evaluate(
        """async (values) => {
            const wording = await import("/page/wording.js");
            return values.map((value) => [wording.floorDecimals(value, 3), wording.ceilDecimals(value, 3)]);
        }""",
        values,
    )
    assert found == [[floor_decimals(value, 3), ceil_decimals(value, 3)] for value in values]


def test_how_sure_one_may_be_is_pythons_own_text(page: "Page") -> None:
    """A browser's arithmetic would round this one up."""
    view = {"sure": format_confidence(1.5e-12), "share": 1, "n": 500, "label_radius": 0}
    said = page.evaluate("""async (view) => (await import("/page/wording.js")).surely(view, { curve: {} }, 0)""", view)
    assert said == "True with probability at least 99.99999999985%, from 500 noisy copies."


def test_nothing_about_the_former_input_stays_beside_a_refusal(refusing_page: "Page", tmp_path: Path) -> None:
    page = refusing_page
    assert "1,000 copies" in page.inner_text("#histogram-words")
    slide(page, "radius", 40)
    assert page.text_content("#spoken") == (
        f"Sample 1. {page.text_content('#sentence')} {page.text_content('#answer')}"
    )
    (tmp_path / "small.npy").write_bytes(npy(np.zeros((1, 2, 2), np.float32)))
    drop(page, tmp_path / "small.npy")
    page.wait_for_selector("#problem:visible")
    assert page.inner_text("#verdict").strip() == "No answer."
    assert page.text_content("#spoken") == "small.npy. No answer. "
    assert page.is_disabled("#export")
    assert page.is_hidden("#state")
    nothing_sampled(page)
    assert page.inner_text("#copies-words") == "Here the first copies will appear, each with its value."
    assert page.inner_text("#histogram-words") == "And here the values of all of them."


def nothing_sampled(page: "Page") -> None:
    """No picture, curve, copy, count or progress."""
    assert page.is_hidden("#picture")
    assert page.locator("#chart .lower, #copies canvas, #histogram .mean").count() == 0
    assert page.evaluate("document.getElementById('progress').value") == 0
    assert page.inner_text("#progress-words") == ""


def test_a_decision_from_a_file_is_shown_with_its_own_question_alone(
    page: "Page", served: Running, tmp_path: Path
) -> None:
    decision = served.decide(DATA.image(0), "measure=margin&at_least=0.4&radius=0.5&n_max=2000").json()
    path = tmp_path / "decision.json"
    path.write_text(json.dumps(decision))
    drop(page, path)
    from_a_file(page)
    assert page.inner_text("#answer") == f"The file says: {decision['reason']}"
    nothing_sampled(page)
    assert page.inner_text("#copies-words") == "Read from a file: the copies themselves are not in it."
    assert page.inner_text("#histogram-words") == "Nor are their values."
    # The sliders and the lines stand at its question.
    assert page.input_value("#measure") == "margin"
    assert (page.inner_text("#radius-out"), page.inner_text("#confidence-out")) == ("0.5", "0.40")
    lines = page.locator("#chart .ask, #chart .mark")
    assert lines.count() == 2
    slide(page, "radius", 120)
    assert lines.count() == 0
    assert "of 0.4 within radius 0.5:" in page.inner_text("#sentence")
    # There is no place on the sliders for this one.
    path.write_text(json.dumps({**decision, "radius": 0.5001}))
    drop(page, path)
    page.wait_for_selector("#sentence:has-text('within radius 0.5001:')")
    assert lines.count() == 0
    assert page.inner_text("#chart-key").endswith("there is no curve; the sliders stand elsewhere")


def test_a_file_that_cannot_be_read_changes_nothing_but_is_said(refusing_page: "Page", tmp_path: Path) -> None:
    page = refusing_page
    path, document = exported(page, tmp_path)

    def shown() -> list[str]:
        ids = ("state", "verdict", "spoken", "input-note", "chart", "progress-words", "copies-words", "histogram")
        return [page.inner_html(f"#{name}") for name in ids]

    before = shown()
    files = {
        "broken.png": b"\x89PNG\r\n",
        "notes.txt": b"hello",
        "null.json": b"null",
        "cut.json": path.read_bytes()[:500],
        "decision.json": b'{"format": "decision-1"}',
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        drop(page, tmp_path / name)
        page.wait_for_selector(f"#problem:visible:has-text('{name}: ')")
        assert page.inner_text("#problem").endswith(". What is shown is still about Sample 1.")
        assert shown() == before
        assert exported(page, tmp_path)[1] == document
    page.context.set_offline(True)
    page.click("#go")
    page.wait_for_selector("#problem:has-text('The service cannot be reached')")
    assert page.inner_text("#verdict").strip() == "No answer."
    nothing_sampled(page)


def test_only_as_many_copies_are_offered_as_the_service_allows(chromium: "Browser", tmp_path: Path) -> None:
    context = chromium.new_context()
    page = context.new_page()
    for most, offered in ((600, ["600"]), (20_000, ["1,000", "10,000", "20,000"])):
        with running(embedded(), limits=Limits(copies=most)) as found:
            page.goto(found.url)
            begun(page)
            assert page.locator("#copies-wanted option").all_inner_texts() == offered
            assert page.input_value("#copies-wanted") == str(most)
            drop(page, sample_png(tmp_path, 3))
            page.wait_for_selector('#input-note:has-text("image.png")')
            certified(page)
            assert f"from {most:,} noisy copies" in page.inner_text("#sure")
    context.close()


def test_how_much_more_would_be_drawn_follows_the_choice(page: "Page") -> None:
    words = page.locator("#progress-words")
    page.check("input[value=question]")  # which draws as few as it takes
    assert words.inner_text().startswith("Certified from 1,000 copies. The same image")
    page.check("input[value=curve]")
    page.select_option("#copies-wanted", "1000")
    assert "Certify again" not in words.inner_text()


@pytest.mark.parametrize("width", [1280, 390])
def test_a_measure_with_a_long_name_keeps_the_page_as_wide_as_it_is(
    chromium: "Browser", served: Running, tmp_path: Path, width: int
) -> None:
    document = served.certify(DATA.image(0), "n=500&n0=50&claims=score").json()
    text = json.dumps(document).replace('"score"', '"own"').replace('"title": "own"', f'"title": "{"W" * 300}"')
    (tmp_path / "long.json").write_text(text)
    context = chromium.new_context(viewport={"width": width, "height": 800})
    page = context.new_page()
    page.goto(served.url)
    begun(page)
    drop(page, tmp_path / "long.json")
    page.wait_for_selector("#sentence:has-text('WWW')")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    for figure, words in (("chart", r"average W+…"), ("histogram", r"W+… of a copy \(heights: square roots\)")):
        label = page.locator(f"#{figure} text.axis:has(title)")
        assert re.match(words, label.text_content() or "")
        assert "W" * 300 in (label.locator("title").text_content() or "")
    context.close()
