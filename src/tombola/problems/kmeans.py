"""k-means: the loss of an item is its squared distance to the nearest of k centres."""

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.compiling import kernel
from tombola.problems.linear import checked_weights
from tombola.problems.rows import Dense, Rows, as_rows, shape_of, squared_norms, taken
from tombola.state import Floats, Ints, State, derived

__all__ = [
    "Assignment",
    "KMeans",
    "KMeansModel",
    "Moved",
    "assign_items",
    "assign_rows",
    "follow",
    "move",
    "new_assignment",
    "rows_of",
]

# limits of the squared norms of rows, and of the values of a solution: no sum of squares overflows
TOO_LONG, TOO_FAR = {"f": 2.0**100, "d": 2.0**900}, {"f": 2.0**51, "d": 2.0**451}
BLOCK = 2**17  # values of a block of rows, and of its products with the centres: about a megabyte
PARTS = 16  # sums of rows that are added up in the end; not a matter of the number of threads


class KMeansModel(State):
    """The arrays of a problem."""

    rows: Rows = derived("the data")
    weights: Floats = derived("s_i, of mean 1")
    squares: Floats = derived("|x_i|^2")


class Assignment(NamedTuple):
    """The nearest centre of each of some rows, and the sums of the rows of each centre."""

    labels: NDArray[np.int32]  # (size,)
    squared: Floats  # (size,): |x_i - q|^2
    masses: Floats  # (n_clusters,): the sum of amounts
    sums: Floats  # (n_clusters, d): the sum of amounts times rows


def new_assignment(size: int, shape: tuple[int, int]) -> Assignment:
    """Return an assignment of no rows, with space for some."""
    labels, squared = np.empty(size, dtype=np.int32), np.empty(size)
    return Assignment(labels, squared, np.zeros(shape[0]), np.zeros(shape))


class Moved(NamedTuple):
    """Centres seen from their mean, in which products lose the least precision.

    Sparse rows would not stay sparse: with them, centres are seen from 0, in float64.
    """

    centres: Floats  # (n_clusters, d): as they are
    origin: NDArray[Any]  # (d,)
    columns: NDArray[Any]  # (d, n_clusters): seen from the origin, in the precision of the rows
    halves: Floats  # |q|^2 / 2, seen from the origin


def move(centres: Floats, rows: Rows) -> Moved:
    """Return centres as rows are compared with them."""
    dense = isinstance(rows, Dense)
    dtype = rows.values.dtype if dense else np.dtype(np.float64)
    origin = centres.mean(axis=0).astype(dtype) if dense else np.zeros(centres.shape[1])
    moved = centres - origin
    columns = np.ascontiguousarray(moved.T, dtype=dtype)
    return Moved(centres, origin, columns, 0.5 * (moved * moved).sum(axis=1))


@kernel
def follow(moved: Moved, rows: Rows) -> None:
    """Bring the other parts up to date with the centres."""
    centres, origin, halves = moved.centres, moved.origin, moved.halves
    k, d = centres.shape
    halves[:] = 0.0
    for j in range(d):
        if rows.values.ndim == 2:  # dense
            total = 0.0
            for q in range(k):
                total += centres[q, j]
            origin[j] = total / k
        for q in range(k):
            value = centres[q, j] - origin[j]
            moved.columns[j, q] = value
            halves[q] += 0.5 * value * value


