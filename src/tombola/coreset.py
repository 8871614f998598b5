"""Coresets: a few weighted rows that stand for all of them."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.samplers import Static
from tombola.validation import check_finite, compressed_rows, whole

__all__ = ["Coreset", "coreset", "draw_coreset", "squared_distances"]

BLOCK = 2**17  # values that are read at a time: about a megabyte
LARGEST = 2.0**900  # limit of sample weights, so that their sums do not overflow


class Coreset(NamedTuple):
    """Rows, and the weight of each."""

    indices: NDArray[np.int64]
    weights: NDArray[np.float64]


def coreset(X: Any, m: int, sample_weight: ArrayLike | None = None, *, seed: int = 0) -> Coreset:
    """Draw rows and weights that estimate sums over all rows: a lightweight coreset.

        q_i = s_i / (2 S) + s_i d_i^2 / (2 V)      of m independent draws, then
        weight_i = (times drawn) s_i / (m q_i)

    with d_i the distance of row i to the weighted mean, S = sum_i s_i and V = sum_i s_i d_i^2.
    Half of the draws are in proportion to the sample weights, half go to rows far from the mean.
    For every function f, sum_i weight_i f(x_i) over the coreset has the expectation
    sum_i s_i f(x_i) over all rows: use it for k-means, k-medians, a mixture model, a plot.

    Parameters
    ----------
    X : array-like or scipy sparse matrix, shape (n, d)
        Read in blocks, twice: a memory map is never in memory as a whole.
    m : int
        The number of draws. With at least as many as rows of positive weight, these are all
        returned, with their own weights.
    sample_weight : array-like, shape (n,), optional
        s_i, at least 0; 1 by default.
    seed : int, default=0

    Returns
    -------
    indices : ndarray of int64
        The rows drawn, in increasing order and each once: m at most.
    weights : ndarray of float64
        The weight of each; on average they sum to S.

    Notes
    -----
    Guarantee for k-means, with cost(Q) = sum_i s_i min_q |x_i - q|^2, and V the cost of the mean
    alone. For any centres Q chosen before the draw, with a probability of at least
    1 - 2 exp(-m e^2 / (16 + 16 e / 3)),

        |cost of Q on the coreset - cost(Q)| <= e (cost(Q) + V)

    since a draw estimates cost(Q) by a number from 0 to 8 (cost(Q) + V) (Bernstein's inequality).
    It holds for all sets of k centres at once, with a probability of 1 - delta, if m is at least
    c (d k log k + log(1 / delta)) / e^2, for a constant c (Bachem, Lucic and Krause, theorem 2):
    the best centres for the coreset are then nearly the best for all rows.

    Probabilities are rounded as by `Static`, and weights are those of the rounded ones.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(10_000, 2))
    >>> indices, weights = coreset(X, 1000)
    >>> (weights[:, None] * X[indices]**2).sum(axis=0).round(-2)     # of all rows: 10,000
    array([9700., 9700.])

    References
    ----------
    Bachem, Lucic, Krause (2018). Scalable k-Means Clustering via Lightweight Coresets.
    """
    m = whole("m", m, 1)
    rows = _checked_rows(X)
    weights = _checked_weights(sample_weight, rows.shape[0])
    present = np.flatnonzero(weights)
    if m >= present.size:
        return Coreset(present, weights[present])
    shares = weights / weights.sum()
    with np.errstate(over="ignore", invalid="ignore"):
        if hasattr(rows, "tocsr"):
            mean = np.asarray(rows.T @ shares)
        else:
            mean = sum(shares[block] @ rows[block] for block in _blocks(rows))
    squares = weights * squared_distances(rows, mean)
    total = squares.sum()
    values = weights / weights.sum() + (squares / total if total > 0 else 0.0)
    return draw_coreset(values, weights, m, seed)


def draw_coreset(
    values: NDArray[np.float64], weights: NDArray[np.float64], m: int, seed: int
) -> Coreset:
    """Return a coreset of m draws in proportion to values; those of rows with weight are above 0.

    weight_i = (times drawn) s_i / (m q_i),    q_i = values_i / sum_j values_j
    """
    draw = Static(values, seed=seed).draw(m)
    indices, first, times = np.unique(draw.indices, return_index=True, return_counts=True)
    return Coreset(indices, times * weights[indices] / (m * draw.probabilities[first]))


def squared_distances(rows: Any, mean: Any) -> NDArray[np.float64]:
    """Return the squared distance of each row to a mean, or raise an error if it is too large."""
    with np.errstate(over="ignore", invalid="ignore"):
        if hasattr(rows, "tocsr"):
            places = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
            lengths = np.bincount(places, rows.data.astype(np.float64) ** 2, rows.shape[0])
            squared: NDArray[np.float64] = np.maximum(
                lengths - 2.0 * (rows @ mean) + mean @ mean, 0.0
            )
        else:
            squared = np.empty(rows.shape[0])
            for block in _blocks(rows):
                away = rows[block] - mean
                squared[block] = np.einsum("ij,ij->i", away, away)
        finite = np.isfinite(squared.sum())
    if not finite:
        check_finite(rows, "X")
        raise ValueError(
            f"X holds a value of {abs(rows).max():g}: squared distances to the mean would overflow"
        )
    return squared


def _blocks(rows: NDArray[Any]) -> Iterator[slice]:
    """Yield slices of rows with about `BLOCK` values each."""
    step = max(1, BLOCK // rows.shape[1])
    return (slice(at, at + step) for at in range(0, rows.shape[0], step))


def _checked_rows(X: Any) -> Any:
    """Return X as an array or as CSR without duplicates, or raise an error that says what it is."""
    rows: Any = compressed_rows(X, "X") if hasattr(X, "tocsr") else np.asarray(X)
    if rows.dtype.kind not in "fiub":
        raise TypeError(f"X must hold numbers, got dtype {rows.dtype}")
    if len(rows.shape) != 2 or 0 in rows.shape:
        raise ValueError(f"X must have rows and columns, at least one of each, got {rows.shape}")
    return rows


def _checked_weights(sample_weight: ArrayLike | None, n: int) -> NDArray[np.float64]:
    """Return a weight for each row, or raise an error that names the first wrong one."""
    if sample_weight is None:
        return np.ones(n)
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n,):
        raise ValueError(f"sample_weight must have shape ({n},), got {weights.shape}")
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        place = int(wrong.argmax())
        raise ValueError(f"sample_weight[{place}] is {weights[place]}, not finite and at least 0")
    if not weights.any():
        raise ValueError("all sample weights are 0: at least one must be positive")
    if weights.max() > LARGEST:
        raise ValueError(
            f"sample_weight[{weights.argmax()}] is {weights.max():g}, too large to add"
        )
    return weights
