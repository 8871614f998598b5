"""From the columns of a file to a table and a target: what is used, left out or refused."""

import re
from collections.abc import Iterable, Sequence
from shlex import quote
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.datasets.base import DataError, about, count, in_words, no_such
from tombola.datasets.cells import as_number
from tombola.datasets.reading import Loaded, Reading
from tombola.datasets.table import Column, Place, Table, Words, kind_of, missing_in, take

__all__ = [
    "assembled",
    "check_names",
    "column_number",
    "left_out",
    "refuse_infinite",
    "refuse_missing",
]

INDEX = re.compile(r"(column 0|unnamed: ?\d+|index|rownames|row|(row|line)?(id|nr|no)\.?|#)$", re.I)
IDENTIFIER = re.compile(r"(?i:(.*[_ .-])?id|uuid|guid)$|.*[a-z]I[dD]$")
LEAST = 3  # rows in order make an index
ENOUGH = 10  # rows with different numbers make an identifier, if their column is named so


def assembled(
    file: str, names: Sequence[str], loaded: Loaded, reading: Reading, *, headed: bool = True
) -> dict[str, Any]:
    """Return X, y, columns and notes; refuse columns that cannot be used, or leave out rows.

    Parameters
    ----------
    file : str
        Its name.
    names : sequence of str
        All columns of the file, in order.
    loaded : Loaded
    reading : Reading
    headed : bool, default=True
        Whether the file names its columns.
    """
    check_names(names, reading)
    target = reading.target
    if target is None and reading.task != "clustering":
        raise DataError(
            f"choose the target with --target: {in_words(names)} (--task clustering needs none)"
        )
    held = None if target is None else names[column_number(names, target)]
    if held in reading.drop:
        raise DataError(f"the target {held!r} cannot be dropped: leave out --drop {quote(held)}")
    columns = {name: it for name, it in loaded.columns.items() if name not in reading.drop}
    n = max((len(missing_in(column)) for column in columns.values()), default=0)
    if not n:
        raise DataError(f"{file} has a header but no rows")
    y = None if held is None else columns.pop(held)
    if not columns:
        raise DataError(f"{file} has no column besides the target")
    notes = list(loaded.notes)
    columns = _without_empty(columns, notes)
    columns = _without_index(columns, reading.keep, notes, headed)
    place = loaded.place
    if reading.skip_bad_rows:
        columns, y, place = _without_bad_rows(columns, y, held, loaded, reading, notes)
    names_used = list(columns)
    refuse_infinite(names_used, columns.values(), place)
    if not reading.impute:
        refuse_missing(names_used, columns.values(), place)
    return {
        "X": Table(columns, loaded.forms, place),
        "y": None if held is None or y is None else _labels(held, y, place),
        "columns": tuple(columns),
        "notes": tuple(notes),
        "label": "" if held is None else repr(held),
    }


def check_names(names: Sequence[str], reading: Reading) -> None:
    """Refuse names of columns that do not exist."""
    for name in (*reading.drop, *reading.keep, *reading.types):
        if name not in names:
            raise no_such("column", name, names)


def column_number(names: Sequence[str], target: str) -> int:
    """Return the position of a column, given by name or number."""
    if target in names:
        return names.index(target)
    number = as_number(target)
    if number.is_integer() and -len(names) <= number < len(names):
        return int(number) % len(names)
    raise no_such("column", target, names)


# --- columns that are left out ------------------------------------------------------------------


def _without_empty(columns: dict[str, Column], notes: list[str]) -> dict[str, Column]:
    """Return the columns that hold anything."""
    empty = [name for name, column in columns.items() if missing_in(column).all()]
    if empty and len(empty) < len(columns):
        notes.append(about(empty, "is empty and was left out.", "are empty and were left out."))
        return {name: it for name, it in columns.items() if name not in empty}
    return columns


def _without_index(
    columns: dict[str, Column], keep: Sequence[str], notes: list[str], headed: bool
) -> dict[str, Column]:
    """Return the columns that do not only number the rows."""
    used = dict(columns)
    for k, (name, column) in enumerate(columns.items()):
        unnamed = not headed and k == 0 and name == "0"
        what = _numbers_rows(name, column, unnamed)
        if what and name not in keep and len(used) > 1:
            del used[name]
            notes.append(
                f"The column {name!r} {what} and was left out (--keep {quote(name)} uses it)."
            )
    return used


def _numbers_rows(name: str, column: Column, unnamed: bool) -> str | None:
    """Return in words why a column says nothing about its rows, or None."""
    named = IDENTIFIER.match(name) is not None
    if not (unnamed or named or INDEX.match(name)) or kind_of(column) != "number":
        return None
    assert isinstance(column, np.ndarray)
    n = len(column)
    if n >= LEAST and column[0] in (0.0, 1.0) and (np.diff(column) == 1.0).all():
        return "numbers the rows"
    whole = named and n >= ENOUGH and bool((column == np.floor(column)).all())
    differ = whole and len(np.unique(column)) == n
    return "is an identifier, different in all rows," if differ else None


