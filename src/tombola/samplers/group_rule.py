"""The rule of `GroupVRB`: an index over groups, and in each group an index over its members.

For item i of group c, with K groups of n_c items:

    p_i = 3/4 (W_c / W) (a_i / A_c) + 1/8 (1/n) + 1/8 (1 / (K n_c))
    a_i = s_i sqrt(h_i),  A_c = sum of a in the group,  W_c = A_c sqrt(kappa_c)

h_i is the average squared loss of an item relative to its group's level, kappa_c the running
mean of squared loss / h in the group: the current squared loss per unit of h.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import kernel
from tombola.compiling.records import Record
from tombola.index import drawing
from tombola.index.layout import Index, build
from tombola.index.setting import assign
from tombola.random import next_below, next_word
from tombola.samplers import fallback
from tombola.samplers.arithmetic import normalised, power_of_two_near
from tombola.samplers.compiled import Compiled
from tombola.samplers.deck import Deck, deal_one
from tombola.samplers.groups import Groups

__all__ = ["GroupState", "build_members", "rebuild_groups"]

UNSEEN = 2**20  # integer weight of an item without feedback (its h is 1)
LARGEST = 2**44  # the largest integer weight of an item
MEMORY = 15  # visits: the window of an item's average
SMALLEST = 1 / 16  # of h: an item with zero losses is drawn a quarter as often as an unseen one
TOO_LARGE = 2.0**100  # a loss this many times the first one makes the sampler start over
GROUP_TOTAL = 2.0**50  # total of the group weights after a rebuild
ANY_ITEM = np.uint64(2**61)  # words below this, 1/8 of them: a uniform item
ANY_GROUP = np.uint64(2**62)  # words below this, another 1/8: a uniform group and member


class _Parts(NamedTuple):
    stream: Record
    rule: Record
    fallback: Record
    deck: Deck
    groups: Groups
    place: NDArray[Any]  # the place of each item among the members of all groups
    scales: NDArray[np.float64]  # s, by place: the expected size of losses; empty if all are 1
    totals: NDArray[np.float64]  # sum of s in each group
    members: Index  # over the members of each group, with sums for each group
    scores: NDArray[np.float64]  # h, by place
    visits: NDArray[np.uint8]  # by place, at most MEMORY
    index: Index  # type: ignore[assignment]  # over groups
    levels: NDArray[np.float64]  # kappa of each group
    seen: NDArray[np.int64]  # the number of losses of each group


class GroupState(Compiled, _Parts):
    """Items sorted by group, an index over groups, and an index over the members of each group."""

    __slots__ = ()
    derived = ("groups", "place", "scales", "totals")

    @classmethod
    def limits(cls, state: Any) -> dict[str, tuple[float, float]]:
        """Return the valid range of the rule's numbers and arrays."""
        count = state.levels.size
        return {
            **fallback.limits(state),
            "rule.cursor": (0, count - 1),
            "rule.scale": (2.0**-1000, 2.0**1020),
            "rule.level": (0.0, 2.0**1000),
            "scores": (SMALLEST, 2.0**1000),
            "visits": (0, MEMORY),
            "levels": (0.0, 2.0**1000),
        }

    @classmethod
    def starts(cls, state: Any, name: str) -> NDArray[np.int64]:
        """Return where the members of each group begin."""
        return state.groups.starts if name == "members" else super().starts(state, name)

    @staticmethod
    def draw_one(state: Any) -> Any:
        """Draw one item; return it and its probability."""
        fallback.begin_block(state.fallback[0], 1)
        state.rule[0].drawn += 1
        if state.fallback[0].shuffling:
            return deal_one(state.deck, state.stream), 1.0 / state.place.size
        return draw_adaptively(state)

    @staticmethod
    def update_one(state: Any, item: Any, probability: Any, loss: Any) -> None:
        """Update the item, its group, and the level of all groups from one loss."""
        learn_one(state, item, probability, loss)

    @staticmethod
    def fill_probabilities(state: Any, out: Any) -> None:
        """Write the probability of every item, in the current mode."""
        for item in range(out.size):
            if state.fallback[0].shuffling:
                out[item] = 1.0 / out.size
            else:
                out[item] = probability_of(state, item)


@kernel
def members_of(state: GroupState, c: Any) -> Any:
    """Return the index over the members of a group."""
    first, end, all_ = state.groups.starts[c], state.groups.starts[c + 1], state.members
    return Index(
        all_.sums[c : c + 1],
        all_.weights[first:end],
        all_.order[first:end],
        all_.position[first:end],
    )


