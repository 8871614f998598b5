"""What users of scikit-learn's linear models rely on."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.linear_model import LinearRegression, LogisticRegression

from tombola.estimators import LinearClassifier, LinearRegressor

RNG = np.random.default_rng(5)
X = RNG.normal(size=(300, 5)) * [1.0, 5.0, 0.1, 1.0, 1.0] + [0.0, 9.0, 0.0, 0.0, 0.0]
Z = X @ [1.0, 0.4, 0.0, 0.0, -1.0] + RNG.logistic(size=300) - 3.6
LABELS = {2: Z > 0, 3: np.digitize(Z, [-1.0, 1.0])}


# --- no penalty -----------------------------------------------------------------------------------


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_matrix])
def test_least_squares_without_a_penalty(convert):
    weights = RNG.random(300)
    ours = LinearRegressor(alpha=0, tol=1e-10).fit(convert(X), Z, weights)
    theirs = LinearRegression().fit(X, Z, weights)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-8)
    assert ours.intercept_ == pytest.approx(theirs.intercept_)
    assert (ours.solver_, np.isnan(ours.dual_gap_), ours.n_iter_) == ("newton", True, 1)


def test_more_columns_than_rows_are_fitted_exactly():
    model = LinearRegressor(alpha=0).fit(X[:4], Z[:4])
    np.testing.assert_allclose(model.predict(X[:4]), Z[:4], atol=1e-8)


@pytest.mark.parametrize("classes", [2, 3])
def test_classes_without_a_penalty(classes):
    y = LABELS[classes]
    ours = LinearClassifier(alpha=0, tol=1e-10).fit(X, y)
    theirs = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-10).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("verbose", [0, 1])
def test_separated_classes_without_a_penalty_are_said_to_have_no_optimum(verbose):
    model = LinearClassifier(alpha=0, verbose=verbose)
    with pytest.warns(ConvergenceWarning, match=r"separates the classes.*Use alpha above 0"):
        model.fit(X, X[:, 0] > 0)
    assert np.isfinite(model.coef_).all()
    assert model.score(X, X[:, 0] > 0) == 1.0


# --- types and shapes -----------------------------------------------------------------------------


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("model", "y"),
    [
        (LinearClassifier(), LABELS[2]),
        (LinearClassifier(), LABELS[3]),
        (LinearClassifier("hinge"), LABELS[2]),
        (LinearClassifier(l1_ratio=1.0), LABELS[2]),
        (LinearRegressor(), Z),
        (LinearRegressor("huber", fit_intercept=False), Z),
    ],
)
def test_coefficients_and_predictions_have_the_type_of_rows(model, y, dtype, convert):
    rows = convert(X.astype(dtype))
    model.set_params(tol=1e-2, max_iter=1000).fit(rows, y)
    found = [model.coef_, model.intercept_]
    found.append(
        model.predict(rows) if isinstance(model, LinearRegressor) else model.decision_function(rows)
    )
    assert {each.dtype for each in found} == {np.dtype(dtype)}


@pytest.mark.parametrize(("kind", "y"), [(LinearClassifier, LABELS[2]), (LinearRegressor, Z)])
def test_a_column_of_targets_is_taken_with_a_warning(kind, y):
    with pytest.warns(DataConversionWarning, match="A column-vector y was passed"):
        column = kind().fit(X, y[:, None])
    np.testing.assert_array_equal(column.coef_, kind().fit(X, y).coef_)


def test_sparse_coefficients():
    for model, y in ((LinearClassifier(), LABELS[3]), (LinearRegressor(), Z)):
        model.fit(X, y)
        dense, coef = model.predict(X), model.coef_.copy()
        assert sp.issparse(model.sparsify().coef_)
        np.testing.assert_allclose(model.predict(X), dense)
        again = model.set_params(warm_start=True).fit(X, y)  # from sparse coefficients
        np.testing.assert_allclose(again.coef_, coef, rtol=1e-2, atol=1e-4)
        kept = again.coef_.copy()
        np.testing.assert_array_equal(again.sparsify().densify().coef_, kept, strict=True)


# --- going on -------------------------------------------------------------------------------------


def test_coefficients_that_were_set_are_the_start():
    reference = LinearClassifier(tol=1e-9).fit(X, LABELS[2])
    for there, one in ((reference.coef_, True), (np.zeros((1, 5)), False)):
        model = LinearClassifier(solver="sgd", rate=1e-12, max_iter=1, tol=None, warm_start=True)
        model.coef_, model.intercept_ = there.copy(), reference.intercept_.copy()
        model.fit(X, LABELS[2])  # hardly moves
        assert np.allclose(model.coef_, reference.coef_, atol=1e-6) == one
    model = LinearRegressor(warm_start=True)
    model.coef_ = np.zeros(4)
    with pytest.raises(ValueError, match="warm_start needs the number of columns"):
        model.fit(X, Z)


@pytest.mark.parametrize("solver", ["newton", "sdca", "saga", "svrg", "adagrad", "sgd"])
@pytest.mark.parametrize("max_iter", [1, 2, 7])
def test_no_more_iterations_than_were_allowed(solver, max_iter):
    model = LinearClassifier(solver=solver, max_iter=max_iter, tol=None, random_state=0)
    assert model.fit(X, LABELS[2]).n_iter_ == max_iter


# --- zeros ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["auto", "sgd"])
@pytest.mark.parametrize(
    "model",
    [LinearClassifier("hinge"), LinearClassifier("log_loss"), LinearRegressor("huber"),
     LinearRegressor("epsilon_insensitive"), LinearClassifier("squared_hinge")],
    ids=lambda model: model.loss,
)  # fmt: skip
def test_l1_gives_exact_zeros(model, solver):
    rows = np.c_[X[:, [0, 4]], RNG.normal(size=(300, 8))]
    y = LABELS[2] if isinstance(model, LinearClassifier) else Z
    alpha = 0.15 if model.loss == "squared_hinge" else 0.06
    model.set_params(alpha=alpha, l1_ratio=1.0, solver=solver, random_state=0).fit(rows, y)
    assert (model.coef_[..., 0] != 0).all()
    assert (model.coef_[..., 2:] == 0).mean() >= 0.75
