"""Where a certificate comes from."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Provenance:
    """Where the noisy copies came from; with the same seed, index and model they can be drawn again."""

    seed: int
    index: int
    noise: str
    model: str
    device: str
    precision: str
    version: str
    seconds: float = field(compare=False)
    compiled: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain values; the seed as hexadecimal text, since JSON numbers are too short for it."""
        return {**vars(self), "seed": f"{self.seed:#x}"}

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> "Provenance":
        """The inverse of :meth:`to_dict`."""
        return cls(**{**d, "seed": int(d["seed"], 16)})