@kernel
def probability_of(state: GroupState, item: Any) -> Any:
    """Return 3/4 W_c / W a_i / A_c + 1/8 / n + 1/8 / (K n_c), for group c of the item."""
    c = state.groups.number[item]
    n, groups = state.place.size, state.levels.size
    size = state.groups.starts[c + 1] - state.groups.starts[c]
    learnt = (
        state.index.weights[c]
        / state.index.sums[0].total
        * (state.members.weights[state.place[item]] / state.members.sums[c].total)
    )
    return 0.75 * learnt + 0.125 / n + 0.125 / (groups * size)


@kernel
def draw_adaptively(state: GroupState) -> Any:
    """Draw one item from the mixture; return it and its probability."""
    stream, starts = state.stream, state.groups.starts
    coin = next_word(stream)
    if coin < ANY_ITEM:
        item = next_below(stream, np.uint64(state.place.size))
        return item, probability_of(state, item)
    if coin < ANY_GROUP:
        c = next_below(stream, np.uint64(state.levels.size))
        place = starts[c] + next_below(stream, np.uint64(starts[c + 1] - starts[c]))
    else:
        c = drawing.draw_one(state.index, stream, 0)
        place = starts[c] + drawing.draw_one(members_of(state, c), stream, 0)
    item = np.int64(state.groups.members[place])
    return item, probability_of(state, item)


@kernel
def learn_one(state: GroupState, item: Any, probability: Any, loss: Any) -> None:
    """Update the item, its group, and the level of all groups from one loss."""
    rule, levels, seen = state.rule[0], state.levels, state.seen
    c, place = state.groups.number[item], state.place[item]
    if loss * rule.unit > TOO_LARGE:
        begin_anew(state)
    if rule.unit == 0.0 and loss > 0.0:
        rule.unit = 1.0 / power_of_two_near(loss)
    squared = normalised(loss, rule.unit) ** 2
    candidate = probability_of(state, item)
    fallback.judge(state.fallback[0], squared, state.place.size, probability, candidate)
    scale = scale_of(state, place)
    squared = squared / scale / scale
    # squared loss per unit of h: over all draws, and in this group (later visits weigh more)
    relative = squared / state.scores[place]
    rule.fed += 1
    seen[c] += 1
    rule.level += (relative - rule.level) * 2.0 / (rule.fed + 1.0)
    if seen[c] == 1:
        levels[c] = rule.level
    levels[c] += (relative - levels[c]) * 2.0 / (seen[c] + 2.0)
    # h: the item's squared loss relative to its group's level, averaged over its visits
    root = state.members.sums[c].total / (UNSEEN * state.totals[c])
    level = levels[c] * root * root
    if level > 0.0:
        if state.visits[place] < MEMORY:
            state.visits[place] += 1
        h = state.scores[place]
        h += (squared / level - h) / (1.0 + state.visits[place])
        state.scores[place] = max(SMALLEST, h)
        assign(members_of(state, c), place - state.groups.starts[c], member_weight(state, place))
    # refresh the weight of this group, and of one more in turn
    put_group(state, c)
    other = (rule.cursor + 1) % levels.size
    if other == c:
        other = (other + 1) % levels.size
    rule.cursor = other
    put_group(state, other)
    total = state.index.sums[0].total
    if total > 2**60 or total < 2**40:
        rebuild_groups(state)


@kernel(inline=True)
def scale_of(state: GroupState, place: Any) -> Any:
    """Return s of the item at a place."""
    return state.scales[place] if state.scales.size else 1.0


@kernel(inline=True)
def member_weight(state: GroupState, place: Any) -> Any:
    """Return the integer weight s sqrt(h) of the item at a place."""
    weight = UNSEEN * scale_of(state, place) * math.sqrt(state.scores[place])
    return np.int64(max(1.0, min(weight, float(LARGEST))))


@kernel
def group_value(state: GroupState, c: Any) -> Any:
    """Return A_c sqrt(kappa_c), in units of an unseen item."""
    level = state.levels[c] if state.seen[c] > 0 else state.rule[0].level
    if state.rule[0].level == 0.0:
        level = 1.0
    return state.members.sums[c].total / UNSEEN * math.sqrt(level)


@kernel
def put_group(state: GroupState, c: Any) -> None:
    """Convert a group's value into its integer weight."""
    scaled = min(group_value(state, c) * state.rule[0].scale, 2.0**59)
    assign(state.index, c, max(1, np.int64(scaled)))


@kernel
def rebuild_groups(state: GroupState) -> None:
    """Choose the scale of the group weights and recompute all of them, in O(K)."""
    total = 0.0
    for c in range(state.levels.size):
        total += group_value(state, c)
    state.rule[0].scale = GROUP_TOTAL / power_of_two_near(max(total, 1e-200))
    for c in range(state.levels.size):
        scaled = np.int64(group_value(state, c) * state.rule[0].scale)
        state.index.weights[c] = scaled if scaled > 1 else 1
    build(state.index)


@kernel
def begin_anew(state: GroupState) -> None:
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
        build(members_of(state, c))
