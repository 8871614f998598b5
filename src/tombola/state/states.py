"""States: named tuples of arrays and records, which kernels take as one argument.

A class that derives from `State` declares its parts; it inherits those of its bases. Its ordinary
methods can be called inside kernels, with the state as `self`.
"""

from collections import namedtuple
from collections.abc import Mapping
from inspect import get_annotations
from typing import TYPE_CHECKING, Any, ClassVar, Self, dataclass_transform, get_args, get_origin

import numpy as np

from tombola.compiling import name_by_source
from tombola.state.fields import (
    Array,
    CheckpointError,
    Field,
    Scope,
    array,
    as_mapping,
    derived,
    entry_of,
    refuse_unknown,
    within,
)
from tombola.state.records import Cell, Record

__all__ = ["Arrays", "State"]

CLASS_VARIABLE: Any = ClassVar


@dataclass_transform(frozen_default=True, field_specifiers=(array, derived))
class Declared(type):
    """Makes a class with annotations a named tuple of these parts and those of its bases."""

    def __new__(
        meta, name: str, bases: tuple[type, ...], space: dict[str, Any], *, init: bool = True
    ) -> type:
        kind: Any = super().__new__(meta, name, bases, {**space, "__slots__": ()})
        parts: dict[str, Any] = {}
        for base in reversed(kind.__mro__[1:]):
            parts |= vars(base).get("parts", {})
        for part, annotation in get_annotations(kind).items():
            if get_origin(annotation) is not CLASS_VARIABLE:
                parts[part] = _declaration(annotation, space.get(part))
        kind.parts = parts
        plain: Any = namedtuple(name, parts)  # type: ignore[misc]
        kind._fields = plain._fields
        kind._plain = init and all(getattr(base, "_plain", True) for base in bases)
        if kind._plain:  # else the class, or one of its bases, has a constructor of its own
            kind.__new__ = staticmethod(plain.__new__)
        for part in parts:
            setattr(kind, part, vars(plain)[part])
        name_by_source(kind)
        return kind  # type: ignore[no-any-return]


def _declaration(annotation: Any, given: Any) -> Any:
    """Return what says how a part is saved: a field, or the class of its records or state."""
    if isinstance(given, Field):
        return given
    if get_origin(annotation) is Cell:
        return get_args(annotation)[0]
    return annotation if isinstance(annotation, Declared) else None


if TYPE_CHECKING:  # its parts are found by name: one of them may be called `index` or `count`
    _Tuple = object
else:
    _Tuple = tuple


class State(_Tuple, metaclass=Declared):
    """A named tuple whose parts are declared: arrays, records in a `Cell`, and other states.

    What changes is saved as nested dicts of arrays and numbers, and loaded in place. A saved state
    is checked in full before anything is loaded, so that kernels stay within their arrays, whatever
    a file contains.

    Examples
    --------
    >>> class Counts(State):
    ...     counts: np.ndarray = array("how often each item was drawn", 0, 2**60)
    >>> counts = Counts(counts=np.zeros(3, dtype=np.int64))
    >>> counts.check({"counts": np.array([0, -1, 0])})
    Traceback (most recent call last):
    tombola.state.fields.CheckpointError: counts[1] must be from 0 to 2^60, got ...
    """

    _fields: ClassVar[tuple[str, ...]] = ()
    parts: ClassVar[dict[str, Any]] = {}

    def _asdict(self) -> dict[str, Any]:
        values: Any = self
        return dict(zip(self._fields, values, strict=True))

    def _replace(self, **parts: Any) -> Self:
        return type(self)(**{**self._asdict(), **parts})

    def __getnewargs__(self) -> tuple[Any, ...]:  # for pickle and copy
        return tuple(self._asdict().values())

    # --- what a class may add -------------------------------------------------------------------

    def fault(self, saved: Mapping[str, Any]) -> str:
        """Return what is wrong with saved parts that are valid one by one; "" if nothing is."""
        return ""

    def restore(self) -> None:
        """Compute what is not saved from what is; the default does nothing."""

    # --- save and load --------------------------------------------------------------------------

    def saved(self) -> dict[str, Any]:
        """Return a copy of the parts that change, as nested dicts of arrays and numbers."""
        return {name: _saved(part, how) for name, part, how in self._saved_parts()}

    def check(self, saved: Any, name: str = "", outer: Scope | None = None) -> None:
        """Raise a CheckpointError that names the first thing in `saved` that cannot be loaded."""
        given = as_mapping(saved, name)
        parts = {part: (live, how) for part, live, how in self._saved_parts()}
        read: dict[str, Any] = {}
        scope = Scope(read, self, outer)
        for part, (live, how) in parts.items():
            value, where = entry_of(given, part, name), within(name, part)
            if isinstance(live, State):
                live.check(value, where, scope)
            elif isinstance(how, Field):
                how.read(value, where, scope, live)
            else:
                how.check(live, value, where, scope)
            read[part] = value
        refuse_unknown(given, parts, name)
        fault = self.fault(given)
        if fault:
            raise CheckpointError(f"{name}: {fault}" if name else fault)

    def load(self, saved: Mapping[str, Any]) -> None:
        """Write saved parts into this state, in place; `check` comes first."""
        for name, part, how in self._saved_parts():
            if isinstance(part, State):
                part.load(saved[name])
            elif isinstance(how, Field):
                part[...] = saved[name]
            else:
                how.load(part, saved[name])
        self.restore()

    def _saved_parts(self) -> list[tuple[str, Any, Any]]:
        """Return name, live part and declaration of each part that is saved."""
        found = []
        for name, part in self._asdict().items():
            how = self.parts[name]
            if how is None and not isinstance(part, State):
                raise TypeError(f"{type(self).__name__}.{name} is not declared")
            if how is None or not isinstance(how, Field) or how.saved:
                found.append((name, part, how))
        return found


def _saved(part: Any, how: Any) -> Any:
    if isinstance(part, State):
        return part.saved()
    if isinstance(how, type) and issubclass(how, Record):
        return how.saved(part)
    return np.array(part)  # contiguous, whatever lies between its elements


class Arrays:
    """Arrays by name as a state: of a saved one, only types and shapes are known."""

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self.arrays = arrays

    def saved(self) -> dict[str, Any]:
        """Return copies of the arrays."""
        return {name: array.copy() for name, array in self.arrays.items()}

    def check(self, saved: Any) -> None:
        """Raise a CheckpointError unless a dict holds arrays of the same types and shapes."""
        given = as_mapping(saved, "")
        for name, live in self.arrays.items():
            Array("", None, None).read(entry_of(given, name), name, Scope(given), live)
        refuse_unknown(given, self.arrays, "")

    def load(self, saved: Mapping[str, Any]) -> None:
        """Write saved values into the arrays, in place; `check` comes first."""
        for name, live in self.arrays.items():
            live[...] = saved[name]
