"""Lloyd's algorithm: each centre moves to the mean of the rows that it is nearest to."""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import cluster
from threadpoolctl import ThreadpoolController

from tombola.coreset import Coreset
from tombola.problems.kmeans import PARTS, KMeans

__all__ = ["Assignment", "assign", "enough", "is_forked", "lloyd", "one_thread"]

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
