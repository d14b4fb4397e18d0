"""What a page draws: curves, histograms and noisy copies as plain numbers."""

import base64
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from holdfast.certificates.certificate import Certificate, format_confidence
from holdfast.certificates.evidence import Evidence, Selection
from holdfast.noise import Gaussian, Stage
from holdfast.sampling import Task
from holdfast.sampling.copies import copies_for
from holdfast.scores import ScoreHistogram
from holdfast.sequential import Decision
from holdfast.triage import Triage, Verdict

POINTS = 401
FARTHEST = 4.0
BARS = 50
THRESHOLDS = tuple(round(k / 100, 2) for k in range(1, 100))
_SIDE = 64
_FARTHEST_SHOWN = 1e6


def curve_view(certificate: Certificate, *, last: bool) -> dict[str, Any]:
    """The score's bounds at 401 radii up to four sigma; the last curve also has the radii of 99 confidences.

    All numbers are the certificate's own, rounded by nobody.
    """
    radii = certificate.sigma * FARTHEST * np.arange(POINTS) / (POINTS - 1)
    curve = certificate.score
    view: dict[str, Any] = {
        "radii": radii.tolist(),
        "lower": curve.lower(radii).tolist(),
    }
    if last:
        found = curve.radius(at_least=list(THRESHOLDS)).tolist()
        view |= {"at_least": list(THRESHOLDS), "radius": [min(each, _FARTHEST_SHOWN) for each in found]}
    if certificate.sides == "both":
        view["upper"] = curve.upper(radii).tolist()
    return view


def certificate_view(certificate: Certificate, *, seeded_by: str | None, last: bool = True) -> dict[str, Any]:
    """Everything a page shows of a certificate; who chose its seed is None if a file does not say."""
    return {
        "n": certificate.n,
        "alpha": certificate.alpha,
        "sure": format_confidence(certificate.alpha),
        "share": certificate.share,
        "predicted": certificate.predicted,
        "abstained": certificate.abstained,
        "sigma": certificate.sigma,
        "seeded_by": seeded_by,
        "words": str(certificate),
        "label_radius": certificate.label_radius if "label" in certificate.claims else None,
        "curve": curve_view(certificate, last=last) if "score" in certificate.claims else None,
        "histogram": bars(certificate.evidence["score"]),
        "mean": certificate.evidence["score"].survival_lower().mean,
    }


def progress_view(evidence: Evidence, of: int) -> dict[str, Any]:
    """Where sampling stands: an estimate, which promises nothing."""
    return {
        "n": evidence.n,
        "of": of,
        "mean": evidence["score"].survival_lower().mean,
        "histogram": bars(evidence["score"]),
        "kind": "estimate, not a certificate",
    }


def decision_view(decision: Decision) -> dict[str, Any]:
    """Plain values; the seed as hexadecimal text, since JSON numbers are too short for it."""
    seed = None if decision.seed is None else f"{decision.seed:#x}"
    return {"format": "decision-1", **asdict(decision), "seed": seed}


def verdict_view(verdict: Verdict, triage: Triage) -> dict[str, Any]:
    """What is done with an input, and the promise behind it."""
    return {
        "format": "verdict-1",
        **asdict(verdict),
        "promise": promise_view(triage),
    }


def promise_view(triage: Triage) -> dict[str, Any]:
    """From which confidence on a class is accepted, and how often that may be wrong, under which attack."""
    return {
        "threshold": triage.threshold,
        "epsilon": triage.epsilon,
        "delta": triage.delta,
        "radius": triage.radius,
    }


def bars(scores: ScoreHistogram) -> list[int]:
    """The counts in equal bars of [0, 1]; for the eye only."""
    starts = np.searchsorted(scores.grid.edges, np.arange(BARS) / BARS)
    return [int(each) for each in np.add.reduceat(scores.counts, starts)]


def copies_view(
    task: Task, peeked: tuple[Evidence, ...], noise: Gaussian, device: torch.device
) -> list[dict[str, Any]]:
    """The first copies of a task as pixels, with the score and the vote of each."""
    kind = copies_for(device)([task], noise, 0, [Stage.ESTIMATION], len(peeked))
    batch = next(iter(kind.batches(0, 1, torch.device("cpu"))))
    found = []
    for k, evidence in enumerate(peeked):
        found.append(
            {
                "pixels": pixels_view(batch.copies[k].numpy()),
                "score": float(evidence["score"].survival_lower().mean),
                "vote": bool(evidence.votes),
            }
        )
    return found


def pixels_view(x: NDArray[np.float32], *, side: int = _SIDE) -> dict[str, Any]:
    """An image as bytes for a canvas, thinned out if it is large."""
    if x.ndim != 3:
        return {}
    step = max(1, -(-max(x.shape[1:]) // side))
    small = np.clip(np.rint(x[:, ::step, ::step] * 255), 0, 255).astype(np.uint8)
    channels, height, width = small.shape
    return {
        "channels": channels,
        "height": height,
        "width": width,
        "base64": base64.b64encode(np.moveaxis(small, 0, -1).tobytes()).decode("ascii"),
    }


def selection_view(selection: Selection) -> dict[str, Any]:
    """The chosen class, and what the selection copies said of all: an estimate."""
    return {"predicted": selection.predicted, "averages": [round(float(each), 4) for each in selection.averages]}
