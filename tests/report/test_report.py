"""Reports without a browser: what is stored, what is drawn, what is refused."""

import base64
import io
import json
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import pyplot
from matplotlib.figure import Figure
from PIL import Image
from scipy.stats import binom

import holdfast as hf
from holdfast.certificates.proportions import share_intervals
from holdfast.cli.app import run as holdfast
from holdfast.noise import Gaussian, noise_fields
from holdfast.report.accuracy import Question, as_json
from holdfast.report.axis import chart_end, radius_axis
from holdfast.report.figures import accuracy_figure, examples_figure, write_figures
from holdfast.report.fixed_point import UNIT, floor_units, lower_codes, threshold_units, upper_codes
from holdfast.report.page import page, script_json
from holdfast.report.payload import Columns, payload
from holdfast.report.text import headline
from holdfast.report.thumbnails import pictures_of
from holdfast.runs.certified import CertifiedRun
from holdfast.runs.imported import import_log
from holdfast.runs.method_names import method_description
from holdfast.runs.plot import run_titles
from holdfast.runs.tsv import write_log
from made_runs import SECRET, SIGMA, made_run

VALUES = st.one_of(st.floats(-1, 1), st.integers(-UNIT, UNIT).map(lambda m: m / UNIT))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> CertifiedRun:
    return made_run(tmp_path_factory.mktemp("runs") / "made", 24, sides="both")


@given(VALUES, st.integers(-UNIT, UNIT))
def test_a_stored_bound_is_rounded_down_and_answers_thresholds_as_the_bound_does(value: float, k: int) -> None:
    code = int(lower_codes(np.array([value]), (-1.0, 1.0))[0])
    m = (code >> 1) - UNIT
    assert m / UNIT <= value < (m + 1) / UNIT
    assert (code > 2 * (k + UNIT)) == (value > k / UNIT)
    upper = int(upper_codes(np.array([value]), (-1.0, 1.0))[0]) - UNIT
    assert (upper - 1) / UNIT < value <= upper / UNIT


@given(st.floats(0, 8))
def test_radii_are_rounded_down_and_thresholds_up(value: float) -> None:
    m = int(floor_units(np.array([value]))[0])
    assert m / UNIT <= value < (m + 1) / UNIT
    k = threshold_units(value)
    assert (k - 1) / UNIT < value <= k / UNIT


def test_radii_too_large_to_be_stored_are_rounded_down_to_the_largest_that_is() -> None:
    found = floor_units(np.array([214_748.3646, 214_748.3647, 214_748.3648, 1e6, 1e300, np.inf]))
    assert found.tolist() == [2_147_483_646, *[2_147_483_647] * 5]


@pytest.mark.parametrize("n", [1, 7, 60])
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_an_interval_of_a_share_holds_the_probability_as_often_as_it_says(n: int, level: float) -> None:
    of = share_intervals(n, level=level)
    assert of.lower[0] == 0
    assert of.upper[n] == 1
    for p in np.linspace(0, 1, 201):
        holds = (of.lower <= p) & (p <= of.upper)
        assert binom.pmf(np.arange(n + 1)[holds], n, p).sum() >= level - 1e-9
    # No wider than it must be: at each lower end, as many successes or more have exactly half of what is left.
    k = np.arange(1, n + 1)
    assert np.allclose(binom.sf(k - 1, n, of.lower[1:]), (1 - level) / 2)


def test_the_axis_has_every_radius_that_was_asked_for_or_is_known(made: CertifiedRun) -> None:
    axis = radius_axis([made], Question(radii=(0.1234, 0.5)))
    assert {0.0, 0.1234, 0.25, 0.5, SIGMA, 1.0} <= set(axis)
    assert list(axis) == sorted(set(axis))
    assert len(axis) < 110
    assert max(radius_axis([made], Question(radii=(3.0,)))) == 3.0
    # One that is far beyond what can be certified does not make the others coarse.
    far = radius_axis([made], Question(radii=(99.0,)))
    assert max(far) == 99.0
    assert len(far) < 110
    assert {0.25, 0.5, 0.75} <= set(far)
    assert max(b - a for a, b in pairwise(far[:-1])) <= 0.05
    # Charts do not run to it either.
    assert chart_end([made], far) == far[-2] < 4
    assert chart_end([made], radius_axis([made], Question(radii=(3.0,)))) == 3.0
    facts = payload([made], Question(radii=(99.0,)), far, {}, Columns())
    assert (facts["chartEnd"], facts["radii"][-1]) == (far[-2], "99")
    odd = CertifiedRun(made.folder)
    odd.config = {**made.config, **noise_fields(Gaussian(0.1379))}
    assert 0.1379 in radius_axis([odd, made], Question(radii=(0.5,)))


