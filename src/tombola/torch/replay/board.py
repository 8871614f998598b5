"""Priorities on the board of the index: exact draws, importances, and the largest priority.

An item of priority p has weight (p + eps)^alpha, a real number that becomes an integer by the rule
of `tombola.index.real`: a whole number of units, each at most 2^-LEAST of the total whenever items
are drawn. Probabilities in importances are those of the integers, so they are exact.
"""

import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import entry, kernel, prefetch
from tombola.index.drawing import draw_many
from tombola.index.layout import LIMIT, Index, build, is_order, new_index
from tombola.index.real import CHOSEN, LEAST, MOST, scale_for, to_integer
from tombola.index.setting import assign_many
from tombola.random import Words, new_state
from tombola.state import (
    Cell,
    Floats,
    Ints,
    Record,
    Scope,
    array,
    cell,
    derived,
    nested,
    real,
    same,
)
from tombola.torch.replay.extremes import Bounds, block_bits, least, new_bounds, note, unknown
from tombola.torch.tensors import TensorState

__all__ = ["PriorityBoard", "PriorityState", "too_heavy"]

WIDEST = 900  # weights are from 2^-WIDEST to 2^WIDEST: no sum and no scale overflows
LIGHTEST, HEAVIEST = 2.0**-WIDEST, 2.0**WIDEST
DONE = -1


class Rule(Record):
    """The numbers of a board."""

    alpha: float = real("an item of priority p has weight (p + eps)^alpha")
    eps: float = real("what is added to a priority", math.ulp(0.0))
    scale: float = real("units in a weight of 1; a power of two", default=1.0)
    largest: float = real("the largest priority ever set, -1 if none was", -1.0, default=-1.0)
    end: int = derived("the first slot that was never used, all after it included", default=0)
    block_bits: int = derived("blocks of the bounds have 2^block_bits slots", default=0)


class PriorityState(TensorState):
    """Everything that a `PrioritizedSampler` needs to continue."""

    kind: ClassVar = "PrioritizedSampler"

    max_capacity: int = same("slots")
    beta: float = real("the exponent of importances")
    rule: Rule = nested("exponent, unit and largest priority", Rule)
    priorities: Floats = array(
        "the priority of each slot, NaN if it is empty", 0.0, dtype=np.float64,
        shape=("max_capacity",), nan=True,
    )  # fmt: skip
    units: Ints = array(
        "the weight of each slot in units", 0, LIMIT, dtype=np.int64, shape=("max_capacity",)
    )
    order: NDArray[Any] = array(
        "the order of the slots on the board", 0, "max_capacity - 1", dtype="places",
        shape=("max_capacity",),
    )  # fmt: skip

    def fault(self, scope: Scope) -> str:
        """Return what is wrong between the parts."""
        there, rule = self.priorities >= 0, self.rule
        if ((self.units > 0) != there).any() or math.frexp(rule.scale)[0] != 0.5:
            return "units and scale do not fit the priorities"
        highest = float(self.priorities[there].max(initial=-1.0))
        if highest > rule.largest or too_heavy(highest, rule.alpha, rule.eps):
            return f"largest is {rule.largest}, and the largest priority is {highest}"
        return "" if is_order(self.units, self.order) else "order does not fit the units"


class Board(NamedTuple):
    """The arrays of a board, as one argument for the kernels."""

    slots: Index
    priorities: NDArray[np.float64]  # NaN if there is no item
    low: Bounds  # of the priorities
    high: Bounds  # of the negative priorities
    rule: Cell[Rule]


@kernel(inline=True)
def weight_of(rule: Rule, priority: Any) -> Any:
    """Return (p + eps)^alpha (Schaul et al. 2016, eq. 1)."""
    return max((priority + rule.eps) ** rule.alpha, LIGHTEST)


@kernel(inline=True)
def units_of(rule: Rule, weight: Any) -> Any:
    """Return a weight as a number of units."""
    return to_integer(weight, rule.scale, LIMIT)


