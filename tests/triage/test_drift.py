"""Drift: false alarms are as rare as stated, whatever the distribution; what differs is found."""

import itertools
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from test_triage import certificate, population, stored

import holdfast as hf
from holdfast.cli.app import run as holdfast
from holdfast.errors import DriftFound
from holdfast.triage.drift import drift_test


def relabelled(values: list[float], first: int) -> Counter[float]:
    """The p-values of all ways to split the values, each as likely as any other if there is no drift."""
    found: Counter[float] = Counter()
    for chosen in itertools.combinations(range(len(values)), first):
        rest = [values[k] for k in range(len(values)) if k not in chosen]
        found[drift_test([values[k] for k in chosen], rest, alpha=0.5).p_value] += 1
    return found


def test_without_ties_the_p_value_is_the_share_of_splits_that_differ_as_much() -> None:
    found = relabelled([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9], 4)
    below = 0
    for p in sorted(found):
        below += found[p]
        assert p == pytest.approx(below / 126, abs=1e-8)


@pytest.mark.parametrize("values", [[0.1] * 5 + [0.9] * 4, [0.0, 0.5, 0.5, 0.5, 0.5, 0.7, 0.7, 1.0, 1.0], [0.3] * 9])
def test_with_ties_small_p_values_are_rarer_still(values: list[float]) -> None:
    found = relabelled(values, 4)
    below = 0
    for p in sorted(found):
        below += found[p]
        assert below / 126 <= p


@pytest.mark.parametrize(
    ("draw", "exact"),
    [
        (lambda rng, count: rng.beta(8, 2, count), True),
        (lambda rng, count: np.round(rng.beta(8, 2, count), 1), False),
        (lambda rng, count: np.where(rng.random(count) < 0.9, 1.0, rng.random(count)), False),
    ],
)
def test_false_alarms_come_at_their_stated_rate_on_2000_days(
    draw: Callable[[np.random.Generator, int], np.ndarray], exact: bool
) -> None:
    rng, alpha, days = np.random.default_rng(20), 0.05, 2_000
    alarms = sum(drift_test(draw(rng, 150), draw(rng, 80), alpha=alpha).drifted for _ in range(days))
    assert binom.sf(alarms - 1, days, alpha) > 1e-3  # no more than stated
    if exact:
        assert alarms > 0.7 * alpha * days  # and not far fewer, where scores are not tied
    shifted = sum(drift_test(draw(rng, 150), 0.9 * draw(rng, 80), alpha=alpha).drifted for _ in range(50))
    assert shifted > 25


def test_the_sentence_says_where_the_scores_differ_and_what_follows() -> None:
    found = drift_test(np.linspace(0.5, 1, 200), np.linspace(0.2, 0.6, 100), alpha=0.01)
    assert found.drifted
    assert (found.score, found.calibration_share, found.share) == (0.6, 0.2, 1.0)
    assert "100.0% of 100 new inputs have an average score of at most 0.600, and 20.0% of the 200 calibration" in str(
        found
    )
    assert "calibrate again" in str(found)
    same = drift_test(np.linspace(0.5, 1, 200), np.linspace(0.5, 1, 100), alpha=0.01)
    assert not same.drifted
    assert "does not show that the inputs are alike" in str(same)


def test_new_inputs_that_could_never_show_drift_are_refused() -> None:
    calibration = np.linspace(0.5, 1, 100).tolist()
    with pytest.raises(hf.InvalidInput, match=r"2 new inputs are too few .* collect at least 3"):
        drift_test(calibration, [0.1, 0.2], alpha=1e-4)
    assert drift_test(calibration, [0.1, 0.2, 0.3], alpha=1e-4).drifted
    for bad in ([], [0.5, 1.5], [0.5, np.nan], [[0.5]], ["a"]):
        with pytest.raises(hf.InvalidInput, match="scores must be"):
            drift_test(calibration, bad, alpha=0.01)
    with pytest.raises(hf.InvalidInput, match="check them in parts"):
        drift_test([0.5] * (2**15 + 1), np.full(2**16 + 1, 0.5), alpha=0.01)


@pytest.fixture(scope="module")
def triage() -> hf.Triage:
    return hf.choose_threshold(population(300, np.random.default_rng(1)), radius=0.05, epsilon=0.1)


def test_a_triage_keeps_the_scores_of_its_inputs_and_takes_them_one_at_a_time(triage: hf.Triage) -> None:
    again = hf.Triage.from_dict(json.loads(json.dumps(triage.to_dict())))
    assert again == triage
    assert len(triage.scores) == triage.inputs == 300
    day = []
    for made, _ in population(100, np.random.default_rng(2)):
        day.append(triage.score(made))
    assert not triage.drift(day).drifted
    assert again.drift([0.9 * score for score in day], alpha=0.001).drifted
    other = certificate(np.full(2_000, 0.9))
    with pytest.raises(hf.InvalidInput, match="certify new inputs as the calibration inputs were"):
        triage.score(other)  # more copies: averages vary less


def test_a_file_of_an_older_version_has_no_scores_and_still_decides(triage: hf.Triage) -> None:
    document = json.loads(json.dumps(triage.to_dict()))
    del document["scores"]
    old = hf.Triage.from_dict(document)
    assert old == replace(triage, scores=())
    assert old.decide(certificate(np.full(1_000, 0.99))).accepted
    with pytest.raises(hf.InvalidArgument, match="run 'holdfast triage' again"):
        old.drift([0.9] * 100)


def test_edited_scores_are_refused(triage: hf.Triage) -> None:
    document = json.loads(json.dumps(triage.to_dict()))
    scores = document["scores"]
    for edited in (scores[1:], scores[::-1], [0.5] * 300, [*scores[:-1], 1.5], ["a"] * 300):
        with pytest.raises(hf.InvalidArgument):
            hf.Triage.from_dict({**document, "scores": edited})


def test_the_command_flags_other_inputs_and_exits_with_a_code_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(6)
    network: dict[str, Any] = {"fingerprints": {"weights": "a1"}}
    run, alike = (
        stored(tmp_path / name, population(count, rng), **network) for name, count in (("a", 300), ("b", 150))
    )
    harder = [(certificate(rng.beta(8, 4, 1_000)), 0) for _ in range(100)]
    unlike = stored(tmp_path / "c", harder, **network)
    out = tmp_path / "triage.json"
    assert holdfast(["triage", str(run), "--radius", "0.05", "--epsilon", "0.1", "--out", str(out)]) == 0
    capsys.readouterr()
    assert holdfast(["drift", str(out), str(alike)]) == 0
    assert "No drift found" in capsys.readouterr().out
    assert holdfast(["drift", str(out), str(unlike), "--format", "json"]) == DriftFound.exit_code == 14
    said = capsys.readouterr()
    assert json.loads(said.out)["drifted"] is True
    assert "has drifted from what" in said.err
    other = stored(tmp_path / "d", harder, fingerprints={"weights": "b2"})
    assert holdfast(["drift", str(out), str(other)]) == hf.RunError.exit_code
    assert "other weights" in capsys.readouterr().err
    assert holdfast(["drift", str(run / "run.json"), str(alike)]) == hf.InvalidArgument.exit_code
    assert "TRIAGE must be a file that 'holdfast triage --out' wrote" in " ".join(capsys.readouterr().err.split())
