"""What estimators of clusters share: Lloyd's steps, centres, and prediction by the nearest."""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import cluster
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils.validation import _check_sample_weight, check_is_fitted
from threadpoolctl import ThreadpoolController

from tombola.coreset import Coreset
from tombola.estimators.base import AcceptsSparse, checked_rows
from tombola.problems.kmeans import PARTS, KMeans

__all__ = [
    "Assignment",
    "Clusters",
    "assign",
    "clustering_problem",
    "enough",
    "is_forked",
    "lloyd",
    "one_thread",
]

IMPORTED_BY = os.getpid()


class Assignment(NamedTuple):
    """The nearest centre of each row, and the means of the rows of each centre."""

    labels: NDArray[np.int32]  # (n,)
    losses: NDArray[np.float64]  # (n,): s_i |x_i - q|^2
    means: NDArray[np.float64]  # (n_clusters, d); where a centre has no rows, the centre itself


def assign(problem: KMeans, centres: NDArray[Any]) -> Assignment:
    """Return the nearest centre of each row, and the means of the rows of each centre.

    Rows are read once, by as many threads as BLAS may use.

    Examples
    --------
    >>> assigned = assign(KMeans([[0.0], [1.0], [10.0]], 2), np.array([[0.0], [9.0]]))
    >>> assigned.labels, assigned.losses, assigned.means.ravel()
    (array([0, 0, 1], dtype=int32), array([0., 1., 1.]), array([ 0.5, 10. ]))
    """
    means = centres.astype(np.float64)
    libraries = _libraries().select(user_api="blas").info()
    threads = max((library["num_threads"] for library in libraries), default=1)
    with one_thread():
        if threads == 1:
            labels, squared, masses, sums = problem.assign(means)
        else:
            with ThreadPoolExecutor(min(threads, PARTS)) as pool:
                labels, squared, masses, sums = problem.assign(means, pool.map)
    some = masses > 0
    means[some] = sums[some] / masses[some, None]
    return Assignment(labels, problem.model.weights * squared, means)


def one_thread() -> Any:
    """Return a context in which BLAS uses one thread: products do not depend on their number."""
    return _libraries().limit(limits=1, user_api="blas")


def lloyd(X: Any, weights: Any, rng: Any, **parameters: Any) -> cluster.KMeans:
    """Return scikit-learn's `KMeans` with these parameters, fitted to some rows.

    In a forked child it uses one thread: OpenMP, which may have had threads in the parent, would
    wait for them for ever.
    """
    model = cluster.KMeans(random_state=rng, **parameters)
    threads = 1 if is_forked() else None
    with _libraries().limit(limits=threads, user_api="openmp"):
        return model.fit(X, sample_weight=weights)


def is_forked() -> bool:
    """Return whether this is a forked child: threads of its parent are not there."""
    return os.getpid() != IMPORTED_BY


def enough(rows: Coreset, n_clusters: int, weights: NDArray[np.float64]) -> Coreset:
    """Return the coreset, or all rows if it has fewer than there are clusters."""
    if rows.indices.size >= n_clusters:
        return rows
    return Coreset(np.arange(weights.size), weights)


@cache
def _libraries() -> Any:
    """Return what controls the threads of BLAS and OpenMP; it takes milliseconds to find."""
    return ThreadpoolController()


def clustering_problem(X: Any, n_clusters: int, weights: Any = None) -> KMeans:
    """Return the problem; weights keep their unit, and there may be fewer rows than centres."""
    problem = KMeans(X, 1, sample_weight=weights, normalise=False)
    problem.n_clusters = n_clusters
    return problem


class Clusters(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, AcceptsSparse):
    """Prediction by `cluster_centers_`."""

    cluster_centers_: NDArray[Any]
    labels_: NDArray[np.int32]
    inertia_: float

    def predict(self, X: Any) -> NDArray[np.int32]:
        """Return the nearest centre of each row."""
        return self._assign(X).labels

    def transform(self, X: Any) -> NDArray[Any]:
        """Return the distance of each row to each centre."""
        check_is_fitted(self)
        X = checked_rows(self, X, reset=False)
        return np.asarray(euclidean_distances(X, self.cluster_centers_))

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Return minus the sum of squared distances to the nearest centres."""
        losses = self._assign(X).losses
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
        return -float((losses * weights).sum())

    def _settle(self, problem: KMeans, centres: NDArray[Any]) -> Assignment:
        """Keep these centres, in the precision of the rows; return the assignment to them."""
        self.cluster_centers_ = centres.astype(problem.model.rows.values.dtype)
        found = assign(problem, self.cluster_centers_)
        self.labels_, self.inertia_ = found.labels, float(found.losses.sum())
        return found

    def _assign(self, X: Any) -> Assignment:
        check_is_fitted(self)
        X, centres = checked_rows(self, X, reset=False), self.cluster_centers_
        return assign(clustering_problem(X, len(centres)), centres)

    @property
    def _n_features_out(self) -> int:
        return int(self.cluster_centers_.shape[0])
