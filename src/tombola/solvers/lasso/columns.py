"""The data of a problem by columns, for working sets: a few columns in memory, products with all.

A `Design` is all columns in place: dense in either order, or compressed sparse columns,
without a copy. A block is a growing selection of them, and what Newton's method needs of it.
"""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import kernel
from tombola.problems.rows import (
    Dense,
    Rows,
    Sparse,
    as_writable,
    shape_of,
    squared_norms,
    transposed_part,
)
from tombola.state import Floats

__all__ = ["Block", "DenseDesign", "Design", "SparseDesign", "as_design"]

Places = NDArray[np.int64]

LINE = 8  # rows that are copied together: as many float64 as a cache line holds


class Block(Protocol):
    """Some columns a_j of the data, in memory; with an intercept, dense ones are centred."""

    @property
    def lines(self) -> Any:
        """Columns as rows, those of the block among them."""

    @property
    def places(self) -> Places:
        """The places of the columns of the block in `lines`."""

    @property
    def entries(self) -> int:
        """The number of entries of the block that are stored."""

    def add(self, columns: Places) -> None:
        """Append columns."""

    def combine(self, w: Floats) -> Floats:
        """Return the sum of w_j a_j."""

    def dot(self, v: Floats) -> Floats:
        """Return a_j v for all columns of the block."""

    def squares(self, h: Floats) -> Floats:
        """Return the sum of h_i a_ij^2 for all columns of the block."""

    def fill_products(self, h: Floats, begin: int, out: Floats) -> None:
        """out[j, k] = sum_i h_i a_ij a_ik for j from `begin` on."""


class Design(Protocol):
    """All columns x_j of the data, (n, d)."""

    n: int
    d: int
    by_columns: bool  # whether a product with some of the columns is cheaper than with all

    def dot(self, v: Floats, among: Places) -> Floats:
        """Return x_j v for the columns `among`, which rise."""

    def squares(self, weights: Floats) -> Floats:
        """Return the sum of weights_i x_ij^2 for all columns."""

    def block(self, means: Floats) -> Block:
        """Return a block without columns; the dense one subtracts these means."""


def as_design(data: Any) -> Design:
    """Return the design of rows (`Dense`, `Sparse`), an array, or a matrix with `tocsc`."""
    if isinstance(data, Sparse):
        return SparseDesign(transposed_part(data, np.arange(shape_of(data)[0])), data)
    if isinstance(data, Dense):
        return DenseDesign(data.values)
    if hasattr(data, "tocsc"):
        matrix = data.tocsc()
        n, d = matrix.shape
        values, rows, starts = map(as_writable, (matrix.data, matrix.indices, matrix.indptr))
        return SparseDesign(Sparse(values, rows, starts, np.array([d, n])))
    return DenseDesign(data)


# --- dense ------------------------------------------------------------------------------------


class DenseDesign:
    """An array (n, d) of float32 or float64, in C or Fortran order."""

    def __init__(self, values: NDArray[Any]) -> None:
        self.n, self.d = values.shape
        self.by_columns = bool(values.flags.f_contiguous and not values.flags.c_contiguous)
        self.values = as_writable(values if self.by_columns else np.ascontiguousarray(values))
        # the rows, or the columns: what is contiguous
        self._lines = Dense(self.values.T if self.by_columns else self.values)

    def dot(self, v: Floats, among: Places) -> Floats:
        """Return x_j v for the columns `among`."""
        if self.by_columns and 2 * among.size < self.d:
            out = np.empty(among.size)
            fill_dots(self._lines, among, v, out)
            return out
        if self.values.dtype == np.float64:
            products = v @ self.values
        else:  # float32: summed in float64
            products = np.zeros(self.d)
            if self.by_columns:
                fill_dots(self._lines, np.arange(self.d), v, products)
            else:
                add_rows(self._lines, v, products)
        return np.asarray(products if among.size == self.d else products[among])

    def squares(self, weights: Floats) -> Floats:
        """Return the sum of weights_i x_ij^2 for all columns."""
        out = np.zeros(self.d)
        if self.by_columns:
            fill_weighted_squares(self._lines, np.arange(self.d), weights, out)
        else:
            add_weighted_squares(self.values, weights, out)
        return out

    def block(self, means: Floats) -> Block:
        """Return a block without columns."""
        return DenseBlock(self, means)


