"""A third measure and another noise appear in everything that is stored, shown and asked, with nothing registered anywhere."""

import base64
import csv
import itertools
import json
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import pyplot
from numpy.typing import ArrayLike, NDArray
from rich.console import Console

import holdfast as hf
from holdfast.certificates.settings import Settings
from holdfast.cli.app import run as holdfast
from holdfast.measures import DEFAULT_MEASURES, Mass, MeasureInfo
from holdfast.noise import Gaussian, Noise, Uniform
from holdfast.plotting import in_symbols
from holdfast.report.accuracy import Question, as_json
from holdfast.report.axis import radius_axis
from holdfast.report.figures import accuracy_figure, write_figures
from holdfast.report.fixed_point import UNIT, lower_codes, support_units, upper_codes
from holdfast.report.page import page
from holdfast.report.text import print_report
from holdfast.runs.certified import CertifiedRun
from holdfast.runs.compact import compact_run
from holdfast.runs.execute import Plan, execute
from holdfast.runs.folder import RunFolder, record
from holdfast.runs.resume import check_same
from holdfast.runs.store import Entry, write_part
from holdfast.runs.tsv import PAPER_RADII, export_name, log_numbers, read_log, write_log
from holdfast.scores.rounding import format_number
from holdfast.smoothed import SmoothedClassifier
from holdfast.zoo.datasets.labelled import LabelledInputs
from made_runs import Made, made_run
from networks import images, small_net


@dataclass(frozen=True)
class Box(Noise):
    """Toy noise, known to nothing but this file: uniform on a box, for l1, by another name."""

    side: float
    kind = "test-box"
    norm = "l1"

    @property
    def scale(self) -> float:
        return self.side / 2

    @property
    def title(self) -> str:
        return f"a box of side {self.side:g}"

    def least_probability(self, p: ArrayLike, radius: ArrayLike) -> NDArray[np.float64]:
        return np.maximum(0.0, np.subtract(p, np.divide(radius, self.side)))

    def slope(self, p: ArrayLike, radius: ArrayLike) -> NDArray[np.float64]:
        return np.asarray(np.greater(p, np.divide(radius, self.side)), dtype=np.float64)

    def radius(self, p: float, q: float) -> float:
        return max(0.0, self.side * (p - q))

    def probability(self, middle: NDArray[np.float64], width: float) -> NDArray[np.float64]:
        return Uniform(self.side / 2).probability(middle, width)


MASS: Made = {Mass({3, 5}).info: lambda score: 1 - 0.5 * score**2}
SURPRISE: Made = {
    MeasureInfo("log-score", "logarithm of the score", (-2.305, 0.0)): lambda score: np.log(score).clip(-2.305)
}
CASES: dict[str, tuple[Noise, Made]] = {
    "mass": (Gaussian(0.25), MASS),
    "mass, uniform noise": (Uniform(0.5), MASS),
    "toys": (Box(0.8), {**MASS, **SURPRISE}),
}


@pytest.fixture(scope="module", params=CASES)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> CertifiedRun:
    noise, measures = CASES[request.param]
    return made_run(tmp_path_factory.mktemp("runs") / "made", 24, sides="both", noise=noise, measures=measures)


def further(run: CertifiedRun) -> list[MeasureInfo]:
    """The measures that only this file names."""
    return [info for info in run.counted if info.name not in ("score", "margin")]


def test_a_run_is_read_back_with_its_noise_and_its_measures(made: CertifiedRun) -> None:
    again = hf.Run.open(made.path)
    assert isinstance(again, CertifiedRun)
    assert again.noise in [noise for noise, _ in CASES.values()]
    assert again.norm == again.noise.norm
    assert (again.sigma is None) == (again.noise != Gaussian(0.25))
    for info in further(again):
        assert again.measure(info.name) == info
        assert info.name in again.measures
        bounds = [entry.certificate.curve(info.name).lower(np.array([0.0, 0.2])) for entry in again]
        assert np.array_equal(again.lower(info.name, "cdf-berk-jones", np.array([0.0, 0.2])), bounds)
        stored = again.columns([f"{info.name}_lower_at_0"])[f"{info.name}_lower_at_0"]
        assert stored.tolist() == [each[0] for each in bounds]
    radii = np.array([max(0.0, entry.certificate.label_radius) for entry in again])
    assert np.array_equal(np.maximum(again.label_radius, 0.0), radii)


