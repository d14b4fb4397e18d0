"""A few rows with a model's answers to them: whether a copy elsewhere is the same model."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class SpotCheck:
    """Rows, the probabilities they were given, both on the CPU, and how far others may be off on average."""

    rows: Tensor
    answers: Tensor
    tolerance: float

    def difference(self, answers: Tensor) -> float:
        """How far other answers to the rows are off on average."""
        if answers.shape != self.answers.shape:
            return float("inf")
        return float((answers.cpu() - self.answers).abs().mean())

    def passes(self, answers: Tensor) -> bool:
        """Whether other answers to the rows are near enough; NaN is not."""
        return self.difference(answers) <= self.tolerance
