"""A certificate in plain words; every number is rounded to the safe side."""

from decimal import Decimal
from typing import TYPE_CHECKING

from holdfast.measures import MeasureInfo
from holdfast.noise import Noise, describe_step
from holdfast.scores.rounding import ceil_decimals, floor_decimals, format_number

if TYPE_CHECKING:
    from holdfast.certificates.certificate import Certificate
    from holdfast.certificates.classes import ClassCertificate

UNKNOWN_NORM = "an unknown norm"


def describe(certificate: "Certificate", name: str | None = None) -> str:
    """What it says within one unit of the noise, how sure that is, and what it was made from."""
    who = f"Class {certificate.predicted}" + ("" if name is None else f" ({name})")
    sentence = f"{who}: {'; '.join(_claims(certificate))}."
    if certificate.abstained:
        sentence = f"Abstains: nothing certifies the class as the winner here. {sentence}"
    made = f"n = {certificate.n:,} noisy copies, {certificate.noise.title}, {certificate.method.name}"
    made += grid_words(certificate.provenance.step, certificate.provenance.shift)
    if certificate.provenance.units:
        made += f", radii in {certificate.provenance.units}"
    if certificate.share < 1:
        made += ", one of several planned looks, all of them covered"
    if not certificate.method.guaranteed:
        return f"{sentence} These are estimates, NOT a certificate ({made})."
    return f"{sentence} All of it holds with probability at least {format_confidence(certificate.alpha)} ({made})."


def describe_classes(certificate: "ClassCertificate") -> str:
    """What it says of the predicted class and of all others within one unit of the noise, and how sure that is."""
    noise, k = certificate.counts.noise, certificate.predicted
    norm, said = in_norm(noise), []
    if "scores" in certificate.claims:
        lower, upper = certificate.lower(noise.scale), certificate.upper(noise.scale)
        most = max(float(each) for j, each in enumerate(upper) if j != k)
        said.append(
            f"for every perturbation up to radius {format_number(noise.scale)}{norm}, its average score stays at least "
            f"{floor_decimals(float(lower[k]), 3)} and that of every other class at most {ceil_decimals(most, 3)}"
        )
    if "gaps" in certificate.claims and certificate.winner_radius > 0:
        said.append(f"no class can overtake it within radius {floor_decimals(certificate.winner_radius, 3)}{norm}")
    elif "gaps" in certificate.claims:
        said.append("that no class overtakes it is not certified")
    made = f"n = {certificate.counts.n:,} noisy copies, {noise.title}, {certificate.method.name}"
    made += grid_words(certificate.provenance.step, certificate.provenance.shift)
    sure = format_confidence(certificate.alpha)
    return f"Class {k}: {'; '.join(said)}. All of it holds with probability at least {sure} ({made})."


def grid_words(step: float, shift: float) -> str:
    """The grid that the classifier rounds its input to, and how far the input was from it."""
    said = f", inputs in steps of {describe_step(step)}" if step else ""
    return said + (f", radii reduced by {ceil_decimals(shift, 4)}, its distance to them" if shift else "")


def abstention_reason(certificate: "Certificate") -> str:
    """Why no claim certifies the predicted class as the winner."""
    short = []
    if "label" in certificate.claims:
        share = floor_decimals(certificate.label.probability, 3)
        short.append(f"its share of votes is only certified above {share} (needs 0.5)")
    for info in certificate.measures:
        if info.winning is not None:
            lower = floor_decimals(certificate.curve(info.name).lower(0.0), 3)
            short.append(f"its average {info.title} only above {lower} (needs {format_number(round(info.winning, 3))})")
    if not short:
        return f"no claim says which class wins: {', '.join(certificate.claims)}. Claim the label too"
    return (
        f"no claim certifies class {certificate.predicted} as the winner at the input itself: {'; '.join(short)}. "
        f"More noisy copies than {certificate.n:,} help if it is close"
    )


def format_confidence(alpha: float) -> str:
    """``1 - alpha``, exactly."""
    if alpha < 1e-12:
        return f"1 - {alpha!r}"
    return format((1 - Decimal(repr(alpha))) * 100, "f").rstrip("0").rstrip(".") + "%"


def in_norm(noise: Noise | None, units: str = "") -> str:
    """Text after a radius that names its norm, and its units if they are not the input's; empty for l2, the field's default.

    None is a noise that nobody named.
    """
    norm = UNKNOWN_NORM if noise is None else noise.norm
    return f" in {norm}, in {units}" if units else "" if norm == "l2" else f" in {norm}"


def _claims(certificate: "Certificate") -> list[str]:
    noise = certificate.noise
    norm = in_norm(noise)
    said = []
    if certificate.measures:
        averages = " and ".join(_average(certificate, info) for info in certificate.measures)
        said.append(f"for every perturbation up to radius {format_number(noise.scale)}{norm}, {averages}")
    if "label" in certificate.claims and certificate.label.certified:
        said.append(f"its label cannot change within radius {floor_decimals(certificate.label_radius, 3)}{norm}")
    elif "label" in certificate.claims:
        said.append("its label is not certified")
    return said


def _average(certificate: "Certificate", info: MeasureInfo) -> str:
    curve, radius = certificate.curve(info.name), certificate.noise.scale
    said = f"the average {info.title} stays at least {floor_decimals(curve.lower(radius), 3)}"
    if certificate.sides == "both":
        said += f" and at most {ceil_decimals(curve.upper(radius), 3)}"
    return said
