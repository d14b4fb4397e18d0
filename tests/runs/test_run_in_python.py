"""What a person does with runs in Python: certifying data of any shape, indexing, frames, reports, exports, methods."""

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import holdfast as hf
from holdfast.runs.certified import CertifiedRun
from made_runs import SIGMA, made_run
from networks import images, small_net

SETTINGS = hf.Settings(n=400, n0=20)
X, Y = images(4), np.arange(4) % 4
PAIRS = [(x, int(y)) for x, y in zip(X, Y, strict=True)]


def smoothed() -> hf.SmoothedClassifier:
    return hf.SmoothedClassifier(small_net(12), 0.2)


def certified(out: Path, *data: Any, **options: Any) -> CertifiedRun:
    return hf.certify_run(smoothed(), *data, out=out, settings=SETTINGS, seed=1, **options)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> CertifiedRun:
    return made_run(tmp_path_factory.mktemp("runs") / "a", 12, sides="both")


@pytest.mark.parametrize(
    "data",
    [
        (torch.from_numpy(X), torch.from_numpy(Y)),
        (torch.from_numpy(X).requires_grad_(), Y.tolist()),
        (list(X), Y),
        (PAIRS,),
        (TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)),),
        (TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)), Y),
        (TensorDataset(torch.from_numpy(X)), Y),
    ],
    ids=["tensors", "with a gradient", "a list", "pairs", "a dataset", "a dataset and its labels", "a dataset without"],
)
def test_inputs_and_labels_are_understood_in_every_usual_form(tmp_path: Path, data: tuple[Any, ...]) -> None:
    found, plain = certified(tmp_path / "a", *data), certified(tmp_path / "b", X, Y)
    assert [entry.certificate for entry in found] == [entry.certificate for entry in plain]
    assert found.config["fingerprints"] == plain.config["fingerprints"]


def test_loaded_data_keep_their_name_and_indices(tmp_path: Path) -> None:
    data = hf.datasets.load("fashion-mnist").every(40, 2)
    smoothed = hf.SmoothedClassifier(hf.load("fashion-mnist"), 0.25)
    run = hf.certify_run(smoothed, data, out=tmp_path / "a", settings=SETTINGS)
    assert (run.config["data"], [entry.index for entry in run]) == ("fashion-mnist", data.indices.tolist())
    assert repr(data) == "LabelledInputs('fashion-mnist': 2 inputs of shape (1, 28, 28))"


@pytest.mark.parametrize(
    ("data", "options", "said"),
    [
        ((X, Y + 12), {}, "labels must be classes of the model, 0 to 11, got 12 for input 0 and 3 others"),
        ((X, Y - 1), {}, "labels must be class numbers from 0, got -1"),
        ((X, Y * 1.0), {}, "labels must be one class number for each input, got an array of float64"),
        (
            (X, np.eye(4, dtype=int)),
            {},
            "labels must be one class number for each input, got an array of int64 with shape",
        ),
        ((X, ["cat"] * 4), {}, "labels must be one class number for each input"),
        ((X, [[1], [2, 3], 0, 0]), {}, "labels must be one class number for each input, got list"),
        ((X, Y[:2]), {}, "expected a label for each input, got 4 inputs and 2 labels"),
        ((X,), {}, "labels are missing"),
        ((PAIRS, Y[::-1]), {}, "the labels are not those of the dataset"),
        (([(x, 0, 0) for x in X],), {}, "must all be .* pairs, or all be inputs alone, got 3 parts"),
        (([PAIRS[0], X[1]],), {}, "got 1 and 2 parts"),
        (([{"image": X[0]}], [0]), {}, "input 0 must be an array or a tensor of numbers, got dict"),
        (([X[0], X[1][:, :3]], [0, 1]), {}, "input 1 has shape .* they must agree"),
        ((np.array([None] * 4), Y), {}, "must be an array or a tensor of numbers, got an array of object"),
        ((DataLoader(PAIRS),), {}, "a DataLoader has its .dataset"),  # type: ignore[arg-type]
        (("fashion-mnist",), {}, r"holdfast.datasets.load\(...\) loads data by name"),
        ((None, Y), {}, "got NoneType"),
        (([],), {}, "there are no inputs"),
        ((X, Y), {"label_names": "abcd"}, "label_names must be a word for each class"),
        ((X, Y), {"label_names": ("cat",)}, "1 for labels up to 3"),
        ((X, Y), {"name": 3}, "name must be a word"),
    ],
)
def test_what_is_no_labelled_data_is_refused_in_words_and_leaves_nothing(
    tmp_path: Path, data: tuple[Any, ...], options: dict[str, Any], said: str
) -> None:
    with pytest.raises(hf.HoldfastError, match=said):
        certified(tmp_path / "a", *data, **options)
    assert not (tmp_path / "a").exists()


