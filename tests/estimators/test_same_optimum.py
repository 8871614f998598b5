"""The optimum is that of scikit-learn, and certificates are never below the truth."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import SVC, SVR, LinearSVC

from tombola.estimators import LinearClassifier, LinearRegressor

N, ALPHA, NEAR = 150, 0.02, 1e-6
RNG = np.random.default_rng(11)
SCALED = RNG.normal(size=(N, 4)) * (RNG.random((N, 4)) < 0.6)
RAW = SCALED * [1e-3, 1.0, 50.0, 2e3] + [0.0, 3.0, 0.0, 0.0]
Z = SCALED @ [1.0, -1.0, 0.5, 2.0] + RNG.logistic(size=N)
WEIGHTS = RNG.integers(1, 5, size=N) / 2.0
LABELS = {"softmax": np.digitize(Z, [-1.0, 1.0]), "classes": Z > 0.3}


def huber(X, y, weights):
    """Return a callable that minimises the Huber loss; scikit-learn's also fits a scale."""
    share = weights / weights.sum()
    inner = np.std(X, axis=0) + 1e-300

    def value(v):
        w = v[:-1] / inner
        residual = X @ w + v[-1] - y
        slope = np.clip(residual, -1.35, 1.35)
        gradient = X.T @ (share * slope) + ALPHA * w
        loss = share @ (slope * (residual - slope / 2)) + ALPHA / 2 * w @ w
        return loss, np.append(gradient / inner, share @ slope)

    options = {"maxiter": 20_000, "maxfun": 50_000, "ftol": 1e-16, "gtol": 1e-13}
    begin = np.zeros(X.shape[1] + 1)
    found = minimize(value, begin, jac=True, method="L-BFGS-B", options=options)
    return found.x[None, :-1] / inner, found.x[-1:]


def theirs(loss, X, weights):
    """Return the coefficients and intercepts that scikit-learn finds."""
    C = 1.0 / (ALPHA * weights.sum())
    model = {
        "log_loss": LogisticRegression(C=C, solver="newton-cholesky", tol=1e-12, max_iter=1000),
        "softmax": LogisticRegression(C=C, solver="newton-cholesky", tol=1e-12, max_iter=1000),
        "squared_hinge": LinearSVC(C=C, dual=False, tol=1e-12, max_iter=10**6, fit_intercept=False),
        "hinge": SVC(C=C, kernel="linear", tol=1e-9),
        "squared_error": Ridge(1.0 / C, solver="cholesky"),
        "epsilon_insensitive": SVR(C=C, kernel="linear", tol=1e-9),
    }.get(loss)
    if model is None:
        return huber(X, Z, weights)
    y = LABELS.get(loss, LABELS["classes"] if "cl" in kind_of(loss) else Z)
    model.fit(X, y, sample_weight=weights)
    free = model.intercept_ if loss != "squared_hinge" else 0.0
    return np.atleast_2d(model.coef_), np.atleast_1d(free)


def kind_of(loss):
    return "class" if loss in ("log_loss", "softmax", "hinge", "squared_hinge") else "regression"


def ours(loss, **given):
    if kind_of(loss) == "regression":
        return LinearRegressor(loss, alpha=ALPHA, **given)
    several = {"multi_class": "softmax"} if loss == "softmax" else {}
    own = "log_loss" if loss == "softmax" else loss
    return LinearClassifier(
        own, alpha=ALPHA, fit_intercept=loss != "squared_hinge", **several, **given
    )


def holds(problem, coef, intercept, reference, gap):
    """Return whether a solution is near the reference, and its certificate not below the truth."""

    def value(coef, free):
        both = np.column_stack([coef, free]) if problem.fit_intercept else coef
        return problem.value(both.reshape(problem.shape))

    unit = problem.value(None)
    above = (value(coef, intercept) - value(*reference)) / unit
    return -NEAR <= above <= NEAR and above <= gap + 1e-9


@pytest.mark.parametrize("weights", [np.ones(N), WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("raw", [False, True], ids=["scaled", "raw"])
@pytest.mark.parametrize(
    "loss",
    ["log_loss", "softmax", "squared_hinge", "hinge", "squared_error", "huber",
     "epsilon_insensitive"],
)  # fmt: skip
def test_the_optimum_and_its_certificate(loss, raw, sparse, weights):
    X = RAW if raw else SCALED
    y = LABELS.get(loss, LABELS["classes"] if kind_of(loss) == "class" else Z)
    kinks = loss in ("hinge", "epsilon_insensitive")
    if kinks and raw:
        X = X / [1.0, 1.0, 50.0, 2e3]  # columns in one unit, not centred
    model = ours(loss, tol=1e-7, max_iter=20_000 if kinks else 100, random_state=0)
    model.fit(sp.csr_matrix(X) if sparse else X, y, weights)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        reference = theirs(loss, X, weights)
    problem = model.parts(X, y, weights)[0].make()
    coef, free = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    gap = float(model.dual_gap_)
    assert gap <= 1e-7
    assert holds(problem, coef, free, reference, gap)
    # a solution elsewhere, and a certificate below the truth, are both found out
    away = coef + 0.1 * np.abs(coef).max()
    assert not holds(problem, away, free, reference, 1.0)
    near = next(near for k in range(40) if holds(problem, near := coef * (1 + 2.0**-k), free,
                                                 reference, 1.0))  # fmt: skip
    assert not holds(problem, near, free, reference, 0.0)
