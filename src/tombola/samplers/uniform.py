"""Uniform draws: the yardstick."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.draws import Draw
from tombola.random import next_below
from tombola.samplers.compiled import CompiledSampler

__all__ = ["Uniform"]


class UniformBoard(NamedTuple):
    """The random stream and the number of items."""

    words: NDArray[np.uint64]
    size: NDArray[np.uint64]

    @staticmethod
    def draw_one(board: Any) -> Any:
        """Draw one item; return it and its probability."""
        return np.int64(next_below(board.words, board.size[0])), 1.0 / board.size[0]

    @staticmethod
    def update_one(board: Any, item: Any, probability: Any, loss: Any) -> None:
        """Nothing to learn."""

    @staticmethod
    def fill_probabilities(board: Any, out: Any) -> None:
        """Write 1/n for each item."""
        out[:] = 1.0 / out.size


class Uniform(CompiledSampler):
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
        self.state = UniformBoard(self._stream.state, np.array([self.n], dtype=np.uint64))

    def _draw(self, size: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        return self._stream.integers(self.n, size), np.full(size, 1.0 / self.n)

    def _update(self, draw: Draw, losses: Any) -> None:
        """Nothing to learn; the gauge has taken note."""

    def _largest_importance(self) -> float:
        return 1.0