def test_the_text_report_has_a_line_for_each(made: CertifiedRun, capsys: pytest.CaptureFixture[str]) -> None:
    assert made.noise is not None
    print_report([made], Question(), Console(width=200))
    text = capsys.readouterr().out
    assert made.noise.title.replace(" = ", " ") in text
    assert ("within the radius in l1" in text) == (made.norm == "l1")
    for info in further(made):
        for threshold in made.thresholds(info.name):
            assert f"{info.name} > {threshold:g}" in text
    assert "mass-3-5 > 0.9" in text


def test_a_measure_without_thresholds_of_its_own_gets_quarters_of_its_range(tmp_path: Path) -> None:
    run = made_run(tmp_path / "a", 3, measures=SURPRISE)
    assert run.thresholds("log-score") == (-1.729, -1.153, -0.5762)


def test_json_has_every_measure_and_describes_it(made: CertifiedRun) -> None:
    assert made.noise is not None
    (document,) = json.loads(json.dumps(as_json([made], Question())))["runs"]
    assert Noise.from_dict(document["noise"]) == made.noise
    assert document["norm"] == made.noise.norm
    assert tuple(MeasureInfo.from_dict(each) for each in document["measures"]) == made.counted
    for info in further(made):
        rows = [row for row in document["certified_accuracy"] if row["measure"] == info.name]
        assert len(rows) == 3 * 3 * 5
        for row in rows:
            curves = [e.certificate.recompute(method=_method(row["method"])).curve(info.name) for e in made]
            above = [curve.lower(row["radius"]) > row["threshold"] for curve in curves]
            assert row["value"] == np.mean(made.correct & np.array(above))


def _method(name: str) -> hf.Method:
    return {"cdf-berk-jones": hf.CDF(), "cdf-dkw": hf.CDF(band=hf.DKW()), "naive-hoeffding": hf.Naive()}[name]


def test_figures_are_drawn_for_each_and_name_its_norm(made: CertifiedRun, tmp_path: Path) -> None:
    assert made.noise is not None
    names = [path.name for path in write_figures([made], Question(), tmp_path)]
    for info in further(made):
        assert f"certified_accuracy_{info.name}.png" in names
        figure = accuracy_figure([made], info.name, Question())
        assert [axes.get_xlabel() for axes in figure.axes] == 3 * [
            f"radius of the perturbation ({in_symbols(made.noise.norm)})"
        ]
        assert in_symbols(made.noise.title) in figure.axes[0].get_title(loc="left")
        assert [axes.get_title().strip() for axes in figure.axes] == [
            f"{info.title} > {format_number(threshold)}" for threshold in made.thresholds(info.name)
        ]
        assert made.plot_certified_accuracy(info.name).get_xlim()[1] <= 4 * made.noise.scale
    assert names[-3:] == [f"certified_accuracy_label.{kind}" for kind in ("png", "svg", "pdf")]
    pyplot.close("all")


def test_runs_in_two_norms_are_not_drawn_as_one(tmp_path: Path) -> None:
    both = [made_run(tmp_path / "a", 3), made_run(tmp_path / "b", 3, noise=Uniform(0.5))]
    assert accuracy_figure(both, "label", Question()).axes[0].get_xlabel() == "radius of the perturbation (ℓ₂ or ℓ₁)"
    assert document_of(both)["norms"] == ["l2", "l1"]


