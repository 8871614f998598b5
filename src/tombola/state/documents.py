"""Values that are saved as plain dicts, every field of them declared."""

from inspect import get_annotations
from typing import Any, ClassVar, Self, dataclass_transform

from tombola.state.fields import (
    CheckpointError,
    Field,
    Scope,
    array,
    as_mapping,
    count,
    derived,
    entry_of,
    exactly,
    flag,
    integer,
    listed,
    mapping,
    nested,
    number,
    optional,
    real,
    refuse_unknown,
    same,
    text,
    variant,
    within,
)
from tombola.validation import brief, is_exactly

__all__ = ["Document", "Versioned", "body_of", "declared_fields"]


def body_of(state: Any, kind: str, form: int) -> dict[str, Any]:
    """Return the entries of a state besides its class and format, which must be these.

    >>> body_of({"class": "VRB", "format": 3, "n": 5}, "VRB", 3)
    {'n': 5}
    """
    given = as_mapping(state, "")
    if not (is_exactly(given.get("class"), kind) and is_exactly(given.get("format"), form)):
        raise CheckpointError(
            f"the state is of {brief(given.get('class'))}, format {brief(given.get('format'))}; "
            f"this is a {kind}, format {form}"
        )
    return {key: value for key, value in given.items() if key not in ("class", "format")}


def declared_fields(kind: type) -> dict[str, Field]:
    """Return the declarations of a class, those of its bases first."""
    fields: dict[str, Field] = {}
    for base in reversed(kind.__mro__):
        for name in get_annotations(base):
            declaration = vars(base).get("declared", {}).get(name, vars(base).get(name))
            if isinstance(declaration, Field):
                fields[name] = declaration
    return fields


@dataclass_transform(
    kw_only_default=True,
    field_specifiers=(
        real, integer, number, count, flag, exactly, same, text, array, mapping, nested, variant,
        listed, optional, derived,
    ),
)  # fmt: skip
class Document:
    """A value with declared fields: to a plain dict, and back with every entry checked.

    Examples
    --------
    >>> class Place(Document):
    ...     n: int = count("items")
    ...     next: int = integer("the item to deal next", 0, "n - 1")
    >>> Place(n=5, next=2).to_dict()
    {'n': 5, 'next': 2}
    >>> Place.read({"n": 5, "next": 5})
    Traceback (most recent call last):
    tombola.state.fields.CheckpointError: next must be an integer from 0 to 4, got 5 of type int
    """

    declared: ClassVar[dict[str, Field]] = {}
    open_ended: ClassVar[bool] = False  # whether a dict may have further entries

    def __init_subclass__(cls) -> None:
        cls.declared = declared_fields(cls)

    def __init__(self, **values: Any) -> None:
        for name, field in self.declared.items():
            given = values.pop(name, field.default)
            if given is ...:
                raise TypeError(f"{type(self).__name__} needs {name}")
            setattr(self, name, given)
        if values:
            raise TypeError(f"{type(self).__name__} has no field {next(iter(values))!r}")

    def to_dict(self) -> dict[str, Any]:
        """Return it as a dict of what a file can hold."""
        return {
            name: field.write(getattr(self, name))
            for name, field in self.declared.items()
            if field.saved
        }

    @classmethod
    def read(cls, value: Any, name: str = "", outer: Scope | None = None, **known: Any) -> Self:
        """Return the value in a dict that may hold anything, or raise a CheckpointError.

        Parameters
        ----------
        value : Any
            The dict.
        name : str, default=""
            Where it is in the state; "" for the state itself.
        outer : Scope, optional
            Where else the names of declared ranges are looked up.
        **known
            Fields that are not saved, live values of fields, and further names for ranges.
        """
        saved = as_mapping(value, name)
        fields = {key: field for key, field in cls.declared.items() if field.saved}
        read: dict[str, Any] = {}
        scope = Scope(read, None, Scope(known, None, outer))
        for key, field in fields.items():
            given = entry_of(saved, key, name)
            read[key] = field.read(given, within(name, key), scope, known.get(key))
        if not cls.open_ended:
            refuse_unknown(saved, fields, name)
        others = {key: known[key] for key in cls.declared if key in known and key not in fields}
        document = cls(**read, **others)
        fault = document.fault(scope)
        if fault:
            raise CheckpointError(f"{name}: {fault}" if name else fault)
        return document

    def fault(self, scope: Scope) -> str:
        """Return what is wrong with fields that are valid one by one; "" if nothing is."""
        return ""

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.declared)
        return f"{type(self).__name__}({shown})"


class Versioned(Document):
    """A document that is a whole state: it says of which class it is, and in which format."""

    kind: ClassVar[str]
    form: ClassVar[int] = 1

    def state_dict(self) -> dict[str, Any]:
        """Return it as a dict, with its class and format; `tombola.save` writes it to a file."""
        return {"class": self.kind, "format": self.form, **self.to_dict()}

    @classmethod
    def from_state_dict(cls, state: Any, **known: Any) -> Self:
        """Return the state in what may be anything, or raise a CheckpointError.

        `known` is that of `Document.read`.
        """
        return cls.read(body_of(state, cls.kind, cls.form), **known)
