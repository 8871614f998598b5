import re

import numpy as np
import pytest

pytest.importorskip("sklearn")

from scipy import sparse
from sklearn import config_context, linear_model
from sklearn.base import clone
from sklearn.datasets import make_regression
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold, TimeSeriesSplit

import tombola
from tombola.estimators import ElasticNet, ElasticNetCV, Lasso, LassoCV, enet_path, lasso_path
from tombola.samplers.registry import UNGROUPED

N, D = 80, 12


def data():
    X, y = make_regression(N, D, n_informative=4, noise=5.0, bias=30.0, random_state=0)
    return X + np.arange(D) / 4, y / 20.0


@pytest.mark.parametrize("sampler", [*UNGROUPED, "cyclic"])
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
    assert model.fit(wide, y).n_iter_ == 0 < first
    assert model.coef_ == pytest.approx(at, abs=1e-9)
    with pytest.raises(ValueError, match="warm_start needs"):
        model.fit(X[:, :3], y)
    for wrong in (Lasso(-1.0), ElasticNet(0.1, l1_ratio=1.1), Lasso(sampler="greedy")):
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
    with pytest.raises(ValueError, match=r"alphas\[1\] must be finite and not negative, got -1.0"):
        lasso_path(X, y, alphas=[0.1, -1.0])
    with pytest.raises(ValueError, match="eps must be above 0 and at most 1, got 2"):
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
        ({"alphas": [1.0, -1.0]}, r"alphas\[1\] must be finite"),
        ({"eps": 1.5}, "eps must be above 0 and at most 1"),
        ({"tol": -1.0}, "tol must be finite and not negative"),
        ({"max_iter": 0}, "max_iter"),
    ],
)
def test_a_path_refuses_what_it_cannot_use(settings, message):
    with pytest.raises(ValueError, match=message):
        lasso_path(*data(), **settings)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csc_array])
@pytest.mark.parametrize("alpha", [0.0, 5e-324])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
def test_no_penalty_is_least_squares(convert, alpha, fit_intercept):
    """Half of the least number is 0, too."""
    X, y = data()
    weights = np.random.default_rng(0).uniform(0.0, 2.0, N)
    model = ElasticNet(alpha, fit_intercept=fit_intercept).fit(convert(X), y, weights)
    peer = linear_model.LinearRegression(fit_intercept=fit_intercept).fit(X, y, weights)
    assert model.coef_ == pytest.approx(peer.coef_, abs=1e-9)
    assert model.intercept_ == pytest.approx(peer.intercept_, abs=1e-9)
    assert 0.0 <= model.dual_gap_ < 1e-12
    assert model.n_iter_ == 1


@pytest.mark.parametrize("convert", [np.asarray, sparse.csc_array])
@pytest.mark.parametrize("shape", [(80, 12), (20, 300)])
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
def test_l1_ratio_0_is_ridge(convert, shape, positive):
    rng = np.random.default_rng(0)
    X = rng.normal(size=shape) + rng.normal(size=(shape[0], 1)) + 1.0
    y, weights = X[:, 0] - X[:, 1] + rng.normal(size=shape[0]), rng.uniform(0.1, 2.0, shape[0])
    model = ElasticNet(0.2, l1_ratio=0.0, positive=positive, tol=1e-12).fit(convert(X), y, weights)
    peer = linear_model.Ridge(0.2 * weights.sum(), positive=positive, tol=1e-12)
    peer.fit(X, y, weights)
    assert model.coef_ == pytest.approx(peer.coef_, abs=1e-4 if positive else 1e-9)
    assert 0.0 <= model.dual_gap_ <= 1e-12 * y.var() * 2.0


def test_several_columns_of_y():
    X, y = data()
    several = np.column_stack([y, X[:, 0] - y, np.ones(N)])
    model = ElasticNet(0.1, tol=1e-10, random_state=0, warm_start=True).fit(X, several)
    for k, column in enumerate(several.T):
        alone = ElasticNet(0.1, tol=1e-10, random_state=0).fit(X, column)
        assert model.coef_[k] == pytest.approx(alone.coef_, abs=1e-9)
        assert model.intercept_[k] == pytest.approx(alone.intercept_)
        assert model.predict(X)[:, k] == pytest.approx(alone.predict(X))
    assert model.dual_gap_.shape == model.n_iter_.shape == (3,)
    assert (model.sparse_coef_.toarray() == model.coef_).all()
    assert (model.fit(X, several).n_iter_ == 0).all()
    with pytest.raises(ValueError, match=r"coef_ has shape \(3, 12\), got 12 columns of X and 1"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="y must be one column"):
        LassoCV().fit(X, several)
    column = Lasso(0.1).fit(X, y[:, None])
    assert column.coef_.shape == (D,)
    assert column.predict(X).shape == (N,)


