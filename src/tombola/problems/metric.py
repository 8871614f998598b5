"""In what units steps along gradients are measured: columns shifted and scaled, X as it is.

A gradient step depends on the units of the columns: with one column in millions, a rate that suits
it is nothing to the others. With units s_j and centres m_j, a step is that of

    v_j = s_j w_j,    c = b + sum_j m_j w_j,    on rows (x_ij - m_j) / s_j

The problem stays the same, its penalty is carried along as alpha / s_j^2, and no row is copied:
only the rate of a column, rate / s_j^2, and the intercept tell the difference.

s_j is a power of two near sqrt(E u^4 / (3 E u^2)) of u = x_j - m_j: the standard deviation for a
normal distribution, the usual entry where most are 0. Of sparse rows, the entries that are stored
count, and nothing is shifted.
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
ALIKE = 16.0  # sparse columns whose units differ by at most this factor are left as they are


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
    array([2.36, 2.36])
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
        squares, fourths = moments(problem, shares, centres)
        far = np.flatnonzero(~np.isfinite(fourths))
    if far.size:
        named = ", ".join(map(str, far[:3])) + (" and others" if far.size > 3 else "")
        raise ValueError(f"numbers overflow in columns of X ({named}): scale them")
    used = (squares > 0) & (fourths > 0)
    units: Any = np.ones(d)
    units[used] = np.sqrt(fourths[used] / squares[used] / 3.0)
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
    as_it_is = bool((units == 1.0).all()) and not centres.any()
    if as_it_is or (alike and not dense):
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


def moments(problem: "LinearProblem", shares: Floats, centres: Floats) -> tuple[Floats, Floats]:
    """Return E u_j^2 and E u_j^4 of each column, u = x - m."""
    rows, d = problem.model.rows, centres.size
    squares, fourths = np.zeros(d), np.zeros(d)
    if isinstance(rows, Dense):
        for where, part in blocks(rows):
            u = (part - centres) ** 2
            squares += shares[where] @ u
            fourths += shares[where] @ u**2
        return squares, fourths
    u = np.square(rows.values, dtype=np.float64)
    share = np.repeat(shares, np.diff(rows.starts))
    squares += np.bincount(rows.columns, share * u, d)
    fourths += np.bincount(rows.columns, share * u**2, d)
    return squares, fourths
