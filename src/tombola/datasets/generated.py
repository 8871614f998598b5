"""Generated data sets, whose structure is known."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.datasets.base import DataError, Dataset, checksum_of_arrays
from tombola.validation import number, whole

__all__ = ["GENERATED", "heavy_tailed", "imbalanced", "uneven_regression"]


def imbalanced(
    n: int = 20_000, d: int = 50, rare: float = 0.02, shift: float = 3.0, seed: int = 0
) -> Dataset:
    """Two classes, one of them rare: normal rows, shifted for the rare class.

    Of the rare rows, nine in ten are shifted along the first half of the columns and the others
    along the second half, by the same distance.

    Parameters
    ----------
    n, d : int
        Rows and columns, at least 2 of each.
    rare : float
        Share of the rare class, labelled 1: ``round(rare * n)`` rows at random positions.
    shift : float
        The distance of the shift. A larger one makes the classes easier to separate.
    seed : int

    Returns
    -------
    Dataset
        For classification.

    Examples
    --------
    >>> data = imbalanced(n=1000, d=10, rare=0.05)
    >>> data, int(data.y.sum())
    (Dataset('imbalanced', 1000 x 10, dense, classification), 50)
    """
    n, d = whole("n", n, 2), whole("d", d, 2)
    share = number("rare", rare)
    few = round(share * n) if 0 < share < 1 else 0
    if not 0 < few < n:
        raise DataError(f"rare must leave rows for both classes, got {rare!r} of {n} rows")
    rng = np.random.default_rng(seed)
    shifts = np.zeros((2, d))
    shifts[0, : d // 2], shifts[1, d // 2 :] = 1.0, 1.0
    shifts *= number("shift", shift) / np.linalg.norm(shifts, axis=1, keepdims=True)
    y = np.zeros(n, dtype=np.int64)
    y[rng.permutation(n)[:few]] = 1
    X = rng.normal(size=(n, d))
    X[y == 1] += shifts[(rng.random(few) >= 0.9).astype(np.int64)]
    what = f"imbalanced(n={n}, d={d}, rare={share:g}, shift={shift:g}, seed={seed})"
    return _made("imbalanced", X, y, "classification", what)


def heavy_tailed(n: int = 20_000, d: int = 10, clusters: int = 20, seed: int = 0) -> Dataset:
    """Clusters of very unequal size with heavy tails, the small ones far from the origin.

    Cluster k = 0, 1, ... has a share of rows proportional to 1 / (k + 1)^3. Its centre is at
    distance 10 k from the origin in a random direction. The offset of a row from its centre is a
    normal vector times a Pareto factor, which exceeds t with probability t^-3.

    Parameters
    ----------
    n, d, clusters : int
        Rows, columns and clusters; each cluster has at least one row.
    seed : int

    Returns
    -------
    Dataset
        For clustering; y is the cluster of each row.

    Examples
    --------
    >>> data = heavy_tailed(n=1000, d=2, clusters=3)
    >>> np.bincount(data.y)
    array([860, 108,  32])
    """
    n, d, clusters = whole("n", n, 1), whole("d", d, 1), whole("clusters", clusters, 1)
    if clusters > n:
        raise DataError(f"{clusters} clusters need at least as many rows, got {n}")
    rng = np.random.default_rng(seed)
    shares = 1.0 / np.arange(1, clusters + 1) ** 3
    sizes = 1 + np.floor((n - clusters) * shares / shares.sum()).astype(np.int64)
    sizes[0] += n - sizes.sum()
    y = rng.permutation(np.repeat(np.arange(clusters), sizes))
    directions = rng.normal(size=(clusters, d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    centres = 10.0 * np.arange(clusters)[:, None] * directions
    stretch = (1.0 - rng.random(n)) ** (-1.0 / 3.0)
    X = centres[y] + stretch[:, None] * rng.normal(size=(n, d))
    what = f"heavy_tailed(n={n}, d={d}, clusters={clusters}, seed={seed})"
    return _made("heavy_tailed", X, y, "clustering", what)


def uneven_regression(
    n: int = 20_000, d: int = 20, spread: float = 1.0, noise: float = 0.1, seed: int = 0
) -> Dataset:
    """Linear regression on rows of very different norms.

        x_i = exp(spread g_i) z_i,   y_i = x_i w + noise e_i        with g, z, w and e normal

    Parameters
    ----------
    n, d : int
    spread : float
        The approximate standard deviation of the logarithm of the norms; 0 for similar norms.
    noise : float
    seed : int

    Returns
    -------
    Dataset
        For regression.

    Examples
    --------
    >>> data = uneven_regression(n=1000, d=5)
    >>> norms = np.linalg.norm(data.X, axis=1)
    >>> bool(norms.max() > 10 * norms.mean())
    True
    """
    n, d = whole("n", n, 1), whole("d", d, 1)
    for name, value in (("spread", spread), ("noise", noise)):
        if not 0 <= number(name, value) < math.inf:
            raise DataError(f"{name} must be finite and not negative, got {value!r}")
    rng = np.random.default_rng(seed)
    w = rng.normal(size=d)
    X = np.exp(spread * rng.normal(size=(n, 1))) * rng.normal(size=(n, d))
    y = X @ w + noise * rng.normal(size=n)
    what = f"uneven_regression(n={n}, d={d}, spread={spread:g}, noise={noise:g}, seed={seed})"
    return _made("uneven_regression", X, y, "regression", what)


def _made(
    name: str, X: NDArray[np.float64], y: NDArray[np.generic], task: str, what: str
) -> Dataset:
    source = f"tombola.datasets.{what}"
    return Dataset(name, X, y, task, source, checksum_of_arrays(X, y))


class Generator(NamedTuple):
    """A function that makes a data set, and what it makes by default."""

    make: Callable[..., Dataset]
    task: str
    what: str


GENERATED = {
    "imbalanced": Generator(imbalanced, "classification", "20,000 x 50: two classes, one of 2%"),
    "heavy_tailed": Generator(
        heavy_tailed, "clustering", "20,000 x 10: small distant clusters, heavy tails"
    ),
    "uneven_regression": Generator(
        uneven_regression, "regression", "20,000 x 20: rows of very different norms"
    ),
}
