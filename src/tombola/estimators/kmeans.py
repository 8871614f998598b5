"""k-means on coresets, polished over all rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from tombola.coreset import coreset, draw_coreset
from tombola.estimators.base import checked_rows, checked_weights, checks_parameters
from tombola.estimators.clusters import (
    Assignment,
    Clusters,
    assign,
    clustering_problem,
    enough,
    lloyd,
)
from tombola.estimators.parameters import KMeansParameters, parameter

__all__ = ["KMeans"]

MOST = 0.25  # of the rows: with more draws than that, all rows are used
LITTLE = 5e-4  # the share of the cost below which a step over all rows is the last


@dataclass(kw_only=True, eq=False, repr=False)
class KMeans(Clusters, KMeansParameters):
    """k-means on a few weighted rows, polished over all rows.

        sum_i s_i min_q |x_i - q|^2

    A lightweight coreset (`tombola.coreset`) is clustered by k-means++ and Lloyd's algorithm.
    Then a second one, drawn by the distances of all rows to these centres: half of the draws
    in proportion to s_i min_q |x_i - q|^2, half equally often in every cluster. Then steps of
    Lloyd's algorithm over all rows. Each of these visits all rows once, so that the fit takes
    a few passes where Lloyd's algorithm alone takes a hundred or more.

    Where the data have few rows, all are clustered at once, by scikit-learn's `KMeans`. In a forked
    child that uses one thread: scikit-learn's hangs there if the parent has fitted one.

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
        The largest number of Lloyd's steps in succession, on a coreset or over all rows.
    tol : float, default=1e-4
        Lloyd's algorithm stops on a coreset when the squared distances that the centres have moved
        in a step sum to less than tol times the mean variance of its columns.
    coreset_size : "auto" or int, default="auto"
        The number of draws of each coreset, at least n_clusters; with n or more, all rows are
        clustered at once. More draws take longer and lower the cost. "auto": 100 for each
        cluster and at least 2000, or all rows if that is more than a quarter of them.
    polish : int, default=10
        The largest number of steps over all rows after the coresets; the last is one that lowers
        the cost by less than 0.05%. With 0, the centres are those of the second coreset.
    algorithm : {"lloyd", "elkan"}, default="lloyd"
        How scikit-learn's `KMeans` takes its steps, which are the same with both.
    copy_x : bool, default=True
        Ignored: X is never changed, which does not change the result.
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
        Lloyd's steps over all rows; those on coresets are not counted.
    coreset_size_ : int
        The draws of each coreset; n if all rows were clustered at once.
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

    copy_x: bool = parameter(True, "boolean")

    @checks_parameters
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> "KMeans":
        """Find the centres; return self.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n, d)
            C-ordered float32 and float64, and CSR, are not copied, unless all rows are clustered
            at once. Memory maps are read in parts.
        y : ignored
        sample_weight : array-like, shape (n,), optional
        """
        X = checked_rows(self, X, reset=True)
        weights = checked_weights(sample_weight, X)
        n, k = X.shape[0], self.n_clusters
        if n < k:
            raise ValueError(f"n_samples={n} should be >= n_clusters={k}")
        size = self._size(n)
        rng = check_random_state(self.random_state)
        problem = clustering_problem(X, k, weights)
        self.coreset_size_ = size
        if size >= n:
            model = self._lloyd(X, weights, self.init, self.n_init, rng)
            self.n_iter_ = model.n_iter_
            self._settle(problem, model.cluster_centers_)
        else:
            self._polish(problem, self._cluster_coresets(X, problem, size, rng))
        return self

    def _size(self, n: int) -> int:
        """Return the number of draws of a coreset, n for all rows."""
        size = self._draws()
        return n if size >= n or (self.coreset_size == "auto" and size > MOST * n) else size

    def _cluster_coresets(self, X: Any, problem: Any, size: int, rng: Any) -> NDArray[Any]:
        """Return the centres of the second coreset."""
        weights, k = problem.model.weights, self.n_clusters
        seeds = [int(seed) for seed in rng.randint(2**31, size=2)]
        first = enough(coreset(X, size, weights, seed=seeds[0]), k, weights)
        rough = self._lloyd(X[first.indices], first.weights, self.init, self.n_init, rng)
        values = sensitivities(assign(problem, rough.cluster_centers_), weights, k)
        second = enough(draw_coreset(values, weights, size, seeds[1]), k, weights)
        model = self._lloyd(X[second.indices], second.weights, rough.cluster_centers_, 1, rng)
        return np.asarray(model.cluster_centers_)

    def _lloyd(self, X: Any, weights: Any, init: Any, n_init: Any, rng: Any) -> Any:
        """Return scikit-learn's `KMeans`, fitted to some rows."""
        return lloyd(
            X, weights, rng, n_clusters=self.n_clusters, init=init, n_init=n_init,
            max_iter=self.max_iter, tol=self.tol, algorithm=self.algorithm, verbose=self.verbose,
        )  # fmt: skip

    def _polish(self, problem: Any, centres: NDArray[Any]) -> None:
        """Take Lloyd's steps over all rows, and keep the last centres."""
        found, self.n_iter_ = self._settle(problem, centres), 0
        for step in range(min(self.polish, self.max_iter)):
            before = self.inertia_
            found, self.n_iter_ = self._settle(problem, found.means), step + 1
            if self.verbose:
                print(f"step {step + 1} over all rows: the cost is {self.inertia_:.6g}")
            if before - self.inertia_ <= LITTLE * before:
                break


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