def assign_items(
    model: KMeansModel, items: slice | Ints, amounts: Floats, moved: Moved
) -> Assignment:
    """Return the nearest centre of each of some items, and their sums, by the amount of each.

    Blocks of dense rows are compared with all centres by a product of matrices, x.q - |q|^2 / 2, in
    the precision of the rows: a row that is equally far from two centres within rounding may go to
    either.
    """
    rows, (k, d) = model.rows, moved.centres.shape
    out = new_assignment(amounts.size, (k, d))
    if not isinstance(rows, Dense):
        assign_rows(model, np.r_[items], amounts, moved, np.empty(k), out)
        return out
    for to in slices(amounts.size, max(1, BLOCK // max(k, d))):
        if isinstance(items, slice):
            block: Any = slice(items.start + to.start, items.start + to.stop)
        else:
            block = items[to]
        products = (rows.values[block] - moved.origin) @ moved.columns
        part = out._replace(labels=out.labels[to], squared=out.squared[to])
        assign_block(model, np.r_[block], amounts[to], moved, products, part)
    return out


def slices(size: int, step: int) -> Iterator[slice]:
    """Yield slices of at most `step` that cover `size`."""
    return (slice(at, min(at + step, size)) for at in range(0, size, step))


@kernel(releases_gil=True)
def assign_block(
    model: Any, items: Any, amounts: Any, moved: Any, products: Any, out: Assignment
) -> None:
    """Assign rows whose products with the centres are known."""
    for b in range(items.size):
        assign_one(model, items[b], amounts[b], moved, products[b], out, b)


@kernel(releases_gil=True)
def assign_rows(
    model: Any, items: Any, amounts: Any, moved: Any, products: Any, out: Assignment
) -> None:
    """Assign rows one by one; `products` is space for those of a row with the centres."""
    for b in range(items.size):
        model.rows.multiply(items[b], moved.origin, moved.columns, products)
        assign_one(model, items[b], amounts[b], moved, products, out, b)


@kernel(inline=True)
def assign_one(
    model: Any, item: Any, amount: Any, moved: Any, products: Any, out: Any, b: Any
) -> None:
    """Write label and squared distance of row b, and add it to the mass and the sum of its centre.

    The squared distance of a dense row is a sum in any order: it is the same on machines of one
    kind. That of a sparse one is max(0, |x|^2 - 2 x.q + |q|^2), with an error of about
    1e-16 (|x|^2 + |q|^2), which may exceed 1e-16 of the distance.
    """
    best, top = 0, products[0] - moved.halves[0]
    for q in range(1, moved.halves.size):
        value = products[q] - moved.halves[q]
        if value > top:
            best, top = q, value
    out.labels[b] = best
    about = max(0.0, model.squares[item] - 2.0 * top)
    out.squared[b] = model.rows.squared_distance(item, moved.centres[best], about)
    out.masses[best] += amount
    model.rows.add_row(item, amount, out.sums[best])


def rows_of(rows: Rows, items: Ints) -> Floats:
    """Return some rows, dense and in float64: a copy."""
    chosen = taken(rows, items)
    if isinstance(chosen, Dense):
        return chosen.values.astype(np.float64)
    out = np.zeros(chosen.shape)
    out[np.repeat(np.arange(items.size), np.diff(chosen.starts)), chosen.columns] = chosen.values
    return out


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
    model : KMeansModel
        The arrays.

    Examples
    --------
    >>> problem = KMeans([[0.0], [1.0], [10.0]], 2)
    >>> problem.value([[0.0], [9.0]])                     # (0 + 1 + 1) / 3
    0.6666666666666666
    >>> problem.labels([[0.0], [9.0]])
    array([0, 0, 1], dtype=int32)
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
        if not squares.max() < TOO_LONG[rows.values.dtype.char]:
            position = int(squares.argmax())
            raise ValueError(f"row {position} of X is too long: its squared norm would overflow")
        weights = checked_weights(sample_weight, self.n, normalise)
        self.model = KMeansModel(rows, weights, squares)

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
        if np.abs(centres).max() > TOO_FAR[self.model.rows.values.dtype.char]:
            raise ValueError("the solution is too large: squared distances would overflow")
        return centres

    def row(self, item: int) -> NDArray[np.float64]:
        """Return one row, dense: a copy."""
        return rows_of(self.model.rows, np.array([item]))[0]

    # --- values and gradients ----------------------------------------------------------------

    def assign(self, centres: Floats, each: Callable[..., Any] = map) -> Assignment:
        """Return the nearest centre of each item, and the sums by weight of those of each centre.

        `each` is `map` or does the same, perhaps by threads, which do not change the result.
        """
        moved = move(np.ascontiguousarray(centres), self.model.rows)
        parts = list(slices(self.n, -(-self.n // PARTS)))
        amounts = [self.model.weights[part] for part in parts]
        found = list(each(partial(assign_items, self.model, moved=moved), parts, amounts))
        labels, squared = (np.concatenate([part[j] for part in found]) for j in (0, 1))
        return Assignment(labels, squared, *(sum(part[j] for part in found) for j in (2, 3)))

    def evaluate(self, solution: ArrayLike) -> tuple[Any, Any, Any]:
        """Return losses (n,), the nearest centres (n,), and the gradient of F (n_clusters, d)."""
        centres = self.as_matrix(solution)
        labels, squared, masses, sums = self.assign(centres)
        gradient = 2.0 / self.n * (masses[:, None] * centres - sums)
        return self.model.weights * squared, labels, gradient

    def value(self, solution: ArrayLike) -> float:
        """Return F."""
        return float(self.losses(solution).mean())

    def losses(self, solution: ArrayLike) -> NDArray[np.float64]:
        """Return s_i |x_i - q|^2 of each item, q its nearest centre."""
        losses: NDArray[np.float64] = self.evaluate(solution)[0]
        return losses

    def labels(self, solution: ArrayLike) -> NDArray[np.int32]:
        """Return the nearest centre of each item, the first of ties."""
        labels: NDArray[np.int32] = self.evaluate(solution)[1]
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
        squared = self.assign(self.row(int(point))[None]).squared
        bounds: NDArray[np.float64] = 4.0 * self.model.weights**2 * squared
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
