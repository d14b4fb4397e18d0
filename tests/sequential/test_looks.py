"""Looking while it samples: every certificate seen on the way is true at once, and whoever stops may keep any."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

import holdfast as hf
from evidence import evidence_of
from holdfast.sequential.looks import plan_looks

ALPHA = 0.2
SIGMA = 1.0


@given(st.integers(1, 10**7))
def test_the_looks_together_spend_alpha_and_no_more(n: int) -> None:
    looks = plan_looks(n)
    assert looks[-1].n == n
    assert [look.n for look in looks] == sorted({look.n for look in looks})
    assert sum(look.share for look in looks) <= 1 + 1e-12
    assert looks[-1].share >= 0.5


def test_a_certificate_at_a_look_spends_its_share_of_alpha_and_says_so() -> None:
    scores = hf.ScoreSamples(np.random.default_rng(0).random(500), sigma=SIGMA).histogram()
    margins = hf.ScoreSamples(np.zeros(500), support=(-1.0, 1.0), sigma=SIGMA).histogram()
    provenance = hf.Provenance(1, 0, "noise", "model", "cpu", "float32", "0", 0.0)
    evidence = evidence_of(500, 400, scores, margins)
    cert = hf.Certificate(0, 100, 0.01, ("label", "score"), "lower", hf.CDF(), evidence, provenance, share=0.125)
    assert cert.score.alpha == 0.01 * 0.125 / 2
    assert cert.label.alpha == 0.01 * 0.125 / 2
    assert cert.score.lower(0.3) == hf.bound(scores, alpha=0.01 * 0.125 / 2).lower(0.3)
    assert "99%" in str(cert)
    assert "planned looks" in str(cert)
    assert hf.Certificate.from_dict(cert.to_dict()) == cert
    assert hf.Certificate.from_dict(cert.to_dict()).score.lower(0.3) == cert.score.lower(0.3)
    for share in (0.0, -1.0, 1.5, float("nan")):
        with pytest.raises(hf.InvalidArgument, match="share"):
            hf.Certificate(0, 100, 0.01, ("score",), "lower", hf.CDF(), evidence, provenance, share=share)


def test_whoever_stops_at_the_worst_moment_is_still_right_often_enough() -> None:
    """The adversary of an interim bound: stop at the first look that is wrong. Votes, whose bound is nearly exact."""
    looks = plan_looks(3_000)
    assert len(looks) == 4
    chance, truth, draws = np.random.default_rng(7), 0.7, 2_000
    sizes = np.diff([0, *(look.n for look in looks)])
    votes = chance.binomial(sizes, truth, (draws, len(looks))).cumsum(axis=1)

    def failures(shares: list[float]) -> int:
        wrong = [
            any(
                hf.LabelCertificate(int(won), look.n, SIGMA, ALPHA * share).probability > truth
                for won, look, share in zip(row, looks, shares, strict=True)
            )
            for row in votes
        ]
        return sum(wrong)

    assert binom.sf(failures([look.share for look in looks]) - 1, draws, ALPHA) > 1e-3
    # Without dividing alpha it would be wrong too often, which this test would notice.
    assert binom.sf(failures([1.0] * len(looks)) - 1, draws, ALPHA) < 1e-6
