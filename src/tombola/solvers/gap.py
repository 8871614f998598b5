"""How far any point is from the minimum of a linear problem, at most: a duality gap.

Slopes at a point are dual variables, a_i = -phi'(z_i). Made feasible, they prove a lower bound on
the minimum (Fenchel duality), with u = (1/n) sum_i s_i a_i x_i:

    D(a) = -(1/n) sum_i s_i phi*(-a_i) - sum_j max(|u_j| - l1, 0)^2 / (2 l2)

An intercept without penalty needs sum_i s_i a_i = 0, and l2 = 0 needs |u_j| <= l1.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tombola.compiling import kernel
from tombola.problems import LeastSquares, Softmax
from tombola.problems.linear import Linear, LinearProblem, TwoClasses
from tombola.state import Floats

__all__ = [
    "ROUNDING",
    "Penalty",
    "balanced",
    "best_constant",
    "conjugate_sum",
    "dual_value",
    "duality_gap",
    "relative_gap",
    "unit_of",
]

ROUNDING = 1e-12  # of D, relative to the size of its terms
EXACT = 1e-20  # a constant that leaves less than this of the objective at 0 fits exactly
TURNS, CLOSE = 200, 1e-15  # of the search for an intercept
WIDE = 40.0  # no intercept of a classifier is larger: exp(-40) is below the rounding of 1


class Penalty(NamedTuple):
    """l1 |w|_1 + l2/2 |w|^2, and w >= 0 if `positive`."""

    l1: float
    l2: float
    positive: bool = False

    def value(self, w: Floats) -> float:
        """Return the penalty of w."""
        return float(self.l1 * np.abs(w).sum() + 0.5 * self.l2 * (w @ w))

    def size(self, u: Floats) -> Floats:
        """Return what has to stay below l1 for w = 0: |u|, or u if w cannot be negative."""
        return u if self.positive else np.abs(u)

    def conjugate(self, sizes: Floats) -> float:
        """Return sum_j max(size_j - l1, 0)^2 / (2 l2); with l2 = 0, no size may exceed l1."""
        if self.l2 == 0.0:
            return 0.0
        excess = np.maximum(sizes - self.l1, 0.0)
        return float((excess * excess).sum()) / (2.0 * self.l2)

    def factors(self, u: Floats, w: Floats) -> list[float]:
        """Return factors of dual variables to try: 1 if l2 > 0, and one by which |u| <= l1."""
        found = [1.0] if self.l2 > 0.0 else []
        if self.l1 > 0.0 or not found:
            largest = float(self.size(u - self.l2 * w).max(initial=0.0))
            found.append(self.l1 / largest if largest > self.l1 else 1.0)
        return found


def relative_gap(problem: LinearProblem, solution: ArrayLike | None) -> float:
    """Return the duality gap of a point, relative to the objective at w = 0.

    The objective is at most this far from its minimum, in units of the objective at w = 0 with
    the best intercept; nan if no bound is known (`duality_gap`).

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

    It goes to 0 with the distance of w from the optimum if the loss is smooth. It is never
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
        penalty = Penalty(problem.l1, problem.l2)
        factors = penalty.factors(u, w[:, : problem.d])
        duals = [dual_value(problem.model, a, u, factor, penalty) for factor in factors]
        duals.append(0.0)  # that of a = 0
        gap = primal * (1.0 + ROUNDING) - np.nanmax(duals)
    return float(gap) if math.isfinite(gap) else math.inf


def has_conjugate(problem: LinearProblem) -> bool:
    """Return whether the conjugate of the loss is known."""
    if problem.outputs > 1:
        return isinstance(problem, Softmax)
    return problem.model_class.conjugate is not Linear.conjugate


def dual_value(model: Linear, a: Floats, u: Floats, factor: float, penalty: Penalty) -> float:
    """Return D(factor a), less an allowance for rounding; a is (n, outputs)."""
    n, outputs = a.shape
    total, terms = conjugate_sum(model, a, factor, np.empty(outputs))
    over = penalty.conjugate(factor * penalty.size(u))
    return float(-total / n - over - ROUNDING * (terms / n + over))


def unit_of(problem: LinearProblem) -> float:
    """Return the objective at w = 0 with the best intercept; if that is 0, without one."""
    best = best_constant(problem)[1]
    plain = problem.value(None)
    return best if best > EXACT * plain else plain or 1.0


