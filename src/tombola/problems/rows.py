"""The data, row by row: dense or compressed sparse rows, used without a copy."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import kernel, prefetch
from tombola.state import Floats, Ints, State, derived
from tombola.validation import check_finite, checked_array, checked_values, compressed_rows

__all__ = [
    "Dense",
    "Rows",
    "Sparse",
    "as_rows",
    "blocks",
    "mean_entries",
    "products",
    "shape_of",
    "squared_norms",
    "taken",
    "transposed",
    "transposed_part",
]

FETCHED = 128  # entries of a dense row that are prefetched
BLOCK, LONGEST = 2**17, 2**14  # entries and rows for numpy at a time: they stay in the cache ...
SQUARED = 2**14  # ... as do these squares


class Dense(State):
    """An array of shape (n, d), in C order, float32 or float64."""

    values: NDArray[Any] = derived("the rows, (n, d)")

    def dot(self, item: int, vector: Any) -> Any:
        """Return the inner product of a row and a vector (which may be longer)."""
        return dense_dot(self.values[item], vector)

    def soft_dot(self, item: int, vector: Any, threshold: Any) -> Any:
        """Return the inner product of a row and a vector moved towards 0 by a threshold."""
        return dense_soft_dot(self.values[item], vector, threshold)

    def add_row(self, item: int, factor: Any, vector: Any) -> None:
        """Add a multiple of a row to a vector (which may be longer)."""
        dense_add(self.values[item], factor, vector)

    def add_scaled(self, item: int, factor: Any, scales: Any, vector: Any) -> None:
        """Add a multiple of a row to a vector, each entry times a scale of its own."""
        dense_add_scaled(self.values[item], factor, scales, vector)

    def multiply(self, item: int, origin: Any, matrix: Any, out: Any) -> None:
        """Write (row - origin) @ matrix, in the precision of `out`."""
        dense_multiply(self.values[item], origin, matrix, out)

    def squared_distance(self, item: int, point: Any, about: Any) -> Any:
        """Return |row - point|^2, in float64."""
        return dense_squared(self.values[item], point)

    def prefetch_row(self, item: int) -> None:
        """Prefetch the beginning of a row; the processor then fetches ahead by itself."""
        values = self.values[item]
        for j in range(0, min(values.size, FETCHED), 64 // values.itemsize):
            prefetch(values, j)

    def square_sum(self, item: int, weights: Any) -> Any:
        """Return the sum of weights[j] row[j]^2."""
        total = 0.0
        for j in range(self.values.shape[1]):
            total += weights[j] * np.float64(self.values[item, j]) ** 2
        return total

    def first(self, item: int) -> Any:
        """Return the index of a row's first entry."""
        return 0

    def end(self, item: int) -> Any:
        """Return the index after that of a row's last entry."""
        return self.values.shape[1]

    def column(self, entry: Any) -> Any:
        """Return the column of an entry."""
        return entry


