"""The public class of the index: validation, growth and errors around the kernels."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.compiling import entry
from tombola.index import drawing, layout, setting
from tombola.index.layout import LIMIT
from tombola.random import Stream
from tombola.state import Scope, array, body_of, entry_of
from tombola.validation import whole

__all__ = ["WeightIndex"]

FORMAT = 1  # version of state_dict()
WEIGHTS = array("the weight of each item", 0, LIMIT, dtype=np.int64, shape=(None,))


class WeightIndex:
    """Draws items exactly in proportion to integer weights, in constant time.

    Drawing an item and changing a weight take O(1) expected time, for any number of items and any
    spread of the weights. There is no floating-point arithmetic: item i is drawn with probability
    ``weights[i] / total``, exactly, after any number of changes. Items of weight zero are never
    drawn.

    Draws consume the words of the stream in order, so ``draw(3)`` followed by ``draw(5)`` gives
    the same items as ``draw(8)``.

    Parameters
    ----------
    weights : array-like of int, shape (n,)
        Non-negative, with a sum of at most 2^62. Floats are accepted if they are whole numbers.

    Notes
    -----
    Memory: 16 bytes per item (24 from 2^31 items on, where positions take 64 bits); after
    `extend`, up to half as much again. `tombola.index.layout` describes the data structure.

    Examples
    --------
    >>> index = WeightIndex([1, 2, 0, 5])
    >>> index.draw(8, Stream(seed=1))
    array([1, 0, 3, 3, 1, 3, 3, 1])
    >>> index.set([3, 0], [0, 6])
    >>> index.total, index[0]
    (8, 6)
    >>> index.draw(2, Stream(seed=1), replace=False)
    array([1, 0])
    >>> index.draw(8, Stream(seed=1), uniform=100)      # nearly uniform
    array([3, 2, 3, 0, 1, 3, 0, 0])
    """

    def __init__(self, weights: ArrayLike) -> None:
        self._start(_whole_numbers("weights", weights).copy())

    @classmethod
    def uniform(cls, n: int) -> "WeightIndex":
        """Return an index of n items of weight 1.

        >>> WeightIndex.uniform(3).weights
        array([1, 1, 1])
        """
        index = cls.__new__(cls)
        index._start(np.ones(whole("n", n), dtype=np.int64))
        return index

    def _start(self, weights: NDArray[np.int64]) -> None:
        _check_fit(weights, 0)
        index = layout.new_index(weights)
        layout.build(index)
        self._use(index)

    def _use(self, index: layout.Index) -> None:
        self._index = index
        self._total = index.sums["total"]  # a view, for faster access
        self._draw: Callable[..., None] | None = None  # machine code, after first use
        self._set: Callable[..., int] | None = None

    def draw(
        self, size: int, stream: Stream, *, replace: bool = True, uniform: int = 0
    ) -> NDArray[np.int64]:
        """Draw items in proportion to their weights.

        Parameters
        ----------
        size : int
            The number of draws. Zero uses no random words.
        stream : Stream
            The source of random words; its position advances.
        replace : bool, default=True
            If False, each draw is in proportion to the weights of the items not yet drawn, and
            `size` is at most the number of items with a weight above 0.
        uniform : int, default=0
            Added to the weight of every item for this draw: item i is drawn with probability
            ``(weights[i] + uniform) / (total + n * uniform)``. With replacement only.

        Returns
        -------
        items : ndarray of int64, shape (size,)
        """
        if not isinstance(stream, Stream):
            raise TypeError(f"stream must be a tombola.Stream, got {type(stream).__name__}")
        if type(size) is not int or size < 0:
            size = whole("size", size)
        out = np.empty(size, dtype=np.int64)
        if size == 0:
            return out
        if uniform:
            uniform = self._checked_uniform(uniform, replace)
        elif self._total.item() == 0:
            raise ValueError(
                f"nothing to draw from: all {len(self)} items of the index have weight 0"
            )
        if replace:
            if self._draw is None:
                self._draw = entry(drawing.draw_many, self._index, stream.state, out, 0)
            self._draw(self._index, stream.state, out, uniform)
            return out
        weighted = int(self._index.sums[0].at_least[1])
        if size > weighted:
            raise ValueError(
                f"cannot draw {size} items without replacement: "
                f"only {weighted} of {len(self)} have a weight above 0"
            )
        drawing.draw_without_replacement(self._index, stream.state, out)
        return out

    def _checked_uniform(self, uniform: int, replace: bool) -> int:
        if not replace:
            raise ValueError("uniform must be 0 in draws without replacement")
        if len(self) == 0:
            raise ValueError("nothing to draw from: the index has no items")
        if 2 * self.total + len(self) * whole("uniform", uniform) >= 2**63:
            raise ValueError(f"uniform is {uniform}: 2 * total + n * uniform must be below 2^63")
        return int(uniform)

    def set(self, items: ArrayLike, weights: ArrayLike) -> None:
        """Set the weights of items; if an item occurs more than once, its last weight wins.

        Parameters
        ----------
        items : array-like of int, shape (k,), or int
        weights : array-like of int, shape (k,), or int
        """
        item_array: Any = items if _is_plain(items) else _item_numbers("items", items)
        new: Any = weights if _is_plain(weights) else _whole_numbers("weights", weights)
        if item_array.size != new.size:
            raise ValueError(
                f"items and weights must have the same length, got {item_array.size} and {new.size}"
            )
        if self._set is None:
            self._set = entry(setting.checked_set, self._index, item_array, new)
        outcome = self._set(self._index, item_array, new)
        if outcome >= 0:
            _check_item("items", item_array, outcome, len(self))
            _check_fit(new[outcome : outcome + 1], 0, first=outcome)
        elif outcome == setting.SET_MAY_PASS_LIMIT:
            setting.assign_many(self._index, *self._fitting(item_array, new))

    def _fitting(
        self, items: NDArray[np.int64], new: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Check the limit exactly; return items and their last weights, decreases first."""
        _, back = np.unique(items[::-1], return_index=True)
        last = items.size - 1 - back
        change = new[last] - self._index.weights[items[last]]
        total = self.total + sum(change.tolist())
        if total > LIMIT:
            raise ValueError(
                f"weights would bring the total to {total}, beyond the limit of 2^62; "
                f"the largest is {new.max()} at position {new.argmax()}"
            )
        last = last[np.argsort(change)]
        return items[last], new[last]

    def extend(self, weights: ArrayLike) -> None:
        """Append items, numbered from ``len(index)`` on, in amortised O(1) time each."""
        new = _whole_numbers("weights", weights)
        _check_fit(new, self.total)
        n, index = len(self) + new.size, self._index
        kind = layout.place_type(n)
        if n > index.weights.size or kind != index.order.dtype:
            capacity = max(n, index.weights.size + index.weights.size // 2)
            grown = layout.Index(
                index.sums,
                _grown(index.weights, capacity, np.int64),
                _grown(index.order, capacity, kind),
                _grown(index.position, capacity, kind),
            )
            self._use(grown)  # of other types, perhaps
        setting.append(self._index, new)

    @property
    def weights(self) -> NDArray[np.int64]:
        """A copy of all weights."""
        return self._index.weights[: len(self)].copy()

    @property
    def total(self) -> int:
        """The exact sum of all weights."""
        return int(self._total[0])

    @property
    def nbytes(self) -> int:
        """The memory used by the index, in bytes."""
        return sum(array.nbytes for array in self._index._asdict().values())

    def __len__(self) -> int:
        return int(self._index.sums["at_least"][0, 0])

    def __getitem__(self, item: int) -> int:
        if isinstance(item, (bool, np.bool_)) or not isinstance(item, (int, np.integer)):
            raise TypeError(f"item must be an integer, got {item!r}")
        if not 0 <= item < len(self):
            raise IndexError(f"item {item} is out of range for an index of {len(self)} items")
        return int(self._index.weights[item])

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of the full state; `tombola.save` writes it to a file."""
        order = self._index.order[: len(self)].copy()
        return {"class": "WeightIndex", "format": FORMAT, "weights": self.weights, "order": order}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state, of an index over any number of items.

        Raises
        ------
        CheckpointError
            If the state is not valid; nothing has changed then.

        Examples
        --------
        >>> index, copy = WeightIndex([1, 2, 5]), WeightIndex([])
        >>> copy.load_state_dict(index.state_dict())
        >>> copy
        WeightIndex(n=3, total=8)
        """
        self._use(restored(body_of(state, "WeightIndex", FORMAT)))

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any]) -> "WeightIndex":
        """Return the index that `state_dict` described."""
        index = cls.__new__(cls)
        index.load_state_dict(state)
        return index

    def verify(self) -> None:
        """Check every invariant, in O(n); raise a RuntimeError that locates a violation."""
        fault = layout.first_fault(self._index)
        if fault >= 0:
            where = "its sums" if fault == len(self) else f"item {fault}"
            raise RuntimeError(f"the index is corrupt at {where}; please report this as a bug")

    def __repr__(self) -> str:
        return f"WeightIndex(n={len(self)}, total={self.total})"


