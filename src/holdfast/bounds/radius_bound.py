"""One side of a curve: a lower bound as a function of the radius."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray


class RadiusBound(ABC):
    """A lower bound on the expected score of all points within a radius, decreasing in the radius."""

    @abstractmethod
    def value(self, radius: NDArray[np.float64]) -> NDArray[np.float64]:
        """The bound at each radius, in the units of the input."""
