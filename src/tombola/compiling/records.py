"""Records: named numbers that kernels can change."""

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
    for name in fields:
        if hasattr(np.record, name):  # outside kernels, `record[0].name` would be numpy's own
            raise ValueError(f"a record cannot have a field {name!r}: numpy uses that name")
    values = {name: np.asarray(value) for name, value in fields.items()}
    kinds = [(name, value.dtype, value.shape) for name, value in values.items()]
    record = np.zeros(1, dtype=np.dtype((np.record, kinds)))
    for name, value in values.items():
        record[name][0] = value
    return record
