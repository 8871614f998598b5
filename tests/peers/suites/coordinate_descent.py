"""Lasso, ElasticNet and their paths, by scikit-learn's tests of coordinate descent."""

from tombola.estimators import ElasticNet, Lasso, LassoCV, lasso_path

MODULES = [
    "sklearn.linear_model.tests.test_coordinate_descent",
    "sklearn.linear_model.tests.test_sparse_coordinate_descent",
]
REPLACE = {
    "sklearn.linear_model.ElasticNet": ElasticNet,
    "sklearn.linear_model.Lasso": Lasso,
    "sklearn.linear_model.LassoCV": LassoCV,
    "sklearn.linear_model.lasso_path": lasso_path,
}
EXPECTED = {}
