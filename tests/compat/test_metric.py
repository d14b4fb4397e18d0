import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import holdfast as hf
from holdfast.compat.lightning import CertifiedAccuracyCallback
from holdfast.compat.metric import CertifiedAccuracy
from made_runs import made_run
from networks import images, small_net

RADII = (0.0, 0.1, 0.25)


def test_a_runs_metrics_are_its_certified_accuracy_by_name(tmp_path: Path) -> None:
    run = made_run(tmp_path / "a", 40)
    found = run.metrics(radii=RADII, thresholds=(0.5, 0.7))
    assert found["certified_inputs"] == 40.0
    assert found["smoothed_accuracy"] == pytest.approx(run.correct.mean())
    label = run.certified_accuracy("label", radii=RADII)
    score = run.certified_accuracy("score", radii=RADII, thresholds=(0.5, 0.7))
    assert found["certified_accuracy/label/radius_0.25"] == label[0, 2] > 0
    assert found["certified_accuracy/score_above_0.7/radius_0.1"] == score[1, 1] > 0
    assert len(found) == 2 + 3 + 2 * 2 * 3
    assert all(type(value) is float for value in found.values())


def test_names_suit_mlflow_and_the_usual_radii_are_a_reports(tmp_path: Path) -> None:
    found = made_run(tmp_path / "a", 3).metrics()
    assert all(re.fullmatch(r"[\w./ -]+", name, flags=re.ASCII) for name in found)
    assert {f"certified_accuracy/label/radius_{radius}" for radius in ("0", "0.25", "0.5", "0.75", "1")} <= set(found)
    assert "certified_accuracy/margin_above_0/radius_1" in found


def test_the_metric_counts_batch_by_batch_what_the_run_counts_at_once(tmp_path: Path) -> None:
    run = made_run(tmp_path / "a", 40)
    metric = CertifiedAccuracy(RADII, thresholds=(0.5, 0.7))
    for _ in range(2):  # the second time after a reset
        certificates, labels = zip(*run.labelled(), strict=True)
        metric.update(certificates[:30], torch.tensor(labels[:30]))
        metric.update(certificates[30:-1], np.array(labels[30:-1]))
        metric.update(certificates[-1], labels[-1])
        assert metric.compute() == pytest.approx(run.metrics(radii=RADII, thresholds=(0.5, 0.7)))
        metric.reset()


def test_a_label_radius_includes_itself(tmp_path: Path) -> None:
    run = made_run(tmp_path / "a", 10)
    right = next(each for each, label in run.labelled() if each.label_radius > 0 and each.predicted == label)
    metric = CertifiedAccuracy((right.label_radius, np.nextafter(right.label_radius, np.inf)))
    metric.update(right, right.predicted)
    shares = [share for name, share in metric.compute().items() if "/label/" in name]
    assert shares == [1.0, 0.0]


def test_the_metric_refuses_what_would_be_counted_wrongly(tmp_path: Path) -> None:
    metric = CertifiedAccuracy(RADII)
    with pytest.raises(hf.InvalidArgument, match="there are no certificates yet"):
        metric.compute()
    with pytest.raises(hf.InvalidArgument, match="expected certificates, as certify_many returns them, got int"):
        metric.update([1], [1])  # type: ignore[list-item]
    (certificate, label), *_ = made_run(tmp_path / "a", 2).labelled()
    with pytest.raises(hf.InvalidArgument, match="one label for each certificate, got 1 certificates and 2 labels"):
        metric.update([certificate], [label, label])
    with pytest.raises(hf.InvalidArgument, match="labels must be classes, whole numbers from 0, got -3"):
        metric.update(certificate, -3)
    with pytest.raises(hf.InvalidArgument, match="gives estimates, which certify nothing"):
        metric.update(certificate.recompute(method=hf.CDF(band=hf.Empirical())), label)
    metric.update(certificate, label)
    with pytest.raises(hf.InvalidArgument, match="must all claim the same, got one that claims score"):
        metric.update([certificate, certificate.recompute(claims=("score",))], [label, label])
    assert metric.compute()["certified_inputs"] == 1.0  # what was refused is not counted in part
    with pytest.raises(hf.InvalidArgument, match="radius must be"):
        CertifiedAccuracy((-1.0,))


class Module(nn.Module):
    """As much of a LightningModule as the callback touches."""

    def __init__(self) -> None:
        super().__init__()
        self.net = small_net()
        self.logged: list[dict[str, float]] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = self.net(x)
        return answer

    def log_dict(self, numbers: dict[str, float], *, rank_zero_only: bool) -> None:
        assert rank_zero_only
        self.logged.append(numbers)


def trainer(**changes: Any) -> SimpleNamespace:
    return SimpleNamespace(**{"sanity_checking": False, "current_epoch": 0, "is_global_zero": True, **changes})


def callback(**changes: Any) -> CertifiedAccuracyCallback:
    xs = images(4)
    classes = [hf.SmoothedClassifier(small_net(), 0.05).certify(x, n=100, seed=0).predicted for x in xs]
    pairs = list(zip(xs, classes, strict=True))
    return CertifiedAccuracyCallback(pairs, 0.05, **{"radii": (0.0, 0.05), "n": 200, **changes})


def test_the_callback_logs_certificates_of_the_network_as_it_is_at_each_validation() -> None:
    module, observer = Module().train(), callback(every=2, claims=("label",), network=lambda module: module.net)
    before = torch.get_rng_state()
    observer.on_validation_epoch_end(trainer(), module)
    with torch.no_grad():
        for parameter in module.net.parameters():
            parameter.neg_()
    observer.on_validation_epoch_end(trainer(current_epoch=2), module)
    first, second = module.logged
    assert first["certified_accuracy/label/radius_0"] > second["certified_accuracy/label/radius_0"]
    assert first["certified_inputs"] == second["certified_inputs"] == 4.0
    assert module.training
    assert torch.equal(before, torch.get_rng_state())
    for other in (trainer(sanity_checking=True), trainer(current_epoch=1), trainer(is_global_zero=False)):
        observer.on_validation_epoch_end(other, module)
    assert len(module.logged) == 2


def test_the_callback_takes_the_module_itself_unless_told_otherwise() -> None:
    module = Module()
    callback().on_validation_epoch_end(trainer(), module)
    assert set(module.logged[0]) >= {"certified_accuracy/score_above_0.5/radius_0.05"}


@pytest.mark.parametrize(
    ("message", "changes"),
    [
        ("can never certify the score", {"n": 5}),
        ("every must be", {"every": 0}),
        ("claims must be", {"claims": ("a",)}),
    ],
)
def test_the_callback_is_refused_before_training(message: str, changes: dict[str, Any]) -> None:
    with pytest.raises(hf.InvalidArgument, match=message):
        callback(**changes)
    with pytest.raises(hf.InvalidInput, match="data must have pairs"):
        CertifiedAccuracyCallback(images(2), 0.05, radii=(0.0,))
