"""A partition: some rows of the data, as a task gets them."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.problems.rows import checked_array

__all__ = ["Partition", "assemble"]


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
        checked_array(shares, f"sample_weight, in partition {number},", 1)
        if shares.min() < 0:
            at = int(shares.argmin())
            raise ValueError(
                f"row {at} of partition {number} has the sample weight {shares[at]}, which is "
                "negative"
            )
    return Partition(rows, target, shares)


def plain(block: Any) -> Any:
    """Return a block as an array or in CSR form, in float32 or float64 where it holds numbers."""
    if hasattr(block, "tocsr"):
        block = block.tocsr()
        return block if block.dtype in (np.float32, np.float64) else block.astype(np.float64)
    if hasattr(block, "to_numpy"):  # pandas
        block = block.to_numpy()
    return np.asarray(block)
