"""Save and load nested state: named tuples of arrays and records become plain dicts."""

import reprlib
from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["check_fit", "check_names", "leaves", "load_parts", "saved_parts"]


def saved_parts(part: Any) -> Any:
    """Return a copy of a part of a state as nested dicts of arrays and numbers.

    A named tuple becomes a dict of its fields, a record becomes a dict of numbers.

    Examples
    --------
    >>> from tombola.compiling import new_record
    >>> saved_parts({"scores": np.zeros(2), "rule": new_record(drawn=3, mixing=0.5)})
    {'scores': array([0., 0.]), 'rule': {'drawn': 3, 'mixing': 0.5}}
    """
    fields = _fields(part)
    if fields is not None:
        return {name: saved_parts(inner) for name, inner in fields.items()}
    return part.item() if part.ndim == 0 else part.copy()


def check_fit(part: Any, saved: Any, name: str = "") -> None:
    """Raise a ValueError that names the first saved value that does not fit a part."""
    fields = _fields(part)
    if fields is not None:
        if not isinstance(saved, Mapping):
            raise ValueError(f"the state does not fit: {name} is missing or not a dict")
        for key, inner in fields.items():
            check_fit(inner, saved.get(key), f"{name}.{key}" if name else key)
        check_names(fields, saved, name)
        return
    plain = type(saved) is np.ndarray  # not one that is masked, or of another class
    if saved is not None and part.ndim and not plain:
        raise ValueError(f"the state does not fit: {name} has another type")
    if saved is None or (saved.shape if plain else ()) != part.shape:
        raise ValueError(f"the state does not fit: {name} is missing or has another shape")
    if part.ndim == 0:
        given: Any = saved.item() if plain or isinstance(saved, np.generic) else saved
        kind: Any = {"f": float, "i": int, "u": int, "b": bool}[part.dtype.kind]
        if type(given) is not kind or (given is not saved and saved.dtype != part.dtype):
            shown = reprlib.repr(saved)
            raise ValueError(f"the state does not fit: {name} is {shown}, not a number")
        if part.dtype.kind in "iu":
            limits = np.iinfo(part.dtype)
            if not limits.min <= given <= limits.max:
                shown = reprlib.repr(saved)
                raise ValueError(f"the state does not fit: {name} is {shown}, out of range")
    elif saved.dtype != part.dtype:
        raise ValueError(f"the state does not fit: {name} has another type")


def check_names(fields: Mapping[str, Any], saved: Mapping[str, Any], name: str) -> None:
    """Raise a ValueError that names the first entry of a saved dict that nothing belongs to."""
    for key in saved:
        if key not in fields:
            where = f"{name} has" if name else "it has"
            raise ValueError(f"the state does not fit: {where} an unknown entry {key!r}")


def leaves(saved: Any, name: str = "") -> dict[str, Any]:
    """Return every array and number of a nested dict, by its dotted name.

    Examples
    --------
    >>> leaves({"rule": {"drawn": 3, "mixing": 0.5}})
    {'rule.drawn': 3, 'rule.mixing': 0.5}
    """
    if not isinstance(saved, Mapping):
        return {name: saved}
    found: dict[str, Any] = {}
    for key, inner in saved.items():
        found |= leaves(inner, f"{name}.{key}" if name else key)
    return found


def load_parts(part: Any, saved: Any) -> None:
    """Write saved values into a part, in place; call `check_fit` first."""
    fields = _fields(part)
    if fields is None:
        part[...] = saved
    else:
        for name, inner in fields.items():
            load_parts(inner, saved[name])


def _fields(part: Any) -> dict[str, Any] | None:
    """Return the named parts of a named tuple, dict or record; None for an array."""
    if isinstance(part, Mapping):
        return dict(part)
    if isinstance(part, tuple):
        return part._asdict()  # type: ignore[attr-defined, no-any-return]
    if part.dtype.names is not None:
        return {name: part[name][0, ...] for name in part.dtype.names}
    return None
