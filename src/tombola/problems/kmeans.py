"""k-means: the loss of an item is its squared distance to the nearest of k centres.

The kernels keep the centres transposed, so that each value of a row meets all centres side by
side in memory. With sparse rows, only the columns of the row's entries are read.
"""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.compiling import kernel
from tombola.problems.linear import checked_weights
from tombola.problems.rows import Dense, Rows, Sparse, as_rows, shape_of, squared_norms
from tombola.state import Floats, Ints, State, array, derived

__all__ = ["Centres", "KMeans", "KMeansModel", "Scratch", "kept", "new_scratch"]

TOO_LONG = 2.0**900  # limit of the squared norms of rows, so that their sums do not overflow
TOO_FAR = 2.0**400  # limit of the values of a solution


class Centres(State):
    """Centre q is ``w[:, q] * shares[q]``.

    With dense rows all shares are 1. With sparse rows w holds sums of rows, and the shares
    are 1 over their number, so that including a row in the average touches only its own columns.
    """

    w: Floats = array("the centres or sums, (d, n_clusters)")
    counts: Floats = array("the weight that each centre is the average of; 0 at the start", 0.0)
    shares: Floats = array("the factor of each centre", 0.0)
    squares: Floats = array("|w[:, q]|^2, for sparse rows", 0.0)


class Scratch(State):
    """Space for the kernels; with sparse rows, `distances` alone is used."""

    distances: Floats = derived("(n_clusters,)")
    products: NDArray[Any] = derived("of two rows with all centres, in the precision of the rows")
    halves: NDArray[Any] = derived("|q|^2 / 2, in that precision, like what follows")
    origin: NDArray[Any] = derived("the mean of the centres, from which all is seen")
    lines: NDArray[Any] = derived("the centres, less the origin, (n_clusters, d)")
    masses: Floats = derived("sums of amounts, in float64")
    sums: Floats = derived("sums of amounts times rows, in float64, (n_clusters, d)")


class KMeansModel(State):
    """The arrays of a problem, as one argument for kernels."""

    rows: Rows = derived("the data")
    weights: Floats = derived("s_i, of mean 1")
    squares: Floats = derived("|x_i|^2")

    def fill_distances(self, item: int, centres: Centres, out: Floats) -> None:
        """Write the squared distance of an item to each centre."""
        raise NotImplementedError

    def find_nearest(
        self, items: Ints, centres: Centres, scratch: Scratch, labels: Ints, squared: Floats
    ) -> None:
        """Write the nearest centre of each item, the first of ties, and its squared distance."""
        raise NotImplementedError

    def include(
        self, items: Ints, amounts: Floats, centres: Centres, scratch: Scratch, labels: Ints
    ) -> None:
        """Include each item, with its amount, in the average that is its nearest centre."""
        raise NotImplementedError


class DenseModel(KMeansModel):
    """Dense rows: distances are sums of squares, and all of a centre moves."""

    rows: Dense = derived("the data")

    def fill_distances(self, item: int, centres: Centres, out: Floats) -> None:
        """out[q] = sum_j (x_j - q_j)^2."""
        dense_distances(self.rows.values[item], centres.w, out)

    def find_nearest(
        self, items: Ints, centres: Centres, scratch: Scratch, labels: Ints, squared: Floats
    ) -> None:
        """Compare two rows at a time with all centres."""
        dense_nearest(self.rows.values, items, centres.w, scratch, labels, squared)

    def include(
        self, items: Ints, amounts: Floats, centres: Centres, scratch: Scratch, labels: Ints
    ) -> None:
        """counts[q] += amount;  q += amount / counts[q] (x - q), for all items at once."""
        dense_include(self.rows.values, items, amounts, centres, scratch, labels)


