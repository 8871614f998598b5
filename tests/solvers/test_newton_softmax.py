"""Newton for softmax regression: the optimum of others, its parts, and its certificate."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from states import assert_same
from tombola.problems import Softmax
from tombola.solvers import Newton, Result
from tombola.solvers.gap import best_constant
from tombola.solvers.newton.sample import Basis, Sample

N, D, K, M, L2 = 900, 5, 4, 150, 1e-3
FORMS = {"dense": np.asarray, "float32": np.float32, "CSR": sp.csr_array}


def data(seed=0):
    """Rows off the origin, of columns in units from 1e-2 to 1e3; the last class is rare."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D)) + 0.7
    scores = X @ rng.normal(size=(D, K)) * 0.7 + [0.0, 0.5, 0.0, -3.0]
    y = (scores + rng.gumbel(size=(N, K))).argmax(axis=1)
    X = (X * [1.0, 1e-2, 1e3, 10.0, 1.0]).astype(np.float32)
    return X.astype(float), y, rng.integers(0, 4, size=N).astype(float)


def problem(form="dense", weighted=False, intercept=True, seed=0, alpha=L2):
    X, y, weights = data(seed)
    weights = weights if weighted else None
    X = FORMS[form](X)
    return Softmax(X, y, alpha=alpha, fit_intercept=intercept, sample_weight=weights)


@pytest.mark.parametrize("size", [M, N])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_the_optimum_of_others(form, intercept, weighted, size):
    it, (X, y, weights) = problem(form, weighted, intercept), data()
    total = weights.sum() if weighted else N
    peer = LogisticRegression(
        C=1 / (L2 * total), solver="newton-cholesky", tol=1e-12, max_iter=1000,
        fit_intercept=intercept,
    ).fit(X, y, sample_weight=weights if weighted else None)  # fmt: skip
    theirs = np.column_stack([peer.coef_, peer.intercept_]) if intercept else peer.coef_
    solver = Newton(tol=1e-8, sample_size=size)
    result = solver.minimize(it, rounds=60)
    assert result.rounds < 60
    value, minimum = it.value(result.solution), it.value(theirs)
    gap = solver.gap(it, result)
    assert gap <= 1e-8
    assert value == pytest.approx(minimum, rel=1e-6)
    assert value - minimum <= gap * best_constant(it)[1] + 1e-12 * value
    np.testing.assert_allclose(result.solution.sum(axis=0), 0.0, atol=1e-8)


def test_derivatives_are_those_of_the_kernels():
    it = problem(weighted=True)
    rng = np.random.default_rng(0)
    z = rng.normal(size=(N, K)) * 10.0 ** rng.integers(-3, 4, size=(N, 1))
    items = rng.integers(N, size=N)
    losses, slopes, chances = it.model.derivatives(items, z)
    for place, item in enumerate(items[:50]):
        out = np.empty(K)
        assert it.model.slopes(item, z[place], out) == pytest.approx(losses[place], rel=1e-13)
        np.testing.assert_allclose(slopes[place], out, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)


