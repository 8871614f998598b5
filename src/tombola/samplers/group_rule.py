"""The rule of `GroupVRB`: an index over groups, and in each group an index over its members.

For item i of group c, with K groups of n_c items:

    p_i = 3/4 (W_c / W) (a_i / A_c) + 1/8 (1/n) + 1/8 (1 / (K n_c))
    a_i = s_i sqrt(h_i),  A_c = sum of a in the group,  W_c = A_c sqrt(kappa_c)

h_i is the average squared loss of an item relative to its group's level, kappa_c the running
mean of squared loss / h in the group: the current squared loss per unit of h.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import kernel, prefetch
from tombola.index.layout import Index, Sections, build, section
from tombola.index.real import HIGH, LOW_GROUPS, TARGET, out_of_range, scale_for, to_integer
from tombola.index.setting import assign
from tombola.random import Words
from tombola.samplers import fallback, group_drawing
from tombola.samplers.arithmetic import learnt_unit, normalised, unit_after
from tombola.samplers.compiled import Compiled
from tombola.samplers.deck import Deck
from tombola.samplers.group_drawing import draw_many, probability_of
from tombola.samplers.weighted import following
from tombola.state import (
    LARGEST_COUNT,
    Cell,
    Floats,
    Ints,
    Record,
    array,
    count,
    derived,
    integer,
    real,
)

__all__ = ["GroupRule", "GroupState", "build_members", "rebuild_groups"]

UNSEEN = 2**20  # integer weight of an item without feedback (its h is 1)
LARGEST = 2**44  # the largest integer weight of an item
MEMORY = 15  # visits: the window of an item's average
SMALLEST = 1 / 16  # of h: an item with zero losses is drawn a quarter as often as an unseen one
TOO_LARGE = 2.0**100  # a loss this many times the first one makes the sampler start over
CHUNK = 64  # losses whose items are prefetched together


class GroupRule(Record):
    """The numbers of the rule."""

    drawn: int = count("items drawn", default=0)
    fed: int = count("losses received", default=0)
    unit: float = learnt_unit()
    level: float = real(
        "kappa over all draws, used for groups without feedback", 0.0, 2.0**1000, default=0.0
    )
    scale: float = real(
        "integer group weight per unit of value, a power of two", 2.0**-1000, 2.0**1020, default=1.0
    )
    cursor: int = integer("the group that is refreshed next", 0, "levels.size - 1", default=0)


@kernel
def learn_many(state: "GroupState", items: Ints, probabilities: Floats, losses: Floats) -> None:
    """Learn from a batch, one loss after the other, after prefetching what this reads."""
    for start in range(0, items.size, CHUNK):
        end = min(start + CHUNK, items.size)
        for j in range(start, end):
            prefetch(state.place, items[j])
        for j in range(start, end):
            prefetch(state.group, state.place[items[j]])  # and all that lies beside it
        for j in range(start, end):
            place = state.place[items[j]]
            first = state.starts[state.group[place]]
            prefetch(state.members.order, first + state.members.position[place])
        for j in range(start, end):
            learn_one(state, items[j], probabilities[j], losses[j])


class GroupState(Compiled):
    """Items sorted by group, an index over groups, and an index over the members of each group."""

    darts: Cell[Words]
    rule: Cell[GroupRule]
    fallback: Cell[fallback.Fallback]
    deck: Deck
    starts: Ints = derived("members of group c: starts[c] <= place < starts[c + 1]")
    place: NDArray[Any] = derived("the place of each item, sorted by group")
    item: NDArray[Any] = derived("its inverse, by place, like what follows")
    group: NDArray[np.int32] = derived("the group of the item at a place")
    scales: Floats = derived("s: the expected size of losses; empty if all are 1")
    scores: Floats = array("h, by place", SMALLEST, 2.0**1000)
    visits: NDArray[np.uint8] = array("the number of losses, by place", 0, MEMORY)
    members: Sections
    totals: Floats = derived("sum of s in each group, by group, like what follows")
    floors: Floats = derived("the least probability of its items, 1/8 (1/n + 1 / (K n_c))")
    index: Index
    levels: Floats = array("kappa of each group", 0.0, 2.0**1000)
    seen: Ints = array("the number of losses of each group", 0, LARGEST_COUNT)

    draw_many = draw_many
    update_many = learn_many

    def draw_one(self) -> Any:
        """Draw one item; return it and its probability."""
        fallback.begin_block(self.fallback[0], 1)
        self.rule[0].drawn += 1
        return group_drawing.draw_one(self)

    def update_one(self, item: int, probability: float, loss: float) -> None:
        """Update the item, its group, and the level of all groups from one loss."""
        learn_one(self, item, probability, loss)

    def fill_probabilities(self, out: Floats) -> None:
        """Write the probability of every item, in the current mode."""
        for item in range(out.size):
            if self.fallback[0].shuffling:
                out[item] = 1.0 / out.size
            else:
                out[item] = probability_of(self, self.place[item])


@kernel(inline=True)
def learn_one(state: GroupState, item: int, probability: float, loss: float) -> None:
    """Update the item, its group, and the level of all groups from one loss."""
    rule, levels, seen, scores = state.rule[0], state.levels, state.seen, state.scores
    place = state.place[item]
    c: int = np.int64(state.group[place])  # type: ignore[assignment]
    if loss * rule.unit > TOO_LARGE:
        start_over(state)
    rule.unit = unit_after(rule.unit, loss)
    squared = normalised(loss, rule.unit) ** 2
    candidate = probability_of(state, place)
    fallback.judge(state.fallback[0], squared, state.place.size, probability, candidate)
    if state.scales.size:
        squared = squared / state.scales[place] / state.scales[place]
    # squared loss per unit of h: over all draws, and in this group (later visits weigh more)
    h = scores[place]
    relative = squared / h
    rule.fed += 1
    seen[c] += 1
    first = rule.level == 0.0 and relative > 0.0  # until then, all groups have the same kappa
    rule.level += (relative - rule.level) * 2.0 / (rule.fed + 1.0)
    kappa = levels[c] if seen[c] > 1 else rule.level
    kappa += (relative - kappa) * 2.0 / (seen[c] + 2.0)
    levels[c] = kappa
    # h: the item's squared loss relative to its group's level, averaged over its visits
    root = state.members.sums[c].total / (UNSEEN * state.totals[c])
    level = kappa * root * root
    if level > 0.0:
        visits = min(state.visits[place] + 1, MEMORY)
        state.visits[place] = visits
        scores[place] = max(SMALLEST, h + (squared / level - h) / (1.0 + visits))
        start, weight = state.starts[c], member_weight(state, place)
        assign(section(state.members, state.starts, c), place - start, weight)
    # refresh the weight of this group, and of one more in turn, if that has no losses yet
    put_group(state, c)
    other = following(rule.cursor, levels.size)
    if other == c:
        other = following(other, levels.size)
    rule.cursor = other
    if seen[other] == 0:
        put_group(state, other)
    if first or out_of_range(state.index.sums[0].total, LOW_GROUPS):
        rebuild_groups(state)


@kernel(inline=True)
def scale_of(state: GroupState, place: int) -> Any:
    """Return s of the item at a place."""
    return state.scales[place] if state.scales.size else 1.0


@kernel(inline=True)
def member_weight(state: GroupState, place: int) -> Any:
    """Return the integer weight s sqrt(h) of the item at a place."""
    return to_integer(scale_of(state, place) * math.sqrt(state.scores[place]), UNSEEN, LARGEST)


@kernel(inline=True)
def group_value(state: GroupState, c: int) -> Any:
    """Return A_c sqrt(kappa_c), in units of an unseen item."""
    level = state.levels[c] if state.seen[c] > 0 else state.rule[0].level
    if state.rule[0].level == 0.0:
        level = 1.0
    return state.members.sums[c].total / UNSEEN * math.sqrt(level)


@kernel(inline=True)
def group_weight(state: GroupState, c: int) -> Any:
    """Return the integer weight of a group, at least 1."""
    return max(1, to_integer(group_value(state, c), state.rule[0].scale, HIGH))


@kernel(inline=True)
def put_group(state: GroupState, c: int) -> None:
    """Set the weight of a group by its value; a weight of HIGH leads to another scale."""
    assign(state.index, c, group_weight(state, c))


@kernel
def rebuild_groups(state: GroupState) -> None:
    """Choose the scale of the group weights and recompute all of them, in O(K)."""
    total = 0.0
    for c in range(state.levels.size):
        total += group_value(state, c)
    state.rule[0].scale = scale_for(total, TARGET)
    for c in range(state.levels.size):
        state.index.weights[c] = group_weight(state, c)
    build(state.index)


@kernel
def start_over(state: GroupState) -> None:
    """Start over: past losses are negligible compared with the latest one."""
    state.rule[0].unit = state.rule[0].level = 0.0
    fallback.forget(state.fallback[0])
    for place in range(state.scores.size):
        state.scores[place] = 1.0
        state.visits[place] = 0
    for c in range(state.levels.size):
        state.levels[c] = 0.0
        state.seen[c] = 0
    build_members(state)
    rebuild_groups(state)


@kernel
def build_members(state: GroupState) -> None:
    """Build the index of each group."""
    for place in range(state.scores.size):
        state.members.weights[place] = member_weight(state, place)
    for c in range(state.levels.size):
        build(section(state.members, state.starts, c))
