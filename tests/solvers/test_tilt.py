"""A linear term in the objective of dual ascent: minimum and bound, against closed forms."""

import math

import numpy as np
import pytest

from tombola import Latest
from tombola.problems import Hinge, LeastSquares
from tombola.solvers.dual.level import pull_for
from tombola.solvers.dual.run import evaluate, heavier_side, rebuild
from tombola.solvers.dual.start import mean_curvature, new_run
from tombola.solvers.loop import advance

N, D = 60, 3
ALPHA = 0.1


def rows():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N, D)) + 0.5
    return X, X @ np.array([1.0, -1.0, 0.3]) + rng.normal(size=N), rng.exponential(size=N)


def tilted(problem, tilt):
    run = new_run(problem, 4, 0.0)._replace(tilt=tilt)
    run.bounds[0].primal = run.bounds[0].gap = math.inf
    run.bounds[0].dual = -math.inf
    run.level[0].total = rebuild(run, run.w[0])
    if problem.fit_intercept:
        length = run.options[0].length
        run.level[0].pull = pull_for(run.level, length, problem.n, mean_curvature(run))
    return run


def minimised(problem, tilt, rounds=20_000):
    run = tilted(problem, tilt)
    run.options[0].tolerance = 1e-12
    sampler = Latest(problem.n, seed=0)
    assert advance(run, sampler.state, sampler.tally, problem.n, rounds) == -1
    return run


def value(problem, tilt, w):
    return problem.value(w) - float(tilt[: w.size] @ w)


@pytest.mark.parametrize("intercept", [False, True])
def test_least_squares_with_a_linear_term(intercept):
    X, y, weights = rows()
    problem = LeastSquares(X, y, alpha=ALPHA, sample_weight=weights, fit_intercept=intercept)
    tilt = np.array([0.5, -0.2, 0.1, 0.3 * intercept])
    run = minimised(problem, tilt)
    s, width = problem.model.weights, D + intercept
    design = np.c_[X, np.ones(N)][:, :width]
    penalty = ALPHA * np.diag([1.0] * D + [0.0] * intercept)
    right = np.linalg.solve(
        design.T @ (s[:, None] * design) / N + penalty, design.T @ (s * y) / N + tilt[:width]
    )
    assert np.allclose(run.best[0], right, atol=1e-6)
    lowest = value(problem, tilt, right)
    assert np.isclose(run.bounds[0].primal, lowest, rtol=0, atol=1e-11)
    assert lowest - 1e-10 <= run.bounds[0].dual <= lowest + 1e-12
    without = LeastSquares(X, y, alpha=ALPHA, sample_weight=weights, fit_intercept=intercept)
    plain = minimised(without, np.zeros(D + 1))
    assert not np.allclose(plain.best[0], right, atol=1e-2)


def test_every_pass_is_between_bound_and_value():
    X, y, weights = rows()
    problem = Hinge(X, y > 0, alpha=ALPHA, sample_weight=weights, fit_intercept=True)
    tilt = np.array([0.05, -0.02, 0.01, 0.03])
    lowest = minimised(problem, tilt, 50_000).bounds[0]
    assert lowest.gap < 1e-9
    for rounds in (5, 20, 60, 200):
        run = minimised(problem, tilt, rounds)
        primal, dual, _, _ = evaluate(run)
        assert dual <= lowest.primal + 1e-12
        assert primal >= lowest.dual - 1e-12


def test_a_linear_term_that_no_dual_variables_balance_has_no_bound():
    X, y, _ = rows()
    problem = Hinge(X, y > 0, alpha=ALPHA, fit_intercept=True)
    run = tilted(problem, np.array([0.0, 0.0, 0.0, 2.0]))  # the rows' slopes sum to at most 1
    assert evaluate(run)[1] == -math.inf


def test_the_heavier_side():
    assert heavier_side(2.0, 2.0, 0.0) == (0.0, 1.0)
    assert heavier_side(3.0, 2.0, 0.0) == (1.0, 2.0 / 3.0)
    assert heavier_side(2.0, 3.0, 0.0) == (-1.0, 2.0 / 3.0)
    assert heavier_side(3.0, 2.0, -1.0) == (0.0, 1.0)
    assert heavier_side(3.0, 2.0, 1.0) == (1.0, 1.0 / 3.0)
    assert heavier_side(2.0, 3.0, -1.0) == (-1.0, 1.0 / 3.0)
    assert heavier_side(1.0, 0.0, 1.0)[1] < 0.0
    assert heavier_side(0.0, 1.0, 2.0)[1] < 0.0
    assert heavier_side(1.0, 0.0, -2.0)[1] < 0.0
