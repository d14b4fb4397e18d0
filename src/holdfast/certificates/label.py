"""Cohen et al.'s label certificate, from the votes of the same noisy copies."""

from dataclasses import dataclass

from holdfast.certificates.proportions import clopper_pearson_lower
from holdfast.errors import InvalidArgument
from holdfast.noise import Noise, as_noise, plain_noise, sigma_of
from holdfast.scores.rounding import SLACK


@dataclass(frozen=True, init=False)
class LabelCertificate:
    """``votes`` of ``n`` noisy copies went to the predicted class; ``sigma=s`` is short for ``noise=Gaussian(s)``.

    Guarantee:
        With probability at least ``1 - alpha``, the class keeps more than half of the votes at every x' with
        ``|x' - x| < radius``, in the norm of the noise; 0.0 if that is not certified even at x.
    Source:
        Cohen, Rosenfeld & Kolter 2019, Theorem 1 with ``p_B = 1 - p_A``; Clopper & Pearson 1934 for ``p_A``.
    """

    votes: int
    n: int
    noise: Noise
    alpha: float

    def __init__(
        self, votes: int, n: int, sigma: float | None = None, alpha: float = 1e-3, *, noise: Noise | None = None
    ) -> None:
        if not 0 <= votes <= n:
            raise InvalidArgument(f"votes must be between 0 and n = {n}, got {votes}")
        object.__setattr__(self, "votes", votes)
        object.__setattr__(self, "n", n)
        object.__setattr__(self, "noise", as_noise(noise, sigma))
        object.__setattr__(self, "alpha", alpha)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise, if it is Gaussian."""
        return sigma_of(plain_noise(self.noise))

    @property
    def probability(self) -> float:
        """The Clopper-Pearson lower bound on the class's share of votes, rounded down."""
        return clopper_pearson_lower(self.votes, self.n, self.alpha)

    @property
    def certified(self) -> bool:
        """Whether the class is certified to win the vote at x itself."""
        return self.radius > 0

    @property
    def radius(self) -> float:
        """The largest radius at which ``p_A`` cannot fall to 1/2, rounded down: ``sigma Phi^-1(p_A)`` for Gaussian noise."""
        return self.noise.radius(self.probability, 0.5) * (1 - SLACK)
