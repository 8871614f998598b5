"""Independent uniform draws: the baseline."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.draws import Draw
from tombola.random import next_below
from tombola.samplers.compiled import Compiled, CompiledSampler
from tombola.state import Cell, Floats, Record, cell, derived

__all__ = ["Uniform"]


class Items(Record):
    """The number of items."""

    n: int = derived("the number of items")


class UniformState(Compiled):
    """The random words and the number of items."""

    items: Cell[Items] = derived("the number of items")

    def draw_one(self) -> Any:
        """Draw one item; return it and its probability."""
        n = self.items[0].n
        return np.int64(next_below(self.stream, np.uint64(n))), 1.0 / n


class Uniform(CompiledSampler):
    """Draws every item with probability 1/n, with replacement; learns nothing.

    p_t(i) = 1/n. It needs no parameters, and a draw takes O(1). The gauge compares the second
    moment of every sampler with that of this one.

    Parameters
    ----------
    n : int
        The number of items.
    seed : int, default=0

    Examples
    --------
    >>> Uniform(4).draw(3).importances
    array([1., 1., 1.])
    """

    keeps_items = False

    state: UniformState

    def __init__(self, n: int, *, quantity: str = "loss", seed: int = 0) -> None:
        super().__init__(n, seed, quantity=quantity)
        self.state = UniformState(stream=self._stream.state, items=cell(Items(n=self.n)))

    def _draw(self, size: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        return self._stream.integers(self.n, size), np.full(size, 1.0 / self.n)

    def _update(self, draw: Draw, losses: Floats) -> None:
        """Learn nothing; the base class has updated the gauge."""

    def _largest_importance(self) -> float:
        return 1.0
