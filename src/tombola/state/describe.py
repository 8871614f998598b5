"""Describe what states, records and documents hold, for tables in the documentation."""

from inspect import get_annotations
from typing import Any, NamedTuple, get_args, get_origin

import numpy as np

from tombola.state.documents import Document
from tombola.state.fields import Array, Field, within
from tombola.state.records import Cell
from tombola.state.states import State

__all__ = ["Row", "describe"]

WORDS = {float: "float", int: "integer", bool: "bool", str: "text"}


class Row(NamedTuple):
    """One field: its full name, as errors have it, its type, its valid range, its meaning."""

    name: str
    type: str
    range: str
    meaning: str


def describe(kind: type[State | Document], name: str = "") -> list[Row]:
    """Return a row for each field of a class, those of nested parts with dotted names.

    Examples
    --------
    >>> from tombola.state import Record, State, array, count
    >>> class Sums(Record):
    ...     fed: int = count("losses received")
    >>> class Losses(State):
    ...     sums: Cell[Sums]
    ...     latest: np.ndarray = array("the last loss of each item", 0.0)
    >>> for row in describe(Losses):
    ...     print(*row, sep=" | ")
    sums.fed | integer | 0 to 2^60 | losses received
    latest | array | 0 to 1.8e308 | the last loss of each item
    """
    types: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        types |= get_annotations(base)
    rows: list[Row] = []
    for key, how in (kind.parts if issubclass(kind, State) else kind.declared).items():
        where = within(name, key)
        if isinstance(how, Field):
            rows.append(Row(where, _type(types[key], how), how.range, how.meaning))
            rows += _held(how, where)
        elif how is None:
            raise TypeError(f"{kind.__name__}.{key} is not declared")
        else:
            rows += describe(how, where)
    return rows


def _held(field: Field, name: str) -> list[Row]:
    """Return the rows of the documents within a field; k stands for the number or key of one."""
    rows: list[Row] = []
    inner = f"{name}.k" if field.many else name
    for one in field.holds:
        if isinstance(one, Field):
            rows += _held(one, inner)
        elif issubclass(one, Document):
            rows += describe(one, inner)
    return rows


def _type(annotation: Any, field: Field) -> str:
    """Return the type of a field in words."""
    if field.saved and not isinstance(field, Array):
        return field.kind
    if get_origin(annotation) is Cell:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) is np.ndarray:
        (element,) = get_args(get_args(annotation)[1])
        return "array" if element is Any else f"array of {np.dtype(element).name}"
    if isinstance(annotation, type) and issubclass(annotation, np.integer):
        return "integer"
    if annotation is np.ndarray or field.saved:
        return "array"
    return WORDS.get(annotation, getattr(annotation, "__name__", str(annotation)))