@kernel
def rescale(board: Board) -> None:
    """Choose the unit for the items that are there, and build the board."""
    rule, weights = board.rule[0], board.slots.weights
    total = 0.0
    for priority in board.priorities:
        if priority >= 0:
            total += weight_of(rule, priority)
    if total > 0:
        rule.scale = scale_for(total, 2.0**CHOSEN)
    for item in range(weights.size):
        priority = board.priorities[item]
        weights[item] = units_of(rule, weight_of(rule, priority)) if priority >= 0 else 0
    build(board.slots)


@kernel
def settle(board: Board) -> None:
    """Make the unit small enough for draws."""
    if board.slots.sums[0].total < 2**LEAST:
        rescale(board)


@kernel(allocates=True)
def put(board: Board, items: NDArray[np.int64], priorities: NDArray[np.float64]) -> Any:
    """Set the priorities of items; negative items are left out.

    Returns DONE, or the position of a fault; then nothing has changed.
    """
    rule, sums, n = board.rule[0], board.slots.sums[0], board.priorities.size
    step = 1 if priorities.size == items.size else 0  # or the same priority for all
    kept = np.empty(items.size, dtype=np.int64)
    units = np.empty(items.size, dtype=np.int64)
    given = np.empty(items.size, dtype=np.float64)
    weights = np.empty(items.size, dtype=np.float64)
    total = np.float64(sums.total)
    count = 0
    for j in range(items.size):
        item, priority = items[j], priorities[j * step]
        if item < 0:
            continue
        if item >= n or not priority >= 0:
            return j
        prefetch(board.priorities, item)
        prefetch(board.slots.weights, item)
        prefetch(board.slots.position, item)
        weight = weight_of(rule, priority)
        if not weight <= HEAVIEST:
            return j
        kept[count], given[count], weights[count] = item, priority, weight
        total += weight * rule.scale
        count += 1
    for j in range(count):
        item, priority = kept[j], given[j]
        block, old = item >> rule.block_bits, board.priorities[item]
        board.priorities[item] = priority
        note(board.low, block, old, priority)
        note(board.high, block, -old, -priority)
        rule.largest = max(rule.largest, priority)
        rule.end = max(rule.end, item + 1)
    if total > 2.0**MOST:
        rescale(board)
        return DONE
    for j in range(count):
        units[j] = units_of(rule, weights[j])
    assign_many(board.slots, kept[:count], units[:count])
    return DONE


@kernel(allocates=True)
def draw(
    board: Board,
    stream: Cell[Words],
    seed: Any,
    items: NDArray[np.int64],
    importances: NDArray[Any],
    beta: Any,
    normalize: Any,
) -> None:
    """Draw items, and compute (n p)^-beta for each, divided by its maximum if `normalize`."""
    slots, rule = board.slots, board.rule[0]
    settle(board)
    key = stream[0].key
    key[0] = np.uint64(seed)
    stream[0].position = np.uint64(0)
    draw_many(slots, stream, items, np.empty(items.size), 0)
    mean = slots.sums[0].total / slots.sums[0].at_least[1]
    if normalize:  # (n p)^-beta / (n min p)^-beta = (p / min p)^-beta
        lowest = least(board.low, board.priorities, 1.0, rule.block_bits)
        mean = np.float64(units_of(rule, weight_of(rule, lowest)))
    for j in range(items.size):
        importances[j] = (slots.weights[items[j]] / mean) ** -beta


@kernel
def largest_present(board: Board) -> Any:
    """Return the largest priority of the items that are there, or -1."""
    return max(-1.0, -least(board.high, board.priorities, -1.0, board.rule[0].block_bits))


def too_heavy(priority: float, alpha: float, eps: float) -> bool:
    """Return whether the weight of a priority is too large."""
    return alpha * math.log2(max(priority, 0.0) + eps) > WIDEST


