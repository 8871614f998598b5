"""Records: named numbers that kernels can change."""

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Record", "new_record"]

Record = NDArray[Any]  # one element, with named fields


def new_record(**fields: Any) -> Record:
    """Return a one-element structured array with these field names and initial values.

    A kernel cannot change a number that is passed to it, but it can change the elements of an
    array. Numbers that change are therefore fields of a record, ``record[0].name``. Integers become
    int64, booleans bool, floats float64; an array keeps its type and shape.

    Examples
    --------
    >>> record = new_record(drawn=0, mixing=0.5)
    >>> record[0].drawn += 3
    >>> print(record[0].drawn, record[0].mixing)
    3 0.5
    """
    values = {name: np.asarray(value) for name, value in fields.items()}
    kinds = tuple((name, value.dtype, value.shape) for name, value in values.items())
    record = np.zeros(1, dtype=_record_type(kinds))
    for name, value in values.items():
        record[name][0] = value
    return record


@functools.cache
def _record_type(kinds: tuple[Any, ...]) -> np.dtype[Any]:
    """Return the type of a record, one object for each layout."""
    for name, *_ in kinds:
        if hasattr(np.record, name):  # `record[0].name` would be numpy's, outside of kernels
            raise ValueError(f"a record cannot have a field {name!r}: numpy uses that name")
    return np.dtype((np.record, list(kinds)))
