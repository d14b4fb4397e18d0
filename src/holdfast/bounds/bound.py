"""From score samples to certified curves, in one call."""

from collections.abc import Iterable

from holdfast.bounds.cdf import CDF
from holdfast.bounds.curve import Curve, Curves
from holdfast.bounds.method import Method, check_method
from holdfast.errors import InvalidArgument
from holdfast.noise import plain_noise
from holdfast.scores import Scores
from holdfast.validation import SMALLEST_SHARE, check_alpha, check_sides

DEFAULT_METHOD: Method = CDF()


def bound(scores: Scores, *, alpha: float, method: Method = DEFAULT_METHOD, sides: str = "lower") -> Curve:
    """Certify a score from samples alone: no model, no torch.

    Guarantee:
        The curve's: total failure probability ``alpha`` over every radius, and over both sides if both are asked for.
    """
    if not isinstance(scores, Scores):
        raise InvalidArgument(
            f"expected ScoreSamples(values, support=(a, b), sigma=s) or a ScoreHistogram, got {type(scores).__name__}"
        )
    check_method(method)
    method.check_noise(plain_noise(scores.noise))
    alpha, asked = check_alpha(alpha, at_least=SMALLEST_SHARE), check_sides(sides)
    # The upper side is the lower side of the reflected score.
    below = method.side(scores, lambda each: each.survival_lower(), alpha, asked)
    above = None if asked == "lower" else method.side(scores, lambda each: each.survival_upper(), alpha, asked)
    return Curve(plain_noise(scores.noise), alpha, method.name, method.guaranteed, scores.support, below, above)


def bound_many(
    scores: Iterable[Scores], *, alpha: float, method: Method = DEFAULT_METHOD, sides: str = "lower"
) -> Curves:
    """:func:`bound` for each of many inputs; ``alpha`` is each certificate's, as in the papers' tables."""
    return Curves([bound(each, alpha=alpha, method=method, sides=sides) for each in scores])
