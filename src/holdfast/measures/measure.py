"""What a confidence measure is: from class probabilities at a noisy copy to one number in a known range."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.errors import InvalidArgument
from holdfast.validation import check_number, check_support

if TYPE_CHECKING:
    from torch import Tensor

SUM_TOLERANCE = 2.0**-16
"""How far the probabilities of one noisy copy may be from summing to one; every copy is checked to stay within it."""
SUM_TOLERANCE_0_1_0 = 1e-3
"""What Holdfast 0.1.0 checked, and its files do not say."""

_NAME = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")
_TAKEN = ("n", "votes", "measures", "label", "index", "predicted", "abstained", "bins", "seconds", "compiled")


@dataclass(frozen=True)
class MeasureInfo:
    """What is known of a measure without computing it: enough to bound, store, tabulate and show its averages.

    Attributes:
        name: short, lower case; names the claim, the columns of a run, and the option's value.
        title: for people: ``average {title}`` reads well.
        support: the range (a, b) of its values.
        winning: the average above which the class is the prediction; None if no average makes it one.
        thresholds: what a report shows unless told otherwise.
    """

    name: str
    title: str
    support: tuple[float, float]
    winning: float | None = None
    thresholds: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check_name(self.name)
        if not isinstance(self.title, str):
            raise InvalidArgument(f"the title of the measure {self.name} must be text, got {self.title!r}")
        object.__setattr__(self, "support", check_support(self.support))
        if self.winning is not None:
            object.__setattr__(self, "winning", check_number("winning", self.winning))
        object.__setattr__(self, "thresholds", tuple(float(each) for each in self.thresholds))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**vars(self), "support": list(self.support), "thresholds": list(self.thresholds)}

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> "MeasureInfo":
        """The inverse of :meth:`to_dict`."""
        return cls(d["name"], d["title"], tuple(d["support"]), d["winning"], tuple(d["thresholds"]))


def check_name(name: str) -> str:
    """Refuse a name that cannot be a claim, a column and the value of an option."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in _TAKEN:
        raise InvalidArgument(
            f"a measure's name must be lower-case words joined by '-', and not one of {', '.join(_TAKEN)}; got {name!r}"
        )
    return name


class Measure(ABC):
    """Turns probabilities (n, classes) and target classes (n,) into scores (n,) within ``support``.

    A subclass sets what :class:`MeasureInfo` describes and defines ``__call__`` on tensors; it is registered nowhere.
    """

    name: str
    title: str
    support: tuple[float, float]
    winning: float | None = None
    thresholds: tuple[float, ...] = ()

    @property
    def info(self) -> MeasureInfo:
        """Its description, checked."""
        return MeasureInfo(self.name, self.title, self.support, self.winning, self.thresholds)

    @abstractmethod
    def __call__(self, probabilities: "Tensor", target: "Tensor") -> "Tensor":
        """One score per row."""