def test_wrong_networks_settings_and_places_are_refused_in_words(tmp_path: Path) -> None:
    wrong: Any = small_net()
    with pytest.raises(hf.InvalidArgument, match="expected a SmoothedClassifier"):
        hf.certify_run(wrong, X, Y, out=tmp_path / "a")
    with pytest.raises(hf.InvalidArgument, match="settings must be"):
        hf.certify_run(smoothed(), X, Y, out=tmp_path / "a", settings=wrong)
    for path in (None, 3):
        with pytest.raises(hf.InvalidArgument, match="out must be a path"):
            hf.certify_run(smoothed(), X, Y, out=path)  # type: ignore[arg-type]
        with pytest.raises(hf.InvalidArgument, match="path must be a path, as a string"):
            hf.Run.open(path)  # type: ignore[arg-type]


def test_a_complete_run_of_the_same_question_is_returned(tmp_path: Path) -> None:
    first = certified(tmp_path / "a", X, Y)
    before = {path: path.read_bytes() for path in first.path.rglob("*") if path.is_file()}
    again = hf.certify_run(smoothed(), PAIRS, out=tmp_path / "a", settings=SETTINGS)
    assert [entry.certificate for entry in again] == [entry.certificate for entry in first]
    assert {path: path.read_bytes() for path in first.path.rglob("*") if path.is_file()} == before


def test_a_model_that_cannot_be_compared_says_at_the_start_that_its_run_cannot_be_resumed(tmp_path: Path) -> None:
    model = hf.SmoothedClassifier(lambda batch: np.full((len(batch), 4), 0.25), 0.2, outputs="probabilities")
    with pytest.warns(RuntimeWarning, match="if this run is interrupted, it cannot be resumed") as warned:
        hf.certify_run(model, X, Y, out=tmp_path / "a", settings=SETTINGS)
    assert warned[0].filename == __file__
    with pytest.raises(hf.RunError, match="a complete run of the same question, but this model cannot be compared"):
        hf.certify_run(model, X, Y, out=tmp_path / "a", settings=SETTINGS)


def test_inputs_are_found_by_their_position(run: CertifiedRun) -> None:
    entries = list(run)
    assert len(run) == len(entries) == 12
    for found, wanted in ((run[0], entries[0]), (run[-1], entries[-1]), (run[3], entries[3])):
        assert found == wanted
    assert run[2:5] == entries[2:5]
    assert run[::-2] == entries[::-2]
    wrongs: tuple[Any, ...] = (12, -13, "a", 1.0)
    for wrong in wrongs:
        with pytest.raises(hf.InvalidArgument, match="has 12 inputs: expected a position"):
            run[wrong]


def test_a_run_and_what_is_made_of_it_say_what_they_are(run: CertifiedRun) -> None:
    assert repr(run) == (
        f"CertifiedRun('{run.path}': 12 inputs of made-up; complete; label, score, margin; Gaussian(sigma=0.25); n=400; alpha=0.001)"
    )
    nameless = CertifiedRun(run.folder)
    nameless.config = {**run.config, "data": "inputs"}
    assert f"('{run.path}': 12 inputs; complete; " in repr(nameless)
    classes = hf.SmoothedClassifier(small_net(12), 0.2).certify_classes(X[0], n=400)
    assert (
        repr(classes)
        == f"ClassCertificate(class {classes.predicted} of 12; scores, gaps; n=400, Gaussian(sigma=0.2), alpha=0.001)"
    )
    assert str(classes).startswith(
        f"Class {classes.predicted}: for every perturbation up to radius 0.2, its average score stays"
    )


