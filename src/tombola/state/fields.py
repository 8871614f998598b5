"""Declare the fields of a state: type, valid range and meaning, each in one place.

A declaration is a class attribute: its annotation is the type, its value one of the functions below
says what is valid and what the field means::

    class Rule(Record):
        mixing: float = real("theta, the share of uniform draws", 0.0, 1.0)
        due: int = count("the number of draws at which theta changes next")
        bound: float = derived("L, if one bound holds for all items")

From it follow the numpy type, what is saved, the proof of a state that comes from outside, the
sentence of the error, the damage that tests try, and the table in the documentation.

The end of a range is a number, or the name of one: ``"scores.size - 1"`` is looked up among the
fields that were read before, then in the state that they are loaded into, then in the states around
it.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.validation import brief, is_exactly, legible, shown

__all__ = [
    "LARGEST_COUNT",
    "MOST",
    "Array",
    "CheckpointError",
    "Field",
    "Floats",
    "Ints",
    "Scope",
    "array",
    "count",
    "derived",
    "entry_of",
    "exactly",
    "flag",
    "integer",
    "listed",
    "mapping",
    "nested",
    "number",
    "optional",
    "real",
    "same",
    "text",
    "variant",
]

LARGEST_COUNT = 2**60  # the largest value of a counter: 36 years at one per nanosecond
MOST = float(np.finfo(np.float64).max)

End = float | str  # a number, or where to find one
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class CheckpointError(ValueError):
    """A file or state is incomplete, damaged, or not one of this library.

    The message may quote anything that a file holds, so it is cut and made printable.
    """

    def __init__(self, message: str) -> None:
        super().__init__(legible(message))


class Scope:
    """Where the names in a range are looked up: in values read, in a live state, further out."""

    def __init__(
        self, read: Mapping[str, Any], live: Any = None, outer: "Scope | None" = None
    ) -> None:
        self.values, self.live, self.outer = read, live, outer

    def find(self, path: str) -> Any:
        """Return the value at a dotted path.

        >>> Scope({"turn": {"place": 3}}).find("turn.place")
        3
        """
        first, _, rest = path.partition(".")
        if first in self.values:
            found = self.values[first]
        elif hasattr(self.live, first):
            found = getattr(self.live, first)
        elif self.outer is not None:
            return self.outer.find(path)
        else:
            raise LookupError(f"a declared range names {path}, which does not exist")
        for name in rest.split(".") if rest else ():
            if isinstance(found, np.ndarray) and found.dtype.names is not None:
                found = found[0]
            found = found[name] if isinstance(found, Mapping) else getattr(found, name)
        return found

    def number(self, end: End) -> Any:
        """Return the end of a range: a number, or a sum of numbers and of values at paths.

        >>> Scope({"handed": 3, "lag": 2}).number("handed + lag - 1")
        4
        """
        if not isinstance(end, str):
            return end
        total, sign = 0, 1
        for word in end.split():
            if word in ("+", "-"):
                sign = 1 if word == "+" else -1
                continue
            found: Any = int(word) if word.isdigit() else self.find(word)
            of_numpy = isinstance(found, (np.generic, np.ndarray))
            total += sign * (found.item() if of_numpy else found)
        return total


class Field:
    """One declared field: how it is read, in which range, and what it means.

    Parameters
    ----------
    meaning : str
    least, most : float or str, optional
        The valid range, both ends included.
    saved : bool, default=True
        If False, the constructor derives the field from other things.
    default : optional
        Its value if the constructor is not given one.
    """

    kind = "anything"
    holds: tuple[Any, ...] = ()  # fields and declared classes within this one ...
    many = False  # ... of which there may be several

    def __init__(
        self,
        meaning: str,
        least: End | None = None,
        most: End | None = None,
        *,
        saved: bool = True,
        default: Any = ...,
    ) -> None:
        self.meaning, self.least, self.most, self.saved = meaning, least, most, saved
        self.default = default

    def read(self, value: Any, name: str, scope: Scope, like: Any = None) -> Any:
        """Return a saved value if it is valid, or raise a CheckpointError that names it.

        `like` is the live value that it will replace, if there is one.
        """
        return value

    def write(self, value: Any) -> Any:
        """Return a value as it is saved."""
        return value

    def ends(self, scope: Scope) -> tuple[Any, Any]:
        """Return the least and the largest valid number."""
        return (
            -math.inf if self.least is None else scope.number(self.least),
            math.inf if self.most is None else scope.number(self.most),
        )

    @property
    def range(self) -> str:
        """The valid range in words, for the documentation."""
        if not self.saved:
            return "not saved"
        if self.least is None or (self.least, self.most) == (-MOST, MOST):
            return "" if self.least is None else "finite"
        return f"{_plain(self.least)} to {_plain(self.most)}"


def require(good: Any, name: str, rule: str, value: Any) -> None:
    """Raise a CheckpointError that says what a value must be, unless it is good.

    `good` may be an array of bool: the error then names the first element that is not.
    """
    if np.all(good):
        return
    if np.ndim(good):
        at = np.unravel_index(np.argmin(good), np.shape(good))
        name, value = f"{name}[{', '.join(map(str, at))}]", value[at].item()
    raise CheckpointError(f"{name} must be {rule}, got {shown(value)}")


class _Number(Field):
    def __init__(
        self, kind: str, types: tuple[type, ...], meaning: str, least: End, most: End, default: Any
    ) -> None:
        super().__init__(meaning, least, most, default=default)
        self.kind, self.types = kind, types

    def read(self, value: Any, name: str, scope: Scope, like: Any = None) -> Any:
        low, high = self.ends(scope)
        good = type(value) in self.types and low <= value <= high
        article = "an" if self.kind == "integer" else "a"
        require(good, name, f"{article} {self.kind} from {_plain(low)} to {_plain(high)}", value)
        return value


class _Flag(Field):
    kind = "bool"

    def read(self, value: Any, name: str, scope: Scope, like: Any = None) -> bool:
        require(type(value) is bool, name, "a bool", value)
        return bool(value)


class _Exactly(Field):
    kind = "constant"

    @property
    def range(self) -> str:
        return repr(self.default)

    def read(self, value: Any, name: str, scope: Scope, like: Any = None) -> Any:
        expected = self.default
        require(is_exactly(value, expected), name, repr(expected), value)
        return value


class _Same(Field):
    """A value that must equal the live one."""

    kind = "constant"

    def read(self, value: Any, name: str, scope: Scope, like: Any = None) -> Any:
        if isinstance(like, np.ndarray):
            if not (type(value) is np.ndarray and np.array_equal(value, like)):
                raise CheckpointError(f"the state was saved with another {name}")
        elif not is_exactly(value, like):
            raise CheckpointError(
                f"the state was saved with {name}={brief(value)}, here it is {brief(like)}"
            )
        return like

    def write(self, value: Any) -> Any:
        return value.copy() if isinstance(value, np.ndarray) else value


class _Text(Field):
    kind = "text"

    def __init__(self, meaning: str, among: Sequence[str] = ()) -> None:
        super().__init__(meaning)
        self.among = among

    @property
    def range(self) -> str:
        return ", ".join(self.among)

    def read(self, value: Any, name: str, scope: Scope, like: Any = None) -> str:
        rule = f"one of {', '.join(self.among)}" if self.among else "a text"
        require(is_text(value) and (not self.among or value in self.among), name, rule, value)
        return str(value)


class Array(Field):
    """An array, with the range of its elements."""

    kind = "array"

    def __init__(
        self,
        meaning: str,
        least: End | None = None,
        most: End | None = None,
        *,
        dtype: Any = np.float64,
        shape: tuple[End | None, ...] | str | None = (None,),
        nan: bool = False,
    ) -> None:
        super().__init__(meaning, least, most)
        self.dtype, self.shape, self.nan = dtype, shape, nan

    def read(self, value: Any, name: str, scope: Scope, like: Any = None) -> Any:
        """Return a saved array if it has the right type, shape and range."""
        dtype, shape = self._expected(scope, like)
        good = type(value) is np.ndarray and value.dtype == dtype
        sizes = ""
        if shape is not None:
            good = good and value.ndim == len(shape)
            good = good and all(
                want in (None, it) for want, it in zip(shape, value.shape, strict=True)
            )
            sizes = " x ".join("any" if size is None else str(size) for size in shape) + " "
        require(good, name, f"an array of {sizes}{np.dtype(dtype)}", value)
        if self.least is None:  # anything, NaN included
            return value
        low, high = self.ends(scope)
        if value.size and not (low <= value.min() and value.max() <= high):  # also for NaN
            with np.errstate(invalid="ignore"):
                good = (value >= low) & (value <= high)
            if self.nan:
                good |= np.isnan(value)
            rule = f"from {_plain(low)} to {_plain(high)}{', or NaN' if self.nan else ''}"
            require(good, name, rule, value)
        return value

    def write(self, value: Any) -> Any:
        """Return a copy."""
        return value.copy()

    def _expected(self, scope: Scope, like: Any) -> tuple[Any, Any]:
        if like is not None:
            return like.dtype, like.shape
        dtype = scope.find(self.dtype) if isinstance(self.dtype, str) else self.dtype
        if isinstance(self.shape, str):
            return dtype, scope.find(self.shape)
        if self.shape is None:
            return dtype, None
        sizes = (None if size is None else scope.number(size) for size in self.shape)
        return dtype, tuple(sizes)


class _Mapping(Field):
    """A dict, with any names; its values may be declared."""

    kind = "dict"
    many = True

    def __init__(self, meaning: str, of: Field | None = None) -> None:
        super().__init__(meaning)
        self.of, self.holds = of, () if of is None else (of,)

    def read(self, value: Any, name: str, scope: Scope, like: Any = None) -> Mapping[str, Any]:
        found = as_mapping(value, name)
        if self.of is None:
            return found
        require(all(map(is_text, found)), name, "a dict with texts as keys", value)
        return {key: self.of.read(one, within(name, key), scope) for key, one in found.items()}


class _Nested(Field):
    """A value of a declared class."""

    def __init__(self, meaning: str, of: Any) -> None:
        super().__init__(meaning)
        self.of, self.holds = of, (of,)
        self.kind = of.__name__

    def read(self, value: Any, name: str, scope: Scope, like: Any = None) -> Any:
        return self.of.read(value, name, scope)

    def write(self, value: Any) -> Any:
        return value.to_dict()


class _Variant(Field):
    """A value of one of several declared classes."""

    def __init__(self, meaning: str, by: str, kinds: Mapping[str, Any]) -> None:
        super().__init__(meaning)
        self.by, self.kinds, self.holds = by, kinds, tuple(kinds.values())
        self.kind = " or ".join(kind.__name__ for kind in kinds.values())

    def read(self, value: Any, name: str, scope: Scope, like: Any = None) -> Any:
        kind = entry_of(as_mapping(value, name), self.by, name)
        known = isinstance(kind, str) and kind in self.kinds
        require(known, within(name, self.by), f"one of {', '.join(self.kinds)}", kind)
        return self.kinds[kind].read(value, name, scope)

    def write(self, value: Any) -> Any:
        return value.to_dict()


class _Optional(Field):
    """None, or what another declaration describes."""

    def __init__(self, of: Field) -> None:
        super().__init__(of.meaning, of.least, of.most, default=None)
        self.of, self.kind, self.holds = of, f"{of.kind} or None", (of,)

    @property
    def range(self) -> str:
        return self.of.range

    def read(self, value: Any, name: str, scope: Scope, like: Any = None) -> Any:
        return None if value is None else self.of.read(value, name, scope, like)

    def write(self, value: Any) -> Any:
        return None if value is None else self.of.write(value)


class _Listed(Field):
    """A list of values of a declared class or kind of field."""

    many = True

    def __init__(self, meaning: str, of: Any, length: End | None = None) -> None:
        super().__init__(meaning)
        self.of, self.length, self.holds = of, length, (of,)
        self.kind = f"list of {of.kind if isinstance(of, Field) else of.__name__}"

    def read(self, value: Any, name: str, scope: Scope, like: Any = None) -> list[Any]:
        require(isinstance(value, list), name, "a list", value)
        if self.length is not None:
            size = scope.number(self.length)
            require(len(value) == size, name, f"a list of {size}", value)
        return [self.of.read(one, f"{name}.{k}", scope) for k, one in enumerate(value)]

    def write(self, value: Any) -> Any:
        if isinstance(self.of, Field):
            return [self.of.write(one) for one in value]
        return [one.to_dict() for one in value]


def as_mapping(value: Any, name: str) -> Mapping[str, Any]:
    """Return a value that must be a dict, or raise a CheckpointError that names it."""
    if not isinstance(value, Mapping):
        raise CheckpointError(f"{name or 'a state'} must be a dict, got {shown(value)}")
    return value


def entry_of(saved: Mapping[str, Any], key: str, name: str = "") -> Any:
    """Return an entry of a dict, which must be there."""
    if key not in saved:
        raise CheckpointError(f"the state is incomplete: it has no {within(name, key)}")
    return saved[key]


def within(name: str, key: str) -> str:
    """Return the full name of an entry.

    >>> within("rule", "mixing"), within("", "rule")
    ('rule.mixing', 'rule')
    """
    return f"{name}.{key}" if name else key


def refuse_unknown(saved: Mapping[str, Any], known: Mapping[str, Any], name: str) -> None:
    """Raise a CheckpointError that names the first entry of a dict that is not declared."""
    for key in saved:
        if key not in known:
            raise CheckpointError(f"{name or 'the state'} has an unknown entry {brief(key)}")


def is_text(value: Any) -> bool:
    """Return whether a value is a string that a file can hold: without lone surrogates."""
    return isinstance(value, str) and value == value.encode(errors="replace").decode()


def _plain(end: Any) -> str:
    """Return an end of a range for people: large powers of two as such.

    >>> _plain(2**60), _plain(2**63 - 1), _plain(2.0**-1000), _plain(2.0**16), _plain(2.0**15)
    ('2^60', '2^63 - 1', '2^-1000', '2^16', '32768')
    >>> _plain(MOST), _plain("n - 1")
    ('1.8e308', 'n - 1')
    """
    if isinstance(end, int):
        for less, suffix in ((0, ""), (1, " - 1")):
            power = end + less
            if power > 2**16 and power & (power - 1) == 0:
                return f"2^{power.bit_length() - 1}{suffix}"
    elif isinstance(end, float):
        sign, (mantissa, exponent) = "-" if end < 0 else "", math.frexp(abs(end))
        if abs(end) == MOST:
            return f"{sign}1.8e308"
        return f"{sign}2^{exponent - 1}" if mantissa == 0.5 and abs(exponent) > 16 else f"{end:g}"
    return str(end)


# --- the declarations, as they are written ------------------------------------------------------


def real(meaning: str, least: End = 0.0, most: End = MOST, *, default: Any = ...) -> Any:
    """Declare a float; by default it is finite and not negative."""
    return _Number("float", (float,), meaning, least, most, default)


def number(meaning: str, least: End = -MOST, most: End = MOST) -> Any:
    """Declare a number of a JSON file, which has one type for integers and floats."""
    return _Number("number", (int, float), meaning, least, most, ...)


def integer(meaning: str, least: End, most: End, *, default: Any = ...) -> Any:
    """Declare an integer."""
    return _Number("integer", (int,), meaning, least, most, default)


def count(meaning: str, *, least: End = 0, default: Any = ...) -> Any:
    """Declare a counter: an integer from 0 to 2^60."""
    return integer(meaning, least, LARGEST_COUNT, default=default)


def flag(meaning: str, *, default: Any = ...) -> Any:
    """Declare a bool."""
    return _Flag(meaning, default=default)


def exactly(value: Any, meaning: str) -> Any:
    """Declare an entry that always has this value, such as the version of a format."""
    return _Exactly(meaning, default=value)


def same(meaning: str) -> Any:
    """Declare what a state and the object that loads it must have in common: a number, an array.

    Its own value is passed to `Document.read` under the name of the field.
    """
    return _Same(meaning)


def text(meaning: str, among: Sequence[str] = ()) -> Any:
    """Declare a string, possibly one of a few."""
    return _Text(meaning, among)


def array(
    meaning: str,
    least: End | None = -MOST,
    most: End = MOST,
    *,
    dtype: Any = np.float64,
    shape: tuple[End | None, ...] | str | None = (None,),
    nan: bool = False,
) -> Any:
    """Declare an array, with the range of its elements; by default they are finite.

    With None as the least value, elements may be anything, NaN included. In a `State`, type and
    shape are those of the live array. In a `Document` they are given: in a shape, None is any
    length, and a name is looked up as in a range; without a shape, any will do. Type and shape may
    be names, too. With `nan`, elements may also be NaN.
    """
    return Array(meaning, least, most, dtype=dtype, shape=shape, nan=nan)


def mapping(meaning: str, of: Any = None) -> Any:
    """Declare a dict that its user reads; or one whose values `of` describes."""
    return _Mapping(meaning, of)


def nested(meaning: str, of: Any) -> Any:
    """Declare a value of a class with `read` and `to_dict`, such as a `Document`."""
    return _Nested(meaning, of)


def optional(of: Any) -> Any:
    """Declare what another declaration describes, or None, which is the default."""
    return _Optional(of)


def variant(meaning: str, by: str, kinds: Mapping[str, Any]) -> Any:
    """Declare a value of one of several such classes: its entry `by` says of which."""
    return _Variant(meaning, by, kinds)


def listed(meaning: str, of: Any, *, length: End | None = None) -> Any:
    """Declare a list of such values, or of what another declaration describes."""
    return _Listed(meaning, of, length)


def derived(meaning: str, *, default: Any = ...) -> Any:
    """Declare what the constructor makes of parameters and data, and scratch space: not saved."""
    return Field(meaning, saved=False, default=default)
