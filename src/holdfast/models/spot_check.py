"""A few rows with a model's answers to them: whether a copy elsewhere is the same model."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class SpotCheck:
    """Rows, the probabilities they were given, and how far others may be off on average over the rows.

    Two rows of probabilities are as far apart as the most they give differently to any set of classes (their total
    variation), whatever the number of classes.
    """

    rows: Tensor
    answers: Tensor
    tolerance: float

    def difference(self, answers: Tensor) -> float:
        """How far other answers to the rows are off on average, from 0 to 1."""
        if answers.shape != self.answers.shape:
            return float("inf")
        return float((answers.to(self.answers.device) - self.answers).abs().sum(1).mean()) / 2

    def passes(self, answers: Tensor) -> bool:
        """Whether other answers to the rows are near enough; NaN is not."""
        return self.difference(answers) <= self.tolerance