@pytest.mark.parametrize("form", ["dense", "CSR"])
@pytest.mark.parametrize("intercept", [False, True])
def test_products_with_the_hessian_and_steps(form, intercept):
    it = problem(form, intercept=intercept)
    rng = np.random.default_rng(1)
    items, factors = rng.integers(N, size=M), rng.exponential(size=M) / M
    sample = Sample.of(it.model, items, factors)
    units = np.append([1.0, 1e-2, 1e3, 10.0, 1.0], np.ones(int(intercept)))
    w = rng.normal(size=(K, D + intercept)) / units
    rows = np.column_stack([data()[0], np.ones(N)])[items, : D + intercept]

    def gradient(w):
        z = rows @ w.T
        p = np.exp(z - z.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        p[np.arange(M), it.model.targets[items].astype(int)] -= 1.0
        return (p.T * factors) @ rows + L2 * w * (np.arange(w.shape[1]) < D)

    _, slopes, chances = it.model.derivatives(items, sample.products(w))
    np.testing.assert_allclose(sample.gradient(w, slopes), gradient(w), rtol=1e-6, atol=1e-12)
    bowls = sample.bowl(chances)
    direction = rng.normal(size=w.shape) / units
    change = (gradient(w + 1e-5 * direction) - gradient(w - 1e-5 * direction)) / 2e-5
    np.testing.assert_allclose(bowls.times(direction), change, rtol=1e-4, atol=1e-6)
    given = gradient(w)
    step, gain = bowls.step(given)
    assert gain == pytest.approx(-np.vdot(given, step))
    left = given + bowls.times(step)
    sizes = np.sqrt(np.vdot(left, bowls.conditioned(left - left.mean(axis=0))))
    assert sizes <= 0.1 * np.sqrt(np.vdot(given, bowls.conditioned(given)))
    assert bowls.turns < 30


@pytest.mark.parametrize("form", FORMS)
def test_a_basis_is_uncorrelated_and_orthogonal_in_the_penalty(form):
    sample = Newton()._begin(problem(form, weighted=True), None).all_rows()
    basis = Basis.of(sample, K)
    u, penalty = basis.rows.values, L2 * basis.matrix.T @ basis.matrix
    np.testing.assert_allclose((u.T * basis.factors) @ u + penalty, np.eye(D), atol=1e-9)
    np.testing.assert_allclose(penalty, np.diag(basis.penalty), atol=1e-9)
    np.testing.assert_allclose(basis.factors @ u, 0.0, atol=1e-9)
    rows = (data()[0][basis.places] - basis.centre) @ basis.matrix
    np.testing.assert_allclose(u, rows, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("form", ["dense", "CSR"])
def test_columns_that_are_0_in_all_rows_of_a_basis(form):
    rng = np.random.default_rng(0)
    X, places = rng.normal(size=(3000, 20)), np.arange(3000)
    X[:, :10] *= 10.0 ** (np.arange(10) / 3) * (places[:, None] % 2 == 1)  # even ones are taken
    it = Softmax(FORMS[form](X), rng.integers(3, size=3000), alpha=1e-9, fit_intercept=True)
    sample = Newton()._begin(it, None).all_rows()
    _, slopes, chances = it.model.derivatives(slice(None), np.zeros((3000, 3)))
    bowls = sample.bowl(chances)
    assert (bowls.basis.places % 2 == 0).all()
    bowls.step(sample.gradient(np.zeros(it.shape), slopes))
    assert bowls.turns <= 3


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("form", ["dense", "CSR"])
def test_more_columns_than_a_basis_pays_for(form, intercept):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 200)) * (rng.uniform(size=(60, 200)) < 0.2)
    y = X[:, :3].argmax(axis=1)
    it = Softmax(FORMS[form](X), y, alpha=1e-2, fit_intercept=intercept)
    assert Basis.of(Newton()._begin(it, None).all_rows(), 3).matrix is None
    peer = LogisticRegression(C=1 / (60 * 1e-2), tol=1e-9, fit_intercept=intercept).fit(X, y)
    theirs = np.column_stack([peer.coef_, peer.intercept_]) if intercept else peer.coef_
    solver = Newton(tol=1e-8)
    result = solver.minimize(it, rounds=60)
    assert solver.gap(it, result) <= 1e-8
    assert it.value(result.solution) == pytest.approx(it.value(theirs), rel=1e-6)


