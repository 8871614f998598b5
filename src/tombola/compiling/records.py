"""Records: numbers that kernels change, by name."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Record", "new_record"]

Record = NDArray[Any]  # one element, with named fields


def new_record(**fields: Any) -> Record:
    """Return an array of one element whose fields have these names and start values.

    Kernels cannot change a number that is passed to them, only what an array holds; so numbers
    that change live in a record, ``record[0].name``. Integers become int64, booleans bool,
    floats float64; an array keeps its type and shape.

    Examples
    --------
    >>> record = new_record(drawn=0, mixing=0.5)
    >>> record[0].drawn += 3
    >>> record[0].drawn, record[0].mixing
    (3, 0.5)
    """
    for name in fields:
        if hasattr(np.record, name):  # `record[0].name` would be numpy's, outside of kernels
            raise ValueError(f"a record cannot have a field {name!r}: numpy uses that name")
    values = {name: np.asarray(value) for name, value in fields.items()}
    kinds = [(name, value.dtype, value.shape) for name, value in values.items()]
    record = np.zeros(1, dtype=np.dtype((np.record, kinds)))
    for name, value in values.items():
        record[name][0] = value
    return record
