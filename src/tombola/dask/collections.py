"""Dask collections as lists of partitions of rows; data in memory is one partition."""

import math
import warnings
from typing import Any, NamedTuple

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.validation import _get_feature_names

from tombola.dask.partition import plain
from tombola.validation import compressed_rows

__all__ = ["Blocks", "blocks_of", "check_columns", "dtype_of", "is_lazy", "lazily"]


class Blocks(NamedTuple):
    """The rows of a fit, not loaded."""

    parts: list[tuple[Any, Any, Any]]  # delayed blocks of X, of y and of the weights, or None
    columns: int
    names: list[str] | None  # of the columns, if X is a data frame and all of them are strings
    dtype: Any  # of what is learnt: float32 if all columns are, else float64


def is_lazy(X: Any) -> bool:
    """Return whether X is a Dask array, data frame or series."""
    return isinstance(X, (da.Array, dd.DataFrame, dd.Series))


def collection(X: Any, name: str = "X") -> Any:
    """Return a Dask collection: X itself, or an array of one block."""
    if is_lazy(X):
        return X
    if name == "X":
        X = check_array(
            compressed_rows(X, name) if hasattr(X, "tocsr") else X, accept_sparse="csr",
            dtype=[np.float64, np.float32], ensure_min_samples=0,
            input_name=name,
        )  # fmt: skip
    rows = plain(X)
    if name == "y" and np.shape(rows)[1:] == (1,) and not hasattr(rows, "tocsr"):
        rows = column_or_1d(rows, warn=True)
    if hasattr(rows, "tocsr"):
        block = dask.delayed(rows, traverse=False)
        return da.from_delayed(block, rows.shape, meta=rows[:0])
    return da.from_array(rows, chunks=-1, name=False)  # or dask would hash it


def blocks_of(X: Any, y: Any = None, sample_weight: Any = None) -> Blocks:
    """Return the partitions of X, with those of y and of the sample weights beside them.

    Arrays that are cut along columns are cut along rows only, with a warning, and arrays whose
    rows are cut elsewhere than those of X are cut as X is. If the sizes of blocks are not known,
    X, y and sample weights must have the same number of partitions.
    """
    names = names_of(X)
    X = checked_rows(X)
    columns = X.shape[1]
    if isinstance(columns, float) and math.isnan(columns):
        raise ValueError("X has an unknown number of columns: give its meta, or rechunk it")
    rows = delayed_blocks(X)
    targets = beside("y", y, X, len(rows))
    weights = beside("sample_weight", sample_weight, X, len(rows))
    parts = list(zip(rows, targets, weights, strict=True))
    return Blocks(parts, int(columns), names, dtype_of(X))


def dtype_of(X: Any) -> Any:
    """Return float32 if all columns of X are, else float64."""
    dtypes = X.dtypes if isinstance(X, dd.DataFrame) else [collection(X).dtype]
    return np.float32 if all(dtype == np.float32 for dtype in dtypes) else np.float64


def names_of(X: Any) -> list[str] | None:
    """Return the names of the columns, if X is a data frame and all of them are strings."""
    if not is_lazy(X):
        found = _get_feature_names(X)
        return None if found is None else [str(name) for name in found]
    names = list(getattr(X, "columns", ()))
    textual = all(isinstance(name, str) for name in names)
    return [str(name) for name in names] if names and textual else None


def checked_rows(X: Any) -> Any:
    """Return X as a collection in blocks of whole rows, with a warning if it has to be cut again.

    Raise an error if it has not two dimensions.
    """
    X = collection(X)
    if X.ndim != 2:
        raise ValueError(
            f"X must have two dimensions, got {X.ndim}: a row for each example, as an array, a "
            "sparse matrix or a data frame, of Dask or in memory"
        )
    if isinstance(X, da.Array) and X.numblocks[1] > 1:
        warnings.warn(
            f"X is cut into {X.numblocks[1]} blocks along its columns: it is rechunked to whole "
            "rows, which moves data; X.rechunk({1: -1}) does it once",
            UserWarning,
            stacklevel=5,
        )
        return X.rechunk({1: -1})
    return X


def check_columns(X: Any, model: Any) -> None:
    """Raise an error if X has other columns than a model was fitted to, or in another order."""
    names, X, count = names_of(X), collection(X), model.n_features_in_
    if X.ndim == 2 and X.shape[1] != count and not math.isnan(X.shape[1]):
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(model).__name__} is expecting {count} "
            "features as input"
        )
    if names and hasattr(model, "feature_names_in_"):
        for j, (name, right) in enumerate(zip(names, model.feature_names_in_, strict=True)):
            if name != right:
                raise ValueError(
                    f"column {j} of X is {name!r}, that of the fit was {right!r}: give the same "
                    "columns, in the same order"
                )


def beside(name: str, given: Any, X: Any, count: int) -> list[Any]:
    """Return the blocks of y or of sample weights, one for each partition of X."""
    if given is None:
        return [None] * count
    given = collection(given, name)
    if isinstance(given, da.Array):
        if given.ndim == 2 and given.numblocks[1] > 1:
            given = given.rechunk({1: -1})
        if isinstance(X, da.Array) and known(X) and known(given) and given.chunks[0] != X.chunks[0]:
            if given.shape[0] != X.shape[0]:
                raise ValueError(f"X has {X.shape[0]} rows, {name} has {given.shape[0]}")
            given = given.rechunk({0: X.chunks[0]})
    blocks = delayed_blocks(given)
    if len(blocks) != count:
        raise ValueError(
            f"X has {count} partitions, {name} has {len(blocks)}, of unknown sizes: give both the "
            "same partitions"
        )
    return blocks


def known(array: Any) -> bool:
    """Return whether the sizes of an array's blocks of rows are known."""
    return not any(math.isnan(size) for size in array.chunks[0])


def delayed_blocks(collection: Any) -> list[Any]:
    """Return the blocks of rows of a collection, as delayed values.

    Dask would join small partitions of a file by the columns that are read, those of X and y apart:
    of a frame, only the columns are chosen.
    """
    if isinstance(collection, da.Array):
        return list(np.ravel(collection.to_delayed()))
    return list(collection.simplify().to_delayed(optimize_graph=False))


def lazily(X: Any, compute: Any, like: np.ndarray[Any, Any]) -> Any:
    """Return a Dask array of compute(block), for the blocks of X; `like` has its type and width."""
    X = checked_rows(X)
    if isinstance(X, da.Array):
        chunks = (X.chunks[0], *((size,) for size in like.shape[1:]))
        dropped = {} if like.ndim == 2 else {"drop_axis": 1}
        return X.map_blocks(compute, dtype=like.dtype, chunks=chunks, meta=like[:0], **dropped)
    blocks = [
        da.from_delayed(dask.delayed(compute)(block), (np.nan, *like.shape[1:]), meta=like[:0])
        for block in delayed_blocks(X)
    ]
    return da.concatenate(blocks, allow_unknown_chunksizes=True)
