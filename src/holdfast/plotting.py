"""How Holdfast's figures look: one palette, safe for colour-blind readers, and one way to draw a certified curve."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.bounds import Curve
from holdfast.noise import Noise

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe & Ito's palette, in an order that also separates in grey.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_STYLE: dict[Any, object] = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.wspace": 0.05,
    "figure.dpi": 120,
    "font.size": 10,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "legend.edgecolor": "none",
    "legend.framealpha": 0.8,
    "lines.linewidth": 1.8,
    "svg.hashsalt": "holdfast",
}


def house_style() -> AbstractContextManager[None]:
    """Matplotlib settings for the figures drawn within."""
    from matplotlib import rc_context

    return rc_context(_STYLE)


def radius_label(noise: Noise) -> str:
    """What an axis of radii is called: it names the norm they are in."""
    return f"radius of the perturbation ({noise.norm})"


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
