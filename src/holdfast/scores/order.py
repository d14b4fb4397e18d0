"""The order that counts have forgotten, drawn anew: for bounds that bet on one block of samples after the other."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.noise.seed import Stage


@dataclass(frozen=True)
class RandomOrder:
    """One of all orders of the samples, each equally likely, as the seed and the index of their noise say.

    Guarantee:
        Samples that were counted and are put in this order have the same law as in the order of their arrival: blocks of
        them are independent samples. So what holds of ordered samples with some probability holds of these with the same.
    Requires:
        Independent samples of one distribution, and that the order does not depend on them: it has a stage of the noise's
        generator for itself.
    Source:
        Given their counts, independent samples are in each order with the same probability; see docs/mathematics.md.
    """

    seed: int
    index: int

    def split(self, counts: NDArray[np.int64], sizes: Sequence[int]) -> list[NDArray[np.int64]]:
        """The counts of consecutive blocks of these sizes."""
        n = int(counts.sum())
        words = np.random.Philox(np.random.SeedSequence(self.seed, spawn_key=(self.index, int(Stage.ORDER))))
        order = _ranks(words.random_raw(n))
        while order is None:
            order = _ranks(words.random_raw(n))
        values = np.repeat(np.arange(counts.size), counts)[order]
        return [np.bincount(part, minlength=counts.size) for part in np.split(values, np.cumsum(sizes)[:-1])]


def _ranks(words: NDArray[np.uint64]) -> NDArray[np.int64] | None:
    """The order of the words; none if two are equal, since then not every order would be as likely as any other."""
    order = np.argsort(words, kind="stable")
    inorder = words[order]
    return None if (inorder[1:] == inorder[:-1]).any() else order
