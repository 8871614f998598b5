"""Lasso, ElasticNet, l1 logistic regression and support vectors, by the tests of skglm."""

from skglm import estimators as theirs
from sklearn.utils.validation import _num_samples

from peers.adapter import Adapter, signature_of
from peers.suites._lasso import accepting
from tombola import estimators

MODULES = ["skglm.tests.test_estimators"]


class SparseLogisticRegression(Adapter):
    __init__ = signature_of(theirs.SparseLogisticRegression)
    ours = estimators.LinearClassifier

    def translated(self, X, y):
        names = ("alpha", "l1_ratio", "fit_intercept", "warm_start")
        settings = {name: getattr(self, name) for name in names}
        # theirs bounds the violation of optimality, ours the gap, which is about its square
        return {"tol": 1e-3 * self.tol, "max_iter": 1000, **settings}


class LinearSVC(Adapter):
    __init__ = signature_of(theirs.LinearSVC)
    ours = estimators.LinearClassifier

    def translated(self, X, y):
        settings = {name: getattr(self, name) for name in ("tol", "fit_intercept", "warm_start")}
        n = 1 if X is None else max(_num_samples(X), 1)
        return {"loss": "hinge", "alpha": 1.0 / (self.C * n), "max_iter": 1000, **settings}


Lasso = accepting(estimators.Lasso, theirs.Lasso, __name__)
WeightedLasso = accepting(estimators.Lasso, theirs.WeightedLasso, __name__)
ElasticNet = accepting(estimators.ElasticNet, theirs.ElasticNet, __name__)

REPLACE = {
    "skglm.estimators.Lasso": Lasso,
    "skglm.estimators.WeightedLasso": WeightedLasso,
    "skglm.estimators.ElasticNet": ElasticNet,
    "skglm.estimators.SparseLogisticRegression": SparseLogisticRegression,
    "skglm.estimators.LinearSVC": LinearSVC,
}
WEIGHTS = "by design: the penalty has no weights of columns; columns can be scaled instead."
EXPECTED = {
    "test_generic_estimator[True-Quadratic-WeightedL1-WeightedLasso-pen_args1]": WEIGHTS,
    "test_generic_estimator[False-Quadratic-WeightedL1-WeightedLasso-pen_args1]": WEIGHTS,
    "test_warm_start[SVC]": "by design: dual coordinate ascent goes on from the solution, but the "
    "dual variables that prove it are not kept, so a second fit takes epochs, too.",
}
