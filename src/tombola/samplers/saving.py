"""Save the state of a compiled sampler, and validate a saved state before it is loaded.

Only what cannot be derived is saved: the weights and the column order of an index, the position of
a stream. A saved state is validated in O(n) before anything is changed, so that kernels stay within
their arrays, whatever a file contains.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tombola.archive import CheckpointError
from tombola.compiling import check_fit, check_names, load_parts, saved_parts
from tombola.entries import LARGEST_COUNT
from tombola.index.layout import Index, order_fault, restore
from tombola.random import is_stream, seek
from tombola.samplers.deck import Deck, is_permutation

__all__ = ["check_state", "load_state", "save_state"]


def save_state(state: Any) -> dict[str, Any]:
    """Return a copy of the mutable parts of a state, as nested dicts of arrays and numbers."""
    return {name: _saved(part) for name, part in _changing(state).items()}


def check_state(state: Any, saved: Mapping[str, Any]) -> None:
    """Raise a CheckpointError if saved parts do not fit a state or are invalid."""
    limits, changing = type(state).limits(state), _changing(state)
    try:
        for name, part in changing.items():
            check_fit(_expected(part), saved.get(name), name)
        check_names(changing, saved, "")
    except ValueError as error:
        raise CheckpointError(str(error)) from None
    for name, part in changing.items():
        given = saved[name]
        if isinstance(part, Index):
            starts = type(state).index_starts(state, name)
            if order_fault(given["weights"], given["order"], starts) >= 0:
                raise CheckpointError(
                    f"{name} is not a valid index: its order does not match its weights"
                )
        elif isinstance(part, Deck):
            if not is_permutation(given["items"]):
                raise CheckpointError(f"{name} does not contain every item exactly once")
            _check_range(f"{name}.turn.place", given["turn"]["place"], (0, part.items.size - 1))
        else:
            _check_numbers(name, given, limits)
    fault = type(state).fault(state, saved)
    if fault:
        raise CheckpointError(fault)


def load_state(state: Any, saved: Mapping[str, Any]) -> None:
    """Load saved parts into a state, in place; call `check_state` first."""
    for name, part in _changing(state).items():
        load_parts(_expected(part), saved[name])
        if isinstance(part, Index):
            restore(part, type(state).index_starts(state, name))
        elif is_stream(part):
            seek(part, np.uint64(saved[name]["position"]))


def _changing(state: Any) -> dict[str, Any]:
    """Return the parts to save, without the stream, which the sampler saves itself."""
    constant = ("stream", *type(state).derived)
    return {name: part for name, part in state._asdict().items() if name not in constant}


def _expected(part: Any) -> Any:
    """Return the fields of a part that are saved."""
    if isinstance(part, Index):
        return {"weights": part.weights, "order": part.order}
    if is_stream(part):
        return {"position": part["position"][0, ...]}
    return part


def _saved(part: Any) -> Any:
    return saved_parts(_expected(part))


def _check_numbers(name: str, given: Any, limits: Mapping[str, tuple[float, float]]) -> None:
    if isinstance(given, Mapping):
        for key, inner in given.items():
            _check_numbers(f"{name}.{key}", inner, limits)
        return
    if np.asarray(given).dtype.kind in "iub":
        usual = 0.0, float(LARGEST_COUNT)
    else:
        usual = (0.0 if name.startswith("rule.") else -MOST, MOST)
    _check_range(name, given, limits.get(name, usual))


MOST = float(np.finfo(np.float64).max)


def _check_range(name: str, given: Any, limit: tuple[float, float]) -> None:
    """Raise a CheckpointError unless a number, or all numbers of an array, are within a range."""
    low, high = limit
    array = np.asarray(given)
    inside = array.size == 0 or (array.min() >= low and array.max() <= high)  # false for NaN
    if not inside:
        wrong = ~((array >= low) & (array <= high))
        where = f"{name}[{int(wrong.argmax())}]" if array.ndim else name
        raise CheckpointError(f"{where} is {array[wrong][0]}, not from {low} to {high}")
