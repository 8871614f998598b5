"""Newton finds the optimum of others: every smooth loss, kind of rows, intercept and weights."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression, Ridge

import tombola
from players import Outside, ours
from tombola import Latest
from tombola.problems import (
    Hinge,
    Huber,
    KMeans,
    LeastSquares,
    LinearProblem,
    Logistic,
    SquaredHinge,
)
from tombola.problems.linear import Linear
from tombola.solvers import Newton
from tombola.solvers.gap import best_constant
from tombola.solvers.newton import sample as newton_sample
from tombola.solvers.newton.sample import Bowls

N, D, M, L2 = 900, 6, 140, 0.01
KINDS = {
    "Logistic": Logistic,
    "LeastSquares": LeastSquares,
    "SquaredHinge": SquaredHinge,
    "Huber": Huber,
}
REGRESSIONS = ("LeastSquares", "Huber")
FORMS = {"dense": np.asarray, "CSR": sp.csr_array}


def data(kind, seed=0):
    """Rows off the origin, a tenth of them long, and a class of about a fifth."""
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(N, D)) + 0.7) * (rng.uniform(size=(N, D)) < 0.7)
    X *= np.where(np.arange(N) % 10 == 0, 4.0, 1.0)[:, None]
    signal = X @ rng.normal(size=D) - 1.0 + rng.logistic(size=N)
    y = signal if kind in REGRESSIONS else signal > np.quantile(signal, 0.8)
    return X, y, rng.integers(0, 4, size=N).astype(float)


def least(kind, problem, X, y, weights, intercept):
    """The minimum, from scikit-learn or scipy."""
    total = N if weights is None else weights.sum()
    if kind == "Logistic":
        peer = LogisticRegression(
            C=1 / (L2 * total), tol=1e-12, max_iter=100_000, fit_intercept=intercept
        )
    elif kind == "LeastSquares":
        peer = Ridge(L2 * total, tol=1e-14, fit_intercept=intercept)
    else:
        options = {"gtol": 1e-11, "ftol": 1e-16, "maxiter": 20_000, "maxfun": 50_000}
        start, jac = np.zeros(problem.shape), problem.gradient
        return minimize(problem.value, start, jac=jac, method="L-BFGS-B", options=options).fun
    peer.fit(X, y, sample_weight=weights)
    return problem.value(np.append(peer.coef_, peer.intercept_ if intercept else []))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(
    ("kind", "form"),
    [
        ("Logistic", "dense"),
        ("LeastSquares", "dense"),
        ("Logistic", "CSR"),
        pytest.param("SquaredHinge", "dense", marks=pytest.mark.slow),  # each compiles for long
        pytest.param("Huber", "dense", marks=pytest.mark.slow),
        pytest.param("Huber", "CSR", marks=pytest.mark.slow),
    ],
)
def test_the_optimum_of_others(kind, form, intercept, weighted):
    X, y, weights = data(kind)
    weights = weights if weighted else None
    options = {"alpha": L2, "fit_intercept": intercept, "sample_weight": weights}
    problem = KINDS[kind](FORMS[form](X), y, **options)
    minimum = least(kind, problem, X, y, weights, intercept)
    solver = Newton(tol=1e-8, sample_size=M)
    result = solver.minimize(problem, rounds=60)
    assert result.rounds < 60
    value, gap = problem.value(result.solution), solver.gap(problem, result)
    assert value == pytest.approx(minimum, rel=1e-6)
    # the certificate is at least the true distance, up to the rounding of the reference
    assert value - minimum <= gap * best_constant(problem)[1] + 1e-12
    assert gap <= 1e-8


@pytest.mark.parametrize("alpha", [1e-6, L2])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_gaps_of_fits_on_all_rows(kind, intercept, alpha):
    """Never below the truth, and the slopes at any inner products prove a bound from below."""
    X, y, weights = data(kind)
    it = KINDS[kind](X, y, alpha=alpha, fit_intercept=intercept, sample_weight=weights)
    best = Newton(tol=1e-12, sample_size=it.n).minimize(it, rounds=60)
    lowest, zero = it.value(best.solution), best_constant(it)[1]
    for tol in 10.0 ** -np.arange(1, 9):
        solver = Newton(tol=tol, sample_size=it.n)
        result = solver.minimize(it, rounds=60)
        gap = solver.gap(it, result) * zero
        assert it.value(result.solution) - lowest - 1e-13 * zero <= gap <= tol * zero
    rng, run = np.random.default_rng(0), Newton()._begin(it, best.solution)
    z = run.all_rows().products(run.point)
    for size in 10.0 ** np.arange(-8, 2):
        noise = size * rng.normal(size=z.shape)
        assert run.proved(run.all_rows(), z + noise) <= lowest + 1e-12 * zero


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_steps_by_conjugate_gradients(kind, form, monkeypatch):
    """On many rows of many columns: as with the whole Hessian, and gaps are true."""
    rng, n, d = np.random.default_rng(0), 3000, 24
    X = (rng.normal(size=(n, d)) + 0.3) * (rng.uniform(size=(n, d)) < 0.5)
    X *= 10.0 ** rng.uniform(-2, 2, size=d)
    weights = rng.integers(0, 3, size=n).astype(float)
    X[weights == 0] *= 1e100  # rows that count nothing
    signal = X @ (rng.normal(size=d) / np.abs(X[weights > 0]).mean(axis=0)) + rng.logistic(size=n)
    usual = np.quantile(signal[weights > 0], 0.9)
    y = signal if kind in REGRESSIONS else signal > usual
    it = KINDS[kind](
        FORMS[form](X), np.where(weights > 0, y, 0), alpha=1 / n, fit_intercept=True,
        sample_weight=weights,
    )  # fmt: skip
    turns, step = [], Bowls.step
    monkeypatch.setattr(newton_sample, "DIRECT", 0)
    monkeypatch.setattr(
        Bowls, "step", lambda bowls, *given: (step(bowls, *given), turns.append(bowls.turns))[0]
    )
    solvers = [Newton(tol=tol, sample_size=n) for tol in (1e-2, 1e-4, 1e-6, 1e-10)]
    found = [solver.minimize(it, rounds=60) for solver in solvers]
    assert 1 < np.mean(turns) < 20
    monkeypatch.setattr(newton_sample, "TALL", np.inf)
    turns.clear()
    best = Newton(tol=1e-12, sample_size=n).minimize(it, rounds=60)
    assert not turns
    lowest, zero = it.value(best.solution), best_constant(it)[1]
    for solver, result in zip(solvers, found, strict=True):
        gap = solver.gap(it, result) * zero
        assert it.value(result.solution) - lowest - 1e-12 * zero <= gap <= solver.tol * zero


def test_sparse_rows_are_dense_rows():
    X, y, weights = data("Logistic")
    found = [
        Newton(seed=3, sample_size=M).minimize(
            Logistic(make(X), y, alpha=L2, fit_intercept=True, sample_weight=weights), rounds=3
        )
        for make in FORMS.values()
    ]
    np.testing.assert_allclose(found[0].solution, found[1].solution, rtol=1e-9)
    assert found[0].item_gradients == found[1].item_gradients


def test_rows_of_float32():
    X, y, _ = data("Logistic")
    X = X.astype(np.float32)
    found = []
    for rows in (X, X.astype(np.float64)):
        problem = Logistic(rows, y, alpha=L2, fit_intercept=True)
        found.append(Newton(sample_size=M).minimize(problem, rounds=3).solution)
    np.testing.assert_allclose(*found, rtol=1e-8)


@pytest.mark.parametrize(
    "kind",
    [
        "Logistic",
        "LeastSquares",
        pytest.param("SquaredHinge", marks=pytest.mark.slow),
        pytest.param("Huber", marks=pytest.mark.slow),
    ],
)
def test_whole_weights_are_repeated_rows(kind):
    X, y, weights = data(kind)
    times = weights.astype(int)
    rows = np.repeat(np.arange(N), times)
    repeated = KINDS[kind](X[rows], np.asarray(y)[rows], alpha=L2, fit_intercept=True)
    weighted = KINDS[kind](X, y, alpha=L2, fit_intercept=True, sample_weight=7.0 * times)
    values = [
        repeated.value(Newton(tol=1e-9, sample_size=M).minimize(problem, rounds=60).solution)
        for problem in (weighted, repeated)
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-7)


@pytest.mark.parametrize("sample_size", [M, N])
def test_rows_of_weight_zero_are_as_if_they_were_not_there(sample_size, monkeypatch):
    X, y, weights = data("Logistic")
    solver = Newton(sample_size=sample_size)
    clean = Logistic(X, y, alpha=L2, sample_weight=weights)
    X = X.copy()
    X[weights == 0] = np.finfo(float).max  # to visit one of them would overflow
    with np.errstate(over="ignore"):
        problem = Logistic(X, y, alpha=L2, sample_weight=weights)
    sampler = solver._default_sampler(problem)
    run = solver._begin(problem, None, sampler)
    drawn = sampler.draw(10 * N)
    assert not np.isin(drawn.indices, np.flatnonzero(weights == 0)).any()
    assert (sampler.probabilities()[weights == 0] == 0).all()
    assert np.isfinite(run.survey.reaches).all()
    solutions = []
    for each in (clean, problem):
        monkeypatch.setattr(tombola.solvers.base, "fingerprint", lambda problem: "one")
        monkeypatch.setattr(Newton, "_solution", lambda solver, problem, run: run.w[0].copy())
        solutions.append(solver.minimize(each, rounds=3).solution)
    np.testing.assert_array_equal(*solutions)


SAMPLERS = {
    **{
        name: make
        for name, make in ours(N, largest=0.05, horizon=20_000).items()
        if name in ("Uniform", "Shuffle", "Static", "VRB", "GroupVRB", "FTRL")
    },
    "Latest": lambda seed: Latest(N, seed=seed),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_any_sampler_leads_to_the_same_place(name):
    X, y, _ = data("Logistic")
    problem = Logistic(X, y, alpha=L2, fit_intercept=True)
    minimum = least("Logistic", problem, X, y, None, True)
    sampler = SAMPLERS[name](1)
    if name != "FTRL":
        sampler = Outside(sampler)
    result = Newton(tol=1e-6, sample_size=M).minimize(problem, sampler=sampler, rounds=60)
    assert result.rounds < 60
    assert problem.value(result.solution) == pytest.approx(minimum, rel=1e-5)


def test_full_information_takes_no_further_pass():
    X, y, _ = data("Logistic")
    problem = Logistic(X, y, alpha=L2, fit_intercept=True)
    solver = Newton(sample_size=M)
    result = solver.minimize(problem, sampler=SAMPLERS["FTRL"](1), rounds=4)
    passes, m = result.state["parts"]["progress"]["passes"], solver._rows_drawn(problem)
    assert passes == 3
    # what is left are steps on samples and, in the first round, on an eighth of one
    left, eighth = result.item_gradients - passes * N, m // 8
    assert left in {a * m + b * eighth for a in range(20) for b in range(9)}
    assert left + N not in {a * m + b * eighth for a in range(20) for b in range(9)}


def test_starts():
    X, y, _ = data("Logistic")
    problem = Logistic(X, y, alpha=L2, fit_intercept=True)
    solver = Newton(tol=1e-6, sample_size=M)
    best = Newton(tol=1e-10).minimize(problem, rounds=60).solution
    there = solver.minimize(problem, rounds=60, start=best)
    assert there.rounds == 0  # a pass tells that it is good enough
    assert there.item_gradients == N
    np.testing.assert_array_equal(there.solution, best)
    for factor in (0.9, -1.0, 1e3, 1e8):
        far = solver.minimize(problem, rounds=100, start=factor * best)
        assert far.rounds < 100
        assert problem.value(far.solution) == pytest.approx(problem.value(best), rel=1e-5)
    unseen = solver.minimize(problem, rounds=0, start=0.9 * best)
    np.testing.assert_array_equal(unseen.solution, 0.9 * best)
    with pytest.raises(ValueError, match="a solution has shape"):
        solver.minimize(problem, rounds=1, start=np.zeros(3))


class LogCoshModel(Linear):
    """log(cosh(z - y)), with what Newton needs of it."""

    def slopes(self, item, z, out):
        residual = abs(z[0] - self.targets[item])
        out[0] = np.tanh(z[0] - self.targets[item])
        return residual + np.log1p(np.exp(-2.0 * residual)) - np.log(2.0)

    def slope(self, item, z):
        return np.tanh(z - self.targets[item])

    def curve(self, item, z):
        return 1.0 - np.tanh(z - self.targets[item]) ** 2

    def ascend(self, item, a, z, q):
        return a


class LogCosh(LinearProblem):
    model_class = LogCoshModel
    curvature = 1.0


@pytest.mark.slow
def test_a_loss_of_your_own():
    X, y, _ = data("Huber")
    problem = LogCosh(X, y, alpha=L2, fit_intercept=True)
    minimum = least("LogCosh", problem, X, y, None, True)
    solver = Newton(tol=1e-8)
    result = solver.minimize(problem, rounds=60)
    assert result.rounds < 60
    assert problem.value(result.solution) == pytest.approx(minimum, rel=1e-8)


def test_what_cannot_be_minimised_is_named():
    X, y, _ = data("Logistic")
    problems = [KMeans(X, 3), Hinge(X, y, alpha=0.1), "one"]
    for problem in problems:
        with pytest.raises(TypeError, match="Newton minimises linear models with a smooth loss"):
            Newton().minimize(problem, rounds=1)
    for options in ({"alpha": 0.1, "l1_ratio": 1.0}, {"alpha": 0.1, "l1_ratio": 0.1}):
        with pytest.raises(ValueError, match=r"l1 = 0.*got alpha="):
            Newton().minimize(Logistic(X, y, **options), rounds=1)
    for tol in (-1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match="tol must be"):
            Newton(tol=tol)
    with pytest.raises(TypeError, match="tol must be a number"):
        Newton(tol="1")
    with pytest.raises(ValueError, match=r"sample_size must be.* 1"):
        Newton(sample_size=1)
    with pytest.raises(TypeError, match="sample_size must be"):
        Newton(sample_size=10.5)


def test_the_seed_decides():
    X, y, _ = data("Logistic")
    problem = Logistic(X, y, alpha=L2, fit_intercept=True)
    solvers = [Newton(seed=seed, sample_size=M) for seed in (1, 1, 2)]
    found = [solver.minimize(problem, rounds=2).solution for solver in solvers]
    np.testing.assert_array_equal(found[0], found[1])
    assert (found[0] != found[2]).any()


def test_sizes_of_samples():
    def rows(n, d, **options):
        problem = Logistic(np.zeros((n, d)), np.arange(n) % 2, alpha=1.0, fit_intercept=True)
        return Newton(**options)._rows_drawn(problem)

    assert rows(50_000, 9) == 2000
    assert rows(100_000, 199) == 4000
    assert rows(300_000, 1) == 300_000 // 64
    assert rows(33_000, 9) == 2000
    assert rows(10_000, 9) == 10_000  # a Hessian of all of them costs little
    assert rows(16_000, 9) == 16_000
    assert rows(31_000, 9) == 31_000  # a sample would be more than a 16th of them
    assert rows(60_000, 199) == 60_000
    assert rows(300, 9) == 300
    assert rows(1, 1) == 2
    assert rows(300, 9, sample_size=50) == 50
    assert rows(300, 9, sample_size=5000) == 300


@pytest.mark.parametrize("kind", ["Logistic", "LeastSquares"])
def test_many_columns_take_no_hessian(kind, monkeypatch):
    """Few rows of many columns in their own units: steps by conjugate gradients, to the optimum."""
    rng = np.random.default_rng(0)
    d = newton_sample.WIDE
    X = rng.normal(size=(700, d)) * 10.0 ** rng.uniform(-3, 3, size=d) + 1.0
    y = X[:, 0] / X[:, 0].std() + rng.normal(size=700)
    it = KINDS[kind](X, y if kind in REGRESSIONS else y > 1.0, alpha=1 / 700, fit_intercept=True)
    direct = Newton(tol=1e-10, sample_size=700)
    with monkeypatch.context() as patch:
        patch.setattr(newton_sample, "WIDE", d + 1)
        minimum = it.value(direct.minimize(it, rounds=40).solution)
    monkeypatch.setattr(newton_sample, "bowl_over", None)  # a Hessian would be an error
    solver = Newton(tol=1e-6, sample_size=700)
    result = solver.minimize(it, rounds=40)
    gap = solver.gap(it, result)
    assert gap <= 1e-6
    assert it.value(result.solution) - minimum <= gap * best_constant(it)[1] + 1e-12
