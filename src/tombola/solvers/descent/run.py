"""What the runs of SGD, AdaGrad, SAGA and SVRG are made of, as far as they share it."""

import numpy as np

from tombola.solvers.run import LinearRun, Progress
from tombola.state import MOST, Cell, Floats, Record, State, array, count, derived, real

__all__ = [
    "DescentProgress",
    "DescentRun",
    "Options",
    "Rates",
    "Scratch",
    "Search",
    "SearchingRun",
    "StoredSlopes",
    "StoringOptions",
    "new_scratch",
]


class DescentProgress(Progress):
    """How far a run is."""

    loss_sum: float = real(
        "the sum over rounds of the estimates of the mean loss", -MOST, default=0.0
    )


class Options(Record):
    """The parameters of a run."""

    schedule: int = derived("how the rate changes: see `tombola.solvers.descent.rates`")
    convexity: float = derived("l2, for the schedule STRONGLY_CONVEX")


class Rates(Record):
    """What the rate of a round depends on, besides the schedule."""

    rate: float = real("the rate that the user chose, or the present one of a search")
    earlier_rounds: int = count("rounds of runs on other items, for falling rates", default=0)
    square_sum: float = real("the sum of |g|^2, for the schedule NORM", default=0.0)


class Scratch(State):
    """Space for the slopes of a batch, the inner products of one item, and other ones."""

    slopes: Floats = derived("(B, outputs)")
    z: Floats = derived("(outputs,)")
    trial: Floats = derived("(outputs,)")
    trial_slopes: Floats = derived("(outputs,)")


def new_scratch(size: int, outputs: int) -> Scratch:
    """Return scratch space for batches of this size."""
    return Scratch(np.zeros((size, outputs)), *np.zeros((3, outputs)))


class DescentRun(LinearRun):
    """A run of steps along estimated gradients."""

    progress: Cell[DescentProgress]
    options: Cell[Options] = derived("the parameters")
    rates: Cell[Rates]
    scratch: Scratch = derived("scratch space")

    def prefetch_item(self, item: int) -> None:
        """Prefetch the row."""
        self.model.rows.prefetch_row(item)

    def iterate(self) -> Floats:
        """Return the present iterate, a copy."""
        return self.w.copy()

    def solution(self) -> Floats:
        """Return what the run has reached, a copy; by default the present iterate."""
        return self.iterate()


class StoringOptions(Options):
    """The parameters of a run that may store slopes and search its rate."""

    snapshot_every: int = derived("rounds between snapshots (SVRG); 0: none")
    replaces_slopes: int = derived("1 if stored slopes of drawn items are replaced (SAGA)")
    curvature: float = derived("the largest second derivative of the loss")
    period: int = derived("rounds between changes of a searched rate")


class Search(Record):
    """What the search of a rate knows: see `tombola.solvers.descent.rates`."""

    smoothness: float = real("L_Q of the initial draws")
    squares: float = real("the sum of q^2, fading; relative to L_Q, like what follows")
    sums: float = real("the sum of q, fading")
    largest: float = real("the largest q, fading: the guard's", default=0.0)


class StoredSlopes(State):
    """The slopes y of all items and the mean of their gradients; empty for SGD and AdaGrad."""

    table: Floats = array("y, (n, outputs)")
    mean_gradient: Floats = array("(outputs, width)")


class SearchingRun(DescentRun):
    """The fields of a run that may store slopes and search its rate, which `rates` reads.

    Its rounds are those of `tombola.solvers.descent.estimate.StoringRun`.
    """

    options: Cell[StoringOptions] = derived("the parameters")
    search: Cell[Search]
    stored: StoredSlopes
