"""LinearClassifier, by scikit-learn's tests of logistic regression."""

import numpy as np
from sklearn import linear_model

from peers.adapter import Adapter, signature_of
from tombola.estimators import LinearClassifier

MODULES = ["sklearn.linear_model.tests.test_logistic"]


class LogisticRegression(Adapter):
    """Their solvers, which find one optimum, are ours of solver="auto"."""

    ours = LinearClassifier
    __init__ = signature_of(linear_model.LogisticRegression)

    def translated(self, X, y):
        l1_ratio, C = self.l1_ratio or 0.0, self.C
        if self.penalty in ("l1", "l2"):
            l1_ratio = float(self.penalty == "l1")
        if self.penalty is None or np.inf == C:
            return {**self.common(l1_ratio), "alpha": 0.0, "C": None}
        return {**self.common(l1_ratio), "alpha": None, "C": C}

    def common(self, l1_ratio):
        names = (
            "fit_intercept", "class_weight", "random_state", "max_iter", "verbose", "warm_start",
            "n_jobs",
        )  # fmt: skip
        given = {name: getattr(self, name) for name in names}
        own = {"multi_class": "ovr"} if self.solver == "liblinear" else {}
        tol = self.tol
        if not isinstance(tol, str) and tol > 0:
            tol = max(1e-4 * tol, 1e-11)
        return {**given, **own, "l1_ratio": l1_ratio, "tol": tol}

    @property
    def n_iter_(self):
        return np.array([self._model.n_iter_])

    def __setattr__(self, name, value):
        fitted = name.endswith("_") and "_model" in vars(self)
        (setattr if fitted else object.__setattr__)(self._model if fitted else self, name, value)


REPLACE = {"sklearn.linear_model.LogisticRegression": LogisticRegression}
KEEPS_TYPE = "by design: The type of X is kept, also where liblinear returns float64."
WIDE_INDICES = (
    "by design: 64-bit indices of sparse matrices are accepted, which some of their solvers refuse."
)
NO_SEED = "by design: The seed does not change the optimum, which we reach."
ONE_VS_REST = (
    "by design: Several classes are fitted, one against the rest, where liblinear refuses them."
)
THEIR_PATH = (
    "by design: It compares with their LogisticRegressionCV, whose fit ends further from the "
    "optimum."
)
CALLBACKS = (
    "by design: The callbacks of scikit-learn 1.9 are experimental; `verbose` and `tombola "
    "train` show progress."
)
FEW_ITERATIONS = (
    "by design: A new fit takes one or two iterations, so that a warm start saves none."
)
AT_LEAST_ONE = "by design: `max_iter` is at least 1."
EXPECTED = {
    "test_check_solver_option[LogisticRegression]": "private: what their solvers refuse",
    "test_dtype_match[csr_*-liblinear]": KEEPS_TYPE,
    "test_elasticnet_l1_ratio_err_helpful[LogisticRegression-l1_ratio]": "message",
    "test_l1_ratio_None_deprecated": "message",
    "test_l1_ratio_non_elasticnet": "message",
    "test_large_sparse_matrix[csr_*-liblinear]": WIDE_INDICES,
    "test_large_sparse_matrix[csr_*-sag*": WIDE_INDICES,
    "test_liblinear_dual_random_state[42]": NO_SEED,
    "test_liblinear_multiclass_raises[LogisticRegression]": ONE_VS_REST,
    "test_liblinear_with_large_values": "private: what their solver liblinear refuses",
    "test_logistic_cv": THEIR_PATH,
    "test_logistic_cv_multinomial_score[neg_log_loss-multiclass_agg_list3]": THEIR_PATH,
    "test_logistic_regression_callback_*": CALLBACKS,
    "test_logisticregression_warns_with_n_jobs": "message",
    "test_logreg_predict_proba_multinomial[42]": "private: `_predict_proba_lr`",
    "test_lr_penalty_l1ratio_incompatible[l1-0.0]": "message",
    "test_lr_penalty_l1ratio_incompatible[l2-1.0]": "message",
    "test_max_iter": "message",
    "test_newton_cholesky_fallback_to_lbfgs": "private: the fallback of their solver",
    "test_penalty_deprecated[LogisticRegression]": "message",
    "test_penalty_none": "message",
    "test_warm_start[42-*-False*": FEW_ITERATIONS,
    "test_warm_start_newton_solver[1-True*": "private: the iterates of their solvers",
    "test_zero_max_iter": AT_LEAST_ONE,
}
