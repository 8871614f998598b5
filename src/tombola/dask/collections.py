"""Dask collections as lists of partitions of rows."""

import math
import warnings
from typing import Any, NamedTuple

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np

__all__ = ["Blocks", "blocks_of", "check_columns", "is_array", "is_frame", "lazily"]


class Blocks(NamedTuple):
    """The rows of a fit, not loaded.

    Attributes
    ----------
    parts : list of tuple
        For each partition a delayed block of X, of y and of the sample weights, or None.
    columns : int
    names : list of str or None
        Names of the columns, where X is a data frame and all of them are strings.
    """

    parts: list[tuple[Any, Any, Any]]
    columns: int
    names: list[str] | None


def is_array(X: Any) -> bool:
    """Return whether X is a Dask array."""
    return isinstance(X, da.Array)


def is_frame(X: Any) -> bool:
    """Return whether X is a Dask data frame or series."""
    return isinstance(X, (dd.DataFrame, dd.Series))


def blocks_of(X: Any, y: Any = None, sample_weight: Any = None) -> Blocks:
    """Return the partitions of X, with those of y and of the sample weights beside them.

    Arrays that are cut along columns are cut along rows only, with a warning, and arrays whose
    rows are cut elsewhere than those of X are cut as X is. Where the sizes of blocks are not known,
    X, y and sample weights must have the same number of partitions.
    """
    check_rows(X)
    X = uncut(X)
    names = None
    if is_frame(X):
        given = [str(name) if isinstance(name, str) else None for name in X.columns]
        names = None if None in given else [str(name) for name in given]
        columns = len(X.columns)
    else:
        columns = X.shape[1]
    if isinstance(columns, float) and math.isnan(columns):
        raise ValueError("X has an unknown number of columns: give its meta, or rechunk it")
    rows = delayed_blocks(X)
    targets = beside("y", y, X, len(rows))
    weights = beside("sample_weight", sample_weight, X, len(rows))
    return Blocks(list(zip(rows, targets, weights, strict=True)), int(columns), names)


def check_rows(X: Any) -> None:
    """Raise an error that says what X must be, where it is not."""
    if not (is_array(X) or isinstance(X, dd.DataFrame)):
        kind = type(X).__name__
        raise TypeError(
            f"X must be a Dask array or data frame, got {kind}: for data in memory use "
            "tombola.estimators"
        )
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, got {X.ndim}")


def check_columns(X: Any, model: Any) -> None:
    """Raise an error where X has other columns than a model was fitted to, or in another order."""
    check_rows(X)
    count = model.n_features_in_
    if X.shape[1] != count and not math.isnan(X.shape[1]):
        raise ValueError(f"X has {X.shape[1]} columns, the model was fitted to {count}")
    if is_frame(X) and hasattr(model, "feature_names_in_"):
        for j, (name, right) in enumerate(zip(X.columns, model.feature_names_in_, strict=True)):
            if name != right:
                raise ValueError(
                    f"column {j} of X is {name!r}, that of the fit was {right!r}: give the same "
                    "columns, in the same order"
                )


def uncut(X: Any) -> Any:
    """Return an array in blocks of whole rows, with a warning where that needs another cut."""
    if is_array(X) and X.numblocks[1] > 1:
        warnings.warn(
            f"X is cut into {X.numblocks[1]} blocks along its columns: it is rechunked to whole "
            "rows, which moves data; X.rechunk({1: -1}) does it once",
            UserWarning,
            stacklevel=5,
        )
        return X.rechunk({1: -1})
    return X


def beside(name: str, given: Any, X: Any, count: int) -> list[Any]:
    """Return the blocks of y or of sample weights, one for each partition of X."""
    if given is None:
        return [None] * count
    if not (is_array(given) or is_frame(given)):
        raise TypeError(
            f"{name} must be a Dask array, series or data frame like X, got {type(given).__name__}"
        )
    if is_array(given):
        if given.ndim == 2 and given.numblocks[1] > 1:
            given = given.rechunk({1: -1})
        if is_array(X) and known(X) and known(given) and given.chunks[0] != X.chunks[0]:
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
    if is_array(collection):
        return list(np.ravel(collection.to_delayed()))
    return list(collection.simplify().to_delayed(optimize_graph=False))


def lazily(X: Any, compute: Any, like: np.ndarray[Any, Any]) -> Any:
    """Return a Dask array of compute(block), for the blocks of X; `like` has its type and width."""
    check_rows(X)
    X = uncut(X)
    if is_array(X):
        chunks = (X.chunks[0], *((size,) for size in like.shape[1:]))
        dropped = {} if like.ndim == 2 else {"drop_axis": 1}
        return X.map_blocks(compute, dtype=like.dtype, chunks=chunks, meta=like[:0], **dropped)
    blocks = [
        da.from_delayed(dask.delayed(compute)(block), (np.nan, *like.shape[1:]), meta=like[:0])
        for block in delayed_blocks(X)
    ]
    return da.concatenate(blocks, allow_unknown_chunksizes=True)
