"""What a run of `Newton` is made of."""

from tombola.solvers.certified_run import CertifiedRun
from tombola.solvers.run import Progress
from tombola.state import Cell, Floats, Ints, State, derived, integer

__all__ = ["TWICE", "NewtonProgress", "NewtonState", "Sample", "Scratch", "Survey"]

TWICE = 2  # after this many steps in succession that were cut, all rows take the place of samples


class NewtonProgress(Progress):
    """How far a run is; item gradients are rows visited."""

    passes: int = integer("passes over all rows", 0, "item_gradients", default=0)
    ahead: int = integer("1 if w is beyond the last pass, or a start that no pass has seen", 0, 1)
    cut: int = integer(
        "how many steps in succession were cut, TWICE from there on", 0, TWICE, default=0
    )


class Survey(State):
    """What a pass saw of each row, (n,) each."""

    slopes: Floats = derived("s_i phi'")
    curves: Floats = derived("s_i phi''")
    reaches: Floats = derived("sqrt(|x_i|^2 + mean |x|^2), the same for all passes")
    scores: Floats = derived("how much the row matters")


class Sample(State):
    """The rows drawn, (m,) each."""

    items: Ints = derived("all rows in order where m = n")
    factors: Floats = derived("s_b / (n p_b)")
    z: Floats = derived("x_b w")
    moves: Floats = derived("x_b step")


class Scratch(State):
    """Memory for a pass and for the minimum over a sample."""

    z: Floats = derived("(1,)")
    slope: Floats = derived("(1,)")
    sides: Floats = derived("(2, d): sums of s_i a_i x_i, by the sign of a_i")
    gradient: Floats = derived("(width,): of P")
    correction: Floats = derived("(width,): c")
    model_gradient: Floats = derived("(width,)")
    hessian: Floats = derived("(width, width): its lower triangle")
    step: Floats = derived("(width,)")
    block: Floats = derived("(8, width)")


class NewtonState(CertifiedRun):
    """The parts of a run."""

    progress: Cell[NewtonProgress]
    survey: Survey = derived("what the last pass saw, written before each draw")
    sample: Sample = derived("the rows drawn")
    scratch: Scratch = derived("scratch space")
