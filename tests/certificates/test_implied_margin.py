"""The margin that a claimed score implies: at every row, on the curve, and with one alpha for both."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.stats import binomtest
from torch import Tensor

import holdfast as hf
from distributions import Discrete, Probit
from evidence import evidence_of
from holdfast.certificates.evidence import MEASURES_0_1_0
from holdfast.certificates.implied_margin import implied_margin
from holdfast.measures import SUM_TOLERANCE, Margin, PredictionScore
from holdfast.models.outputs import as_probabilities
from methods import EXACT_CDF, METHODS

Floats = NDArray[np.float64]
LOSS = SUM_TOLERANCE + 2.0**-23
RADII = np.array([0.0, 0.1, 0.3, 0.6, 1.0, 1.5, 2.0, 3.0])
SIGMA = 0.5
rows = arrays(np.float32, st.tuples(st.integers(1, 8), st.integers(2, 12)), elements=st.floats(0, 1, width=32))


def counted(rows: Tensor) -> tuple[Floats, Floats]:
    """Score and margin of class 0, as they are counted: clipped to their supports."""
    target = torch.zeros(len(rows), dtype=torch.int64)
    score, margin = (measure(rows, target).clamp(*measure.support) for measure in (PredictionScore(), Margin()))
    return score.double().numpy(), margin.double().numpy()


def at_the_limit(score: float) -> Tensor:
    """Two classes, the first with this score, whose float32 sum is just within the tolerance."""
    other = np.nextafter(np.float32(1 + SUM_TOLERANCE - score), np.float32(2))
    while np.float32(np.float32(score) + other) - 1 > SUM_TOLERANCE:
        other = np.nextafter(other, np.float32(0))
    return torch.tensor([[np.float32(score), other]])


@given(rows)
def test_the_margin_is_between_twice_the_score_less_one_and_the_score(raw: NDArray[np.float32]) -> None:
    given_, logits = torch.from_numpy(raw + np.float32(1e-3)), torch.from_numpy(40 * raw)
    for probabilities in (as_probabilities(given_ / given_.sum(1, keepdim=True), logits=False), logits.softmax(1)):
        score, margin = counted(probabilities)
        assert (margin >= 2 * score - 1 - LOSS).all()
        assert (margin <= score + LOSS).all()


@given(st.floats(0, 1, width=32))
def test_rows_that_are_barely_accepted_stay_within_the_loss(first: float) -> None:
    score, margin = counted(at_the_limit(first))
    assert (margin >= 2 * score - 1 - LOSS).all()
    above = torch.tensor([[first, -SUM_TOLERANCE]])
    score, margin = counted(above)
    assert (margin <= score + LOSS).all()


class Answers(hf.Model):
    """The same row for every input."""

    name = "answers"
    device = torch.device("cpu")

    def __init__(self, row: list[float]) -> None:
        self._row = torch.tensor(row)

    def probabilities(self, batch: Tensor) -> Tensor:
        return self._row.repeat(len(batch), 1)


def test_the_tolerance_alone_is_not_enough_and_the_loss_is() -> None:
    # The sum is 1 + 2^-16 + 2^-24, a tie, which float32 rounds to 1 + 2^-16. Such copies are refused, to be on the safe side.
    row = [0.5 + 2.0**-16, 0.5 + 2.0**-24]
    with pytest.raises(hf.ModelError, match="not probabilities"):
        hf.SmoothedClassifier(Answers(row), SIGMA).certify(np.zeros(2, np.float32), n=100, claims="score", seed=1)
    score, margin = counted(torch.tensor([row]))
    assert margin[0] == 2 * score[0] - 1 - (SUM_TOLERANCE + 2.0**-24)
    assert margin[0] >= 2 * score[0] - 1 - LOSS
    exactly = hf.bound(hf.ScoreSamples(score.repeat(9), sigma=SIGMA), alpha=0.5, method=EXACT_CDF)
    assert implied_margin(exactly, SUM_TOLERANCE - 2.0**-23).lower(0.0) > margin[0], "a wrong tolerance is seen"
    assert implied_margin(exactly, SUM_TOLERANCE).lower(0.0) <= margin[0]


def certificate(values: Floats, others: Floats, *, bins: int = 2**14, **settings: object) -> hf.Certificate:
    """Of copies with these scores, whose best other class has ``others``."""
    score = hf.ScoreSamples(values, sigma=SIGMA).histogram(bins)
    margin = hf.ScoreSamples(values - others, support=(-1.0, 1.0), sigma=SIGMA).histogram(bins)
    made = hf.Provenance(seed=1, index=0, noise="", model="", device="", precision="", version="", seconds=0.0)
    plain = hf.Certificate(
        predicted=0,
        n0=10,
        alpha=0.05,
        claims=("label", "score", "margin"),
        sides="both",
        method=hf.CDF(),
        evidence=evidence_of(len(values), int((values > others).sum()), score, margin),
        provenance=made,
    )
    return replace(plain, **settings)  # type: ignore[arg-type]


def test_with_two_classes_and_the_exact_distribution_it_is_the_worst_case() -> None:
    law = Probit(1.0, 0.8)
    values = law.sample(np.random.default_rng(1), (200_000,))
    cert = certificate(values, 1 - values, method=EXACT_CDF, claims=("score",), bins=2**18)
    assert cert.margin.lower(SIGMA * RADII) == pytest.approx(2 * law.lowest(RADII) - 1, abs=0.01)
    assert cert.margin.upper(SIGMA * RADII) == pytest.approx(law.highest(RADII), abs=0.01)
    assert not cert.margin.guaranteed


def test_with_two_classes_the_margin_costs_nothing() -> None:
    values = Probit(2.0, 1.0).sample(np.random.default_rng(2), (2_000,))
    spent = certificate(values, 1 - values)
    free = spent.recompute(claims=("label", "score"))
    gained = free.margin.lower(SIGMA * RADII) - spent.margin.lower(SIGMA * RADII)
    assert gained.min() > 1e-4
    assert (free.score.lower(SIGMA * RADII) > spent.score.lower(SIGMA * RADII)).all()


# Larger scores may have a larger variance, which lowers the empirical Bernstein bound, and fewer ties, which help the "-20".
MONOTONE = [name for name in METHODS if "bernstein" not in name and not name.endswith("-20")]


@pytest.mark.parametrize("name", MONOTONE)
@given(data=st.data(), n=st.integers(2, 60))
def test_a_margin_that_is_claimed_is_never_below_it_so_there_is_nothing_to_take_the_best_of(
    name: str, data: st.DataObject, n: int
) -> None:
    numbers = arrays(np.float64, n, elements=st.floats(0, 1))
    values, part = data.draw(numbers), data.draw(numbers)
    cert = certificate(values, (1 - values) * part, sides="lower", method=METHODS[name])
    implied = implied_margin(cert.score, SUM_TOLERANCE)
    # Both grids have the same edges up to float32; rounding may take a margin to the edge before, one bin lower.
    bin_width = float(np.diff(cert.evidence["margin"].grid.edges).max())
    assert (cert.margin.lower(SIGMA * RADII) >= implied.lower(SIGMA * RADII) - bin_width).all()


ALPHA, REPEATS, COPIES = 0.2, 400, 1_000


def wrong(others: float, tolerance: float, upper_slope: float = 1.0) -> int:
    """How many of many certificates of the score fail for the margin of three classes, which share what the score leaves.

    ``others`` is the best other class's part of it; a tolerance or an ``upper_slope`` other than the right one may be tried.
    """
    law, rng = Probit(1.0, 0.8), np.random.default_rng(5)
    lowest, highest = ((1 + others) * each - others for each in (law.lowest(RADII), law.highest(RADII)))
    failed = 0
    for values in law.sample(rng, (REPEATS, COPIES)):
        score = hf.bound(hf.ScoreSamples(values, sigma=SIGMA), alpha=ALPHA, sides="both")
        margin = implied_margin(score, tolerance)
        upper = margin.upper(SIGMA * RADII)
        if upper_slope != 1.0:
            upper = upper_slope * score.upper(SIGMA * RADII) - 1
        failed += bool((margin.lower(SIGMA * RADII) > lowest).any() or (upper < highest).any())
    return failed


@pytest.mark.parametrize("others", [1.0, 0.5])
def test_with_one_alpha_it_is_wrong_at_most_that_often(others: float) -> None:
    assert binomtest(wrong(others, SUM_TOLERANCE), REPEATS, ALPHA, alternative="greater").pvalue > 1e-4


def test_the_simulation_sees_a_wrong_tolerance_and_a_wrong_upper_side() -> None:
    for broken in (wrong(1.0, tolerance=-0.1), wrong(0.5, SUM_TOLERANCE, upper_slope=2.0)):
        assert binomtest(broken, REPEATS, ALPHA, alternative="greater").pvalue < 1e-6


def test_score_and_margin_fail_together_so_no_alpha_is_spent_twice() -> None:
    law, rng = Discrete((0.0, 1.0), (0.1, 0.9)), np.random.default_rng(6)
    failed = 0
    for values in law.sample(rng, (300, 60)):
        cert = certificate(values, 1 - values, alpha=ALPHA, claims=("score",))
        bad = bool((cert.score.lower(SIGMA * RADII) > law.lowest(RADII)).any())
        failed += bad
        assert bad or bool((cert.margin.lower(SIGMA * RADII) <= 2 * law.lowest(RADII) - 1).all())
    assert failed > 0, "at alpha = 0.2 some certificates must fail, or the simulation sees nothing"


def test_it_is_there_where_the_score_is_claimed_and_changes_no_claim() -> None:
    values = Probit(2.0, 1.0).sample(np.random.default_rng(3), (500,))
    cert = certificate(values, (1 - values) / 2, claims=("score",))
    assert cert.margin.alpha == cert.score.alpha == cert.alpha
    claimed = cert.recompute(claims=("score", "margin"))
    assert claimed.margin.lower(0.1) == hf.bound(cert.evidence["margin"], alpha=cert.alpha / 2, sides="both").lower(0.1)
    assert claimed.margin.lower(0.1) > cert.margin.lower(0.1), "with three classes, its own bound is tighter"
    assert (cert.claims, list(cert.curves)) == (("score",), ["score"])
    assert "margin" not in cert.describe()
    assert cert.margin.upper(0.1) == pytest.approx(cert.score.upper(0.1) + LOSS)
    assert cert.curve("margin").radius(at_least=0.2) > 0
    back = hf.Certificate.from_dict(cert.to_dict())
    again = pickle.loads(pickle.dumps(cert.margin))
    assert cert.margin.lower(0.1) == back.margin.lower(0.1) == again.lower(0.1)
    with pytest.raises(hf.NotClaimed, match="lower side only"):
        cert.recompute(sides="lower").margin.upper(0.1)
    for claims in (("label",), ("label", "margin")):
        other = "margin" if claims == ("label",) else "score"
        with pytest.raises(hf.NotClaimed, match=f"'{other}'"):
            cert.recompute(claims=claims).curve(other)


def test_counts_of_0_1_0_imply_no_margin() -> None:
    values = np.full(500, 0.9)
    cert = certificate(values, 1 - values, claims=("score",))
    old = hf.Evidence(
        cert.n, cert.evidence.votes, dict(zip(MEASURES_0_1_0, cert.evidence.histograms.values(), strict=True))
    )
    assert cert.margin.lower(0.1) > 0
    with pytest.raises(hf.NotClaimed):
        replace(cert, evidence=old).margin.lower(0.1)
