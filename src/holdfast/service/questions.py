"""What callers may ask: the question is in the query, the input is the body."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from holdfast.errors import InvalidArgument
from holdfast.measures import MeasureInfo
from holdfast.noise import secret_seed
from holdfast.service.callers import Caller
from holdfast.service.limits import MOST_MEASURES, Limits
from holdfast.service.refusals import Refusal
from holdfast.validation import SEED, as_seed, as_whole, check_count

SEEDED_BY = ("service", "fresh", "caller")
"""Asking again gives the same noise; gives other noise each time; a caller chose the noise, and could have tried many."""
Whole = Annotated[int, BeforeValidator(as_whole)]
_USUAL = 100_000
_BY_DEFAULT = f"by default {_USUAL:,}, or as many as one caller may have"


class Question(BaseModel):
    """What every question has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    alpha: float = Field(1e-3, ge=1e-12, le=0.5, description="Total failure probability of the answer.")
    n0: Whole = Field(100, ge=1, le=100_000, description="Other noisy copies, to choose the class.")
    seed: str | None = Field(
        None,
        description="For a replay. By default it follows from the input and the service's secret, and is recorded on the "
        "certificate. A certificate whose caller chose the seed convinces nobody but that caller.",
    )
    index: Whole | None = Field(
        None, ge=0, lt=2**31, description="Keys the noise together with a seed that is given; by default 0."
    )
    fresh: bool = Field(
        False,
        description="Noise that was never drawn before, for callers who may. Keeping the best of several is choosing.",
    )

    def chosen_seed(self, limits: Limits, caller: Caller) -> int | None:
        """The caller's or a fresh one, if that is allowed; None for the service's own."""
        if self.seed is None and self.index is not None:
            raise InvalidArgument("index keys the noise together with a seed: give both, or neither")
        if self.seed is not None and self.fresh:
            raise InvalidArgument("fresh noise has no seed that is known before: give seed, or fresh, or neither")
        if self.fresh:
            if not caller.fresh:
                raise Refusal(403, "this caller may not ask for fresh noise; leave fresh out")
            return secret_seed()
        if self.seed is None:
            return None
        if not limits.replays:
            raise Refusal(403, "this service draws all seeds itself (its operator allows no replays); leave seed out")
        return as_seed("seed", self.seed)

    @property
    def seeded_by(self) -> str:
        """Who chose the seed: one of SEEDED_BY."""
        return "caller" if self.seed is not None else "fresh" if self.fresh else "service"


class CertifyQuestion(Question):
    """A certificate: bounds for every radius at once."""

    n: str | None = Field(None, description=f"Noisy copies for estimation; {_BY_DEFAULT}.")
    claims: list[str] | None = Field(
        None,
        min_length=1,
        max_length=MOST_MEASURES + 1,
        description="What alpha is spent on, in equal shares: 'label', and measures that are counted; by default all.",
    )
    sides: Literal["lower", "both"] = Field("lower", description="'both' adds upper bounds.")
    radii: list[Annotated[float, Field(allow_inf_nan=False, ge=0, le=1e6)]] | None = Field(
        None, max_length=100, description="Radii at which the bounds are given, too, below 'bounds'."
    )


class DecideQuestion(Question):
    """One question, answered with as few copies as it takes."""

    at_least: float = Field(allow_inf_nan=False, description="The confidence asked for.")
    radius: float = Field(allow_inf_nan=False, ge=0, le=1e6, description="The radius within which it must hold.")
    measure: str | None = Field(None, description="Which of the measures that are counted; by default the first.")
    n_max: str | None = Field(None, description=f"Give up after this many; {_BY_DEFAULT}.")


def measure_of(asked: str | None, measures: Sequence[MeasureInfo]) -> MeasureInfo:
    """The measure that a decision is about, if it is counted here; by default the first."""
    for info in measures:
        if asked in (None, info.name):
            return info
    raise InvalidArgument(f"measure must be one of {', '.join(info.name for info in measures)}, got {asked}")


def copies_of(name: str, asked: str | int | None, limits: Limits) -> int:
    """The number of copies asked for, checked against the limit for one caller."""
    wanted = min(_USUAL, limits.copies) if asked is None else as_whole(asked)
    return check_count(name, wanted, at_least=2 if name == "n_max" else 1, at_most=limits.copies)


def with_limits(document: dict[str, Any], copies: int, measures: Sequence[MeasureInfo]) -> None:
    """Write the operator's limit in the place of the largest number there is, and what is counted, into the document."""
    names = [info.name for info in measures]
    changes = {
        "n": {"type": "integer", "minimum": 1, "maximum": copies},
        "n_max": {"type": "integer", "minimum": 2, "maximum": copies},
        "seed": {"pattern": f"^({SEED})$"},
        "measure": {"enum": names},
        "claims": {"items": {"type": "string", "enum": ["label", *names]}, "maxItems": len(names) + 1},
        "at_least": {
            "minimum": min(info.support[0] for info in measures),
            "maximum": max(info.support[1] for info in measures),
        },
    }
    for path in document["paths"].values():
        for operation in path.values():
            for parameter in operation.get("parameters", ()):
                schema = parameter["schema"]
                # An optional parameter's first choice is its type; the other is to leave it out.
                chosen = schema["anyOf"][0] if "anyOf" in schema else schema
                chosen |= changes.get(parameter["name"], {})


CertifyQuery = Annotated[CertifyQuestion, Query()]
DecideQuery = Annotated[DecideQuestion, Query()]
