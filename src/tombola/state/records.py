"""Records: named numbers that kernels can change.

A kernel cannot change a number that is passed to it, but it can change the elements of an array.
Numbers that change are therefore fields of a one-element structured array: ``cell[0].name``.
"""

import copyreg
import functools
import operator
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    SupportsIndex,
    TypeVar,
    overload,
)

import numpy as np
from numpy.typing import NDArray

from tombola.state.documents import Document
from tombola.state.fields import (
    Scope,
    as_mapping,
    entry_of,
    refuse_unknown,
    within,
)

__all__ = ["Cell", "Record", "cell", "side_by_side"]

CACHE_LINE = 64  # bytes
TYPES = {float: np.float64, int: np.int64, bool: np.bool_}

R = TypeVar("R", covariant=True)
K = TypeVar("K", bound="Record")

if TYPE_CHECKING:

    class Cell(np.ndarray[Any, Any], Generic[R]):
        """Records of one kind, usually one; ``cell[0]`` has its fields."""

        @overload  # type: ignore[override]
        def __getitem__(self, key: SupportsIndex) -> R: ...
        @overload
        def __getitem__(self, key: slice) -> "Cell[R]": ...
        @overload
        def __getitem__(self, key: str) -> NDArray[Any]: ...
        def __getitem__(self, key: Any) -> Any: ...

else:

    class Cell(Generic[R]):
        """Records of one kind, usually one; ``cell[0]`` has its fields."""


class Record(Document):
    """Named numbers: a class declares them, `cell` makes an array of them that kernels change.

    An int becomes int64, a float float64, a bool bool; an array keeps its type and shape.

    Examples
    --------
    >>> from tombola.state import count, real
    >>> class Rule(Record):
    ...     mixing: float = real("theta, the share of uniform draws", 0.0, 1.0)
    ...     drawn: int = count("items drawn", default=0)
    >>> rule = cell(Rule(mixing=0.5))
    >>> rule[0].drawn += 3
    >>> print(rule[0].drawn, rule[0].mixing)
    3 0.5
    >>> Rule.saved(rule)
    {'mixing': 0.5, 'drawn': 3}
    >>> Rule.check(rule, {"mixing": 2.0, "drawn": 3}, "rule")
    Traceback (most recent call last):
    tombola.state.fields.CheckpointError: rule.mixing must be a float from 0 to 1, got 2.0 ...
    """

    @classmethod
    def saved(cls, records: Any) -> dict[str, Any]:
        """Return the saved fields of a cell as a dict of numbers."""
        numbers = dict(zip(records.dtype.names, records.item(), strict=True))
        return {
            name: np.array(numbers[name]) if records.dtype[name].shape else numbers[name]
            for name, field in cls.declared.items()
            if field.saved
        }

    @classmethod
    def check(cls, records: Any, saved: Any, name: str, outer: Scope | None = None) -> None:
        """Raise a CheckpointError that names the first saved number that cannot be loaded."""
        given = as_mapping(saved, name)
        fields = {key: field for key, field in cls.declared.items() if field.saved}
        one = records[0]
        read: dict[str, Any] = {}
        scope = Scope(read, one, outer)
        for key, field in fields.items():
            value, like = entry_of(given, key, name), one[key]
            if like.ndim == 0:
                value, like = _number_of(value, like.dtype), None
            read[key] = field.read(value, within(name, key), scope, like)
        refuse_unknown(given, fields, name)

    @classmethod
    def load(cls, records: Any, saved: Any) -> None:
        """Write saved numbers into a cell, in place; `check` comes first."""
        for key, value in saved.items():
            records[key][0] = value
        cls.restore(records)

    @classmethod
    def restore(cls, records: Any) -> None:
        """Compute what is not saved from what is; the default does nothing."""


def _number_of(value: Any, dtype: Any) -> Any:
    """Return the number in a numpy scalar or an array without dimensions, if it has this type."""
    one = type(value) is np.ndarray or isinstance(value, np.generic)
    return value.item() if one and value.ndim == 0 and value.dtype == dtype else value


def cell(record: K) -> "Cell[K]":
    """Return a one-element structured array with the fields of a record."""
    values: dict[str, Any] = {}
    kind: Any = type(record)
    for name, dtype in _field_types(kind):
        values[name] = np.asarray(getattr(record, name), dtype=dtype)
    layout = tuple((name, value.dtype, value.shape) for name, value in values.items())
    made = np.zeros(1, dtype=_record_type(layout))
    for name, value in values.items():
        made[name][0] = value
    return made  # type: ignore[return-value]


@functools.cache
def _field_types(kind: type) -> tuple[tuple[str, Any], ...]:
    """Return the fields of a record class, with numpy's type of each; None for arrays."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        found |= vars(base).get("__annotations__", {})
    names = kind.declared  # type: ignore[attr-defined]
    return tuple((name, _numpy_type(found[name])) for name in names)


def _numpy_type(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, np.generic):
        return annotation
    return TYPES.get(annotation)


@functools.cache
def _record_type(layout: tuple[Any, ...]) -> np.dtype[Any]:
    """Return the type of a record, one object for each layout."""
    for name, *_ in layout:
        if hasattr(np.void, name):  # `cell[0].name` would be numpy's, outside of kernels
            raise ValueError(f"a record cannot have a field {name!r}: numpy uses that name")
    return np.dtype((_scalar_type(*(name for name, *_ in layout)), list(layout)))


class _ScalarType(type):
    """The type of what `_scalar_type` returns: pickle calls that function again."""


@functools.cache
def _scalar_type(*names: str) -> type:
    """Return the type of ``cell[0]``, with the fields as attributes."""
    return _ScalarType("Fields", (np.void,), {name: _field(name) for name in names})


def _reduced(kind: Any) -> Any:
    names = (name for name, value in vars(kind).items() if isinstance(value, property))
    return _scalar_type, tuple(names)


copyreg.pickle(_ScalarType, _reduced)


def _field(name: str) -> property:
    """Return the attribute of a field, ten times as fast as that of `np.record`."""

    def write(record: Any, value: Any) -> None:
        record[name] = value

    return property(operator.itemgetter(name), write)


def side_by_side(n: int, **kinds: Any) -> dict[str, NDArray[Any]]:
    """Return arrays of n elements such that elements of the same position are adjacent in memory.

    Reading one of them brings the others into the cache, too: the arrays are the fields of one
    array of structures, which begins at a cache line. A structure lies in one line if its size
    divides 64, else some lie in two.

    Examples
    --------
    >>> arrays = side_by_side(3, weight=np.int64, visits=np.float32, place=np.int32)
    >>> arrays["weight"].strides, arrays["visits"].strides
    ((16,), (16,))
    """
    fields = sorted(kinds.items(), key=lambda field: -np.dtype(field[1]).itemsize)
    names, formats = [name for name, _ in fields], [np.dtype(kind) for _, kind in fields]
    ends = np.cumsum([kind.itemsize for kind in formats])
    offsets = [0, *ends[:-1].tolist()]
    size = -(-int(ends[-1]) // 8) * 8
    layout = np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size})
    # np.full touches the memory now: with np.zeros, later accesses would pause for page faults
    memory = np.full(n * size + CACHE_LINE, 0, dtype=np.uint8)
    start = -memory.ctypes.data % CACHE_LINE
    together = memory[start : start + n * size].view(layout)
    return {name: together[name] for name in names}