class Sparse(State):
    """Compressed sparse rows: columns and values of row i lie from starts[i] to starts[i + 1]."""

    values: NDArray[Any] = derived("the entries that are stored, row by row")
    columns: NDArray[Any] = derived("the column of each entry")
    starts: NDArray[Any] = derived("where each row begins, and where the last one ends")
    shape: Ints = derived("n and d")

    def dot(self, item: int, vector: Any) -> Any:
        """Return the inner product of a row and a vector (which may be longer)."""
        return sparse_dot(self.values, self.columns, self.starts, item, vector)

    def soft_dot(self, item: int, vector: Any, threshold: Any) -> Any:
        """Return the inner product of a row and a vector moved towards 0 by a threshold."""
        return sparse_soft_dot(self.values, self.columns, self.starts, item, vector, threshold)

    def add_row(self, item: int, factor: Any, vector: Any) -> None:
        """Add a multiple of a row to a vector (which may be longer)."""
        sparse_add(self.values, self.columns, self.starts, item, factor, vector)

    def add_scaled(self, item: int, factor: Any, scales: Any, vector: Any) -> None:
        """Add a multiple of a row to a vector, each entry times a scale of its own."""
        for k in range(np.uint64(self.starts[item]), np.uint64(self.starts[item + 1])):
            j = np.uint64(self.columns[k])
            vector[j] += factor * scales[j] * self.values[k]

    def multiply(self, item: int, origin: Any, matrix: Any, out: Any) -> None:
        """Write row @ matrix; sparse rows are seen from 0."""
        out[:] = 0.0
        for k in range(np.uint64(self.starts[item]), np.uint64(self.starts[item + 1])):
            line = matrix[np.uint64(self.columns[k])]
            for q in range(out.size):
                out[q] += self.values[k] * line[q]

    def squared_distance(self, item: int, point: Any, about: Any) -> Any:
        """Return what the caller knows about |row - point|^2, which would take as many terms."""
        return about

    def prefetch_row(self, item: int) -> None:
        """Prefetch the beginning of a row."""
        prefetch(self.values, self.starts[item])
        prefetch(self.columns, self.starts[item])

    def square_sum(self, item: int, weights: Any) -> Any:
        """Return the sum of weights[j] row[j]^2."""
        total = 0.0
        for k in range(self.starts[item], self.starts[item + 1]):
            total += weights[self.columns[k]] * np.float64(self.values[k]) ** 2
        return total

    def first(self, item: int) -> Any:
        """Return the index of a row's first entry."""
        return np.int64(self.starts[item])

    def end(self, item: int) -> Any:
        """Return the index after that of a row's last entry."""
        return np.int64(self.starts[item + 1])

    def column(self, entry: Any) -> Any:
        """Return the column of an entry."""
        return np.int64(self.columns[entry])


Rows = Dense | Sparse


@kernel(inline=True, fast=True)
def dense_dot(row: Any, vector: Any) -> Any:
    """Return the sum of row[j] vector[j], in float64."""
    total = 0.0
    for j in range(row.size):
        total += row[j] * vector[j]
    return total


@kernel(inline=True, fast=True)
def dense_squared(row: Any, point: Any) -> Any:
    """Return the sum of (row[j] - point[j])^2, in float64."""
    total = 0.0
    for j in range(row.size):
        total += (row[j] - point[j]) * (row[j] - point[j])
    return total


@kernel(inline=True)
def dense_multiply(row: Any, origin: Any, matrix: Any, out: Any) -> None:
    """Write (row - origin) @ matrix, with four entries of the row at a time."""
    out[:] = 0.0
    whole = row.size - row.size % 4
    for j in range(0, whole, 4):
        a, b = row[j] - origin[j], row[j + 1] - origin[j + 1]
        c, d = row[j + 2] - origin[j + 2], row[j + 3] - origin[j + 3]
        for q in range(out.size):
            out[q] += (
                a * matrix[j, q]
                + b * matrix[j + 1, q]
                + (c * matrix[j + 2, q] + d * matrix[j + 3, q])
            )
    for j in range(whole, row.size):
        for q in range(out.size):
            out[q] += (row[j] - origin[j]) * matrix[j, q]


@kernel(inline=True)
def dense_soft_dot(row: Any, vector: Any, threshold: Any) -> Any:
    """Return the sum of row[j] soft(vector[j], threshold), in float64."""
    total = 0.0
    for j in range(row.size):
        total += row[j] * (vector[j] - min(max(vector[j], -threshold), threshold))
    return total


@kernel(inline=True)
def dense_add(row: Any, factor: Any, vector: Any) -> None:
    """vector[j] += factor row[j]."""
    for j in range(row.size):
        vector[j] += factor * row[j]


@kernel(inline=True)
def dense_add_scaled(row: Any, factor: Any, scales: Any, vector: Any) -> None:
    """vector[j] += factor scales[j] row[j]."""
    for j in range(row.size):
        vector[j] += factor * scales[j] * row[j]


