"""Groups of items: labels of any type become numbers, and items are sorted by group."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.index.layout import place_type

__all__ = ["Groups", "group_numbers", "new_groups"]


class Groups(NamedTuple):
    """Which items belong to which group."""

    number: NDArray[np.int32]  # the group of each item
    members: NDArray[Any]  # the items, sorted by group
    starts: NDArray[np.int64]  # members of group c: starts[c] <= place < starts[c + 1]


def new_groups(numbers: NDArray[np.int32]) -> Groups:
    """Return the groups of items with these group numbers.

    >>> new_groups(np.array([1, 0, 1], dtype=np.int32)).members
    array([1, 0, 2], dtype=int32)
    """
    members = np.argsort(numbers, kind="stable").astype(place_type(numbers.size))
    starts = np.concatenate([[0], np.cumsum(np.bincount(numbers))]).astype(np.int64)
    return Groups(numbers, members, starts)


def group_numbers(groups: Any, labels: Any = None) -> tuple[Any, Any]:
    """Return the group number of each item, and the label of each number.

    Parameters
    ----------
    groups : array-like of hashable labels, shape (n,)
        None and NaN are refused: an item without a group could not be drawn.
    labels : array-like, optional
        The expected groups, in this order; a group without items is refused.

    Examples
    --------
    >>> numbers, labels = group_numbers(["cat", "dog", "cat"])
    >>> numbers, labels
    (array([0, 1, 0], dtype=int32), ['cat', 'dog'])
    """
    plain = isinstance(groups, np.ndarray) and groups.ndim == 1 and groups.dtype.kind in "biuU"
    if plain and groups.size and labels is None:  # no missing values, and all are comparable
        there, inverse = np.unique(groups, return_inverse=True)
        return inverse.astype(np.int32), there.tolist()
    values = _as_list("groups", groups)
    if not values:
        raise ValueError("groups is empty: there is nothing to draw from")
    missing = [k for k, value in enumerate(values) if value is None or value != value]
    if missing:
        raise ValueError(f"groups[{missing[0]}] is {values[missing[0]]}: that item has no group")
    if labels is not None:
        order = _as_list("labels", labels)
    else:
        try:
            order = sorted(set(values))
        except TypeError:  # labels that are not comparable: in order of appearance
            order = list(dict.fromkeys(values))
    number = {label: k for k, label in enumerate(order)}
    if len(number) < len(order):
        twice = next(label for k, label in enumerate(order) if number[label] != k)
        raise ValueError(f"labels names {twice!r} twice")
    unknown = [k for k, value in enumerate(values) if value not in number]
    if unknown:
        raise ValueError(f"groups[{unknown[0]}] is {values[unknown[0]]!r}, which is not in labels")
    numbers: NDArray[np.int32] = np.array([number[value] for value in values], dtype=np.int32)
    empty = np.bincount(numbers, minlength=len(order)) == 0
    if empty.any():
        raise ValueError(f"group {order[int(empty.argmax())]!r} has no items")
    return numbers, order


def _as_list(name: str, labels: Any) -> list[Any]:
    """Return labels as a list of hashable values."""
    if hasattr(labels, "__array__"):
        array = np.asarray(labels)
        if array.ndim != 1:
            raise ValueError(f"{name} must have one dimension, got shape {array.shape}")
        labels = array.tolist()
    try:
        values = list(labels)
    except TypeError:
        raise TypeError(f"{name} must be a sequence of labels, got {labels!r}") from None
    for position, value in enumerate(values):
        try:
            hash(value)
        except TypeError:
            raise TypeError(f"{name}[{position}] is {value!r}, which is not hashable") from None
    return values