def test_a_triage_says_what_it_is_in_a_line(tmp_path: Path) -> None:
    run = made_run(tmp_path / "a", 200)
    triage = hf.choose_threshold(run.labelled(), radius=0.05, epsilon=0.3, delta=0.05)
    rule = "everything to a human" if triage.threshold is None else f"accepts from {triage.threshold:g}"
    assert (
        repr(triage)
        == f"Triage({rule}; radius=0.05, epsilon=0.3, delta=0.05; 200 inputs, {len(triage.rows)} thresholds)"
    )


def test_a_frame_has_a_row_for_each_input(run: CertifiedRun) -> None:
    frame = run.to_frame(radii=[0.0, 0.25])
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == [
        *("index", "label", "predicted", "abstained", "correct", "label_radius"),
        *(
            f"{measure}_{side}_at_{r}"
            for measure in ("score", "margin")
            for side in ("lower", "upper")
            for r in ("0", "0.25")
        ),
    ]
    for position, entry in enumerate(run):
        row, certificate = frame.iloc[position], entry.certificate
        assert (row["index"], row["label"], row["predicted"]) == (entry.index, entry.label, certificate.predicted)
        assert row["correct"] == (not certificate.abstained and certificate.predicted == entry.label)
        assert row["score_lower_at_0.25"] == certificate.score.lower(0.25)
        assert row["margin_upper_at_0.25"] == certificate.margin.upper(0.25)
        if certificate.label.certified:
            assert row["label_radius"] == certificate.label_radius
        else:
            assert np.isnan(row["label_radius"])
    assert frame["correct"].mean() == run.correct.mean()
    paper = run.to_frame(radii=0.25, method=hf.CDF(band=hf.DKW()))
    assert (paper["score_lower_at_0.25"] < frame["score_lower_at_0.25"]).all()


def test_without_pandas_a_frame_is_a_pyarrow_table(run: CertifiedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run.to_frame()
    monkeypatch.setitem(sys.modules, "pandas", None)
    table = run.to_frame()
    assert isinstance(table, pa.Table)
    assert table.column_names == list(whole.columns)
    assert table.column("score_lower_at_1").to_pylist() == whole["score_lower_at_1"].tolist()


def test_methods_are_objects_or_names_wherever_a_run_takes_them(run: CertifiedRun) -> None:
    for method in (hf.CDF(band=hf.DKW()), hf.Naive(), hf.Tangent(0.25), hf.BestOf((hf.CDF(), hf.Tangents()))):
        by_hand = [entry.certificate.recompute(method=method).score.lower(0.25) for entry in run]
        assert run.lower("score", method, 0.25).tolist() == by_hand
        assert np.array_equal(run.lower("score", method.name, 0.25), run.lower("score", method, 0.25))
        asked: dict[str, Any] = {"radii": [0.25], "thresholds": [0.5]}
        assert np.array_equal(
            run.certified_accuracy("score", method=method, **asked),
            run.certified_accuracy("score", method=method.name, **asked),
        )
    with mpl.rc_context({"backend": "agg"}):
        axes = run.plot_certified_accuracy("score", thresholds=[0.5], methods=(hf.CDF(), hf.CDF(band=hf.DKW())))
        legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()][1:] == ["CDF (Berk-Jones)", "CDF (DKW)"]


@pytest.mark.parametrize("method", [hf.DKW(), hf.Hoeffding(), hf.CDF, 3, "cdf-best"])
def test_what_is_no_method_is_refused_and_what_is_meant_is_named(run: CertifiedRun, method: Any) -> None:
    said = "unknown method" if isinstance(method, str) else "method must be one such as"
    for ask in (
        lambda: run.certified_accuracy("score", radii=[0], thresholds=[0.5], method=method),
        lambda: run.lower("score", method, [0]),
        lambda: run.plot_certified_accuracy("score", methods=[method]),
        lambda: run.report(methods=[method]),
    ):
        with pytest.raises(hf.InvalidArgument, match=said):
            ask()


WRONG: Any = 3


