"""Coordinate descent, and the step that it shares with the block version.

The items are blocks B of coordinates (`CoordinateDescent`: of one each). With g the gradient of
the mean loss in the block and L its Lipschitz constant,

    w_j <- soft(L w_j - g_j, l1) / (L + l2)                              for every j in B

which minimises an upper bound on the objective and so decreases it by at least
(L + l2) / 2 |change|^2, whatever p the block was drawn with: p affects the speed, never the limit.

The run keeps z = X w and the slopes of all rows, so that a step touches only the rows in which
its columns are not zero, and only reads them if w does not change.
"""

import math
from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.compiling import kernel
from tombola.problems.linear import LinearProblem, item_slopes, weighted_slopes
from tombola.problems.rows import Dense, Rows, Sparse, squared_norms, transposed
from tombola.samplers import Sampler
from tombola.solvers.base import Solver
from tombola.solvers.proximal import soft
from tombola.solvers.run import LinearRun, Progress, new_batch
from tombola.state import Cell, Floats, Ints, State, array, cell, derived, integer
from tombola.validation import whole

__all__ = ["Blocks", "CoordinateDescent", "CoordinateRun", "CoordinateSolver"]

EPOCHS = 64  # z is recomputed after this many passes over all coordinates


class Blocks(State):
    """The items: block k holds members[starts[k]] to members[starts[k + 1] - 1]."""

    members: Ints = derived("the coordinates, block by block")
    starts: Ints = derived("where each block begins, and where the last one ends")
    smooth: Floats = derived("Lipschitz constants of the blocks' gradients, without l2")


class CoordinateProgress(Progress):
    """How far a run is; item gradients are coordinates visited."""

    refreshed_at: int = integer("that, when z was recomputed", 0, "item_gradients", default=0)


class CoordinateRun(LinearRun):
    """Steps in the blocks drawn, one after the other."""

    progress: Cell[CoordinateProgress]
    columns: Rows = derived("the columns of the data, as rows; with an intercept, ones as the last")
    blocks: Blocks = derived("the items")
    z: Floats = array("X w, (n,)")
    slopes: Floats = array("s_i phi'(z_i), (n,)")
    change: Floats = derived("scratch: of the members of a block")

    def step(self) -> Any:
        """Take one step with the batch; return the position of the first bad loss, or -1."""
        progress, batch, starts = self.progress[0], self.batch, self.blocks.starts
        progress.rounds += 1
        for b in range(batch.items.size):
            block = batch.items[b]
            batch.losses[b] = propose(self, block)
            if not batch.losses[b] < math.inf:
                return b
            apply(self, block)
            progress.item_gradients += starts[block + 1] - starts[block]
        if progress.item_gradients - progress.refreshed_at >= EPOCHS * self.w.shape[1]:
            progress.refreshed_at = progress.item_gradients
            refresh(self)
        return -1


@kernel(inline=True)
def propose(run: CoordinateRun, block: int) -> Any:
    """Write the change v that minimises g v + L/2 |v|^2 + l2/2 |w + v|^2 + l1 |w + v|_1.

    Return the feedback: the fourth root of (L + l2) |v|^2, twice the guaranteed decrease.
    """
    blocks, w, settings = run.blocks, run.w, run.model.settings[0]
    n, width = run.z.size, w.shape[1]
    smooth = blocks.smooth[block]
    start = blocks.starts[block]
    twice = 0.0
    for c in range(start, blocks.starts[block + 1]):
        j = blocks.members[c]
        free = settings.intercept and j == width - 1
        l1 = 0.0 if free else settings.l1
        l2 = 0.0 if free else settings.l2
        g = run.columns.dot(j, run.slopes) / n
        if smooth + l2 > 0.0:
            change = soft(smooth * w[0, j] - g, l1) / (smooth + l2) - w[0, j]
        else:  # a column of zeros
            change = -w[0, j] if l1 > 0.0 else 0.0
        run.change[c - start] = change
        twice += (smooth + l2) * change * change
    return math.sqrt(math.sqrt(twice))


@kernel(inline=True)
def apply(run: CoordinateRun, block: int) -> None:
    """Change w as proposed, and z and the slopes with it."""
    blocks, columns = run.blocks, run.columns
    start, stop = blocks.starts[block], blocks.starts[block + 1]
    for c in range(start, stop):
        j, change = blocks.members[c], run.change[c - start]
        if change != 0.0:
            run.w[0, j] += change
            columns.add_row(j, change, run.z)
    for c in range(start, stop):
        j = blocks.members[c]
        if run.change[c - start] != 0.0:
            for entry in range(columns.first(j), columns.end(j)):
                set_slope(run, columns.column(entry))
            if columns.end(j) - columns.first(j) == run.z.size:
                break  # that was every row


@kernel(inline=True)
def set_slope(run: CoordinateRun, row: int) -> None:
    """Compute the slope of a row from its z."""
    weighted_slopes(run.model, row, run.z[row : row + 1], run.slopes[row : row + 1])


@kernel
def refresh(run: CoordinateRun) -> None:
    """Recompute z and the slopes from w, so that rounding errors do not accumulate."""
    for row in range(run.z.size):
        item_slopes(run.model, run.w, row, run.z[row : row + 1], run.slopes[row : row + 1])


@kernel
def propose_all(run: CoordinateRun, out: Floats) -> None:
    """Write the feedback that each block would give if it were drawn now."""
    for block in range(out.size):
        out[block] = propose(run, block)


