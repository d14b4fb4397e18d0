"""An attacked input, and its average on fresh noisy copies: an empirical upper bound beside the certified lower one."""

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.attacks.attack import Attack
from holdfast.attacks.average import NoisyAverage
from holdfast.attacks.ball import Balls
from holdfast.certificates import Evidence
from holdfast.errors import InvalidArgument
from holdfast.inputs import CheckedInputs, Input, range_of
from holdfast.means import Betting
from holdfast.measures import Measure, support_of
from holdfast.noise import DRAWING_ERROR, check_seed
from holdfast.sampling import CertifyRequest, EstimateRequest
from holdfast.smoothed import SmoothedClassifier
from holdfast.validation import check_alpha, check_count, check_radius

_TOGETHER = 64
_NUMBERS = 2**21
_MOST_STEPS = 2.0**20
_MEAN = Betting()


@dataclass(frozen=True, eq=False)
class Aim:
    """What is to be attacked: the average of a class within a radius of an input.

    Attributes:
        x: where the input is sampled, a point of the grid.
        shift: how far the input itself is from there; points within ``radius - shift`` of x are within the radius of both.
    """

    x: Tensor
    target: int
    radius: float
    shift: float = 0.0


@dataclass(frozen=True, eq=False)
class Attacked:
    """A point within the radius, and counts of noisy copies of it that the attack never saw.

    Guarantee:
        With probability at least ``1 - alpha``, the averages of all measures at ``x`` lie in their intervals. So within the
        radius no valid lower bound is above ``interval(name)[1]``. How low the average can get is not said.

    Attributes:
        x: the attacked input, on the grid that the input lies on.
        radius: how far it was allowed to go.
        distance: how far it went at most, in the norm of the noise; more than the radius only if the input itself is farther
            than that from the grid.
        target: the class whose average was attacked.
        gradients: whether the model has gradients; if not, it was attacked by its scores alone.
        evidence: counts of n fresh copies for the class.
    """

    x: NDArray[np.float32] = field(repr=False)
    radius: float
    distance: float
    target: int
    alpha: float
    gradients: bool
    evidence: Evidence = field(repr=False)

    def mean(self, measure: str = "score") -> float:
        """The average of the copies: an estimate, low by at most a step of the histogram."""
        return self.evidence[measure].survival_lower().mean

    def interval(self, measure: str = "score") -> tuple[float, float]:
        """Between which numbers the average lies; the ends are rounded outwards."""
        share, scores = self.alpha / len(self.evidence.measures), self.evidence[measure]
        a, b = scores.support
        low, high = (_MEAN.lower(side, share, "both") for side in (scores.survival_lower(), scores.survival_upper()))
        off = DRAWING_ERROR * (b - a)
        return max(a, low - off), min(b, (a + b) - high + off)

    def upper(self, measure: str, alpha: float) -> float:
        """An upper bound on the average, by itself: it holds with probability at least ``1 - alpha``."""
        a, b = self.evidence[measure].support
        return min(b, (a + b) - _MEAN.lower(self.evidence[measure].survival_upper(), alpha) + DRAWING_ERROR * (b - a))


def attack(
    smoothed: SmoothedClassifier,
    x: Input,
    radius: float,
    *,
    target: int | None = None,
    measure: str = "score",
    attack: Attack | None = None,
    n: int = 10_000,
    n0: int = 100,
    alpha: float = 1e-3,
    seed: int | None = None,
    batch: int | None = None,
) -> Attacked:
    """Look for a point within ``radius`` of x where the class's average ``measure`` is small.

    Guarantee:
        The result's, although the point was chosen by looking: its average is measured on other noisy copies.

    Parameters:
        target: the class; by default the one with the largest average over ``n0`` noisy copies of x.
        attack: how hard to look.
        n: fresh copies of the point found.
        alpha: the probability with which an interval of the result may be wrong.
        seed: keys all noise, for a replay; secret by default.
    """
    if not isinstance(smoothed, SmoothedClassifier):
        raise InvalidArgument(f"expected a SmoothedClassifier(net, sigma=0.25), got {type(smoothed).__name__}")
    check_radius(radius)
    check_alpha(alpha)
    _measure(smoothed, measure)
    known_seed = check_seed(seed)
    (at,) = CheckedInputs([x], smoothed.inputs, smoothed.noise, smoothed.step)
    request = CertifyRequest(at.x, _other_seed(known_seed), 1, n0, 1)
    selection = next(smoothed.run_requests([request], at.step, batch)).answer.selection
    if target is not None and check_count("target", target, at_least=0) >= selection.sums.size:
        raise InvalidArgument(f"target must be a class from 0 to {selection.sums.size - 1}, got {target}")
    aims = [Aim(at.x, selection.predicted if target is None else target, radius, at.shift)]
    options = {"measure": measure, "attack": attack, "n": n, "alpha": alpha, "seed": known_seed, "batch": batch}
    return next(attack_many(smoothed, aims, at.step, **options))  # type: ignore[arg-type]


