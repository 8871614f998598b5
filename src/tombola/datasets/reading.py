"""The options of reading a file, and tables as they come out of one."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tombola.datasets.base import TASKS, DataError
from tombola.datasets.cells import Style
from tombola.datasets.dates import ORDERS
from tombola.datasets.table import Column, Place
from tombola.validation import brief

__all__ = ["KINDS", "Loaded", "Reading", "unique_names"]

KINDS = ("number", "text", "date")


@dataclass(frozen=True)
class Reading:
    """How a file is read; the attributes are arguments of `tombola.datasets.read`."""

    target: str | None = None
    task: str | None = None
    features: str | None = None
    drop: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    decimal: str = "."
    thousands: str = ""
    encoding: str | None = None
    dates: str | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    impute: bool = False
    skip_bad_rows: bool = False

    def __post_init__(self) -> None:
        for name, (fine, words) in _KINDS.items():
            given = getattr(self, name)
            if not fine(given):
                raise DataError(f"{name} must be {words}, got {brief(given)}")
        if self.encoding is not None and "\0" in self.encoding:
            raise DataError(f"encoding {self.encoding!r} is not the name of an encoding")
        if self.task is not None and self.task not in TASKS:
            raise DataError(
                f"task must be {', '.join(TASKS[:-1])} or {TASKS[-1]}, got {self.task!r}"
            )
        if self.dates is not None and self.dates not in ORDERS:
            raise DataError(f"dates must be {' or '.join(ORDERS)}, got {self.dates!r}")
        for name, kind in self.types.items():
            if kind not in KINDS:
                raise DataError(
                    f"the type of {name!r} must be {', '.join(KINDS[:-1])} or {KINDS[-1]}, got "
                    f"{kind!r}"
                )
        for name in ("drop", "keep", "missing"):
            given = getattr(self, name)
            object.__setattr__(self, name, (given,) if isinstance(given, str) else tuple(given))

    @property
    def style(self) -> Style:
        """How cells are written."""
        return Style(self.missing, self.decimal, self.thousands)

    def record(self) -> dict[str, Any]:
        """Return the options that are not at their default."""
        default = asdict(Reading())
        return {name: it for name, it in asdict(self).items() if it != default[name]}


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_text_or_none(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _are_texts(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, Collection) and all(map(_is_text, value)))


def _are_types(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(it, str) for pair in value.items() for it in pair
    )


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(
        ("target", "task", "features", "encoding", "dates"), (_is_text_or_none, "a string or None")
    ),
    **dict.fromkeys(("drop", "keep", "missing"), (_are_texts, "a string or several")),
    **dict.fromkeys(("decimal", "thousands"), (_is_text, "a string")),
    "types": (_are_types, "a dict of strings"),
    **dict.fromkeys(("impute", "skip_bad_rows"), (_is_flag, "a bool")),
}


@dataclass
class Loaded:
    """The columns of a file, before they are checked.

    Attributes
    ----------
    columns : dict of str to Column
    place : callable
        Says where a row is in the file.
    forms : dict of str to str
        How dates are written.
    notes : list of str
    bad : dict of str to list of int
        Rows that cannot be used, by reason; empty unless they are to be skipped.
    skipped : list of str
        Places of rows that could not even be split into fields.
    """

    columns: dict[str, Column]
    place: Place
    forms: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    bad: dict[str, list[int]] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)


def unique_names(names: list[str]) -> tuple[list[str], tuple[str, ...]]:
    """Return names that differ: the second a becomes a.1; with a note on each.

    Examples
    --------
    >>> unique_names(["a", "b", "a"])
    (['a', 'b', 'a.1'], ("Another column named 'a' is called 'a.1'.",))
    """
    found: dict[str, None] = {}
    given, notes = set(names), []
    for name in names:
        number, new = 0, name
        while new in found or (number and new in given):
            number += 1
            new = f"{name}.{number}"
        if number:
            notes.append(f"Another column named {name!r} is called {new!r}.")
        found[new] = None
    return list(found), tuple(notes)
