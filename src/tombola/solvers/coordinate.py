"""Coordinate descent, and the step that it shares with the block version.

The items that are drawn are blocks B of coordinates (`CoordinateDescent`: of one each). With g
the gradient of the mean loss in the block and L how fast that changes at most,

    w_j <- soft(L w_j - g_j, l1) / (L + l2)                              for every j in B

which minimises a bound on the objective and so takes at least (L + l2) / 2 |change|^2 off it,
whatever p the block was drawn with: p decides about speed, never about the limit.

The run keeps z = X w and the slopes of all rows, so that a step touches nothing but the rows
in which its columns are not zero, and only reads them where w does not change.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.compiling import kernel
from tombola.problems.linear import LinearProblem, score, slopes
from tombola.problems.rows import (
    Dense,
    Sparse,
    add_row,
    column,
    dot,
    end,
    first,
    squared_norms,
    transposed,
)
from tombola.samplers import Sampler
from tombola.samplers.compiled import CompiledSampler
from tombola.solvers.base import GRADIENTS, ROUND, Solver
from tombola.solvers.closed_form import soft
from tombola.validation import whole

__all__ = ["CoordinateDescent", "CoordinateSolver", "Cyclic"]

# Layout of `clock`, behind ROUND and GRADIENTS (here: coordinates visited).
FRESH = 2  # coordinates visited when z was last computed from w

EPOCHS = 64  # z is computed anew after so many times all coordinates


class Blocks(NamedTuple):
    """What can be drawn: block k holds members[starts[k]] to members[starts[k + 1] - 1]."""

    members: NDArray[np.int64]
    starts: NDArray[np.int64]
    smooth: NDArray[np.float64]  # of each block: how fast its gradient changes, without l2


class Coordinates(NamedTuple):
    """Problem, iterate and scratch space, as one argument for the kernels."""

    items: NDArray[np.int64]  # drawn: blocks
    chances: NDArray[np.float64]
    importances: NDArray[np.float64]
    losses: NDArray[np.float64]  # to be fed back
    clock: NDArray[np.int64]
    model: Any
    columns: Any  # the columns of the data, as rows; with an intercept, ones as the last
    blocks: Blocks
    w: NDArray[np.float64]  # (1, width)
    z: NDArray[np.float64]  # (n,): X w
    slopes: NDArray[np.float64]  # (n,): s_i phi'(z_i)
    change: NDArray[np.float64]  # scratch: of the members of a block

    @staticmethod
    def step(run: Any) -> Any:
        """Take one step with the blocks drawn; return the first one of bad loss, or -1."""
        return step_blocks(run)


@kernel(inline=True)
def step_blocks(run: Coordinates) -> Any:
    """Step in the blocks drawn, one after the other; return the first of bad loss, or -1."""
    clock, blocks = run.clock, run.blocks
    clock[ROUND] += 1
    for b in range(run.items.size):
        block = run.items[b]
        run.losses[b] = propose(run, block)
        if not run.losses[b] < math.inf:
            return b
        apply(run, block)
        clock[GRADIENTS] += blocks.starts[block + 1] - blocks.starts[block]
    if clock[GRADIENTS] - clock[FRESH] >= EPOCHS * run.w.shape[1]:
        clock[FRESH] = clock[GRADIENTS]
        refresh(run)
    return -1


@kernel(inline=True)
def propose(run: Coordinates, block: Any) -> Any:
    """Write the change v that minimises g v + L/2 |v|^2 + l2/2 |w + v|^2 + l1 |w + v|_1.

    Return what is fed back: the fourth root of (L + l2) |v|^2, twice the decrease that is sure.
    """
    blocks, w = run.blocks, run.w
    n, width = run.z.size, w.shape[1]
    smooth = blocks.smooth[block]
    start = blocks.starts[block]
    twice = 0.0
    for c in range(start, blocks.starts[block + 1]):
        j = blocks.members[c]
        free = run.model.intercept[0] and j == width - 1
        l1 = 0.0 if free else run.model.penalties[0]
        l2 = 0.0 if free else run.model.penalties[1]
        g = dot(run.columns, j, run.slopes) / n
        if smooth + l2 > 0.0:
            change = soft(smooth * w[0, j] - g, l1) / (smooth + l2) - w[0, j]
        else:  # a column of zeros
            change = -w[0, j] if l1 > 0.0 else 0.0
        run.change[c - start] = change
        twice += (smooth + l2) * change * change
    return math.sqrt(math.sqrt(twice))


@kernel(inline=True)
def apply(run: Coordinates, block: Any) -> None:
    """Change w by what was proposed, and z and the slopes with it."""
    blocks, columns = run.blocks, run.columns
    start, stop = blocks.starts[block], blocks.starts[block + 1]
    for c in range(start, stop):
        j, change = blocks.members[c], run.change[c - start]
        if change != 0.0:
            run.w[0, j] += change
            add_row(columns, j, change, run.z)
    for c in range(start, stop):
        j = blocks.members[c]
        if run.change[c - start] != 0.0:
            for entry in range(first(columns, j), end(columns, j)):
                set_slope(run, column(columns, entry))
            if end(columns, j) - first(columns, j) == run.z.size:
                break  # that was every row


@kernel(inline=True)
def set_slope(run: Coordinates, row: Any) -> None:
    """Compute the slope of a row from its z."""
    slopes(run.model, row, run.z[row : row + 1], run.slopes[row : row + 1])
    run.slopes[row] *= run.model.weights[row]


@kernel
def refresh(run: Coordinates) -> None:
    """Compute z and the slopes from w: so that rounding errors do not add up."""
    for row in range(run.z.size):
        run.z[row] = score(run.model, run.w, 0, row)
        set_slope(run, row)


@kernel
def propose_all(run: Coordinates, out: NDArray[np.float64]) -> None:
    """Write what each block would be fed back with, if it were drawn now."""
    for block in range(out.size):
        out[block] = propose(run, block)


class CyclicBoard(NamedTuple):
    """The item whose turn it is, and the number of items."""

    turn: NDArray[np.int64]
    size: NDArray[np.int64]

    @staticmethod
    def draw_one(board: Any) -> Any:
        """Return the next item, and 1/n."""
        item = board.turn[0]
        board.turn[0] = item + 1 if item + 1 < board.size[0] else 0
        return item, 1.0 / board.size[0]

    @staticmethod
    def update_one(board: Any, item: Any, probability: Any, loss: Any) -> None:
        """Nothing to learn."""

    @staticmethod
    def fill_probabilities(board: Any, out: Any) -> None:
        """Write 1/n for each item."""
        out[:] = 1.0 / out.size


class Cyclic(CompiledSampler):
    """Goes through the items in their order, again and again; learns nothing.

    Made for coordinate descent, which is right in any order. Nothing is random here: the 1/n
    that draws report is how often an item comes, and estimates with importances are biased.
    A loaded `Result` does not bring its own along: give another one to resume with.

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
        self.state = CyclicBoard(np.zeros(1, dtype=np.int64), np.array([self.n]))

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"turn": self.state.turn}

    def _largest_importance(self) -> float:
        return 1.0


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
                f"second derivative (LeastSquares, Logistic, SquaredHinge), got "
                f"{type(problem).__name__}"
            )

    def _run(
        self, problem: Any, start: ArrayLike | None, columns: Any, blocks: Blocks
    ) -> Coordinates:
        """Return the state before the first round."""
        run = Coordinates(
            items=np.zeros(self.batch_size, dtype=np.int64),
            chances=np.ones(self.batch_size),
            importances=np.ones(self.batch_size),
            losses=np.zeros(self.batch_size),
            clock=np.zeros(3, dtype=np.int64),
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

    def _solution(self, problem: Any, run: Any) -> NDArray[np.float64]:
        return np.array(run.w, dtype=np.float64).reshape(problem.shape)

    def _all_losses(self, problem: Any, run: Any) -> NDArray[np.float64]:
        losses = np.empty(run.blocks.smooth.size)
        propose_all(run, losses)
        return losses

    def _advice(self, problem: Any) -> str:
        return "numbers overflow, scale the data or begin nearer to zero"


class CoordinateDescent(CoordinateSolver):
    """Proximal coordinate descent: one coordinate at a time, by a step that never ascends.

    With g_j the derivative of the mean loss and L_j its Lipschitz constant, curvature * sum_i
    s_i x_ij^2 / n:

        w_j <- soft(L_j w_j - g_j, l1) / (L_j + l2)

    For least squares this is the exact minimum in w_j. An intercept is one more coordinate, the
    last, without l1 and l2. There is no 1/p here: an adaptive p changes the speed, never what
    is reached.

    The items of the sampler are the coordinates, by default ``VRB(d)`` (with an intercept
    ``VRB(d + 1)``). `Cyclic` and `Shuffle` give the two usual orders.

    Parameters
    ----------
    batch_size : int, default=1
        Coordinates drawn at a time, with feedback after the last; their steps are taken one
        after the other, each from where the one before has led to.

    Notes
    -----
    Fed back is (L_j + l2)^(1/4) |change|^(1/2): the fourth root of twice the decrease that is
    sure, in the same unit for all columns. The root of a coordinate's average square, by which
    `VRB` draws, is then that of its average (L_j + l2)^(1/2) |change|. On lassos and logistic
    problems this took fewer steps than the square root of the decrease or the size of the
    gradient: these fall so fast from visit to visit that the first ones rule the average.

    A step takes O(non-zeros of the column), where w_j stays the same by an inner product alone.
    The data is copied once, by columns. z = X w is kept up to date, and computed anew after
    every 64 times all coordinates, so that rounding errors do not add up. `item_gradients`
    counts coordinates visited.

    Examples
    --------
    >>> import numpy as np
    >>> from tombola.problems import LeastSquares
    >>> X, y = np.array([[1.0, 0.0], [2.0, 1.0], [3.0, -1.0]]), [1.0, 2.5, 2.0]
    >>> lasso = LeastSquares(X, y, alpha=0.1, l1_ratio=1.0)
    >>> result = CoordinateDescent().minimize(lasso, rounds=100)
    >>> result.solution.round(4), bool(lasso.gap(result.solution) < 1e-12)
    (array([0.8741, 0.537 ]), True)
    >>> in_turn = CoordinateDescent().minimize(lasso, sampler=Cyclic(2), rounds=100)
    >>> bool(np.allclose(in_turn.solution, result.solution))
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

    def _begin(self, problem: Any, start: ArrayLike | None, sampler: Sampler) -> Coordinates:
        columns = columns_of(problem)
        width = self._items(problem)
        smooth = problem.curvature * squared_norms(columns, problem.model.weights) / problem.n
        blocks = Blocks(np.arange(width), np.arange(width + 1), smooth)
        return self._run(problem, start, columns, blocks)


def columns_of(problem: LinearProblem) -> Any:
    """Return the columns of the data as rows; with an intercept, ones as the last of them."""
    columns = transposed(problem.model.rows)
    if not problem.fit_intercept:
        return columns
    ones = np.ones(problem.n, dtype=columns.values.dtype)
    if isinstance(columns, Dense):
        return Dense(np.vstack([columns.values, ones]))
    return Sparse(
        np.concatenate([columns.values, ones]),
        np.concatenate([columns.columns, np.arange(problem.n)]),
        np.append(columns.starts, columns.starts[-1] + problem.n),
        columns.shape + np.array([1, 0]),
    )
