import numpy as np
import pytest

pytest.importorskip("sklearn")

from scipy import sparse
from sklearn import linear_model
from sklearn.base import clone
from sklearn.datasets import make_regression
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import TimeSeriesSplit

import tombola
from tombola.estimators import ElasticNet, Lasso, LassoCV, lasso_path

N, D = 80, 12


def data():
    X, y = make_regression(N, D, n_informative=4, noise=5.0, bias=30.0, random_state=0)
    return X + np.arange(D) / 4, y / 20.0


@pytest.mark.parametrize("sampler", Lasso.samplers)
@pytest.mark.parametrize("ratio", [1.0, 0.5])
@pytest.mark.parametrize("positive", [False, True])
def test_the_optimum(sampler, ratio, positive):
    X, y = data()
    settings = {"positive": positive, "tol": 1e-11}
    ours = {"sampler": sampler, "random_state": 0, **settings}
    model = Lasso(0.1, **ours) if ratio == 1.0 else ElasticNet(0.1, l1_ratio=ratio, **ours)
    model.fit(X, y)
    reference = linear_model.ElasticNet(alpha=0.1, l1_ratio=ratio, **settings).fit(X, y)
    assert model.coef_ == pytest.approx(reference.coef_, abs=1e-5)
    assert model.intercept_ == pytest.approx(reference.intercept_, abs=1e-5)
    assert ((model.coef_ == 0) == (reference.coef_ == 0)).all()
    assert not positive or (model.coef_ >= 0).all()
    assert 0 <= model.dual_gap_ <= 1e-11 * y.var()
    assert model.predict(X) == pytest.approx(reference.predict(X), abs=1e-4)


KINDS = {
    "columns": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=0)[::2],
    "csr": sparse.csr_array,
    "csc": sparse.csc_matrix,
    "coo": sparse.coo_array,
    "long indices": lambda X: _long(sparse.csc_array(X)),
    "read-only": lambda X: _read_only(X.copy()),
}


def _long(X):
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def _read_only(X):
    X.flags.writeable = False
    return X


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_data(kind, fit_intercept):
    X, y = data()
    X[np.abs(X) < 0.7] = 0.0
    settings = {"tol": 1e-11, "fit_intercept": fit_intercept, "random_state": 0}
    dense, model = Lasso(0.1, **settings).fit(X, y), Lasso(0.1, **settings)
    model.fit(KINDS[kind](X), y)
    assert model.coef_ == pytest.approx(dense.coef_, abs=1e-5)
    assert model.intercept_ == pytest.approx(dense.intercept_, abs=1e-5)


def test_float32_is_summed_in_float64():
    X, y = data()
    X = X.astype(np.float32)
    settings = {"tol": 1e-11, "random_state": 0}
    exact = Lasso(0.1, **settings).fit(X.astype(np.float64), y)
    for order in "CF":
        model = Lasso(0.1, **settings).fit(np.asarray(X, order=order), y)
        assert model.coef_ == pytest.approx(exact.coef_, abs=1e-5)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_sample_weights_are_repeated_rows(convert):
    X, y = data()
    times = np.random.default_rng(1).integers(0, 4, N)
    settings = {"tol": 1e-11, "random_state": 0}
    weighted = Lasso(0.1, **settings).fit(convert(X), y, sample_weight=times)
    repeated = Lasso(0.1, **settings).fit(convert(X.repeat(times, axis=0)), y.repeat(times))
    assert weighted.coef_ == pytest.approx(repeated.coef_, abs=1e-5)
    assert weighted.intercept_ == pytest.approx(repeated.intercept_, abs=1e-5)
    with pytest.raises(ValueError, match=r"(?i)sample weights"):
        Lasso().fit(X, y, sample_weight=np.zeros(N))


def test_warm_start_warnings_and_lines(capsys):
    X, y = data()
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(N, 500)) + rng.normal(size=(N, 1))
    with pytest.warns(ConvergenceWarning, match=r"\(max_iter=1 rounds\): the duality gap is"):
        Lasso(0.01, max_iter=1, tol=1e-9).fit(wide, y)
    with pytest.warns(ConvergenceWarning, match=r"\(rounding is the limit\)"):
        Lasso(0.1, tol=0).fit(X, y)
    model = Lasso(0.01, warm_start=True, tol=1e-9, verbose=1, random_state=0).fit(wide, y)
    assert capsys.readouterr().out.startswith("round 0: duality gap ")
    first, at = model.n_iter_, model.coef_
    assert model.fit(wide, y).n_iter_ == 1 < first
    assert model.coef_ == pytest.approx(at, abs=1e-9)
    with pytest.raises(ValueError, match="warm_start needs"):
        model.fit(X[:, :3], y)
    for wrong in (Lasso(0.0), ElasticNet(0.1, l1_ratio=0.0), Lasso(sampler="greedy")):
        with pytest.raises(ValueError, match="parameter of"):
            wrong.fit(X, y)