@kernel(inline=True)
def sparse_dot(values: Any, columns: Any, starts: Any, item: int, vector: Any) -> Any:
    """Return the sum of values[k] vector[columns[k]] over a row, in float64."""
    total = 0.0
    for k in range(np.uint64(starts[item]), np.uint64(starts[item + 1])):
        total += (
            values[k] * vector[np.uint64(columns[k])]
        )  # unsigned: not checked for negative values
    return total


@kernel(inline=True)
def sparse_soft_dot(
    values: Any, columns: Any, starts: Any, item: int, vector: Any, threshold: Any
) -> Any:
    """Return the sum of values[k] soft(vector[columns[k]], threshold) over a row, in float64."""
    total = 0.0
    for k in range(np.uint64(starts[item]), np.uint64(starts[item + 1])):
        v = vector[np.uint64(columns[k])]
        total += values[k] * (v - min(max(v, -threshold), threshold))
    return total


@kernel(inline=True)
def sparse_add(values: Any, columns: Any, starts: Any, item: int, factor: Any, vector: Any) -> None:
    """vector[columns[k]] += factor values[k] over a row."""
    for k in range(np.uint64(starts[item]), np.uint64(starts[item + 1])):
        vector[np.uint64(columns[k])] += factor * values[k]


def as_rows(X: Any, name: str = "X") -> Rows:
    """Return data as rows: without a copy if it is C-ordered float32 or float64, or CSR.

    Integers, booleans and other orders are copied; a scipy sparse matrix is recognised by its
    method `tocsr`. NaN and infinity raise an error that says where they are.

    Examples
    --------
    >>> type(as_rows([[1, 2], [3, 4]])).__name__
    'Dense'
    """
    if hasattr(X, "tocsr"):
        if len(X.shape) != 2:
            raise ValueError(f"{name} must have 2 dimensions, got shape {X.shape}")
        matrix = compressed_rows(X, name)
        n, d = matrix.shape
        entries = int(matrix.indptr[-1])  # the arrays may be longer
        values = checked_values(matrix.data[:entries], f"{name}.data", dimensions=1)
        check_finite(matrix, name)
        columns, starts = as_writable(matrix.indices[:entries]), as_writable(matrix.indptr)
        rows: Rows = Sparse(as_writable(values), columns, starts, np.array([n, d]))
    else:
        values = checked_array(X, name, dimensions=2)
        n, d = values.shape
        rows = Dense(as_writable(values))
    if n == 0 or d == 0:
        raise ValueError(f"{name} must have at least one row and one column, got shape {(n, d)}")
    return rows


class _Alias:
    """Declares the memory of an array writable, and keeps the array alive."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array
        address = (array.ctypes.data, False)
        self.__array_interface__ = {**array.__array_interface__, "data": address}


def as_writable(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view of the same type for read-only and writable arrays; kernels only read it.

    Kernels would otherwise be compiled again for read-only arrays, such as mapped files.
    """
    return array if array.flags.writeable else np.asarray(_Alias(array))


def shape_of(rows: Rows) -> tuple[int, int]:
    """Return the number of rows and of columns."""
    shape = rows.values.shape if isinstance(rows, Dense) else rows.shape
    return int(shape[0]), int(shape[1])


def mean_entries(rows: Rows) -> float:
    """Return the mean number of entries of a row: of those that are stored."""
    return float(rows.values.size / shape_of(rows)[0])


