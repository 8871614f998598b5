"""Independent uniform draws: the baseline."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import new_record
from tombola.compiling.records import Record
from tombola.draws import Draw
from tombola.random import next_below
from tombola.samplers.compiled import Compiled, CompiledSampler

__all__ = ["Uniform"]


class _Parts(NamedTuple):
    stream: Record
    items: Record  # the number of items


class UniformState(Compiled, _Parts):
    """The random stream and the number of items."""

    __slots__ = ()
    derived = ("items",)

    @staticmethod
    def draw_one(state: Any) -> Any:
        """Draw one item; return it and its probability."""
        n = state.items[0].n
        return np.int64(next_below(state.stream, np.uint64(n))), 1.0 / n


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

    def __init__(self, n: int, *, quantity: str = "loss", seed: int = 0) -> None:
        super().__init__(n, seed, quantity=quantity)
        self.state = UniformState(self._stream.state, new_record(n=self.n))

    def _draw(self, size: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        return self._stream.integers(self.n, size), np.full(size, 1.0 / self.n)

    def _update(self, draw: Draw, losses: Any) -> None:
        """Learn nothing; the base class has updated the gauge."""

    def _largest_importance(self) -> float:
        return 1.0