def test_a_tabulated_run_gives_the_runs_own_numbers_and_computes_them_once(made: CertifiedRun) -> None:
    seen: list[int] = []
    tabulated = CertifiedRun(made.folder)
    tabulated.tabulate((0.0, 0.25, 0.5), on_inputs=seen.append)
    for radii in ([0.25], [0.5, 0.0], [0.0, 0.25, 0.5]):
        at = np.array(radii)
        assert np.array_equal(tabulated.lower("score", "cdf-dkw", at), made.lower("score", "cdf-dkw", at))
    assert seen == [24]
    tabulated.tabulate((0.25, 0.25, 0.5))
    for at in (np.array([0.25]), np.array([0.5, 0.25]), np.array(0.25), np.array([[0.5], [0.25]])):
        assert np.array_equal(tabulated.lower("score", "cdf-dkw", at), made.lower("score", "cdf-dkw", at))
    other = np.array([0.25, 0.3])
    assert np.array_equal(tabulated.lower("score", "cdf-dkw", other), made.lower("score", "cdf-dkw", other))


def test_upper_bounds_of_a_run_are_those_of_its_certificates(made: CertifiedRun) -> None:
    upper = made.upper("margin", made.config["method"], np.array([0.0, 0.3]))
    assert np.array_equal(upper, [entry.certificate.margin.upper(np.array([0.0, 0.3])) for entry in made])


def test_json_has_the_interval_of_every_share(made: CertifiedRun) -> None:
    (document,) = as_json([made], Question())["runs"]
    of = share_intervals(len(made), level=document["interval_level"])
    for row in document["certified_accuracy"]:
        low, high = row["interval"]
        assert low <= row["value"] <= high
        assert low == of.lower[round(row["value"] * len(made))]


def test_a_run_draws_its_certified_accuracy(made: CertifiedRun) -> None:
    figure = Figure()
    radii = [0.0, 0.1, 0.25]
    axes = made.plot_certified_accuracy(
        thresholds=[0.5, 0.9], radii=radii, methods=["cdf-berk-jones", "cdf-dkw"], axes=figure.subplots()
    )
    lines = [np.asarray(line.get_ydata()).tolist() for line in axes.get_lines()]
    expected = [  # each line ends where nothing is certified any more
        values[: np.count_nonzero(values) + 1].tolist()
        for method in ("cdf-berk-jones", "cdf-dkw")
        for values in made.certified_accuracy("score", radii=radii, thresholds=[0.5, 0.9], method=method)
    ]
    assert lines == expected
    assert all(line.get_drawstyle() == "steps-pre" for line in axes.get_lines())
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        *("score > 0.5", "score > 0.9", "CDF (Berk-Jones)", "CDF (DKW)")
    ]
    assert len(axes.collections) == 2  # a band for each line of the first method


def test_figures_say_what_was_run_and_name_the_folder_only_where_words_do_not_tell_runs_apart(tmp_path: Path) -> None:
    one, other = made_run(tmp_path / "one", 3, data="cifar10"), made_run(tmp_path / "other", 3, data="my$data")
    again = made_run(tmp_path / "again", 3, data="cifar10")
    assert run_titles([one, other]) == [
        "CIFAR-10, σ = 0.25\nn = 400, α = 0.001",
        "my\\$data, σ = 0.25\nn = 400, α = 0.001",
    ]
    assert run_titles([one, again]) == [f"{name}\nCIFAR-10, σ = 0.25, n = 400, α = 0.001" for name in ("one", "again")]


def test_what_cannot_be_drawn_is_refused(made: CertifiedRun) -> None:
    axes = Figure().subplots()
    with pytest.raises(hf.InvalidArgument, match="has no 'votes'"):
        made.plot_certified_accuracy("votes", axes=axes)
    with pytest.raises(hf.InvalidArgument, match="7 thresholds"):
        made.plot_certified_accuracy(thresholds=np.linspace(0, 0.9, 8), axes=axes)
    with pytest.raises(hf.InvalidArgument, match="between 0 and 1"):
        made.plot_certified_accuracy(interval=95, axes=axes)


