"""Read files of sparse rows: LIBSVM (a label and column:number pairs a line), and NPZ with CSR."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tombola.datasets.base import WIDEST, DataError, Progress, as_csr, in_words, no_such
from tombola.datasets.checks import check_names, left_out
from tombola.datasets.reading import Reading, as_number
from tombola.datasets.sources import Source

__all__ = ["CsrFile", "LibsvmFile", "SparseFile"]

PIECE = 2**13  # rows that are converted at a time
MOST_NAMED = 2**22  # columns that can be named one by one
FEW_ROWS = 2**20  # of a matrix by columns, whatever the file holds


class SparseFile(ABC):
    """A file of sparse rows, whose columns are numbered from `first` on."""

    first = 0

    def __init__(self, source: Source, reading: Reading) -> None:
        self.source, self.reading = source, reading
        if reading.rows is not None:
            raise DataError(f"--rows is for tables, and {source.name} is not one")

    @abstractmethod
    def load(self, progress: Progress | None = None) -> dict[str, Any]:
        """Return X, y, columns, notes and the name of the target."""

    @abstractmethod
    def pieces(self, width: int, first: int, progress: Progress | None = None) -> Iterator[Any]:
        """Yield some rows at a time, of `width` columns that are numbered from `first` on."""


class CsrFile(SparseFile):
    """The arrays of a CSR matrix, as scipy saves it; and of a target."""

    def __init__(self, source: Source, reading: Reading, arrays: dict[str, NDArray[Any]]) -> None:
        super().__init__(source, reading)
        self.arrays, self.X = arrays, _csr(source.name, arrays)
        if 0 in self.X.shape:
            raise DataError(f"X in {source.name} is empty: its shape is {self.X.shape}")

    def load(self, progress: Progress | None = None) -> dict[str, Any]:
        """Return the columns that are not dropped, and the rows that are not bad."""
        from tombola.datasets.arrays import column_of_key

        X, reading = self.X, self.reading
        names, notes = tuple[str, ...](), list[str]()
        if reading.drop or reading.keep:
            if X.shape[1] > MOST_NAMED:
                raise DataError(
                    f"{self.source.name} has {X.shape[1]:,} columns, too many for --drop and --keep"
                )
            names = tuple(map(str, range(X.shape[1])))
            check_names(names, reading)
            names = tuple(name for name in names if name not in reading.drop)
            X = X[:, [int(name) for name in names]]
        key, y = reading.target or "y", None
        if key in self.arrays and (reading.target or reading.task != "clustering"):
            y = column_of_key(self.source.name, key, self.arrays[key], X.shape[0])
        elif reading.target is not None:
            raise no_such("key", key, self.arrays)
        elif reading.task != "clustering":
            raise DataError(
                f"{self.source.name} has no y: choose the target with --target among "
                f"{in_words(self.arrays)} (--task clustering needs none)"
            )
        odd = np.flatnonzero(~np.isfinite(X.data))
        rows = np.searchsorted(X.indptr, odd, side="right") - 1
        known = y is None or y.dtype.kind == "U"
        lost = np.zeros(0, int) if known else np.flatnonzero(~np.isfinite(y))  # type: ignore[arg-type]
        if reading.skip_bad_rows:
            bad = {f"{key!r} is missing or infinite": lost, "X is not finite": np.unique(rows)}
            good = left_out(X.shape[0], bad, _place, notes)
            X, y = X[good], None if y is None else y[good]
        elif lost.size:
            raise DataError(
                f"the target {key!r} is missing or infinite in {lost.size:,} rows, first in "
                f"{_place(int(lost[0]))} (--skip-bad-rows leaves such rows out)"
            )
        elif odd.size:
            raise DataError(
                f"column {X.indices[odd[0]]} of sparse data is {X.data[odd[0]]} in "
                f"{_place(int(rows[0]))}: values must be finite (--skip-bad-rows leaves such rows "
                "out)"
            )
        return {"X": X, "y": y, "columns": names, "notes": tuple(notes), "label": repr(key)}

    def pieces(self, width: int, first: int, progress: Progress | None = None) -> Iterator[Any]:
        """Yield some rows at a time; there must be as many columns."""
        if self.X.shape[1] != width:
            raise DataError(
                f"{self.source.name} has {self.X.shape[1]:,} columns, but the training rows had "
                f"{width:,}"
            )
        n = self.X.shape[0]
        for start in range(0, n, PIECE):
            rows = self.X[start : start + PIECE]
            if np.isinf(rows.data).any():
                raise DataError(
                    f"{self.source.name} holds infinite values, from row {start + 1} on"
                )
            yield rows
            if progress is not None:
                progress(min(start + PIECE, n), n)


def _place(row: int) -> str:
    return f"row {row + 1}"


def _csr(name: str, arrays: dict[str, NDArray[Any]]) -> Any:
    indices, indptr = arrays["indices"], arrays["indptr"]
    values = arrays.get("data", np.ones(indices.shape))
    by_columns = "format" in arrays and arrays["format"].tolist() in (b"csc", "csc")
    whole = all(arrays[part].dtype.kind in "iu" for part in ("indices", "indptr", "shape"))
    shape = arrays["shape"].tolist() if whole and arrays["shape"].shape == (2,) else [-1, -1]
    shape = shape[::-1] if by_columns else shape
    fits = (
        whole
        and min(shape) >= 0
        and values.dtype.kind in "fiub"
        and indices.ndim == indptr.ndim == 1
        and values.shape == indices.shape
        and len(indptr) == shape[0] + 1
        and indptr[0] == 0
        and indptr[-1] == len(indices)
        and bool((indptr[1:] >= indptr[:-1]).all())
        and (not len(indices) or 0 <= indices.min() <= indices.max() < shape[1])
    )
    if not fits:
        raise DataError(f"indices, indptr, shape (and data) in {name} are not a valid CSR matrix")
    X = as_csr(values, indices, indptr, shape)
    if by_columns:
        if shape[1] > max(FEW_ROWS, *(array.size for array in arrays.values())):
            raise DataError(f"{name} has {shape[1]:,} rows, but far fewer numbers")
        X = X.T.tocsr()
        X = as_csr(X.data, X.indices, X.indptr, X.shape)
    return X


class LibsvmFile(SparseFile):
    """A LIBSVM file, whose first column has the number 0 or 1."""

    _skipped: Sequence[str] = ()  # lines that could not be read

    def load(self, progress: Progress | None = None) -> dict[str, Any]:
        """Return X and y, read by scikit-learn, or line by line where it gives up."""
        for option in ("drop", "keep", "features"):
            if getattr(self.reading, option):
                raise DataError(f"--{option} is not for LIBSVM files: their columns have no names")
        if self.reading.target is not None:
            raise DataError(
                "the target of a LIBSVM file is the first number of each line: leave out --target "
                f"{self.reading.target}"
            )
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
        self._skipped = skipped = list[str]()
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
                skipped.append(f"line {line}")
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
