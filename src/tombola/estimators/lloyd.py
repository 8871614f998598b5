"""Lloyd's algorithm: each centre moves to the mean of the rows that it is nearest to."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from tombola.compiling import kernel
from tombola.problems.kmeans import KMeans, evaluate_items, kept
from tombola.problems.rows import Sparse

__all__ = ["Assignment", "assign"]

BLOCK = 2**17  # values of a block of rows, and of its products with the centres: about a megabyte
PARTS = 16  # sums of rows that are added up in the end; not a matter of the number of threads


class Assignment(NamedTuple):
    """The nearest centre of each row, and the means of the rows of each centre."""

    labels: NDArray[np.int32]  # (n,)
    losses: NDArray[np.float64]  # (n,): s_i |x_i - q|^2
    means: NDArray[np.float64]  # (n_clusters, d); where a centre has no rows, the centre itself


class _Moved(NamedTuple):
    """Centres seen from their mean, in which products of matrices lose the least precision."""

    origin: NDArray[Any]  # (d,)
    centres: NDArray[np.float64]  # (n_clusters, d)
    columns: NDArray[Any]  # (d, n_clusters): the same, as the rows are stored
    halves: NDArray[np.float64]  # |q|^2 / 2


def assign(problem: KMeans, centres: NDArray[np.float64]) -> Assignment:
    """Return the nearest centre of each row, and the means of the rows of each centre.

    Rows are read once. Blocks of dense rows are compared with all centres by a product of
    matrices, x.q - |q|^2 / 2, in the precision of the rows: a row that is equally far from two
    centres within rounding may go to either. Its loss is exact.

    As many threads are used as BLAS may use.

    Examples
    --------
    >>> assigned = assign(KMeans([[0.0], [1.0], [10.0]], 2), np.array([[0.0], [9.0]]))
    >>> assigned.labels, assigned.losses, assigned.means.ravel()
    (array([0, 0, 1], dtype=int32), array([0., 1., 1.]), array([ 0.5, 10. ]))
    """
    model, (k, d) = problem.model, centres.shape
    labels, losses = np.empty(problem.n, dtype=np.int32), np.empty(problem.n)
    if isinstance(model.rows, Sparse):
        masses, sums, origin = np.zeros(k), np.zeros((k, d)), np.zeros(d)
        evaluate_items(model, kept(centres), np.empty(k), losses, labels, masses, sums)
    else:
        moved = _move(centres, model.rows.values.dtype)
        masses, sums = _assign_dense(model, moved, labels, losses)
        origin = moved.origin
    means, some = centres.copy(), masses > 0
    means[some] = sums[some] / masses[some, None] + origin
    return Assignment(labels, losses, means)


def _move(centres: NDArray[np.float64], dtype: Any) -> _Moved:
    origin = centres.mean(axis=0).astype(dtype)
    moved = centres - origin
    columns = np.ascontiguousarray(moved.T, dtype=dtype)
    return _Moved(origin, moved, columns, 0.5 * (moved * moved).sum(axis=1))


def _assign_dense(model: Any, moved: _Moved, labels: Any, losses: Any) -> tuple[Any, Any]:
    """Write labels and losses; return masses and sums of the rows of each centre."""
    task = partial(_assign_part, model, moved, labels, losses)
    parts = list(_slices(labels.size, -(-labels.size // PARTS)))
    libraries = _libraries()
    threads = max((library["num_threads"] for library in libraries.info()), default=1)
    with libraries.limit(limits=1):
        if threads == 1:
            done = list(map(task, parts))
        else:
            with ThreadPoolExecutor(min(threads, PARTS)) as pool:
                done = list(pool.map(task, parts))
    return sum(masses for masses, _ in done), sum(sums for _, sums in done)


def _assign_part(model: Any, moved: _Moved, labels: Any, losses: Any, part: slice) -> Any:
    """Write labels and losses of some rows; return their masses and sums."""
    k, d = moved.centres.shape
    masses, sums = np.zeros(k), np.zeros((k, d))
    values, weights = model.rows.values[part], model.weights[part]
    labels, losses = labels[part], losses[part]
    for block in _slices(len(values), max(1, BLOCK // max(k, d))):
        rows = values[block] - moved.origin
        assign_block(
            rows, rows @ moved.columns, moved.halves, moved.centres, weights[block],
            labels[block], losses[block], masses, sums,
        )  # fmt: skip
    return masses, sums


@cache
def _libraries() -> Any:
    """Return what controls the threads of BLAS; it takes milliseconds to find."""
    return ThreadpoolController().select(user_api="blas")


def _slices(size: int, step: int) -> Iterator[slice]:
    return (slice(at, at + step) for at in range(0, size, step))


@kernel(releases_gil=True)
def assign_block(
    rows: Any, products: Any, halves: Any, centres: Any, weights: Any,
    labels: Any, losses: Any, masses: Any, sums: Any,
) -> None:  # fmt: skip
    """Write label and loss of each row of a block; add it to the mass and the sum of its centre."""
    for i in range(labels.size):
        best, top = 0, products[i, 0] - halves[0]
        for q in range(1, halves.size):
            value = products[i, q] - halves[q]
            if value > top:
                best, top = q, value
        labels[i] = best
        losses[i] = weights[i] * squared_distance(rows[i], centres[best])
        masses[best] += weights[i]
        for j in range(rows.shape[1]):
            sums[best, j] += weights[i] * rows[i, j]


@kernel(inline=True, fast=True)
def squared_distance(row: Any, centre: Any) -> Any:
    """Return sum_j (row[j] - centre[j])^2."""
    total = 0.0
    for j in range(row.size):
        total += (row[j] - centre[j]) * (row[j] - centre[j])
    return total