class CoordinateSolver(Solver):
    """What `CoordinateDescent` and `BlockCoordinateDescent` share."""

    quantity = "fourth root of the decrease"

    def _check(self, problem: Any) -> None:
        if not (
            isinstance(problem, LinearProblem)
            and problem.outputs == 1
            and math.isfinite(getattr(problem, "curvature", math.inf))
        ):
            raise TypeError(
                f"{type(self).__name__} minimises linear models with one output and a bounded "
                f"second derivative (LeastSquares, Logistic, SquaredHinge, Huber), got "
                f"{type(problem).__name__}"
            )

    @abstractmethod
    def _blocks(self, problem: Any, columns: Rows) -> Blocks:
        """Return the items."""

    def _begin(self, problem: Any, start: ArrayLike | None, sampler: Sampler) -> CoordinateRun:
        columns = columns_of(problem)
        blocks = self._blocks(problem, columns)
        run = CoordinateRun(
            batch=new_batch(self.batch_size),
            progress=cell(CoordinateProgress()),
            model=problem.model,
            columns=columns,
            blocks=blocks,
            w=problem.as_matrix(start),
            z=np.empty(problem.n),
            slopes=np.empty(problem.n),
            change=np.zeros(int(np.diff(blocks.starts).max())),
        )
        refresh(run)
        return run

    def _solution(self, problem: Any, run: CoordinateRun) -> NDArray[np.float64]:
        return np.array(run.w, dtype=np.float64).reshape(problem.shape)

    def _all_losses(self, problem: Any, run: CoordinateRun) -> NDArray[np.float64]:
        losses = np.empty(run.blocks.smooth.size)
        propose_all(run, losses)
        return losses

    def _advice(self, problem: Any) -> str:
        return "numbers overflow: scale the data, or start closer to zero"


class CoordinateDescent(CoordinateSolver):
    """Proximal coordinate descent: one coordinate at a time, by a step that never ascends.

    With g_j the derivative of the mean loss and L_j its Lipschitz constant, curvature * sum_i
    s_i x_ij^2 / n:

        w_j <- soft(L_j w_j - g_j, l1) / (L_j + l2)

    For least squares this is the exact minimum in w_j. An intercept is one more coordinate, the
    last, without penalty. There is no importance here: an adaptive p changes the speed, never
    the limit.

    The items of the sampler are the coordinates, by default ``VRB(d)`` (with an intercept
    ``VRB(d + 1)``). `Cyclic` and `Shuffle` give the two usual orders.

    Parameters
    ----------
    batch_size : int, default=1
        Coordinates drawn at a time, with feedback after the last. Their steps are taken one
        after the other, each from the result of the one before.

    Notes
    -----
    Fed back is (L_j + l2)^(1/4) |change|^(1/2): the fourth root of twice the guaranteed
    decrease, in the same unit for all columns. `VRB` draws by the root of a coordinate's average
    square, which is then that of its average (L_j + l2)^(1/2) |change|. On lassos and logistic
    problems this took fewer steps than the square root of the decrease or the size of the
    gradient, which fall so fast from visit to visit that the first ones dominate the average.

    A step takes O(non-zeros of the column); if w_j does not change, one inner product. The
    data is copied once, by columns. z = X w is kept up to date, and recomputed after every 64
    passes over all coordinates, so that rounding errors do not accumulate. `item_gradients`
    counts coordinates visited.

    Examples
    --------
    >>> import numpy as np
    >>> from tombola.problems import LeastSquares
    >>> from tombola.solvers.gap import duality_gap
    >>> X, y = np.array([[1.0, 0.0], [2.0, 1.0], [3.0, -1.0]]), [1.0, 2.5, 2.0]
    >>> lasso = LeastSquares(X, y, alpha=0.1, l1_ratio=1.0)
    >>> result = CoordinateDescent().minimize(lasso, rounds=100)
    >>> result.solution.round(4), duality_gap(lasso, result.solution) < 1e-11
    (array([0.8741, 0.537 ]), True)
    >>> from tombola import Cyclic
    >>> cyclic = CoordinateDescent().minimize(lasso, sampler=Cyclic(2), rounds=100)
    >>> bool(np.allclose(cyclic.solution, result.solution))
    True

    References
    ----------
    Nesterov (2012). Efficiency of Coordinate Descent Methods on Huge-Scale Optimization Problems.
    Richtarik, Takac (2014). Iteration Complexity of Randomized Block-Coordinate Descent Methods
    for Minimizing a Composite Function.
    """

    def __init__(self, *, batch_size: int = 1) -> None:
        self.batch_size = whole("batch_size", batch_size, 1)

    def _items(self, problem: Any) -> int:
        return int(problem.d + problem.fit_intercept)

    def _blocks(self, problem: Any, columns: Rows) -> Blocks:
        width = self._items(problem)
        smooth = problem.curvature * squared_norms(columns, problem.model.weights) / problem.n
        return Blocks(np.arange(width), np.arange(width + 1), smooth)


def columns_of(problem: LinearProblem) -> Rows:
    """Return the columns of the data as rows; with an intercept, ones as the last of them."""
    columns = transposed(problem.model.rows)
    if not problem.fit_intercept:
        return columns
    ones = np.ones(problem.n, dtype=columns.values.dtype)
    if isinstance(columns, Dense):
        return Dense(np.vstack([columns.values, ones]))
    return Sparse(
        np.concatenate([columns.values, ones]),
        np.concatenate([columns.columns, np.arange(problem.n, dtype=columns.columns.dtype)]),
        np.append(columns.starts, columns.starts[-1] + problem.n),
        columns.shape + np.array([1, 0]),
    )
