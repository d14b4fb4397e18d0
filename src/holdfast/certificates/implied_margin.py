"""The margin that a certified score implies, for no alpha of its own."""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds import Curve
from holdfast.bounds.curve import RadiusBound
from holdfast.measures import Margin

_FLOAT32 = 2.0**-23
"""More than what float32 adds: half a unit in the last place of a sum near one, and of the margin itself."""


def implied_margin(score: Curve, tolerance: float) -> Curve:
    """Bounds on the average margin, from those on the average score: ``2 score - 1 <= margin <= score`` at every copy.

    Guarantee:
        Holds wherever the score's curve does, so both hold together with the score's alpha. The lower side is
        ``2 lower - 1``, the upper side ``upper``, each moved outwards by ``tolerance + 2^-23``.
    Requires:
        Float32 probabilities that sum to one within ``tolerance``, none further below zero than that. Every copy is
        checked; a model must satisfy it everywhere.
    Source:
        Not in the paper; see docs/mathematics.md. With two classes the lower side loses nothing else. With more, ``2 upper - 1``
        is no upper bound, and a margin that is claimed is tighter: it is not raised to this one.
    """
    loss = tolerance + _FLOAT32
    above = None if score.above is None else partial(_line, score.above, 1.0, loss)
    return Curve(
        score.noise,
        score.alpha,
        score.method,
        score.guaranteed,
        Margin.support,
        partial(_line, score.below, 2.0, loss),
        above,
    )


def _line(side: RadiusBound, slope: float, loss: float, radius: NDArray[np.float64]) -> NDArray[np.float64]:
    """``slope`` times one side of the score, less one and the loss; never below the margin's support.

    For the upper side, ``-margin >= (1 - score) - 1``: reflected, both are lower bounds.
    """
    return np.maximum(Margin.support[0], slope * side(radius) - 1 - loss)
