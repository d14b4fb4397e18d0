"""The example of chest X-rays, end to end on made-up pictures."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.pneumonia.run import ALPHA, ATTACK_RADIUS, main
from holdfast.triage.drift import drift_test

SCORES = Path(__file__).resolve().parents[2] / "experiments" / "pneumonia" / "scores.json"


def test_the_examples_test_images_are_flagged_and_halves_of_its_validation_images_are_not() -> None:
    scores = {split: np.array(found) for split, found in json.loads(SCORES.read_text()).items()}
    found = drift_test(scores["val"].tolist(), scores["test"], alpha=ALPHA)
    assert (found.calibration_inputs, found.inputs, found.drifted) == (524, 624, True)
    halves = np.random.default_rng(0).permutation(scores["val"])
    assert not drift_test(halves[:262].tolist(), halves[262:], alpha=ALPHA).drifted


@pytest.mark.slow
def test_the_example_runs_from_pictures_to_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {}
    for split, count in (("train", 400), ("val", 110), ("test", 120)):
        labels = rng.integers(2, size=count)
        pictures = rng.integers(60, 100, size=(count, 8, 8)) + 100 * labels[:, None, None]
        arrays |= {f"{split}_images": pictures.astype(np.uint8), f"{split}_labels": labels}
    data, work, out = tmp_path / "made_up.npz", tmp_path / "work", tmp_path / "out"
    np.savez(data, **arrays)
    asked = ["--data", str(data), "--work", str(work), "--out", str(out), "--n", "250", "--epochs", "25"]
    main(asked)
    for split in ("val", "test"):
        with np.load(work / "attacked.npz") as moved:
            away = np.linalg.norm(
                (moved[f"{split}_images"][:, 0] - arrays[f"{split}_images"] / 255).reshape(-1, 64), axis=1
            )
        assert 0.5 * ATTACK_RADIUS < away.max() <= ATTACK_RADIUS * (1 + 1e-6)
    shuffled = json.loads((out / "results.json").read_text())[1]
    at_rest = shuffled["lines"][0]
    assert shuffled["inputs"] == 115
    assert at_rest["threshold"] is not None  # easy pictures: something is accepted, and all of it is right
    assert at_rest["clean"]["wrong"] == 0 < at_rest["clean"]["accepted"]
    assert (out / "triage.png").stat().st_size > 10_000
    assert {split: len(found) for split, found in json.loads((out / "scores.json").read_text()).items()} == {
        "val": 110,
        "test": 120,
    }
    made = capsys.readouterr().out
    assert "holdfast train" in made
    main(asked)  # nothing is made twice
    assert "holdfast train" not in capsys.readouterr().out
    for option, other in (("--n", "251"), ("--epochs", "24")):
        with pytest.raises(SystemExit, match="other data, weights or options"):
            main([*asked, option, other])
    np.savez(data, **{**arrays, "val_images": arrays["val_images"][::-1]})
    with pytest.raises(SystemExit, match="clean-val was made from other data"):
        main(asked)
