"""The probability mass of a set of classes: "it stays an animal", whichever animal."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from holdfast.errors import InvalidArgument
from holdfast.measures.measure import Measure, check_name
from holdfast.validation import check_count

if TYPE_CHECKING:
    from torch import Tensor


class Mass(Measure):
    """``sum_{j in classes} h_j``, in (0, 1), whichever class is predicted.

    Its average says how much of the smoothed classifier's belief stays within the set. No average of it makes the
    predicted class the winner: ``winning`` is None.

    Parameters:
        classes: the numbers of the classes.
        name: of the measure, such as ``"animal"``: lower-case words joined by ``-``. By default the classes name it:
            ``Mass({3, 5})`` is ``mass-3-5``.
    """

    support = (0.0, 1.0)
    thresholds = (0.5, 0.7, 0.9)

    def __init__(self, classes: Iterable[int], *, name: str | None = None) -> None:
        if not isinstance(classes, Iterable):
            raise InvalidArgument(f"Mass takes a set of classes, such as Mass({{3, 5}}), got {classes!r}")
        self.classes = tuple(sorted({check_count("class", each, at_least=0) for each in classes}))
        if not self.classes:
            raise InvalidArgument("Mass takes one or more classes, such as Mass({3, 5}), got none")
        self.name = "-".join(("mass", *map(str, self.classes))) if name is None else check_name(name)
        # The classes are told apart under any name: a run must not be continued with others.
        numbers = f"classes {', '.join(map(str, self.classes))}"
        self.title = f"mass of {numbers}" if name is None else f"mass of {re.sub('[-_]', ' ', name)} ({numbers})"

    def __call__(self, probabilities: "Tensor", target: "Tensor") -> "Tensor":  # noqa: ARG002
        """The sum of the classes' columns; rounding may take it a hair above one."""
        if self.classes[-1] >= probabilities.shape[1]:
            raise InvalidArgument(
                f"{self.name} names class {self.classes[-1]}, but the model has {probabilities.shape[1]} classes, from 0 on"
            )
        return probabilities[:, list(self.classes)].sum(1)
