"""LinearRegressor as ridge regression, by scikit-learn's tests of Ridge."""

import numpy as np
from sklearn import linear_model
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import _num_samples

from peers.adapter import signature_of
from tombola.estimators import ElasticNet, LinearRegressor

MODULES = ["sklearn.linear_model.tests.test_ridge"]


class Ridge(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """A model for each column of y; coefficients that must not be negative are an ElasticNet's.

    Their solvers, which find one optimum, are ours of solver="auto".
    """

    __init__ = signature_of(linear_model.Ridge)

    def model(self, alpha):
        given = {"fit_intercept": self.fit_intercept, "random_state": self.random_state}
        given |= {"alpha": alpha, "l1_ratio": 0.0, "tol": 1e-13}  # relative to the objective
        if self.positive:
            return ElasticNet(positive=True, **given)
        return LinearRegressor(**given)

    def fit(self, X, y, sample_weight=None):
        n = _num_samples(X)
        total = n if sample_weight is None else np.sum(np.ones(n) * sample_weight)
        targets = np.asarray(y).T if np.ndim(y) == 2 else [y]
        alphas = np.broadcast_to(self.alpha, len(targets))
        self.models_ = [
            self.model(alpha / total).fit(X, target, sample_weight=sample_weight)
            for alpha, target in zip(alphas, targets, strict=True)
        ]
        self.coef_, self.intercept_ = (
            np.array([getattr(model, name) for model in self.models_])
            for name in ("coef_", "intercept_")
        )
        if len(self.models_) == 1:
            self.coef_ = self.coef_[0]
        if np.ndim(y) == 1:
            self.intercept_ = self.intercept_[0]
        self.solver_ = self.solver
        self.n_features_in_ = self.models_[0].n_features_in_
        return self

    def predict(self, X):
        found = np.stack([model.predict(X) for model in self.models_], axis=1)
        return found[:, 0] if np.ndim(self.intercept_) == 0 else found


REPLACE = {"sklearn.linear_model.Ridge": Ridge}
SHORTEST = (
    "by design: without a penalty, dependent columns have many optima, and ours need not be the "
    "shortest one; Lasso(alpha=0) finds that."
)
REFUSED = "private: what their solvers refuse"
EXPECTED = {
    "test_lbfgs_solver_error": "message",
    "test_n_iter": "private: what their solvers count",
    "test_regularization_limits_ridge[*-wide-*-zero_alpha]": SHORTEST,
    "test_ridge_fit_intercept_sparse_error": REFUSED,
    "test_ridge_fit_intercept_sparse_sag": "private: what their solver sag warns of",
    "test_ridge_individual_penalties": "message",
    "test_ridge_positive_error_test": REFUSED,
    "test_ridge_regression_unpenalized[wide-42-False*": SHORTEST,
    "test_ridge_regression_unpenalized_hstacked_X[long*": SHORTEST,
    "test_ridge_regression_unpenalized_hstacked_X[wide-42-False*": SHORTEST,
    "test_ridge_regression_unpenalized_vstacked_X[wide-42-False*": SHORTEST,
}
