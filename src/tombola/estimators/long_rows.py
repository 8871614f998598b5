"""Rows far longer than the others: who they are, and whether they kept a solver from its goal."""

import math

import numpy as np
from numpy.typing import NDArray

from tombola.problems.linear import LinearProblem
from tombola.solvers.gap import relative_gap

__all__ = ["describe_long_rows", "is_far"]

NAMED = 3  # rows named in a sentence
FAR = 0.3  # a relative duality gap above this is far from the optimum


def describe_long_rows(problem: LinearProblem, least: float, numbered: bool = True) -> str:
    """Return a clause about rows over `least` times as long as the median; "" without such rows.

    A row of sample weight s counts as sqrt(s) times as long. Unless `numbered`, rows are not those
    that the caller knows, and the clause has no numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from tombola.problems import LeastSquares
    >>> X = np.ones((9, 1))
    >>> X[4] = 2000.0
    >>> describe_long_rows(LeastSquares(X, np.ones(9)), 10.0)
    'row 4 is 2e+03 times as long as the median one'
    """
    weights, norms = problem.model.weights, problem.model.norms
    squares = weights * norms**2
    median = float(np.median(squares[weights > 0])) if weights.any() else 0.0
    long = np.flatnonzero(squares > least**2 * median)
    if long.size == 0 or median == 0.0:
        return ""
    times = f"{math.sqrt(float(squares.max()) / median):.2g} times as long as the median one"
    if not numbered:
        return f"the longest row is {times}"
    if long.size == 1:
        return f"row {long[0]} is {times}"
    first = long[np.argsort(-squares[long], kind="stable")][:NAMED]
    more = f" and {long.size - NAMED} more" if long.size > NAMED else ""
    return f"rows {', '.join(map(str, first))}{more} are up to {times}"


def is_far(problem: LinearProblem, solution: NDArray[np.float64]) -> bool:
    """Return whether a point may be far from the optimum; also where no bound is known."""
    return not relative_gap(problem, solution) <= FAR