def restored(saved: Mapping[str, Any]) -> layout.Index:
    """Return an index with the weights and the order of a state, or raise a CheckpointError."""
    weights = WEIGHTS.read(entry_of(saved, "weights"), "weights", Scope(saved)).copy()
    index = layout.new_index(weights)
    if weights.any():
        index.check(saved)
    elif weights.size:  # items of weight 0 are in any order, like those of weight 1
        index.check({**saved, "weights": weights + 1})
    index.load(saved)
    return index


def _grown(array: NDArray[Any], capacity: int, dtype: Any) -> NDArray[Any]:
    grown = np.empty(capacity, dtype=dtype)
    grown[: array.size] = array
    return grown


def _is_plain(values: Any) -> bool:
    """Return whether this is an array that the kernels take as it is."""
    return (
        type(values) is np.ndarray
        and values.dtype == np.int64
        and values.ndim == 1
        and values.flags.c_contiguous
    )


def _one_dimension(name: str, values: ArrayLike) -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{name} must have one dimension: {error}") from None
    if array.ndim > 1:
        raise ValueError(f"{name} must have one dimension, got shape {array.shape}")
    if array.ndim == 1 and array.flags.c_contiguous:  # the layout that the kernels are compiled for
        return array
    return np.ascontiguousarray(array.reshape(-1))


