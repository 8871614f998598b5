"""Dates that are written as text: how they are written, and what they mean."""

import functools
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ORDERS", "moments", "parse", "written_as"]

_TIME = (
    r"(?:[T ]\s*(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?P<part>[.,]\d+)?)?"
    r"\s*(?P<half>[AaPp]\.?[Mm]\.?)?\s*(?P<zone>Z|UTC|GMT|[+-]\d{2}:?\d{2})?)?$"
)
_YEAR = r"(?P<year>\d{4}|\d{2})"
_DAY, _MONTH, _NAME = r"(?P<day>\d{1,2})", r"(?P<month>\d{1,2})", r"(?P<name>[A-Za-z]{3,9})"
_FORMS = {
    "year-month-day": rf"(?P<year>\d{{4}})([-/.]){_MONTH}\2{_DAY}",
    "day-month-year": rf"{_DAY}([-/.]){_MONTH}\2{_YEAR}",
    "month-day-year": rf"{_MONTH}([-/.]){_DAY}\2{_YEAR}",
    "day-name-year": rf"{_DAY}[ -]{_NAME}\.?,?[ -]{_YEAR}",
    "name-day-year": rf"{_NAME}\.? {_DAY},? (?P<year>\d{{4}})",
}
FORMS = {name: re.compile(form + _TIME) for name, form in _FORMS.items()}
ORDERS = {"day-first": "day-month-year", "month-first": "month-day-year"}
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
SAMPLE = 20  # values that are tried before all of them
EPOCH = datetime(1970, 1, 1)
MICROSECOND = timedelta(microseconds=1)


@functools.lru_cache(maxsize=2**14)
def parse(cell: str, form: str) -> int | None:
    """Return the microseconds since 1970, in UTC; None if the text is no date of this form.

    Examples
    --------
    >>> day = 24 * 60 * 60 * 10**6
    >>> parse("1970-01-03", "year-month-day") / day, parse("2.1.1970 12:00", "day-month-year") / day
    (2.0, 1.5)
    """
    match = FORMS[form].match(cell)
    if match is None:
        return None
    found = match.groupdict()
    try:
        named = found.get("name")
        month = MONTHS.index(named[:3].lower()) + 1 if named else int(found["month"])
        year = int(found["year"])
        if len(found["year"]) == 2:  # as in POSIX
            year += 1900 if year >= 69 else 2000
        hour = int(found["hour"] or 0)
        if found["half"]:
            hour = hour % 12 + 12 * (found["half"][0] in "pP")
        part = round(float("0" + (found["part"] or ".0").replace(",", ".")) * 1e6)
        minute, second = int(found["minute"] or 0), int(found["second"] or 0)
        moment = datetime(year, month, int(found["day"]), hour, minute, second)
    except ValueError:  # 30 February
        return None
    return (moment - EPOCH - _offset(found["zone"])) // MICROSECOND + part


def _offset(zone: str | None) -> timedelta:
    if zone is None or zone[0] not in "+-":
        return timedelta()
    sign = -1 if zone[0] == "-" else 1
    return sign * timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))


def moments(values: Sequence[str], form: str) -> tuple[NDArray[Any], list[int]]:
    """Return dates as datetime64, and the positions of those that are none."""
    found = [parse(value, form) for value in values]
    odd = [k for k, moment in enumerate(found) if moment is None]
    nat = np.iinfo(np.int64).min
    numbers = np.array([nat if it is None else it for it in found], dtype=np.int64)
    return numbers.view("datetime64[us]"), odd


def written_as(values: Sequence[str], order: str | None = None) -> tuple[str, bool] | None:
    """Return the form in which most values are dates, and whether another would do as well.

    None if half of the values or more are no dates. Of day-month-year and month-day-year, where
    both would do: the one that `order` names, else the first if numbers are separated by dots.
    """
    best: tuple[int, str] = (0, "")
    fits: dict[str, int] = {}
    for form in FORMS:
        sample = values[:SAMPLE]
        if any(parse(value, form) is not None for value in sample):
            fits[form] = sum(parse(value, form) is not None for value in values)
            best = max(best, (fits[form], form), key=lambda it: it[0])
    most, form = best
    if 2 * most <= len(values):
        return None
    twins = set(ORDERS.values())
    if form not in twins or len({fits.get(twin) for twin in twins}) > 1:
        return form, False
    if order is not None:
        return ORDERS[order], False
    return ORDERS["day-first" if "." in values[0] else "month-first"], True
