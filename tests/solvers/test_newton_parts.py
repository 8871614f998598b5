"""The parts of Newton against slow versions in numpy, and a whole round."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize_scalar

import tombola
from players import Replay
from tombola.problems import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    LeastSquares,
    Logistic,
    SquaredHinge,
)
from tombola.problems.rows import as_rows, blocks, products, squared_norms, taken
from tombola.solvers import Newton, gap
from tombola.solvers.gap import best_constant
from tombola.solvers.newton import run as newton_run
from tombola.solvers.newton import sample as newton_sample
from tombola.solvers.newton.run import BACK, MEMORY, NESTED, WORTH
from tombola.solvers.newton.sample import (
    ARMIJO,
    ENOUGH,
    HALVINGS,
    RIDGE,
    SHORT,
    SLOW,
    STEPS,
    Bowl,
    Sample,
    bowl_over,
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
        led = m < self.it.n or m * w.size >= WORTH
        if not corrected and led and m >= NESTED * w.size:
            head = slice(m // 8) if m < self.it.n else slice(None, None, 8)
            ahead = self.descended(w, items[head], factors[head], zero)
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
        if self.intercept:  # the others are centred by their means, with the ridge counted
            hessian[-1, -1] += RIDGE * factors.sum()
            means = hessian[:-1, -1] / hessian[-1, -1]
            hessian[:-1, :-1] -= RIDGE * factors.sum() * np.outer(means, means)
        return value, gradient, hessian

    def descended(self, w, items, factors, c, lengths=None):
        """Newton's method; a Hessian is kept while steps leave a tenth, unless it is cheap."""
        first = last = 0.0
        hessian, cheap = None, len(items) * self.it.d**2 <= newton_sample.CHEAP
        for _ in range(STEPS):
            value, gradient, here = self.sampled(w, items, factors)
            gradient = gradient + c
            slow = hessian is not None and (
                gradient @ np.linalg.solve(hessian, gradient) > SLOW * last
            )
            if hessian is None or cheap or slow:
                hessian = here
            step, factor = -np.linalg.solve(hessian, gradient), 1.0
            gain = -gradient @ step
            for _ in range(HALVINGS):
                there = w + factor * step
                ahead = self.sampled(there, items, factors)[0] + c @ there
                if ahead <= value + c @ w - ARMIJO * factor * gain:
                    break
                factor /= 2
            if lengths is not None:
                lengths.append(factor)
            w, first, last = w + factor * step, max(first, gain), gain
            if gain <= ENOUGH * first:
                break
        return w