def document_of(runs: Sequence[CertifiedRun]) -> dict[str, Any]:
    """What a page of these runs holds in words."""
    axis = radius_axis(runs, Question())
    text = page(runs, Question(), axis)
    found = re.search(r'id="document">(.*?)</script>', text, flags=re.S)
    assert found is not None
    document: dict[str, Any] = json.loads(found[1])
    columns = re.search(r'id="columns">(.*?)</script>', text, flags=re.S)
    assert columns is not None
    document["columns"] = zlib.decompress(base64.b64decode(columns[1]))
    return document


def test_a_page_holds_each_measure_with_its_title_support_and_rounded_bounds(made: CertifiedRun) -> None:
    assert made.noise is not None
    document = document_of([made])
    (run,) = document["runs"]
    assert run["noise"] == made.noise.title
    assert document["norms"] == [made.noise.norm]
    at = np.array([float(radius) for radius in document["radii"]])
    assert at[-1] == max(radius_axis([made], Question(radii=(0.01,)))) == 4 * made.noise.scale
    for info in further(made):
        described = next(each for each in document["measures"] if each["name"] == info.name)
        assert described["title"] == info.title
        assert [each / UNIT for each in described["thresholds"]] == list(made.thresholds(info.name))
        held = run["measures"][info.name]
        assert (held["title"], held["support"]) == (info.title, list(info.support))
        own = next(each for each in held["methods"] if each["own"])
        lower = (unpacked(document, own["lower"]) >> 1) + held["units"][0]
        upper = unpacked(document, held["upper"]) + held["units"][0]
        for row, entry in enumerate(made):
            curve = entry.certificate.curve(info.name)
            assert (lower[row] / UNIT <= curve.lower(at)).all()
            assert ((lower[row] + 1) / UNIT > curve.lower(at)).all()
            assert (upper[row] / UNIT >= curve.upper(at)).all()
            assert ((upper[row] - 1) / UNIT < curve.upper(at)).all()


def unpacked(document: dict[str, Any], column: dict[str, Any]) -> NDArray[np.int64]:
    """A column of a page, as its script unpacks it."""
    kind = np.dtype({"u2": "<u2", "i4": "<i4"}[column["type"]])
    values = np.frombuffer(document["columns"], kind, column["count"], column["at"]).reshape(-1, column["row"])
    return np.cumsum(values, axis=1, dtype=kind).astype(np.int64)


WIDTHS = st.floats(1e-3, 1e4)


ROOMS = Path(hf.__file__).parent
LOGS = ("tsv.py", "imported.py")
CLAIMS = ("claims.py", "rechecked.py")  # what is subtracted from a claim is a margin, too
FILES = [
    path
    for room in ("runs", "report", "serve")
    for path in sorted((ROOMS / room).rglob("*"))
    if path.suffix in (".py", ".js") and path.name not in (*LOGS, *CLAIMS)
]
CONCRETE = re.compile(
    r"""["'`](?:score|margin|gaussian|uniform)["'`]|\.(?:score|margin)\b|\b(?:Gaussian(?! noise)|Uniform|Margin|Mass)\b"""
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOMS)))
def test_what_stores_and_shows_names_no_measure_and_no_noise(path: Path) -> None:
    assert CONCRETE.findall(path.read_text(encoding="utf-8")) == []


@given(st.floats(-5, 5), WIDTHS, st.floats(0, 1), st.integers(-UNIT, UNIT))
def test_stored_bounds_are_rounded_outwards_whatever_the_support(low: float, width: float, part: float, k: int) -> None:
    support = (low, low + width)
    value = min(max(low + part * width, low), low + width)
    first, last = support_units(support)
    assert first / UNIT <= low
    assert last / UNIT >= low + width
    code = int(lower_codes(np.array([value]), support)[0])
    m = (code >> 1) + first
    assert m / UNIT <= value < (m + 1) / UNIT
    assert (code > 2 * (k - first)) == (value > k / UNIT)
    upper = int(upper_codes(np.array([value]), support)[0]) + first
    assert (upper - 1) / UNIT < value <= upper / UNIT


def test_a_support_too_wide_to_be_stored_is_refused_in_words() -> None:
    with pytest.raises(hf.InvalidArgument, match="divide the measure by a constant"):
        lower_codes(np.array([1.0]), (0.0, 2e5))


