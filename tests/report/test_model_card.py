"""Metadata for a model card: what a YAML reader makes of it, and what it must not say."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import holdfast as hf
from holdfast.cli.app import run as holdfast
from holdfast.report.accuracy import Question, as_json
from holdfast.report.model_card import model_card
from holdfast.report.payload import facts
from holdfast.runs.imported import import_log
from holdfast.runs.run import Run
from made_runs import made_run, unsealed

ASKED = Question(radii=(0.0, 0.25), thresholds=(0.5,))


def front_matter(text: str) -> dict[str, Any]:
    before, matter, after = text.split("---\n")
    assert before == after == ""
    found: dict[str, Any] = yaml.safe_load(matter)
    return found


def test_every_number_is_the_runs_and_says_what_it_was_computed_with(tmp_path: Path) -> None:
    run = made_run(tmp_path / "a", 30)
    (model,) = front_matter(model_card([run], ASKED))["model-index"]
    (result,) = model["results"]
    assert result["dataset"] == {"type": "made-up", "name": "made-up"}
    assert len(result["metrics"]) == 2 + 2 * 2
    for metric in result["metrics"]:
        assert metric["type"] == "certified_accuracy"
        of = metric["args"]
        thresholds = () if of["measure"] == "label" else (of["threshold"],)
        known = run.certified_accuracy(of["measure"], radii=[of["radius"]], thresholds=thresholds)
        assert metric["value"] == known[0, 0]
        assert of["interval"][0] <= metric["value"] <= of["interval"][1]
        assert (of["n"], of["alpha"], of["claims"], of["inputs"]) == (400, 0.001, "label, score, margin", 30)
    names = [metric["name"] for metric in result["metrics"]]
    assert names[1] == "Certified accuracy: label within radius 0.25"
    assert names[3] == "Certified accuracy: average score > 0.5 within radius 0.25"


def test_runs_of_one_network_are_results_of_one_model(tmp_path: Path) -> None:
    runs = [made_run(tmp_path / name, 3) for name in ("a", "b", "c")]
    for run, model in zip(runs, ("nets/one.v2.safetensors", "one.v2", "two"), strict=True):
        unsealed(run.path, model=model)
    index = front_matter(model_card([Run.open(run.path) for run in runs], ASKED))["model-index"]
    assert [(model["name"], len(model["results"])) for model in index] == [("one.v2", 2), ("two", 1)]


@pytest.mark.parametrize("name", ['a"b: c', "- x", "---\nlicense: mit", "é 😀", "\x1b[2J\x85", "null", "1e-05"])
def test_a_name_stays_a_text_whatever_is_in_it(name: str, tmp_path: Path) -> None:
    unsealed(made_run(tmp_path / "a", 3, data="x").path, data=name)
    matter = front_matter(model_card([Run.open(tmp_path / "a")], ASKED))
    assert set(matter) == {"tags", "model-index"}
    found = matter["model-index"][0]["results"][0]["dataset"]["name"]
    assert found == name or not name.isprintable()
    assert isinstance(found, str)


def test_small_numbers_stay_numbers(tmp_path: Path) -> None:
    text = model_card([made_run(tmp_path / "a", 3)], Question(radii=(1e-05,), thresholds=(0.5,)))
    metric = front_matter(text)["model-index"][0]["results"][0]["metrics"][0]
    assert metric["args"]["radius"] == 1e-05


def test_other_methods_may_be_named_and_estimates_are_refused(tmp_path: Path) -> None:
    run = made_run(tmp_path / "a", 3)
    text = model_card([run], Question(radii=(0.25,), thresholds=(0.5,), methods=("cdf-dkw",)))
    metrics = front_matter(text)["model-index"][0]["results"][0]["metrics"]
    assert {metric["args"]["method"] for metric in metrics} == {"votes-clopper-pearson", "cdf-dkw"}
    with pytest.raises(hf.InvalidArgument, match="a model card says what is certified"):
        model_card([run], Question(methods=("cdf-empirical",)))


def test_a_run_whose_own_bounds_are_estimates_has_no_card_and_no_metrics(tmp_path: Path) -> None:
    run = Run.open(unsealed(made_run(tmp_path / "a", 3).path, method="cdf-empirical"))
    with pytest.raises(
        hf.InvalidArgument, match="cdf-empirical gives estimates, and a model card says what is certified"
    ):
        model_card([run], ASKED)
    with pytest.raises(hf.InvalidArgument, match="gives estimates and certifies nothing"):
        run.metrics(radii=[0.25])
    assert "score &gt; 0.5 (estimate, not certified)" in run._repr_html_()
    asked = Question(radii=(0.25,), thresholds=(0.5,), methods=("cdf-dkw",))
    assert '"cdf-dkw"' in model_card([run], asked)


def test_radii_that_are_not_in_the_inputs_units_say_so_everywhere(tmp_path: Path) -> None:
    made = made_run(tmp_path / "a", 3)
    run = Run.open(
        unsealed(made.path, provenance={**made.config["provenance"], "units": "units of each feature's scale"})
    )
    (model,) = front_matter(model_card([run], ASKED))["model-index"]
    metric = model["results"][0]["metrics"][0]
    assert metric["name"].endswith("within radius 0 in l2, in units of each feature's scale")
    assert metric["args"]["units"] == "units of each feature's scale"
    assert as_json([run], ASKED)["runs"][0]["units"] == "units of each feature's scale"
    said = "(ℓ₂, in units of each feature's scale)"
    assert run.plot_certified_accuracy().get_xlabel().endswith(said)
    assert run[0].certificate.plot().get_xlabel().endswith(said)
    assert ["radii are in", "l2, in units of each feature's scale"] in facts(run)
    assert made.radii_in == "l2"


def test_a_card_of_an_imported_log_says_that_nothing_was_checked(tmp_path: Path) -> None:
    log = made_run(tmp_path / "a", 3).export("score", tmp_path / "log.tsv")
    run = import_log(log, tmp_path / "b")
    (model,) = front_matter(model_card([run], ASKED))["model-index"]
    assert {metric["args"]["source"] for metric in model["results"][0]["metrics"]} == {"an imported log, not checked"}
    assert "it holds no counts, so nothing was checked" in str(run.report(tmp_path / "c"))


def test_the_command_prints_a_card_or_writes_a_new_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = made_run(tmp_path / "a", 3)
    asked = ["report", str(run.path), "--format", "card", "--radii", "0,0.25", "--threshold", "0.5"]
    assert holdfast(asked) == 0
    printed = capsys.readouterr().out
    assert printed == model_card([Run.open(run.path)], ASKED)
    assert holdfast([*asked, "--out", str(tmp_path / "README.md")]) == 0
    assert (tmp_path / "README.md").read_text() == printed
    assert holdfast([*asked, "--out", str(tmp_path / "README.md")]) != 0
    assert json.dumps(front_matter(printed))
    assert not (run.path / "figures").exists()
