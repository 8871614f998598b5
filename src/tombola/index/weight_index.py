"""The public class of the index: validation, errors and states around the kernels."""

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.compiling import entry
from tombola.draws import Draw
from tombola.index import drawing, layout, setting
from tombola.index.inputs import (
    check_fit,
    check_item,
    check_items,
    check_real,
    check_sizes,
    is_plain,
    item_numbers,
    one_dimension,
    real_numbers,
    whole_numbers,
)
from tombola.index.layout import LIMIT
from tombola.index.real import (
    LARGEST_EXPONENT,
    LEAST,
    LEAST_EXPONENT,
    NONE_TAKEN,
    RealWeights,
    fill_integers,
)
from tombola.random import Stream
from tombola.state import MOST as LARGEST
from tombola.state import Scope, Versioned, array, count, integer, optional
from tombola.validation import not_negative, whole

__all__ = ["WeightIndex"]

INTEGER, REAL = np.dtype(np.int64), np.dtype(np.float64)


class SavedIndex(Versioned):
    """What `WeightIndex.state_dict` returns."""

    kind: ClassVar = "WeightIndex"
    form: ClassVar = 2

    seed: int = integer("the seed of the draws", 0, 2**128 - 1)
    position: int = integer("words of the random stream used so far", 0, 2**63 - 1)
    rounds: int = count("calls of `draw` so far")
    exponent: int | None = optional(
        integer(
            "of the scale, 2^exponent; None if weights are integers",
            LEAST_EXPONENT,
            LARGEST_EXPONENT,
        )
    )
    weights: NDArray[Any] = array(
        "the weight of each item, int64 or float64", 0, "limit", dtype="dtype", shape=(None,)
    )
    order: NDArray[Any] = layout.saved_order("weights.size")

    @classmethod
    def of(cls, state: Any) -> "SavedIndex":
        """Return the state in what may be anything, or raise a `CheckpointError`."""
        body = state if isinstance(state, Mapping) else {}
        given, real = body.get("weights"), body.get("exponent") is not None
        places = layout.place_type(given.size if isinstance(given, np.ndarray) else 0)
        dtype, limit = (np.float64, LARGEST) if real else (np.int64, LIMIT)
        return cls.from_state_dict(state, dtype=dtype, limit=limit, places=places)

    def fault(self, scope: Scope) -> str:
        """Return what is wrong with weights and order, taken together."""
        if self.exponent is None and not layout.is_order(self.weights, self.order):
            return "not a valid index: its order does not match its weights"
        return ""  # for real weights, `RealWeights.restored` looks