def test_a_log_is_exported_for_each(made: CertifiedRun, tmp_path: Path) -> None:
    for info in further(made):
        log = made.log_of(info.name)
        write_log(tmp_path / f"{info.name}.tsv", log)
        for row, entry in zip(log_numbers(log), made, strict=True):
            expected = entry.certificate.curve(info.name).lower(np.array(PAPER_RADII))
            assert row[:7].tolist() == expected.tolist()
    assert len(read_log(tmp_path / "mass-3-5.tsv")) == len(made)
    out = tmp_path / "command.tsv"
    assert holdfast(["export", str(made.path), "--measure", "mass-3-5", "--out", str(out)]) == 0
    assert out.read_bytes() == (tmp_path / "mass-3-5.tsv").read_bytes()
    other = tmp_path / "other.tsv"
    assert (
        holdfast(["export", str(made.path), "--measure", "mass-4", "--out", str(other)]) == hf.InvalidArgument.exit_code
    )


def test_a_mass_of_many_classes_still_has_a_file_name() -> None:
    first, second = (export_name(Mass(classes).name) for classes in (range(400), range(401)))
    assert first != second
    assert max(len(first), len(second)) < 200


def test_a_compact_copy_keeps_noise_and_measures(made: CertifiedRun, tmp_path: Path) -> None:
    copy = compact_run(made, tmp_path / "small", bins=512)
    assert copy.noise == made.noise
    assert copy.counted == made.counted
    radii = np.array([0.0, 0.1, 0.3])
    for info in made.counted:
        fine, coarse = (run.lower(info.name, "cdf-berk-jones", radii) for run in (made, copy))
        assert (coarse <= fine).all()
        assert not np.array_equal(coarse, fine)


def question(noise: Noise, *measures: MeasureInfo) -> dict[str, Any]:
    """The configuration of a run that asks something."""
    names = ["data", "inputs", "n", "n0", "alpha", "claims", "sides", "method", "compile"]
    where = {"model": "m", "noise": "g", "precision": "p", "version": "v", "seed": "0x1"}
    prints = dict.fromkeys(("weights", "images", "labels", "indices"), "x")
    return {
        "kind": "certified",
        "status": "interrupted",
        **dict.fromkeys(names, 1),
        **json.loads(json.dumps(record(noise, measures))),
        "provenance": where,
        "versions": {"torch": "t"},
        "fingerprints": prints,
    }


def test_other_noise_and_other_measures_are_another_question(tmp_path: Path) -> None:
    score, margin = (measure.info for measure in DEFAULT_MEASURES)
    mass, wider = Mass({3, 5}).info, MeasureInfo("mass-3-5", "mass", (0.0, 2.0))
    begun = question(Gaussian(0.25), score, margin, mass)
    folder = RunFolder.create(tmp_path / "a", begun)
    check_same(folder, begun, None)
    for other, said in (
        (question(Gaussian(0.5), score, margin, mass), r"the noise is sigma = 0\.25 there and sigma = 0\.5 here"),
        (
            question(Uniform(0.25), score, margin, mass),
            r"noise is sigma = 0\.25 there and uniform noise, half-width 0\.25 ",
        ),
        (question(Gaussian(0.25), score, margin), "measures are score, margin, mass-3-5 there and score, margin here"),
        (question(Gaussian(0.25), score, margin, wider), "the measure mass-3-5 is .*1.0.* there and .*2.0.* here"),
    ):
        with pytest.raises(hf.RunError, match=said):
            check_same(folder, other, None)
    one, two = (question(Gaussian(0.25), Mass(classes, name="animal").info) for classes in ({3, 5}, {3, 6}))
    with pytest.raises(hf.RunError, match=r"the measure animal is .*3, 5.* there and .*3, 6.* here"):
        check_same(RunFolder.create(tmp_path / "b", one), two, None)