class DenseBlock:
    """Columns less their means, in float64."""

    def __init__(self, design: DenseDesign, means: Floats) -> None:
        self._design, self._means = design, means
        self.size = 0
        self._room = np.empty((0, design.n))

    @property
    def columns(self) -> Floats:
        """The columns, (size, n)."""
        return self._room[: self.size]

    @property
    def lines(self) -> Dense:
        """The columns, for kernels."""
        return Dense(self.columns)

    @property
    def places(self) -> Places:
        """The places of the columns in `lines`: all."""
        return np.arange(self.size)

    @property
    def entries(self) -> int:
        """The number of entries."""
        return self.columns.size

    def add(self, columns: Places) -> None:
        """Append columns."""
        begin, self.size = self.size, self.size + columns.size
        if self.size > len(self._room):
            room = np.empty((max(self.size, 2 * begin), self._design.n))
            room[:begin] = self._room[:begin]
            self._room = room
        out = self._room[begin : self.size]
        if self._design.by_columns:
            np.subtract(self._design.values.T[columns], self._means[columns, None], out=out)
        else:
            gather(self._design.values, columns, self._means, out)

    def combine(self, w: Floats) -> Floats:
        """Return the sum of w_j a_j."""
        support = np.flatnonzero(w)
        if 2 * support.size > self.size:
            return np.asarray(w @ self.columns)
        return np.asarray(w[support] @ self.columns[support])

    def dot(self, v: Floats) -> Floats:
        """Return a_j v for all columns of the block."""
        return np.asarray(self.columns @ v)

    def squares(self, h: Floats) -> Floats:
        """Return the sum of h_i a_ij^2 for all columns of the block."""
        out = np.empty(self.size)
        fill_weighted_squares(self.lines, self.places, h, out)
        return out

    def fill_products(self, h: Floats, begin: int, out: Floats) -> None:
        """out[j, k] = sum_i h_i a_ij a_ik for j from `begin` on."""
        size, some = self.size, np.flatnonzero(h)
        if (h == 1.0).all():
            scaled = self.columns
        elif 2 * some.size > h.size:
            scaled = self.columns * np.sqrt(h)
        else:
            scaled = self.columns[:, some] * np.sqrt(h[some])
        out[begin:size, begin:size] = scaled[begin:] @ scaled[begin:].T
        out[begin:size, :begin] = scaled[begin:] @ scaled[:begin].T


@kernel
def gather(values: NDArray[Any], columns: Places, means: Floats, out: Floats) -> None:
    """out[c] = column columns[c] less its mean, of an array by rows."""
    n = values.shape[0]
    for begin in range(0, n, LINE):
        stop = min(begin + LINE, n)
        for c in range(columns.size):
            j = columns[c]
            for i in range(begin, stop):
                out[c, i] = values[i, j] - means[j]


@kernel
def fill_dots(lines: Rows, among: Places, v: Floats, out: Floats) -> None:
    """out[c] = column among[c] times v."""
    for c in range(among.size):
        out[c] = lines.dot(among[c], v)


@kernel
def add_rows(rows: Rows, v: Floats, out: Floats) -> None:
    """Out += sum_i v_i x_i."""
    for i in range(v.size):
        if v[i] != 0.0:
            rows.add_row(i, v[i], out)


@kernel
def fill_weighted_squares(lines: Dense, among: Places, weights: Floats, out: Floats) -> None:
    """out[c] = sum_i weights[i] x_ij^2, of column j = among[c]."""
    for c in range(among.size):
        out[c] = weighted_square(lines.values[among[c]], weights)


@kernel(inline=True, fast=True)
def weighted_square(line: NDArray[Any], weights: Floats) -> Any:
    """Return the sum of weights[i] line[i]^2."""
    total = 0.0
    for i in range(line.size):
        total += weights[i] * np.float64(line[i]) * np.float64(line[i])
    return total


@kernel
def add_weighted_squares(values: NDArray[Any], weights: Floats, out: Floats) -> None:
    """out[j] += sum_i weights[i] x_ij^2, of rows."""
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            out[j] += weights[i] * np.float64(values[i, j]) * np.float64(values[i, j])


# --- sparse -----------------------------------------------------------------------------------


class SparseDesign:
    """Compressed sparse columns: `lines` has the columns as rows; `rows`, if any, the rows."""

    by_columns = True

    def __init__(self, lines: Sparse, rows: Sparse | None = None) -> None:
        self.lines, self.rows = lines, rows
        self.d, self.n = shape_of(lines)

    def dot(self, v: Floats, among: Places) -> Floats:
        """Return x_j v for the columns `among`."""
        out = np.empty(among.size)
        fill_dots(self.lines, among, v, out)
        return out

    def squares(self, weights: Floats) -> Floats:
        """Return the sum of weights_i x_ij^2 for all columns."""
        return squared_norms(self.lines, weights)

    def block(self, means: Floats) -> Block:
        """Return a block without columns; sparse columns are not centred."""
        return SparseBlock(self)


