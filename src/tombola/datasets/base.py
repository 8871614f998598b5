"""What a data set is, and the error for bad data."""

import difflib
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ENCODE", "IMPUTE", "TASKS", "WIDEST", "DataError", "Dataset", "about", "as_csr",
           "check_encode", "checksum_of_arrays", "checksum_of_file", "count", "in_words",
           "nearest_name", "no_such"]  # fmt: skip

TASKS = ("classification", "regression", "clustering")
IMPUTE = ("median", "mean")
ENCODE = ("auto", "one-hot", "hash", "frequency", "drop")
Progress = Callable[[int, int], None]  # called with the amount done and the total
WIDEST = 2**40  # columns that a sparse matrix may have
NARROW = 2**31  # below this, the indices of a sparse matrix fit 32 bits


class DataError(ValueError):
    """Data are missing or cannot be used: the message says what, where and why."""


def check_encode(encode: Any) -> None:
    """Raise a DataError that names the ways to encode text if this is not one of them."""
    if encode not in ENCODE:
        raise DataError(f"encode must be one of {', '.join(ENCODE)}, got {encode!r}")


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows, targets and their origin, in the same form for all data sets.

    Attributes
    ----------
    name : str
    X : ndarray of shape (n, d), scipy CSR matrix, or Table
        float32 or float64; a table may hold text and dates, too.
    y : ndarray of shape (n,), or None
        Labels of any type, or numbers. VOC has one column for each class, with 1, -1, and 0 for
        images marked as difficult.
    task : {"classification", "regression", "clustering"}
        What the data set is for.
    source : str
        Where it comes from.
    checksum : str
        SHA-256 of the file, or of the arrays if there is no file.
    X_test, y_test : as X and y, or None
        The test rows, if the data set defines them.
    columns : tuple of str
        Names of the columns of X; empty if they have none.
    targets : tuple of str
        Names of the columns of y, if it has several.
    notes : tuple of str
        What was done to the data, in one sentence each.
    read_as : dict
        How a file was read, so that others can be read alike.
    """

    name: str
    X: Any
    y: NDArray[Any] | None
    task: str
    source: str
    checksum: str
    X_test: Any = None
    y_test: NDArray[Any] | None = None
    columns: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    read_as: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        n, d = self.X.shape
        kind = "sparse" if hasattr(self.X, "tocsr") else "dense"
        kind = "table" if hasattr(self.X, "kinds") else kind
        tested = "" if self.X_test is None else f", {self.X_test.shape[0]} test rows"
        return f"Dataset({self.name!r}, {n} x {d}, {kind}, {self.task}{tested})"


def checksum_of_file(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checksum_of_arrays(*arrays: Any) -> str:
    """Return the SHA-256 of dense or sparse arrays: types, shapes and all entries."""
    digest = hashlib.sha256()
    for array in arrays:
        if hasattr(array, "tocsr"):
            digest.update(repr(array.shape).encode())
            parts = [array.data, array.indices.astype(np.int64), array.indptr.astype(np.int64)]
        else:
            parts = [np.asarray(array)]
        for part in parts:
            digest.update(f"{part.dtype.str} {part.shape}".encode())
            digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def as_csr(values: Any, indices: Any, indptr: Any, shape: Any) -> Any:
    """Return a CSR matrix of float64, with 32-bit indices if they fit."""
    from scipy.sparse import csr_matrix

    n, d = (int(size) for size in shape)
    if d > WIDEST:
        raise DataError(f"there are {d:,} columns, more than {WIDEST:,}")
    kind = np.int32 if max(len(indices), n, d) < NARROW else np.int64
    parts = (np.asarray(values, dtype=np.float64), indices.astype(kind), indptr.astype(kind))
    return csr_matrix(parts, shape=(n, d))


# --- words --------------------------------------------------------------------------------------


def count(number: int, what: str) -> str:
    """Return a number with its noun, in the plural unless it is 1."""
    return f"1 {what}" if number == 1 else f"{number:,} {what}s"


def in_words(names: Iterable[str], most: int = 12) -> str:
    """Return names as a list in words; of a long list, the end is only counted."""
    names = list(names) or ["nothing"]
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most:,} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def about(columns: Iterable[str], one: str, several: str) -> str:
    """Return a sentence about one column, or about several.

    Examples
    --------
    >>> about(["a"], "is empty.", "are empty."), about(["a", "b"], "is empty.", "are empty.")
    ("The column 'a' is empty.", "The columns 'a' and 'b' are empty.")
    """
    shown = [repr(name) for name in columns]
    if len(shown) == 1:
        return f"The column {shown[0]} {one}"
    return f"The columns {in_words(shown)} {several}"


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Return "did you mean ...? ", or an empty string if no known name is similar."""
    lower = {other.lower(): other for other in known}
    near = difflib.get_close_matches(name.lower(), lower, n=1)
    return f"did you mean {lower[near[0]]!r}? " if near else ""


def no_such(what: str, name: str, known: Iterable[str]) -> DataError:
    """Return an error that lists the names that exist."""
    known = list(known)
    listed = f"There is {in_words(known)}" if len(known) == 1 else f"There are {in_words(known)}"
    return DataError(f"there is no {what} {name!r}: {nearest_name(name, known)}{listed}")
