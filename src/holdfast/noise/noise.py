"""What a noise is: its distribution, and how little probability an event can keep when the input moves."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from inspect import isabstract
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.errors import InvalidArgument


@dataclass(frozen=True)
class Noise(ABC):
    """Additive noise that is the same at every input: independent numbers of one distribution, one for each coordinate.

    A subclass is a frozen dataclass whose fields are its parameters, and defines ``kind``, ``norm`` and what is abstract
    here. It needs no torch and is registered nowhere: a stored run finds it by its ``kind`` once its class is defined.

    Requires:
        ``g_R(p) = least_probability(p, R)`` is, for every finite R >= 0, increasing and **convex** in p, decreasing in R, with
        ``g_0(p) = p`` and ``g_R(0) >= 0``. Every bound rests on that.

    Attributes:
        kind: its name, in stored runs and on the command line.
        norm: in which the radius is measured, ``"l2"`` or ``"l1"``.
    """

    kind: ClassVar[str]
    norm: ClassVar[str]

    @property
    @abstractmethod
    def scale(self) -> float:
        """How wide it is: the unit of length in figures and searches."""

    @property
    @abstractmethod
    def title(self) -> str:
        """A short description for people: ``sigma = 0.25``."""

    @abstractmethod
    def least_probability(self, p: ArrayLike, radius: ArrayLike) -> NDArray[np.float64]:
        """``g_R(p)``: the least probability, within ``radius`` of x, of an event that has probability p at x."""

    @abstractmethod
    def slope(self, p: ArrayLike, radius: ArrayLike) -> NDArray[np.float64]:
        """A subgradient of ``g_R`` at p: its derivative, where it has one."""

    @abstractmethod
    def radius(self, p: float, q: float) -> float:
        """The largest radius within which an event of probability p keeps at least q; 0.0 if ``p <= q``."""

    @abstractmethod
    def probability(self, middle: NDArray[np.float64], width: float) -> NDArray[np.float64]:
        """The probability that one coordinate's noise lies within ``width / 2`` of each ``middle``.

        Accurate to the last digits even where it is tiny: what is drawn follows it (:mod:`holdfast.noise.rounded`).
        """

    def standard(self, generator: np.random.Generator, shape: Sequence[int]) -> NDArray[np.float32]:  # noqa: ARG002
        """Float32 numbers of the noise with ``scale`` one: what Holdfast 0.1.0 drew, for its own two noises only."""
        raise InvalidArgument(f"{self.kind} noise is drawn on a grid only; leave step= out, or choose a positive one")

    def decay(self, p: NDArray[np.float64]) -> Callable[[float], NDArray[np.float64]]:
        """:meth:`least_probability` of fixed events as a function of the radius alone; override it if that is faster."""
        return partial(self.least_probability, p)

    def to_dict(self) -> dict[str, Any]:
        """Its kind and parameters, for JSON."""
        return {"kind": self.kind, **asdict(self)}

    @staticmethod
    def from_dict(d: Mapping[str, Any]) -> "Noise":
        """The inverse of :meth:`to_dict`, for every kind whose class is defined."""
        if not isinstance(d, Mapping) or not isinstance(d.get("kind"), str):
            raise InvalidArgument(f"expected a noise written by to_dict(), a dictionary with its kind, got {d!r}")
        kind = _kind_named(d["kind"])
        parameters = {name: value for name, value in d.items() if name != "kind"}
        try:
            return kind(**parameters)
        except TypeError as error:
            raise InvalidArgument(f"{d['kind']} noise does not have these parameters: {parameters!r}") from error


def noise_named(text: str) -> Noise:
    """A noise from its kind and its numbers, for the command line: ``gaussian:0.25``, ``uniform:0.5``, ..."""
    name, _, rest = text.partition(":")
    kind = _kind_named(name)
    expected = [field.name for field in fields(kind)]
    try:
        numbers = [float(part) for part in rest.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != len(expected):
        raise InvalidArgument(
            f"noise must be a kind and its numbers, such as uniform:0.5; {name} takes {', '.join(expected)}, got {text!r}"
        )
    return kind(*numbers)


def noise_text(noise: Noise) -> str:
    """The inverse of :func:`noise_named`; empty for a noise whose parameters are not all numbers."""
    numbers = [getattr(noise, field.name) for field in fields(type(noise))]
    if not all(isinstance(number, Real) for number in numbers):
        return ""
    return f"{noise.kind}:{','.join(repr(float(number)) for number in numbers)}"


def _kind_named(name: str) -> type[Noise]:
    kinds = _kinds()
    if name not in kinds:
        raise InvalidArgument(
            f"noise of the kind {name!r} is not known here; expected one of {', '.join(sorted(kinds))}. "
            f"Import the module that defines it first"
        )
    return kinds[name]


def _kinds() -> dict[str, type[Noise]]:
    """Every noise that is defined and has a name, by its kind; of two with one kind, the later."""
    found, waiting = {}, list(Noise.__subclasses__())
    for each in waiting:
        waiting += each.__subclasses__()
        if not isabstract(each) and each.kind:
            found[each.kind] = each
    return found
