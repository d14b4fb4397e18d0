"""Certificates as a notebook shows them: the sentence and the curves."""

from typing import TYPE_CHECKING

import numpy as np

from holdfast.bounds import Curve
from holdfast.certificates.describe import describe, describe_classes
from holdfast.notebook import POINTS, Chart, Line, card
from holdfast.plotting import radius_label

if TYPE_CHECKING:
    from holdfast.certificates.certificate import Certificate
    from holdfast.certificates.classes import ClassCertificate


def certificate_card(certificate: "Certificate") -> str:
    """Its claims up to four times the noise's scale, and where the label's certificate ends."""
    curves = certificate.curves
    if not curves:
        return card(describe(certificate))
    furthest = 4 * certificate.noise.scale
    supports = [info.support for info in certificate.measures]
    radius = certificate.label_radius if "label" in certificate.claims else 0.0
    chart = Chart(
        [_line(name, curve, furthest) for name, curve in curves.items()],
        x_label=radius_label(certificate.noise, certificate.provenance.units),
        y_label="certified average",
        x_range=(0.0, furthest),
        y_range=(min(low for low, _ in supports), max(high for _, high in supports)),
        at=(radius, "label radius") if radius > 0 else None,
    )
    return card(describe(certificate), chart)


def classes_card(certificate: "ClassCertificate") -> str:
    """The predicted class's scores, those of its strongest rival, and how far no class overtakes it."""
    said = describe_classes(certificate)
    if "scores" not in certificate.claims:
        return card(said)
    noise = certificate.counts.noise
    radii = np.linspace(0.0, 4 * noise.scale, POINTS)
    lower, upper = certificate.lower(radii), certificate.upper(radii)
    rivals = [k for k in range(certificate.classes) if k != certificate.predicted]
    rival = max(rivals, key=lambda k: upper[k, 0])
    radius = certificate.winner_radius if "gaps" in certificate.claims else 0.0
    chart = Chart(
        [Line(f"class {k}", radii, lower[k], upper[k]) for k in (certificate.predicted, rival)],
        x_label=radius_label(noise, certificate.provenance.units),
        y_label="certified average score",
        x_range=(0.0, float(radii[-1])),
        at=(radius, "no class overtakes") if radius > 0 else None,
    )
    return card(said, chart)


def _line(name: str, curve: Curve, furthest: float) -> Line:
    radii = np.linspace(0.0, furthest, POINTS)
    upper = np.asarray(curve.upper(radii)) if curve.sides == "both" else None
    said = name if curve.guaranteed else f"{name} (estimate, not certified)"
    return Line(said, radii, np.asarray(curve.lower(radii)), upper, dotted=not curve.guaranteed)
