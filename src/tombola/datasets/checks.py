"""What is refused in the columns and rows of a file, or left out."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.datasets.base import DataError, count, in_words, no_such
from tombola.datasets.reading import Reading, as_number

__all__ = ["check_names", "column_number", "left_out", "refuse_infinite", "refuse_missing"]

Masks = Iterable[tuple[str, NDArray[np.bool_]]]  # the rows of each column that are wrong


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
    if len(names) == 1 and target in names[0]:
        raise DataError(
            f"there is one column only, {names[0]!r}: fields are separated by a comma, semicolon, "
            "tab, vertical bar or spaces"
        )
    raise no_such("column", target, names)


def left_out(
    n: int,
    bad: dict[str, Any],
    place: Callable[[int], str],
    notes: list[str],
    skipped: Sequence[str] = (),
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


def refuse_missing(
    missing: Masks, place: Callable[[int], str], ways: Sequence[str] = ("median", "mean")
) -> None:
    """Raise an error that counts missing values by column, and names ways to fill them in."""
    total, found = 0, []
    for name, mask in missing:
        lost = int(mask.sum())
        if lost:
            total += lost
            found.append(f"{name!r} ({lost:,}, first in {place(int(mask.argmax()))})")
    if found:
        raise DataError(
            f"{count(total, 'value')} {'is' if total == 1 else 'are'} missing, in "
            f"{in_words(found, most=5)}: fill them in with --impute {' or --impute '.join(ways)}"
        )


def refuse_infinite(
    infinite: Masks,
    place: Callable[[int], str],
    way_out: str = " (--skip-bad-rows leaves such rows out)",
) -> None:
    """Raise an error that names the first column with infinite values, and a way out."""
    for name, mask in infinite:
        wrong = int(mask.sum())
        if wrong:
            raise DataError(
                f"{count(wrong, 'value')} of {name!r} {'is' if wrong == 1 else 'are'} infinite or "
                f"too large, first in {place(int(mask.argmax()))}{way_out}"
            )