def test_a_start_with_a_mean_over_classes():
    """No loss depends on that mean: the penalty alone moves it, to 0."""
    it = problem()
    start = np.full((K, D + 1), 3.0) / np.array([1.0, 1e-2, 1e3, 10.0, 1.0, 1.0])
    result = Newton(tol=1e-8).minimize(it, rounds=60, start=start)
    best = Newton(tol=1e-10).minimize(it, rounds=60)
    assert it.value(result.solution) == pytest.approx(it.value(best.solution), rel=1e-7)
    np.testing.assert_allclose(result.solution[:, :D].sum(axis=0), 0.0, atol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_never_below_the_true_distance(intercept, weighted):
    it = problem(weighted=weighted, intercept=intercept)
    best = Newton(tol=1e-11).minimize(it, rounds=60)
    lowest, zero = it.value(best.solution), best_constant(it)[1]
    solver, part, shares = Newton(sample_size=M, seed=1), None, []
    for rounds in range(8):
        part = solver.minimize(it, rounds=rounds, resume=part)
        distance, gap = it.value(part.solution) - lowest, solver.gap(it, part) * zero
        assert distance <= gap + 1e-14 * zero
        assert part.state["parts"]["bounds"]["dual"] <= lowest * (1 + 1e-12)
        shares.append(distance / gap)
    assert max(shares) > 0.01  # not much larger either, somewhere on the way


def test_slopes_at_any_inner_products_prove_a_bound_from_below():
    rng = np.random.default_rng(0)
    for intercept in (False, True):
        it = problem(weighted=True, intercept=intercept)
        best = Newton(tol=1e-11).minimize(it, rounds=60)
        lowest, run = it.value(best.solution), Newton()._begin(it, best.solution)
        sample, proved = run.all_rows(), []
        for size in 10.0 ** np.arange(-8, 2):
            z = sample.products(best.solution)
            proved.append(run.proved(sample, z + size * rng.normal(size=z.shape)))
        assert max(proved) <= lowest * (1 + 1e-12)
        assert lowest - proved[0] < 1e-9 * lowest
        assert lowest - proved[-1] > lowest


@pytest.mark.parametrize("alpha", [1e-5, L2])
def test_a_step_proves_how_close_its_end_is(alpha):
    """Far more than the slopes at its end do: one pass less, or several."""
    it = problem(alpha=alpha)
    best = Newton(tol=1e-11).minimize(it, rounds=60)
    lowest, zero = it.value(best.solution), best_constant(it)[1]
    for tol in 10.0 ** -np.arange(1, 8):
        solver = Newton(tol=tol)
        result = solver.minimize(it, rounds=60)
        distance, gap = it.value(result.solution) - lowest, solver.gap(it, result) * zero
        assert distance - 1e-13 * zero <= gap <= tol * zero
        at_its_end = Newton()._begin(it, result.solution).pass_over()[1]
        assert tol < 1e-6 or at_its_end < lowest - gap


def test_predictions_that_are_not_balanced_prove_nothing():
    """The best w for intercepts that are off: their dual value is above the minimum."""
    it = problem()
    best = Newton(tol=1e-10).minimize(it, rounds=60)
    lowest, off = it.value(best.solution), np.array([2.0, 0.0, 0.0, 0.0])
    w = best.solution + np.column_stack([np.zeros((K, D)), off])
    for _ in range(300):  # the best w for these intercepts, by steps of Newton's method for each
        run = Newton()._begin(it, w)
        run.pass_over()
        sample = run.all_rows()
        _, _, chances = it.model.derivatives(slice(None), sample.products(w))
        gradient = run.survey.gradient.copy()
        gradient[:, D] = 0.0
        sample.intercept = 0
        step, gain = Sample.bowl(sample, chances).step(gradient[:, :D])
        w[:, :D] += 0.5 * step
        if gain < 1e-20:
            break
    run = Newton()._begin(it, w)
    primal, dual = run.pass_over()
    assert dual <= lowest
    v = run.survey.gradient[:, :D]  # at the minimum for fixed intercepts it is 0
    assert np.abs(v).max() < 1e-6
    assert primal > lowest * 1.05  # P = D if the intercepts are fixed, which is above the minimum


@pytest.mark.parametrize("size", [M, N])
def test_resuming_round_by_round(size, tmp_path):
    it, solver = problem(), Newton(tol=1e-9, sample_size=size, seed=5)
    whole = solver.minimize(it, rounds=100)
    part, rounds = solver.minimize(it, rounds=0), 0
    while part.rounds == rounds:
        part.save(tmp_path / "run")
        rounds += 1
        part = solver.minimize(it, rounds=rounds, resume=Result.load(tmp_path / "run"))
    assert part.rounds == whole.rounds
    np.testing.assert_array_equal(part.solution, whole.solution)
    assert_same(part.state["parts"], whole.state["parts"])
    assert_same(part.state["sampler"], whole.state["sampler"])


def test_two_classes_are_logistic_regression():
    X, y, _ = data()
    it = Softmax(X, y == 1, alpha=2 * L2, fit_intercept=True)
    found = Newton(tol=1e-9).minimize(it, rounds=60)
    peer = LogisticRegression(C=1 / (L2 * N), solver="newton-cholesky", tol=1e-12).fit(X, y == 1)
    halves = np.append(peer.coef_[0], peer.intercept_) / 2
    assert it.value(found.solution) == pytest.approx(it.value([-halves, halves]), rel=1e-7)
