"""In what units steps along gradients are measured: columns shifted and scaled, X as it is.

A gradient step depends on the units of the columns: with one column in millions, a rate that suits
it is nothing to the others. With units s_j and centres m_j, a step is that of

    v_j = s_j w_j,    c = b + sum_j m_j w_j,    on rows (x_ij - m_j) / s_j

The problem stays the same, its penalty is carried along as alpha / s_j^2, and no row is copied:
only the rate of a column, rate / s_j^2, and the intercept tell the difference.

s_j is a power of two near the root of the mean of (x_ij - m_j)^2 over the entries that are not 0:
the standard deviation of a column without zeros, the usual entry where most are 0. Of sparse rows,
the entries that are stored count, and nothing is shifted.
"""

import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from tombola.problems.rows import Dense, blocks, shape_of, squared_norms
from tombola.state import Floats, State, derived

if TYPE_CHECKING:
    from tombola.problems.linear import LinearProblem

__all__ = ["Metric", "standardised"]

CLOSE = 0.125  # a centre within this many units of 0 is 0
ALIKE = 16.0  # columns whose units differ by at most this factor may be left as they are


class Metric(State):
    """Units and centres of columns; empty arrays if all are 1, and 0."""

    units: Floats = derived("s, (d,)")
    centres: Floats = derived("m, (d,): 0 without an intercept")


def standardised(problem: "LinearProblem") -> "LinearProblem":
    """Return the same problem, with a metric; itself if all columns are standardised.

    Its norms, and so the Lipschitz constants of gradients, are those of shifted and scaled rows.

    Examples
    --------
    >>> from tombola.problems import LeastSquares
    >>> problem = LeastSquares([[1e8, 1.0], [3e8, -1.0]], [1.0, 2.0], fit_intercept=True)
    >>> standardised(problem).metric.centres
    array([2.e+08, 0.e+00])
    >>> standardised(problem).model.norms.round(2)
    array([1.6, 1.6])
    """
    if problem.metric is not None:
        return problem
    found: Any = problem.once("standardised", measured)
    return problem if found is None else found


def measured(problem: "LinearProblem") -> "LinearProblem | None":
    """Return a copy of a problem with a metric; None if there is nothing to shift or to scale."""
    model, dense = problem.model, isinstance(problem.model.rows, Dense)
    n, d = shape_of(model.rows)
    shares = model.weights / model.weights.sum()
    centres = np.zeros(d)
    with np.errstate(over="ignore", invalid="ignore"):
        if dense and problem.fit_intercept:
            for where, rows in blocks(model.rows):
                centres += shares[where] @ rows
        squares, filled = spreads(problem, shares, centres)
        far = np.flatnonzero(~np.isfinite(squares))
    if far.size:
        named = ", ".join(map(str, far[:3])) + (" and others" if far.size > 3 else "")
        raise ValueError(f"numbers overflow in columns of X ({named}): scale them")
    units: Any = np.ones(d)
    used = (squares > 0) & (filled > 0)
    units[used] = np.sqrt(squares[used] / filled[used])
    # of few rows, even a column of large numbers may hardly vary
    units = np.hypot(units, np.abs(centres) / n)
    length = np.sqrt((squares / units**2).sum())  # of a row, in these units
    if used.any():
        usual = length * float(np.median(units[used]))  # in the units of X
        units *= length / min(max(usual, min(1.0, length)), max(1.0, length))
    units = 2.0 ** np.round(np.log2(units))
    units[~used] = 1.0
    centres[np.abs(centres) <= CLOSE * units] = 0.0
    alike = np.ptp(np.log2(units[used])) <= np.log2(ALIKE) if used.any() else True
    near = bool((np.abs(np.log2(units)) <= np.log2(ALIKE)).all()) and not centres.any()
    if alike and (near or not dense):
        return None
    if dense:
        lengths = np.empty(n)
        for where, rows in blocks(model.rows):
            lengths[where] = (((rows - centres) / units) ** 2).sum(axis=1)
    else:
        lengths = squared_norms(model.rows, units**-2.0)
    found = copy.copy(problem)
    found.metric = Metric(units, centres)
    found.model = model._replace(norms=np.sqrt(lengths + problem.fit_intercept))
    return found


def spreads(problem: "LinearProblem", shares: Floats, centres: Floats) -> tuple[Floats, Floats]:
    """Return E u_j^2 of each column over the entries that are not 0, u = x - m, and their share."""
    rows, d = problem.model.rows, centres.size
    squares, filled = np.zeros(d), np.zeros(d)
    if isinstance(rows, Dense):
        for where, part in blocks(rows):
            some = part != 0.0
            squares += shares[where] @ np.where(some, part - centres, 0.0) ** 2
            filled += shares[where] @ some
        return squares, filled
    share = np.repeat(shares, np.diff(rows.starts))
    squares += np.bincount(rows.columns, share * np.square(rows.values, dtype=np.float64), d)
    filled += np.bincount(rows.columns, share, d)
    return squares, filled
