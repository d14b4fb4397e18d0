"""A log that Holdfast exported is imported as what it is; what a log does not say is said to be unknown."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import holdfast as hf
from holdfast.cli.app import run as holdfast
from holdfast.measures import Mass, MeasureInfo
from holdfast.noise import Gaussian, Uniform
from holdfast.report.accuracy import Question
from holdfast.report.figures import accuracy_figure
from holdfast.runs.imported import import_log
from holdfast.runs.tsv import ORIGIN_COLUMNS, log_numbers, read_log
from made_runs import Made, made_run, unsealed

MASS: Made = {Mass({3, 5}).info: lambda score: 1 - 0.5 * score**2}
SURPRISE = MeasureInfo("log-score", "logarithm of the score", (-2.305, 0.0))
SURPRISES: Made = {SURPRISE: lambda score: np.log(score).clip(-2.305)}


def anonymous(log: Path) -> Path:
    """The same log as others write it: with the field's columns only."""
    rows = [line.split("\t") for line in log.read_text().splitlines()]
    log.write_text("".join("\t".join(row[: rows[0].index("time") + 1]) + "\n" for row in rows))
    return log


def exported(folder: Path, measure: str, *, measures: Made = MASS, name: str | None = None) -> Path:
    """What ``holdfast export`` writes of a run with uniform noise."""
    run = made_run(folder / "made", 12, noise=Uniform(0.5), measures=measures)
    log = folder / (name or f"paper_{measure}.tsv")
    assert holdfast(["export", str(run.path), "--measure", measure, "--out", str(log)]) == 0
    return log


def imported(log: Path, *options: str) -> hf.Run:
    out = log.parent / "imported"
    assert holdfast(["import", str(log), "--out", str(out), *options]) == 0
    return hf.Run.open(out)


def test_an_exported_mass_of_uniform_noise_stays_one(tmp_path: Path) -> None:
    log = exported(tmp_path, "mass-3-5")
    run = imported(log, "--noise", "uniform:0.5")
    assert (run.measures, run.noise, run.norm) == (("mass-3-5",), Uniform(0.5), "l1")
    assert run.measure("mass-3-5") == Mass({3, 5}).info
    again = tmp_path / "again.tsv"
    assert holdfast(["export", str(run.path), "--measure", "mass-3-5", "--out", str(again)]) == 0
    assert again.read_bytes() == log.read_bytes()


@pytest.mark.parametrize("name", ["mass-3-5_sigma0.25.tsv", "log.tsv"])
def test_a_measure_is_taken_from_the_option_or_the_files_name(tmp_path: Path, name: str) -> None:
    log = anonymous(exported(tmp_path, "mass-3-5", name=name))
    options = [] if name.startswith("mass") else ["--measure", "mass-3-5", "--sigma", "0.25"]
    run = imported(log, *options)
    assert (run.measures, run.noise) == (("mass-3-5",), Gaussian(0.25))


