"""GroupVRB: what is learnt about one item is shared with its group."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.compiling import kernel
from tombola.index import kernels as index
from tombola.random import next_below, next_word
from tombola.samplers import guard
from tombola.samplers.board import (
    ALWAYS,
    CLOCK,
    CURSOR,
    DRAWN,
    FED,
    KNOBS,
    MODE,
    SHUFFLE,
    UNIT,
    deal_one,
    normalised,
    power_of_two_near,
)
from tombola.samplers.bounds import checked_bounds
from tombola.samplers.compiled import CompiledSampler
from tombola.samplers.groups import group_numbers

__all__ = ["GroupBoard", "GroupVRB"]

# Knobs of this sampler, behind those of the guard.
LEVEL = guard.GUARD_KNOBS  # kappa over all draws: what a group not seen yet is taken for
GROUP_SCALE = guard.GUARD_KNOBS + 1  # integer group weight per unit of value; a power of two

UNSEEN = 2**20  # integer weight of an item that was never seen (its h is 1)
LARGEST = 2**44  # of any item
LEAST_SCALE = 2.0**-20  # of any item, relative to the mean
MEMORY = 15  # an item's average forgets beyond so many visits
SMALLEST = 1 / 16  # of h: an item that showed zeros is drawn a quarter as often as an unseen one
TOO_LARGE = 2.0**100  # a loss so much larger than the first one makes the sampler begin anew
GROUP_TOTAL = 2.0**50  # total of the group weights after a rebuild
CARRIED = 100  # what is known of a group beforehand counts as at most so many losses
ANY_ITEM = np.uint64(2**61)  # a word below this: 1/8 of the draws, any item
ANY_GROUP = np.uint64(2**62)  # below this: another 1/8, any group and any member


class GroupBoard(NamedTuple):
    """All arrays: items are sorted by group, and each group has an index of its own."""

    words: NDArray[np.uint64]  # the random stream
    group: NDArray[np.int32]  # of each item
    place: NDArray[Any]  # of each item among the members, sorted by group
    members: NDArray[Any]  # the items, sorted by group; the inverse of `place`
    starts: NDArray[np.int64]  # members of group c: starts[c] <= place < starts[c + 1]
    scales: NDArray[np.float64]  # s, by place: losses are expected in proportion; empty: all 1
    totals: NDArray[np.float64]  # sum of s in each group
    counts: NDArray[np.int64]  # (K, 68): one row for the index of each group, over ...
    weights: NDArray[np.int64]  # ... the weights of its members, and so on
    order: NDArray[Any]
    position: NDArray[Any]
    scores: NDArray[np.float64]  # h, by place
    visits: NDArray[np.uint8]  # v, by place, at most MEMORY
    levels: NDArray[np.float64]  # kappa of each group
    seen: NDArray[np.int64]  # losses of each group
    group_counts: NDArray[np.int64]  # the index over groups
    group_weights: NDArray[np.int64]
    group_order: NDArray[np.int64]
    group_position: NDArray[np.int64]
    deck: NDArray[Any]
    knobs: NDArray[np.float64]
    clock: NDArray[np.int64]

    @staticmethod
    def draw_one(board: Any) -> Any:
        """Draw one item; return it and its probability."""
        return draw_from_groups(board)

    @staticmethod
    def update_one(board: Any, item: Any, probability: Any, loss: Any) -> None:
        """Learn from one loss: about the item, its group, and all groups."""
        learn_one(board, item, probability, loss)

    @staticmethod
    def fill_probabilities(board: Any, out: Any) -> None:
        """Write the probability of every item, in the present mode."""
        fill_from_groups(board, out)


@kernel
def probability_of(board: GroupBoard, item: Any) -> Any:
    """Return 3/4 W_c / W a_i / A_c + 1/8 / n + 1/8 / (K n_c), for group c of the item."""
    c = board.group[item]
    n, groups = board.group.size, board.levels.size
    size = board.starts[c + 1] - board.starts[c]
    learnt = (
        board.group_weights[c]
        / board.group_counts[index.TOTAL]
        * (board.weights[board.place[item]] / board.counts[c, index.TOTAL])
    )
    return 0.75 * learnt + 0.125 / n + 0.125 / (groups * size)


@kernel
def draw_next(board: GroupBoard) -> Any:
    """Draw one item in the present mode; return it and its probability."""
    n = board.group.size
    if board.clock[MODE] == SHUFFLE:
        return deal_one(board), 1.0 / n
    coin = next_word(board.words)
    if coin < ANY_ITEM:
        item = next_below(board.words, np.uint64(n))
        return item, probability_of(board, item)
    if coin < ANY_GROUP:
        c = next_below(board.words, np.uint64(board.levels.size))
        first, end = board.starts[c], board.starts[c + 1]
        place = first + next_below(board.words, np.uint64(end - first))
    else:
        c = index.draw_one(
            board.group_counts, board.group_weights, board.group_order, board.words, 0
        )
        first, end = board.starts[c], board.starts[c + 1]
        place = first + index.draw_one(
            board.counts[c], board.weights[first:end], board.order[first:end], board.words, 0
        )
    item = np.int64(board.members[place])
    return item, probability_of(board, item)


@kernel
def draw_from_groups(board: GroupBoard) -> Any:
    """Draw one item; return it and its probability."""
    if board.clock[guard.LEFT] == 0:
        guard.choose(board, guard.measured(board))
    board.clock[guard.LEFT] -= 1
    board.clock[DRAWN] += 1
    return draw_next(board)


@kernel
def learn_one(board: GroupBoard, item: Any, probability: Any, loss: Any) -> None:
    """Learn from one loss: about the item, its group, and all groups."""
    c, place = board.group[item], board.place[item]
    n = board.group.size
    if loss * board.knobs[UNIT] > TOO_LARGE:
        begin_anew(board)
    if board.knobs[UNIT] == 0.0 and loss > 0.0:
        board.knobs[UNIT] = 1.0 / power_of_two_near(loss)
    squared = normalised(board, loss) ** 2
    guard.judge(board, squared, n, probability, probability_of(board, item))
    scale = scale_of(board, place)
    squared = squared / scale / scale
    # what a unit of h is worth: over all draws, and in this group (later visits weigh more)
    relative = squared / board.scores[place]
    board.clock[FED] += 1
    board.seen[c] += 1
    knobs, levels = board.knobs, board.levels
    knobs[LEVEL] += (relative - knobs[LEVEL]) * 2.0 / (board.clock[FED] + 1.0)
    if board.seen[c] == 1:
        levels[c] = knobs[LEVEL]
    levels[c] += (relative - levels[c]) * 2.0 / (board.seen[c] + 2.0)
    # h: the item's squared loss relative to its group's level, averaged over its visits
    first, end = board.starts[c], board.starts[c + 1]
    root = board.counts[c, index.TOTAL] / (UNSEEN * board.totals[c])
    level = levels[c] * root * root
    if level > 0.0:
        if board.visits[place] < MEMORY:
            board.visits[place] += 1
        h = board.scores[place]
        h += (squared / level - h) / (1.0 + board.visits[place])
        board.scores[place] = max(SMALLEST, h)
        index.assign(
            board.counts[c], board.weights[first:end], board.order[first:end],
            board.position[first:end], place - first, member_weight(board, place),
        )  # fmt: skip
    # the weight of this group, and of one more in turn
    put_group(board, c)
    other = (board.clock[CURSOR] + 1) % levels.size
    if other == c:
        other = (other + 1) % levels.size
    board.clock[CURSOR] = other
    put_group(board, other)
    total = board.group_counts[index.TOTAL]
    if total > 2**60 or total < 2**40:
        rebuild_groups(board)


@kernel(inline=True)
def scale_of(board: GroupBoard, place: Any) -> Any:
    """Return s of the item at a place."""
    return board.scales[place] if board.scales.size else 1.0


@kernel(inline=True)
def member_weight(board: GroupBoard, place: Any) -> Any:
    """Return the integer weight s sqrt(h) of the item at a place."""
    weight = UNSEEN * scale_of(board, place) * math.sqrt(board.scores[place])
    return np.int64(max(1.0, min(weight, float(LARGEST))))


@kernel
def group_value(board: GroupBoard, c: Any) -> Any:
    """Return A_c sqrt(kappa_c), in units of an item that was never seen."""
    level = board.levels[c] if board.seen[c] > 0 else board.knobs[LEVEL]
    if board.knobs[LEVEL] == 0.0:
        level = 1.0
    return board.counts[c, index.TOTAL] / UNSEEN * math.sqrt(level)


@kernel
def put_group(board: GroupBoard, c: Any) -> None:
    """Turn a group's value into its integer weight."""
    scaled = min(group_value(board, c) * board.knobs[GROUP_SCALE], 2.0**59)
    index.assign(
        board.group_counts, board.group_weights, board.group_order, board.group_position,
        c, max(1, np.int64(scaled)),
    )  # fmt: skip


