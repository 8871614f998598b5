"""k-means of rows in partitions: on a coreset, polished over all rows."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import ClusterMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from tombola import estimators
from tombola.dask.base import DaskEstimator, set_names
from tombola.dask.collections import blocks_of, check_columns
from tombola.dask.coreset import draw_rows, merge_spreads, spread_of
from tombola.dask.overview import sums_of
from tombola.dask.partition import Partition
from tombola.dask.runners import make_runner
from tombola.estimators.base import checks_parameters, narrowed
from tombola.estimators.clusters import assign, clustering_problem, lloyd
from tombola.estimators.kmeans import LITTLE
from tombola.estimators.parameters import WHOLE, KMeansParameters, parameter

__all__ = ["KMeans"]

TWICE = 2  # draws, in units of those of one coreset on one machine, which draws two


class Step(NamedTuple):
    """What a step of Lloyd's algorithm adds up: masses and sums of clusters, and the cost."""

    masses: NDArray[np.float64]
    sums: NDArray[np.float64]
    cost: float


@dataclass(kw_only=True, eq=False, repr=False)
class KMeans(TransformerMixin, ClusterMixin, KMeansParameters, DaskEstimator):
    """k-means on a few weighted rows, polished over all rows, for a Dask array or data frame.

        sum_i s_i min_q |x_i - q|^2

    A lightweight coreset (`tombola.dask.coreset`) is clustered by k-means++ and Lloyd's algorithm
    in memory. Then come steps of Lloyd's algorithm over all rows. The data is read twice for the
    coreset, once for each step, and once for the cost in the end.

    Parameters
    ----------
    n_clusters, init, n_init, max_iter, tol, algorithm, verbose, random_state
        As in `tombola.estimators.KMeans`, for the one coreset.
    coreset_size : "auto" or int, default="auto"
        The number of draws, at least n_clusters; "auto": 200 for each cluster and at least 4000.
    polish : int, default=2
        The largest number of steps over all rows; the last is one that lowers the cost by less
        than 0.05%.
    client : distributed.Client, optional
        By default the current one; without any, Dask's threads on this machine.

    Attributes
    ----------
    labels_ : Dask array
        The nearest centre of each row; lazy, if X is.
    loads_ : int
        How often the data was read.
    cluster_centers_, inertia_, n_iter_, coreset_size_, n_features_in_, feature_names_in_
        As in `tombola.estimators.KMeans`, with one coreset.

    Examples
    --------
    >>> import dask.array as da
    >>> from sklearn.datasets import make_blobs
    >>> X, _ = make_blobs(20_000, centers=[[1, 1], [9, 9]], random_state=0)
    >>> model = KMeans(2, random_state=0).fit(da.from_array(X, chunks=(5000, 2)))
    >>> sorted(model.cluster_centers_.round().tolist())
    [[1.0, 1.0], [9.0, 9.0]]
    """

    polish: int = parameter(2, WHOLE)

    local: ClassVar[Any] = estimators.KMeans
    learnt: ClassVar[tuple[str, ...]] = (
        "cluster_centers_", "inertia_", "n_iter_", "coreset_size_",
    )  # fmt: skip

    @checks_parameters
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "KMeans":
        """Find the centres, at once; return self.

        Parameters
        ----------
        X : Dask array or data frame, shape (n, d)
            An array, a sparse matrix or a data frame in memory is one partition.
        y : ignored
        sample_weight : Dask array or series, or one in memory, optional
        """
        blocks = blocks_of(X, None, sample_weight)
        k, rng = self.n_clusters, check_random_state(self.random_state)
        runner = make_runner(blocks.parts, self.client)
        spreads = runner.map(spread_of)
        every = merge_spreads(spreads)
        if every.rows < k:
            raise ValueError(f"n_samples={every.rows} should be >= n_clusters={k}")
        size = self._draws() * (TWICE if self.coreset_size == "auto" else 1)
        size = min(size, every.present)
        rows, weights = draw_rows(runner, spreads, size, int(rng.randint(2**31)))
        if len(weights) < k:  # few rows were drawn again and again
            size = every.rows
            rows, weights = draw_rows(runner, spreads, size, 0)
        first = lloyd(
            narrowed(rows) if issparse(rows) else rows, weights, rng, n_clusters=k,
            init=self.init, n_init=self.n_init, max_iter=self.max_iter, tol=self.tol,
            algorithm=self.algorithm,
        )  # fmt: skip
        centres = np.asarray(first.cluster_centers_, dtype=np.float64)
        centres, self.inertia_, steps = self._polished(runner, centres)
        self.cluster_centers_ = centres.astype(blocks.dtype)
        self.n_iter_, self.coreset_size_, self.loads_ = steps - 1, size, 2 + steps
        self.n_features_in_ = blocks.columns
        set_names(self, blocks.names)
        self.labels_ = self.predict(X)
        return self

    def _polished(
        self, runner: Any, centres: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], float, int]:
        """Take Lloyd's steps over all rows; return the last centres, their cost, and loads."""
        number, before, most = 0, np.inf, min(self.polish, self.max_iter)
        while True:
            steps = runner.map(step_of, centres)
            cost = float(sum(step.cost for step in steps))
            if self.verbose:
                print(f"step {number} over all rows: the cost is {cost:.6g}")
            if number == most or before - cost <= LITTLE * before < np.inf:
                return centres, cost, number + 1
            before = cost
            masses = np.sum([step.masses for step in steps], axis=0)
            sums = np.sum([step.sums for step in steps], axis=0)
            some = masses > 0
            centres = centres.copy()
            centres[some] = sums[some] / masses[some, None]
            number += 1

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


def step_of(partition: Partition, number: int, centres: NDArray[np.float64]) -> Step:
    """Return a partition's part of a step of Lloyd's algorithm."""
    k = len(centres)
    if not partition.weights.any():
        return Step(np.zeros(k), np.zeros_like(centres), 0.0)
    problem = clustering_problem(partition.X, k, partition.weights)
    found = assign(problem, centres)
    masses = sums_of(found.labels, problem.model.weights, k)
    return Step(masses, masses[:, None] * found.means, float(found.losses.sum()))
