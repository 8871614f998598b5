"""Rows far longer than the others: who they are, and whether they kept a solver from its goal."""

import copy
import math

import numpy as np
from numpy.typing import NDArray

from tombola.problems.linear import LinearProblem
from tombola.problems.rows import blocks, products
from tombola.solvers.gap import duality_gap, unit_of
from tombola.state import Floats

__all__ = ["describe_long_rows", "is_far"]

NAMED = 3  # rows named in a sentence
FAR = 0.1  # far: this much, of the other rows' objective at w = 0, above the optimum, or ...
LITTLE = 0.01  # ... this much, if that is more than what was gained; or ...
UNPROVED = 0.3  # ... a duality gap above this, where there is only a gap to judge by
CLOSE = 1e-4  # of the whole objective at w = 0: within this, a point is at the optimum
ROUNDS = 20  # of Newton's method, at most
STANDING = 1e-4  # of the limit: a round that gains less is the last
STEPS = 10  # of conjugate gradients in each
TRIALS = 30  # lengths of a step, each a quarter of the one before


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
    squares, median = squared_lengths(problem)
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


def squared_lengths(problem: LinearProblem) -> tuple[NDArray[np.float64], float]:
    """Return the squared length of each row times its weight, and their median without zeros."""
    weights, norms = problem.model.weights, problem.model.norms
    squares = weights * norms**2
    return squares, float(np.median(squares[weights > 0])) if weights.any() else 0.0


def is_far(problem: LinearProblem, solution: NDArray[np.float64], least: float) -> bool:
    """Return whether a point is far from the optimum, or may be, if no bound decides it.

    The measure is the objective at w = 0 of the rows that are at most `least` times as long as the
    median: the target of a long row may be nearly all of the objective.
    """
    squares, median = squared_lengths(problem)
    others = copy.copy(problem)
    usual = squares <= least**2 * median
    others.model = problem.model._replace(weights=problem.model.weights * usual)
    whole = unit_of(problem)
    unit = min(whole, unit_of(others))
    gained = whole - problem.value(solution)
    limit = max(min(FAR * unit, max(gained, LITTLE * unit)), CLOSE * whole)
    gap = duality_gap(problem, solution)
    if gap <= limit:
        return False
    if problem.outputs == 1 and math.isfinite(problem.curvature) and problem.l1 == 0:
        return can_fall(problem, solution, limit)
    return not gap <= max(UNPROVED * unit, CLOSE * whole)


def can_fall(problem: LinearProblem, solution: NDArray[np.float64], limit: float) -> bool:
    """Return whether the objective falls by more than a limit from a point.

    For a smooth loss without l1: a few rounds of Newton's method, which end where one gains next to
    nothing. Of squared errors that is the second; logistic losses of long rows take several.
    """
    w = problem.as_matrix(solution)[0]
    start = value = problem.value(w)
    for _ in range(ROUNDS):
        step = newton_step(problem, w)
        before = value
        for trial in range(TRIALS):
            point = w + step * 0.25**trial
            reached = problem.value(point) if np.isfinite(point).all() else math.inf
            if reached >= value < before:
                break
            if reached < value:
                nearest, value = point, reached
        if not start - value <= limit:
            return True
        if before - value <= STANDING * limit:
            return False
        w = nearest
    return False


def newton_step(problem: LinearProblem, w: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a few steps of conjugate gradients towards the minimum of the quadratic model at w.

    They meet a few rows far longer than the others in one step each, however long these are.
    """
    model, d = problem.model, problem.d
    shrink = problem.l2 * (np.arange(w.size) < d)  # not for the intercept
    z = products(model.rows, w[:d]) + (w[d] if problem.fit_intercept else 0.0)
    bends = model.weights * model.derivatives(slice(None), z)[2]
    rest = -(problem.evaluate(w)[2][0] + shrink * w)
    step, direction, square = np.zeros_like(w), rest.copy(), rest @ rest
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for _ in range(STEPS):
            bent = shrink * direction
            add_bends(problem, bends, direction, bent)
            size = square / (direction @ bent)
            if not 0.0 < size < math.inf:
                break
            step += size * direction
            rest -= size * bent
            square, before = rest @ rest, square
            direction = rest + square / before * direction
    return step


def add_bends(problem: LinearProblem, bends: Floats, vector: Floats, out: Floats) -> None:
    """Add (1/n) sum_i bends_i (x_i vector) x_i to `out`."""
    d, free = problem.d, problem.fit_intercept
    for where, matrix in blocks(problem.model.rows):
        factors = bends[where] * (matrix @ vector[:d] + (vector[d] if free else 0.0)) / problem.n
        out[:d] += factors @ matrix
        out[d:] += factors.sum()
