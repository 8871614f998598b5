"""k-means++: initial centres that are far from each other."""

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import kernel
from tombola.problems.kmeans import Centres, DenseModel, KMeans, KMeansModel, kept
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
    return far_apart(problem, subsample, stream, tries=1, by_products=False)


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
    return far_apart(problem, subsample, stream, 2 + int(np.log(problem.n_clusters)), True)


def far_apart(
    problem: KMeans, subsample: int, stream: Stream, tries: int, by_products: bool
) -> NDArray[np.float64]:
    """Return rows as centres, each the best of some that are drawn by their squared distances."""
    model, k = problem.model, problem.n_clusters
    rows = sample(np.flatnonzero(model.weights), max(subsample, k), stream)
    weights, squared = model.weights[rows], np.ones(rows.size)
    distances = Distances(problem, rows, by_products)
    chosen = np.empty(k, dtype=np.int64)
    for q in range(k):
        drawn = [draw_by(weights * squared, stream) for _ in range(1 if q == 0 else tries)]
        left = distances.to(np.array(drawn))
        if q > 0:
            np.minimum(left, squared[:, None], out=left)
        best = int((weights @ left).argmin())
        chosen[q], squared = drawn[best], left[:, best]
    return np.array([problem.row(int(row)) for row in rows[chosen]])


class Distances:
    """Squared distances between some rows: one by one, or by products of dense matrices.

    Products are faster, and have the rounding errors of |x|^2 - 2 x y + |y|^2.
    """

    def __init__(self, problem: KMeans, rows: NDArray[np.int64], by_products: bool) -> None:
        self.problem, self.rows = problem, rows
        self.by_products = by_products and isinstance(problem.model, DenseModel)
        if self.by_products:
            self.away = problem.model.rows.values[rows]  # a copy, in the precision of the rows
            self.away -= self.away.mean(axis=0)
            self.squares = np.einsum("ij,ij->i", self.away, self.away, dtype=np.float64)

    def to(self, places: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return those of all rows to the rows at some places: (rows, places)."""
        if self.by_products:
            products = self.away @ self.away[places].T
            squared = self.squares[:, None] - 2.0 * products + self.squares[places]
            return np.asarray(np.maximum(squared, 0.0, out=squared))
        centres = kept(np.array([self.problem.row(int(row)) for row in self.rows[places]]))
        out = np.empty((self.rows.size, places.size))
        fill_all_distances(self.problem.model, self.rows, centres, out)
        return out


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


@kernel
def fill_all_distances(model: KMeansModel, rows: Ints, centres: Centres, out: Floats) -> None:
    """out[i, q] = |x_i - q|^2."""
    for i in range(rows.size):
        model.fill_distances(rows[i], centres, out[i])
