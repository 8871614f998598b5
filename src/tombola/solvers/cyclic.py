"""The items in their order, again and again."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from tombola.checkpoint import CheckpointError
from tombola.compiling import new_record
from tombola.compiling.records import Record
from tombola.samplers.compiled import CompiledSampler

__all__ = ["Cyclic"]


class CyclicState(NamedTuple):
    """The item whose turn it is, and the number of items."""

    cycle: Record  # turn, n

    @staticmethod
    def draw_one(state: Any) -> Any:
        """Return the next item, and 1/n."""
        cycle = state.cycle[0]
        item = cycle.turn
        cycle.turn = item + 1 if item + 1 < cycle.n else 0
        return item, 1.0 / cycle.n

    @staticmethod
    def update_one(state: Any, item: Any, probability: Any, loss: Any) -> None:
        """Learn nothing."""

    @staticmethod
    def fill_probabilities(state: Any, out: Any) -> None:
        """Write 1/n for each item."""
        out[:] = 1.0 / out.size


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

    def _arrays(self) -> dict[str, Any]:
        return {"cycle": self.state.cycle}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where another `Cyclic` over as many items was."""
        cycle = state.get("parts", {}).get("cycle", {})
        turn, n = cycle.get("turn"), cycle.get("n")
        if n != self.n or not isinstance(turn, int) or not 0 <= turn < self.n:
            raise CheckpointError(f"the state does not fit: turn {turn!r} of {n!r} items")
        super().load_state_dict(state)

    def _largest_importance(self) -> float:
        return 1.0