@pytest.mark.parametrize(
    "model", [Lasso(0.1), Lasso(0.0), ElasticNet(0.1), LassoCV(alphas=12), ElasticNetCV(alphas=3)]
)
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_float32_in_float32_out(model, convert):
    X, y = data()
    X, y = X.astype(np.float32), y.astype(np.float32)
    model.fit(convert(X), y)
    assert model.coef_.dtype == model.predict(convert(X)).dtype == np.float32
    exact = clone(model).fit(convert(X.astype(np.float64)), y)
    assert exact.predict(X.astype(np.float64)).dtype == np.float64
    assert model.coef_ == pytest.approx(exact.coef_, abs=1e-3)
    assert lasso_path(convert(X), y, alphas=3)[1].dtype == np.float32


def test_what_cannot_change_the_result():
    X, y = data()
    before = X.copy()
    plain = ElasticNet(0.1, random_state=0).fit(X, y)
    other = ElasticNet(
        0.1, random_state=0, precompute=X.T @ X, copy_X=False, selection="random"
    ).fit(X, y)
    assert (plain.coef_ == other.coef_).all()
    assert (before == X).all()
    paths = [
        enet_path(X, y, alphas=3, precompute=True, Xy=X.T @ y),
        ElasticNet.path(X, y, alphas=3),
    ]
    assert (paths[0][1] == paths[1][1]).all()
    for wrong in ({"precompute": "yes"}, {"selection": "vrb"}, {"copy_X": 2}):
        with pytest.raises(ValueError, match="parameter of"):
            ElasticNet(**wrong).fit(X, y)


def test_a_start_that_the_user_has_set():
    X, y = data()
    best = Lasso(0.1, tol=1e-10, random_state=0).fit(X, y)
    model = Lasso(0.1, warm_start=True, tol=1e-8)
    model.coef_ = list(best.coef_)
    assert model.fit(X, y).n_iter_ == 0
    assert model.coef_ == pytest.approx(best.coef_)
    assert model.intercept_ == pytest.approx(best.intercept_)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csc_array])
@pytest.mark.parametrize("kind", [Lasso, ElasticNet, LassoCV, ElasticNetCV])
def test_overflow_is_an_error_that_names_the_cause(kind, convert):
    X, y = data()
    for scale in (1e160, 1e200):
        for model in (kind(), kind(warm_start=True) if kind in (Lasso, ElasticNet) else kind()):
            with pytest.raises(ValueError, match=r"\bX\b"):
                model.fit(convert(scale * X), y)
            with pytest.raises(ValueError, match=r"\by\b"):
                model.fit(convert(X), scale * y)
            assert not hasattr(model, "coef_")
    if kind is ElasticNet:
        with pytest.raises(ValueError, match=r"\bX\b"):
            ElasticNet(0.1, l1_ratio=0.0).fit(convert(1e200 * X), y)


