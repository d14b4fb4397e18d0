"""Cohen et al.'s smoothed classifier, whose answer is the class with most votes: what their code and ART's have in common."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import betainc
from torch import Tensor, nn

from holdfast.certificates import Settings
from holdfast.certificates.evidence import MOST_SELECTION, SCORE_UNIT
from holdfast.certificates.label import LabelCertificate
from holdfast.errors import InvalidArgument
from holdfast.inputs import CheckedInputs, GridInput, InputSource
from holdfast.models import Model
from holdfast.noise import check_seed, sampled_noise
from holdfast.noise.sampled import DRAWING_ERROR, MOST_NUMBERS
from holdfast.progress import progress_bar
from holdfast.sampling import Request, SelectionRequest, VotesRequest
from holdfast.sampling.span import Counting
from holdfast.smoothed import SmoothedClassifier
from holdfast.validation import check_alpha, check_count

ABSTAIN = -1
"""Stands for "no class" in the answers of both libraries."""

R = TypeVar("R", bound=Request[Any])


@dataclass(frozen=True, eq=False)
class VoteTest:
    """The votes of noisy copies of one input, and whether they name the winner.

    Guarantee:
        With probability at least ``1 - alpha``, ``certified(alpha)`` is False or ``predicted`` is the class with most votes
        under the noise itself.
    Requires:
        The input is on the classifier's grid, as images of bytes are; else it is about the nearest point of the grid.
    Source:
        Hung & Fithian, "Rank verification for exponential families", Annals of Statistics 47 (2019): the two-sided binomial
        test of the two largest counts. Cohen, Rosenfeld & Kolter 2019, Proposition 1. A departure: alpha is reduced by
        ``slack``, how far the copies are from the noise's law, so that nothing is left to rounding.

    Attributes:
        slack: all copies together are at most so far from independent draws of the noise, in total variation.
    """

    votes: NDArray[np.int64]
    slack: float

    @property
    def predicted(self) -> int:
        """The class with most votes; the first, if several are equal."""
        return int(self.votes.argmax())

    @property
    def p_value(self) -> float:
        """How likely the two largest counts are as different as they are, or more, if both classes were equally likely."""
        second, first = np.sort(self.votes)[-2:].tolist()
        return float(min(1.0, 2 * betainc(first, second + 1, 0.5)))

    def certified(self, alpha: float) -> bool:
        """Whether the winner is certain enough."""
        return self.p_value <= alpha - self.slack


class VotingClassifier:
    """Answers with the class that most noisy copies vote for; for others to shape.

    ``outputs`` and ``inputs`` are as for :class:`SmoothedClassifier`. A network with another number of classes is refused.
    """

    def __init__(
        self,
        net: nn.Module | Model | Callable[[Any], Any],
        classes: int,
        sigma: float,
        *,
        outputs: str,
        inputs: str,
        device: str | torch.device | None = None,
    ) -> None:
        self.classes = check_count("the number of classes", classes, at_least=2)
        self._smoothed = SmoothedClassifier(net, sigma, outputs=outputs, inputs=inputs, device=device)
        self._checked = False

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise."""
        return self._smoothed.sigma

    def certify(
        self, xs: InputSource, *, n0: int, n: int, alpha: float, batch: int, seed: int | None
    ) -> Iterator[tuple[int, float]]:
        """Class and certified radius of each input, or ``ABSTAIN`` and 0.0.

        Guarantee:
            For each input, with probability at least ``1 - alpha``: it is an abstention, or the class has most votes at every
            point strictly within the radius.
        """
        settings = Settings(n, n0, alpha, claims=("label",)).resolved((), self._smoothed.noise)
        known_seed = check_seed(seed)

        def make(_: int, index: int, at: GridInput) -> VotesRequest:
            return VotesRequest(at.x, known_seed, index, n0, n, shift=at.shift)

        for request, step in self._answered(xs, make, n0 + n, batch):
            seen = sampled_noise(self._smoothed.noise, step, request.shift)
            found = request.answer
            label = LabelCertificate(found.evidence.votes, n, alpha=settings.alpha, noise=seen)
            yield (found.selection.predicted, label.radius) if label.certified else (ABSTAIN, 0.0)

    def predict(self, xs: InputSource, *, n: int, alpha: float, batch: int, seed: int | None) -> Iterator[VoteTest]:
        """The votes for each input; ``alpha`` is what they will be tested at."""
        check_count("n", n, at_most=MOST_SELECTION)
        check_alpha(alpha)
        known_seed = check_seed(seed)

        def make(_: int, index: int, at: GridInput) -> SelectionRequest:
            if _slack(n, at.x) >= alpha:
                raise InvalidArgument(
                    f"n = {n:,} copies of {at.x.numel():,} numbers are not drawn exactly enough for alpha = {alpha:g}; "
                    f"give a smaller n"
                )
            return SelectionRequest(at.x, known_seed, index, n, 1, Counting.VOTES)

        for request, _ in self._answered(xs, make, n, batch):
            yield VoteTest(request.answer.sums // SCORE_UNIT, _slack(n, request.x))

    def _answered(
        self, xs: InputSource, make: Callable[[int, int, GridInput], R], copies: int, batch: int
    ) -> Iterator[tuple[R, float]]:
        """Requests in the order of the inputs, with the step of their grid."""
        smoothed = self._smoothed
        inputs = CheckedInputs(xs, smoothed.inputs, smoothed.noise, smoothed.step)
        self._check_classes(inputs[0], batch)
        show = None if len(inputs) > 1 else False
        with progress_bar("sampling", len(inputs) * copies, show=show) as on_copies:
            yield from smoothed.about(inputs, None, make, batch, on_copies, say=on_copies.say)  # type: ignore[misc]

    def _check_classes(self, at: GridInput, batch: int) -> None:
        """One copy tells, before the others are run."""
        if self._checked:
            return
        request = SelectionRequest(at.x, 0, 0, 1, 1)
        found = len(next(self._smoothed.run_requests([request], at.step, batch)).answer.sums)
        if found != self.classes:
            raise InvalidArgument(f"the model has {found} classes, and {self.classes} were given; give {found}")
        self._checked = True


def _slack(n: int, x: Tensor) -> float:
    """How far n copies of an input are together from independent draws of the noise, in total variation."""
    return n * x.numel() * DRAWING_ERROR / MOST_NUMBERS
