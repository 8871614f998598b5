"""The default penalty and `C` are those of scikit-learn."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression, Ridge

from tombola.estimators import LinearClassifier, LinearRegressor

RNG = np.random.default_rng(7)
X = RNG.normal(size=(200, 4)) * [1.0, 3.0, 0.2, 1.0]
Z = X @ [1.0, -0.5, 2.0, 0.0] + RNG.logistic(size=200) - 1.0
WEIGHTS = RNG.integers(0, 4, size=200) + 0.25
ONE_IN_N, SUM = 1.0 / 200, float(WEIGHTS.sum())


def assert_same(ours, theirs, rtol=1e-5):
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=rtol, atol=1e-7)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=rtol, atol=1e-7)


@pytest.mark.parametrize("C", [None, 0.1, 5.0])
@pytest.mark.parametrize("class_weight", [None, "balanced", {False: 1.0, True: 3.0}])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
def test_a_classifier_is_logistic_regression(weights, class_weight, C):
    given = {} if C is None else {"C": C}
    ours = LinearClassifier(tol=1e-11, class_weight=class_weight, **given)
    theirs = LogisticRegression(
        solver="newton-cholesky", tol=1e-10, class_weight=class_weight, **given
    )
    assert_same(ours.fit(X, Z > 0, weights), theirs.fit(X, Z > 0, weights))


def test_several_classes_share_a_problem():
    iris, species = load_iris(return_X_y=True)
    ours = LinearClassifier(tol=1e-11).fit(sp.csr_matrix(iris), species)
    theirs = LogisticRegression(tol=1e-10, max_iter=10_000).fit(iris, species)
    np.testing.assert_allclose(
        ours.coef_ - ours.coef_.mean(axis=0), theirs.coef_ - theirs.coef_.mean(axis=0), atol=1e-4
    )
    np.testing.assert_allclose(
        ours.predict_proba(iris), theirs.predict_proba(iris), rtol=1e-3, atol=1e-6
    )


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
def test_a_regressor_is_ridge(weights):
    theirs = Ridge(solver="cholesky").fit(X, Z, weights)
    assert_same(LinearRegressor(tol=1e-11).fit(X, Z, weights), theirs)
    theirs = Ridge(alpha=4.0, solver="cholesky").fit(X, Z, weights)
    assert_same(LinearRegressor(C=0.25, tol=1e-11).fit(X, Z, weights), theirs)


def test_a_weight_of_two_is_the_row_twice():
    twice = np.r_[np.arange(200), np.arange(50)]
    weights = np.r_[np.full(50, 2.0), np.ones(150)]
    for model, y in ((LinearClassifier(tol=1e-11), Z > 0), (LinearRegressor(tol=1e-11), Z)):
        repeated = model.fit(X[twice], y[twice]).coef_
        np.testing.assert_allclose(model.fit(X, y, weights).coef_, repeated, rtol=1e-5)
        wrong = type(model)(alpha=ONE_IN_N, tol=1e-11).fit(X, y, weights)  # n is the sum of weights
        assert np.abs(wrong.coef_ - repeated).max() > 1e-4 * np.abs(repeated).max()


@pytest.mark.parametrize(("kind", "y"), [(LinearClassifier, Z > 0), (LinearRegressor, Z)])
def test_alpha_and_c_are_one_penalty(kind, y):
    with pytest.raises(ValueError, match=r"alpha=0.1 and C=2.0 are two names"):
        kind(alpha=0.1, C=2.0).fit(X, y)
    with pytest.raises(ValueError, match="'C' parameter"):
        kind(C=0.0).fit(X, y)
    same = kind(C=2.0, tol=1e-11).fit(X, y).coef_
    np.testing.assert_allclose(kind(alpha=ONE_IN_N / 2, tol=1e-11).fit(X, y).coef_, same, rtol=1e-6)


@pytest.mark.parametrize("given", [{}, {"C": 1.0}])
def test_partial_fit_asks_for_alpha(given):
    classifier = LinearClassifier(solver="sgd", **given)
    with pytest.raises(ValueError, match="partial_fit needs alpha"):
        classifier.partial_fit(X, Z > 0, classes=[False, True])
    with pytest.raises(ValueError, match="partial_fit needs alpha"):
        LinearRegressor(solver="adagrad", **given).partial_fit(X, Z)
    assert not hasattr(classifier, "coef_")


def test_weights_of_zero_are_an_error_that_says_so():
    with pytest.raises(ValueError, match="at least one non-zero"):
        LinearRegressor().fit(X, Z, np.zeros(200))


@pytest.mark.parametrize("solver", ["adagrad", "sgd"])
def test_a_faint_l1_penalty_is_next_to_none(solver):
    """These solvers do not end at the minimum: a 0 may lower the objective by chance."""
    rng = np.random.default_rng(0)
    noisy = rng.normal(size=(300, 40))
    labels = noisy[:, 0] + rng.normal(size=300) > 0
    given = {"alpha": 1e-3, "solver": solver, "max_iter": 3, "tol": None, "random_state": 0}
    none, faint, some = (
        LinearClassifier(loss="hinge", l1_ratio=ratio, **given).fit(noisy, labels).coef_
        for ratio in (0.0, 1e-10, 0.5)
    )
    np.testing.assert_allclose(faint, none, atol=1e-8)
    assert (some == 0.0).any()
    assert (faint != 0.0).all()
