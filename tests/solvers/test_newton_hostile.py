"""Hostile data: Newton converges, or ends with a true gap; nothing is NaN, nothing endless."""

import numpy as np
import pytest
from scipy.optimize import minimize

from tombola.problems import Huber, LeastSquares, Logistic, SquaredHinge
from tombola.solvers import Newton
from tombola.solvers.gap import best_constant

N, D = 3000, 5
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D))
SIGNAL = X @ np.arange(1, D + 1) / 2 - 1.5 + RNG.logistic(size=N)
WIDE = RNG.normal(size=(30, 80))
TENTH = np.where(np.arange(N) % 10 == 0, 100.0, 1.0)[:, None]
ON_THREE = np.where(np.arange(N) < 3, 1e12, 1e-12)

CONVERGES = {  # rows, signal, options
    "a column of 1e-8": (X * [1e-8, 1, 1, 1, 1], SIGNAL, {"alpha": 1e-3}),
    "a column of 1e8": (X * [1e8, 1, 1, 1, 1], SIGNAL, {"alpha": 1e-3}),
    "both": (X * [1e8, 1e-8, 1, 1, 1], SIGNAL, {"alpha": 1e-6}),
    "all of 1e8": (X * 1e8, SIGNAL, {"alpha": 1e-4}),
    "constant columns": (np.c_[X, np.ones(N), np.zeros(N), TENTH * 0 + 1e4], SIGNAL, {}),
    "duplicated columns": (np.c_[X, X, X], SIGNAL, {"alpha": 1e-6}),
    "singular": (np.c_[X, X, X], SIGNAL, {"alpha": 1e-12}),
    "separable": (X, 5 * X[:, 0], {"alpha": 1e-12}),
    "long rows": (X * TENTH, SIGNAL, {"alpha": 1e-4}),
    "fewer rows than columns": (WIDE, WIDE[:, 0], {"alpha": 1e-3}),
    "the same, hardly regularised": (WIDE, WIDE[:, 0], {"alpha": 1e-10}),
    "two rows": (np.array([[1.0, 2.0], [0.0, 1.0]]), np.array([1.0, -1.0]), {"alpha": 0.1}),
    "weights": (X, SIGNAL, {"sample_weight": 10.0 ** RNG.uniform(-12, 12, size=N)}),
    "a rare class": (X, SIGNAL - 9.0, {"alpha": 1e-5}),
    "a huge alpha": (X, SIGNAL, {"alpha": 1e12}),
    "rows of zeros": (np.zeros((50, 2)), SIGNAL[:50], {"alpha": 0.1}),
    "five rows of 1e6": (np.r_[X[:5] * 1e6, X[5:]], SIGNAL, {"alpha": 1e-4}),
    "tiny rows": (X * 1e-160, SIGNAL, {"alpha": 1e-3}),
}
ENDS = {  # the bound, or the minimum itself, cannot be had in float64
    "one class": (X, np.full(N, 3.0), {"alpha": 1e-3}),
    "one row": (X[:1], SIGNAL[:1], {"alpha": 0.1}),
    "all weight on one class": (X, np.abs(SIGNAL), {"sample_weight": ON_THREE}),
    "hardly any alpha": (X, SIGNAL, {"alpha": 1e-300}),
    "huge rows": (X * 1e150, SIGNAL, {"alpha": 1e-3}),
}


def problem(kind, rows, signal, options, intercept):
    y = signal > 0 if kind in (Logistic, SquaredHinge) else signal
    return kind(rows, y, **{"alpha": 1e-3, "fit_intercept": intercept, **options})


def lower_value(it, solution):
    """The value after more steps by others, from the same point."""
    with np.errstate(all="ignore"):
        found = minimize(it.value, solution, jac=it.gradient, method="L-BFGS-B")
    value = it.value(solution)
    return min(value, found.fun) if np.isfinite(found.fun) else value


OTHERS = ("long rows", "both", "a rare class")
CASES = [(kind, name) for kind in (Logistic, LeastSquares) for name in CONVERGES]
SELDOM = [(kind, name) for kind in (SquaredHinge, Huber) for name in OTHERS]
SELDOM += [(SquaredHinge, "five rows of 1e6")]
CASES += [pytest.param(*case, marks=pytest.mark.slow) for case in SELDOM]


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_it_converges(kind, name, intercept):
    it = problem(kind, *CONVERGES[name], intercept)
    solver = Newton(tol=1e-6)
    result = solver.minimize(it, rounds=60)
    assert result.rounds < 60
    gap = solver.gap(it, result)
    assert gap <= 1e-6
    zero, value = best_constant(it)[1], it.value(result.solution)
    assert value - lower_value(it, result.solution) <= gap * zero + 1e-12 * value


ENDED = [(kind, name) for kind in (Logistic, LeastSquares) for name in ENDS]
ENDED += [  # beyond epsilon it has no curvature
    pytest.param(Huber, "five rows of 1e6", marks=pytest.mark.slow)
]


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("kind", "name"), ENDED)
def test_it_ends_with_a_true_gap(kind, name, intercept):
    it = problem(kind, *{**ENDS, **CONVERGES}[name], intercept)
    solver = Newton(tol=1e-6)
    result = solver.minimize(it, rounds=20)
    zero, value, gap = best_constant(it)[1], it.value(result.solution), solver.gap(it, result)
    assert np.isfinite(result.solution).all()
    assert 0 <= gap < 1 + 1e-9
    assert value <= zero * (1 + 1e-9)
    assert value - lower_value(it, result.solution) <= gap * zero + 1e-12 * value


def test_nothing_to_do():
    for y in (np.full(N, 3.0), np.zeros(N)):
        it = LeastSquares(X, y, alpha=1e-3, fit_intercept=True)
        result = Newton(tol=1e-6).minimize(it, rounds=5)
        assert result.rounds == 0
        assert Newton(tol=1e-6).gap(it, result) == 0.0
        np.testing.assert_array_equal(result.solution, [0.0] * D + [y[0]])
