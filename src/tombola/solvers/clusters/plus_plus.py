"""k-means++: initial centres that are far from each other."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.problems.kmeans import KMeans, rows_of
from tombola.problems.rows import Dense, taken
from tombola.random import Stream
from tombola.state import Floats, Ints

__all__ = ["greedy_plus_plus", "plus_plus"]


def plus_plus(problem: KMeans, subsample: int, stream: Stream) -> NDArray[np.float64]:
    """Return rows as centres, each drawn by its squared distance to the centres before it.

        P(i) ~ s_i min_q |x_i - q|^2          over a subsample; the first: P(i) ~ s_i

    Parameters
    ----------
    problem : KMeans
    subsample : int
        The number of rows to choose from, drawn without replacement from those of positive
        weight: all of them if there are fewer, and at least n_clusters.
    stream : Stream
        The source of randomness.

    Returns
    -------
    ndarray of shape (n_clusters, d)
        If there are fewer distinct rows than clusters, some centres are equal.

    Examples
    --------
    >>> problem = KMeans([[0.0], [0.1], [100.0], [100.1]], 2)
    >>> plus_plus(problem, subsample=1000, stream=Stream(seed=1)).round()
    array([[100.],
           [  0.]])

    References
    ----------
    Arthur, Vassilvitskii (2007). k-means++: The Advantages of Careful Seeding.
    """
    return far_apart(problem, subsample, stream, tries=1)


def greedy_plus_plus(problem: KMeans, subsample: int, stream: Stream) -> NDArray[np.float64]:
    """Return rows as centres, each the best of 2 + log k rows drawn as by `plus_plus`.

    The best is the one that leaves the least cost on the subsample. Parameters and result are those
    of `plus_plus`; the cost is lower by several percent, in a few times the time.

    Examples
    --------
    >>> problem = KMeans([[0.0], [0.1], [100.0], [100.1]], 2)
    >>> greedy_plus_plus(problem, subsample=1000, stream=Stream(seed=1)).round()
    array([[100.],
           [  0.]])

    References
    ----------
    Arthur, Vassilvitskii (2007), section 5 of the technical report.
    """
    return far_apart(problem, subsample, stream, tries=2 + int(np.log(problem.n_clusters)))


def far_apart(problem: KMeans, subsample: int, stream: Stream, tries: int) -> NDArray[np.float64]:
    """Return rows as centres, each the best of some that are drawn by their squared distances."""
    model, k = problem.model, problem.n_clusters
    rows = sample(np.flatnonzero(model.weights), max(subsample, k), stream)
    weights, squared = model.weights[rows], np.ones(rows.size)
    distances = Distances(problem, rows)
    chosen = np.empty(k, dtype=np.int64)
    for q in range(k):
        drawn = [draw_by(weights * squared, stream) for _ in range(1 if q == 0 else tries)]
        left = distances.to(np.array(drawn))
        if q > 0:
            np.minimum(left, squared[:, None], out=left)
        best = int((weights @ left).argmin())
        chosen[q], squared = drawn[best], left[:, best]
    return rows_of(model.rows, rows[chosen])


class Distances:
    """Squared distances between some rows, by products of matrices: |x|^2 - 2 x y + |y|^2.

    Dense rows are seen from their mean, in which that loses the least precision.
    """

    def __init__(self, problem: KMeans, rows: Ints) -> None:
        chosen = taken(problem.model.rows, rows)
        if isinstance(chosen, Dense):
            self.rows: Any = chosen.values  # a copy, in the precision of the rows
            self.rows -= self.rows.mean(axis=0)
            self.squares = np.einsum("ij,ij->i", self.rows, self.rows, dtype=np.float64)
        else:
            from scipy.sparse import csr_matrix  # there are no sparse rows without scipy

            parts = chosen.values.astype(np.float64), chosen.columns, chosen.starts
            self.rows = csr_matrix(parts, shape=chosen.shape)
            self.squares = problem.model.squares[rows]

    def to(self, places: Ints) -> Floats:
        """Return those of all rows to the rows at some places: (rows, places)."""
        products = self.rows @ self.rows[places].T
        products = products if isinstance(products, np.ndarray) else products.toarray()
        squared = self.squares[:, None] - 2.0 * products + self.squares[places]
        return np.asarray(np.maximum(squared, 0.0, out=squared))


def sample(rows: NDArray[np.int64], size: int, stream: Stream) -> NDArray[np.int64]:
    """Return `size` of the rows, or all, in random order and without replacement."""
    for place in range(min(size, rows.size)):
        other = place + int(stream.integers(rows.size - place, 1)[0])
        rows[place], rows[other] = rows[other], rows[place]
    return rows[:size]


def draw_by(masses: NDArray[np.float64], stream: Stream) -> int:
    """Return a position, drawn in proportion to masses; uniformly if all are 0."""
    sums = np.cumsum(masses if masses.any() else np.ones_like(masses))
    share = float(stream.words(1)[0] >> np.uint64(11)) * 2.0**-53  # from 0 to below 1
    return int(np.searchsorted(sums, share * sums[-1], side="right"))