def test_what_0_1_0_recorded_is_the_default_measures_under_gaussian_noise(tmp_path: Path) -> None:
    run = made_run(tmp_path / "a", 3)
    config = run.config
    assert config["sigma"] == 0.25
    old = {key: value for key, value in config.items() if key not in ("noise", "measures")}
    (tmp_path / "a" / "run.json").write_text(json.dumps(old))
    again = hf.Run.open(tmp_path / "a")
    assert isinstance(again, CertifiedRun)
    assert again.noise == Gaussian(0.25)
    score, margin = run.counted
    assert again.counted == (replace(score, winning=0.5005), margin)
    for entry, other in zip(again, run, strict=True):
        found = entry.certificate.to_dict()
        assert found["evidence"].pop("measures")[0]["winning"] == 0.5005
        expected = other.certificate.to_dict()
        del expected["evidence"]["measures"]
        assert found == expected
    asked = question(Gaussian(0.25), *run.counted)
    before = {key: value for key, value in asked.items() if key not in ("noise", "measures")}
    check_same(RunFolder.create(tmp_path / "b", before), asked, None)
    with pytest.raises(hf.RunError, match="the measures are score, margin there and score, margin, mass-3-5 here"):
        check_same(RunFolder.open(tmp_path / "b"), question(Gaussian(0.25), *run.counted, Mass({3, 5}).info), None)


def test_a_run_of_0_1_0_abstains_where_two_classes_could_have_won(tmp_path: Path) -> None:
    """Its copies were checked to sum to one within 0.001: two classes could both have averages of 0.5002."""
    reached = float(hf.BerkJones().lower(np.array([400]), 400, 0.01)[0])
    score, margin = (measure.info for measure in DEFAULT_MEASURES)
    entries = []
    for index, average in enumerate((0.5002, 0.5006)):
        value = np.full(400, average / reached)
        scores = hf.ScoreSamples(value, sigma=0.25).histogram(2**20)
        margins = hf.ScoreSamples(2 * value - 1, support=margin.support, sigma=0.25).histogram(2**20)
        made = hf.Provenance(1, index, "none", "none", "cpu", "float32", "0.1.0", seconds=0.0)
        evidence = hf.Evidence(400, 200, {score: scores, margin: margins})
        cert = hf.Certificate(0, 10, 0.01, ("score",), "lower", hf.CDF(), evidence, made)
        assert not cert.abstained
        entries.append(Entry(index, 0, cert))
    config = {
        "kind": "certified",
        "sigma": 0.25,
        "inputs": 2,
        "n": 400,
        "n0": 10,
        "alpha": 0.01,
        "claims": ["score"],
        "sides": "lower",
        "method": "cdf-berk-jones",
        "provenance": entries[0].certificate.provenance.to_dict(),
    }
    write_part(RunFolder.create(tmp_path / "old", config), 0, entries)
    old = hf.Run.open(tmp_path / "old")
    assert old.answers.abstained.tolist() == [True, False]
    assert old.correct.tolist() == [False, True]
    assert old.log_of("score").column("predict").to_pylist() == [-1, 0]
    described = {"measures": [score.to_dict(), margin.to_dict()]}
    write_part(RunFolder.create(tmp_path / "new", {**config, **described}), 0, entries)
    assert hf.Run.open(tmp_path / "new").answers.abstained.tolist() == [False, False]


def test_a_run_that_describes_no_noise_or_measure_is_refused_in_words(tmp_path: Path) -> None:
    run = made_run(tmp_path / "a", 2)
    for change, said in (
        ({"noise": {"kind": "unheard-of"}}, "Import the module that defines it first"),
        ({"noise": None, "sigma": "much"}, "does not describe a noise"),
        ({"noise": None, "sigma": None}, "says nothing of the noise"),
        ({"measures": [{"name": "score"}]}, "does not describe measures"),
        ({"measures": [*run.config["measures"], Mass({1}).info.to_dict()]}, "has no mass-1_counters"),
    ):
        (tmp_path / "a" / "run.json").write_text(json.dumps({**run.config, **change}))
        with pytest.raises(hf.RunError, match=said):
            list(hf.Run.open(tmp_path / "a"))