class SparseBlock:
    """Sparse columns, by their places in the design, and the same entries by rows."""

    def __init__(self, design: SparseDesign) -> None:
        self._design, self.lines = design, design.lines
        self.places: Places = np.empty(0, dtype=np.int64)
        self.entries = 0

    def add(self, columns: Places) -> None:
        """Append columns."""
        self.places = np.append(self.places, columns)
        self.entries += int((self.lines.starts[columns + 1] - self.lines.starts[columns]).sum())

    def combine(self, w: Floats) -> Floats:
        """Return the sum of w_j a_j."""
        out = np.zeros(self._design.n)
        add_columns(self.lines, self.places, w, out)
        return out

    def dot(self, v: Floats) -> Floats:
        """Return a_j v for all columns of the block."""
        return self._design.dot(v, self.places)

    def squares(self, h: Floats) -> Floats:
        """Return the sum of h_i a_ij^2 for all columns of the block."""
        out = np.empty(self.places.size)
        fill_sparse_squares(self.lines, self.places, h, out)
        return out

    def fill_products(self, h: Floats, begin: int, out: Floats) -> None:
        """out[j, k] = sum_i h_i a_ij a_ik for j from `begin` on."""
        if self._design.rows is None:
            rows = transposed_part(self.lines, self.places)
            add_products(self.lines, self.places, rows, h, begin, out)
        else:
            self._fill_products_by_rows(self._design.rows, h, begin, out)

    def _fill_products_by_rows(self, rows: Sparse, h: Floats, begin: int, out: Floats) -> None:
        """Do the same from rows, of which those without weight are not read."""
        size = self.places.size
        joined = np.full(self._design.d, -1)
        joined[self.places] = np.arange(size)
        widest = int(np.diff(rows.starts).max())
        scratch = np.empty(widest, dtype=np.int64), np.empty(widest)
        fresh = out[begin:size, :size]
        fresh[...] = 0.0
        add_products_by_rows(rows, np.flatnonzero(h), joined, h, begin, scratch, out)
        fresh[:, begin:] += np.tril(fresh[:, begin:], -1).T


@kernel
def fill_sparse_squares(lines: Sparse, among: Places, weights: Floats, out: Floats) -> None:
    """out[c] = sum_i weights[i] x_ij^2, of column j = among[c]."""
    for c in range(among.size):
        out[c] = lines.square_sum(among[c], weights)


@kernel
def add_columns(lines: Rows, columns: Places, w: Floats, out: Floats) -> None:
    """Out += sum_c w_c x_columns[c]."""
    for c in range(columns.size):
        if w[c] != 0.0:
            lines.add_row(columns[c], w[c], out)


@kernel
def add_products(
    lines: Sparse, columns: Places, rows: Sparse, h: Floats, begin: int, out: Floats
) -> None:
    """out[j, k] = sum_i h_i x_ij x_ik for j from `begin` on; the entries of rows rise."""
    for j in range(begin, columns.size):
        line = out[j]
        for c in range(columns.size):
            line[c] = 0.0
        for entry in range(lines.starts[columns[j]], lines.starts[columns[j] + 1]):
            i = lines.columns[entry]
            factor = h[i] * lines.values[entry]
            for k in range(rows.starts[i], rows.starts[i + 1]):
                c = rows.columns[k]
                if c > j:
                    break
                line[np.uint64(c)] += factor * rows.values[k]
        for c in range(begin, j):
            out[c, j] = line[c]


@kernel
def add_products_by_rows(
    rows: Sparse,
    items: Places,
    joined: Places,
    h: Floats,
    begin: int,
    scratch: Any,
    out: Floats,
) -> None:
    """out[j, k] += sum_i h_i x_ij x_ik for j from `begin` on and k <= j, over some rows.

    j and k count columns of the block: `joined` has their numbers, -1 for all other columns.
    """
    places, values = scratch
    for item in items:
        size = 0
        for entry in range(rows.starts[item], rows.starts[item + 1]):
            place = joined[rows.columns[entry]]
            if place >= 0:
                places[size], values[size] = place, rows.values[entry]
                size += 1
        for a in range(size):
            factor = h[item] * values[a]
            for b in range(a + 1):
                j, k = max(places[a], places[b]), min(places[a], places[b])
                if j >= begin:
                    out[j, k] += factor * values[b]
