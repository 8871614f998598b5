"""The data, row by row: dense or compressed sparse rows, used without a copy."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import kernel, prefetch
from tombola.state import Floats, Ints, State, derived

__all__ = [
    "Dense",
    "Rows",
    "Sparse",
    "as_rows",
    "checked_array",
    "mean_entries",
    "shape_of",
    "squared_norms",
    "transposed",
    "transposed_part",
]

FETCHED = 128  # entries of a dense row that are prefetched


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

    def add_outers(self, items: Ints, factors: Any, block: Any, matrix: Any) -> None:
        """Add factors x x' over rows x, with a one at the end if the matrix is wider.

        Only the lower triangle is added to. `block` is scratch, of shape (8, width).
        """
        for start in range(0, items.size, 4):
            fill_block(self.values, items, factors, start, block)
            add_block(block, matrix)

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

    def add_outers(self, items: Ints, factors: Any, block: Any, matrix: Any) -> None:
        """Add factors x x' over rows x, with a one at the end if the matrix is wider.

        Only the lower triangle is added to.
        """
        d, values, columns, starts = self.shape[1], self.values, self.columns, self.starts
        for b in range(items.size):
            item, factor = items[b], factors[b]
            sparse_add_outer(values, columns, starts, item, factor, matrix)
            if matrix.shape[0] > d:
                sparse_add(values, columns, starts, item, factor, matrix[d])
                matrix[d, d] += factor

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


@kernel(inner=True)
def fill_block(values: Any, items: Ints, factors: Any, start: Any, block: Any) -> None:
    """Write four rows, and the same times their factors; ones if the block is wider."""
    d = values.shape[1]
    for r in range(4):
        place = min(start + r, items.size - 1)
        item, factor = items[place], factors[place] if start + r < items.size else 0.0
        for j in range(block.shape[1]):
            value = np.float64(values[item, j]) if j < d else 1.0
            block[r, j] = value
            block[4 + r, j] = factor * value


@kernel(inner=True, fast=True)
def add_block(block: Any, matrix: Any) -> None:
    """matrix[j, k] += sum_r block[4 + r, j] block[r, k], for k <= j; four rows at a time."""
    for j in range(matrix.shape[0]):
        a, b, c, e = block[4, j], block[5, j], block[6, j], block[7, j]
        for k in range(j + 1):
            matrix[j, k] += a * block[0, k] + b * block[1, k] + c * block[2, k] + e * block[3, k]


@kernel(inline=True)
def sparse_add_outer(
    values: Any, columns: Any, starts: Any, item: int, factor: Any, matrix: Any
) -> None:
    """matrix[c, e] += factor x_c x_e over the entries of a row, for e <= c: columns rise."""
    begin, end = np.uint64(starts[item]), np.uint64(starts[item + 1])
    for j in range(begin, end):
        scaled = factor * values[j]
        out = matrix[columns[j]]
        for k in range(begin, j + np.uint64(1)):
            out[np.uint64(columns[k])] += scaled * values[k]


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
        matrix = checked_sparse(X, name).tocsr()
        n, d = matrix.shape
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        entries = int(matrix.indptr[-1])  # the arrays may be longer
        values = checked_values(matrix.data[:entries], f"{name}.data", dimensions=1)
        wrong = first_infinite(values)
        if wrong is not None:
            row = int(np.searchsorted(matrix.indptr, wrong[0], side="right")) - 1
            raise ValueError(
                f"{name}[{row}, {matrix.indices[wrong]}] is {values[wrong]}, not finite"
            )
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


def checked_sparse(matrix: Any, name: str) -> Any:
    """Return a sparse matrix, or raise an error if it points outside of its shape or arrays.

    Neither our kernels nor scipy's conversions and products check. A matrix without such arrays
    (`lil`, `dok`, `dia`) is returned as CSR.
    """
    if getattr(matrix, "format", None) not in ("csr", "csc", "bsr", "coo"):
        matrix = matrix.tocsr()
    form, (n, d) = matrix.format, matrix.shape
    if form == "coo":
        for line, places, limit in (("row", matrix.row, n), ("col", matrix.col, d)):
            _check_range(places, limit, f"{name}.{line}")
        return matrix
    height, width = matrix.blocksize if form == "bsr" else (1, 1)
    lines, limit = (d, n) if form == "csc" else (n // height, d // width)
    indices, starts = matrix.indices, matrix.indptr
    if (
        starts.shape != (lines + 1,)
        or starts[0] != 0
        or starts[-1] > min(len(indices), len(matrix.data))
        or (starts[1:] < starts[:-1]).any()
    ):
        raise ValueError(
            f"{name}.indptr must be {lines + 1} rising numbers, from 0 to the number of entries"
        )
    _check_range(indices, limit, f"{name}.indices")
    return matrix


def _check_range(places: NDArray[Any], limit: int, name: str) -> None:
    if places.size and not (places.min() >= 0 and places.max() < limit):
        wrong = int(((places < 0) | (places >= limit)).argmax())
        raise ValueError(f"{name}[{wrong}] is {places[wrong]}, not from 0 to {limit - 1}")


def checked_array(values: Any, name: str, dimensions: int) -> NDArray[Any]:
    """Return finite float32 or float64 in C order, or raise an error that says what is wrong."""
    array = checked_values(values, name, dimensions)
    wrong = first_infinite(array)
    if wrong is not None:
        raise ValueError(f"{name}[{', '.join(map(str, wrong))}] is {array[wrong]}, not finite")
    return array


def checked_values(values: Any, name: str, dimensions: int) -> NDArray[Any]:
    """Return float32 or float64 in C order, or raise an error that names what was given."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold numbers, got dtype {array.dtype}")
    if array.ndim != dimensions:
        raise ValueError(f"{name} must have {dimensions} dimensions, got shape {array.shape}")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    return np.ascontiguousarray(array)


def first_infinite(array: NDArray[Any]) -> tuple[int, ...] | None:
    """Return the position of the first value that is infinite or not a number, or None."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(array.sum()):  # one pass without a mask; large values may overflow it
            return None
    wrong = np.argwhere(~np.isfinite(array))
    return tuple(int(k) for k in wrong[0]) if wrong.size else None


def shape_of(rows: Rows) -> tuple[int, int]:
    """Return the number of rows and of columns."""
    shape = rows.values.shape if isinstance(rows, Dense) else rows.shape
    return int(shape[0]), int(shape[1])


def mean_entries(rows: Rows) -> float:
    """Return the mean number of entries of a row: of those that are stored."""
    return float(rows.values.size / shape_of(rows)[0])


def squared_norms(rows: Rows, weights: Floats | None = None) -> Floats:
    """Return the squared norm of each row, with weights for the columns."""
    n, d = shape_of(rows)
    out = np.empty(n)
    fill_squares(rows, np.ones(d) if weights is None else weights, out)
    return out


@kernel
def fill_squares(rows: Rows, weights: Floats, out: Floats) -> None:
    """out[i] = sum_j weights[j] row_i[j]^2."""
    for item in range(out.size):
        out[item] = rows.square_sum(item, weights)


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