NET = {"measures": (Mass({1, 2}),), "noise": Uniform(0.4)}


def plan(out: Path) -> Plan:
    data = LabelledInputs("toys", images(4), np.arange(4) % 4, np.arange(4))
    return Plan(data, Settings(n=400, n0=30, claims=("label", "mass-1-2")), out, seed=3)


def test_a_run_is_certified_interrupted_and_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smoothed = SmoothedClassifier(small_net(), **NET)  # type: ignore[arg-type]
    whole = execute(smoothed, plan(tmp_path / "whole"))
    assert (whole.noise, whole.measures) == (Uniform(0.4), ("label", "mass-1-2"))
    assert (tmp_path / "whole" / "exports" / "paper_mass-1-2.tsv").is_file()
    kept = smoothed.stream

    def interrupted(*args: object, **options: object) -> Any:
        yield from itertools.islice(kept(*args, **options), 1)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(smoothed, "stream", interrupted)
        with pytest.raises(KeyboardInterrupt):
            execute(smoothed, plan(tmp_path / "a"))
    with pytest.raises(hf.RunError, match=r"the noise is uniform noise, half-width 0\.4 there and sigma = 0\.4 here"):
        execute(SmoothedClassifier(small_net(), 0.4, measures=NET["measures"]), plan(tmp_path / "a"))  # type: ignore[arg-type]
    again = execute(smoothed, plan(tmp_path / "a"))
    assert [entry.certificate for entry in again] == [entry.certificate for entry in whole]


EMBEDDED = [
    "--model",
    "fashion-mnist",
    "--data",
    "fashion-mnist",
    "--max",
    "2",
    "--n",
    "100",
    "--n0",
    "10",
    "--seed",
    "1",
]


def test_the_commands_take_names_of_measures_and_kinds_of_noise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path / "a")]
    asked = ["--noise", "uniform:0.5", "--claims", "label,score,mass-3-5"]
    assert holdfast(["certify", *EMBEDDED, *asked, *out]) == 0
    captured = capsys.readouterr()
    assert "mass-3-5 > 0.5" in captured.out
    assert "trained with sigma = 0.25, and is certified here with uniform noise" in " ".join(captured.err.split())
    found = hf.Run.open(tmp_path / "a")
    assert (found.noise, found.measures) == (Uniform(0.5), ("label", "score", "mass-3-5"))
    wanted = ["--noise", "test-box:0.8", "--at-least", "0.5", "--radius", "0.01", "--measure", "mass-3-5"]
    assert holdfast(["decide", *EMBEDDED, *wanted]) == 0
    for options, said in (
        ([], "either --sigma 0.25, for Gaussian noise, or --noise"),
        (["--sigma", "0.25", "--noise", "uniform:0.5"], "got both"),
        (["--noise", "pink:1"], "noise of the kind 'pink' is not known here; expected one of"),
        (["--noise", "uniform"], "uniform takes half_width, got 'uniform'"),
        (["--noise", "uniform:1,2"], "uniform takes half_width, got 'uniform:1,2'"),
        (["--noise", "uniform:-1"], "half_width must be a positive number"),
        (["--sigma", "0.25", "--claims", "mass-x"], "unknown measure 'mass-x'; expected score, margin, or mass-3-5"),
    ):
        capsys.readouterr()
        assert holdfast(["certify", *EMBEDDED, *options, "--out", str(tmp_path / "b")]) == hf.InvalidArgument.exit_code
        assert said in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "b").exists()