def best_constant(problem: LinearProblem) -> tuple[Any, float]:
    """Return the best intercept for w = 0, 0 without one, and the objective there.

    For `Softmax` it is an array, an intercept for each class.
    """
    found: tuple[Any, float] = problem.once("constant", find_constant)
    return found


def find_constant(problem: LinearProblem) -> tuple[Any, float]:
    """Do as `best_constant`."""
    if isinstance(problem, Softmax):
        shares, mean = class_shares(problem), float(problem.model.weights.mean())
        if not problem.fit_intercept:
            shares = np.full(problem.outputs, 1.0 / problem.outputs)
        logs = np.log(np.maximum(shares, math.exp(-WIDE)))
        return logs - logs.mean(), mean * float(-(shares * logs).sum())
    if not problem.fit_intercept:
        return 0.0, value_of_constant(problem.model, 0.0)[0] / problem.n
    model, targets = problem.model, problem.model.targets
    if isinstance(problem, TwoClasses):  # two targets stand for all rows
        shares = np.array(
            [model.weights.sum(where=side) for side in (targets < 0.0, targets > 0.0)]
        )
        targets = np.array([-1.0, 1.0])
        model = model._replace(targets=targets, weights=shares)
    low, high = min(-WIDE, float(targets.min())), max(WIDE, float(targets.max()))
    mean = float(model.weights @ targets) / problem.n
    unit = float(model.weights @ np.abs(targets)) / problem.n
    best, middle = (math.inf, 0.0), min(max(mean, low), high)
    for _ in range(TURNS):  # the sum of slopes rises: Newton's method, or bisection
        value, slope, curve = value_of_constant(model, middle)
        best = min(best, (value / problem.n, middle))
        low, high = (middle, high) if slope < 0.0 else (low, middle)
        ahead = middle - slope / curve if curve > 0.0 else math.nan
        if abs(ahead - middle) <= CLOSE * (abs(middle) + unit):
            break
        middle = ahead if low < ahead < high else 0.5 * (low + high)
        if not low < middle < high:
            break
    return best[1], best[0]


def balance(problem: LinearProblem, a: Floats) -> None:
    """Move dual variables to where sum_i s_i a_i = 0, inside of their domain."""
    if isinstance(problem, Softmax):
        balance_classes(problem, a)
    else:
        a[:, 0] = balanced(a[:, 0], problem.model.weights, isinstance(problem, LeastSquares))


def balanced(duals: Floats, weights: Floats, centre: bool) -> Floats:
    """Return dual variables of one output moved to where sum_i s_i a_i = 0.

    Those of least squares are centred; of others, the heavier sign is scaled down, which keeps
    them in their domain.
    """
    if centre:
        return np.asarray(duals - weights @ duals / weights.sum())
    gain, loss = weights @ np.maximum(duals, 0.0), weights @ np.maximum(-duals, 0.0)
    if gain > loss:
        return np.where(duals > 0.0, duals * (loss / gain), duals)
    if loss > gain:
        return np.where(duals < 0.0, duals * (gain / loss), duals)
    return duals


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
    """Return wanted / given, 1 if both are 0."""
    safe = np.where(given > 0.0, given, 1.0)
    return np.where(given > 0.0, wanted / safe, 1.0)


def class_shares(problem: Softmax) -> Floats:
    """Return the share of each class in the weights."""
    weights, labels = problem.model.weights, problem.model.targets.astype(np.int64)
    return np.asarray(np.bincount(labels, weights, problem.outputs) / weights.sum())


def value_of_constant(model: Linear, b: float) -> tuple[float, float, float]:
    """Return the sums of s_i phi, of s_i phi' and of s_i phi'' if all inner products are b.

    Without a second derivative, the last one is 0.
    """
    if type(model).derivatives is Linear.derivatives:  # of a loss that is not in numpy
        return (*sums_at(model, b), 0.0)
    losses, slopes, curves = model.derivatives(slice(None), np.full(model.targets.size, b))
    weights = model.weights
    return float(weights @ losses), float(weights @ slopes), float(weights @ curves)


@kernel(allocates=True)
def sums_at(model: Linear, b: Any) -> Any:
    """Do as `value_of_constant`, for any loss."""
    z, out = np.full(1, b), np.zeros(1)
    losses = sums = 0.0
    for item in range(model.targets.size):
        losses += model.weights[item] * model.slopes(item, z, out)
        sums += model.weights[item] * out[0]
    return losses, sums


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
