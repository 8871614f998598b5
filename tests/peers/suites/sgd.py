"""LinearClassifier and LinearRegressor, by scikit-learn's tests of SGD."""

import numpy as np
from sklearn import linear_model

from peers.adapter import Adapter, signature_of
from tombola.estimators import LinearClassifier, LinearRegressor

MODULES = ["sklearn.linear_model.tests.test_sgd"]

SAME = (
    "loss", "alpha", "fit_intercept", "max_iter", "tol", "verbose", "random_state", "warm_start",
    "average", "early_stopping", "validation_fraction", "n_iter_no_change",
)  # fmt: skip


class SGD(Adapter):
    """Steps of AdaGrad, which needs no schedule of rates; without a seed, it is 0."""

    def translated(self, X, y):
        given = {name: getattr(self, name) for name in SAME}
        if self.random_state is None:
            given["random_state"] = 0
        ratio = {"l1": 1.0, "l2": 0.0, "elasticnet": self.l1_ratio}.get(self.penalty)
        if self.penalty is None:
            ratio, given["alpha"] = 0.0, 0.0
        if ratio is None:
            given["penalty"] = self.penalty  # an error
        given["average"] = bool(self.average)
        others = {name: getattr(self, name) for name in ("class_weight", "n_jobs")
                  if hasattr(self, name)}  # fmt: skip
        return {**given, **others, "l1_ratio": ratio, "solver": "adagrad"}

    def fit(self, X, y, coef_init=None, intercept_init=None, sample_weight=None):
        model = self._prepared(X, y)
        if coef_init is not None:
            model.set_params(warm_start=True)
            shape = (1, -1) if hasattr(self, "class_weight") and np.ndim(coef_init) == 1 else None
            model.coef_ = np.reshape(coef_init, shape) if shape else np.asarray(coef_init)
        if intercept_init is not None:
            model.intercept_ = np.atleast_1d(intercept_init)
        model.fit(X, y, sample_weight=sample_weight)
        return self

    def partial_fit(self, X, y, *values, **given):
        self._prepared(X, y).partial_fit(X, y, *values, **given)
        return self

    def decision_function(self, X):  # for subclasses that call super()
        return self._prepared().decision_function(X)


class SGDClassifier(SGD):
    ours = LinearClassifier
    __init__ = signature_of(linear_model.SGDClassifier)

    def translated(self, X, y):
        return {**super().translated(X, y), "multi_class": "ovr"}


class SGDRegressor(SGD):
    ours = LinearRegressor
    __init__ = signature_of(linear_model.SGDRegressor)

    def translated(self, X, y):
        given = super().translated(X, y)
        own = {"epsilon": self.epsilon} if self.loss in ("huber", "epsilon_insensitive") else {}
        return {**given, **own}


REPLACE = {
    "sklearn.linear_model.SGDClassifier": SGDClassifier,
    "sklearn.linear_model.SGDRegressor": SGDRegressor,
}
ADAGRAD = (
    "by design: Steps are AdaGrad's, which has no schedule of rates and averages all iterates."
)
LOSSES = "by design: Least squares and modified_huber are no losses of the classifier."
TIE = "by design: Fits of a few epochs are compared, which draw other rows; the score is a tie."
NOT_AT_THE_END = "by design: A few epochs are not at the optimum, to 6 decimals."
SIX_STEPS = (
    "by design: Six rows in two calls are six steps, of 0.3 at most in each column, where those of "
    "SGDClassifier are longer at first."
)
A_NUMBER = "by design: The intercept of a regression of one target is a number, as that of Ridge."
EPOCHS = (
    "by design: Epochs of `partial_fit` draw by what was learnt in that call alone, so that "
    "its draws are others."
)
ATTRIBUTES = "by design: `intercept_` is set on the model, in place of `intercept_init`."
ALL_EPOCHS = "by design: tol=0 runs all epochs."
DRAWS = "by design: Draws depend on the number of rows, so that a fit of the rows kept has others."
ALL_DRAWS = "by design: `t_` counts the draws of all fits that go on from each other."
EXPECTED = {
    "test_adaptive_longer_than_constant": ADAGRAD,
    "test_average_binary_computed_correctly": LOSSES,
    "test_average_sparse": ADAGRAD,
    "test_balanced_weight": TIE,
    "test_large_regularization[l2]": NOT_AT_THE_END,
    "test_late_onset_averaging_not_reached[*Classifier]": ADAGRAD,
    "test_late_onset_averaging_not_reached[*Regressor]": ADAGRAD,
    "test_late_onset_averaging_reached": LOSSES,
    "test_learning_rate_PA_raises": "message",
    "test_loss_function_epsilon": "private: `loss_functions`",
    "test_partial_fit": A_NUMBER,
    "test_partial_fit_binary[SGDClassifier]": SIX_STEPS,
    "test_partial_fit_equal_fit": EPOCHS,
    "test_partial_fit_equal_fit_classif": EPOCHS,
    "test_partial_fit_weight_class_balanced": "message",
    "test_plain_has_no_average_attr[*Classifier]": "private: `_average_coef`",
    "test_plain_has_no_average_attr[*Regressor]": "private: `_average_coef`",
    "test_power_t_limits[*Classifier]": "message",
    "test_power_t_limits[*Regressor]": "message",
    "test_provide_coef[*Classifier]": "message",
    "test_regression_losses": LOSSES,
    "test_set_coef_multiclass": ATTRIBUTES,
    "test_set_intercept_offset[*Classifier*": ATTRIBUTES,
    "test_sgd_averaged_computed_correctly": ADAGRAD,
    "test_sgd_averaged_partial_fit": ADAGRAD,
    "test_sgd_clf": LOSSES,
    "test_sgd_early_stopping_with_partial_fit": "message",
    "test_sgd_error_on_zero_validation_weight": "message",
    "test_sgd_failing_penalty_validation": "message",
    "test_sgd_multiclass_average": LOSSES,
    "test_sgd_proba": LOSSES,
    "test_sgd_random_state[42-SGDClassifier]": ADAGRAD,
    "test_tol_parameter": ALL_EPOCHS,
    "test_underflow_or_overflow": "message",
    "test_validation_mask_correctly_subsets": "private: `_make_validation_split`",
    "test_validation_set_not_used_for_training": DRAWS,
    "test_warm_start": ALL_DRAWS,
    "test_warm_start_multiclass": ALL_DRAWS,
}