def attack_many(
    smoothed: SmoothedClassifier,
    aims: Iterable[Aim],
    step: float,
    *,
    measure: str = "score",
    attack: Attack | None = None,
    n: int = 1_000,
    alpha: float = 1e-3,
    seed: int | None = None,
    batch: int | None = None,
) -> Iterator[Attacked]:
    """:func:`attack` for many inputs of one shape and many radii, in their order; ``alpha`` is each result's own.

    All lie on the grid of this step.
    """
    known_seed, hard = check_seed(seed), attack or Attack()
    if not isinstance(hard, Attack):
        raise InvalidArgument(f"attack must be Attack(steps=..., copies=..., restarts=...), got {attack!r}")
    waiting: deque[_Found] = deque()

    def requests() -> Iterator[EstimateRequest]:
        for number, each in enumerate(_points(smoothed, aims, step, hard, measure, known_seed)):
            waiting.append(each)
            yield EstimateRequest(each.point, _other_seed(known_seed), number, 1, n, each.aim.target)

    for request in smoothed.run_requests(requests(), step, batch):
        found = waiting.popleft()
        aim, point = found.aim, found.point.numpy()
        yield Attacked(
            point, aim.radius, found.distance + aim.shift, aim.target, alpha, found.gradients, request.answer
        )


@dataclass(frozen=True, eq=False)
class _Found:
    """A point that is not measured yet."""

    aim: Aim
    point: Tensor
    distance: float
    gradients: bool


def _points(
    smoothed: SmoothedClassifier, aims: Iterable[Aim], step: float, attack: Attack, measure: str, seed: int
) -> Iterator[_Found]:
    """A point for each aim; found together, as many as there is room for."""
    rest, number = iter(aims), 0
    average: NoisyAverage | None = None
    together = 1  # the first tells how large they are
    while group := list(islice(rest, together)):
        x = group[0].x
        average = average or NoisyAverage.of(smoothed.model, smoothed.noise, step, _measure(smoothed, measure), x)
        streams = [_stream(seed, number + k) for k in range(len(group))]
        targets = torch.tensor([aim.target for aim in group])
        balls = _balls(smoothed, group, step, attack)
        points = attack.points(average, balls, targets, x.shape, streams)
        for aim, point, distance in zip(group, torch.from_numpy(points), balls.distances(points), strict=True):
            yield _Found(aim, point.reshape(x.shape), float(distance), average.differentiable)
        number += len(group)
        together = max(1, min(_TOGETHER, _NUMBERS // (x.numel() * attack.copies_for(average))))


def _balls(smoothed: SmoothedClassifier, aims: list[Aim], step: float, attack: Attack) -> Balls:
    """The certificates' balls; images stay images."""
    centres = np.stack([aim.x.numpy().ravel() for aim in aims])
    image = range_of(smoothed.inputs, aims[0].x.shape) is not None
    box = (0.0, 1.0) if image and attack.clip else (-np.inf, np.inf)
    radii = np.array([max(0.0, aim.radius - aim.shift) for aim in aims])
    if step:
        radii = np.minimum(radii, _MOST_STEPS * step)  # far beyond what any noise certifies
    return Balls(centres.astype(np.float64), radii, smoothed.noise.norm, box, step)


def _other_seed(seed: int) -> int:
    """Noise that no certificate of the same seed was made with."""
    return int.from_bytes(hashlib.sha256(b"attack" + seed.to_bytes(16, "big")).digest()[:16], "big")


def _stream(seed: int, number: int) -> np.random.Generator:
    """What the attack draws; noise that averages are measured with has longer keys."""
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(number,))))


def _measure(smoothed: SmoothedClassifier, name: str) -> Measure:
    support_of(name, smoothed.measures)
    return next(measure for measure in smoothed.measures if measure.name == name)
