"""The items in their order, again and again."""

from typing import Any

from tombola.samplers.compiled import Compiled, CompiledSampler
from tombola.state import Cell, Record, cell, derived, integer

__all__ = ["Cyclic"]


class Cycle(Record):
    """Where the order is."""

    turn: int = integer("the next item", 0, "n - 1", default=0)
    n: int = derived("the number of items")


class CyclicState(Compiled):
    """The item whose turn it is, and the number of items."""

    cycle: Cell[Cycle]

    def draw_one(self) -> Any:
        """Return the next item, and 1/n."""
        cycle = self.cycle[0]
        item = cycle.turn
        cycle.turn = item + 1 if item + 1 < cycle.n else 0
        return item, 1.0 / cycle.n


class Cyclic(CompiledSampler):
    """Goes through the items in their order, again and again; learns nothing.

    For coordinate descent, which is correct in any order. Nothing is random here: the 1/n that
    draws report is the frequency of an item, and estimates with importances are biased.

    It needs no parameters, not even a seed. A draw takes O(1), without memory.

    Parameters
    ----------
    n : int

    Examples
    --------
    >>> Cyclic(3).draw(5).indices
    array([0, 1, 2, 0, 1])
    """

    keeps_items = False
    independent = False  # nothing is random

    def __init__(self, n: int) -> None:
        super().__init__(n, 0)
        del self.parameters["seed"]
        self.state = CyclicState(stream=self._stream.state, cycle=cell(Cycle(n=self.n)))

    def _largest_importance(self) -> float:
        return 1.0
