"""The best of several methods on one sample, for an equal share of alpha each."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds.curve import RadiusBound
from holdfast.bounds.method import Method, check_method
from holdfast.errors import InvalidArgument
from holdfast.means import View
from holdfast.noise import Noise
from holdfast.scores import Scores
from holdfast.validation import Sides


@dataclass(frozen=True)
class BestOf(Method):
    """The best of several methods at every radius; each takes an equal share of alpha, those of a nested one too.

    Guarantee:
        With probability at least ``1 - alpha`` every one of them holds at every radius, hence also the largest.
    Source:
        Bonferroni's inequality. Trying methods one after the other and keeping the best costs the same: this says so.
    """

    methods: tuple[Method, ...]

    def __post_init__(self) -> None:
        methods = tuple(self.methods) if isinstance(self.methods, Sequence) else ()
        for method in methods:
            check_method(method)
        if len(methods) < 2:
            raise InvalidArgument(
                f"BestOf takes a tuple of two or more methods, such as BestOf((CDF(), Naive())), got {self.methods!r}"
            )
        flat = (method.methods if isinstance(method, BestOf) else (method,) for method in methods)
        object.__setattr__(self, "methods", tuple(chain.from_iterable(flat)))

    @property
    def name(self) -> str:
        """The methods' names."""
        return "+".join(method.name for method in self.methods)

    @property
    def guaranteed(self) -> bool:
        """Whether all of them are."""
        return all(method.guaranteed for method in self.methods)

    @property
    def needs_order(self) -> bool:  # type: ignore[override]
        """Whether any of them does."""
        return any(method.needs_order for method in self.methods)

    @property
    def requires(self) -> tuple[type[Noise], ...]:  # type: ignore[override]
        """What any of them requires."""
        return tuple(kind for method in self.methods for kind in method.requires)

    def side(self, scores: Scores, view: View, alpha: float, sides: Sides) -> RadiusBound:
        """Each method at its share."""
        share = alpha / len(self.methods)
        bounds = [method.side(scores, view, share, sides) for method in self.methods]
        return partial(_highest, bounds)


def _highest(bounds: Sequence[RadiusBound], radius: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.max([each(radius) for each in bounds], axis=0), dtype=np.float64)
