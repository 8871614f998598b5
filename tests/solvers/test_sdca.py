"""SDCA finds the optimum of others: every loss, kind of rows, with intercept and weights."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.linear_model import ElasticNet, LogisticRegression, Ridge
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR

import tombola
from penalties import elastic
from players import Outside, ours
from tombola import Latest
from tombola.problems import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    KMeans,
    LeastSquares,
    Logistic,
    Softmax,
    SquaredHinge,
)
from tombola.solvers import SDCA
from tombola.solvers.gap import best_constant

N, D, L2, ROUNDS = 150, 6, 0.02, 200_000
KINDS = {
    "Logistic": Logistic,
    "LeastSquares": LeastSquares,
    "SquaredHinge": SquaredHinge,
    "Huber": Huber,
    "Hinge": Hinge,
    "EpsilonInsensitive": EpsilonInsensitive,
}
REGRESSIONS = ("LeastSquares", "Huber", "EpsilonInsensitive")


def data(kind, seed=0):
    """Rows off the origin, a tenth of them long, and a class of about a fifth."""
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(N, D)) + 0.7) * (rng.uniform(size=(N, D)) < 0.7)
    X *= np.where(np.arange(N) % 10 == 0, 4.0, 1.0)[:, None]
    signal = X @ rng.normal(size=D) - 1.0 + rng.logistic(size=N)
    y = signal if kind in REGRESSIONS else signal > np.quantile(signal, 0.8)
    return X, y, rng.integers(0, 4, size=N).astype(float)


def by_scipy(problem):
    found = minimize(
        problem.value,
        np.zeros(problem.shape),
        jac=problem.gradient,
        method="L-BFGS-B",
        options={"gtol": 1e-11, "ftol": 1e-16, "maxiter": 20_000, "maxfun": 50_000},
    )
    return found.fun


def least(kind, problem, X, y, weights, intercept):
    """The minimum, from scikit-learn or scipy."""
    C = 1 / (L2 * N) if weights is None else N / weights.sum() / (L2 * N)
    if kind in ("SquaredHinge", "Huber"):
        return by_scipy(problem)
    if kind == "Logistic":
        peer = LogisticRegression(C=C, tol=1e-12, max_iter=100_000, fit_intercept=intercept)
    elif kind == "LeastSquares":
        alpha = L2 * (N if weights is None else weights.sum())
        peer = Ridge(alpha, tol=1e-14, fit_intercept=intercept)
    elif kind == "Hinge":
        peer = (
            SVC(kernel="linear", C=C, tol=1e-10)
            if intercept
            else LinearSVC(C=C, loss="hinge", fit_intercept=False, tol=1e-10, max_iter=10**7)
        )
    else:
        peer = (
            SVR(kernel="linear", C=C, epsilon=0.1, tol=1e-10)
            if intercept
            else LinearSVR(C=C, epsilon=0.1, fit_intercept=False, tol=1e-10, max_iter=10**7)
        )
    peer.fit(X, y, sample_weight=weights)
    return problem.value(np.append(peer.coef_, peer.intercept_ if intercept else []))


FORMS = {"dense": np.asarray, "CSR": sp.csr_array}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(
    ("kind", "form"),
    [
        *((kind, "dense") for kind in KINDS),
        ("Logistic", "CSR"),
        ("Hinge", "CSR"),
        *(  # each compiles for long
            pytest.param(kind, "CSR", marks=pytest.mark.slow)
            for kind in ("LeastSquares", "SquaredHinge", "Huber", "EpsilonInsensitive")
        ),
    ],
)
def test_the_optimum_of_others(kind, form, intercept, weighted):
    X, y, weights = data(kind)
    weights = weights if weighted else None
    problem = KINDS[kind](
        FORMS[form](X), y, alpha=L2, fit_intercept=intercept, sample_weight=weights
    )
    minimum = least(kind, problem, X, y, weights, intercept)
    solver = SDCA(tol=1e-8)
    result = solver.minimize(problem, rounds=ROUNDS)
    assert result.rounds < ROUNDS
    value, gap = problem.value(result.solution), solver.gap(problem, result)
    assert value == pytest.approx(minimum, rel=1e-6)
    # the certificate is at least the true distance, up to the rounding of the reference
    zero = best_constant(problem)[1]
    assert value - minimum <= gap * zero + 1e-12
    assert gap <= 1e-8


@pytest.mark.parametrize("form", ["dense", pytest.param("CSR", marks=pytest.mark.slow)])
def test_rows_of_float32(form):
    X, y, _ = data("Logistic")
    X = X.astype(np.float32)
    solver, found = SDCA(tol=1e-9), []
    for rows in (FORMS[form](X), X.astype(np.float64)):
        problem = Logistic(rows, y, alpha=L2, fit_intercept=True)
        found.append(problem.value(solver.minimize(problem, rounds=ROUNDS).solution))
    assert found[0] == pytest.approx(found[1], rel=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_whole_weights_are_repeated_rows(kind):
    X, y, weights = data(kind)
    times = weights.astype(int)
    rows = np.repeat(np.arange(N), times)
    values = []
    repeated = KINDS[kind](X[rows], np.asarray(y)[rows], alpha=L2, fit_intercept=True)
    for problem in (
        KINDS[kind](X, y, alpha=L2, fit_intercept=True, sample_weight=7.0 * times),
        repeated,
    ):
        result = SDCA(tol=1e-9).minimize(problem, rounds=ROUNDS)
        values.append(repeated.value(result.solution))
    assert values[0] == pytest.approx(values[1], rel=1e-7)


def test_rows_of_weight_zero_are_never_drawn():
    X, y, weights = data("Logistic")
    X[weights == 0] = np.nan_to_num(np.inf)  # a step on one of them would overflow
    problem = Logistic(X, y, alpha=L2, sample_weight=weights)
    solver = SDCA()
    drawn = solver._default_sampler(problem)
    assert (drawn.draw(10 * N).indices != np.flatnonzero(weights == 0)[:, None]).all()
    assert (drawn.probabilities()[weights == 0] == 0).all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("intercept", [False, True])
def test_elastic_net(intercept, form):
    X, y, _ = data("LeastSquares")
    l1, l2 = 1.2, 0.05
    problem = LeastSquares(FORMS[form](X), y, **elastic(l1, l2), fit_intercept=intercept)
    peer = ElasticNet(
        alpha=l1 + l2,
        l1_ratio=l1 / (l1 + l2),
        tol=1e-14,
        max_iter=10**6,
        fit_intercept=intercept,
    ).fit(X, y)
    minimum = problem.value(np.append(peer.coef_, peer.intercept_ if intercept else []))
    result = SDCA(tol=1e-9).minimize(problem, rounds=ROUNDS)
    assert problem.value(result.solution) == pytest.approx(minimum, rel=1e-8)
    np.testing.assert_array_equal(result.solution[:D] == 0, peer.coef_ == 0)
    assert (peer.coef_ == 0).any()


@pytest.mark.parametrize("intercept", [False, True])
def test_elastic_net_of_a_classifier(intercept):
    X, y, _ = data("Logistic")
    l1, l2 = 0.01, 0.02
    problem = Logistic(X, y, **elastic(l1, l2), fit_intercept=intercept)
    peer = LogisticRegression(
        C=1 / (N * (l1 + l2)),
        l1_ratio=l1 / (l1 + l2),
        solver="saga",
        tol=1e-10,
        max_iter=10**5,
        fit_intercept=intercept,
    ).fit(X, y)
    minimum = problem.value(np.append(peer.coef_, peer.intercept_ if intercept else []))
    result = SDCA(tol=1e-9).minimize(problem, rounds=ROUNDS)
    assert problem.value(result.solution) == pytest.approx(minimum, rel=1e-7)


SAMPLERS = {**ours(N, largest=30.0, horizon=20_000), "Latest": lambda seed: Latest(N, seed=seed)}


@pytest.mark.parametrize("name", SAMPLERS)
def test_any_sampler_leads_to_the_same_place(name):
    """Called from Python: the compiled loop does the same, see test_fused.py."""
    X, y, _ = data("Logistic")
    problem = Logistic(X, y, alpha=L2, fit_intercept=True)
    minimum = by_scipy(problem)
    sampler = SAMPLERS[name](1)
    solver = SDCA(tol=1e-6, batch_size=1 if name == "FTRL" else 16)
    result = solver.minimize(problem, sampler=Outside(sampler), rounds=20_000)
    assert result.rounds < 20_000
    assert problem.value(result.solution) == pytest.approx(minimum, rel=1e-5)


@pytest.mark.parametrize("kind", ["Logistic", "EpsilonInsensitive"])
def test_a_start_near_the_optimum_saves_work(kind):
    X, y, _ = data(kind)
    problem = KINDS[kind](X, y, alpha=L2, fit_intercept=True)
    solver = SDCA(tol=1e-4)
    cold = solver.minimize(problem, rounds=ROUNDS)
    near = SDCA(tol=1e-9).minimize(problem, rounds=ROUNDS).solution
    warm = solver.minimize(problem, rounds=ROUNDS, start=near)
    assert warm.item_gradients < cold.item_gradients
    assert problem.value(warm.solution) <= problem.value(near) * (1 + 1e-4)
    far = solver.minimize(problem, rounds=ROUNDS, start=100.0 * near)
    assert far.rounds < ROUNDS


def test_a_start_saves_work_where_columns_are_far_from_zero():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 10))
    y = X @ rng.normal(size=10) + rng.normal(size=300)
    problem = LeastSquares(X + 1e4, y, alpha=1e-2, fit_intercept=True)
    near, cold = (SDCA(tol=tol).minimize(problem, rounds=ROUNDS) for tol in (1e-3, 1e-4))
    warm = SDCA(tol=1e-4).minimize(problem, rounds=ROUNDS, start=near.solution)
    assert warm.item_gradients <= cold.item_gradients


def test_what_cannot_be_minimised_is_named():
    X, y, _ = data("Logistic")
    for problem in (Softmax(X, y.astype(int), alpha=0.1), KMeans(X, 3), "a problem"):
        with pytest.raises(TypeError, match="SDCA minimises linear models with a dual"):
            SDCA().minimize(problem, rounds=1)
    for options in ({}, {"alpha": 0.1, "l1_ratio": 1.0}):
        with pytest.raises(ValueError, match="needs a problem with l2 > 0"):
            SDCA().minimize(Logistic(X, y, **options), rounds=1)
    with pytest.raises(ValueError, match="tol must be finite"):
        SDCA(tol=-1.0)
    with pytest.raises(TypeError, match="tol must be a number"):
        SDCA(tol="1")
    with pytest.raises(TypeError, match="bounded second derivative"):
        tombola.solvers.SAGA().minimize(Hinge(X, y, alpha=0.1), rounds=1)


@pytest.mark.parametrize("intercept", [False, True])
def test_one_row_one_class_and_rows_of_zeros(intercept):
    for X, y in [
        ([[2.0]], [1]),
        (np.ones((20, 2)), np.ones(20)),
        (np.zeros((9, 2)), [0, 1, 1] * 3),
    ]:
        for kind in (Logistic, Hinge):
            problem = kind(X, y, alpha=0.1, fit_intercept=intercept)
            result = SDCA(tol=1e-6).minimize(problem, rounds=2000)
            assert np.isfinite(result.solution).all()
            minimum = min(by_scipy(problem), problem.value(None))
            assert problem.value(result.solution) <= minimum + 1e-3


def test_the_seed_decides():
    X, y, _ = data("Logistic")
    problem = Logistic(X, y, alpha=L2, fit_intercept=True)
    found = [SDCA(seed=seed).minimize(problem, rounds=37).solution for seed in (1, 1, 2)]
    np.testing.assert_array_equal(found[0], found[1])
    assert (found[0] != found[2]).any()


def test_visits_are_counted():
    X, y, _ = data("Logistic")
    problem = Logistic(X, y, alpha=L2)
    result = SDCA(batch_size=5).minimize(problem, rounds=30)
    assert result.item_gradients == 150 + 150  # and a pass, after N/2 draws
    assert result.state["parts"]["progress"]["passes"] == 1
    assert result.rounds == 30
    assert math.isnan(result.trace.variance_ratio.mean()) if len(result.trace) else True
