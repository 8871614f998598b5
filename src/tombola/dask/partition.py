"""A partition: some rows of the data, as a task gets them."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tombola.problems.rows import checked_array

__all__ = ["Partition", "assemble", "check_targets", "check_total"]


class Partition(NamedTuple):
    """Rows with their targets and weights.

    Attributes
    ----------
    X : ndarray or CSR matrix, shape (n, d)
    y : ndarray or None
        Shape (n,), or (n, K) for an indicator matrix.
    weights : ndarray or None
        Sample weights; None: all 1.
    """

    X: Any
    y: NDArray[Any] | None
    weights: NDArray[np.float64] | None


def assemble(number: int, X: Any, y: Any = None, weights: Any = None) -> Partition:
    """Return a partition of blocks of collections: arrays, sparse matrices, pandas frames.

    Parameters
    ----------
    number : int
        The number of the partition, for errors.
    X, y, weights
        A block of each.
    """
    rows = plain(X)
    target = None if y is None else plain(y)
    if target is not None:
        target = np.asarray(target.toarray() if hasattr(target, "tocsr") else target)
        if target.ndim == 2 and target.shape[1] == 1:
            target = target[:, 0]
    shares = None
    if weights is not None:
        shares = np.asarray(plain(weights), dtype=np.float64).reshape(-1)
    for name, other in (("y", target), ("sample_weight", shares)):
        if other is not None and len(other) != rows.shape[0]:
            raise ValueError(
                f"partition {number} has {rows.shape[0]} rows of X and {len(other)} of {name}: "
                "give all of them the same partitions"
            )
    if shares is not None and shares.size:
        checked_array(shares, f"partition {number}: sample_weight", 1)
        if shares.min() < 0:
            at = int(shares.argmin())
            raise ValueError(
                f"partition {number}: sample_weight[{at}] is {shares[at]}, which is negative"
            )
        added_up(shares)
    return Partition(rows, target, shares)


def check_targets(y: NDArray[Any], number: int, numeric: bool) -> None:
    """Raise an error that names the first target of a partition that is no number, or no label.

    Parameters
    ----------
    y : ndarray
    number : int
        The number of the partition.
    numeric : bool
        Whether targets are those of a regression; else labels or an indicator matrix.
    """
    name = f"partition {number}: y"
    if y.ndim > 2 or (numeric and y.ndim == 2):
        raise ValueError(f"{name} must be one column, got shape {y.shape}")
    if numeric:
        checked_array(y, name, 1)
        return
    wrong, right = pd.isna(y), "a label is a whole number, a text or another value with an order"
    if y.ndim == 2:
        wrong, right = wrong | ((y != 0) & (y != 1)), "an indicator matrix holds 0 and 1"
    elif y.dtype.kind == "f":
        wrong, right = ~np.isfinite(y) | (y != np.floor(y)), "labels that are numbers are whole"
    if wrong.any():
        at = tuple(np.argwhere(wrong)[0].tolist())
        raise ValueError(f"{name}[{', '.join(map(str, at))}] is {y[at]}: {right}")


def check_total(masses: Any) -> None:
    """Raise an error where the sum of all sample weights is 0 or not finite."""
    if not added_up(masses) > 0:
        raise ValueError("all sample weights are 0: at least one must be positive")


def added_up(weights: Any) -> float:
    """Return the sum of sample weights, or raise an error where it is not finite."""
    with np.errstate(over="ignore"):
        total = float(np.sum(weights))
    if not np.isfinite(total):
        raise ValueError(f"the sum of the sample weights is {total}: scale them")
    return total


def plain(block: Any) -> Any:
    """Return a block as an array or in CSR form, in float32 or float64 where it holds numbers."""
    if hasattr(block, "tocsr"):
        block = block.tocsr()
        return block if block.dtype in (np.float32, np.float64) else block.astype(np.float64)
    if hasattr(block, "to_numpy"):  # pandas
        block = block.to_numpy()
    return np.asarray(block)
