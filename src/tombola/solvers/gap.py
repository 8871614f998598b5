"""How far any point is from the minimum of a linear problem, at most: a duality gap.

Slopes at a point are dual variables, a_i = -phi'(z_i). Made feasible, they prove a lower bound on
the minimum (Fenchel duality), with u = (1/n) sum_i s_i a_i x_i:

    D(a) = -(1/n) sum_i s_i phi*(-a_i) - sum_j max(|u_j| - l1, 0)^2 / (2 l2)

An intercept without penalty needs sum_i s_i a_i = 0, and l2 = 0 needs |u_j| <= l1.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tombola.compiling import kernel
from tombola.problems import LeastSquares, Softmax
from tombola.problems.linear import Linear, LinearProblem
from tombola.solvers.dual.full_pass import ROUNDING
from tombola.solvers.dual.start import best_constant
from tombola.state import Floats

__all__ = ["duality_gap", "relative_gap", "unit_of"]

EXACT = 1e-20  # a constant that leaves less than this of the objective at 0 fits exactly


def relative_gap(problem: LinearProblem, solution: ArrayLike | None) -> float:
    """Return the duality gap of a point, relative to the objective at w = 0.

    The objective is at most this far from its minimum, in units of the objective at w = 0 with
    the best intercept; nan where no bound is known (`duality_gap`).

    Examples
    --------
    >>> from tombola.problems import Logistic
    >>> problem = Logistic([[1.0], [2.0], [-1.0]], [1, 1, 0], alpha=0.1)
    >>> round(relative_gap(problem, [0.5]), 2), relative_gap(problem, [1.5125]) < 1e-6
    (0.62, True)
    """
    return duality_gap(problem, solution) / unit_of(problem)


def duality_gap(problem: LinearProblem, solution: ArrayLike | None) -> float:
    """Return an upper bound on F(w) - min F, by two passes over the rows.

    It goes to 0 with the distance of w from the optimum where the loss is smooth. It is never
    less than the true distance: an allowance for rounding, of about 1e-12 of F, is added.

    Parameters
    ----------
    problem : LinearProblem
        With alpha > 0 and a loss whose conjugate is known; else the result is nan.
    solution : array-like, or None for zeros

    Notes
    -----
    With an intercept, dual variables of the heavier sign are scaled down; those of `LeastSquares`
    are centred, and those of `Softmax` mixed with a constant distribution. With l1, the point
    scaled by min(1, l1 / max_j |u_j - l2 w_j|) is tried besides: for the lasso, that is the gap of
    scikit-learn.

    Examples
    --------
    >>> from tombola.problems import LeastSquares
    >>> lasso = LeastSquares([[1.0], [2.0]], [1.0, 0.0], alpha=0.1, l1_ratio=1.0)
    >>> duality_gap(lasso, [0.16]) < 1e-11, round(duality_gap(lasso, [0.2]), 4)
    (True, 0.02)

    References
    ----------
    Kim, Koh, Lustig, Boyd, Gorinevsky (2007). An Interior-Point Method for Large-Scale
    l1-Regularized Least Squares.
    """
    if problem.alpha == 0 or not has_conjugate(problem):
        return math.nan
    w = problem.as_matrix(solution)
    a, u = np.empty((problem.n, problem.outputs)), np.zeros((problem.outputs, problem.d))
    with np.errstate(over="ignore", invalid="ignore"):  # far away, where bounds are infinite
        losses = fill_duals(problem.model, w, np.empty(problem.outputs), a)
        primal = losses / problem.n + problem.penalty(solution)
        if problem.fit_intercept:
            balance(problem, a)
        fill_gradient(problem.model, a, u)
        duals = [0.0]  # that of a = 0
        if problem.l2 > 0:
            duals.append(dual_value(problem, a, u, 1.0))
        if problem.l1 > 0:
            largest = np.abs(u - problem.l2 * w[:, : problem.d]).max()
            factor = problem.l1 / largest if largest > problem.l1 else 1.0
            duals.append(dual_value(problem, a, u, float(factor)))
        gap = primal * (1.0 + ROUNDING) - np.nanmax(duals)
    return float(gap) if math.isfinite(gap) else math.inf


def has_conjugate(problem: LinearProblem) -> bool:
    """Return whether the conjugate of the loss is known."""
    if problem.outputs > 1:
        return isinstance(problem, Softmax)
    return problem.model_class.conjugate is not Linear.conjugate


def dual_value(problem: LinearProblem, a: Floats, u: Floats, factor: float) -> float:
    """Return D(factor a), less an allowance for rounding."""
    total, terms = conjugate_sum(problem.model, a, factor, np.empty(problem.outputs))
    penalty = 0.0
    if problem.l2 > 0:
        excess = np.maximum(factor * np.abs(u) - problem.l1, 0.0)
        penalty = float((excess * excess).sum()) / (2.0 * problem.l2)
    return float(-total / problem.n - penalty - ROUNDING * (terms / problem.n + penalty))


def unit_of(problem: LinearProblem) -> float:
    """Return the objective at w = 0 with the best intercept; where that is 0, without one."""
    if not isinstance(problem, Softmax):
        best = best_constant(problem)[1]
    else:
        shares, mean = class_shares(problem), float(problem.model.weights.mean())
        if not problem.fit_intercept:
            shares = np.full(problem.outputs, 1.0 / problem.outputs)
        shares = shares[shares > 0.0]
        best = mean * float(-(shares * np.log(shares)).sum())
    plain = problem.value(None)
    return best if best > EXACT * plain else plain or 1.0


def balance(problem: LinearProblem, a: Floats) -> None:
    """Move dual variables to where sum_i s_i a_i = 0, inside of their domain."""
    weights = problem.model.weights
    if isinstance(problem, Softmax):
        balance_classes(problem, a)
    elif isinstance(problem, LeastSquares):
        a -= weights @ a / weights.sum()
    else:
        positive, negative = a > 0.0, a < 0.0
        gain, loss = weights @ (a * positive), -(weights @ (a * negative))
        if gain > loss:
            a[positive] *= loss / gain
        elif loss > gain:
            a[negative] *= gain / loss


def balance_classes(problem: Softmax, a: Floats) -> None:
    """Give the predictions p = onehot(y) - a the mean of the labels.

    First p_ik is multiplied by that mean over its own, and normalised, which is a step of the
    intercepts. What is left is made up for by mixing, p' = (1 - t) p + t r, with a constant
    distribution r and the least t for which there is one.
    """
    items = np.arange(problem.n)
    labels = problem.model.targets.astype(np.int64)
    weights = problem.model.weights / problem.model.weights.sum()
    wanted = class_shares(problem)
    p = -a
    p[items, labels] += 1.0
    p = np.maximum(p, 0.0) * ratio(wanted, weights @ p)
    total = p.sum(axis=1, keepdims=True)
    p = np.where(total > 0.0, p / np.where(total > 0.0, total, 1.0), wanted)
    mean = weights @ p
    kept = min(1.0, float(ratio(wanted, mean).min()))  # 1 - t
    a[:] = -(kept * p + np.maximum(wanted - kept * mean, 0.0))
    a[items, labels] += 1.0


def ratio(wanted: Floats, given: Floats) -> Floats:
    """Return wanted / given, 1 where both are 0."""
    safe = np.where(given > 0.0, given, 1.0)
    return np.where(given > 0.0, wanted / safe, 1.0)


def class_shares(problem: Softmax) -> Floats:
    """Return the share of each class in the weights."""
    weights, labels = problem.model.weights, problem.model.targets.astype(np.int64)
    return np.asarray(np.bincount(labels, weights, problem.outputs) / weights.sum())


@kernel
def fill_duals(model: Linear, w: Floats, z: Floats, a: Floats) -> Any:
    """Return the sum of s_i phi at a point; write a_i = -phi'."""
    outputs, last = w.shape[0], w.shape[1] - 1
    total = 0.0
    for item in range(a.shape[0]):
        for k in range(outputs):
            z[k] = model.rows.dot(item, w[k])
            if model.settings[0].intercept:
                z[k] += w[k, last]
        total += model.weights[item] * model.slopes(item, z, a[item])
        for k in range(outputs):
            a[item, k] = -a[item, k]
    return total


@kernel
def fill_gradient(model: Linear, a: Floats, u: Floats) -> None:
    """u_k += (1/n) sum_i s_i a_ik x_i."""
    n = a.shape[0]
    for item in range(n):
        for k in range(u.shape[0]):
            share = model.weights[item] * a[item, k] / n
            if share != 0.0:
                model.rows.add_row(item, share, u[k])


@kernel
def conjugate_sum(model: Linear, a: Floats, factor: float, scaled: Floats) -> Any:
    """Return the sum of s_i phi*(-factor a_i), and that of the absolute values of its terms."""
    total = terms = 0.0
    for item in range(a.shape[0]):
        for k in range(scaled.size):
            scaled[k] = factor * a[item, k]
        term = model.weights[item] * model.conjugates(item, scaled)
        total += term
        terms += abs(term)
    return total, terms