def _item_numbers(name: str, values: ArrayLike) -> NDArray[np.int64]:
    """Return item numbers as int64, or raise a TypeError; the range is checked later."""
    array = _one_dimension(name, values)
    if array.dtype == np.int64:
        return array
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind == "u":
        array = np.minimum(array.astype(np.uint64), np.uint64(2**63 - 1))
    elif array.dtype.kind != "i":
        raise TypeError(f"{name} must hold integers, got dtype {array.dtype}")
    return array.astype(np.int64)


def _check_item(name: str, items: NDArray[np.int64], position: int, n: int) -> None:
    if not 0 <= items[position] < n:
        raise IndexError(
            f"{name}[{position}] is {items[position]}, out of range for an index of {n} items"
        )


def _whole_numbers(name: str, values: ArrayLike) -> NDArray[np.int64]:
    """Return weights as int64; only their sign remains to be checked."""
    array = _one_dimension(name, values)
    if array.dtype == np.int64:
        return array
    if array.dtype.kind == "O" and all(type(value) is int for value in array):
        wrong = np.array([abs(value) > LIMIT for value in array], dtype=bool)
        reason = "beyond the limit of 2^62"
    elif array.dtype.kind == "f":
        wrong = ~(np.isfinite(array) & (np.floor(array) == array))
        reason = "not a whole number"
        if not wrong.any():
            wrong, reason = np.abs(array) > LIMIT, "beyond the limit of 2^62"
    elif array.dtype.kind in "iu":
        wrong = array > LIMIT
        reason = "beyond the limit of 2^62"
    else:
        raise TypeError(f"{name} must hold integers, got dtype {array.dtype}")
    if wrong.any():
        position = int(wrong.argmax())
        raise ValueError(f"{name}[{position}] is {array[position]}, {reason}")
    return array.astype(np.int64)


def _check_fit(new: NDArray[np.int64], total: int, first: int = 0) -> None:
    """Raise a ValueError at the first weight that is negative or makes the total too large."""
    j = setting.first_unfit(new, total)
    if j < 0:
        return
    if new[j] < 0:
        raise ValueError(f"weights[{first + j}] is {new[j]}, but weights must not be negative")
    raise ValueError(
        f"weights[{first + j}] is {new[j]} and brings the total beyond the limit of 2^62"
    )
