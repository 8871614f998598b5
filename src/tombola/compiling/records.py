"""Records: named numbers that kernels can change."""

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Record", "new_record", "side_by_side"]

CACHE_LINE = 64  # bytes

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