@pytest.mark.parametrize("measure", ["score", "margin"])
def test_a_method_has_one_line_style_in_every_panel_and_in_the_legend(
    made: CertifiedRun, tmp_path: Path, measure: str
) -> None:
    write_log(tmp_path / f"{measure}.tsv", made.log_of(measure))
    imported = import_log(tmp_path / f"{measure}.tsv", tmp_path / "imported", measure=measure)
    figure = accuracy_figure([made, imported], measure, Question())
    said = {line.get_label(): line.get_linestyle() for line in figure.legends[0].get_lines()}
    rows = [run for run in (made, imported) for _ in made.thresholds(measure)]
    for axes, run in zip(figure.axes, rows, strict=True):
        drawn = [line.get_linestyle() for line in axes.get_lines()]
        assert drawn == [said[method_description(method)] for method in run.methods(measure)]


def test_a_panel_without_a_curve_says_so_and_does_not_stretch_the_others(made: CertifiedRun) -> None:
    thresholds, radii = (0.5, 0.999), (0.0, 0.05, 0.1, 0.15, 0.2, 0.6)
    alone = accuracy_figure([made], "score", Question(radii, thresholds[:1])).axes[0]
    full, empty = accuracy_figure([made], "score", Question(radii, thresholds)).axes
    assert not made.certified_accuracy("score", radii=radii, thresholds=thresholds[1:]).any()
    assert full.get_xlim() == empty.get_xlim() == alone.get_xlim()
    assert [text.get_text() for axes in (full, empty) for text in axes.texts] == ["nothing certified"]
    assert [any(line.get_visible() for line in axes.get_lines()) for axes in (full, empty)] == [True, False]


def test_a_legend_of_several_methods_stands_beside_the_lines(made: CertifiedRun) -> None:
    axes = made.plot_certified_accuracy("margin", methods=made.methods("margin"))
    drawn, legend = axes.get_figure(), axes.get_legend()
    assert drawn is not None
    assert legend is not None
    drawn.draw_without_rendering()  # type: ignore[union-attr]
    assert legend.get_window_extent().x0 >= axes.get_window_extent().x1
    assert legend.get_window_extent().x1 <= drawn.get_window_extent().x1
    pyplot.close("all")