@kernel
def rebuild_groups(board: GroupBoard) -> None:
    """Choose the scale of the group weights and derive all of them; takes O(K)."""
    total = 0.0
    for c in range(board.levels.size):
        total += group_value(board, c)
    board.knobs[GROUP_SCALE] = GROUP_TOTAL / power_of_two_near(max(total, 1e-200))
    for c in range(board.levels.size):
        scaled = np.int64(group_value(board, c) * board.knobs[GROUP_SCALE])
        board.group_weights[c] = scaled if scaled > 1 else 1
    index.build(board.group_counts, board.group_weights, board.group_order, board.group_position)


@kernel
def begin_anew(board: GroupBoard) -> None:
    """Forget everything: next to the loss that has come, all before it is nothing."""
    for knob in (UNIT, LEVEL, guard.OURS, guard.UNIFORM):
        board.knobs[knob] = 0.0
    for place in range(board.weights.size):
        board.scores[place] = 1.0
        board.visits[place] = 0
    for c in range(board.levels.size):
        board.levels[c] = 0.0
        board.seen[c] = 0
    build_members(board)
    rebuild_groups(board)


@kernel
def build_members(board: GroupBoard) -> None:
    """Build the index of each group."""
    for place in range(board.weights.size):
        board.weights[place] = member_weight(board, place)
    for c in range(board.levels.size):
        first, end = board.starts[c], board.starts[c + 1]
        index.build(
            board.counts[c], board.weights[first:end], board.order[first:end],
            board.position[first:end],
        )  # fmt: skip


