"""Coresets of rows in partitions: a few weighted rows that stand for all of them."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.coreset import Coreset, draw_coreset, squared_distances
from tombola.dask.collections import blocks_of
from tombola.dask.partition import Partition, check_total, rows_of, stacked
from tombola.dask.runners import make_runner
from tombola.state import Floats, Ints
from tombola.validation import whole

__all__ = ["Spread", "WeightedRows", "coreset", "draw_rows", "merge_spreads", "spread_of"]


ALL = -1  # draws: all rows of a partition, with their own weights


class WeightedRows(NamedTuple):
    """Rows, and the weight of each."""

    rows: Any
    weights: NDArray[np.float64]


class Spread(NamedTuple):
    """How the rows of a partition are spread: counts, sum of weights, mean, squares around it."""

    rows: int
    present: int  # rows of positive weight
    mass: float
    mean: NDArray[np.float64]
    squares: float

    def around(self, mean: NDArray[np.float64]) -> float:
        """Return the sum of s_i |x_i - mean|^2 for another mean."""
        away = self.mean - mean
        return self.squares + self.mass * float(away @ away)


def coreset(
    X: Any, m: int, sample_weight: Any = None, *, seed: int = 0, client: Any = None
) -> WeightedRows:
    """Draw rows and weights that estimate sums over all rows: a lightweight coreset.

    It is that of `tombola.coreset`, for a Dask array or data frame: with the mean and the spread of
    all rows, each partition draws its share of the m rows. The data is read twice.

    Parameters
    ----------
    X : Dask array or data frame, shape (n, d), or one in memory
    m, seed
        As in `tombola.coreset`.
    sample_weight : Dask array or series, or one in memory, optional
        At least 0; 1 by default.
    client : distributed.Client, optional
        By default the current one; without any, Dask's threads.

    Returns
    -------
    rows : ndarray or CSR matrix
        The rows drawn, in memory, each once: m at most.
    weights : ndarray
        The weight of each; on average they sum to that of all rows.

    Examples
    --------
    >>> import dask.array as da
    >>> X = da.random.default_rng(0).normal(size=(10_000, 2), chunks=(1000, 2))
    >>> rows, weights = coreset(X, 1000)
    >>> rows.shape[1], bool(abs(weights.sum() - 10_000) < 1000)
    (2, True)
    """
    m, seed = whole("m", m, 1), whole("seed", seed, 0, 2**64)
    runner = make_runner(blocks_of(X, None, sample_weight).parts, client)
    spreads = runner.map(spread_of)
    return draw_rows(runner, spreads, m, seed)


def spread_of(partition: Partition, number: int) -> Spread:
    """Return how the rows of a partition are spread."""
    (n, d), weights = partition.X.shape, partition.weights
    mass = float(weights.sum())
    if mass == 0.0:
        return Spread(n, 0, 0.0, np.zeros(d), 0.0)
    rows_of(partition, number)
    mean = np.asarray(partition.X.T @ (weights / mass), dtype=np.float64).ravel()
    squares = float(weights @ squared_distances(partition.X, mean))
    return Spread(n, int(np.count_nonzero(weights)), mass, mean, squares)


def merge_spreads(spreads: list[Spread]) -> Spread:
    """Return how all rows are spread, or raise an error where there are none."""
    rows = sum(spread.rows for spread in spreads)
    if rows == 0:
        raise ValueError("X has no rows")
    check_total([spread.mass for spread in spreads])
    mass = math.fsum(spread.mass for spread in spreads)
    mean = np.sum([spread.mass / mass * spread.mean for spread in spreads], axis=0)
    squares = math.fsum(spread.around(mean) for spread in spreads)
    return Spread(rows, sum(spread.present for spread in spreads), mass, mean, squares)


def draw_rows(runner: Any, spreads: list[Spread], m: int, seed: int) -> WeightedRows:
    """Return a coreset of m draws from partitions whose spread is known, by one load."""
    every = merge_spreads(spreads)
    chances = np.array(
        [
            0.5 * spread.mass / every.mass
            + (0.5 * spread.around(every.mean) / every.squares if every.squares > 0 else 0.0)
            for spread in spreads
        ]
    )
    chances /= chances.sum()
    counts = np.random.default_rng(seed).multinomial(m, chances)
    if m >= every.present:
        counts[:] = ALL
    found = runner.map(draw_share, every, counts, m * chances, seed)
    found = [part for part in found if part.weights.size]
    rows = stacked([part.rows for part in found])
    return WeightedRows(rows, np.concatenate([part.weights for part in found]))


def draw_share(
    partition: Partition, number: int, every: Spread, counts: Ints, expected: Floats, seed: int
) -> WeightedRows:
    """Return a partition's part of a coreset, by the draws that each one has and is expected to."""
    draws, X, weights = int(counts[number]), partition.X, partition.weights
    if draws == ALL:
        chosen = np.flatnonzero(weights)
        return WeightedRows(X[chosen], weights[chosen])
    if draws == 0:
        return WeightedRows(X[:0], np.empty(0))
    squares = weights * squared_distances(X, every.mean)
    values = weights / every.mass + (squares / every.squares if every.squares > 0 else 0.0)
    drawn: Coreset = draw_coreset(values, weights, draws, seed + (number << 64))
    return WeightedRows(X[drawn.indices], draws / expected[number] * drawn.weights)