def begun(it, w, **options):
    return Newton(**{"sample_size": N // 4, **options})._begin(it, w)


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
    primal, dual = run.pass_over()
    _, slopes, curves = slow.rows(w)
    assert primal == pytest.approx(slow.value(w), rel=1e-13)
    exact, bound = slow.dual(w)
    assert dual == pytest.approx(bound, rel=1e-9, abs=1e-11)
    assert dual <= exact
    np.testing.assert_allclose(run.survey.gradient, slow.gradient(w), rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(run.survey.slopes, slopes, rtol=1e-12)
    np.testing.assert_allclose(run.survey.curves, curves, rtol=1e-9)
    assert run.item_gradients == N
    run.fill_scores(0.0)
    np.testing.assert_allclose(run.survey.scores, slow.scores(w), rtol=1e-9)
    run.survey.scores[:] = np.arange(N)
    run.fill_scores(MEMORY)
    expected = slow.scores(w) + MEMORY * np.arange(N)
    np.testing.assert_allclose(run.survey.scores, expected, rtol=1e-9)


def test_sums_over_many_rows_are_exact():
    n = 300_000
    it = Logistic(np.zeros((n, D)), np.arange(n) < n / 100, alpha=L2, fit_intercept=True)
    intercept, value = best_constant(it)
    w = np.append(np.zeros(D), intercept)
    primal, dual = begun(it, w).pass_over()
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
    run.settle()
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
    assert begun(it, w).pass_over()[1] <= minimum


def hessian_of(bowl, d):
    """The Hessian that a bowl stands for, without the floor of its pivots."""
    roots = np.diag(1 / bowl.scales)
    centred = roots @ bowl.matrix @ roots
    if bowl.mass == 0.0:
        return centred
    full = np.zeros((d + 1, d + 1))
    full[:d, :d] = centred + bowl.mass * np.outer(bowl.means, bowl.means)
    full[:d, d] = full[d, :d] = bowl.mass * bowl.means
    full[d, d] = bowl.mass
    return full


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [D, 6 * SHORT])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_gradient_and_hessian_of_a_sample(form, columns, kind, intercept):
    """Dense rows, sparse rows, and those that are multiplied as sparse ones."""
    rng = np.random.default_rng(1)
    share = 0.5 if columns == D else 0.05
    X = (rng.normal(size=(N, columns)) + 1) * (rng.uniform(size=(N, columns)) < share)
    X[3] = 0.0
    X = X.astype(kind)
    it = Logistic(form(X), rng.uniform(size=N) < 0.3, alpha=L2, fit_intercept=intercept)
    items, factors = rng.integers(N, size=100), rng.exponential(size=100)
    factors[:10] = 0.0
    sample = Sample.of(it.model, items, factors)
    w = rng.normal(size=it.shape) / columns
    rows = np.column_stack([X.astype(float), np.ones(N)])[items][:, : columns + intercept]
    z = sample.products(w)
    np.testing.assert_allclose(z[10:], (rows @ w)[10:], rtol=1e-9, atol=1e-12)
    assert (z[:10] == 0.0).all()
    _, slopes, curves = it.model.derivatives(items, z)
    y = it.model.targets[items]
    chance = 1 / (1 + np.exp(y * z))
    penalty = np.where(np.arange(w.size) < columns, L2, 0.0)
    gradient = -(factors * y * chance) @ rows + penalty * w
    np.testing.assert_allclose(sample.gradient(w, slopes), gradient, rtol=1e-9, atol=1e-12)
    hessian = (rows.T * (factors * chance * (1 - chance))) @ rows + np.diag(penalty)
    if intercept:
        hessian[-1, -1] += RIDGE * factors.sum()
    bowl = sample.bowl(curves)
    found = hessian_of(bowl, columns)
    np.testing.assert_allclose(found, hessian, rtol=1e-7, atol=1e-9 * hessian.max())
    step, gain = bowl.step(gradient)
    expected = -np.linalg.solve(hessian, gradient)
    np.testing.assert_allclose(step, expected, rtol=1e-5, atol=1e-9 * np.abs(expected).max())
    assert gain == pytest.approx(-gradient @ expected, rel=1e-6)
    value = factors @ np.logaddexp(0, -y * z) + penalty @ w**2 / 2
    assert sample.value(w) == pytest.approx(value, rel=1e-12)


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
    run.fill_scores(0.0)
    np.testing.assert_allclose(run.survey.scores, expected, rtol=1e-12)


@pytest.mark.parametrize("cheap", [0, newton_sample.CHEAP])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_the_way_over_a_sample(intercept, weighted, cheap, monkeypatch):
    """Far out, where the logistic function is flat, full steps overshoot, and are halved."""
    monkeypatch.setattr(newton_sample, "CHEAP", cheap)
    it = problem(fit_intercept=intercept, **({} if weighted else {"sample_weight": None}))
    slow, m, halved = Slow(it), 60, 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        w = rng.normal(size=D + intercept) * [0.1, 1.0, 2.0, 4.0][seed % 4]
        items = rng.integers(N, size=m)
        factors = it.model.weights[items] * rng.exponential(size=m)
        lengths = []
        with np.errstate(over="ignore"):  # exp(1000) is inf, and 1 / inf is 0
            expected = slow.descended(w, items, factors, np.zeros(w.size), lengths)
        found = Sample.of(it.model, items, factors / m).descend(w).w
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
        halved += min(lengths) < 1.0
        exact = rng.normal(size=w.size) * 1e-3 + slow.sampled(w, items, factors)[1]
        c = exact - slow.sampled(w, items, factors)[1]
        with np.errstate(over="ignore"):
            expected = slow.descended(w, items, factors, c)
        found = Sample.of(it.model, items, factors / m).descend(w, exact).w
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
    assert 0 < halved < 8


def test_no_step_where_none_gains(monkeypatch):
    it = problem()
    sample = Sample.of(it.model, np.arange(60), np.ones(60) / 60)
    w = np.linspace(-1, 1, D + 1)
    monkeypatch.setattr(Bowl, "step", lambda bowl, gradient, tolerance: (np.ones(w.size), 1e300))
    np.testing.assert_array_equal(sample.descend(w).w, w)
    monkeypatch.setattr(Bowl, "step", lambda bowl, gradient, tolerance: (np.ones(w.size), np.nan))
    np.testing.assert_array_equal(sample.descend(w).w, w)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_blocks_products_and_rows_taken(kind, monkeypatch):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(57, 6)) * (rng.uniform(size=(57, 6)) < 0.6)).astype(kind)
    X[[0, 9, 10, 56]] = 0.0
    for limit in (1, 7, 100, 2**17):
        monkeypatch.setattr(tombola.problems.rows, "BLOCK", limit)
        for rows in (as_rows(X), as_rows(sp.csr_array(X))):
            parts = list(blocks(rows))
            assert [where.start for where, _ in parts] == [0, *(w.stop for w, _ in parts[:-1])]
            assert parts[-1][0].stop == 57
            for where, matrix in parts:
                assert matrix.dtype == np.float64
                dense = matrix.toarray() if sp.issparse(matrix) else matrix
                np.testing.assert_array_equal(dense, X[where])
            w = rng.normal(size=6)
            np.testing.assert_allclose(products(rows, w), X @ w, rtol=1e-12, atol=1e-14)
            items = rng.integers(57, size=90)
            np.testing.assert_allclose(products(taken(rows, items), w), X[items] @ w, atol=1e-14)
            weights = rng.exponential(size=6)
            naive = [sum(b * float(v) ** 2 for b, v in zip(weights, row, strict=True)) for row in X]
            np.testing.assert_array_equal(squared_norms(rows, weights), naive)
            np.testing.assert_allclose(squared_norms(rows), (X.astype(float) ** 2).sum(axis=1))


