"""Priorities on the board of the index: exact draws, importances, and the largest priority.

An item of priority p has weight (p + eps)^alpha, a real number that becomes an integer by the rule
of `tombola.index.real`: a whole number of units, each at most 2^-LEAST of the total whenever items
are drawn. Probabilities in importances are those of the integers, so they are exact.
"""

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import kernel, prefetch
from tombola.index.drawing import draw_many
from tombola.index.layout import LIMIT, Index, build, is_order, new_index, saved_order
from tombola.index.real import CHOSEN, LEAST, MOST, scale_for, to_integer
from tombola.index.setting import assign_many
from tombola.random import Words
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

__all__ = [
    "DONE", "Board", "PriorityState", "Rule", "draw", "fault", "first", "largest_present",
    "new_board", "put", "rescale", "settle", "too_heavy",
]  # fmt: skip

WIDEST = 900  # weights are from 2^-WIDEST to 2^WIDEST: no sum and no scale overflows
LIGHTEST, HEAVIEST = 2.0**-WIDEST, 2.0**WIDEST
DONE = -1


class Rule(Record):
    """The numbers of a board."""

    alpha: float = real("an item of priority p has weight (p + eps)^alpha")
    eps: float = real("added to each priority", math.ulp(0.0))
    scale: float = real("units in a weight of 1; a power of two", default=1.0)
    largest: float = real("the largest priority ever set, -1 if none was", -1.0, default=-1.0)
    end: int = derived("the first slot that was never used, all after it included", default=0)
    block_bits: int = derived("blocks of the bounds have 2^block_bits slots", default=0)


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


def fault(board: Board, items: Ints, priorities: Floats, j: int) -> Exception:
    """Return the error for the item or priority at the position that `put` returned."""
    if items[j] >= board.priorities.size:
        return IndexError(
            f"index[{j}] is {items[j]}, out of range for a capacity of {board.priorities.size}"
        )
    rule, position = board.rule[0], 0 if priorities.size == 1 else j
    priority = float(priorities[position])
    if 0 <= priority < math.inf and too_heavy(priority, rule.alpha, rule.eps):
        return ValueError(
            f"priority[{position}] is {priority}: (priority + eps) ** alpha is beyond 2^900, with "
            f"alpha={float(rule.alpha)}"
        )
    return ValueError(
        f"priority[{position}] is {priority}: priorities must be finite and not negative"
    )


def new_board(capacity: int, alpha: float, eps: float) -> Board:
    """Return a board of empty slots, of which an item of priority p has weight (p + eps)^alpha."""
    board = Board(
        new_index(np.zeros(capacity, dtype=np.int64)),
        np.full(capacity, np.nan),
        new_bounds(capacity),
        new_bounds(capacity),
        cell(Rule(alpha=alpha, eps=eps, block_bits=block_bits(capacity))),
    )
    build(board.slots)
    return board


def fill(board: Board, priorities: Floats) -> None:
    """Write the priorities of all slots and update all that depends on them, except the weights."""
    board.priorities[:] = priorities
    unknown(board.low)
    unknown(board.high)
    used = np.flatnonzero(priorities >= 0)
    board.rule[0].end = used[-1] + 1 if used.size else 0


def first(board: Board, n: int) -> Board:
    """Return a board of the first n slots alone, in O(n)."""
    rule = board.rule[0]
    made = new_board(n, float(rule.alpha), float(rule.eps))
    fill(made, board.priorities[:n])
    rescale(made)
    return made


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
    order: NDArray[Any] = saved_order("max_capacity")

    def fault(self, scope: Scope) -> str:
        """Return what is wrong between the parts."""
        there, rule = self.priorities >= 0, self.rule
        if ((self.units > 0) != there).any() or math.frexp(rule.scale)[0] != 0.5:
            return "units and scale do not fit the priorities"
        highest = float(self.priorities[there].max(initial=-1.0))
        if highest > rule.largest or too_heavy(highest, rule.alpha, rule.eps):
            return f"largest is {rule.largest}, and the largest priority is {highest}"
        return "" if is_order(self.units, self.order) else "order does not fit the units"

    @classmethod
    def of(cls, board: Board, beta: float) -> "PriorityState":
        """Return the state of a sampler with this board."""
        return cls(
            max_capacity=board.priorities.size,
            beta=beta,
            rule=Rule(**Rule.saved(board.rule)),
            priorities=board.priorities,
            units=board.slots.weights,
            order=board.slots.order,
        )

    def board(self) -> Board:
        """Return the board of a valid state."""
        made = new_board(self.max_capacity, self.rule.alpha, self.rule.eps)
        made.rule[0].scale, made.rule[0].largest = self.rule.scale, self.rule.largest
        fill(made, self.priorities)
        made.slots.weights[:] = self.units
        made.slots.order[:] = self.order
        made.slots.restore()
        return made
