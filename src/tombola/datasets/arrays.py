"""Read files that hold dense rows, NPZ and NPY: tables whose columns have numbers for names."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tombola.datasets.arrow_files import PIECE, ArrowFile
from tombola.datasets.base import DataError, Progress, in_words, no_such
from tombola.datasets.reading import Reading, as_number
from tombola.datasets.sources import Source

__all__ = ["ArrayFile", "column_of_key"]


class ArrayFile(ArrowFile):
    """A matrix: its columns are named by their numbers, that of the target by its key."""

    def __init__(self, source: Source, reading: Reading, arrays: dict[str, NDArray[Any]]) -> None:
        self.keys, key = list(arrays), reading.features or "X"
        if key not in arrays and reading.features is None:
            raise DataError(
                f"{source.name} has neither X nor indices, indptr and shape, but "
                f"{in_words(arrays)}: choose one with --features"
            )
        if key not in arrays:
            raise no_such("key", key, arrays)
        X, notes = arrays[key], tuple[str, ...]()
        if X.dtype.kind not in "fiub" or X.ndim == 0:
            raise DataError(
                f"{key} in {source.name} must be a table of numbers, but is of shape {X.shape} "
                f"and type {X.dtype}"
            )
        if 0 in X.shape:
            shape = " x ".join(map(str, X.shape))
            raise DataError(f"{key} in {source.name} is empty: its shape is {shape}")
        if X.ndim != 2:
            width = X.size // len(X)
            notes = (f"{key}, of shape {X.shape}, was taken as {len(X):,} x {width:,}.",)
            X = X.reshape(len(X), width)
        self.width = X.shape[1]
        columns = dict(enumerate(np.ascontiguousarray(X.T, dtype=np.float64)))
        held: dict[str, Any] = {str(j): column for j, column in columns.items()}
        target = reading.target or "y"
        if target in arrays and (reading.target or reading.task != "clustering"):
            held[target] = column_of_key(source.name, target, arrays[target], len(X))
        self.held = pa.table(held)
        super().__init__(source, reading)
        self.notes += notes

    @contextmanager
    def _opened(self) -> Iterator[tuple[Any, Iterator[Any], int]]:
        """Give the schema, some rows at a time, and the number of rows."""
        yield self.held.schema, iter(self.held.to_batches(PIECE)), self.held.num_rows

    def load(self, progress: Progress | None = None) -> dict[str, Any]:
        """Return X as an array, y, columns and notes."""
        target, names = self.reading.target, set(self.names)
        if target is None and self.reading.task != "clustering":
            if "y" not in names:
                others = " (or the number of a column)" * (self.source.kind == "npy")
                raise DataError(
                    f"{self.source.name} has no y: choose the target with --target among "
                    f"{in_words(self.keys)}{others} (--task clustering needs none)"
                )
            self.reading.target = "y"
        elif target is not None and target not in names and not as_number(target).is_integer():
            raise no_such("key", target, self.keys)
        parts = super().load(progress)
        X = [column.to_numpy() for column in parts["X"].columns.values()]
        return {**parts, "X": np.column_stack(X)}


def column_of_key(name: str, key: str, y: NDArray[Any], n: int) -> NDArray[Any]:
    """Return the target as float64 or text, for each of n rows."""
    if y.shape == (n, 1):
        y = y[:, 0]
    about = f"but is of shape {y.shape} and type {y.dtype}"
    if y.shape != (n,):
        raise DataError(f"{key!r} in {name} must have {n:,} entries, {about}")
    if y.dtype.kind == "S":
        y = np.char.decode(y, "utf-8", "replace")
    if y.dtype.kind not in "fiubU":
        raise DataError(f"{key!r} in {name} must hold numbers or text, {about}")
    return y if y.dtype.kind == "U" else y.astype(np.float64)
