"""What a run of `SDCA` is made of; `tombola.solvers.dual.step` explains the words."""

from tombola.solvers.certified_run import CertifiedRun, Goal
from tombola.solvers.dual.level import Level
from tombola.solvers.run import Progress
from tombola.state import Cell, Floats, State, array, count, derived, integer

__all__ = ["Centring", "DualOptions", "DualProgress", "DualState", "Scratch"]


class DualProgress(Progress):
    """How far a run is; item gradients are rows visited."""

    draws: int = integer("rows drawn", 0, "item_gradients", default=0)
    since: int = integer("rows drawn since the last pass", 0, "draws", default=0)
    due: int = count("the draws at which the next pass is")
    passes: int = integer("passes over all rows", 0, "item_gradients", default=0)


class DualOptions(Goal):
    """The parameters of a run, and what it needs of the problem."""

    smooth: int = derived("1 if the loss is smooth")
    roundness: float = derived("1/c for a c-smooth loss, else 0")
    length: float = derived("the mean |x|^2, in which long rows count as `longest`")
    longest: float = derived("the largest |x|^2 of usual rows")
    mean_squared: float = derived("|mean|^2")
    aim: float = derived("the gap that progress is measured against: the tolerance, or above it")


class Centring(State):
    """The mean of the rows, zero where they are not centred, and what follows from it."""

    mean: Floats = derived("(d,)")
    products: Floats = derived("x_i mean, (n,)")
    lengths: Floats = derived("|x_i - mean|^2, (n,)")


class Scratch(State):
    """Memory for a step and a pass."""

    z: Floats = derived("(1,)")
    slope: Floats = derived("(1,)")
    side: Floats = derived("(d,)")
    residuals: Floats = derived("(n,)")


class DualState(CertifiedRun):
    """The parts of a run; the part `w` is u, (1, d)."""

    progress: Cell[DualProgress]
    tilt: Floats = derived("(d + 1,): of a linear term; zeros, but for a part of a problem")
    options: Cell[DualOptions] = derived("the parameters")
    centring: Centring = derived("how the rows are centred")
    centre: Floats = array("y, (1, d)")
    previous: Floats = array("w at the last pass, (1, d)")
    duals: Floats = array("a, (n,)")
    level: Cell[Level]
    scratch: Scratch = derived("scratch space")
