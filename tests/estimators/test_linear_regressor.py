import numpy as np
import pytest

pytest.importorskip("sklearn")

from scipy import sparse
from sklearn.datasets import make_regression
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ElasticNet, Ridge
from sklearn.preprocessing import StandardScaler

import tombola
from tombola.estimators import LinearRegressor
from tombola.problems import LeastSquares

N = 120


def data():
    X, y = make_regression(N, 6, n_informative=4, noise=20.0, bias=30.0, random_state=0)
    return StandardScaler().fit_transform(X), y / 50.0


@pytest.mark.parametrize("solver", ["saga", "svrg"])
@pytest.mark.parametrize("sampler", ["auto", "uniform"])
def test_elastic_net(solver, sampler):
    X, y = data()
    model = LinearRegressor(
        alpha=0.1,
        l1_ratio=0.5,
        solver=solver,
        sampler=sampler,
        max_iter=3000,
        tol=1e-11,
        random_state=0,
    ).fit(X, y)
    reference = ElasticNet(alpha=0.1, l1_ratio=0.5, tol=1e-10).fit(X, y)
    assert model.coef_ == pytest.approx(reference.coef_, abs=1e-5)
    assert model.intercept_ == pytest.approx(reference.intercept_, abs=1e-5)


@pytest.mark.parametrize("solver", ["adagrad", "sgd"])
def test_the_others_come_near(solver):
    X, y = data()
    model = LinearRegressor(alpha=0.05, solver=solver, max_iter=500, tol=None, random_state=0)
    model.fit(X, y)
    reference = Ridge(alpha=0.05 * N).fit(X, y)
    problem = LeastSquares(X, y, alpha=0.05, fit_intercept=True)
    values = [problem.value(np.append(m.coef_, m.intercept_)) for m in (model, reference)]
    assert values[0] < values[1] * 1.05


def test_sample_weights_are_repeated_rows():
    X, y = data()
    times = np.random.default_rng(1).integers(0, 4, N)
    settings = dict(alpha=1e-2, solver="saga", max_iter=5000, tol=1e-12, random_state=0)
    weighted = LinearRegressor(**settings).fit(X, y, sample_weight=times)
    repeated = LinearRegressor(**settings).fit(X.repeat(times, axis=0), y.repeat(times))
    assert weighted.coef_ == pytest.approx(repeated.coef_, abs=1e-6)
    reference = Ridge(alpha=1e-2 * times.sum()).fit(X, y, sample_weight=times)
    assert weighted.coef_ == pytest.approx(reference.coef_, abs=1e-5)


def test_sparse_is_dense():
    X, y = data()
    X[np.abs(X) < 0.7] = 0.0
    settings = dict(random_state=3, tol=None, max_iter=5, alpha=1.1e-3, l1_ratio=0.9)
    dense = LinearRegressor(**settings).fit(X, y)
    model = LinearRegressor(**settings).fit(sparse.csr_array(X), y)
    assert model.coef_ == pytest.approx(dense.coef_, rel=1e-6)
    assert model.predict(sparse.csr_array(X)) == pytest.approx(dense.predict(X), rel=1e-6)


def test_partial_fit_and_warm_start():
    X, y = data()
    model = LinearRegressor(alpha=1e-3, solver="adagrad", random_state=0).partial_fit(
        X[:50], y[:50]
    )
    model.partial_fit(X[50:], y[50:])
    assert model.t_ == N
    assert model._past[0].carried["rounds"] == N
    warm = LinearRegressor(random_state=0, warm_start=True, tol=None, max_iter=5).fit(X, y)
    score = warm.score(X, y)
    assert warm.fit(X, y).score(X, y) > score - 1e-3
    with pytest.raises(ValueError, match="warm_start needs"):
        warm.fit(X[:, :3], y)


def test_samplers_and_attributes(capsys):
    X, y = data()
    model = LinearRegressor(sampler=tombola.Shuffle(N), max_iter=2, tol=None, verbose=1).fit(X, y)
    assert model.gauge_.mode == "shuffle"
    assert model.coef_.shape == (6,)
    assert np.ndim(model.intercept_) == 0
    assert capsys.readouterr().out.count("epoch") == 2
    free = LinearRegressor(fit_intercept=False, max_iter=2, tol=None).fit(X, y)
    assert free.intercept_ == 0.0
    with pytest.raises(ValueError, match="'sampler' parameter"):
        LinearRegressor(sampler="balanced").fit(X, y)
    with pytest.warns(ConvergenceWarning):
        LinearRegressor(solver="sdca", max_iter=1).fit(X, y)
