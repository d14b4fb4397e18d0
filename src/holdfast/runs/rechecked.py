"""What came of a recheck: each claim with its outcome, and the line that a ledger keeps of it."""

import hashlib
from dataclasses import dataclass
from enum import Enum
from typing import Any

from holdfast.runs.certified import CertifiedRun
from holdfast.runs.claims import Claim, ClaimsAsked
from holdfast.runs.folder import now
from holdfast.sequential import Decision
from holdfast.version import installed_version

COMPARED = ("images", "indices")
"""Which of the data's fingerprints must be the run's; labels play no role, since claims are about the predicted class."""


class Outcome(Enum):
    """What came of a claim. Only the first is certified."""

    HELD = "held"
    REFUTED = "refuted"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class RecheckedClaim:
    """A claim, and what the other network's noisy copies say of it.

    Guarantee:
        If the claim is false of the network, ``outcome`` is ``HELD`` with probability at most ``claim.alpha``.
        ``REFUTED`` (the copies point below it, or to another class) and ``UNDECIDED`` (not shown with the copies allowed)
        are not certified: they say that the claim is not confirmed.
    """

    claim: Claim
    outcome: Outcome
    reason: str
    samples: int

    @classmethod
    def of(cls, claim: Claim, decision: Decision) -> "RecheckedClaim":
        """By how its test ended: confirmed, given up early, or out of copies."""
        early = Outcome.REFUTED if decision.samples < decision.n_max else Outcome.UNDECIDED
        return cls(claim, Outcome.HELD if decision.certified else early, decision.reason, decision.samples)


@dataclass(frozen=True)
class Recheck:
    """The claims of a run, put to another network.

    Attributes:
        model, fingerprint: the network's name, and which one it is; None if that cannot be told.
        n: copies of an input that its tests might draw, besides those that choose the class.
        abstained, trivial: claims left out: of abstained certificates, and those that say nothing.
        samples: noisy copies drawn, those that choose the class included; ``full`` is what full certificates would take.
    """

    run: CertifiedRun
    model: str
    fingerprint: str | None
    asked: ClaimsAsked
    measure: str
    n: int
    claims: tuple[RecheckedClaim, ...]
    abstained: int
    trivial: int
    samples: int
    full: int

    def count(self, outcome: Outcome, radius: float | None = None) -> int:
        """How many claims ended like this, at one radius or at all."""
        return sum(each.outcome is outcome and radius in (None, each.claim.radius) for each in self.claims)

    @property
    def held(self) -> float:
        """The share of the claims that hold."""
        return self.count(Outcome.HELD) / len(self.claims)

    def to_dict(self) -> dict[str, Any]:
        """A ledger's line: what was rechecked, and what came of it. The seed stays secret."""
        config = self.run.config
        digest = hashlib.sha256((self.run.path / "run.json").read_bytes()).hexdigest()
        return {
            "date": now(),
            "holdfast": installed_version(),
            "run": {"name": self.run.path.resolve().name, "sha256": digest},
            "model": {"name": self.model, "fingerprint": self.fingerprint},
            "data": {"name": config.get("data"), **{name: config["fingerprints"][name] for name in COMPARED}},
            "measure": self.measure,
            "radii": list(self.asked.radii),
            "margin": self.asked.margin,
            "share": self.asked.share,
            "claims": len(self.claims),
            **{outcome.value: self.count(outcome) for outcome in Outcome},
            "left_out": {"abstained": self.abstained, "trivial": self.trivial},
            "samples": self.samples,
        }