class SparseModel(KMeansModel):
    """Sparse rows: |x|^2 - 2 x.q + |q|^2 needs only the row's own columns.

    The error is about 1e-16 (|x|^2 + |q|^2), which may exceed 1e-16 of the distance.
    """

    rows: Sparse = derived("the data")

    def fill_distances(self, item: int, centres: Centres, out: Floats) -> None:
        """out[q] = max(0, |x|^2 - 2 x.q + |q|^2)."""
        sparse_distances(self, item, centres, out)

    def find_nearest(
        self, items: Ints, centres: Centres, scratch: Scratch, labels: Ints, squared: Floats
    ) -> None:
        """Compare one row after the other with all centres."""
        for b in range(items.size):
            labels[b] = nearest(self, items[b], centres, scratch.distances)
            squared[b] = scratch.distances[labels[b]]

    def include(
        self, items: Ints, amounts: Floats, centres: Centres, scratch: Scratch, labels: Ints
    ) -> None:
        """counts[q] += amount;  w_q += amount x, where the centre is w_q / counts[q]."""
        for b in range(items.size):
            if amounts[b] > 0.0:
                sparse_include(self, items[b], amounts[b], centres, labels[b])


@kernel
def dense_distances(row: NDArray[Any], w: Floats, out: Floats) -> None:
    """out[q] = sum_j (row[j] - w[j, q])^2, four columns at a time.

    The inner loop runs over centres, each with its own sum: it is vectorised without a change
    of the order of additions, so the result is the same on all machines.
    """
    d, clusters = w.shape
    for q in range(clusters):
        out[q] = 0.0
    whole = d - d % 4
    for j in range(0, whole, 4):
        x0, x1 = np.float64(row[j]), np.float64(row[j + 1])
        x2, x3 = np.float64(row[j + 2]), np.float64(row[j + 3])
        w0, w1, w2, w3 = w[j], w[j + 1], w[j + 2], w[j + 3]
        for q in range(clusters):
            a0, a1, a2, a3 = x0 - w0[q], x1 - w1[q], x2 - w2[q], x3 - w3[q]
            out[q] += a0 * a0 + a1 * a1 + a2 * a2 + a3 * a3
    for j in range(whole, d):
        x, w0 = np.float64(row[j]), w[j]
        for q in range(clusters):
            out[q] += (x - w0[q]) * (x - w0[q])


@kernel
def dense_nearest(
    values: NDArray[Any], items: Ints, w: Floats, scratch: Scratch, labels: Ints, squared: Floats
) -> None:
    """Write nearest centres, by the largest x.q - |q|^2 / 2, and exact squared distances.

    Rows and centres are seen from the mean of the centres, where products lose the least
    precision, which is that of the rows: of centres that are equally far within it, any is taken.
    """
    products, halves = scratch.products, scratch.halves
    origin, lines = scratch.origin, scratch.lines
    d, clusters = w.shape
    for q in range(clusters):
        halves[q] = 0.0
    for j in range(d):
        total = 0.0
        for q in range(clusters):
            total += w[j, q]
        origin[j] = total / clusters
        for q in range(clusters):
            lines[q, j] = w[j, q] - origin[j]
            halves[q] += 0.5 * lines[q, j] * lines[q, j]
    last = items.size - 1
    for b in range(0, items.size, 2):
        multiply_two(values[items[b]], values[items[min(b + 1, last)]], origin, lines, products)
        for place in range(b, min(b + 2, items.size)):
            line = products[place - b]
            best = 0
            for q in range(1, clusters):
                if line[q] - halves[q] > line[best] - halves[best]:
                    best = q
            labels[place] = best
            squared[place] = squared_distance(values[items[place]], origin, lines[best])