class PriorityBoard:
    """Priorities of the items in a ring of slots, and exact draws in proportion to their weights.

    Parameters
    ----------
    capacity : int
        The number of slots; all are empty at first.
    alpha, eps : float
        An item of priority p has weight (p + eps)^alpha.
    """

    def __init__(self, capacity: int, alpha: float, eps: float) -> None:
        rule = cell(Rule(alpha=alpha, eps=eps, block_bits=block_bits(capacity)))
        self._board = Board(
            new_index(np.zeros(capacity, dtype=np.int64)),
            np.full(capacity, np.nan),
            new_bounds(capacity),
            new_bounds(capacity),
            rule,
        )
        build(self._board.slots)
        self._start()

    def _start(self) -> None:
        self._stream = new_state(0, ())
        self._end = self._board.rule["end"]  # views, for faster access
        self._count = self._board.slots.sums["at_least"][0, 1:2]
        self._draw: Callable[..., None] | None = None  # machine code, after first use
        self._put: Callable[..., int] | None = None

    @property
    def capacity(self) -> int:
        """The number of slots."""
        return self._board.priorities.size

    @property
    def count(self) -> int:
        """The number of items that can be drawn."""
        return int(self._count[0])

    @property
    def end(self) -> int:
        """The first slot after all that were ever used."""
        return int(self._end[0])

    @property
    def priorities(self) -> NDArray[np.float64]:
        """The priority of each slot, NaN if it is empty."""
        return self._board.priorities

    @property
    def weights(self) -> NDArray[np.int64]:
        """The weight of each slot in units: what draws are in proportion to."""
        settle(self._board)
        return self._board.slots.weights

    @property
    def alpha(self) -> float:
        """The exponent."""
        return float(self._board.rule[0].alpha)

    @alpha.setter
    def alpha(self, alpha: float) -> None:
        if too_heavy(largest := self.largest(True), alpha, self.eps):
            raise ValueError(f"alpha is {alpha}: the weight of priority {largest} is beyond 2^900")
        self._board.rule[0].alpha = alpha
        rescale(self._board)

    @property
    def eps(self) -> float:
        """What is added to a priority."""
        return float(self._board.rule[0].eps)

    def largest(self, present: bool) -> float:
        """Return the largest priority that was set, or that is `present`; -1 if none."""
        return float(largest_present(self._board) if present else self._board.rule[0].largest)

    def put(self, items: NDArray[np.int64], priorities: NDArray[np.float64]) -> int:
        """Set priorities, one for each item or one for all; return a position, or -1.

        Negative items are left out. The position is that of the first item or priority that is out
        of range; then nothing has changed.
        """
        if self._put is None:
            self._put = entry(put, self._board, items, priorities)
        return self._put(self._board, items, priorities)

    def draw(
        self, seed: int, size: int, beta: float, normalize: bool, dtype: Any
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Draw items, of which there must be some; return them and their importances."""
        items, importances = np.empty(size, dtype=np.int64), np.empty(size, dtype=dtype)
        arguments = (self._board, self._stream, seed, items, importances, beta, normalize)
        if self._draw is None:
            self._draw = entry(draw, *arguments)
        self._draw(*arguments)
        return items, importances

    def first(self, n: int) -> "PriorityBoard":
        """Return a board of the first n slots alone, in O(n)."""
        made = PriorityBoard(n, self.alpha, self.eps)
        made.priorities[:] = self.priorities[:n]
        made._derive()
        rescale(made._board)
        return made

    def _derive(self) -> None:
        """Find what follows from the priorities: the bounds, and where they end."""
        unknown(self._board.low)
        unknown(self._board.high)
        used = np.flatnonzero(self.priorities >= 0)
        self._board.rule[0].end = used[-1] + 1 if used.size else 0

    # --- states ---------------------------------------------------------------------------------

    def saved(self, beta: float) -> PriorityState:
        """Return the state of a sampler with this board."""
        return PriorityState(
            max_capacity=self.capacity,
            beta=beta,
            rule=Rule(**Rule.saved(self._board.rule)),
            priorities=self.priorities,
            units=self._board.slots.weights,
            order=self._board.slots.order,
        )

    @classmethod
    def restored(cls, state: PriorityState) -> "PriorityBoard":
        """Return what a valid state describes."""
        made = cls(state.max_capacity, state.rule.alpha, state.rule.eps)
        rule, slots = made._board.rule[0], made._board.slots
        rule.scale, rule.largest = state.rule.scale, state.rule.largest
        made.priorities[:] = state.priorities
        made._derive()
        slots.weights[:] = state.units
        slots.order[:] = state.order
        slots.restore()
        return made

    def __getstate__(self) -> Board:
        """Return the arrays: machine code and views are made again."""
        return self._board

    def __setstate__(self, board: Board) -> None:
        """Start from the arrays."""
        self._board = board
        self._start()