class WeightIndex:
    """Draws items exactly in proportion to weights that can change, in constant time.

    Drawing an item and changing a weight take O(1) expected time, for any number of items and any
    spread of the weights. Draws use no floating-point arithmetic: item i is drawn with probability
    ``weights[i] / total``, exactly, after any number of changes. Items of weight zero are never
    drawn.

    Real weights are drawn by integers on one scale, a power of two: the weight times the scale,
    rounded down, but at least 1 if the weight is positive. The unit is at most 2^-49 of the total
    at every draw, so that a probability p is off by at most (1 + n p) 2^-49; whole numbers with a
    total of at most 2^49 are not rounded at all. The probabilities of a draw are exactly those of
    the integers. The scale changes, in O(n), if the total moves by a factor of 16 or more, and with
    a change of more than one item in eight.

    Draws consume the words of one stream in order, so ``draw(3)`` followed by ``draw(5)`` gives
    the same items as ``draw(8)``.

    Parameters
    ----------
    weights : array-like of int or float, shape (n,)
        Not negative. Integers are exact, with a sum of at most 2^62. Floats are real weights:
        finite, in any unit.
    seed : int, default=0
        From 0 to 2^128 - 1. The same seed and the same calls give the same draws.

    Notes
    -----
    Memory: 16 bytes per item (24 from 2^31 items on, where positions take 64 bits), and 8 more for
    a real weight; after `extend`, up to half as much again. `tombola.index.layout` describes the
    data structure, `tombola.index.real` the scale. `tombola.torch.WeightIndex` is the same on a
    GPU.

    Examples
    --------
    >>> index = WeightIndex([1, 2, 0, 5], seed=1)
    >>> draw = index.draw(8)
    >>> draw.indices
    array([1, 0, 3, 3, 1, 3, 3, 1])
    >>> draw[:3].probabilities, draw[:3].importances            # 1 / (n p)
    (array([0.25 , 0.125, 0.625]), array([1. , 2. , 0.4]))
    >>> index.set([3, 0], [0, 6])
    >>> index.add([1, 1], [1, 1])
    >>> index.total, index[1]
    (10, 4)
    >>> index.draw_distinct(2)
    array([0, 1])
    >>> index = WeightIndex([0.1, 2.5, 0.0], seed=1)
    >>> index.draw(4)
    Draw(4 of 3 items, round 0)
    >>> index.draw(4, uniform=10.0).probabilities               # nearly uniform
    array([0.30674847, 0.38343558, 0.30674847, 0.30981595])
    """

    def __init__(self, weights: ArrayLike, seed: int = 0) -> None:
        stream = Stream(seed)
        given = one_dimension("weights", weights)
        if given.dtype.kind == "f" and (given.size or isinstance(weights, np.ndarray)):
            values = given.astype(np.float64)  # a copy
            check_real("weights", values)
            self._start(RealWeights(values), stream)
        else:
            self._start(_built(whole_numbers("weights", given).copy()), stream)

    @classmethod
    def uniform(cls, n: int, seed: int = 0) -> "WeightIndex":
        """Return an index of n items of weight 1, an integer.

        >>> WeightIndex.uniform(3).weights
        array([1, 1, 1])
        """
        index = cls.__new__(cls)
        index._start(_built(np.ones(whole("n", n), dtype=np.int64)), Stream(seed))
        return index

    def _start(self, board: layout.Index | RealWeights, stream: Stream, rounds: int = 0) -> None:
        self._real = board if isinstance(board, RealWeights) else None
        self._use(board.index if isinstance(board, RealWeights) else board)
        self._stream, self._rounds = stream, rounds

    def _use(self, index: layout.Index) -> None:
        self._index = index
        self._total = index.sums["total"]  # views, for faster access
        self._count = index.sums["at_least"][:, 0]
        self._draw: Callable[..., None] | None = None  # machine code, after first use
        self._set: Callable[..., int] | None = None

    # --- draws ----------------------------------------------------------------------------------

    def draw(self, size: int = 1, *, uniform: float = 0) -> Draw:
        """Draw items in proportion to their weights, with replacement.

        Parameters
        ----------
        size : int, default=1
            The number of draws. Zero uses no random words.
        uniform : int or float, default=0
            Added to the weight of every item for this draw: item i is drawn with probability
            ``(weights[i] + uniform) / (total + n * uniform)``. An integer if the weights are, with
            ``2 * total + n * uniform`` below 2^63. With real weights, up to 32 times the average
            weight always fits.

        Returns
        -------
        draw : Draw
            The items, with their probabilities and importances.
        """
        if type(size) is not int or size < 0:
            size = whole("size", size)
        items, probabilities = np.empty(size, INTEGER), np.empty(size)
        if size:
            added = 0
            if self._real is not None or type(uniform) is not int or uniform or not self._total[0]:
                added = self._ready(uniform)
            if self._draw is None:
                self._draw = entry(
                    drawing.draw_many,
                    self._index, self._stream.state, items, probabilities, 0,
                )  # fmt: skip
            self._draw(self._index, self._stream.state, items, probabilities, added)
        rounds = self._rounds
        self._rounds = rounds + 1
        return Draw.made(items, probabilities, self._count.item(), rounds)

    def draw_distinct(self, size: int) -> NDArray[np.int64]:
        """Draw different items: each in proportion to the weights of those not drawn before.

        There are no probabilities: that of an item to be among those drawn has no simple form.

        Parameters
        ----------
        size : int
            At most the number of items with a weight above 0.

        Returns
        -------
        items : ndarray of int64, shape (size,)
            In the order in which they were drawn.
        """
        items = np.empty(whole("size", size), dtype=np.int64)
        weighted = int(self._index.sums[0].at_least[1])
        if size > weighted > 0:
            raise ValueError(
                f"cannot draw {size} items without replacement: "
                f"only {weighted} of {len(self)} have a weight above 0"
            )
        if size:
            self._ready(0)
        least = 1 if self._real is None else 2**LEAST
        made = drawing.draw_distinct(self._index, self._stream.state, items, least)
        if made < size:  # the unit is too large for the items that are left
            assert self._real is not None
            rest = self._real.without(items[:made])
            while made < size:
                made += rest.draw(self._stream, items[made:])
        return items

    def _ready(self, uniform: float) -> int:
        """Check that there is something to draw; return the integer added to every weight.

        Real weights get a scale that is fine enough. On an error nothing has changed.
        """
        real, total, n = self._real, self._total.item(), self._count.item()
        added = 0
        if real is None:
            added = whole("uniform", uniform)
        else:
            not_negative("uniform", uniform)
        if uniform == 0:
            if total == 0:
                raise ValueError(f"nothing to draw from: all {n} items of the index have weight 0")
            if real is not None:
                real.settle()
            return 0
        if n == 0:
            raise ValueError("nothing to draw from: the index has no items")
        if real is None:
            fits = 2 * total + n * added < 2**63
        elif total == 0:
            return 1
        else:
            added = _integer(uniform, real.exponent)
            fits = 2 * total + n * added < 2**63
            if not fits or total < 2**LEAST:
                added = _integer(uniform, real.best_exponent())
                fits = n * added < 2**62  # the total will be about 2^57
                if fits:
                    real.rebuild()
        if not fits:
            limit = "2 * total + n * uniform must be below 2^63"
            limit = limit if real is None else "n * uniform must be at most 32 * total"
            raise ValueError(f"uniform is {uniform}: {limit}")
        return added

    # --- changes --------------------------------------------------------------------------------

    def set(self, items: ArrayLike, weights: ArrayLike) -> None:
        """Set the weights of items; if an item occurs more than once, its last weight wins.

        Parameters
        ----------
        items : array-like of int, shape (k,), or int
        weights : array-like of int or float, shape (k,), or one number
            If the weights of the index are integers, these must be whole numbers.
        """
        item_array: Any = items if is_plain(items, INTEGER) else item_numbers("items", items)
        plain = is_plain(weights, INTEGER if self._real is None else REAL)
        new: Any = weights if plain else self._numbers("weights", weights)
        if item_array.size != new.size:
            check_sizes(items=item_array, weights=new)
        if self._real is not None:
            outcome = self._real.set(item_array, new)
            if outcome >= 0:
                check_item("items", item_array, outcome, len(self))
                check_real("weights", new)
            return
        if self._set is None:
            self._set = entry(setting.checked_set, self._index, item_array, new)
        outcome = self._set(self._index, item_array, new)
        if outcome >= 0:
            check_item("items", item_array, outcome, len(self))
            check_fit(new[outcome : outcome + 1], 0, first=outcome)
        elif outcome == setting.SET_MAY_PASS_LIMIT:
            setting.assign_many(self._index, *self._fitting(item_array, new))

    def add(self, items: ArrayLike, deltas: ArrayLike) -> None:
        """Add to the weights of items; if an item occurs more than once, all its deltas count.

        Parameters
        ----------
        items : array-like of int, shape (k,), or int
        deltas : array-like of int or float, shape (k,), or one number
            Negative ones reduce a weight. If one would end below 0, nothing changes.
        """
        item_array = item_numbers("items", items)
        changes = self._numbers("deltas", deltas)
        check_sizes(items=item_array, deltas=changes)
        check_items("items", item_array, len(self))
        if self._real is not None and not np.isfinite(changes).all():
            j = int(np.argmin(np.isfinite(changes)))
            raise ValueError(f"deltas[{j}] is {changes[j]}: deltas must be finite")
        exact = changes
        most = (LIMIT - 1) // max(changes.size, 1)
        if self._real is None and ((changes > most) | (changes < -most)).any():
            exact = changes.astype(object)  # sums of int64 could overflow
        present = self._index.weights if self._real is None else self._real.values
        with np.errstate(over="ignore"):  # an infinite weight is refused below
            unique, new, last = setting.summed(present, item_array, exact)
        limit = LIMIT if self._real is None else LARGEST
        wrong = (new < 0) | (new > limit)
        if wrong.any():
            position = int(last[wrong].min())
            item = int(item_array[position])
            raise ValueError(
                f"deltas[{position}] is {changes[position]}, and the weight of item {item} would "
                f"become {new[last == position][0]}: weights must not be negative, nor above "
                f"{'2^62' if self._real is None else limit}"
            )
        self.set(unique, new.astype(changes.dtype))

    def _numbers(self, name: str, given: ArrayLike) -> NDArray[Any]:
        """Return weights or deltas in the type of the index, in the layout of the kernels."""
        return (whole_numbers if self._real is None else real_numbers)(name, given)

    def _fitting(
        self, items: NDArray[np.int64], new: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Check the limit exactly; return items and their last weights, decreases first."""
        _, back = np.unique(items[::-1], return_index=True)
        last = items.size - 1 - back
        change = new[last] - self._index.weights[items[last]]
        total = int(self._total[0]) + sum(change.tolist())
        if total > LIMIT:
            raise ValueError(
                f"weights would bring the total to {total}, beyond the limit of 2^62; "
                f"the largest is {new.max()} at position {new.argmax()}"
            )
        last = last[np.argsort(change)]
        return items[last], new[last]

    def extend(self, weights: ArrayLike) -> None:
        """Append items, numbered from ``len(index)`` on, in amortised O(1) time each."""
        new = self._numbers("weights", weights)
        if self._real is not None:
            check_real("weights", new)
            self._real.extend(new)
            grown = self._real.index
        else:
            check_fit(new, int(self._total[0]))
            grown = setting.with_room(self._index, len(self) + new.size)
            setting.append(grown, new)
        if grown is not self._index:
            self._use(grown)  # of other types, perhaps

    # --- what is in it --------------------------------------------------------------------------

    @property
    def weights(self) -> NDArray[Any]:
        """A copy of all weights, int64; real weights as they were given, float64."""
        if self._real is not None:
            return self._real.values.copy()
        return self._index.weights[: len(self)].copy()

    @property
    def total(self) -> Any:
        """The exact sum of all weights, an int; with real weights that of the integers, a float."""
        total = int(self._total[0])
        if self._real is None:
            return total
        if total < 2**LEAST:  # the scale will change at the next draw
            return float(self._real.values.sum())
        try:
            return math.ldexp(total, -self._real.exponent)
        except OverflowError:
            return math.inf

    @property
    def seed(self) -> int:
        """The seed of the draws."""
        return self._stream.seed

    @property
    def nbytes(self) -> int:
        """The memory used by the index, in bytes."""
        values = 0 if self._real is None else self._real.nbytes
        return values + sum(array.nbytes for array in self._index._asdict().values())

    def __len__(self) -> int:
        return int(self._count[0])

    def __getitem__(self, item: int) -> Any:
        if isinstance(item, (bool, np.bool_)) or not isinstance(item, (int, np.integer)):
            raise TypeError(f"item must be an integer, got {item!r}")
        if not 0 <= item < len(self):
            raise IndexError(f"item {item} is out of range for an index of {len(self)} items")
        weights = self._index.weights if self._real is None else self._real.values
        return weights[item].item()

    def verify(self) -> None:
        """Check every invariant, in O(n); raise a RuntimeError that locates a violation."""
        n, fault = len(self), int(layout.first_fault(self._index))
        if fault < 0 and self._real is not None:
            integers = np.empty(n, dtype=np.int64)
            fill_integers(self._real.values, NONE_TAKEN, self._real.exponent, integers)
            wrong = integers != self._index.weights[:n]
            fault = int(wrong.argmax()) if wrong.any() else -1
        if fault >= 0:
            where = "its sums" if fault == n else f"item {fault}"
            raise RuntimeError(f"the index is corrupt at {where}; please report this as a bug")

    # --- states ---------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of the full state; `tombola.save` writes it to a file."""
        return SavedIndex(
            seed=self.seed,
            position=self._stream.position,
            rounds=self._rounds,
            exponent=None if self._real is None else self._real.exponent,
            weights=self.weights,
            order=self._index.order[: len(self)],
        ).state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state, of an index over any number of integer or real weights.

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
        saved = SavedIndex.of(state)
        board: layout.Index | RealWeights
        if saved.exponent is None:
            board = layout.new_index(saved.weights.copy())
            board.order[:] = saved.order
            board.restore()
        else:
            board = RealWeights.restored(saved.weights, True, None, saved.exponent, saved.order)
        stream = Stream(saved.seed)
        stream.position = saved.position
        self._start(board, stream, saved.rounds)

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any]) -> "WeightIndex":
        """Return the index that `state_dict` described."""
        index = cls.__new__(cls)
        index.load_state_dict(state)
        return index

    def __reduce__(self) -> Any:
        return WeightIndex.from_state_dict, (self.state_dict(),)

    def __repr__(self) -> str:
        return f"WeightIndex(n={len(self)}, total={self.total})"


def _integer(value: float, exponent: int) -> int:
    """Return a real number times 2^exponent as an integer."""
    out = np.empty(1, dtype=np.int64)
    fill_integers(np.array([value], dtype=np.float64), NONE_TAKEN, exponent, out)
    return int(out[0])


def _built(weights: NDArray[np.int64]) -> layout.Index:
    """Return an index over integers, which are checked first and not copied."""
    check_fit(weights, 0)
    index = layout.new_index(weights)
    layout.build(index)
    return index
