"""What a page draws: curves, histograms and noisy copies as plain numbers."""

import base64
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds import Curve
from holdfast.certificates.certificate import Certificate
from holdfast.certificates.describe import format_confidence
from holdfast.certificates.evidence import Evidence, Selection
from holdfast.measures import MeasureInfo
from holdfast.noise import Noise, noise_fields
from holdfast.sampling.batches import batches_for, copies_of
from holdfast.sampling.requests import DecideRequest
from holdfast.sampling.span import Counting, NoiseSpan
from holdfast.scores import ScoreHistogram
from holdfast.service.requests import AnyServed, ServedRequest
from holdfast.smoothed import SmoothedClassifier
from holdfast.triage import Triage, Verdict

_POINTS = 401
_FARTHEST = 4.0
_BARS = 50
_STEPS = 100
_SIDE = 64
_FARTHEST_SHOWN = 1e6


def measure_view(info: MeasureInfo) -> dict[str, Any]:
    """A measure, with the thresholds that a slider offers."""
    return {
        "name": info.name,
        "title": info.title,
        "support": list(info.support),
        "at_least": np.round(np.linspace(*info.support, _STEPS + 1)[1:-1], 12).tolist(),
    }


def noise_view(noise: Noise) -> dict[str, Any]:
    """The noise, in words and with its unit of length."""
    return {**noise.to_dict(), "title": noise.title, "norm": noise.norm, "scale": noise.scale}


def curve_view(curve: Curve, radii: NDArray[np.float64], *, at_least: list[float] | None = None) -> dict[str, Any]:
    """A curve's bounds, not rounded; and the radii of thresholds, if there are some."""
    view: dict[str, Any] = {"lower": curve.lower(radii).tolist()}
    if at_least is not None:
        found = curve.radius(at_least=at_least).tolist()
        view["radius"] = [min(each, _FARTHEST_SHOWN) for each in found]
    if curve.sides == "both":
        view["upper"] = curve.upper(radii).tolist()
    return view


def certificate_view(certificate: Certificate, *, seeded_by: str | None, last: bool = True) -> dict[str, Any]:
    """Everything a page shows of a certificate; who chose its seed is None if a file does not say."""
    radii = np.asarray(certificate.noise.scale * _FARTHEST * np.arange(_POINTS) / (_POINTS - 1), dtype=np.float64)
    curves = certificate.curves
    measures = []
    for info in certificate.evidence.measures:
        shown = measure_view(info)
        curve = curves.get(info.name)
        drawn = None if curve is None else curve_view(curve, radii, at_least=shown["at_least"] if last else None)
        measures.append({**shown, **counts_view(certificate.evidence[info.name]), "curve": drawn})
    return {
        "n": certificate.n,
        "alpha": certificate.alpha,
        "sure": format_confidence(certificate.alpha),
        "share": certificate.share,
        "predicted": certificate.predicted,
        "abstained": certificate.abstained,
        "noise": noise_view(certificate.noise),
        "seeded_by": seeded_by,
        "words": str(certificate),
        "label_radius": certificate.label_radius if "label" in certificate.claims else None,
        "radii": radii.tolist(),
        "measures": measures,
    }


def progress_view(evidence: Evidence, of: int) -> dict[str, Any]:
    """Where sampling stands: an estimate, which promises nothing."""
    return {
        "n": evidence.n,
        "of": of,
        "measures": [{"name": info.name, **counts_view(histogram)} for info, histogram in evidence.histograms.items()],
        "kind": "estimate, not a certificate",
    }


def counts_view(scores: ScoreHistogram) -> dict[str, Any]:
    """The counts of a measure in equal bars of its support, and its average: estimates, for the eye only."""
    low, high = scores.support
    starts = np.searchsorted(scores.grid.edges, low + (high - low) * np.arange(_BARS) / _BARS)
    bars = np.add.reduceat(scores.counts, starts)
    return {"histogram": bars.tolist(), "mean": float(scores.survival_lower().mean)}


def decision_view(request: ServedRequest[DecideRequest], noise: Noise) -> dict[str, Any]:
    """A decision, and what a replay needs; the seed as hexadecimal text, since JSON numbers are too short for it."""
    return {
        "format": "decision-1",
        **asdict(request.answer),
        "seed": f"{request.seed:#x}",
        "measure": request.inner.measure,
        "index": request.index,
        "n0": request.n0,
        **noise_fields(noise),
        "seeded_by": request.seeded_by,
    }


def verdict_view(verdict: Verdict, triage: Triage) -> dict[str, Any]:
    """What is done with an input, and the promise behind it."""
    return {"format": "verdict-1", **asdict(verdict), "promise": promise_view(triage)}


def promise_view(triage: Triage) -> dict[str, Any]:
    """From which confidence on a class is accepted, and how often that may be wrong, under which attack."""
    return {name: getattr(triage, name) for name in ("threshold", "epsilon", "delta", "radius")}


def copies_view(request: AnyServed, smoothed: SmoothedClassifier, step: float) -> list[dict[str, Any]]:
    """The first copies of a watched request as pixels, with each measure's value and the vote of each."""
    shown, noise = request.shown or (), smoothed.noise
    span = NoiseSpan(request.x, request.seed, request.index, Counting.EVIDENCE, 0, len(shown))
    copies = copies_of(span, noise, step, batches_for(noise, step, smoothed.model.device))
    return [
        {
            "pixels": pixels_view(copies[k].numpy()),
            "values": {info.name: float(evidence[info.name].survival_lower().mean) for info in evidence.measures},
            "vote": bool(evidence.votes),
        }
        for k, evidence in enumerate(shown)
    ]


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