def test_a_report_replaces_reports_and_nothing_else(
    made: CertifiedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, page, data = tmp_path / "thesis.html", tmp_path / "report.html", tmp_path / "report.json"
    mine.write_text("<html>mine</html>")
    asked = ["report", str(made.path), "--radii", "0,0.25", "--format"]
    assert holdfast([*asked, "html", "--out", str(mine)]) == hf.RunError.exit_code
    assert "not a report written by Holdfast" in " ".join(capsys.readouterr().err.split())
    assert mine.read_text() == "<html>mine</html>"
    assert holdfast([*asked, "html", "--out", str(page)]) == 0
    assert holdfast([*asked, "html", "--out", str(page)]) == 0
    capsys.readouterr()
    assert holdfast([*asked, "json"]) == 0
    printed = capsys.readouterr().out
    assert holdfast([*asked, "json", "--out", str(data)]) == 0
    assert data.read_text() == printed
    assert capsys.readouterr().out == ""
    assert holdfast([*asked, "json", "--out", str(data)]) == hf.RunError.exit_code


def test_a_figure_needs_radii(made: CertifiedRun) -> None:
    with pytest.raises(hf.InvalidArgument, match=r"radii must be one or more numbers, got \[\]"):
        made.plot_certified_accuracy("score", radii=[])


def test_a_lost_part_is_not_called_unfinished(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", 9, in_a_part=3)
    sorted((run.path / "certificates").iterdir())[1].unlink()
    assert "6 inputs of 9 (a file under certificates/ is missing)" in headline(hf.Run.open(run.path))
    run.config["status"] = "interrupted"
    assert "not finished" in headline(run)


def test_figures_are_pictures_and_vectors_and_the_same_every_time(made: CertifiedRun, tmp_path: Path) -> None:
    first = write_figures([made], Question(), tmp_path / "1")
    second = write_figures([made], Question(), tmp_path / "2")
    assert [path.name for path in first][:3] == [f"certified_accuracy_score.{kind}" for kind in ("png", "svg", "pdf")]
    assert len(first) == 9
    for one, two in zip(first, second, strict=True):
        assert one.read_bytes() == two.read_bytes()


def test_examples_are_drawn_as_the_report_shows_them(made: CertifiedRun) -> None:
    """Black is black: no picture is turned into its negative."""
    picture = np.zeros((1, 2, 2), dtype=np.float32)
    picture[0, 0, 0] = 1
    drawn = examples_figure(made.entries[:1], [picture], {}).axes[0].images[0]
    assert np.array_equal(drawn.to_rgba(np.asarray(drawn.get_array()))[..., :3], np.stack([picture[0]] * 3, axis=-1))


def test_nothing_in_a_script_can_end_it() -> None:
    text = "</script><script>alert(1)</script><!-- & \u2028"
    written = script_json({"name": text})
    assert not set("<>&\u2028") & set(written)
    assert json.loads(written) == {"name": text}


def test_a_page_fetches_nothing_and_keeps_the_seed_to_itself(made: CertifiedRun) -> None:
    axis = radius_axis([made], Question())
    text = page([made], Question(), axis)
    assert "default-src 'none'" in text
    assert set(re.findall(r"https?://[^\"' ]+", text)) == {"http://www.w3.org/2000/svg"}
    assert f"{SECRET:x}" not in text
    assert text == page([made], Question(), axis)


def test_a_hostile_name_stays_text_in_the_title(tmp_path: Path) -> None:
    made = made_run(tmp_path / "<b>&", 2)
    axis = radius_axis([made], Question())
    assert "<title>&lt;b&gt;&amp;: certified confidence</title>" in page([made], Question(), axis)


@pytest.fixture(scope="module")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three data archives: a run's own, one with other labels and one with other pictures; and the run."""
    folder = tmp_path_factory.mktemp("toys")
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (30, 8, 8, 3), dtype=np.uint8)
    labels = rng.integers(0, 3, 30)
    np.savez(folder / "own.npz", test_images=pictures, test_labels=labels)
    np.savez(folder / "labels.npz", test_images=pictures, test_labels=(labels + 1) % 3)
    np.savez(folder / "pictures.npz", test_images=255 - pictures, test_labels=labels)
    np.savez(folder / "few.npz", test_images=pictures[:4], test_labels=labels[:4])
    made_run(folder / "run", 30)
    return folder


def test_pictures_are_those_of_the_run(toys: Path) -> None:
    import pyarrow.parquet as pq

    from holdfast.zoo.datasets.open import open_dataset

    part = toys / "run" / "certificates" / "part-00000.parquet"
    table = pq.read_table(part)
    own = open_dataset(str(toys / "own.npz"))
    labelled = table.set_column(table.column_names.index("label"), "label", [own.labels])
    pq.write_table(labelled, part)
    config = json.loads((toys / "run" / "run.json").read_text())
    (toys / "run" / "run.json").write_text(json.dumps({**config, "fingerprints": {"images": own.digest()}}))
    run = hf.Run.open(toys / "run")
    (sheets,) = pictures_of([run], [str(toys / "own.npz")]).values()
    sheet = np.asarray(Image.open(io.BytesIO(base64.b64decode(sheets.sheets[0].split(",")[1]))))
    assert np.array_equal(sheet[8:16, 24:32], np.load(toys / "own.npz")["test_images"][23])  # 20 to a row
    for name, complaint in {"labels": "has label", "pictures": "other images", "few": "has no input 4"}.items():
        with pytest.raises(hf.DatasetError, match=complaint):
            pictures_of([run], [str(toys / f"{name}.npz")])


def test_the_command_writes_the_page_alone_where_it_is_told(
    made: CertifiedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "there" / "r.html"
    assert holdfast(["report", str(made.path), "--format", "html", "--out", str(out)]) == 0
    assert capsys.readouterr().out.startswith(f"report: {out}")
    assert out.stat().st_size < 300_000
    assert [path.name for path in out.parent.iterdir()] == ["r.html"]
    assert not (made.path / "figures").exists()
    assert holdfast(["report", str(made.path), "--format", "pdf"]) == hf.InvalidArgument.exit_code
    (tmp_path / "file").write_text("")
    refused = ["report", str(made.path), "--format", "html", "--out", str(tmp_path / "file" / "r.html")]
    assert holdfast(refused) == hf.RunError.exit_code
    assert holdfast(["report", str(made.path), "--data", "no-such-data"]) == hf.DatasetError.exit_code
