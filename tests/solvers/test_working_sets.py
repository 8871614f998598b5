"""Working sets: against scikit-learn, coordinate descent, and the duality gap computed apart."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import ElasticNet, LogisticRegression

import tombola
from tombola.problems import Hinge, Huber, LeastSquares, Logistic, SquaredHinge
from tombola.solvers import CoordinateDescent, WorkingSets
from tombola.solvers.gap import Penalty, duality_gap, unit_of
from tombola.solvers.lasso import rounds as lasso_rounds
from tombola.solvers.lasso.rounds import best_bound, may_matter

N, D = 60, 300


def data(kind="dense"):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)) + 0.5 * rng.normal(size=(N, 1)) + 0.3
    if kind == "sparse":
        X[rng.random((N, D)) < 0.7] = 0.0
    y = X[:, :5] @ [3.0, -2.0, 1.0, 1.0, 2.0] + rng.normal(size=N)
    return (sparse.csr_array(X) if kind == "sparse" else X), y


@pytest.fixture(params=["matrix", "columns"])
def way(request, monkeypatch):
    """Both ways to minimise the model of a working set."""
    if request.param == "columns":
        monkeypatch.setattr(lasso_rounds, "LIMIT", 0)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("ratio", [1.0, 0.5])
@pytest.mark.parametrize("intercept", [False, True])
def test_least_squares(kind, ratio, intercept, way):
    X, y = data(kind)
    weights = np.random.default_rng(1).integers(0, 3, N).astype(float)
    problem = LeastSquares(
        X, y, alpha=0.1, l1_ratio=ratio, sample_weight=weights, fit_intercept=intercept
    )
    result = WorkingSets(tol=1e-9).minimize(problem)
    assert result.gap <= 1e-9
    assert duality_gap(problem, result.solution) <= 2e-9 * unit_of(problem)
    peer = ElasticNet(alpha=0.1, l1_ratio=ratio, fit_intercept=intercept, tol=1e-12, max_iter=10**6)
    peer.fit(X, y, sample_weight=weights)
    assert result.solution[:D] == pytest.approx(peer.coef_, abs=1e-3)
    if intercept:
        assert result.solution[D] == pytest.approx(peer.intercept_, abs=1e-3)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("ratio", [1.0, 0.5])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.filterwarnings("ignore:The max_iter was reached")  # by the peer
def test_logistic(kind, ratio, intercept, way):
    X, y = data(kind)
    problem = Logistic(X, y > 1, alpha=0.02, l1_ratio=ratio, fit_intercept=intercept)
    result = WorkingSets(tol=1e-9).minimize(problem)
    assert result.gap <= 1e-9
    assert duality_gap(problem, result.solution) <= 2e-9 * unit_of(problem)
    peer = LogisticRegression(
        C=1 / (0.02 * N), l1_ratio=ratio, solver="saga", fit_intercept=intercept,
        tol=1e-5, max_iter=10**4,
    )  # fmt: skip
    peer.fit(X.toarray() if kind == "sparse" else X, y > 1)
    at = np.append(peer.coef_, peer.intercept_) if intercept else peer.coef_[0]
    excess = (problem.value(at) - problem.value(result.solution)) / unit_of(problem)
    assert -1e-9 <= excess <= 1e-4  # of saga


@pytest.mark.parametrize("kind", [Huber, SquaredHinge])
def test_other_losses(kind):
    X, y = data()
    y = y if kind is Huber else y > 1
    problem = kind(X, y, alpha=0.1, l1_ratio=1.0, fit_intercept=True)
    result = WorkingSets(tol=1e-8).minimize(problem)
    assert result.gap <= 1e-8
    assert duality_gap(problem, result.solution) <= 2e-8 * unit_of(problem)


@pytest.mark.parametrize("sampler", ["auto", "shuffle", "vrb", "uniform", "cyclic"])
def test_draws_do_not_change_the_optimum(sampler, way):
    X, y = data()
    problem = LeastSquares(X, y, alpha=0.1, l1_ratio=1.0)
    result = WorkingSets(tol=1e-10, sampler=sampler, seed=3).minimize(problem)
    plain = CoordinateDescent().minimize(problem, rounds=1000 * D)
    assert result.gap <= 1e-10
    assert result.solution == pytest.approx(plain.solution, abs=1e-4)
    again = WorkingSets(tol=1e-10, sampler=sampler, seed=3).minimize(problem)
    assert (again.solution == result.solution).all()


def test_the_gap_bounds_the_distance():
    X, y = data()
    for problem in (
        LeastSquares(X, y, alpha=0.05, l1_ratio=1.0, fit_intercept=True),
        Logistic(X, y > 1, alpha=0.01, l1_ratio=0.7, fit_intercept=True),
    ):
        least = problem.value(WorkingSets(tol=1e-12).minimize(problem).solution)
        for rounds in range(4):
            result = WorkingSets(tol=0).minimize(problem, rounds=rounds)
            away = (problem.value(result.solution) - least) / unit_of(problem)
            assert result.rounds == rounds
            assert -1e-11 <= away <= result.gap


def test_screening_is_safe_and_a_smaller_sphere_is_not():
    """Dual points on the way to the optimum keep its support; spheres a tenth the size do not."""
    rng = np.random.default_rng(5)
    dropped = kept_columns = 0
    for seed in range(30):
        X, y = rng.normal(size=(20, 40)), rng.normal(size=20)
        problem = LeastSquares(X, y, alpha=0.1, l1_ratio=1.0)
        best = WorkingSets(tol=1e-12).minimize(problem).solution
        support, penalty = best != 0, Penalty(0.1, 0.0)
        w = best + rng.normal(size=40) * 10.0 ** rng.uniform(-4, -1)
        duals = y - X @ w
        u, lengths = X.T @ duals / 20, np.sqrt((X**2).mean(axis=0))
        bound = best_bound(problem.model, duals, u, w, penalty)
        near = problem.value(w) - bound.value
        kept = may_matter(bound.factor * u, lengths, near, 1.0, penalty)
        wrong = may_matter(bound.factor * u, lengths, near, 1e-2, penalty)
        assert kept[support].all(), seed
        kept_columns += kept.sum()
        dropped += not wrong[support].all()
    assert dropped > 3
    assert kept_columns < 30 * 40  # it does screen


def test_screening_leaves_columns_out(monkeypatch):
    X, y = data("sparse")
    seen = []
    dot = lasso_rounds.WorkingRun.correlate
    monkeypatch.setattr(
        lasso_rounds.WorkingRun,
        "correlate",
        lambda self, duals, among: seen.append(among.size) or dot(self, duals, among),
    )
    WorkingSets(tol=0).minimize(LeastSquares(X, y, alpha=0.1, l1_ratio=1.0), rounds=4)
    assert seen[0] == D > seen[-1]


def test_starts():
    X, y = data()
    problem = Logistic(X, y > 1, alpha=0.02, l1_ratio=1.0, fit_intercept=True)
    first = WorkingSets(tol=1e-8).minimize(problem)
    again = WorkingSets(tol=1e-8).minimize(problem, start=first.solution)
    assert again.rounds == 0
    assert again.solution == pytest.approx(first.solution, abs=1e-12)
    far = np.random.default_rng(0).normal(size=D + 1) * 30  # where curvatures vanish
    result = WorkingSets(tol=1e-8).minimize(problem, start=far)
    assert result.gap <= 1e-8


@pytest.mark.parametrize("alpha", [1e-4, 1e-2])
def test_hostile_columns(alpha):
    """Copies, constants, zeros, large means, many scales, more columns than rows."""
    X, y = data()
    X = X.copy()
    X[:, 10:20] = X[:, :10]
    X[:, 20], X[:, 21] = 0.0, 7.0
    X[:, 22:30] += 1e4
    X[:, 30:60] *= np.logspace(-4, 4, 30)
    problem = LeastSquares(X, y, alpha=alpha, l1_ratio=1.0, fit_intercept=True)
    result = WorkingSets(tol=1e-6).minimize(problem)
    assert result.gap <= 1e-6
    assert (result.solution[[20, 21]] == 0).all()
    constant = LeastSquares(X, np.full(N, 3.0), alpha=alpha, l1_ratio=1.0, fit_intercept=True)
    assert (WorkingSets().minimize(constant).solution[:D] == 0).all()


def test_errors():
    X, y = data()
    with pytest.raises(TypeError, match="WorkingSets minimises linear models with a smooth loss"):
        WorkingSets().minimize(Hinge(X, y > 0, alpha=0.1, l1_ratio=1.0))
    with pytest.raises(ValueError, match=r"alpha=0\.1 and l1_ratio=0"):
        WorkingSets().minimize(LeastSquares(X, y, alpha=0.1))
    with pytest.raises(ValueError, match="tol must be finite"):
        WorkingSets(tol=-1)
    problem = LeastSquares(X, y, alpha=0.1, l1_ratio=1.0)
    with pytest.raises(ValueError, match="'greedy' is not a sampler"):
        WorkingSets(sampler="greedy").minimize(problem)
    with pytest.raises(TypeError, match="must be a compiled sampler"):
        WorkingSets(sampler=lambda n, seed, groups: tombola.samplers.FTRL(n, bound=1.0)).minimize(
            problem
        )
    assert repr(WorkingSets(tol=0.1)) == "WorkingSets(tol=0.1, sampler='auto', seed=0)"


def test_curvatures_of_a_sample_are_unbiased():
    """Means over 4,000 samples are those of all rows, within 5 standard errors; others are not."""
    h = np.random.default_rng(0).uniform(size=50) ** 2
    h[:3] = 0.0, 5.0, 4.0
    rate, samples = 12 / h.sum(), []
    for seed in range(4000):
        kept = h.copy()
        lasso_rounds.keep_some(kept, rate, tombola.random.Stream(seed).words(50))
        samples.append(kept)
    means = np.mean(samples, axis=0)
    errors = h * np.sqrt(np.maximum(1 / (rate * h.clip(1e-9)) - 1, 0) / 4000)
    assert kept[0] == 0.0
    assert (means[1:3] == h[1:3]).all()  # certain to be kept
    assert (abs(means - h)[3:] <= 5 * errors[3:]).all()
    assert (abs(means - 1.1 * h)[3:] > 5 * errors[3:]).any()


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("intercept", [False, True])
def test_models_of_samples_reach_the_same_minimum(kind, intercept, monkeypatch):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(3000, 20)) * (rng.random((3000, 20)) < 0.4)
    y = X @ rng.normal(size=20) + rng.normal(size=3000) > 0.5
    rows = sparse.csr_array(X) if kind == "sparse" else X
    problem = Logistic(rows, y, alpha=0.01, l1_ratio=1.0, fit_intercept=intercept)
    monkeypatch.setattr(lasso_rounds, "LEAST", 10**9)
    exact = WorkingSets(tol=1e-10).minimize(problem)
    monkeypatch.setattr(lasso_rounds, "LEAST", 200)
    monkeypatch.setattr(lasso_rounds, "PER_COLUMN", 5)
    found = [WorkingSets(tol=1e-10, seed=seed).minimize(problem) for seed in (1, 1, 2)]
    for result in found:
        assert result.gap <= 1e-10
        assert duality_gap(problem, result.solution) <= 2e-10 * unit_of(problem)
        assert result.solution == pytest.approx(exact.solution, abs=1e-4)
    assert (found[0].solution == found[1].solution).all()
    assert (found[0].solution != found[2].solution).any()
