"""Audits of the shipped networks, at size: attacked inputs beside small-n certificates, and bounds that were broken on purpose.

    python benchmarks/audit.py [--photos photos.npz] [--only fashion-mnist] [--save]

The Fashion-MNIST network is attacked at its 500 embedded images and 21 radii. The networks for CIFAR-10 are attacked on a GPU at
eleven radii, and on a CPU, where each takes seconds, at a few inputs: images of 32 x 32 from ``--photos``, or else embedded images
on a wider ground. What is certified holds at any input. ``wrong`` is a probit network whose bounds are computed for a part of
the radius only.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray

import holdfast as hf
from holdfast.runs.audit import Audit
from holdfast.runs.auditing import AuditPlan, audit_run
from holdfast.zoo.datasets.embedded import load_fashion_mnist
from holdfast.zoo.datasets.open import open_dataset
from holdfast.zoo.pretrained import load_embedded_model

CIFAR = {"cifar10-sharp-sigma0.25": 0.25, "cifar10-sharp-sigma0.50": 0.5}
DECAY: Callable[..., Callable[[float], NDArray[np.float64]]] = hf.Gaussian.decay


def audited(
    smoothed: hf.SmoothedClassifier, inputs: NDArray[Any], plan: AuditPlan, *, n: int, broken: float = 1.0
) -> Audit:
    """Certify inputs and attack them; bounds are those of a part ``broken`` of the radius."""
    with tempfile.TemporaryDirectory() as folder:
        labels, settings = np.zeros(len(inputs), dtype=np.int64), hf.Settings(n=n)
        run = hf.certify_run(smoothed, inputs, labels, out=Path(folder) / "run", settings=settings, seed=1)
        with patch.object(hf.Gaussian, "decay", lambda noise, p: lambda radius: DECAY(noise, p)(broken * radius)):
            return audit_run(smoothed, run, run_inputs(inputs), plan)


def run_inputs(inputs: NDArray[Any]) -> NDArray[np.float32]:
    return inputs.astype(np.float32) / np.float32(255) if inputs.dtype == np.uint8 else inputs


def summary(name: str, audit: Audit, seconds: float) -> dict[str, Any]:
    found = {
        "network": name,
        "pairs": audit.table.num_rows,
        "violations": len(audit.violations),
        **{each: float(audit.column(each, "score").mean()) for each in ("clean", "certified", "attacked")},
        "seconds": seconds,
        "by_radius": [vars(row) for row in audit.rows() if row.measure == "score"],
    }
    print({key: value for key, value in found.items() if key != "by_radius"}, flush=True)
    return found


def measured(name: str, make: Callable[[], Audit]) -> dict[str, Any]:
    begin = time.perf_counter()
    return summary(name, make(), time.perf_counter() - begin)


def fashion() -> Audit:
    smoothed = hf.SmoothedClassifier(load_embedded_model().net, 0.25)
    radii = [round(0.05 * k, 2) for k in range(21)]
    plan = AuditPlan(radii=radii, n=300, seed=1, attack=hf.Attack(steps=5))
    return audited(smoothed, load_fashion_mnist().images, plan, n=1_000)


def cifar(name: str, images: NDArray[np.uint8]) -> Audit:
    gpu = torch.cuda.is_available()
    device = "cuda" if gpu else "cpu"
    smoothed = hf.SmoothedClassifier(load_embedded_model(name).net, CIFAR[name], device=device, compile=False)
    radii = [round(0.2 * k * CIFAR[name], 3) for k in range(11)] if gpu else None
    hard = hf.Attack(restarts=1) if gpu else hf.Attack(steps=5, copies=4, restarts=1)
    return audited(smoothed, images, AuditPlan(radii=radii, n=200, seed=1, attack=hard), n=400)


def probit(broken: float) -> Audit:
    rng = np.random.default_rng(1)
    weights = rng.normal(size=784)
    weights *= 3 / np.linalg.norm(weights)
    towards = (weights / 6).astype(np.float32)
    inputs = towards + rng.normal(scale=0.1, size=(100, 784)).astype(np.float32)
    smoothed = hf.SmoothedClassifier(hf.ProbitModel(weights), 0.25, outputs="probabilities")
    return audited(smoothed, inputs, AuditPlan(n=2_000, seed=1), n=10_000, broken=broken)


def small_images(photos: Path | None, count: int) -> NDArray[np.uint8]:
    """Colour images of 32 x 32."""
    if photos is not None:
        data = open_dataset(str(photos), split="test")
        return np.rint(255 * data.batch(np.arange(count) * len(data) // count)).astype(np.uint8)
    grey = load_fashion_mnist().images[:: 500 // count][:count]
    wide = np.pad(grey, ((0, 0), (0, 0), (2, 2), (2, 2)))
    return np.repeat(wide, 3, axis=1).astype(np.uint8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--photos", type=Path, help="an archive or folder of 32 x 32 colour images, such as CIFAR-10")
    parser.add_argument("--inputs", type=int, default=16, help="for each CIFAR-10 network")
    parser.add_argument("--only", default="", help="networks whose names begin like this")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--save", action="store_true", help="write audit.json beside this file")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    images = small_images(asked.photos, asked.inputs)
    audits: dict[str, Callable[[], Audit]] = {
        "fashion-mnist": fashion,
        **{name: partial(cifar, name, images) for name in CIFAR},
        **{f"probit, bounds at {part:g} R": partial(probit, part) for part in (1.0, 0.9, 0.8)},
    }
    found = [measured(name, make) for name, make in audits.items() if name.startswith(asked.only)]
    if asked.save:
        Path(__file__).with_suffix(".json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
