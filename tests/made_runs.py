"""Runs of made-up certificates, written through the library's own store; no network, no sampling."""

from pathlib import Path

import numpy as np

import holdfast as hf
from evidence import evidence_of
from holdfast.runs.certified import CertifiedRun
from holdfast.runs.folder import RunFolder
from holdfast.runs.store import Entry, write_part

SIGMA = 0.25
_MADE = {"noise": "made up", "model": "made up", "device": "cpu", "precision": "float32", "version": "0"}
SECRET = 0x5EED5EED


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
) -> CertifiedRun:
    """Logit-normal scores around all confidences, so that inputs are right, wrong and abstained on."""
    rng = np.random.default_rng(seed)
    claims, method = ("label", "score", "margin"), hf.CDF()
    config = {
        "kind": "certified",
        "status": "complete",
        "data": data,
        "inputs": inputs,
        "label_names": list(names),
        "sigma": SIGMA,
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
            evidence=evidence_of(
                n,
                int((score > 0.5).sum()),
                hf.ScoreSamples(score, sigma=SIGMA).histogram(),
                hf.ScoreSamples(2 * score - 1, support=(-1.0, 1.0), sigma=SIGMA).histogram(),
            ),
            provenance=hf.Provenance.from_dict({**_MADE, "seed": hex(SECRET), "index": index, "seconds": 0.0}),
        )
        label = certificate.predicted if rng.random() < 0.8 else int(rng.integers(3))
        waiting.append(Entry(index, label, certificate))
        if len(waiting) == in_a_part or index == inputs - 1:
            write_part(folder, index // in_a_part, waiting)
            waiting = []
    return CertifiedRun(folder)
