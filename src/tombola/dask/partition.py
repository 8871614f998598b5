"""A partition: some rows of the data, as a task gets them."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from tombola.problems.rows import Rows, as_rows
from tombola.validation import LARGEST, check_finite, checked_array, compressed_rows

__all__ = ["Partition", "assemble", "check_targets", "check_total", "rows_of", "stacked"]


class Partition(NamedTuple):
    """Rows with their targets and weights."""

    X: Any  # an array or a CSR matrix, (n, d)
    y: NDArray[Any] | None  # (n,), or (n, K) for an indicator matrix
    weights: NDArray[np.float64]  # of samples; all 1 if none are given


def assemble(number: int, X: Any, y: Any = None, weights: Any = None) -> Partition:
    """Return a partition of blocks of collections: arrays, sparse matrices, pandas frames."""
    rows = plain(X)
    target = None if y is None else plain(y)
    if target is not None:
        target = np.asarray(target.toarray() if hasattr(target, "tocsr") else target)
        if target.ndim == 2 and target.shape[1] == 1:
            target = target[:, 0]
        if target.ndim == 1 and target.dtype == object:
            inferred = pd.Series(target).infer_objects().to_numpy()
            target = inferred if inferred.dtype.kind in "biuf" else target
    shares = np.ones(rows.shape[0])
    if weights is not None:
        shares = np.asarray(plain(weights), dtype=np.float64).reshape(-1)
    for name, other in (("y", target), ("sample_weight", shares)):
        if other is not None and len(other) != rows.shape[0]:
            raise ValueError(
                f"partition {number} has {rows.shape[0]} rows of X and {len(other)} of {name}: "
                "give all of them the same partitions"
            )
    if weights is not None and shares.size:
        name = f"partition {number}: sample_weight"
        check_finite(checked_array(shares, name, 1), name, LARGEST)
        if shares.min() < 0:
            at = int(shares.argmin())
            raise ValueError(
                f"partition {number}: sample_weight[{at}] is {shares[at]}, which is negative"
            )
    return Partition(rows, target, shares)


def rows_of(partition: Partition, number: int) -> Rows:
    """Return the rows of a partition, or raise an error that names a value they cannot have."""
    name = f"partition {number}: X"
    rows = as_rows(partition.X, name)
    check_finite(partition.X, name, LARGEST)
    return rows


def check_targets(y: NDArray[Any], number: int, numeric: bool) -> None:
    """Raise an error that names the first target of a partition that is no number, or no label.

    Unless `numeric`, targets are labels or an indicator matrix.
    """
    name = f"partition {number}: y"
    if y.ndim > 2 or (numeric and y.ndim == 2):
        raise ValueError(f"{name} must be one column, got shape {y.shape}")
    if numeric:
        check_finite(checked_array(y, name, 1), name, LARGEST)
        return
    wrong, right = pd.isna(y), "a label is a whole number, a text or another value with an order"
    if y.ndim == 2:
        wrong, right = wrong | ((y != 0) & (y != 1)), "an indicator matrix holds 0 and 1"
    elif y.dtype.kind == "f":
        wrong, right = (
            ~np.isfinite(y) | (y != np.floor(y)),
            "labels that are numbers are whole, not continuous",
        )
    if wrong.any():
        at = tuple(np.argwhere(wrong)[0].tolist())
        raise ValueError(f"{name}[{', '.join(map(str, at))}] is {y[at]}: {right}")


def check_total(masses: Any) -> None:
    """Raise an error if the sum of all sample weights is 0."""
    if not np.sum(masses) > 0:
        raise ValueError("all sample weights are zero: at least one must be positive")


def stacked(parts: list[Any]) -> Any:
    """Return the rows of arrays or sparse matrices, one below the other."""
    if any(sparse.issparse(part) for part in parts):
        return sparse.vstack([sparse.csr_matrix(part) for part in parts], format="csr")
    return np.concatenate(parts)


def plain(block: Any) -> Any:
    """Return a block as an array or in CSR form, in float32 or float64 where it holds numbers."""
    if hasattr(block, "tocsr"):
        block = compressed_rows(block, "X")
        return block if block.dtype in (np.float32, np.float64) else block.astype(np.float64)
    if hasattr(block, "to_numpy"):  # pandas
        block = block.to_numpy()
    return np.asarray(block)
