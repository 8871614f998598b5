"""The record of a run of `tombola train`, run.json, as it is read from a folder."""

import sys
from pathlib import Path
from typing import Any

from tombola.entries import LARGEST_COUNT
from tombola.files import read_json
from tombola.validation import brief

__all__ = ["FINISHED", "check_form", "read_record"]

MOST = sys.float_info.max


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= LARGEST_COUNT


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= MOST


def _is_text_or_none(value: Any) -> bool:
    return value is None or _is_text(value)


def _is_number_or_none(value: Any) -> bool:
    return value is None or _is_number(value)


def _is_held_out(value: Any) -> bool:
    return value is None or isinstance(value, dict)


# dicts stand for dicts with these entries, or where it is ANY, with any; lists for lists of such
ANY = ""
BEGUN: dict[str, Any] = {
    "command": lambda it: it == "train",
    "finished": _is_flag,
    "settings": {},
    "data": {"checksum": _is_text},
}
FINISHED: dict[str, Any] = {
    "settings": {
        "task": _is_text,
        "target": _is_text_or_none,
        "epochs": _is_count,
        "test": _is_number_or_none,
        "seed": _is_count,
    },
    "data": {
        "name": _is_text,
        "source": _is_text,
        "checksum": _is_text,
        "rows": _is_count,
        "columns": _is_count,
        "notes": [_is_text],
        "held_out": _is_held_out,
    },
    "versions": {ANY: _is_text},
    "parts": [
        {
            "problem": _is_text,
            "solver": _is_text,
            "sampler": _is_text,
            "epochs": _is_number,
            "seconds": _is_number,
            "objective": _is_number,
            "rule": _is_text,
            "ended": _is_flag,
            "gap": _is_number_or_none,
            "objective_at_0": _is_number_or_none,
            "second_moment_ratio": _is_number_or_none,
        }
    ],
    "scores": {ANY: _is_number},
    "seconds": _is_number,
    "verdict": _is_text,
    "code": {"predict": _is_text, "fit": _is_text},
}


def read_record(folder: Path) -> dict[str, Any]:
    """Return the record of a run that was begun, or raise a ValueError."""
    record = read_json(folder / "run.json")
    check_form(record, BEGUN)
    return record


def check_form(value: Any, form: Any, name: str = "") -> None:
    """Raise a ValueError that names the first entry that is not as it should be."""
    if isinstance(form, dict):
        if not isinstance(value, dict):
            raise ValueError(f"{name} is {brief(value)}, not an object")
        every = dict.fromkeys(value, form[ANY]) if ANY in form else form
        for key, inner in every.items():
            inside = f"{name}.{key}" if name else key
            if key not in value:
                raise ValueError(f"it has no {inside}")
            check_form(value[key], inner, inside)
    elif isinstance(form, list):
        if not isinstance(value, list):
            raise ValueError(f"{name} is {brief(value)}, not a list")
        for k, inner in enumerate(value):
            check_form(inner, form[0], f"{name}.{k}")
    elif not form(value):
        raise ValueError(f"{name} is {brief(value)}")
