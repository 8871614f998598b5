"""Linear models and k-means on Dask collections, by dask-ml's tests.

They are not installed with dask-ml: a link `dask_ml_tests` to their folder, of the same release,
must be on PYTHONPATH.
"""

from peers.adapter import Adapter
from tombola.dask import KMeans, LinearClassifier, LinearRegressor


def penalty(C, X):
    """Return alpha: dask-ml's objective is a sum over rows, and C may be any number."""
    if X is None:
        return 1.0
    rows = X.shape[0] if X.shape[0] == X.shape[0] else X.compute_chunk_sizes().shape[0]
    return 1.0 / (C * rows)


class Linear(Adapter):
    def __init__(
        self, penalty="l2", dual=False, tol=1e-4, C=1.0, fit_intercept=True,
        intercept_scaling=1.0, class_weight=None, random_state=None, solver="admm", max_iter=100,
        multi_class="ovr", verbose=0, warm_start=False, n_jobs=1, solver_kwargs=None,
    ):  # fmt: skip
        given = dict(locals())
        for name in self._get_param_names():
            setattr(self, name, given[name])

    def translated(self, X, y):
        return {
            "alpha": penalty(self.C, X),
            "l1_ratio": {"l1": 1.0, "l2": 0.0, "elastic_net": 0.5}[self.penalty],
            "fit_intercept": self.fit_intercept,
            "random_state": self.random_state,
            "tol": self.tol,
            "max_iter": self.max_iter,
        }


class LinearRegression(Linear):
    ours = LinearRegressor


class LogisticRegression(Linear):
    ours = LinearClassifier


class DaskKMeans(Adapter):
    ours = KMeans

    def __init__(
        self, n_clusters=8, init="k-means||", oversampling_factor=2, max_iter=300, tol=0.0001,
        precompute_distances="auto", random_state=None, copy_x=True, n_jobs=1, algorithm="full",
        init_max_iter=None, n_init="auto",
    ):  # fmt: skip
        given = dict(locals())
        for name in self._get_param_names():
            setattr(self, name, given[name])

    def translated(self, X, y):
        names = "n_clusters", "max_iter", "tol", "random_state"
        init = "k-means++" if isinstance(self.init, str) else self.init
        return {"init": init, **{name: getattr(self, name) for name in names}}

    def fit_transform(self, X, y=None):
        return self.fit(X).transform(X)


MODULES = ["dask_ml_tests.linear_model.test_glm", "dask_ml_tests.test_kmeans"]
REPLACE = {
    "dask_ml.linear_model.LinearRegression": LinearRegression,
    "dask_ml.linear_model.LogisticRegression": LogisticRegression,
    "dask_ml.cluster.KMeans": DaskKMeans,
}
EXPECTED = {
    "test_glm::test_dataframe_warns_about_chunks": (
        "by design: data frames are fitted as they are, not refused."
    ),
    "test_glm::test_model_coef_dask_numpy[LinearRegression-single_chunk_regression]": (
        "by design: without a seed, two fits draw rows differently and agree within tol."
    ),
    "test_glm::test_model_coef_dask_numpy[LogisticRegression-single_chunk_classification]": (
        "by design: coef_ has the shape (1, d), as in scikit-learn."
    ),
    "test_kmeans::test_check_estimator": (
        "by design: a row of weight 2 is drawn differently from two rows, and k-means stops at "
        "other centres of nearly the same cost; the other checks pass."
    ),
    "test_kmeans::TestKMeans::test_basic": (
        "by design: KMeans has two more attributes, coreset_size_ and loads_."
    ),
}
