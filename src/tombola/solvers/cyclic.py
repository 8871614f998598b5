"""The items in their order, again and again."""

from typing import Any, NamedTuple

from tombola.compiling import new_record
from tombola.compiling.records import Record
from tombola.samplers.compiled import Compiled, CompiledSampler

__all__ = ["Cyclic"]


class _Parts(NamedTuple):
    cycle: Record  # turn: the next item; n: the number of items


class CyclicState(Compiled, _Parts):
    """The item whose turn it is, and the number of items."""

    __slots__ = ()

    @classmethod
    def limits(cls, state: Any) -> dict[str, tuple[float, float]]:
        """Return the range of the turn."""
        n = int(state.cycle[0].n)
        return {"cycle.turn": (0, n - 1), "cycle.n": (n, n)}

    @staticmethod
    def draw_one(state: Any) -> Any:
        """Return the next item, and 1/n."""
        cycle = state.cycle[0]
        item = cycle.turn
        cycle.turn = item + 1 if item + 1 < cycle.n else 0
        return item, 1.0 / cycle.n


class Cyclic(CompiledSampler):
    """Goes through the items in their order, again and again; learns nothing.

    For coordinate descent, which is correct in any order. Nothing is random here: the 1/n that
    draws report is the frequency of an item, and estimates with importances are biased. A loaded
    `Result` does not restore a `Cyclic`: pass a new one to `resume`.

    Parameters
    ----------
    n : int

    Examples
    --------
    >>> Cyclic(3).draw(5).indices
    array([0, 1, 2, 0, 1])
    """

    def __init__(self, n: int) -> None:
        super().__init__(n, 0)
        del self.parameters["seed"]
        self.state = CyclicState(new_record(turn=0, n=self.n))

    @property
    def independent(self) -> bool:
        """False: nothing is random."""
        return False

    def _largest_importance(self) -> float:
        return 1.0
