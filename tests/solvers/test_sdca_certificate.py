"""The certificate is never below the true distance, also with an intercept and a rare class."""

import numpy as np
import pytest

from tombola import Latest
from tombola.problems import EpsilonInsensitive, Hinge, LeastSquares, Logistic
from tombola.solvers import SDCA
from tombola.solvers.dual.run import evaluate, rebuild
from tombola.solvers.gap import best_constant

N, D = 300, 4
KINDS = {
    "Logistic": Logistic,
    "Hinge": Hinge,
    "LeastSquares": LeastSquares,
    "EpsilonInsensitive": EpsilonInsensitive,
}


def problem(kind, rare, weighted, alpha=1e-3, **options):
    """`rare` rows of class 1, or with large targets."""
    rng = np.random.default_rng(rare)
    X = rng.normal(size=(N, D)) * rng.lognormal(size=(N, 1)) + 1.0
    y = np.arange(N) < rare
    X[y] += 1.0
    if kind not in ("Logistic", "Hinge"):
        y = X[:, 0] + 10.0 * y + rng.normal(size=N)
    weights = rng.exponential(size=N) * (rng.uniform(size=N) < 0.8) if weighted else None
    return KINDS[kind](X, y, alpha=alpha, sample_weight=weights, **options)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("rare", [3, 60])
@pytest.mark.parametrize("kind", KINDS)
def test_never_below_the_true_distance(kind, rare, intercept, weighted):
    it = problem(kind, rare, weighted, fit_intercept=intercept)
    best = SDCA(tol=1e-12).minimize(it, rounds=60_000)
    bounds = best.state["parts"]["bounds"]
    zero = best_constant(it)[1]
    assert bounds["gap"] < 1e-4 * zero
    lowest = bounds["primal"]  # at least the minimum
    part, distances = None, []
    for rounds in [*range(0, 60, 3), *range(60, 600, 60)]:
        part = SDCA().minimize(it, rounds=rounds, resume=part)
        distance = it.value(part.solution) - lowest
        gap = SDCA().gap(it, part) * zero
        assert distance <= gap + 1e-13 * zero
        distances.append(distance / gap)
    assert max(distances) > 0.01  # not much larger either, somewhere on the way


def balanced_dual(it, a):
    """D of a feasible copy, in numpy: the definition of the certificate."""
    X, s, y = it.model.rows.values, it.model.weights, it.model.targets
    a = a.copy()
    plus, minus = (s * np.maximum(a, 0)).sum(), (s * np.maximum(-a, 0)).sum()
    a[a > 0] *= min(1.0, minus / plus)
    a[a < 0] *= min(1.0, plus / minus)
    assert abs((s * a).sum()) < 1e-12 * N
    w = (s * a) @ X / (it.l2 * N)
    return -(s * (a * a / 2 - a * y)).sum() / N - it.l2 / 2 * w @ w


def test_the_gap_at_a_fixed_intercept_certifies_nothing():
    """The optimum for an intercept that is off by 1 has no gap of its own, but a joint one."""
    it = problem("LeastSquares", 30, False, fit_intercept=True)
    y, X = it.model.targets, it.model.rows.values
    best = SDCA(tol=1e-11).minimize(it, rounds=100_000)
    off = best.solution[-1] + 1.0
    fixed = LeastSquares(X, y - off, alpha=it.alpha)
    solver = SDCA(tol=1e-11)
    there = solver.minimize(fixed, rounds=100_000)
    zero = best_constant(it)[1]
    naive = solver.gap(fixed, there)  # P - D, both at the fixed intercept
    point = np.append(there.solution, off)
    distance = (it.value(point) - it.value(best.solution)) / zero
    assert naive < 1e-10
    assert distance > 1e-3
    # ours, of the same dual variables
    run = SDCA()._begin(it, None, Latest(N))
    run.duals[:] = there.state["parts"]["duals"]
    run.level[0].total = rebuild(run, run.w[0])
    run.level[0].intercept = off
    primal, dual, _, _ = evaluate(run)
    assert dual == pytest.approx(balanced_dual(it, run.duals), rel=1e-10)
    assert it.value(point) - dual >= it.value(point) - it.value(best.solution)
    assert primal >= it.value(best.solution) >= dual


def test_the_bound_is_relative_to_the_best_constant():
    it = problem("Logistic", 60, True, fit_intercept=True)
    s, y = it.model.weights, it.model.targets
    share = (s * (y > 0)).sum() / s.sum()
    intercept, value = best_constant(it)
    assert intercept == pytest.approx(np.log(share / (1 - share)))
    assert value == pytest.approx(-share * np.log(share) - (1 - share) * np.log(1 - share))
    squares = problem("LeastSquares", 60, True, fit_intercept=True)
    mean = np.average(squares.model.targets, weights=squares.model.weights)
    assert best_constant(squares)[0] == pytest.approx(mean)
    kinks = problem("EpsilonInsensitive", 60, False, fit_intercept=True)
    values = [kinks.value(np.append(np.zeros(D), b)) for b in np.linspace(-5, 15, 2001)]
    assert best_constant(kinks)[1] <= min(values) + 1e-12
    plain = problem("Hinge", 60, False)
    assert best_constant(plain) == (0.0, 1.0)
