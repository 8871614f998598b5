"""Read LIBSVM files: a label and column:number pairs in each line."""

from collections.abc import Iterator
from itertools import pairwise
from typing import IO, Any

import numpy as np

from tombola.datasets.base import WIDEST, DataError, Progress, as_csr
from tombola.datasets.reading import Reading, as_number
from tombola.datasets.sources import Source

__all__ = ["LibsvmFile"]

PIECE = 2**13  # rows that are converted at a time


class LibsvmFile:
    """A LIBSVM file, whose first column has the number `first`: 0 or 1."""

    def __init__(self, source: Source, reading: Reading) -> None:
        self.source, self.reading = source, reading
        self.first = 0
        self._skipped: list[str] = []
        for name in ("drop", "keep", "features"):
            if getattr(reading, name):
                raise DataError(f"--{name} is not for LIBSVM files: their columns have no names")
        if reading.target is not None:
            raise DataError(
                "the target of a LIBSVM file is the first number of each line: leave out --target "
                f"{reading.target}"
            )

    def read(self, progress: Progress | None = None) -> dict[str, Any]:
        """Return X and y; see `tombola.datasets.read`."""
        from sklearn.datasets import load_svmlight_file

        name, notes = self.source.name, []
        try:
            with self.source.binary(progress) as file:
                X, y = load_svmlight_file(file, zero_based=True)
            if not (np.isfinite(X.data).all() and np.isfinite(y).all()):
                raise ValueError("it holds a value that is not finite")
        except (ValueError, OverflowError) as error:
            X, y = self._read_lines()
            if not self._skipped:
                notes.append(f"{name} was read line by line ({str(error).splitlines()[0]}).")
        if 0 in X.shape:
            raise DataError(f"{name} has no rows or no columns")
        if X.nnz and X.indices.min() > 0:
            self.first = 1
            X = as_csr(X.data, X.indices - 1, X.indptr, (X.shape[0], X.shape[1] - 1))
        if self._skipped:
            notes.append(
                f"{len(self._skipped):,} lines were left out that could not be read, first "
                f"{self._skipped[0]}."
            )
        X = as_csr(X.data, X.indices, X.indptr, X.shape)
        return {"X": X, "y": y, "columns": (), "notes": tuple(notes), "label": f"of {name}"}

    def pieces(self, width: int, first: int, progress: Progress | None = None) -> Iterator[Any]:
        """Yield some rows at a time, of `width` columns; columns beyond are left out."""
        with self.source.binary(progress) as file:
            rows: list[Any] = []
            for _, columns, values in self._lines(file):
                fits = (columns >= first) & (columns < width + first)
                rows.append((columns[fits] - first, values[fits]))
                if len(rows) == PIECE:
                    yield _matrix(rows, width)
                    rows = []
        if rows:
            yield _matrix(rows, width)

    def _read_lines(self) -> tuple[Any, Any]:
        """Read line by line: columns in any order, and labels that are words."""
        labels, rows = [], []
        with self.source.binary() as file:
            for label, columns, values in self._lines(file, labelled=True):
                labels.append(label)
                rows.append((columns, values))
        width = max((int(columns[-1]) + 1 for columns, _ in rows if columns.size), default=0)
        numbers = np.array([as_number(label) for label in labels])
        y: Any = np.array(labels) if np.isnan(numbers).all() else numbers
        return _matrix(rows, width), y

    def _lines(self, file: IO[bytes], labelled: bool = False) -> Iterator[tuple[str, Any, Any]]:
        """Yield the label, the columns and the numbers of each line."""
        self._skipped = []
        words_seen = numbers_seen = False
        for line, raw in enumerate(file, 1):
            words = raw.decode(errors="replace").split("#")[0].split()
            if not words:
                continue
            fault, pairs = _pairs(words[1:])
            numeric = bool(np.isfinite(as_number(words[0])))
            if labelled and (words_seen if numeric else numbers_seen):
                fault = f"begins with {words[0]!r}, which is not a finite number"
            if labelled and fault is None:
                words_seen, numbers_seen = words_seen or not numeric, numbers_seen or numeric
            if fault is None:
                columns = np.array([column for column, _ in pairs], dtype=np.int64)
                yield words[0], columns, np.array([value for _, value in pairs])
            elif self.reading.skip_bad_rows and labelled:
                self._skipped.append(f"line {line}")
            else:
                raise DataError(f"line {line} of {self.source.name} {fault}")


def _pairs(words: list[str]) -> tuple[str | None, list[tuple[int, float]]]:
    """Return what is wrong with a line, or None; and its columns and numbers in order."""
    pairs = []
    for word in words:
        column, _, value = word.partition(":")
        if column == "qid":
            continue
        if not (column.isdecimal() and np.isfinite(as_number(value))):
            return f"has {word!r}, which is not column:number", []
        if len(column.lstrip("0")) > len(str(WIDEST)) or int(column) >= WIDEST:
            return f"has column {column[:30]}, which is not below {WIDEST}", []
        pairs.append((int(column), as_number(value)))
    pairs.sort()
    twice = next((a for (a, _), (b, _) in pairwise(pairs) if a == b), None)
    if twice is not None:
        return f"has column {twice} twice", []
    return None, pairs


def _matrix(rows: list[Any], width: int) -> Any:
    indptr = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum([columns.size for columns, _ in rows], out=indptr[1:])
    none = np.zeros(0)
    indices = np.concatenate([columns for columns, _ in rows] or [none]).astype(np.int64)
    values = np.concatenate([values for _, values in rows] or [none])
    return as_csr(values, indices, indptr, (len(rows), width))
