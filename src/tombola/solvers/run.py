"""The state of a solver while it runs: what every run has, and what it may do in the loop."""

from typing import Any, ClassVar

import numpy as np

from tombola.problems.linear import Linear
from tombola.samplers.compiled import Compiled
from tombola.state import Cell, Floats, Ints, Record, State, array, count, derived

__all__ = ["Batch", "LinearRun", "Progress", "Run", "new_batch"]


class Batch(State):
    """The items drawn in a round, what is fed back for them, and the items of the next round."""

    items: Ints = derived("the items drawn")
    probabilities: Floats = derived("the probability of each")
    importances: Floats = derived("1 / (n p) of each")
    losses: Floats = derived("what is fed back, written by the step")
    next_items: Ints = derived("the items of the next round")
    next_probabilities: Floats = derived("the probability of each")


def new_batch(size: int) -> Batch:
    """Return an empty batch of this size."""
    items, ones = np.zeros(size, dtype=np.int64), np.ones(size)
    return Batch(items, ones, ones.copy(), np.zeros(size), items.copy(), ones.copy())


class Progress(Record):
    """How far a run is; a solver that counts more derives from this class."""

    rounds: int = count("rounds taken", default=0)
    item_gradients: int = count("item gradients computed", default=0)


class Run(State):
    """The state of a solver, one argument for kernels; a solver derives its own from it.

    What changes from round to round is declared with a range and saved with a result. What the
    solver makes of its parameters and the problem, and scratch space, is ``derived``.
    """

    compiled: ClassVar[bool] = True  # whether its methods are for numba; else they run as they are

    batch: Batch = derived("the items drawn in the present round")
    progress: Cell[Progress]

    def step(self) -> Any:
        """Compute the losses of the batch; return the position of the first bad one, or -1.

        The step may end here, or with `move`.
        """
        raise NotImplementedError

    def move(self) -> None:
        """Complete the step, without a change of the losses; the default does nothing."""

    def prefetch_item(self, item: int) -> None:
        """Prefetch what the step reads of an item; the default prefetches nothing."""

    def look(self) -> Any:
        """Look at all items, if the run does so now; return whether it did.

        It comes before the draw, and before `move`: a run has one or the other.
        """
        return False

    def tell(self, state: Compiled) -> None:
        """Pass what the run saw of all items to a compiled sampler."""

    def ended(self) -> Any:
        """Return whether the run is as close to the optimum as it was asked to be."""
        return False

    def seen(self) -> Floats | None:
        """Return what `look` saw of all items, for samplers that are called from Python."""
        return None

    @property
    def rounds(self) -> int:
        """The number of rounds taken."""
        return int(self.progress["rounds"][0])

    @property
    def item_gradients(self) -> int:
        """The number of item gradients computed."""
        return int(self.progress["item_gradients"][0])

    def finite(self) -> bool:
        """Return whether the iterate is finite; the default does not look at it."""
        return True


class LinearRun(Run):
    """A run on a linear problem."""

    model: Linear = derived("the arrays of the problem")
    w: Floats = array("the iterate, possibly in another form than the solution has")

    def finite(self) -> bool:
        """Return whether the iterate is finite."""
        return bool(np.isfinite(self.w).all())