# --- rows that are left out ---------------------------------------------------------------------


def _without_bad_rows(
    columns: dict[str, Column],
    y: Column | None,
    held: str | None,
    loaded: Loaded,
    reading: Reading,
    notes: list[str],
) -> tuple[dict[str, Column], Column | None, Place]:
    """Return columns and target without the rows that would be refused."""
    used = {**columns, **({} if y is None or held is None else {held: y})}
    bad: dict[str, Any] = {}
    for why, where in loaded.bad.items():
        if any(why.startswith(repr(name)) for name in used):
            bad[why] = np.array(where, dtype=np.int64)
    for name, column in used.items():
        lost = missing_in(column)
        if kind_of(column) == "number":
            bad[f"{name!r} is infinite or too large"] = np.flatnonzero(np.isinf(column))  # type: ignore[arg-type]
        if name == held or not reading.impute:
            known = bad.get(f"{name!r} is not a number", bad.get(f"{name!r} is not a date", ()))
            bad[f"{name!r} is missing"] = np.setdiff1d(np.flatnonzero(lost), known)
    n = len(missing_in(next(iter(columns.values()))))
    rows = left_out(n, bad, loaded.place, notes, loaded.skipped)

    def place(row: int) -> str:
        return loaded.place(int(rows[row]))

    chosen = {name: take(column, rows) for name, column in columns.items()}
    return chosen, None if y is None else take(y, rows), place


def left_out(
    n: int, bad: dict[str, Any], place: Place, notes: list[str], skipped: Sequence[str] = ()
) -> NDArray[np.int64]:
    """Return the rows that are not bad, and note how many were left out for which reason."""
    gone = np.zeros(n, dtype=bool)
    reasons = []
    if skipped:
        reasons.append(f"{len(skipped):,} with another number of fields (first {skipped[0]})")
    for why, rows in bad.items():
        if len(rows):
            gone[rows] = True
            reasons.append(f"{len(rows):,} where {why} (first {place(int(min(rows)))})")
    total = int(gone.sum()) + len(skipped)
    if gone.all():
        raise DataError(f"no row is left: {in_words(reasons, most=5)}")
    if total:
        was = "was" if total == 1 else "were"
        notes.append(f"{count(total, 'row')} {was} left out: {in_words(reasons, most=5)}.")
    return np.flatnonzero(~gone)


# --- what is refused ----------------------------------------------------------------------------


def _labels(name: str, column: Column, place: Place) -> NDArray[Any]:
    """Return the target; refuse missing values."""
    lost = np.flatnonzero(missing_in(column))
    if lost.size:
        raise DataError(
            f"the target {name!r} is missing in {count(lost.size, 'row')}, first in "
            f"{place(int(lost[0]))} (--skip-bad-rows leaves such rows out)"
        )
    if isinstance(column, Words):
        return column.strings()
    if column.dtype.kind == "M":  # days since 1970
        return np.asarray((column - np.datetime64(0, "D")) / np.timedelta64(1, "D"))
    refuse_infinite([name], [column], place)
    return column


def refuse_missing(
    names: Sequence[str],
    columns: Iterable[Column],
    place: Place,
    ways: Sequence[str] = ("median", "mean"),
) -> None:
    """Raise an error that counts missing values by column, and names ways to fill them in."""
    total, found = 0, []
    for name, column in zip(names, columns, strict=True):
        lost = np.flatnonzero(missing_in(column))
        if lost.size:
            total += lost.size
            found.append(f"{name!r} ({lost.size:,}, first in {place(int(lost[0]))})")
    if found:
        raise DataError(
            f"{count(total, 'value')} {'is' if total == 1 else 'are'} missing, in "
            f"{in_words(found, most=5)}: fill them in with --impute {' or --impute '.join(ways)}"
        )


def refuse_infinite(
    names: Sequence[str],
    columns: Iterable[Column],
    place: Place,
    way_out: str = " (--skip-bad-rows leaves such rows out)",
) -> None:
    """Raise an error that names the first column with infinite values, and a way out."""
    for name, column in zip(names, columns, strict=True):
        if isinstance(column, Words) or column.dtype.kind == "M":
            continue
        wrong = np.flatnonzero(np.isinf(column))
        if wrong.size:
            raise DataError(
                f"{count(wrong.size, 'value')} of {name!r} {'is' if wrong.size == 1 else 'are'} "
                f"infinite or too large, first in {place(int(wrong[0]))}{way_out}"
            )