def test_same_seed_same_model():
    X, y = data()
    model = Lasso(0.1, sampler=lambda n, seed, groups: tombola.VRB(n, seed=seed), random_state=1)
    assert (clone(model).fit(X, y).coef_ == model.fit(X, y).coef_).all()


@pytest.mark.parametrize("convert", [np.asarray, np.asfortranarray, sparse.csr_array])
def test_paths(convert):
    X, y = data()
    X = convert(X)
    alphas, coefs, gaps, rounds = lasso_path(X, y, alphas=15, tol=1e-10, return_n_iter=True)
    peers = linear_model.lasso_path(X, y, alphas=15, tol=1e-11, max_iter=10**5)
    assert alphas == pytest.approx(peers[0], rel=1e-12)
    assert coefs == pytest.approx(peers[1], abs=1e-4)
    assert (gaps <= 1e-10 * (y**2).mean()).all()
    assert (rounds >= 1).all()
    again = lasso_path(X, y, alphas=alphas[[9, 3]], tol=1e-10)
    assert (again[0] == alphas[[3, 9]]).all()
    assert again[1] == pytest.approx(coefs[:, [3, 9]], abs=1e-4)
    least = lasso_path(X, y, alphas=5, tol=1e-10, positive=True)
    peers = linear_model.lasso_path(X, y, alphas=least[0], tol=1e-11, positive=True)
    assert least[1] == pytest.approx(peers[1], abs=1e-4)


def test_errors_of_paths():
    X, y = data()
    with pytest.raises(ValueError, match=r"alphas\[1\] is -1.0: it must be finite and above 0"):
        lasso_path(X, y, alphas=[0.1, -1.0])
    with pytest.raises(ValueError, match="eps must be above 0 and below 1, got 2"):
        lasso_path(X, y, eps=2)
    with pytest.raises(ValueError, match="a number or a list of them"):
        lasso_path(X, y, alphas=[])
    assert (lasso_path(X, np.zeros(N), alphas=3)[1] == 0).all()


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("cv", [3, TimeSeriesSplit(3)])
def test_cross_validation(convert, cv):
    X, y = data()
    X, weights = convert(X), np.random.default_rng(0).uniform(0.5, 2.0, N)
    model = LassoCV(alphas=12, cv=cv, tol=1e-10, random_state=0)
    peer = linear_model.LassoCV(alphas=12, cv=cv, tol=1e-11, max_iter=10**5)
    for given in (None, weights):
        model.fit(X, y, sample_weight=given)
        peer.fit(X, y, sample_weight=given)
        assert model.alphas_ == pytest.approx(peer.alphas_, rel=1e-10)
        assert model.mse_path_ == pytest.approx(peer.mse_path_, rel=1e-4)
        assert model.alpha_ == pytest.approx(peer.alpha_, rel=1e-10)
        assert model.coef_ == pytest.approx(peer.coef_, abs=1e-4)
        assert model.intercept_ == pytest.approx(peer.intercept_, abs=1e-4)
    threads = clone(model).set_params(n_jobs=2).fit(X, y, sample_weight=weights)
    assert (threads.coef_ == model.coef_).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alphas": 0}, "alphas"),
        ({"alphas": []}, "alphas must be a number or a list"),
        ({"alphas": [1.0, -1.0]}, r"alphas\[1\] is -1.0"),
        ({"eps": 1.0}, "eps must be above 0 and below 1"),
        ({"tol": -1.0}, "tol must be finite and not negative"),
        ({"max_iter": 0}, "max_iter"),
    ],
)
def test_a_path_refuses_what_it_cannot_use(settings, message):
    with pytest.raises(ValueError, match=message):
        lasso_path(*data(), **settings)


def test_a_penalty_that_underflows_to_none_is_least_squares():
    """Half of the least number is 0, and so are both parts of the penalty."""
    X = np.random.default_rng(0).standard_normal((30, 3))
    y = X @ [1.0, 2.0, 3.0] + 0.1 * np.sin(np.arange(30))
    with pytest.warns(ConvergenceWarning):  # no bound proves it
        model = ElasticNet(5e-324).fit(X, y)
    best = np.linalg.lstsq(X - X.mean(axis=0), y - y.mean(), rcond=None)[0]
    assert model.coef_ == pytest.approx(best)
