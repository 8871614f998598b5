import numpy as np
import pytest

pytest.importorskip("sklearn")

from scipy import sparse
from sklearn import linear_model
from sklearn.base import clone
from sklearn.datasets import make_regression
from sklearn.exceptions import ConvergenceWarning

import tombola
from tombola.estimators import Lasso

N, D = 80, 12


def data():
    X, y = make_regression(N, D, n_informative=4, noise=5.0, bias=30.0, random_state=0)
    return X + np.arange(D) / 4, y / 20.0


@pytest.mark.parametrize("sampler", Lasso.samplers)
@pytest.mark.parametrize(
    "penalty", [{"alpha": 0.1, "l1_ratio": 1.0}, {"alpha": 0.2, "l1_ratio": 0.5}]
)
def test_the_optimum(sampler, penalty):
    X, y = data()
    model = Lasso(**penalty, tol=1e-12, sampler=sampler, random_state=0).fit(X, y)
    reference = linear_model.ElasticNet(**penalty, tol=1e-12).fit(X, y)
    assert model.coef_ == pytest.approx(reference.coef_, abs=1e-5)
    assert model.intercept_ == pytest.approx(reference.intercept_, abs=1e-5)
    assert ((model.coef_ == 0) == (reference.coef_ == 0)).all()
    assert 0 <= model.dual_gap_ <= 1e-12 * y.var()
    assert model.predict(X) == pytest.approx(reference.predict(X), abs=1e-4)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_sparse_is_dense(fit_intercept):
    X, y = data()
    X[np.abs(X) < 0.7] = 0.0
    settings = dict(
        alpha=0.1, tol=1e-12, fit_intercept=fit_intercept, random_state=0, max_iter=9999
    )
    dense, model = Lasso(**settings).fit(X, y), Lasso(**settings).fit(sparse.csr_array(X), y)
    assert model.coef_ == pytest.approx(dense.coef_, abs=1e-5)
    assert model.intercept_ == pytest.approx(dense.intercept_, abs=1e-5)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_sample_weights_are_repeated_rows(convert):
    X, y = data()
    times = np.random.default_rng(1).integers(0, 4, N)
    settings = dict(alpha=0.1, tol=1e-12, random_state=0, max_iter=9999)
    weighted = Lasso(**settings).fit(convert(X), y, sample_weight=times)
    repeated = Lasso(**settings).fit(convert(X.repeat(times, axis=0)), y.repeat(times))
    assert weighted.coef_ == pytest.approx(repeated.coef_, abs=1e-5)
    assert weighted.intercept_ == pytest.approx(repeated.intercept_, abs=1e-5)
    with pytest.raises(ValueError, match=r"(?i)sample weights"):
        Lasso().fit(X, y, sample_weight=np.zeros(N))


def test_warm_start_warnings_and_lines(capsys):
    X, y = data()
    with pytest.warns(ConvergenceWarning, match="max_iter=1 epochs: the duality gap is"):
        Lasso(max_iter=1, tol=1e-12).fit(X, y)
    model = Lasso(0.1, warm_start=True, tol=1e-9, verbose=1, random_state=0).fit(X, y)
    assert capsys.readouterr().out.startswith("epoch 1: duality gap ")
    first = model.n_iter_
    assert model.fit(X, y).n_iter_ == 1 < first
    assert Lasso(0.1, warm_start=True).fit(sparse.csr_array(X), y).fit(X, y).n_iter_ == 1
    with pytest.raises(ValueError, match="warm_start needs"):
        model.fit(X[:, :3], y)
    with pytest.raises(ValueError, match="'alpha' parameter"):
        Lasso(0.0).fit(X, y)
    with pytest.raises(ValueError, match="'l1_ratio' parameter"):
        Lasso(0.1, l1_ratio=0.0).fit(X, y)


def test_sampler_objects_and_clones():
    X, y = data()
    sampler = tombola.VRB(D, seed=3)
    model = Lasso(sampler=sampler).fit(X, y)
    assert model.gauge_.count == model.n_iter_ * D
    assert sampler.gauge.count == 0
    assert (clone(model).fit(X, y).coef_ == model.coef_).all()
    with pytest.raises(ValueError, match="over 5 items, X has 12 coordinates"):
        Lasso(sampler=tombola.VRB(5)).fit(X, y)
