"""Uniform draws: the yardstick."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.draws import Draw
from tombola.samplers.base import Sampler

__all__ = ["Uniform"]


class Uniform(Sampler):
    """Draws every item with probability 1/n, with replacement; learns nothing.

    p_t(i) = 1/n. Needs nothing; O(1) a draw. Its second moment is the 1 that the gauge
    compares every other sampler with.

    Parameters
    ----------
    n : int
    seed : int, default=0

    Examples
    --------
    >>> Uniform(4).draw(3).importances
    array([1., 1., 1.])
    """

    def __init__(self, n: int, *, seed: int = 0) -> None:
        super().__init__(n, seed)

    def _draw(self, size: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        return self._stream.integers(self.n, size), np.full(size, 1.0 / self.n)

    def _update(self, draw: Draw, losses: Any) -> None:
        """Nothing to learn; the gauge has taken note."""

    def probabilities(self) -> NDArray[np.float64]:
        """Return 1/n for each item."""
        return np.full(self.n, 1.0 / self.n)

    def _largest_importance(self) -> float:
        return 1.0
