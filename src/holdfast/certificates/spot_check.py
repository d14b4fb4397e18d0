"""A spot check: a few noisy rows and a network's answers to them, to tell later whether a network is still the same."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.budgets import check_archive
from holdfast.errors import InvalidArgument, RunError, reading


@dataclass(frozen=True, eq=False)
class SpotCheck:
    """What a network said of a few noisy rows.

    A fingerprint counts a network's classes by their names: code that was edited answers otherwise, under the same one.

    Attributes:
        rows: noisy inputs, shape (rows, ...).
        probabilities: the answers, shape (rows, classes).
        precision: at which they were computed.
    """

    rows: NDArray[np.float32]
    probabilities: NDArray[np.float32]
    precision: str = "float32"

    def __post_init__(self) -> None:
        for name in ("rows", "probabilities"):
            values = np.asarray(getattr(self, name))
            if values.dtype != np.float32 or values.ndim < 2 or values.size == 0 or not np.isfinite(values).all():
                raise InvalidArgument(f"a spot check's {name} must be a table of finite float32 numbers")
        if len(self.rows) != len(self.probabilities) or self.probabilities.ndim != 2:
            raise InvalidArgument("a spot check must have the probabilities of all classes for each of its rows")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SpotCheck):
            return NotImplemented
        same = np.array_equal(self.rows, other.rows) and np.array_equal(self.probabilities, other.probabilities)
        return same and self.precision == other.precision

    __hash__ = None  # type: ignore[assignment]

    def write(self, path: Path) -> None:
        """Into an archive of NumPy's."""
        with path.open("wb") as file:
            np.savez(file, rows=self.rows, probabilities=self.probabilities, precision=np.array(self.precision))

    @classmethod
    def read(cls, path: Path) -> "SpotCheck | None":
        """The inverse of :meth:`write`; None if there is no such file."""
        if not path.exists():
            return None
        with reading(path, RunError, "cannot be read", remedy="restore it from a copy"):
            check_archive(path, RunError)
            with np.load(path, allow_pickle=False) as found:
                return cls(found["rows"], found["probabilities"], str(found["precision"]))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: the numbers as base64 of little-endian float32."""
        return {
            "precision": self.precision,
            **{
                name: {
                    "shape": list(values.shape),
                    "float32": base64.b64encode(values.astype("<f4").tobytes()).decode(),
                }
                for name, values in (("rows", self.rows), ("probabilities", self.probabilities))
            },
        }

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> "SpotCheck":
        """The inverse of :meth:`to_dict`."""
        try:
            rows, probabilities = (
                np.frombuffer(base64.b64decode(d[name]["float32"], validate=True), "<f4")
                .reshape(d[name]["shape"])
                .astype(np.float32)
                for name in ("rows", "probabilities")
            )
            return cls(rows, probabilities, d["precision"])
        except (LookupError, TypeError, ValueError) as error:
            raise InvalidArgument(f"not a spot check written by to_dict(): {error}") from error
