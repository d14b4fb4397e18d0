"""Triage over HTTP: the rule that was calibrated, by noise that the caller does not know."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import holdfast as hf
from holdfast.cli.app import run
from holdfast.service.limits import Limits
from holdfast.service.service import Service
from networks import images, small_net
from serving import NPY, SIGMA, Running, npy, running, small_served

RADIUS = 0.6
#: Halfway between black and white, on the grid of bytes: no class is more than 0.5 sure.
GREY = (127 + np.arange(36) % 2).astype(np.float32).reshape(1, 6, 6) / np.float32(255)


class Bright(nn.Module):
    """Class 1 for images that are bright on average, and sure of it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        bright = 40 * (x.mean((1, 2, 3)) - 0.5)
        return torch.stack((-bright, bright), 1)


def smoothed() -> hf.SmoothedClassifier:
    return hf.SmoothedClassifier(Bright(), SIGMA, inputs="images", compile=False)


@pytest.fixture(scope="module")
def triage() -> hf.Triage:
    labels = [k % 2 for k in range(40)]
    xs = np.stack([np.full((1, 6, 6), label, dtype=np.float32) for label in labels])
    certificates = smoothed().certify_many(xs, n=6_000, n0=100, alpha=0.5, progress=False)
    found = hf.choose_threshold(
        zip(certificates, labels, strict=True),
        radius=RADIUS,
        fingerprint=smoothed().fingerprint,
        epsilon=0.25,
        delta=0.1,
        alpha=1e-4,
    )
    assert found.threshold is not None
    return found


@pytest.fixture(scope="module")
def deciding(triage: hf.Triage) -> Iterator[Running]:
    with running(replace(small_served(Bright()), triage=triage)) as found:
        yield found


def asked(service: Running, x: np.ndarray[tuple[int, ...], np.dtype[np.float32]], query: str = "") -> dict[str, object]:
    response = service.client.post(f"/v1/triage{query}", content=npy(x), headers={"Content-Type": NPY})
    assert response.status_code == 200, response.text
    found: dict[str, object] = response.json()
    return found


def test_a_sure_input_is_accepted_and_a_doubtful_one_handed_over(deciding: Running, triage: hf.Triage) -> None:
    sure = asked(deciding, np.ones((1, 6, 6), dtype=np.float32))
    assert (sure["accepted"], sure["predicted"]) == (True, 1)
    assert sure["promise"] == {"threshold": triage.threshold, "epsilon": 0.25, "delta": 0.1, "radius": RADIUS}
    assert asked(deciding, GREY)["accepted"] is False
    assert deciding.client.get("/v1/model").json()["triage"]["threshold"] == triage.threshold


def test_an_image_pushed_out_of_range_is_answered_not_refused(deciding: Running) -> None:
    x = np.ones((1, 6, 6), dtype=np.float32)
    x[0, 2, 3] += 0.59
    assert asked(deciding, x)["accepted"] is True
    refused = deciding.client.post("/v1/triage", content=npy(x + 5), headers={"Content-Type": NPY})
    assert refused.status_code == 422


def test_nobody_but_the_service_chooses_the_noise_and_an_input_is_not_judged_by_noise_that_was_seen(
    deciding: Running,
) -> None:
    x = np.full((1, 6, 6), 0.51, dtype=np.float32)
    found = {asked(deciding, x, "?seed=5")["confidence"] for _ in range(4)}
    assert len(found) > 1


def test_inputs_that_look_unlike_the_calibration_inputs_are_noticed_and_others_are_not(triage: hf.Triage) -> None:
    """Calibration inputs are all black or all white: as sure as they come. Grey is another thing."""
    sure, doubtful = np.zeros((1, 6, 6), dtype=np.float32), np.full((1, 6, 6), 0.5, dtype=np.float32)
    with running(replace(small_served(Bright()), triage=triage, drift_every=20)) as found:

        def drift() -> Any:
            return found.client.get("/v1/model").json()["drift"]

        for k in range(19):
            asked(found, sure + (k % 2))
        assert drift() is None
        asked(found, sure)
        assert (drift()["inputs"], drift()["drifted"]) == (20, False)
        for _ in range(20):
            asked(found, doubtful)
        assert (drift()["inputs"], drift()["drifted"]) == (20, True)
        assert drift()["said"].startswith("Drift: ")


def test_without_a_rule_there_is_no_triage() -> None:
    with running() as service:
        response = service.client.post("/v1/triage", content=npy(images(1)[0]), headers={"Content-Type": NPY})
        assert response.status_code == 404
        assert "has no triage" in response.json()["error"]


def test_a_rule_for_something_else_is_refused_before_anything_is_served(triage: hf.Triage) -> None:
    served = small_served(Bright())
    with pytest.raises(hf.HoldfastError, match="other"):
        Service(replace(small_served(small_net()), triage=triage), Limits())
    with pytest.raises(hf.HoldfastError, match="the threshold was chosen for the model"):
        Service(
            replace(served, triage=replace(triage, origin=replace(triage.origin, noise=hf.Gaussian(0.1)))), Limits()
        )
    with pytest.raises(hf.InvalidArgument, match="at most 1,000"):
        Service(replace(served, triage=triage), Limits(copies=1_000))


def test_a_file_that_is_no_triage_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for content in ("", "[1]", json.dumps({"format": 7})):
        path = tmp_path / "triage.json"
        path.write_text(content, encoding="utf-8")
        assert run(["serve", "--no-open", "--port", "0", "--triage", str(path)]) == hf.InvalidArgument.exit_code
        assert "triage" in capsys.readouterr().err
