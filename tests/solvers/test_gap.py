"""The gap of any point is never below its true distance from the minimum, and goes to zero."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso

from penalties import elastic
from tombola.estimators.stopping import Watch
from tombola.problems import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    LeastSquares,
    Logistic,
    Softmax,
    SquaredHinge,
)
from tombola.problems.linear import Linear, LinearProblem
from tombola.solvers import SAGA, SDCA, SVRG, gap
from tombola.solvers.gap import best_constant, duality_gap, relative_gap, unit_of

N, D = 120, 5
KINDS = {
    "Logistic": Logistic,
    "LeastSquares": LeastSquares,
    "SquaredHinge": SquaredHinge,
    "Huber": Huber,
    "Softmax": Softmax,
}
PENALTIES = {"l2": (0.0, 0.01), "l1": (0.02, 0.0), "both": (0.01, 0.01), "nearly l1": (0.02, 1e-6)}


def problem(kind, rare=30, weighted=False, sparse=False, penalty="l2", intercept=True, **options):
    """`rare` rows of class 1, or with large targets; class 2 has twice as many."""
    rng = np.random.default_rng(rare)
    X = rng.normal(size=(N, D)) * rng.lognormal(size=(N, 1)) + 1.0
    X[rng.uniform(size=X.shape) < 0.3] = 0.0
    y = (np.arange(N) < rare).astype(float)
    X += y[:, None]
    if kind == "Softmax":
        y[-2 * rare :] = 2
    elif kind in ("LeastSquares", "Huber", "EpsilonInsensitive"):
        y = X[:, 0] + 5.0 * y + rng.normal(size=N)
    weights = rng.exponential(size=N) * (rng.uniform(size=N) < 0.8) if weighted else None
    return KINDS[kind](
        sp.csr_array(X) if sparse else X,
        y,
        **elastic(*PENALTIES[penalty]),
        sample_weight=weights,
        fit_intercept=intercept,
        **options,
    )


def best_by_scipy(it):
    """The minimum: w as a difference of two numbers that are not negative makes F smooth."""
    width = it.d + it.fit_intercept
    free = np.zeros((it.outputs, width), dtype=bool)
    free[:, it.d :] = True
    free = free.ravel()

    def value(both):
        w = (both[: free.size] - both[free.size :]).reshape(it.shape)
        slope = it.gradient(w).ravel()
        size = np.where(free, 0.0, it.l1)
        smooth = it.value(w) - it.l1 * np.abs(w.ravel()[~free]).sum()
        total = smooth + size @ (both[: free.size] + both[free.size :])
        return total, np.concatenate([slope + size, size - slope])

    sides = [*np.where(free, -np.inf, 0.0), *np.zeros(free.size)]
    both = np.zeros(2 * free.size)
    for _ in range(20):  # it ends early now and then
        both = minimize(
            value, both, jac=True, method="L-BFGS-B",
            bounds=[(side, None) for side in sides],
            options={"gtol": 1e-12, "ftol": 1e-18, "maxiter": 20_000, "maxfun": 10**6},
        ).x  # fmt: skip
        w = (both[: free.size] - both[free.size :]).reshape(it.shape)
        if relative_gap(it, w) < 1e-6:
            break
    return w


def points(best, seed=0):
    """Points near the optimum and far from it, in all directions, and in the intercept alone."""
    rng = np.random.default_rng(seed)
    for far in (1e-5, 1e-3, 0.1, 1.0, 30.0):
        for _ in range(4):
            yield best + far * rng.normal(size=best.shape)
        aside = best.copy()
        aside[..., -1] += far * rng.normal(size=best.shape[:-1])
        yield aside


@pytest.mark.parametrize(
    ("rare", "weighted", "sparse", "intercept"),
    [
        (30, False, False, False),
        (30, False, False, True),
        (30, True, False, True),
        (3, False, False, True),
        (3, True, True, True),
        (30, True, True, False),
    ],
)
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("kind", KINDS)
def test_never_below_the_true_distance(kind, penalty, rare, weighted, sparse, intercept):
    it = problem(kind, rare, weighted, sparse, penalty, intercept)
    best = best_by_scipy(it)
    unit, lowest = unit_of(it), it.value(best)
    assert relative_gap(it, best) < 1e-5  # so `lowest` is the minimum, up to that
    for point in points(best):
        distance, bound = it.value(point) - lowest, duality_gap(it, point)
        assert distance <= bound
        assert bound <= it.value(point) * (1 + 1e-9)  # 0 is a lower bound
        assert relative_gap(it, point) == pytest.approx(bound / unit)
    assert duality_gap(it, best + 1e-5) < 1e-3 * unit


@pytest.mark.parametrize("kind", ["Logistic", "LeastSquares", "Softmax"])
def test_dual_variables_that_do_not_balance_would_be_seen(kind, monkeypatch):
    it = problem(kind)
    best = best_by_scipy(it)
    lowest = it.value(best)
    monkeypatch.setattr(gap, "balance", lambda problem, a: None)
    below = [duality_gap(it, point) < it.value(point) - lowest for point in points(best)]
    assert any(below)


@pytest.mark.parametrize(
    "kind", ["Hinge", pytest.param("EpsilonInsensitive", marks=pytest.mark.slow)]
)
def test_losses_that_are_not_smooth(kind):
    """Their slopes at the optimum need not be the optimum of the dual; a bound it is."""
    kinds = {"Hinge": Hinge, "EpsilonInsensitive": EpsilonInsensitive}
    X, y = problem("Logistic").model.rows.values, problem("Logistic").model.targets
    it = kinds[kind](X, y, alpha=0.01, fit_intercept=True)
    solver = SDCA(tol=1e-9)
    result = solver.minimize(it, rounds=100_000)
    lowest = it.value(result.solution)
    for point in points(result.solution):
        assert it.value(point) - lowest <= duality_gap(it, point) + 1e-9 * unit_of(it)


@pytest.mark.parametrize("kind", ["Logistic", "LeastSquares"])
def test_the_unit_is_that_of_sdca(kind):
    it = problem(kind, weighted=True)
    assert unit_of(it) == best_constant(it)[1]
    solver = SDCA(tol=1e-6)
    result = solver.minimize(it, rounds=20_000)
    assert solver.gap(it, result) <= 1e-6
    assert relative_gap(it, result.solution) < 1e-4


def test_the_unit_of_softmax_is_an_entropy():
    it = problem("Softmax", weighted=True)
    s, y = it.model.weights, it.model.targets.astype(int)
    shares = np.bincount(y, s) / s.sum()
    assert unit_of(it) == pytest.approx(-(shares * np.log(shares)).sum())
    constant = np.zeros(it.shape)
    constant[:, -1] = np.log(shares)
    assert unit_of(it) == pytest.approx(it.value(constant))
    assert unit_of(problem("Softmax", intercept=False)) == pytest.approx(np.log(3))


def test_two_classes_of_softmax_are_logistic():
    """w_1 = -w_0 = w/2 has the same losses, and half of the penalty per column."""
    logistic = problem("Logistic", rare=3)
    X, y = logistic.model.rows.values, logistic.model.targets
    softmax = Softmax(X, (y > 0).astype(int), alpha=2 * logistic.alpha, fit_intercept=True)
    best = best_by_scipy(logistic)
    assert unit_of(softmax) == pytest.approx(unit_of(logistic))
    for point in points(best):
        both = np.stack([-point / 2, point / 2])
        assert softmax.value(both) == pytest.approx(logistic.value(point))
        distance = logistic.value(point) - logistic.value(best)
        assert duality_gap(softmax, both) >= distance
    assert relative_gap(softmax, np.stack([-best / 2, best / 2])) < 1e-5


def test_a_class_without_rows():
    it = problem("Softmax", n_classes=5)
    result = SAGA().minimize(it, rounds=400 * N)
    assert result.solution[3:, -1].max() < result.solution[:3, -1].min()
    assert relative_gap(it, result.solution) < 0.05


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("alpha", [0.05, 0.5])
def test_the_gap_of_the_lasso_is_that_of_scikit_learn(intercept, alpha):
    it = problem("LeastSquares")
    X, y = it.model.rows.values, it.model.targets
    it = LeastSquares(X, y, alpha=alpha, l1_ratio=1.0, fit_intercept=intercept)
    for sweeps in (1, 3, 10):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            peer = Lasso(alpha=alpha, fit_intercept=intercept, max_iter=sweeps, tol=1e-16)
            peer.fit(X, y)
        w = np.append(peer.coef_, [peer.intercept_] if intercept else [])
        assert duality_gap(it, w) == pytest.approx(peer.dual_gap_, rel=1e-7, abs=1e-10)


class OwnModel(Linear):
    def slopes(self, item, z, out):
        out[0] = z[0] - self.targets[item]
        return 0.5 * out[0] * out[0]


class Own(LinearProblem):
    model_class = OwnModel
    curvature = 1.0


def test_nan_where_there_is_no_bound():
    assert np.isnan(relative_gap(LeastSquares([[1.0]], [1.0]), [0.0]))  # no penalty
    assert np.isnan(relative_gap(Own([[1.0]], [1.0], alpha=1.0), [0.0]))  # no conjugate


def test_targets_that_a_constant_fits():
    it = LeastSquares([[1.0], [2.0]], [0.3, 0.3], alpha=0.1, fit_intercept=True)
    assert unit_of(it) == pytest.approx(0.045)
    assert relative_gap(it, [0.0, 0.3]) < 1e-11
    zero = LeastSquares([[1.0]], [0.0], alpha=0.1)
    assert relative_gap(zero, [0.0]) == 0.0


def test_far_away():
    it = problem("SquaredHinge")
    assert relative_gap(it, np.full(D + 1, 1e200)) == np.inf


@pytest.mark.parametrize("solver", [SAGA(), SVRG()], ids=str)
def test_the_gap_of_a_result(solver):
    it = problem("Logistic")
    result = solver.minimize(it, rounds=20 * N)
    assert solver.gap(it, result) == relative_gap(it, result.solution)
    later = solver.minimize(it, rounds=200 * N, resume=result)
    assert solver.gap(it, later) < 0.1 * solver.gap(it, result)


# --- the stopping rule ----------------------------------------------------------------------------


@pytest.mark.parametrize("tol", [1e-2, 1e-4])
def test_a_run_stops_at_the_first_epoch_within_the_tolerance(tol):
    it, seen = problem("Logistic"), []

    class Seen(Watch):
        def __call__(self, rounds, solution, loss):
            stop = super().__call__(rounds, solution, loss)
            seen.append(relative_gap(it, solution))
            assert self.gap == seen[-1]
            return stop

    sampler = SAGA()._default_sampler(it)
    watch = Seen(it, sampler, True, tol, None, None)
    result = SAGA().minimize(it, sampler=sampler, rounds=10_000 * N, until=watch)
    assert watch.converged
    assert watch.epoch == len(seen) == result.rounds // N < 10_000
    assert seen[-1] <= tol < min(seen[:-1])
    assert watch.gap == relative_gap(it, result.solution)


def test_without_a_gap_it_stops_when_nothing_moves():
    it = LeastSquares(np.eye(3), [1.0, 2.0, 3.0])
    sampler = SAGA()._default_sampler(it)
    watch = Watch(it, sampler, True, 1e-6, None, None)
    result = SAGA().minimize(it, sampler=sampler, rounds=30_000, until=watch)
    assert watch.converged
    assert np.isnan(watch.gap)
    np.testing.assert_allclose(result.solution, [1.0, 2.0, 3.0], rtol=1e-4)


def test_other_solvers_have_a_gap_too():
    it = problem("Logistic")
    watch = Watch(it, SAGA()._default_sampler(it), False, None, None, None)
    assert watch.gap == relative_gap(it, None)
    assert not watch(N, np.ones(D + 1), 1.0)
    assert watch.gap == relative_gap(it, np.ones(D + 1))


def test_a_gap_that_is_not_a_number_is_not_zero(monkeypatch):
    problem = Logistic([[1.0], [2.0], [-1.0]], [1, 1, 0], alpha=0.1)
    solver = SDCA(seed=0)
    result = solver.minimize(problem, rounds=3)
    for known, reported in ((np.nan, np.nan), (-1e-20, 0.0), (0.0, 0.0)):
        monkeypatch.setattr(SDCA, "_gap", lambda self, problem, result, known=known: known)
        assert np.array_equal(solver.gap(problem, result), reported, equal_nan=True)


def test_a_penalty_that_underflows_has_a_gap():
    """Half of the least number is 0: l1 = l2 = 0, though alpha is above 0."""
    assert gap.Penalty(0.0, 0.0).factors(np.array([1.0, -2.0]), np.zeros(2)) == [0.0]
    assert gap.Penalty(0.0, 0.0).factors(np.zeros(2), np.zeros(2)) == [1.0]
