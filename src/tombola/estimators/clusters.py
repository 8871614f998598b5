"""What estimators of clusters share: centres, and prediction by the nearest of them."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from tombola.estimators.base import AcceptsSparse, checked_rows
from tombola.estimators.lloyd import Assignment, assign
from tombola.problems import KMeans

__all__ = ["Clusters", "clustering_problem"]


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
