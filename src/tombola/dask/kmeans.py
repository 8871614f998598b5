"""k-means of rows in partitions: on a coreset, polished over all rows."""

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import cluster
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from tombola import estimators
from tombola.dask.collections import blocks_of, check_columns, lazily
from tombola.dask.coreset import draw_rows, merge_spreads, spread_of
from tombola.dask.linear import Predict, set_names
from tombola.dask.overview import sums_of
from tombola.dask.partition import Partition
from tombola.dask.runners import make_runner
from tombola.estimators.base import checks_parameters
from tombola.estimators.clusters import clustering_problem
from tombola.estimators.kmeans import LEAST, LITTLE, PER_CLUSTER
from tombola.estimators.lloyd import assign

__all__ = ["KMeans"]

TWICE = 2  # draws, in units of those of one coreset on one machine, which draws two


class Step(NamedTuple):
    """What a step of Lloyd's algorithm adds up: masses and sums of clusters, and the cost."""

    masses: NDArray[np.float64]
    sums: NDArray[np.float64]
    cost: float


@dataclass(eq=False, repr=False)
class KMeans(TransformerMixin, ClusterMixin, BaseEstimator):
    """k-means on a few weighted rows, polished over all rows, for a Dask array or data frame.

        sum_i s_i min_q |x_i - q|^2

    A lightweight coreset (`tombola.dask.coreset`) is clustered by k-means++ and Lloyd's algorithm
    in memory. Then come steps of Lloyd's algorithm over all rows. The data is read twice for the
    coreset, once for each step, and once for the cost in the end.

    Parameters
    ----------
    n_clusters : int, default=8
    init : {"k-means++", "random"}, callable or array-like of shape (n_clusters, d), \
default="k-means++"
        The initial centres on the coreset.
    n_init : "auto" or int, default="auto"
        The number of starts on the coreset, of which the best is kept.
    max_iter : int, default=300
        The largest number of Lloyd's steps on the coreset.
    tol : float, default=1e-4
        For Lloyd's algorithm on the coreset, as in `tombola.estimators.KMeans`.
    coreset_size : "auto" or int, default="auto"
        The number of draws, at least n_clusters; "auto": 200 for each cluster and at least 4000.
    polish : int, default=2
        The largest number of steps over all rows; the last is one that lowers the cost by less
        than 0.05%.
    verbose : int, default=0
        Above 0, progress is printed.
    random_state : int, RandomState or None, default=None
    client : distributed.Client, optional
        By default the current one; without any, Dask's threads on this machine.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, d)
    labels_ : Dask array
        The nearest centre of each row; lazy.
    inertia_ : float
        The sum of the squared distances of rows to it, times their sample weights.
    n_iter_ : int
        Lloyd's steps, on the coreset and over all rows.
    coreset_size_ : int
        The draws of the coreset; n where it is all rows.
    loads_ : int
        How often the data was read.
    n_features_in_ : int
    feature_names_in_ : ndarray
        Where X is a data frame.

    Examples
    --------
    >>> import dask.array as da
    >>> from sklearn.datasets import make_blobs
    >>> X, _ = make_blobs(20_000, centers=[[1, 1], [9, 9]], random_state=0)
    >>> model = KMeans(2, random_state=0).fit(da.from_array(X, chunks=(5000, 2)))
    >>> sorted(model.cluster_centers_.round().tolist())
    [[1.0, 1.0], [9.0, 9.0]]
    """

    n_clusters: int = 8
    _: KW_ONLY
    init: Any = "k-means++"
    n_init: Any = "auto"
    max_iter: int = 300
    tol: float = 1e-4
    coreset_size: Any = "auto"
    polish: int = 2
    verbose: int = 0
    random_state: Any = None
    client: Any = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "init": [StrOptions({"k-means++", "random"}), callable, "array-like"],
        "n_init": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "coreset_size": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "polish": [Interval(Integral, 0, None, closed="left")],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
        "client": "no_validation",
    }

    @checks_parameters
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "KMeans":
        """Find the centres, at once.

        Parameters
        ----------
        X : Dask array or data frame, shape (n, d)
        y : ignored
        sample_weight : Dask array or series, optional

        Returns
        -------
        self
        """
        blocks = blocks_of(X, None, sample_weight)
        k, rng = self.n_clusters, check_random_state(self.random_state)
        runner = make_runner(blocks.parts, self.client)
        spreads = runner.map(spread_of)
        every = merge_spreads(spreads)
        if every.rows < k:
            raise ValueError(f"n_samples={every.rows} should be >= n_clusters={k}")
        size = self._size(every.present)
        rows, weights = draw_rows(runner, spreads, size, int(rng.randint(2**31)))
        if len(weights) < k:  # few rows were drawn again and again
            size = every.rows
            rows, weights = draw_rows(runner, spreads, size, 0)
        first = cluster.KMeans(
            k, init=self.init, n_init=self.n_init, max_iter=self.max_iter, tol=self.tol,
            random_state=rng,
        ).fit(rows, sample_weight=weights)  # fmt: skip
        centres = np.asarray(first.cluster_centers_, dtype=np.float64)
        self.cluster_centers_, self.inertia_, steps = self._polished(runner, centres)
        self.n_iter_, self.coreset_size_, self.loads_ = first.n_iter_ + steps - 1, size, 2 + steps
        self.n_features_in_ = blocks.columns
        set_names(self, blocks.names)
        self.labels_ = self.predict(X)
        return self

    def _size(self, present: int) -> int:
        """Return the number of draws of the coreset."""
        k, size = self.n_clusters, self.coreset_size
        if isinstance(size, str):
            size = TWICE * max(LEAST, PER_CLUSTER * k)
        if size < k:
            raise ValueError(f"coreset_size must be at least n_clusters={k}, got {size}")
        return min(int(size), present)

    def _polished(
        self, runner: Any, centres: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], float, int]:
        """Take Lloyd's steps over all rows; return the last centres, their cost, and loads."""
        number, before = 0, np.inf
        while True:
            steps = runner.map(step_of, centres)
            cost = float(sum(step.cost for step in steps))
            if self.verbose:
                print(f"step {number} over all rows: the cost is {cost:.6g}")
            if number == self.polish or before - cost <= LITTLE * before < np.inf:
                return centres, cost, number + 1
            before = cost
            masses = np.sum([step.masses for step in steps], axis=0)
            sums = np.sum([step.sums for step in steps], axis=0)
            some = masses > 0
            centres = centres.copy()
            centres[some] = sums[some] / masses[some, None]
            number += 1

    def to_local(self) -> Any:
        """Return the fitted estimator of `tombola.estimators`, for rows in memory."""
        check_is_fitted(self)
        names = ("n_clusters", "init", "n_init", "max_iter", "tol", "polish", "random_state")
        model = estimators.KMeans(**{name: getattr(self, name) for name in names})
        fitted = ("cluster_centers_", "inertia_", "n_iter_", "coreset_size_", "n_features_in_")
        for name in (*fitted, "feature_names_in_"):
            if hasattr(self, name):
                setattr(model, name, getattr(self, name))
        return model

    def predict(self, X: Any) -> Any:
        """Return the nearest centre of each row; lazy."""
        return self._lazily(X, "predict")

    def transform(self, X: Any) -> Any:
        """Return the distance of each row to each centre; lazy."""
        return self._lazily(X, "transform")

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return minus the sum of squared distances to the nearest centres; computed at once."""
        check_is_fitted(self)
        check_columns(X, self)
        runner = make_runner(blocks_of(X, None, sample_weight).parts, self.client)
        centres = np.asarray(self.cluster_centers_, dtype=np.float64)
        return -float(sum(step.cost for step in runner.map(step_of, centres)))

    def _lazily(self, X: Any, method: str) -> Any:
        model = self.to_local()
        check_columns(X, model)
        if hasattr(model, "feature_names_in_"):
            del model.feature_names_in_  # blocks are plain arrays there
        like = np.asarray(getattr(model, method)(np.zeros((1, model.n_features_in_))))
        return lazily(X, Predict(model, method), like)


def step_of(partition: Partition, number: int, centres: NDArray[np.float64]) -> Step:
    """Return a partition's part of a step of Lloyd's algorithm."""
    k, n = len(centres), partition.X.shape[0]
    if n == 0 or not (partition.weights is None or partition.weights.any()):
        return Step(np.zeros(k), np.zeros_like(centres), 0.0)
    problem = clustering_problem(partition.X, k, partition.weights)
    found = assign(problem, centres)
    masses = sums_of(found.labels, problem.model.weights, k)
    return Step(masses, masses[:, None] * found.means, float(found.losses.sum()))