def squared_norms(rows: Rows, weights: Floats | None = None) -> Floats:
    """Return the squared norm of each row, with weights for the columns.

    The squares of a row are added in the order of its entries, on every machine.
    """
    n, d = shape_of(rows)
    if isinstance(rows, Sparse):
        from scipy.sparse import csr_matrix  # as in `blocks`

        with np.errstate(over="ignore"):
            squares = np.square(rows.values, dtype=np.float64)
        if weights is not None:
            squares *= weights[rows.columns]
        parts = squares, rows.columns, rows.starts
        return np.asarray(csr_matrix(parts, shape=(n, d), copy=False) @ np.ones(d))
    out, size = np.empty(n), max(1, SQUARED // rows.values.shape[1])
    with np.errstate(over="ignore"):
        for begin in range(0, n, size):
            part = rows.values[begin : begin + size]
            squares = np.square(part.T, order="C", dtype=np.float64)
            if weights is not None:
                squares *= weights[:, None]
            squares.sum(axis=0, out=out[begin : begin + size])
    return out


def blocks(rows: Rows) -> Iterator[tuple[slice, Any]]:
    """Yield the rows in parts: which rows, and a matrix of them in float64.

    Without a copy of what is float64. Sparse rows are scipy's, dense ones an array.
    """
    n, d = shape_of(rows)
    if isinstance(rows, Dense):
        size = min(max(1, BLOCK // d), LONGEST)
        for begin in range(0, n, size):
            where = slice(begin, min(begin + size, n))
            yield where, rows.values[where].astype(np.float64, copy=False)
        return
    from scipy.sparse import csr_matrix  # there are no sparse rows without scipy

    starts, begin = rows.starts, 0
    while begin < n:
        limit = int(starts[begin]) + 16 * BLOCK  # scipy's matrices are slow to make
        end = max(begin + 1, int(np.searchsorted(starts, limit, side="right")) - 1)
        where, entries = slice(begin, end), slice(int(starts[begin]), int(starts[end]))
        values = rows.values[entries].astype(np.float64, copy=False)
        parts = values, rows.columns[entries], starts[begin : end + 1] - starts[begin]
        yield where, csr_matrix(parts, shape=(end - begin, d), copy=False)
        begin = end


def products(rows: Rows, w: Floats) -> Floats:
    """Return the inner product of each row with a vector, or with each row of a matrix."""
    out = np.empty((shape_of(rows)[0], *w.shape[:-1]))
    for where, matrix in blocks(rows):
        out[where] = matrix @ w.T
    return out


def taken(rows: Rows, items: Ints) -> Rows:
    """Return some rows, a copy."""
    if isinstance(rows, Dense):
        return Dense(rows.values[items])
    sizes = np.diff(rows.starts)[items]
    starts = np.zeros(items.size + 1, dtype=rows.starts.dtype)
    np.cumsum(sizes, out=starts[1:])
    places = np.arange(starts[-1]) + np.repeat(rows.starts[:-1][items] - starts[:-1], sizes)
    shape = np.array([items.size, rows.shape[1]])
    return Sparse(rows.values[places], rows.columns[places], starts, shape)


def transposed(rows: Rows) -> Rows:
    """Return the columns as rows, a copy."""
    if isinstance(rows, Dense):
        return Dense(np.ascontiguousarray(rows.values.T))
    return transposed_part(rows, np.arange(shape_of(rows)[0]))


def transposed_part(rows: Sparse, items: Ints) -> Sparse:
    """Return the transpose of some rows, in O(entries); its column c is row items[c]."""
    d = shape_of(rows)[1]
    starts = np.zeros(d + 1, dtype=np.int64)
    count_entries(rows, items, starts)
    size = int(starts.sum())
    starts = np.cumsum(starts)
    columns = np.empty(size, np.int32 if items.size < 2**31 else np.int64)
    values = np.empty(size, rows.values.dtype)
    move_entries(rows, items, starts[:-1].copy(), columns, values)
    return Sparse(values, columns, starts, np.array([d, items.size]))


@kernel
def count_entries(rows: Sparse, items: Ints, starts: Ints) -> None:
    """starts[j + 1] = the number of entries in column j."""
    for c in range(items.size):
        for k in range(rows.starts[items[c]], rows.starts[items[c] + 1]):
            starts[rows.columns[k] + 1] += 1


@kernel
def move_entries(rows: Sparse, items: Ints, ends: Ints, columns: Any, values: Any) -> None:
    """Append the entries of each row to their columns, which end at `ends`."""
    for c in range(items.size):
        for k in range(rows.starts[items[c]], rows.starts[items[c] + 1]):
            j = rows.columns[k]
            columns[ends[j]] = c
            values[ends[j]] = rows.values[k]
            ends[j] += 1