@pytest.mark.parametrize("measure", ["label", "score"])
def test_a_norm_that_is_not_known_is_said_to_be_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], measure: str
) -> None:
    run = imported(anonymous(exported(tmp_path, measure)))
    assert (run.measures, run.noise, run.norm) == ((measure,), None, None)
    capsys.readouterr()
    assert holdfast(["report", str(run.path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "within the radius in an unknown norm" in said
    page = (run.path / "figures" / "report.html").read_text(encoding="utf-8")
    assert '"norms":["an unknown norm"]' in page
    label = accuracy_figure([run], measure, Question()).axes[0].get_xlabel()
    assert label == "radius of the perturbation (an unknown norm)"
    assert holdfast(["report", str(run.path), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["norm"] is None


def test_a_measure_of_ones_own_is_refused_by_name_and_described_from_python(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = anonymous(exported(tmp_path, "log-score", measures=SURPRISES))
    refused = ["import", str(log), "--out", str(tmp_path / "b")]
    for options in ([], ["--measure", "log-score"]):
        capsys.readouterr()
        assert holdfast([*refused, *options]) == hf.InvalidArgument.exit_code
        assert "unknown measure 'log-score'" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "b").exists()
    run = import_log(log, tmp_path / "b", measure=SURPRISE, noise=Uniform(0.5))
    assert hf.Run.open(run.path).measure("log-score") == SURPRISE
    assert run.lower("log-score", "cdf-dkw", np.array([1.5])).min() < -1


def test_bounds_out_of_the_measures_range_and_two_noises_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = anonymous(exported(tmp_path, "margin"))
    refused = ["import", str(log), "--out", str(tmp_path / "b")]
    for options, said in (
        (["--measure", "score"], "holds bounds outside [0, 1], so it is no log of the score"),
        (["--measure", "mass-1"], "holds bounds outside [0, 1], so it is no log of the mass-1"),
        (["--measure", "label"], "it is a log of bounds, not of label radii"),
        (["--sigma", "0.25", "--noise", "uniform:0.5"], "got both"),
        (["--noise", "pink:1"], "noise of the kind 'pink' is not known here"),
    ):
        capsys.readouterr()
        assert holdfast([*refused, *options]) == hf.InvalidArgument.exit_code
        assert said in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("measure", ["score", "mass-3-5"])
def test_an_exported_log_comes_back_as_the_bounds_noise_and_settings_it_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], measure: str
) -> None:
    made = made_run(tmp_path / "made", 12, noise=Uniform(0.5), measures=MASS)
    log = made.export(measure, tmp_path / "anything.tsv")
    run = imported(log)
    assert (run.measures, run.noise, run.methods(measure)) == (
        (measure,),
        Uniform(0.5),
        ("cdf-berk-jones", "naive-hoeffding"),
    )
    for method in (hf.CDF(), hf.Naive()):
        mine, theirs = (
            each.certified_accuracy(measure, radii=[0.0, 0.25], thresholds=[0.5], method=method) for each in (run, made)
        )
        assert np.array_equal(mine, theirs)
        lower, above = run.lower(measure, method, [0.25]), made.lower(measure, method, [0.25])
        assert (lower <= above).all()
        assert lower == pytest.approx(above, rel=0.01)
    with pytest.raises(
        hf.InvalidArgument, match="log of the bounds cdf-berk-jones, naive-hoeffding, and has no others"
    ):
        run.lower(measure, hf.CDF(band=hf.DKW()), [0.25])
    capsys.readouterr()
    assert holdfast(["report", str(run.path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "n 400, alpha 0.001" in said
    assert "CDF (Berk-Jones)" in said
    assert "DKW" not in said
    assert run.verify().problems == ()
    assert run.export(measure, tmp_path / "again.tsv").read_bytes() == log.read_bytes()


def test_a_log_of_label_radii_keeps_its_noise_too(tmp_path: Path) -> None:
    log = made_run(tmp_path / "made", 12).export("label", tmp_path / "a.tsv")
    run = imported(log)
    assert (run.sigma, run.config["n"], run.config["alpha"]) == (0.25, 400, 0.001)
    assert run.export("label", tmp_path / "b.tsv").read_bytes() == log.read_bytes()


def test_the_fields_readers_find_their_columns_where_they_were(tmp_path: Path) -> None:
    made = made_run(tmp_path / "made", 12)
    rows = [line.split("\t") for line in made.export("score", tmp_path / "a.tsv").read_text().splitlines()]
    assert rows[0][:19] == [
        *("idx", "label", "predict"),
        *(f"exp_{kind}{radius}" for kind in ("cdf_", "") for radius in ("00", "25", "50", "75", "100", "125", "150")),
        *("correct", "time"),
    ]
    assert rows[0][19:] == ["measure", "noise", "methods", "n", "n0", "alpha", "claims", "sides"]
    assert all(
        row[19:]
        == [
            "score",
            "gaussian:0.25",
            "cdf-berk-jones,naive-hoeffding",
            "400",
            "10",
            "0.001",
            "label,score,margin",
            "lower",
        ]
        for row in rows[1:]
    )


def test_what_a_log_says_of_itself_is_not_contradicted_nor_invented(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = made_run(tmp_path / "made", 3).export("score", tmp_path / "a.tsv")
    text, out = log.read_text(), str(tmp_path / "b")
    for options, said in (
        (["--sigma", "0.5"], "says that its noise is gaussian:0.25, got Gaussian(sigma=0.5)"),
        (["--measure", "margin"], "says that its bounds are of the score, got margin"),
    ):
        assert holdfast(["import", str(log), "--out", out, *options]) == hf.InvalidArgument.exit_code
        assert said in " ".join(capsys.readouterr().err.split())
    for changed, said in (
        (text.replace("\t0.001\t", "\t0.01\t", 1), "put together from several logs"),
        (text.replace("cdf-berk-jones", "cdf-best"), "unknown method 'cdf-best'"),
        (text.replace("gaussian:0.25", "gaussian"), "noise must be a kind and its numbers"),
        (text.replace("cdf-berk-jones,naive-hoeffding", "cdf-berk-jones"), "holds no cdf-berk-jones"),
        (text.replace("\t400\t", "\tmany\t"), "invalid literal"),
        (text.replace("\tscore\t", "\tlabel\t"), "a log of the label holds no"),
    ):
        assert changed != text
        log.write_text(changed)
        assert holdfast(["import", str(log), "--out", out]) == hf.RunError.exit_code
        assert said in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "b").exists()


def test_a_run_with_exports_of_an_earlier_holdfast_verifies_and_a_changed_one_does_not(tmp_path: Path) -> None:
    made = made_run(tmp_path / "made", 3)
    for old in (False, True):
        log = made.path / "exports" / "paper_score.tsv"
        log.unlink(missing_ok=True)
        made.export("score", log)
        if old:
            anonymous(log)
        assert not [each for each in made.verify().problems if "exports" in each]
        log.write_text(log.read_text().replace("\t0.", "\t0.9", 1))
        assert [each for each in made.verify().problems if "is not what the counts give, from line" in each]


@pytest.fixture(scope="module")
def scaled_run(tmp_path_factory: pytest.TempPathFactory) -> hf.Run:
    """Of a classifier in units of its features."""
    rng = np.random.default_rng(0)
    weights, xs = rng.normal(size=(3, 2)), rng.normal(size=(60, 3)).astype(np.float32)
    model = hf.Scaled(hf.CallableModel(lambda rows: 9 * rows @ weights, outputs="logits", version="1"), [1.0, 2.0, 3.0])
    labels = (xs * [1.0, 2.0, 3.0] @ weights).argmax(1)
    out = tmp_path_factory.mktemp("scaled") / "run"
    return hf.certify_run(
        hf.SmoothedClassifier(model, 0.05), xs, labels, out=out, settings=hf.Settings(600, 30), seed=1
    )


@pytest.mark.parametrize("measure", ["label", "score"])
def test_an_exported_log_keeps_the_units_of_its_radii(tmp_path: Path, scaled_run: hf.Run, measure: str) -> None:
    log = scaled_run.export(measure, tmp_path / "a.tsv")
    run = imported(log)
    assert run.units == scaled_run.units == "units of each feature's scale"
    assert run.radii_in == scaled_run.radii_in
    assert run.export(measure, tmp_path / "again.tsv").read_bytes() == log.read_bytes()
    assert run.verify().problems == ()
    # A log of radii in the input's own units has no such column.
    rows = [line.split("\t")[:-1] for line in log.read_text().splitlines()]
    log.write_text("".join("\t".join(row) + "\n" for row in rows))
    assert hf.Run.open(import_log(log, tmp_path / "old").path).units == ""


def test_an_export_inside_a_run_does_not_verify_without_its_units(tmp_path: Path, scaled_run: hf.Run) -> None:
    copied = tmp_path / "run"
    shutil.copytree(scaled_run.path, copied)
    run = hf.Run.open(unsealed(copied))
    place = run.path / "exports" / "cohen.tsv"
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    run.export("label", place)
    assert run.verify().problems == ()
    rows = [line.split("\t") for line in place.read_text().splitlines()]
    for cut in (
        [row[:-1] for row in rows],  # its radii would be read as in the input's own units
        [row[: -len(ORIGIN_COLUMNS) - 1] for row in rows],
        [[*row[:-1], "mm" if k else "units"] for k, row in enumerate(rows)],
    ):
        place.write_text("".join("\t".join(row) + "\n" for row in cut))
        assert "is not what the counts give" in str(run.verify().problems)


def test_a_triage_says_the_units_of_its_radius_and_refuses_others(scaled_run: hf.Run) -> None:
    found = hf.choose_threshold(scaled_run.labelled(), radius=0.01, epsilon=0.3)
    assert "up to radius 0.01 in l2, in units of each feature's scale an adversary chooses" in str(found)
    assert hf.Triage.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    plain = scaled_run[0].certificate.to_dict()
    del plain["provenance"]["units"]
    with pytest.raises(hf.InvalidInput, match="radii in units of each feature's scale"):
        found.decide(hf.Certificate.from_dict(plain))


def test_numbers_that_no_certificate_has_are_refused_with_their_line(tmp_path: Path) -> None:
    label = anonymous(made_run(tmp_path / "made", 12).export("label", tmp_path / "label_sigma0.25.tsv"))
    score = anonymous(hf.Run.open(tmp_path / "made").export("score", tmp_path / "score.tsv"))
    for log, column, value, said in (
        (label, "idx", "-1", "line 4: idx and label must be whole numbers from 0"),
        (label, "label", "-1", "line 4: idx and label must be whole numbers from 0"),
        (label, "predict", "-2", "line 4: idx and label .* got 2, . and -2"),
        (label, "radius", "inf", "line 4: numbers must be finite"),
        (label, "radius", "3.0", "has the label radius 3, and with sigma = 0.25 there is none beyond 2.05"),
        (label, "radius", "-0.1", "line 4: a radius must be at least 0, got -0.1"),
        (score, "exp_cdf_150", "0.999", "line 4: a bound is larger at a larger radius"),
        (score, "exp_25", "1", "line 4: a bound is larger at a larger radius"),
        (score, "exp_00", "nan", "line 4: numbers must be finite"),
    ):
        rows = [line.split("\t") for line in log.read_text().splitlines()]
        at = rows[0].index(column)
        rows[3][at] = value
        rows[3][-2] = str(int(rows[3][1] == rows[3][2]))
        wrong = tmp_path / f"wrong_sigma0.25_{column}.tsv"
        wrong.write_text("".join("\t".join(row) + "\n" for row in rows))
        with pytest.raises(hf.HoldfastError, match=said):
            import_log(wrong, tmp_path / "b")
        assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("column", ["exp_cdf_50", "exp_50"])
def test_a_log_has_no_bound_beyond_full_agreement(tmp_path: Path, column: str) -> None:
    """The best classifier is a half space, and the best sample one in which all copies fall into it."""
    made = made_run(tmp_path / "made", 12)
    log = made.export("score", tmp_path / "a.tsv")
    rows = [line.split("\t") for line in log.read_text().splitlines()]
    at, surest = rows[0].index(column), (0.001 / len(made.measures)) ** (1 / 400)
    for more, fits in ((-0.001, True), (0.015, False)):
        for k in range(3):
            rows[3][at - 2 + k] = str(float(ndtr(ndtri(surest) - k)) + more)
        log.write_text("".join("\t".join(row) + "\n" for row in rows))
        if fits:
            assert import_log(log, tmp_path / "b").verify().problems == ()
        else:
            with pytest.raises(hf.InvalidArgument, match=r"has the bound .* even if all noisy copies agree"):
                import_log(log, tmp_path / "c")


def test_a_noise_that_the_name_contradicts_is_said(tmp_path: Path) -> None:
    log = anonymous(made_run(tmp_path / "made", 3).export("label", tmp_path / "label_sigma0.25.tsv"))
    with pytest.warns(
        RuntimeWarning, match=r"is named as if its noise were sigma = 0.25; it is taken to be sigma = 0.5"
    ):
        assert import_log(log, tmp_path / "a", sigma=0.5).noise == Gaussian(0.5)
    assert import_log(log, tmp_path / "b", sigma=0.25).noise == Gaussian(0.25)


def test_a_log_saved_by_a_spreadsheet_is_read(tmp_path: Path) -> None:
    log = made_run(tmp_path / "made", 3).export("label", tmp_path / "a.tsv")
    plain = log_numbers(read_log(log))
    log.write_bytes(b"\xef\xbb\xbf" + log.read_bytes().replace(b"\n", b"\r\n"))
    np.testing.assert_array_equal(log_numbers(read_log(log)), plain)


def test_a_log_that_says_its_n_has_no_radius_beyond_full_agreement(tmp_path: Path) -> None:
    made = made_run(tmp_path / "made", 12)
    log = made.export("label", tmp_path / "a.tsv")
    rows = [line.split("\t") for line in log.read_text().splitlines()]
    most = 0.25 * float(ndtri((0.001 / len(made.measures)) ** (1 / 400)))
    for factor, fits in ((1.0, True), (1.02, False)):
        rows[3][3] = f"{factor * most:.4g}"
        log.write_text("".join("\t".join(row) + "\n" for row in rows))
        if fits:
            assert import_log(log, tmp_path / "b").verify().problems == ()
        else:
            with pytest.raises(hf.InvalidArgument, match="even if all noisy copies agree"):
                import_log(log, tmp_path / "c")
