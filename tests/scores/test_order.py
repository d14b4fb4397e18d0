"""An order for counted samples: each as likely as any other, the same at every call, and no use if it depends on the samples."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chisquare

import holdfast as hf
from holdfast.scores import RandomOrder
from holdfast.scores.order import _ranks
from test_guarantees import consistent

Counts = NDArray[np.int64]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=9), st.integers(0, 2**128 - 1), st.data())
def test_blocks_have_the_sizes_asked_for_and_add_up(counts: list[int], seed: int, data: st.DataObject) -> None:
    n = sum(counts)
    cuts = sorted(data.draw(st.sets(st.integers(1, n - 1), max_size=4))) if n > 1 else []
    sizes = np.diff([0, *cuts, n]).tolist()
    blocks = RandomOrder(seed, 3).split(np.array(counts), sizes)
    assert [int(block.sum()) for block in blocks] == sizes
    assert np.sum(blocks, axis=0).tolist() == counts
    again = RandomOrder(seed, 3).split(np.array(counts), sizes)
    assert all(np.array_equal(one, two) for one, two in zip(blocks, again, strict=True))


def test_every_order_is_as_likely_as_any_other() -> None:
    found = Counter(
        tuple(int(np.argmax(block)) for block in RandomOrder(seed, index).split(np.ones(3, dtype=np.int64), [1, 1, 1]))
        for seed in range(40)
        for index in range(60)
    )
    assert len(found) == 6
    assert chisquare(list(found.values())).pvalue > 1e-4


def test_equal_words_are_drawn_again() -> None:
    assert _ranks(np.array([5, 2, 5], dtype=np.uint64)) is None
    assert str(_ranks(np.array([5, 2, 9], dtype=np.uint64))) == "[1 0 2]"


def test_the_simulation_notices_an_order_that_depends_on_the_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong() -> int:
        draws = np.random.default_rng(0).random((150, 400))
        curves = (
            hf.bound(
                hf.ScoreSamples(values, sigma=1.0).histogram().under(hf.Gaussian(1.0), RandomOrder(seed, 0)),
                alpha=0.1,
                method=hf.Naive(mean=hf.Star()),
            )
            for seed, values in enumerate(draws)
        )
        return sum(curve.lower(0.0) > 0.5 for curve in curves)

    def ascending(_: RandomOrder, counts: Counts, sizes: Sequence[int]) -> list[Counts]:
        values = np.repeat(np.arange(counts.size), counts)
        return [np.bincount(part, minlength=counts.size) for part in np.split(values, np.cumsum(sizes)[:-1])]

    assert consistent(wrong(), 150, 0.1)
    monkeypatch.setattr(RandomOrder, "split", ascending)
    assert not consistent(wrong(), 150, 0.1)
