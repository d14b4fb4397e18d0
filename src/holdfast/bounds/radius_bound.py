"""One side of a curve: a lower bound as a function of the distance."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray


class RadiusBound(ABC):
    """A lower bound on the expected score of all points within a distance, decreasing in the distance."""

    @abstractmethod
    def value(self, r: NDArray[np.float64]) -> NDArray[np.float64]:
        """The bound at distances ``r``, in units of sigma."""