@pytest.mark.parametrize("size", [1, 2, 7, 40])
def test_systems_do_not_depend_on_units(size):
    rng = np.random.default_rng(size)
    X, units = rng.normal(size=(size + 60, size)), 10.0 ** rng.integers(-8, 9, size=size)
    bends, gradient = rng.exponential(size=len(X)), rng.normal(size=size)
    step, gain = bowl_over(as_rows(X), bends, 1.0, 0.0, False).step(gradient)
    hessian = (X.T * bends) @ X
    np.testing.assert_allclose(step, -np.linalg.solve(hessian, gradient), rtol=1e-9)
    other, same = bowl_over(as_rows(X * units), bends, 1.0, 0.0, False).step(gradient * units)
    np.testing.assert_allclose(other * units, step, rtol=1e-7)
    assert same == pytest.approx(gain, rel=1e-9)


def test_columns_far_from_zero_are_centred():
    """Means of 1e8 times the spread leave nothing of a Hessian that is not centred."""
    rng = np.random.default_rng(0)
    X, bends, gradient = rng.normal(size=(200, 4)), rng.exponential(size=200), rng.normal(size=5)
    step, _ = bowl_over(as_rows(X), bends, 0.0, 1e-6, True).step(gradient)
    moved = X + 1e8
    there = np.append(gradient[:4] + 1e8 * gradient[4], gradient[4])
    other, _ = bowl_over(as_rows(moved), bends, 0.0, 1e-6, True).step(there)
    np.testing.assert_allclose(other[:4], step[:4], rtol=1e-5)


@pytest.mark.parametrize("value", [1.0, 0.0, 1e-160, 1e150, 1e200])
def test_singular_systems_have_a_finite_step_or_none(value):
    X = np.full((5, 3), value)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        step, gain = bowl_over(as_rows(X), np.ones(5), 5.0, 0.0, True).step(np.ones(4))
    assert np.isfinite(step).all() or not 0.0 < gain < np.inf


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


@pytest.mark.parametrize("worth", [0, WORTH])
def test_a_sample_of_all_rows_is_all_rows(worth, monkeypatch):
    """With many entries, every eighth row leads."""
    monkeypatch.setattr(newton_run, "WORTH", worth)
    monkeypatch.setitem(globals(), "WORTH", worth)
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


def test_a_hessian_takes_over_where_turns_are_not_enough(monkeypatch):
    """Rows of many columns whose units differ by 1e4, nearly without a penalty."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 20)) @ rng.normal(size=(20, 40)) * np.geomspace(1, 1e4, 40)
    X += 1e-3 * rng.normal(size=X.shape)
    it = Logistic(X, rng.uniform(size=400) < 0.5, alpha=1e-8)
    monkeypatch.setattr(newton_sample, "WIDE", 40)
    monkeypatch.setattr(newton_sample, "DIRECT", 0)
    ends = []
    for turns in (100, 3, 4):
        monkeypatch.setattr(newton_sample, "ALONE", turns)
        monkeypatch.setattr(newton_sample, "WIDEST", 39 if turns == 4 else 4096)
        everything = Sample(it.model.rows, it.model, slice(None), np.full(400, 1 / 400))
        ends.append((everything.descend(np.zeros(40), tolerance=1e-8), everything.direct))
    assert [direct for _, direct in ends] == [False, True, False]
    values = [end.value for end, _ in ends]
    assert values[1] == pytest.approx(values[0], abs=1e-6)
    run = Newton(tol=1e-6).minimize(it, rounds=100)
    assert run.rounds < 10