def test_a_path_that_stops_early_warns():
    y, rng = data()[1], np.random.default_rng(0)
    wide = rng.normal(size=(N, 500)) + rng.normal(size=(N, 1))
    with pytest.warns(
        ConvergenceWarning, match=r"enet_path has .* of 12 fits \(max_iter=1 rounds\)"
    ):
        rounds = lasso_path(wide, y, alphas=12, max_iter=1, tol=1e-12, return_n_iter=True)[3]
    assert (rounds == 1).all()
    for model in (LassoCV, ElasticNetCV):
        with pytest.warns(ConvergenceWarning, match=r"CV has not converged in \d+ of 61 fits"):
            found = model(alphas=12, max_iter=1, tol=1e-12).fit(wide, y)
        assert found.n_iter_ == 1


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("shape", [(80, 12), (30, 60)])
@pytest.mark.parametrize("given", [False, True])
def test_cross_validation_of_the_share(convert, shape, given):
    rng = np.random.default_rng(0)
    X = rng.normal(size=shape) + rng.normal(size=(shape[0], 1)) + 2.0
    y = X[:, :3] @ [1.0, -1.0, 0.5] + 0.3 * rng.normal(size=shape[0])
    alphas = [0.3, 0.01, 0.1] * 4 if given else 12
    settings = {"l1_ratio": [0.3, 1.0], "alphas": alphas, "cv": 4}
    model = ElasticNetCV(**settings, tol=1e-10, random_state=0).fit(convert(X), y)
    peer = linear_model.ElasticNetCV(**settings, tol=1e-13, max_iter=10**5).fit(X, y)
    assert model.alphas_ == pytest.approx(peer.alphas_, rel=1e-10)
    assert model.mse_path_ == pytest.approx(peer.mse_path_, rel=1e-4)
    assert (model.alpha_, model.l1_ratio_) == pytest.approx((peer.alpha_, peer.l1_ratio_))
    assert model.coef_ == pytest.approx(peer.coef_, abs=1e-4)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_fold_that_is_left_out_may_be_anything():
    """Products without a fold are a difference: if it would cancel, they are computed."""
    X, y = data()
    huge = X.copy()
    huge[:16] *= 1e9
    y[:16] *= 1e9
    folds = [(np.arange(16, N), np.arange(8)), (np.tile(np.arange(20, N), 2), np.arange(20))]
    found = LassoCV(alphas=[1.0, 0.1] * 6, cv=folds, tol=1e-10, random_state=0).fit(huge, y)
    for k, (train, test) in enumerate(folds):
        alone = Lasso(0.1, tol=1e-10).fit(huge[train], y[train])
        error = ((alone.predict(huge[test]) - y[test]) ** 2).mean()
        assert found.mse_path_[-1, k] == pytest.approx(error, rel=1e-6)


def test_groups_go_to_the_splitter():
    X, y = data()
    groups = np.arange(N) % 4
    with pytest.raises(ValueError, match="enable_metadata_routing=True"):
        LassoCV(cv=GroupKFold(4)).fit(X, y, groups=groups)
    with config_context(enable_metadata_routing=True):
        model = LassoCV(alphas=5, cv=GroupKFold(4)).fit(X, y, groups=groups)
    splits = list(GroupKFold(4).split(X, y, groups))
    assert model.mse_path_ == pytest.approx(LassoCV(alphas=5, cv=splits).fit(X, y).mse_path_)


def test_a_fold_without_weight_is_refused():
    weights = np.ones(N)
    weights[16:32] = 0.0
    with pytest.raises(ValueError, match="sample_weight is 0 for all rows that fold 1 leaves out"):
        LassoCV(cv=5).fit(*data(), sample_weight=weights)


def test_lines_of_a_path(capsys):
    X, y = data()
    lasso_path(X, y, alphas=3, verbose=1)
    LassoCV(alphas=3, cv=2, verbose=1).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 9
    assert all(re.match(r"alpha .*: duality gap .*, \d+ rounds", line) for line in lines)


def test_words_of_scikit_learn_that_are_others_here():
    with pytest.raises(TypeError, match="no parameter n_alphas, got n_alphas=3: use alphas"):
        LassoCV(n_alphas=3)
    with pytest.raises(TypeError, match="enet_path has no parameter n_alphas"):
        lasso_path(*data(), n_alphas=3)
    with pytest.raises(TypeError, match="enet_path has no parameter fit_intercept"):
        lasso_path(*data(), fit_intercept=True)
    with pytest.raises(ValueError, match="alphas must be given for l1_ratio=0"):
        ElasticNetCV(l1_ratio=[0.5, 0.0]).fit(*data())
    with pytest.raises(ValueError, match=r"l1_ratio\[1\] must be from 0 to 1, got 2.0"):
        ElasticNetCV(l1_ratio=[0.5, 2.0]).fit(*data())
    with pytest.raises(TypeError, match=r"alphas\[1\] must be a number, got '1'"):
        LassoCV(alphas=[1.0, "1"]).fit(*data())
