"""Lasso, ElasticNet, their paths and cross-validation, by scikit-learn's tests."""

from tombola import estimators

MODULES = [
    "sklearn.linear_model.tests.test_coordinate_descent",
    "sklearn.linear_model.tests.test_sparse_coordinate_descent",
]


def checked(kind):
    """A class of ours whose `fit` accepts `check_input`: ours checks always."""

    def fit(self, X, y, sample_weight=None, check_input=True, **params):
        return kind.fit(self, X, y, sample_weight=sample_weight, **params)

    return type(kind.__name__, (kind,), {"fit": fit, "__module__": __name__})


Lasso, ElasticNet = map(checked, (estimators.Lasso, estimators.ElasticNet))

REPLACE = {
    "sklearn.linear_model.ElasticNet": ElasticNet,
    "sklearn.linear_model.ElasticNetCV": estimators.ElasticNetCV,
    "sklearn.linear_model.Lasso": Lasso,
    "sklearn.linear_model.LassoCV": estimators.LassoCV,
    "sklearn.linear_model.enet_path": estimators.enet_path,
    "sklearn.linear_model.lasso_path": estimators.lasso_path,
}
CD, SPARSE = "test_coordinate_descent", "test_sparse_coordinate_descent"
GRAM = "by design: a Gram matrix that is passed is not used, so a wrong one does no harm."
ROUNDS = (
    "by design: an iteration is a Newton step on all columns at work, and one is often enough, "
    "where coordinate descent needs many."
)
TOLERANCE = (
    "by design: ours ends at a gap of 1e-6, scikit-learn's multi-task models at 1e-4, so they "
    "agree to fewer digits than the test asks for."
)
ONE = "by design: there are no multi-task models, and a path is for one column of y."
EXPECTED = {
    f"{CD}::test_enet_nonfinite_params": "message",
    f"{CD}::test_lassocv_alphas_validation": "message",
    f"{CD}::test_path_unknown_parameter": "message",
    f"{CD}::test_enet_l1_ratio": "message",
    f"{CD}::test_path_function_deprecated_n_alphas": "message",
    f"{CD}::test_enet_coordinate_descent_raises_convergence": "message",
    f"{SPARSE}::test_sparse_enet_coordinate_descent": "message",
    f"{CD}::test_lassoCV_does_not_set_precompute": "private: the class that LassoCV fits last",
    f"{CD}::test_lasso_dual_gap": "by design: our gap has an allowance for rounding, 1e-12 of "
    "the objective, so that it is never below the true distance.",
    f"{CD}::test_lasso_alpha_warning": "by design: alpha=0 is solved exactly, as least squares, "
    "so there is nothing to warn of.",
    f"{CD}::test_1d_multioutput_enet_and_multitask_enet_cv": TOLERANCE,
    f"{CD}::test_1d_multioutput_lasso_and_multitask_lasso_cv": TOLERANCE,
    f"{CD}::test_elasticnet_precompute_incorrect_gram": GRAM,
    f"{CD}::test_overridden_gram_matrix": GRAM,
    f"{CD}::test_warm_start_convergence": ROUNDS,
    f"{CD}::test_warm_start_convergence_with_regularizer_decrement": ROUNDS,
    f"{CD}::test_check_input_false": "by design: input is always checked and converted, so data "
    "in C order gives the same result as in Fortran order.",
    f"{CD}::test_enet_copy_X_False_check_input_False": "by design: X is never overwritten.",
    f"{CD}::test_sparse_dense_descent_paths[csr_array-2*": ONE,
    f"{CD}::test_sparse_dense_descent_paths[csr_matrix-2*": ONE,
}
