"""Runs of made-up certificates, written through the library's own store; no network, no sampling."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import holdfast as hf
from holdfast.measures import DEFAULT_MEASURES, MeasureInfo
from holdfast.noise import Gaussian, Noise
from holdfast.runs.certified import CertifiedRun
from holdfast.runs.folder import RunFolder, record
from holdfast.runs.store import Entry, write_part

SIGMA = 0.25
_MADE = {"noise": "made up", "model": "made up", "device": "cpu", "precision": "float32", "version": "0"}
SECRET = 0x5EED5EED
Made = Mapping[MeasureInfo, Callable[[NDArray[np.float64]], NDArray[np.float64]]]
"""Further measures, each as a function of the class's score."""

_SCORE, _MARGIN = (measure.info for measure in DEFAULT_MEASURES)
_DEFAULT: Made = {_SCORE: lambda score: score, _MARGIN: lambda score: 2 * score - 1}


def unsealed(path: Path, **changes: Any) -> Path:
    """The run without its manifest, as 0.1.0 would have left it, with other values in its run.json."""
    (path / "manifest.json").unlink(missing_ok=True)
    config = json.loads((path / "run.json").read_text())
    config.pop("sealed", None)
    (path / "run.json").write_text(json.dumps({**config, **changes}))
    return path


def made_run(
    path: Path,
    inputs: int,
    *,
    n: int = 400,
    sides: str = "lower",
    names: tuple[str, ...] = (),
    data: str = "made-up",
    seed: int = 0,
    in_a_part: int = 500,
    noise: Noise | None = None,
    measures: Made | None = None,
) -> CertifiedRun:
    """Logit-normal scores around all confidences, so that inputs are right, wrong and abstained on."""
    rng = np.random.default_rng(seed)
    added = Gaussian(SIGMA) if noise is None else noise
    counted = {**_DEFAULT, **(measures or {})}
    claims, method = ("label", *(info.name for info in counted)), hf.CDF()
    config = {
        "kind": "certified",
        "status": "complete",
        "data": data,
        "inputs": inputs,
        "label_names": list(names),
        **record(added, tuple(counted)),
        "n": n,
        "n0": 10,
        "alpha": 0.001,
        "claims": list(claims),
        "sides": sides,
        "method": method.name,
        "provenance": {**_MADE, "seed": hex(SECRET)},
    }
    folder = RunFolder.create(path, config)
    waiting: list[Entry] = []
    for index in range(inputs):
        score = 1 / (1 + np.exp(-rng.normal(rng.normal(2.0, 2.5), rng.uniform(0.5, 2.5), n)))
        certificate = hf.Certificate(
            predicted=int(rng.integers(3)),
            n0=10,
            alpha=0.001,
            claims=claims,
            sides="both" if sides == "both" else "lower",
            method=method,
            evidence=hf.Evidence(
                n,
                int((score > 0.5).sum()),
                {
                    info: hf.ScoreSamples(value(score), support=info.support, noise=added).histogram()
                    for info, value in counted.items()
                },
            ),
            provenance=hf.Provenance.from_dict({**_MADE, "seed": hex(SECRET), "index": index, "seconds": 0.0}),
        )
        label = certificate.predicted if rng.random() < 0.8 else int(rng.integers(3))
        waiting.append(Entry(index, label, certificate))
        if len(waiting) == in_a_part or index == inputs - 1:
            write_part(folder, index // in_a_part, waiting)
            waiting = []
    return CertifiedRun(folder)