@kernel(fast=True)
def multiply_two(x: Any, y: Any, origin: Any, lines: Any, out: Any) -> None:
    """out[0, q] = sum_j (x_j - origin_j) lines_qj, out[1, q] the same of y; four q at a time."""
    clusters, d = lines.shape
    whole = clusters - clusters % 4
    for q in range(0, whole, 4):
        a, b, c, e = lines[q], lines[q + 1], lines[q + 2], lines[q + 3]
        xa = xb = xc = xe = ya = yb = yc = ye = lines.dtype.type(0)
        for j in range(d):
            at_x, at_y = x[j] - origin[j], y[j] - origin[j]
            xa += at_x * a[j]
            xb += at_x * b[j]
            xc += at_x * c[j]
            xe += at_x * e[j]
            ya += at_y * a[j]
            yb += at_y * b[j]
            yc += at_y * c[j]
            ye += at_y * e[j]
        out[0, q], out[0, q + 1], out[0, q + 2], out[0, q + 3] = xa, xb, xc, xe
        out[1, q], out[1, q + 1], out[1, q + 2], out[1, q + 3] = ya, yb, yc, ye
    for q in range(whole, clusters):
        a = lines[q]
        xa = ya = lines.dtype.type(0)
        for j in range(d):
            xa += (x[j] - origin[j]) * a[j]
            ya += (y[j] - origin[j]) * a[j]
        out[0, q], out[1, q] = xa, ya


@kernel(fast=True)
def squared_distance(row: Any, origin: Any, line: Any) -> Any:
    """Return sum_j (row[j] - origin[j] - line[j])^2."""
    total = 0.0
    for j in range(row.size):
        away = np.float64(row[j] - origin[j] - line[j])
        total += away * away
    return total


@kernel
def fill_losses(values: Any, weights: Any, origin: Any, centre: Any, out: Floats) -> None:
    """out[i] = s_i |x_i - q|^2, of one centre q: the origin and what is added to it."""
    for i in range(out.size):
        out[i] = weights[i] * squared_distance(values[i], origin, centre)


@kernel
def dense_include(
    values: NDArray[Any],
    items: Ints,
    amounts: Floats,
    centres: Centres,
    scratch: Scratch,
    labels: Ints,
) -> None:
    """Average: counts[q] += sum of amounts;  q += (sum of amounts (x - q)) / counts[q]."""
    w, counts, masses, sums = centres.w, centres.counts, scratch.masses, scratch.sums
    d, clusters = w.shape
    for q in range(clusters):
        masses[q] = 0.0
        for j in range(d):
            sums[q, j] = 0.0
    for b in range(items.size):
        row, line, amount = values[items[b]], sums[labels[b]], amounts[b]
        masses[labels[b]] += amount
        for j in range(d):
            line[j] += amount * row[j]
    for q in range(clusters):
        if masses[q] > 0.0:
            counts[q] += masses[q]
            for j in range(d):
                w[j, q] += (sums[q, j] - masses[q] * w[j, q]) / counts[q]


@kernel
def sparse_include(model: SparseModel, item: int, amount: Any, centres: Centres, q: Any) -> None:
    """Add an item to the sum that is centre q."""
    rows, w = model.rows, centres.w
    if centres.counts[q] == 0.0:  # the start is not part of the average
        for j in range(w.shape[0]):
            w[j, q] = 0.0
        centres.squares[q] = 0.0
    inner = 0.0
    for k in range(rows.first(item), rows.end(item)):
        j = rows.column(k)
        inner += rows.values[k] * w[j, q]
        w[j, q] += amount * rows.values[k]
    centres.counts[q] += amount
    centres.shares[q] = 1.0 / centres.counts[q]
    # |w + a x|^2 = |w|^2 + 2 a w.x + a^2 |x|^2
    change = amount * (2.0 * inner + amount * model.squares[item])
    centres.squares[q] = max(centres.squares[q] + change, 0.0)


@kernel
def sparse_distances(model: SparseModel, item: int, centres: Centres, out: Floats) -> None:
    """out[q] = max(0, |x|^2 + share (share |w_q|^2 - 2 x.w_q))."""
    rows, shares, squares = model.rows, centres.shares, centres.squares
    for q in range(out.size):
        out[q] = 0.0
    for k in range(rows.first(item), rows.end(item)):
        x, w = np.float64(rows.values[k]), centres.w[rows.column(k)]
        for q in range(out.size):
            out[q] += x * w[q]
    for q in range(out.size):
        distance = model.squares[item] + shares[q] * (shares[q] * squares[q] - 2.0 * out[q])
        out[q] = max(distance, 0.0)


