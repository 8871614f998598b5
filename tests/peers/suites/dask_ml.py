"""Linear models and k-means on Dask collections, by dask-ml's tests.

They are not installed with dask-ml: a link `dask_ml_tests` to their folder must be on PYTHONPATH.
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
    "dask_ml._compat.DASK_2025_3_0": False,  # or they skip the linear models
}
EXPECTED = {}
