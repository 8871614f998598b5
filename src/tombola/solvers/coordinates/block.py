"""Block coordinate descent: the items are blocks of coordinates."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.compiling import kernel
from tombola.problems.linear import LinearProblem
from tombola.problems.rows import Rows
from tombola.solvers.coordinates.coordinate import Blocks, CoordinateSolver
from tombola.state import Floats, Ints
from tombola.validation import whole

__all__ = ["BlockCoordinateDescent"]

PART = 32  # coordinates whose inner products are computed
MARGIN = 1.0 + 1e-9  # for the rounding of these and of the eigenvalue


class BlockCoordinateDescent(CoordinateSolver):
    """Proximal coordinate descent in blocks: all coordinates of a block move at once.

    With g the gradient of the mean loss in a block B and L_B its Lipschitz constant:

        w_j <- soft(L_B w_j - g_j, l1) / (L_B + l2)                      for every j in B

    The items of the sampler are the blocks, by default ``VRB`` of their number. Everything else is
    as in `CoordinateDescent`; fed back is (L_B + l2)^(1/4) |change|^(1/2).

    Parameters
    ----------
    blocks : int or sequence of sequences of int, default=8
        The number of neighbouring columns in a block; the intercept is a block of its own. Or
        the coordinates of each block: every coordinate, including the intercept (coordinate d),
        must be in exactly one.
    batch_size : int, default=1
        Blocks drawn at a time.

    Notes
    -----
    Up to 32 coordinates, L_B is the largest eigenvalue of curvature * X_B' S X_B / n, plus a
    margin of 1e-9 for rounding. A larger block is cut into parts of 32, and L_B is the sum of
    their eigenvalues, which is never too small and at most (number of parts) times too large; the
    trace would be up to |B| times too large.

    Computing all L_B costs as much as min(|B|, 32) / 2 steps in each block. If columns are
    correlated, steps in large blocks are short, and one coordinate at a time is often as fast.
    Blocks are useful if they have a meaning, or if there are more coordinates than a
    sampler can learn about.

    Examples
    --------
    >>> import numpy as np
    >>> from tombola.problems import LeastSquares
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> problem = LeastSquares(X, X @ [1.0, 2.0, 4.0])
    >>> solver = BlockCoordinateDescent([[0, 2], [1]])
    >>> solver.minimize(problem, rounds=100).solution.round(4)
    array([1., 2., 4.])

    References
    ----------
    Richtarik, Takac (2014). Iteration Complexity of Randomized Block-Coordinate Descent Methods
    for Minimizing a Composite Function.
    """

    def __init__(self, blocks: int | Iterable[ArrayLike] = 8, *, batch_size: int = 1) -> None:
        self.blocks = _checked_blocks(blocks)
        self.batch_size = whole("batch_size", batch_size, 1)

    def _check(self, problem: Any) -> None:
        super()._check(problem)
        self._layout(problem)

    def _items(self, problem: Any) -> int:
        return self._layout(problem)[1].size - 1

    def _layout(self, problem: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the members of all blocks, and where each begins, or raise an error."""
        width = problem.d + problem.fit_intercept
        if isinstance(self.blocks, int):
            starts = np.append(np.arange(0, problem.d, self.blocks), problem.d)
            return np.arange(width), np.append(starts, width) if problem.fit_intercept else starts
        members = np.concatenate([np.array(block, dtype=np.int64) for block in self.blocks])
        starts = np.append(0, np.cumsum([len(block) for block in self.blocks]))
        outside = (members < 0) | (members >= width)
        if outside.any():
            raise ValueError(
                f"the blocks hold coordinate {members[outside.argmax()]}, "
                f"the problem has those from 0 to {width - 1}"
            )
        counts = np.bincount(members, minlength=width)
        if (counts != 1).any():
            j = int((counts != 1).argmax())
            which = f"coordinate {j}{' (the intercept)' if j == problem.d else ''}"
            raise ValueError(
                f"{which} is in no block" if counts[j] == 0 else f"{which} is in the blocks twice"
            )
        return members, starts

    def _blocks(self, problem: Any, columns: Rows) -> Blocks:
        members, starts = self._layout(problem)
        return Blocks(members, starts, smoothness(problem, columns, members, starts))


def _checked_blocks(blocks: Any) -> int | tuple[tuple[int, ...], ...]:
    """Return a size or the coordinates of each block, or raise an error that says what is wrong."""
    if isinstance(blocks, (int, np.integer)) and not isinstance(blocks, bool):
        if blocks < 1:
            raise ValueError(f"blocks must hold at least 1 coordinate each, got {blocks}")
        return int(blocks)
    if isinstance(blocks, (bool, str)) or not isinstance(blocks, Iterable):
        raise TypeError(f"blocks must be a size or the coordinates of each, got {blocks!r}")
    arrays = [np.asarray(block) for block in blocks]
    for k, array in enumerate(arrays):
        if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
            raise ValueError(
                f"blocks[{k}] must be integers, one at least, got shape {array.shape} "
                f"and dtype {array.dtype}"
            )
    if not arrays:
        raise ValueError("blocks is empty: every coordinate must be in a block")
    return tuple(tuple(array.tolist()) for array in arrays)


def smoothness(
    problem: LinearProblem, columns: Rows, members: NDArray[np.int64], starts: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return, for each block, a Lipschitz constant of its gradient, without l2."""
    out, work = np.zeros(starts.size - 1), np.zeros(problem.n)
    for block in range(out.size):
        for begin in range(starts[block], starts[block + 1], PART):
            part = members[begin : min(begin + PART, starts[block + 1])]
            gram = np.empty((part.size, part.size))
            fill_gram(columns, part, problem.model.weights, work, gram)
            if part.size == 1:
                out[block] += gram[0, 0]
            else:
                out[block] += MARGIN * np.linalg.eigvalsh(gram)[-1]
    smooth: NDArray[np.float64] = problem.curvature * out / problem.n
    return smooth


@kernel
def fill_gram(columns: Rows, part: Ints, weights: Floats, work: Floats, gram: Floats) -> None:
    """gram[a, b] = sum_i weights[i] x_i,part[a] x_i,part[b]; work is zeros, before and after."""
    for a in range(part.size):
        columns.add_row(part[a], 1.0, work)
        for entry in range(columns.first(part[a]), columns.end(part[a])):
            work[columns.column(entry)] *= weights[columns.column(entry)]
        for b in range(a + 1):
            gram[a, b] = gram[b, a] = columns.dot(part[b], work)
        for entry in range(columns.first(part[a]), columns.end(part[a])):
            work[columns.column(entry)] = 0.0