def test_wrong_measures_radii_and_thresholds_are_refused_in_words(run: CertifiedRun) -> None:
    for ask, said in (
        (lambda: run.lower("label", hf.CDF(), [0]), "has no bounds on the 'label'; it has: score, margin"),
        (lambda: run.certified_accuracy("votes", radii=[0]), "has no 'votes'"),
        (lambda: run.certified_accuracy("label", radii=[-1]), "radius must be finite and nonnegative"),
        (lambda: run.certified_accuracy("score", radii=[0], thresholds="half"), "thresholds must be a number"),
        (lambda: run.certified_accuracy("score", radii=[0], thresholds=[np.nan]), "needs thresholds="),
        (lambda: run.to_frame(radii="x"), "radii must be a number"),
        (lambda: run.report(beside=WRONG), "expected runs, such as"),
        (lambda: run.report(methods=WRONG), "method must be one such as"),
        (lambda: run.verify(key=WRONG), "key must be a path"),
        (lambda: run.export("votes", "a.tsv"), "has no 'votes' to export"),
        (lambda: run.report(beside=["runs/b"]), "expected runs"),  # type: ignore[list-item]
        (lambda: run.report(3), "out must be a path"),  # type: ignore[arg-type]
    ):
        with pytest.raises(hf.InvalidArgument, match=said):
            ask()


def test_a_report_is_written_and_printed(tmp_path: Path) -> None:
    run, other = made_run(tmp_path / "a", 12), made_run(tmp_path / "b", 9)
    report = run.report(thresholds=0.5, radii=[0.0, 0.25], methods=[hf.CDF()])
    assert report.page == run.path / "figures" / "report.html"
    assert "Holdfast report" in report.page.read_text()
    assert {path.name for path in report.figures} >= {"certified_accuracy_score.png", "certified_accuracy_label.svg"}
    assert all(path.stat().st_size > 1_000 for path in report.figures)
    lines = str(report).splitlines()
    assert lines[0].startswith("a: 12 inputs, made-up, sigma 0.25, n 400, alpha 0.001, right")
    share = run.certified_accuracy("score", radii=[0.25], thresholds=[0.5])[0, 0]
    assert any("score > 0.5" in line and line.endswith(f"{np.floor(1000 * share) / 10:.1f}") for line in lines)
    assert report.to_dict()["runs"][0]["sigma"] == SIGMA
    both = run.report(tmp_path / "both", beside=other)
    assert both.page == tmp_path / "both" / "report.html"
    assert [each["inputs"] for each in both.to_dict()["runs"]] == [12, 9]


def test_a_file_that_is_no_report_is_not_written_over(tmp_path: Path) -> None:
    run = made_run(tmp_path / "a", 3)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "report.html").write_text("mine")
    with pytest.raises(hf.RunError, match="is not a report written by Holdfast"):
        run.report(tmp_path / "mine")
    log = run.export("score", tmp_path / "a.tsv")
    before = log.read_bytes()
    with pytest.raises(hf.RunError, match="exists already"):
        run.export("score", log)
    assert log.read_bytes() == before


def test_an_imported_log_has_rows_and_bounds_and_no_certificates(run: CertifiedRun, tmp_path: Path) -> None:
    from holdfast.runs.imported import import_log

    log = import_log(run.export("score", tmp_path / "a.tsv"), tmp_path / "b")
    frame = log.to_frame()
    assert (frame["score_lower_at_0.25"] <= run.to_frame(radii=0.25)["score_lower_at_0.25"]).all()
    for ask in (lambda: log[0], lambda: list(log)):
        with pytest.raises(hf.InvalidArgument, match="it has numbers and no certificates"):
            ask()
    assert repr(log) == (
        f"ImportedRun('{log.path}': 12 inputs of a.tsv; complete; score; Gaussian(sigma=0.25); n=400; alpha=0.001)"
    )


def test_certified_accuracy_has_the_defaults_of_its_plot(tmp_path: Path) -> None:
    run = made_run(tmp_path / "a", 20)
    found = run.certified_accuracy(method=hf.CDF(band=hf.DKW()))
    asked = run.certified_accuracy(
        "score", radii=run.usual_radii, thresholds=run.thresholds("score"), method=hf.CDF(band=hf.DKW())
    )
    assert found.shape == (len(run.thresholds("score")), len(run.usual_radii))
    assert np.array_equal(found, asked)
    assert np.all(found <= run.certified_accuracy())
    with pytest.raises(hf.InvalidArgument, match="has no 'colour'"):
        run.certified_accuracy("colour")
