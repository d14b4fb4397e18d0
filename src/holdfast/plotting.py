"""How Holdfast's figures look: one palette, safe for colour-blind readers, and one way to draw a certified curve."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from holdfast.bounds import Curve
from holdfast.noise import Noise
from holdfast.printable import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe & Ito's palette, in an order that also separates in grey.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_SYMBOLS = {"sigma": "σ", "alpha": "α", "epsilon": "ε", "delta": "δ", "l0": "ℓ₀", "l1": "ℓ₁", "l2": "ℓ₂", "linf": "ℓ∞"}


def plain(text: str) -> str:
    """A name that matplotlib draws as it is: a dollar sign in it begins no formula, and a control character is shown."""
    return printable(text).replace("$", r"\$")


def in_symbols(text: str) -> str:
    """Our own words for a figure: ``σ`` for sigma, ``ℓ₂`` for l2. Names of others are left as they are."""
    return re.sub(rf"\b({'|'.join(_SYMBOLS)})\b", lambda word: _SYMBOLS[word[0]], text)


def radius_label(noise: Noise, units: str = "") -> str:
    """What an axis of radii is called: it names the norm they are in, and their units if they are not the input's."""
    return f"radius of the perturbation ({in_symbols(noise.norm)}{', in ' if units else ''}{units})"


def draw_curves(axes: "Axes", curves: Mapping[str, Curve], *, up_to: float) -> "Axes":
    """Draw each curve's lower side, and the band up to its upper side where it has one."""
    radii = np.linspace(0.0, up_to, 201)
    for (name, curve), colour in zip(curves.items(), PALETTE, strict=False):
        lower = curve.lower(radii)
        style = "-" if curve.guaranteed else ":"
        suffix = "" if curve.guaranteed else " (estimate, not certified)"
        axes.plot(radii, lower, style, color=colour, label=f"{name}{suffix}")
        if curve.sides == "both":
            upper = curve.upper(radii)
            axes.plot(radii, upper, style, color=colour, linewidth=1.0)
            axes.fill_between(radii, lower, upper, color=colour, alpha=0.12, linewidth=0)
        axes.set_xlabel(radius_label(curve.noise))
    axes.set_xlim(0.0, up_to)
    axes.set_ylabel("certified average")
    return axes


def draw_label_radius(axes: "Axes", radius: float) -> None:
    """A line where the label's certificate ends; none if there is none."""
    if radius > 0:
        axes.axvline(radius, color="0.4", linestyle="--", linewidth=1.0, label="label radius")
