"""The parts of Newton against slow versions in numpy, and a whole round."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize_scalar

from players import Replay
from tombola.problems import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    LeastSquares,
    Logistic,
    SquaredHinge,
)
from tombola.problems.rows import as_rows
from tombola.solvers import Newton, gap
from tombola.solvers.gap import best_constant
from tombola.solvers.newton.cholesky import factorise, substitute
from tombola.solvers.newton.run import (
    ARMIJO,
    BACK,
    ENOUGH,
    HALVINGS,
    MEMORY,
    NESTED,
    RIDGE,
    SLOW,
    STEPS,
    fill_gradient,
    fill_hessian,
    fill_scores,
    move_along,
    place,
    settle,
    solve,
    survey_rows,
    value_along,
)

N, D, L2 = 400, 5, 1e-3


def problem(seed=0, **options):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D)) * rng.exponential(size=(N, 1)) + 0.3
    y = X[:, 0] + rng.logistic(size=N) > 2.0
    weights = rng.exponential(size=N) * (rng.uniform(size=N) < 0.9)
    options = {"sample_weight": weights, "fit_intercept": True, "alpha": L2, **options}
    return Logistic(X, y, **options)


class Slow:
    """Logistic regression in numpy."""

    def __init__(self, it):
        self.it, self.intercept = it, it.fit_intercept
        self.X = np.column_stack([it.model.rows.values, np.ones(it.n)])[:, : it.d + self.intercept]
        self.y, self.s = it.model.targets, it.model.weights
        self.l2 = np.where(np.arange(self.X.shape[1]) < it.d, it.l2, 0.0)

    def rows(self, w):
        """s phi, s phi' and s phi'' of all rows."""
        margins = self.y * (self.X @ w)
        chance = 1 / (1 + np.exp(margins))
        s, y = self.s, self.y
        return s * np.logaddexp(0, -margins), -s * y * chance, s * chance / (1 + np.exp(-margins))

    def value(self, w):
        return self.rows(w)[0].mean() + (self.l2 * w * w).sum() / 2

    def gradient(self, w):
        return self.rows(w)[1] @ self.X / self.it.n + self.l2 * w

    def dual(self, w, balanced=True):
        """The dual value of a = -phi', with both signs scaled to the same sum; a bound on it."""
        s, y = self.s, self.y
        a, ratio = -self.rows(w)[1] / np.where(s > 0, s, 1.0), np.ones(self.it.n)
        if self.intercept and balanced:
            plus, minus = (s * a)[a > 0].sum(), -(s * a)[a < 0].sum()
            ratio = np.where(a > 0, min(1, minus / plus), min(1, plus / minus))

        def conjugate(a):
            beta = np.clip(a * y, 1e-300, 1 - 1e-16)
            return s * (beta * np.log(beta) + (1 - beta) * np.log1p(-beta))

        v = (s * ratio * a) @ self.X[:, : self.it.d] / self.it.n
        penalty = v @ v / (2 * self.it.l2)
        exact = -conjugate(ratio * a).mean() - penalty
        return exact, -(ratio * conjugate(a)).mean() - penalty

    def scores(self, w):
        _, slopes, curves = self.rows(w)
        squares = (self.X[:, : self.it.d] ** 2).sum(axis=1) + self.intercept
        squares = np.where(self.s > 0, squares, 0.0)
        reach = np.sqrt(squares + (self.s * squares).mean())
        by_curve, by_slope = curves * reach**2, np.abs(slopes) * reach
        return by_curve / by_curve.sum() + by_slope / by_slope.sum()

    def next(self, w, items, importances, corrected):
        """The minimum over a sample; the same rules for its end as the kernel has."""
        m, factors, zero = len(items), self.s[items] * importances, np.zeros(w.size)
        if not corrected and m < self.it.n and m >= NESTED * w.size:
            ahead = self.descended(w, items[: m // 8], factors[: m // 8], zero)
            if self.sampled(ahead, items, factors)[0] <= self.sampled(w, items, factors)[0]:
                w = ahead
        c = self.gradient(w) - self.sampled(w, items, factors)[1] if corrected else zero
        return self.descended(w, items, factors, c)

    def sampled(self, w, items, factors):
        """Value, gradient and Hessian over a sample."""
        X, y, factors = self.X[items], self.y[items], factors / len(items)
        margins = y * (X @ w)
        chance = 1 / (1 + np.exp(margins))
        value = factors @ np.logaddexp(0, -margins) + (self.l2 * w * w).sum() / 2
        gradient = -(factors * y * chance) @ X + self.l2 * w
        hessian = (X.T * (factors * chance * (1 - chance))) @ X + np.diag(self.l2)
        if self.intercept:
            hessian[-1, -1] += RIDGE * factors.sum()
        return value, gradient, hessian

    def descended(self, w, items, factors, c):
        """Newton's method, with a Hessian that is kept while steps leave a tenth of the gain."""
        first = last = 0.0
        hessian = None
        for _ in range(STEPS):
            value, gradient, here = self.sampled(w, items, factors)
            gradient = gradient + c
            if hessian is None or gradient @ np.linalg.solve(hessian, gradient) > SLOW * last:
                hessian = here
            step, factor = -np.linalg.solve(hessian, gradient), 1.0
            gain = -gradient @ step
            for _ in range(HALVINGS):
                there = w + factor * step
                ahead = self.sampled(there, items, factors)[0] + c @ there
                if ahead <= value + c @ w - ARMIJO * factor * gain:
                    break
                factor /= 2
            w, first, last = w + factor * step, max(first, gain), gain
            if gain <= ENOUGH * first:
                break
        return w


def begun(it, w, **options):
    solver = Newton(**options)
    return solver._begin(it, w, solver._default_sampler(it))


POINTS = {  # with more slope on the one side, and on the other
    "zero": np.zeros(D + 1),
    "some": np.linspace(-1, 1, D + 1),
    "above": np.full(D + 1, 4.0),
    "below": np.append(np.zeros(D), -9.0),
}


@pytest.mark.parametrize("options", [{}, {"sample_weight": None}], ids=str)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("point", POINTS)
def test_a_pass(point, intercept, options):
    it = problem(fit_intercept=intercept, **options)
    slow, w = Slow(it), POINTS[point][: D + intercept]
    run = begun(it, w)
    primal, dual = survey_rows(run)
    _, slopes, curves = slow.rows(w)
    assert primal == pytest.approx(slow.value(w), rel=1e-13)
    exact, bound = slow.dual(w)
    assert dual == pytest.approx(bound, rel=1e-9, abs=1e-11)
    assert dual <= exact
    np.testing.assert_allclose(run.scratch.gradient, slow.gradient(w), rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(run.survey.slopes, slopes, rtol=1e-12)
    np.testing.assert_allclose(run.survey.curves, curves, rtol=1e-9)
    assert run.item_gradients == N
    fill_scores(run, 0.0)
    np.testing.assert_allclose(run.survey.scores, slow.scores(w), rtol=1e-9)
    run.survey.scores[:] = np.arange(N)
    fill_scores(run, MEMORY)
    expected = slow.scores(w) + MEMORY * np.arange(N)
    np.testing.assert_allclose(run.survey.scores, expected, rtol=1e-9)


def test_sums_over_many_rows_are_exact():
    n = 300_000
    it = Logistic(np.zeros((n, D)), np.arange(n) < n / 100, alpha=L2, fit_intercept=True)
    intercept, value = best_constant(it)
    w = np.append(np.zeros(D), intercept)
    primal, dual = survey_rows(begun(it, w))
    naive = np.cumsum(it.losses(w))[-1] / n
    assert abs(primal - value) < 1e-15 < 1e-13 < abs(naive - value)
    assert dual == pytest.approx(value, rel=1e-11)
    assert dual <= value
    result = Newton().minimize(it, rounds=3, start=w)  # nothing seems to rise
    assert result.state["parts"]["progress"]["passes"] == 3


def test_scores_remember_the_points_left_behind():
    it = problem()
    w, best = np.full(D + 1, 9.0), np.append(np.zeros(D), best_constant(it)[0])
    run = begun(it, w)
    settle(run)
    slow, passes = Slow(it), 1
    expected = slow.scores(w)
    while slow.value(w) > slow.value(best):
        w, passes = best + BACK * (w - best), passes + 1
        expected = slow.scores(w) + MEMORY * expected
    assert passes > 1
    assert (run.progress[0].passes, run.progress[0].cut) == (passes, 1)
    np.testing.assert_allclose(run.survey.scores, expected, rtol=1e-8)
    np.testing.assert_allclose(run.best[0], w, rtol=1e-12)


def test_a_dual_point_that_is_not_balanced_proves_nothing():
    """The best w for an intercept that is off by 2: its dual value is above the minimum."""
    it = problem(sample_weight=None)
    slow, best = Slow(it), Newton(tol=1e-10).minimize(it, rounds=60)
    X = slow.X[:, :D]
    w = best.solution + np.append(np.zeros(D), 2.0)
    for _ in range(30):  # Newton's method at a fixed intercept
        _, slopes, curves = slow.rows(w)
        hessian = (X.T * curves) @ X / N + L2 * np.eye(D)
        w[:D] -= np.linalg.solve(hessian, slopes @ X / N + L2 * w[:D])
    minimum = it.value(best.solution)
    assert slow.dual(w, balanced=False)[0] > minimum * 1.05
    assert survey_rows(begun(it, w))[1] <= minimum


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_gradient_and_hessian_of_a_sample(form):
    it = problem()
    rng = np.random.default_rng(1)
    sparse = Logistic(
        form(it.model.rows.values * (rng.uniform(size=(N, D)) < 0.5)),
        it.model.targets,
        alpha=L2,
        fit_intercept=True,
    )
    run = begun(sparse, None, sample_size=100)
    run.sample.items[:] = rng.integers(N, size=100)
    run.sample.factors[:] = rng.exponential(size=100)
    run.sample.z[:] = rng.normal(size=100)
    run.sample.factors[:10] = 0.0
    fill_gradient(run, 100)
    fill_hessian(run, 100)
    X = np.array([sparse.item_gradient(i, None) for i in run.sample.items])
    X /= X[:, -1:]  # the slope
    y, z = sparse.model.targets[run.sample.items], run.sample.z
    chance, factors = 1 / (1 + np.exp(y * z)), run.sample.factors / 100
    gradient = -(factors * y * chance) @ X
    hessian = (X.T * (factors * chance * (1 - chance))) @ X
    hessian += L2 * np.diag(np.arange(D + 1) < D)
    hessian[-1, -1] += RIDGE * factors.sum()
    np.testing.assert_allclose(run.scratch.model_gradient, gradient, rtol=1e-12)
    lower = np.tril_indices(D + 1)
    np.testing.assert_allclose(run.scratch.hessian[lower], hessian[lower], rtol=1e-11)
    assert (run.scratch.hessian[np.triu_indices(D + 1, 1)] == 0).all()


@pytest.mark.parametrize(("curves", "slopes"), [(0.0, 0.0), (2.0, 0.0), (0.0, -3.0)])
def test_scores_without_curvature_or_slopes(curves, slopes):
    """Each half is shared out, unless there is none of it."""
    run = begun(problem(), None)
    run.survey.curves[:], run.survey.slopes[:] = curves, slopes
    reaches = run.survey.reaches
    expected = np.zeros(N)
    if curves:
        expected += reaches**2 / (reaches**2).sum()
    if slopes:
        expected += reaches / reaches.sum()
    fill_scores(run, 0.0)
    np.testing.assert_allclose(run.survey.scores, expected, rtol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_values_and_lengths_of_steps(intercept, weighted):
    """Far out, where the logistic function is flat, full steps overshoot, and are halved."""
    it = problem(fit_intercept=intercept, **({} if weighted else {"sample_weight": None}))
    slow, m, factors_seen = Slow(it), 60, set()
    for seed in range(8):
        rng = np.random.default_rng(seed)
        w = rng.normal(size=D + intercept) * [0.1, 1.0, 2.0, 4.0][seed % 4]
        run = begun(it, w, sample_size=m)
        items = rng.integers(N, size=m)
        factors = it.model.weights[items] * rng.exponential(size=m)
        run.sample.items[:], run.sample.factors[:] = items, factors
        c = rng.normal(size=w.size) * 1e-3
        run.scratch.correction[:] = c
        value, gradient, hessian = slow.sampled(w, items, factors)
        assert place(run, m) == pytest.approx(value, rel=1e-12)
        kept = factors > 0
        np.testing.assert_allclose(run.sample.z[kept], (slow.X[items] @ w)[kept], rtol=1e-9)
        fill_gradient(run, m)
        run.scratch.model_gradient[:] = gradient + c
        fill_hessian(run, m)
        factorise(run.scratch.hessian)
        gain, step = solve(run), -np.linalg.solve(hessian, gradient + c)
        np.testing.assert_allclose(run.scratch.step, step, rtol=1e-5, atol=1e-9)
        assert gain == pytest.approx(-(gradient + c) @ step, rel=1e-6)
        step, factor = run.scratch.step.copy(), 1.0

        def along(factor, w=w, c=c, step=step, items=items, factors=factors):
            there = w + factor * step
            with np.errstate(over="ignore"):  # exp(1000) is inf, and 1 / inf is 0
                return slow.sampled(there, items, factors)[0] + c @ there

        while along(factor) > along(0.0) - ARMIJO * factor * gain:
            factor /= 2
        assert move_along(run, m, gain) == factor
        for share in (0.0, 0.3, 1.0):
            assert value_along(run, m, share) == pytest.approx(along(share), rel=1e-10)
        factors_seen.add(factor)
        assert move_along(run, m, 1e300) == 0.0  # no step gains as much
    assert min(factors_seen) < 1.0 == max(factors_seen)


@pytest.mark.parametrize("ones", [0, 1])
@pytest.mark.parametrize("count", [1, 3, 4, 6])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_outer_products_of_rows(kind, count, ones):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(9, 6)) * (rng.uniform(size=(9, 6)) < 0.6)).astype(kind)
    X[2] = 0.0
    items, factors = rng.integers(9, size=count), rng.exponential(size=count)
    full = np.hstack([X.astype(float), np.ones((9, ones))])[items]
    expected = 1.0 + np.tril((full.T * factors) @ full)
    for rows in (as_rows(X), as_rows(sp.csr_array(X))):
        matrix, block = np.ones((6 + ones, 6 + ones)), np.full((8, 6 + ones), np.nan)
        type(rows).add_outers(rows, items, factors, block, matrix)
        np.testing.assert_allclose(matrix, expected, rtol=1e-6 if kind == np.float32 else 1e-13)


@pytest.mark.parametrize("size", [1, 2, 7, 40])
def test_positive_systems(size):
    rng = np.random.default_rng(size)
    root = rng.normal(size=(size, size + 3)) * 10.0 ** rng.integers(-8, 9, size=(size, 1))
    matrix, right = root @ root.T, rng.normal(size=size)
    scale = np.sqrt(np.diag(matrix))
    expected = np.linalg.solve(matrix / np.outer(scale, scale), right / scale) / scale
    given, x = np.tril(matrix) + np.triu(np.full((size, size), np.nan), 1), right.copy()
    factorise(given)
    substitute(given, x)
    np.testing.assert_allclose(x * scale, expected * scale, rtol=1e-6, atol=1e-8)
    factor = np.tril(given)
    np.testing.assert_allclose(factor @ factor.T, matrix, rtol=1e-9, atol=1e-10 * matrix.max())


@pytest.mark.parametrize("matrix", [np.ones((3, 3)), np.zeros((3, 3)), np.full((3, 3), 1e-310)])
def test_singular_systems_have_a_finite_solution(matrix):
    x = np.array([1.0, 1.0, 1.0]) * matrix[0, 0]
    matrix = matrix.copy()
    factorise(matrix)
    substitute(matrix, x)
    assert np.isfinite(x).all()


@pytest.mark.parametrize("intercept", [False, True])
def test_rounds_in_numpy(intercept):
    """The first without a pass and a correction, the others with both."""
    it = problem(fit_intercept=intercept)
    slow, m = Slow(it), 120
    rng = np.random.default_rng(2)
    chances = slow.scores(np.append(np.zeros(D), best_constant(it)[0])[: D + intercept])
    chances = 0.5 / N + 0.5 * chances / chances.sum()
    draws = []
    for _ in range(3):
        items = rng.choice(N, size=m, p=chances)
        draws.append((items, chances[items]))
    w = np.append(np.zeros(D), best_constant(it)[0])[: D + intercept]
    for rounds in (1, 2, 3):
        result = Newton(sample_size=m).minimize(
            it, sampler=Replay(N, draws[:rounds]), rounds=rounds
        )
        items, chance = draws[rounds - 1]
        wrong = slow.next(w, items, 1 / (N * chance), rounds == 1)
        w = slow.next(w, items, 1 / (N * chance), rounds > 1)
        found = result.state["parts"]["w"][0]
        np.testing.assert_allclose(found, w, rtol=1e-7, atol=1e-9)
        assert result.state["parts"]["progress"]["cut"] == 0
        assert np.abs(found - wrong).max() > 1e-3  # the correction is seen


def test_a_sample_of_all_rows_is_all_rows():
    it = problem()
    result = Newton(sample_size=N).minimize(it, rounds=1)
    slow, w = Slow(it), np.append(np.zeros(D), best_constant(it)[0])
    expected = slow.next(w, np.arange(N), np.ones(N), False)
    np.testing.assert_allclose(result.solution, expected, rtol=1e-8)


# --- the best constant ----------------------------------------------------------------------------

KINDS = [Logistic, SquaredHinge, Hinge, LeastSquares, Huber, EpsilonInsensitive]
CLASSIFIERS = KINDS[:3]


def constants(kind, weighted, which):
    rng = np.random.default_rng(0)
    n = 300
    y = rng.standard_t(2, size=n) * 3 + 20.0
    if kind in CLASSIFIERS:
        y = rng.uniform(size=n) < 0.02
    if which == "one":
        y = np.ones(n) if kind in CLASSIFIERS else np.full(n, 2.5)
    if which == "far":
        y = y if kind in CLASSIFIERS else 1e9 + y
    weights = rng.exponential(size=n) * (rng.uniform(size=n) < 0.8) if weighted else None
    return kind(np.zeros((n, 1)), y, alpha=1.0, fit_intercept=True, sample_weight=weights)


@pytest.mark.parametrize("which", ["some", "one", "far"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_best_constant(kind, weighted, which, monkeypatch):
    it = constants(kind, weighted, which)
    calls, original = [], gap.value_of_constant

    def counted(model, b):
        calls.append(b)
        return original(model, b)

    monkeypatch.setattr(gap, "value_of_constant", counted)
    intercept, value = best_constant(it)
    low, high = it.model.targets.min() - 1, it.model.targets.max() + 1
    if kind in CLASSIFIERS:
        low, high = -50.0, 50.0
    expected = minimize_scalar(
        lambda b: it.value([0.0, low + b]),
        bounds=(0.0, high - low),
        method="bounded",
        options={"xatol": 1e-10},
    ).fun
    size = max(abs(low), abs(high))
    assert value <= expected + 1e-13 * size
    assert value == pytest.approx(it.value([0.0, intercept]), rel=1e-12, abs=1e-25 + 1e-15 * size)
    assert value >= expected - 1e-6 * max(expected, 1e-6)
    if kind in (LeastSquares, Huber):  # each is a pass over all targets
        assert len(calls) <= (10 if kind is LeastSquares else 50)


def test_without_an_intercept_there_is_no_choice():
    assert best_constant(problem(fit_intercept=False)) == (0.0, pytest.approx(np.log(2)))