@kernel
def fill_from_groups(board: GroupBoard, out: NDArray[np.float64]) -> None:
    """Write the probability of every item, in the present mode."""
    for item in range(out.size):
        if board.clock[MODE] == SHUFFLE:
            out[item] = 1.0 / out.size
        else:
            out[item] = probability_of(board, item)


class GroupVRB(CompiledSampler):
    """A bandit over groups, and inside each group one over items; no parameters.

    An item that was never drawn is taken for an average member of its group, so a few losses of
    a group tell about all of it, long before every item has been seen. For item i of group c:

        p_i = 3/4 (W_c / W) (a_i / A_c) + 1/8 (1/n) + 1/8 (1 / (K n_c))
        a_i = s_i sqrt(h_i),  A_c = sum of a in the group,  W_c = A_c sqrt(kappa_c)

    s_i is 1, or the root of the item's bound, if bounds are given. h_i is the average, over the
    item's last 15 visits and one of value 1, of its squared loss over s_i^2, relative to its
    group's level; kappa_c is the running mean of squared loss / h in the group:
    what a unit of h is worth there now. When the losses of a group fall, only kappa_c moves and
    no weight of an item is out of date. The probability does not enter: feedback may come from
    anywhere.

    A guard measures what adapting is worth and deals shuffled epochs where it does not pay, as
    in `VRB`; ``gauge.mode`` says which.

    Needs the group of each item (its class label, say). O(1) a draw and an update; 41 bytes an
    item (49 with bounds) and 0.6 kB a group.

    Floor: p_i >= 1/(8n) + 1/(8 K n_c). Hence, whatever the feedback, the second moment is at
    most 8 times that of uniform draws and of balanced groups. No regret bound is claimed.
    ``docs/decisions/group_vrb.md`` has the measurements behind it.

    Parameters
    ----------
    groups : array-like of hashable labels, shape (n,)
        The group of each item. None and NaN are refused.
    labels : array-like, optional
        The groups there should be; one without items is refused.
    bound : array-like, shape (n,), optional
        On the squared loss of each item, in any unit: only their ratios matter. An item never
        seen is then taken for an average member of its group *for its bound*, and one that showed
        zeros keeps a quarter of the weight that its bound gives it. The squared norms of rows, or
        squared Lipschitz constants, for instance.
    shuffle : bool, default=True
        Whether to deal shuffled epochs where adapting does not pay. Not with SAGA and SVRG: they
        need independent draws.
    seed : int, default=0

    Attributes
    ----------
    labels : list
        The groups, in the order of `group_probabilities`.

    Examples
    --------
    >>> import numpy as np
    >>> labels = np.array(["common"] * 950 + ["rare"] * 50)
    >>> losses = np.where(labels == "rare", 2.0, 0.1)
    >>> sampler = GroupVRB(labels)
    >>> for _ in range(10):
    ...     draw = sampler.draw(32)
    ...     sampler.update(draw, losses[draw.indices])
    >>> bool(sampler.group_probabilities()[1] > 0.3)      # 5% of the items
    True
    """

    def __init__(
        self,
        groups: ArrayLike,
        *,
        labels: ArrayLike | None = None,
        bound: ArrayLike | None = None,
        shuffle: bool = True,
        seed: int = 0,
    ) -> None:
        numbers, self.labels = group_numbers(groups, labels)
        n, groups_there = len(numbers), len(self.labels)
        super().__init__(n, seed)
        # what makes the same sampler again; labels of other kinds are not kept, their numbers are
        simple = len({type(label) for label in self.labels} | {str, int, float, bool}) == 4
        simple = simple and len({type(label) for label in self.labels}) == 1
        kept = self.labels if simple else list(range(groups_there))
        self.parameters = {"groups": np.array(kept)[numbers], "labels": kept, "seed": seed}
        self.parameters.update(bound=None, shuffle=bool(shuffle))
        scales = np.empty(0)
        if bound is not None:
            bounds = checked_bounds(bound, n)
            self.parameters["bound"] = bounds
            scales = np.sqrt(bounds / bounds.max()) * np.ones(n)
            scales = np.maximum(scales / scales.mean(), LEAST_SCALE)
        place = np.int32 if n < 2**31 else np.int64
        members = np.argsort(numbers, kind="stable").astype(place)
        position = np.empty(n, dtype=place)
        position[members] = np.arange(n, dtype=place)
        starts = np.concatenate([[0], np.cumsum(np.bincount(numbers))]).astype(np.int64)
        self.state = GroupBoard(
            words=self._stream.state,
            group=numbers,
            place=position,
            members=members,
            starts=starts,
            scales=scales if bound is None else scales[members],
            totals=np.bincount(numbers, None if bound is None else scales).astype(np.float64),
            counts=np.zeros((groups_there, index.COUNTS), dtype=np.int64),
            weights=np.empty(n, dtype=np.int64),
            order=np.empty(n, dtype=place),
            position=np.empty(n, dtype=place),
            scores=np.ones(n),
            visits=np.zeros(n, dtype=np.uint8),
            levels=np.zeros(groups_there),
            seen=np.zeros(groups_there, dtype=np.int64),
            group_counts=np.zeros(index.COUNTS, dtype=np.int64),
            group_weights=np.empty(groups_there, dtype=np.int64),
            group_order=np.empty(groups_there, dtype=np.int64),
            group_position=np.empty(groups_there, dtype=np.int64),
            deck=np.arange(n, dtype=place),
            knobs=np.zeros(KNOBS),
            clock=np.zeros(CLOCK, dtype=np.int64),
        )
        guard.begin(self.state, n)
        if not shuffle:
            self.state.clock[guard.LEFT] = ALWAYS  # the first block never ends
        build_members(self.state)
        rebuild_groups(self.state)

    def group_probabilities(self) -> NDArray[np.float64]:
        """Return the share of draws that each group gets, in the order of `labels`; O(n)."""
        shares = np.bincount(self.state.group, weights=self.probabilities())
        return shares.astype(np.float64)

    def group_levels(self) -> dict[Any, tuple[float, int]]:
        """Return what was learnt of each group: the root of its mean squared loss, and the count.

        (With bounds: of losses over s, the roots of the bounds at mean 1.)

        Groups that nothing was fed for are left out. This is what remains true when the items
        are gone; `start_from` takes it over into a sampler over other items.
        """
        board = self.state
        unit = float(board.knobs[UNIT])
        roots = board.counts[:, index.TOTAL] / (UNSEEN * board.totals)
        levels = np.sqrt(board.levels) * roots / (unit if unit > 0 else 1.0)
        return {
            label: (float(levels[c]), int(board.seen[c]))
            for c, label in enumerate(self.labels)
            if board.seen[c] > 0
        }

    def start_from(self, levels: Mapping[Any, tuple[float, int]]) -> None:
        """Begin with what another sampler has learnt of the groups, from `group_levels`.

        Groups that are not here are passed over, groups that it does not name are taken for
        an average one. Each level counts as at most 100 losses, so that new rows can soon say
        otherwise. `reset` forgets it.

        Examples
        --------
        >>> import numpy as np
        >>> old, new = GroupVRB(["a", "b", "b"]), GroupVRB(["a", "a", "b", "b"])
        >>> draw = old.draw(300)
        >>> old.update(draw, np.array([3.0, 1.0, 1.0])[draw.indices])
        >>> new.start_from(old.group_levels())
        >>> new.group_probabilities().round(2)         # 3/4 to 1/4, mixed with 1/4 uniform
        array([0.69, 0.31])
        """
        board = self.state
        if self.rounds or board.clock[FED]:
            raise ValueError("start_from is for a sampler that has drawn and learnt nothing yet")
        known = {c: levels[label] for c, label in enumerate(self.labels) if label in levels}
        for c, pair in known.items():
            pairs = isinstance(pair, (tuple, list)) and len(pair) == 2
            if not (pairs and 0 <= pair[0] < math.inf and pair[1] >= 1):
                raise ValueError(
                    f"levels[{self.labels[c]!r}] is {pair!r}: a finite level, not "
                    "negative, and a count of at least 1 are needed"
                )
        largest = max((level for level, _ in known.values()), default=0.0)
        if largest <= 0.0:
            return
        unit = 1.0 / power_of_two_near(largest)
        for c, (level, seen) in known.items():
            board.levels[c] = (level * unit) ** 2
            board.seen[c] = min(seen, CARRIED)
        board.knobs[UNIT], board.clock[FED] = unit, board.seen.sum()
        board.knobs[LEVEL] = (board.levels * board.seen).sum() / board.seen.sum()
        rebuild_groups(board)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        fixed = ("words", "group", "place", "members", "starts", "scales", "totals")
        return {name: array for name, array in self.state._asdict().items() if name not in fixed}

    def _largest_importance(self) -> float:
        return 8.0  # the first block is adaptive, and the gauge remembers

    @property
    def mode(self) -> str:
        """What the sampler does now: "adaptive", or "shuffle" where it deals shuffled epochs."""
        return "shuffle" if self.state.clock[MODE] == SHUFFLE else "adaptive"
