"""GroupVRB: items of the same group share what is learnt from their losses."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.index.layout import Index, Sections, new_sums, place_type
from tombola.index.real import power_of_two_near
from tombola.samplers.bounds import checked_bounds
from tombola.samplers.compiled import CompiledSampler
from tombola.samplers.deck import new_deck
from tombola.samplers.fallback import new_fallback
from tombola.samplers.group_rule import (
    UNSEEN,
    GroupRule,
    GroupState,
    build_members,
    rebuild_groups,
)
from tombola.samplers.groups import group_numbers, new_groups
from tombola.state import cell, side_by_side

__all__ = ["GroupVRB"]

LEAST_SCALE = 2.0**-20  # the smallest scale of an item, relative to the mean
DARTS = 2**64 - 3  # the child of the sampler's stream that members are drawn with
CARRIED = 100  # the levels given to `start_from` count as at most this many losses


class GroupVRB(CompiledSampler):
    """A bandit over groups, with a bandit over items within each group; no parameters.

    An item that was never drawn is treated as an average member of its group, so a few losses of a
    group inform about all of its items, long before each of them has been drawn. For item i of
    group c:

        p_i = 3/4 (W_c / W) (a_i / A_c) + 1/8 (1/n) + 1/8 (1 / (K n_c))
        a_i = s_i sqrt(h_i),  A_c = sum of a in the group,  W_c = A_c sqrt(kappa_c)

    s_i is 1, or the root of the item's bound, if bounds are given. h_i is the average of the item's
    squared loss over s_i^2, relative to its group's level, over its last 15 visits and one
    pseudo-visit of value 1. kappa_c is the running mean of squared loss / h in the group: the
    current squared loss per unit of h. When the losses of a group decrease, only kappa_c changes,
    and the weights of its items remain up to date. The rule does not use the probability of a draw,
    so feedback may come from any source.

    A fallback estimates the benefit of adaptive draws, and deals shuffled epochs while they do not
    pay, as in `VRB`; ``gauge.mode`` shows the current mode.

    It needs the group of each item, for example its class label. A draw and an update take O(1);
    memory is 44 bytes per item (52 with bounds) and 0.6 kB per group.

    Floor: p_i >= 1/(8n) + 1/(8 K n_c). Hence, for any feedback, the second moment is at most 8
    times that of uniform draws, and at most 8 times that of balanced groups. No regret bound is
    claimed. ``docs/decisions/group_vrb.md`` has the measurements behind the rule.

    Parameters
    ----------
    groups : array-like of hashable labels, shape (n,)
        The group of each item. None and NaN are refused.
    labels : array-like, optional
        The expected groups; a group without items is refused.
    bound : array-like, shape (n,), optional
        Bounds on the squared loss of each item, in any unit: only their ratios matter. For
        example, the squared norms of rows, or squared Lipschitz constants. An item that was never
        drawn is then treated as an average member of its group *relative to its bound*, and an
        item with zero losses keeps a quarter of the weight that its bound implies.
    shuffle : bool, default=True
        Whether to deal shuffled epochs while adaptive draws do not pay. Use False with SAGA and
        SVRG, which need independent draws.
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

    state: GroupState

    def __init__(
        self,
        groups: ArrayLike,
        *,
        labels: ArrayLike | None = None,
        bound: ArrayLike | None = None,
        shuffle: bool = True,
        quantity: str = "loss",
        seed: int = 0,
    ) -> None:
        numbers, self.labels = group_numbers(groups, labels)
        n, count = len(numbers), len(self.labels)
        # the sampler is reconstructed from these; labels of other types are replaced by numbers
        kinds = {type(label) for label in self.labels}
        simple = len(kinds) == 1 and kinds <= {str, int, float, bool}
        kept = self.labels if simple else list(range(count))
        scales = None
        if bound is not None:
            bound = bounds = checked_bounds(bound, n)
            scales = np.sqrt(bounds / bounds.max()) * np.ones(n)
            scales = np.maximum(scales / scales.mean(), LEAST_SCALE)
        given = {
            "groups": np.array(kept)[numbers],
            "labels": kept,
            "bound": bound,
            "shuffle": bool(shuffle),
        }
        super().__init__(n, seed, given, quantity=quantity)
        del self.parameters["n"]
        groups_of, kind = new_groups(numbers), place_type(n)
        place = np.empty(n, dtype=kind)
        place[groups_of.members] = np.arange(n, dtype=kind)
        # of each place, 32 bytes side by side, so that a draw or an update reads one cache line
        member = side_by_side(
            n,
            weight=np.int64,
            position=kind,
            item=kind,
            group=np.int32,
            score=np.float64,
            visits=np.uint8,
        )
        group = side_by_side(
            count, weight=np.int64, position=np.int32, level=np.float64, seen=np.int64
        )
        member["item"][:] = groups_of.members
        member["group"][:] = numbers[groups_of.members]
        member["score"][:] = 1.0
        self.state = GroupState(
            stream=self._stream.state,
            darts=self._stream.child(DARTS).state,
            rule=cell(GroupRule()),
            fallback=new_fallback(n, allowed=shuffle),
            deck=new_deck(n),
            starts=groups_of.starts,
            place=place,
            item=member["item"],
            group=member["group"],
            scales=np.empty(0) if scales is None else scales[groups_of.members],
            scores=member["score"],
            visits=member["visits"],
            members=Sections(
                new_sums(count),
                member["weight"],
                np.empty(n, dtype=kind),
                member["position"],
                groups_of.starts,
            ),
            totals=np.bincount(numbers, scales).astype(np.float64),
            floors=0.125 / n + 0.125 / (count * np.diff(groups_of.starts)),
            index=Index(
                new_sums(), group["weight"], np.empty(count, dtype=np.int32), group["position"]
            ),
            levels=group["level"],
            seen=group["seen"],
        )
        build_members(self.state)
        rebuild_groups(self.state)

    def group_probabilities(self) -> NDArray[np.float64]:
        """Return the probability of each group, in the order of `labels`, in O(n)."""
        groups = self.state.group[self.state.place]
        shares = np.bincount(groups, weights=self.probabilities())
        return shares.astype(np.float64)

    def group_levels(self) -> dict[Any, tuple[float, int]]:
        """Return the root mean squared loss of each group, and its number of losses.

        With bounds, losses are divided by s, the roots of the bounds normalised to mean 1. Groups
        without feedback are left out. The levels stay meaningful when the items change; pass them
        to `start_from` of a sampler over other items.
        """
        state = self.state
        unit = float(state.rule[0].unit)
        roots = state.members.sums["total"] / (UNSEEN * state.totals)
        levels = np.sqrt(state.levels) * roots / (unit if unit > 0 else 1.0)
        return {
            label: (float(levels[c]), int(state.seen[c]))
            for c, label in enumerate(self.labels)
            if state.seen[c] > 0
        }

    def start_from(self, levels: Mapping[Any, tuple[float, int]]) -> None:
        """Initialise the groups with the levels of another sampler, from its `group_levels`.

        Groups that this sampler does not have are ignored; groups that `levels` does not name are
        treated as average. Each level counts as at most 100 losses, so that new feedback can soon
        override it. `reset` discards the levels.

        Examples
        --------
        >>> import numpy as np
        >>> old, new = GroupVRB(["a", "b", "b"]), GroupVRB(["a", "a", "b", "b"])
        >>> draw = old.draw(300)
        >>> old.update(draw, np.array([3.0, 1.0, 1.0])[draw.indices])
        >>> new.start_from(old.group_levels())
        >>> new.group_probabilities().round(2)         # (3/4, 1/4), mixed with 1/4 uniform
        array([0.69, 0.31])
        """
        state, rule = self.state, self.state.rule[0]
        if self.rounds or rule.fed:
            raise ValueError("start_from must be called before the first draw and the first update")
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
            state.levels[c] = (level * unit) ** 2
            state.seen[c] = min(seen, CARRIED)
        rule.unit, rule.fed = unit, state.seen.sum()
        rule.level = (state.levels * state.seen).sum() / state.seen.sum()
        rebuild_groups(state)

    def _largest_importance(self) -> float:
        return 8.0  # also in shuffled epochs: the gauge covers the adaptive draws before them

    @property
    def independent(self) -> bool:
        """False if the sampler may deal shuffled epochs."""
        return not self.parameters["shuffle"]

    @property
    def mode(self) -> str:
        """The current mode: "adaptive", or "shuffle" while the sampler deals shuffled epochs."""
        return "shuffle" if self.state.fallback[0].shuffling else "adaptive"