@kernel(inline=True)
def nearest(model: KMeansModel, item: int, centres: Centres, out: Floats) -> Any:
    """Write the squared distances of an item; return the nearest centre, the first of ties."""
    model.fill_distances(item, centres, out)
    best = 0
    for q in range(1, out.size):
        if out[q] < out[best]:
            best = q
    return best


@kernel
def evaluate_items(
    model: KMeansModel,
    centres: Centres,
    scratch: Floats,
    losses: Floats,
    labels: NDArray[Any],
    masses: Floats,
    sums: Floats,
) -> None:
    """Write loss and nearest centre of every item, and the sums of s_i and s_i x_i per centre."""
    for item in range(losses.size):
        q = nearest(model, item, centres, scratch)
        weight = model.weights[item]
        labels[item] = q
        losses[item] = weight * scratch[q]
        masses[q] += weight
        model.rows.add_row(item, weight, sums[q])


class KMeans:
    """k-means: F(Q) = (1/n) sum_i s_i min_q |x_i - q|^2, over k centres Q.

    Parameters
    ----------
    X : array-like or scipy sparse matrix, shape (n, d)
        C-ordered float32 or float64, and CSR, are used without a copy.
    n_clusters : int
        k, from 1 to n.
    sample_weight, normalise
        As for `LinearProblem`: the weight of each row, and whether to divide them by their mean.

    Attributes
    ----------
    n, d, n_clusters : int
    shape : tuple
        (n_clusters, d), the shape of a solution.
    model : DenseModel or SparseModel
        The arrays, for kernels.

    Examples
    --------
    >>> problem = KMeans([[0.0], [1.0], [10.0]], 2)
    >>> problem.value([[0.0], [9.0]])                     # (0 + 1 + 1) / 3
    0.6666666666666666
    >>> problem.labels([[0.0], [9.0]])
    array([0, 0, 1])
    >>> problem.norms([[0.0], [9.0]])                     # 2 |x - q|
    array([0., 2., 2.])

    References
    ----------
    Borsos, Krause, Levy (2018), section 5.2.
    """

    def __init__(
        self,
        X: Any,
        n_clusters: int,
        *,
        sample_weight: ArrayLike | None = None,
        normalise: bool = True,
    ) -> None:
        rows = as_rows(X)
        self.n, self.d = shape_of(rows)
        if isinstance(n_clusters, bool) or not isinstance(n_clusters, (int, np.integer)):
            raise TypeError(f"n_clusters must be an integer, got {n_clusters!r}")
        if not 1 <= n_clusters <= self.n:
            raise ValueError(f"n_clusters must be from 1 to the {self.n} rows, got {n_clusters}")
        self.n_clusters = int(n_clusters)
        squares = squared_norms(rows)
        if not squares.max() < TOO_LONG:
            position = int(squares.argmax())
            raise ValueError(f"row {position} of X is too long: its squared norm would overflow")
        kind: Any = DenseModel if isinstance(rows, Dense) else SparseModel
        self.model: KMeansModel = kind(
            rows, checked_weights(sample_weight, self.n, normalise), squares
        )

    # --- solutions ---------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of a solution: (n_clusters, d)."""
        return self.n_clusters, self.d

    def as_matrix(self, solution: ArrayLike) -> NDArray[np.float64]:
        """Return a copy of a solution, or raise an error that says what is wrong."""
        centres = np.array(solution, dtype=np.float64)
        if centres.shape != self.shape:
            raise ValueError(f"a solution has shape {self.shape}, got {centres.shape}")
        if not np.isfinite(centres).all():
            raise ValueError("the solution holds a value that is not finite")
        if np.abs(centres).max() > TOO_FAR:
            raise ValueError("the solution is too large: squared distances would overflow")
        return centres

    def row(self, item: int) -> NDArray[np.float64]:
        """Return one row, dense: a copy."""
        out = np.zeros(self.d)
        self.model.rows.add_row(item, 1.0, out)
        return out

    # --- values and gradients ----------------------------------------------------------------

    def evaluate(self, solution: ArrayLike) -> tuple[Any, Any, Any]:
        """Return losses (n,), the nearest centres (n,), and the gradient of F (n_clusters, d)."""
        return self._evaluate(self.as_matrix(solution))

    def _evaluate(self, centres: NDArray[np.float64]) -> tuple[Any, Any, Any]:
        losses, labels = np.empty(self.n), np.empty(self.n, dtype=np.int64)
        masses, sums = np.zeros(len(centres)), np.zeros_like(centres)
        scratch = np.empty(len(centres))
        evaluate_items(self.model, kept(centres), scratch, losses, labels, masses, sums)
        return losses, labels, 2.0 / self.n * (masses[:, None] * centres - sums)

    def value(self, solution: ArrayLike) -> float:
        """Return F."""
        return float(self.losses(solution).mean())

    def losses(self, solution: ArrayLike) -> NDArray[np.float64]:
        """Return s_i |x_i - q|^2 of each item, q its nearest centre."""
        losses: NDArray[np.float64] = self.evaluate(solution)[0]
        return losses

    def labels(self, solution: ArrayLike) -> NDArray[np.int64]:
        """Return the nearest centre of each item, the first of ties."""
        labels: NDArray[np.int64] = self.evaluate(solution)[1]
        return labels

    def norms(self, solution: ArrayLike) -> NDArray[np.float64]:
        """Return 2 s_i |x_i - q|, the norm of the gradient of each item's loss."""
        return self.norms_of(self.losses(solution))

    def norms_of(self, losses: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the gradient norms for given losses of shape (n,)."""
        norms: NDArray[np.float64] = 2.0 * np.sqrt(self.model.weights * losses)
        return norms

    def gradient(self, solution: ArrayLike) -> NDArray[np.float64]:
        """Return the gradient of F in the centres, (n_clusters, d)."""
        gradient: NDArray[np.float64] = self.evaluate(solution)[2]
        return gradient

    def bounds(self, point: int) -> NDArray[np.float64]:
        """Return L_i = 4 s_i^2 |x_i - u|^2, with u the row of this index (section 5.2).

        It bounds the squared gradient norm wherever some centre is as near to x_i as u is.
        """
        if isinstance(point, bool) or not isinstance(point, (int, np.integer)):
            raise TypeError(f"point must be the index of a row, got {point!r}")
        if not 0 <= point < self.n:
            raise ValueError(f"point must be from 0 to {self.n - 1}, got {point}")
        u, weights = self.row(int(point)), self.model.weights
        if isinstance(self.model, DenseModel):
            losses = np.empty(self.n)
            fill_losses(self.model.rows.values, weights, u, np.zeros(self.d), losses)
        else:
            losses = self._evaluate(u[None, :])[0]
        bounds: NDArray[np.float64] = 4.0 * weights * losses
        return bounds

    def fingerprint(self) -> str:
        """Return a hash of weights, norms of rows and shape: O(n)."""
        digest = hashlib.sha256(repr(self.shape).encode())
        for part in (self.model.weights, self.model.squares):
            digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()[:16]

    def __repr__(self) -> str:
        kind = "dense" if isinstance(self.model.rows, Dense) else "sparse"
        return f"KMeans({self.n} x {self.d}, {kind}, n_clusters={self.n_clusters})"


def kept(centres: NDArray[np.float64]) -> Centres:
    """Return centres (n_clusters, d) for the kernels; none includes an item yet."""
    return Centres(
        w=np.ascontiguousarray(centres.T),
        counts=np.zeros(len(centres)),
        shares=np.ones(len(centres)),
        squares=(centres * centres).sum(axis=1),
    )


def new_scratch(problem: KMeans) -> Scratch:
    """Return room for the kernels."""
    k, dense = problem.n_clusters, isinstance(problem.model, DenseModel)
    d, dtype = (problem.d if dense else 0), problem.model.rows.values.dtype
    return Scratch(
        distances=np.zeros(k),
        products=np.zeros((2, k), dtype),
        halves=np.zeros(k, dtype),
        origin=np.zeros(d, dtype),
        lines=np.zeros((k, d), dtype),
        masses=np.zeros(k),
        sums=np.zeros((k, d)),
    )
