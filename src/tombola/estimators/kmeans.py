"""k-means on coresets, polished over all rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import cluster
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from tombola.coreset import Coreset, coreset, draw_coreset
from tombola.estimators.base import checked_rows, checked_weights, checks_parameters
from tombola.estimators.clusters import Clusters, clustering_problem
from tombola.estimators.lloyd import Assignment, assign
from tombola.estimators.parameters import KMeansParameters

__all__ = ["KMeans"]

MOST = 0.25  # of the rows: with more draws than that, all rows are used
LITTLE = 5e-4  # the share of the cost below which a step over all rows is the last


@dataclass(eq=False, repr=False)
class KMeans(Clusters, KMeansParameters, BaseEstimator):
    """k-means on a few weighted rows, polished over all rows.

        sum_i s_i min_q |x_i - q|^2

    A lightweight coreset (`tombola.coreset`) is clustered by k-means++ and Lloyd's algorithm.
    Then a second one, drawn by the distances of all rows to these centres: half of the draws
    in proportion to s_i min_q |x_i - q|^2, half equally often in every cluster. Then steps of
    Lloyd's algorithm over all rows. Each of these visits all rows once, so that the fit takes
    a few passes where Lloyd's algorithm alone takes a hundred or more.

    Where the data have few rows, all are clustered at once, by scikit-learn's `KMeans`.

    Parameters
    ----------
    n_clusters : int, default=8
    init : {"k-means++", "random"}, callable or array-like of shape (n_clusters, d), \
default="k-means++"
        The initial centres on the first coreset; a function (X, n_clusters, random_state) gets
        its rows.
    n_init : "auto" or int, default="auto"
        The number of starts on the first coreset, of which the best is kept; "auto": 10 if init is
        "random" or a function, else 1.
    max_iter : int, default=300
        The largest number of Lloyd's steps on a coreset.
    tol : float, default=1e-4
        Lloyd's algorithm stops on a coreset when the squared distances that the centres have moved
        in a step sum to less than tol times the mean variance of its columns.
    coreset_size : "auto" or int, default="auto"
        The number of draws of each coreset, at least n_clusters; with n or more, all rows are
        clustered at once. More draws take longer and lower the cost. "auto": 100 for each
        cluster and at least 2000, or all rows if that is more than a quarter of them.
    polish : int, default=10
        The largest number of steps over all rows; the last is one that lowers the cost by less
        than 0.05%. With 0, the centres are those of the second coreset.
    verbose : int, default=0
        Above 0, progress is printed.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, d)
    labels_ : ndarray of shape (n,)
        The nearest centre of each row.
    inertia_ : float
        The sum of the squared distances of rows to it, times their sample weights.
    n_iter_ : int
        Lloyd's steps, on coresets and over all rows.
    coreset_size_ : int
        The draws of each coreset; n where all rows were clustered at once.
    n_features_in_ : int
    feature_names_in_ : ndarray
        Where X has column names.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> X, _ = make_blobs(20_000, centers=[[1, 1], [9, 9]], random_state=0)
    >>> model = KMeans(2, random_state=0).fit(X)
    >>> sorted(model.cluster_centers_.round().tolist())
    [[1.0, 1.0], [9.0, 9.0]]
    >>> model.coreset_size_
    2000

    References
    ----------
    Bachem, Lucic, Krause (2018). Scalable k-Means Clustering via Lightweight Coresets.
    Bachem, Lucic, Krause (2017). Practical Coreset Constructions for Machine Learning.
    """

    @checks_parameters
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> "KMeans":
        """Find the centres.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n, d)
            C-ordered float32 and float64, and CSR, are not copied, unless all rows are clustered
            at once. Memory maps are read in parts.
        y : ignored
        sample_weight : array-like, shape (n,), optional

        Returns
        -------
        self
        """
        X = checked_rows(self, X, reset=True)
        weights = checked_weights(sample_weight, X)
        n, k = X.shape[0], self.n_clusters
        if n < k:
            raise ValueError(f"n_samples={n} should be >= n_clusters={k}")
        size = self._size(n)
        rng = check_random_state(self.random_state)
        problem = clustering_problem(X, k, weights)
        self.n_iter_, self.coreset_size_ = 0, size
        if size >= n:
            found = self._settle(problem, self._lloyd(X, weights, self.init, self.n_init, rng))
        else:
            found = self._polish(problem, self._cluster_coresets(X, problem, size, rng))
        self.labels_, self.inertia_ = found.labels, float(found.losses.sum())
        return self

    def _size(self, n: int) -> int:
        """Return the number of draws of a coreset, n for all rows."""
        size = self._draws()
        return n if size >= n or (self.coreset_size == "auto" and size > MOST * n) else size

    def _cluster_coresets(self, X: Any, problem: Any, size: int, rng: Any) -> NDArray[Any]:
        """Return the centres of the second coreset."""
        weights, k = problem.model.weights, self.n_clusters
        seeds = [int(seed) for seed in rng.randint(2**31, size=2)]
        first = _enough(coreset(X, size, weights, seed=seeds[0]), k, weights)
        centres = self._lloyd(X[first.indices], first.weights, self.init, self.n_init, rng)
        values = sensitivities(assign(problem, centres.astype(np.float64)), weights, k)
        second = _enough(draw_coreset(values, weights, size, seeds[1]), k, weights)
        return self._lloyd(X[second.indices], second.weights, centres, 1, rng)

    def _lloyd(self, X: Any, weights: Any, init: Any, n_init: Any, rng: Any) -> NDArray[Any]:
        """Return the centres of some rows, by scikit-learn's `KMeans`."""
        model = cluster.KMeans(
            self.n_clusters, init=init, n_init=n_init, max_iter=self.max_iter, tol=self.tol,
            verbose=self.verbose, random_state=rng,
        ).fit(X, sample_weight=weights)  # fmt: skip
        self.n_iter_ += model.n_iter_
        return np.asarray(model.cluster_centers_)

    def _settle(self, problem: Any, centres: NDArray[Any]) -> Assignment:
        """Keep these centres; return the assignment of all rows to them."""
        self.cluster_centers_ = centres
        return assign(problem, centres.astype(np.float64))

    def _polish(self, problem: Any, centres: NDArray[Any]) -> Assignment:
        """Take Lloyd's steps over all rows; return the assignment to the last centres."""
        found = self._settle(problem, centres)
        for step in range(self.polish):
            before = found.losses.sum()
            found = self._settle(problem, found.means.astype(centres.dtype))
            after = found.losses.sum()
            self.n_iter_ += 1
            if self.verbose:
                print(f"step {step + 1} over all rows: the cost is {after:.6g}")
            if before - after <= LITTLE * before:
                break
        return found


def sensitivities(
    assigned: Assignment, weights: NDArray[np.float64], n_clusters: int
) -> NDArray[np.float64]:
    """Return the values to draw rows by, given their nearest of some rough centres.

        s_i |x_i - q|^2 / cost + s_i / (number of clusters with rows * weight of the cluster of i)

    The first half goes to rows that cost much, the second to small clusters.
    """
    masses = np.bincount(assigned.labels, weights, n_clusters)
    some = np.count_nonzero(masses)
    cost = assigned.losses.sum()
    values = weights / (some * np.where(masses > 0, masses, 1.0)[assigned.labels])
    return values + assigned.losses / cost if cost > 0 else values


def _enough(rows: Coreset, n_clusters: int, weights: NDArray[np.float64]) -> Coreset:
    """Return the coreset, or all rows where it has fewer than there are clusters."""
    if rows.indices.size >= n_clusters:
        return rows
    return Coreset(np.arange(weights.size), weights)