def test_the_csv_of_a_page_is_that_of_the_bounds(made: CertifiedRun, tmp_path: Path, chromium: Any) -> None:
    """In a real browser: the measure is chosen, said in words, and its bounds are saved."""
    from holdfast.scores.rounding import ceil_decimals, floor_decimals

    out = tmp_path / "report.html"
    assert holdfast(["report", str(made.path), "--format", "html", "--out", str(out)]) == 0
    complaints: list[str] = []
    found = chromium.new_page()
    found.on("pageerror", lambda error: complaints.append(str(error)))
    found.goto(out.as_uri())
    found.wait_for_selector("html[data-ready]")
    assert found.locator("#measure option").all_inner_texts() == [
        *(f"average {info.title}" for info in made.counted),
        "label",
    ]
    for info in further(made):
        found.locator("#measure").select_option(info.name)
        assert f"average {info.title} above" in found.locator("#verdict").inner_text()
        assert {"l1": "(ℓ₁)", "l2": "(ℓ₂)"}[str(made.norm)] in found.locator("#by-radius").inner_text()
        threshold = round(made.thresholds(info.name)[1], 2)
        found.locator("#threshold-number").fill(str(threshold))
        radius = float(found.locator("#radius-value").inner_text())
        share = made.certified_accuracy(info.name, radii=[radius], thresholds=[threshold])[0, 0]
        heights = [
            found.locator(f"{chart} circle").first.get_attribute("cy") for chart in ("#by-radius", "#by-threshold")
        ]
        assert heights[0] == heights[1]
        said = found.locator("#verdict-count").inner_text()
        assert said == f"{round(share * len(made))} of {len(made)}"
    found.locator("#search").fill("7")
    found.locator("#table .link").first.click()
    assert found.locator("#words").inner_text() == made.entries[7].certificate.describe()
    found.keyboard.press("Escape")
    with found.expect_download() as download:
        found.locator("#csv-bounds").click()
    download.value.save_as(tmp_path / "bounds.csv")
    with (tmp_path / "bounds.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["measure"] for row in rows} == {info.name for info in made.counted}
    for row in rows:
        if row["method"] == "cdf-berk-jones":
            curve = made.entries[int(row["index"])].certificate.curve(row["measure"])
            value, text = (curve.lower, floor_decimals) if row["side"] == "lower" else (curve.upper, ceil_decimals)
            for name, cell in row.items():
                if name.startswith("at_"):
                    assert cell == text(value(float(name.removeprefix("at_"))), 4)
    with found.expect_download() as download:
        found.locator("#csv-accuracy").click()
    download.value.save_as(tmp_path / "accuracy.csv")
    with (tmp_path / "accuracy.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    name = rows[0]["measure"]
    thresholds = sorted({float(row["threshold"]) for row in rows})
    radii = sorted({float(row["radius"]) for row in rows})
    low, high = made.measure(name).support
    assert thresholds[0] - low < 0.01 * (high - low)
    assert high - thresholds[-1] < 0.03 * (high - low)
    table = made.certified_accuracy(name, radii=radii, thresholds=thresholds)
    counts = [int(row["count"]) for row in rows if row["method"] == "cdf-berk-jones"]
    assert counts == np.rint(table * len(made)).astype(int).ravel().tolist()
    assert complaints == []
    found.close()


def test_the_page_counts_above_every_threshold_of_any_support(chromium: Any) -> None:
    support, step = (-2.305, 0.0), 100
    values = np.random.default_rng(0).uniform(*support, 200).round(3)  # some of them on a threshold
    lowest, highest = support_units(support)
    first, count = -23_000, 231
    source = (files("holdfast.report") / "assets" / "accuracy.js").read_text(encoding="utf-8")
    found = chromium.new_page()
    counts = found.evaluate(
        f"""([lower, lowest, steps]) => {{
            const RIGHT = 0, RADII = ["0"];
            {source}
            const run = {{ inputs: lower.length, state: lower.map(() => RIGHT) }};
            return [...countsByThreshold({{ run, measure: {{ lowest }}, method: {{ lower }} }}, 0, steps)];
        }}""",
        [lower_codes(values, support).tolist(), lowest, {"first": first, "step": step, "count": count}],
    )
    found.close()
    thresholds = (first + step * np.arange(count)) / UNIT
    assert counts == (values[:, None] > thresholds).sum(axis=0).tolist()
    assert highest == 0
