"""The default rule, which `VRB` runs without a bound: shrunk visit averages, and a fallback.

For each item, the state holds V, the number of its losses, and h, the average of their squares
(over about the last 32). The weight of an item is the root of that average, shrunk towards the
average m over all items as if k additional visits had had squared loss m:

    value = sqrt((V h + k m) / (V + k)),   k = 1/8 + D^2 / 2   (1/8 + 8 D^2 after only zeros)

D, from 0 to 1, is the average distance between a loss and the past losses of its item. If losses
are steady, one visit determines the weight; if they are noisy, it takes more. Mixing is
min(1, sqrt(n / (4 u))) after u losses. All quantities are relative to m, so the scale of the losses
does not matter.

A loss 2^100 times the first one, or any loss after m has fallen to 2^-200 of its first value,
makes the sampler start over, as if there had been no losses before.

The fallback (`tombola.samplers.fallback`) deals shuffled epochs while adaptive draws do not pay, by
the losses of items that had one before.

Where it departs from Algorithm 1 (`tombola.samplers.algorithm_1`):

- w(i), a sum of l^2 / p that estimates the squared losses of an item in all rounds, is replaced by
  the average of those that were seen: an unbiased sum of few terms is too noisy.
- L n / theta, which keeps items of small w in play and needs the bound L, is replaced by shrinking
  towards m.
- theta falls as sqrt(n / (4 u)), where the theorem has (n / T)^(1/3); there is no regret bound.
- The fallback is not in the paper.

`tombola.samplers.default_batch` learns from a batch in stages, with the same result to the last
bit. ``docs/decisions/vrb_default.md`` lists the alternatives and their measurements.
"""

import math
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import kernel, prefetch
from tombola.index.layout import Index, new_sums, place_type
from tombola.samplers import fallback
from tombola.samplers.arithmetic import learnt_unit, normalised, pace, unit_after
from tombola.samplers.deck import Deck, deal_one, new_deck
from tombola.samplers.weighted import (
    Rule,
    Scored,
    draw_from_index,
    fill_from_index,
    probability_of,
    rebuild,
    uniform_weight,
)
from tombola.state import Cell, Floats, array, cell, derived, real, side_by_side

__all__ = [
    "AveragesRule",
    "ParameterFree",
    "absorb_average",
    "dwarfs",
    "forget_averages",
    "mixing_after",
    "parts_of",
    "value_of",
]

LAST = 32.0  # visits: the window of an item's average
CLIP = 8.0  # squared losses are clipped at CLIP n m
FAINT = 2.0**-200  # the least m, relative to the first one: about 139 n losses of zero
PRIOR, PRIOR_NOISE, PRIOR_ZEROS = 0.125, 0.5, 8.0

LARGEST_ROOT = 2.0**200  # of sqrt(m) at the start: no importance of a draw is above 2^200
TOO_LARGE = 2.0**100  # a loss this many times the first one makes the sampler start over


# --- the formulas -------------------------------------------------------------------------------


@kernel(inline=True)
def least_mean(first_root: Any) -> Any:
    """Return the least m; when losses of zero have brought it there, past losses are negligible."""
    return FAINT * (first_root * first_root)


@kernel(inline=True)
def moved_mean(mean: Any, new: Any, share: Any, least: Any) -> Any:
    """Return m after a new value, not below `least`: it at most doubles, unless it was 0."""
    moved = mean + share * (new - mean)
    return max(least, min(moved, 2.0 * mean) if mean > 0.0 else moved)


@kernel(inline=True)
def clipped(squared: Any, n: int, mean: Any) -> Any:
    """Return a squared loss, at most 8 n m."""
    return min(squared, CLIP * n * mean)


@kernel(inline=True)
def moved_average(average: Any, visits: Any, squared: Any) -> Any:
    """Return h after one more visit."""
    return average + (squared - average) / min(visits + 1.0, LAST)


@kernel(inline=True)
def distance(squared: Any, average: Any) -> Any:
    """Return how far a squared loss is from the average: 0 if equal, 1 if one of them is 0."""
    return 1.0 - 2.0 * math.sqrt(squared * average) / (squared + average)


@kernel(inline=True)
def shrunk_root(average: Any, visits: Any, mean: Any, disagreement: Any) -> Any:
    """Return sqrt((V h + k m) / (V + k))."""
    noise = PRIOR_NOISE if average > 0.0 else PRIOR_ZEROS
    k = PRIOR + noise * disagreement * disagreement
    return math.sqrt((visits * average + k * mean) / (visits + k))


# --- the state ----------------------------------------------------------------------------------


class AveragesRule(Rule):
    """The numbers of a rule with visit averages."""

    mixing: float = real("theta, the share of uniform draws", 0.0, 1.0, default=1.0)
    unit: float = learnt_unit()
    mean_square: float = real(
        "m: running mean of l^2 / (n p), which estimates the mean of l^2", default=0.0
    )
    disagreement: float = real("D, up to rounding", -1e-9, 1.0 + 1e-9, default=0.0)
    compared: float = real("losses averaged in D", default=0.0)
    first_root: float = real(
        "the initial sqrt(m); values are relative to it, and start at 1",
        0.0,
        LARGEST_ROOT,
        default=0.0,
    )


class ParameterFreeRule(AveragesRule):
    """The numbers of `VRB` without parameters."""

    fade: float = derived("the factor of the visits at each pass of the sweep")


def parts_of(n: int, *, fade: float, shuffle: bool) -> dict[str, Any]:
    """Return what `WeightedSampler._begin` takes for a new sampler."""
    kind = place_type(n)
    # of each item, 24 bytes side by side, so that an update reads one cache line, or two
    item = side_by_side(n, weight=np.int64, position=kind, score=np.float64, visits=np.float32)
    return {
        "stale": True,
        "index": Index(new_sums(), item["weight"], np.empty(n, dtype=kind), item["position"]),
        "rule": cell(ParameterFreeRule(fade=fade)),
        "fallback": fallback.new_fallback(n, allowed=shuffle),
        "deck": new_deck(n),
        "scores": item["score"],
        "visits": item["visits"],
    }


class ParameterFree(Scored):
    """Shrunk visit averages, with a fallback, learnt loss by loss: the scores are h."""

    rule: Cell[ParameterFreeRule]
    fallback: Cell[fallback.Fallback]
    deck: Deck
    visits: NDArray[np.float32] = array("V, the number of losses of each item", 0.0, 2.0**100)

    def absorb(self, item: int, probability: float, loss: float) -> None:
        """Update the averages and the fallback's sums."""
        rule, n = self.rule[0], self.scores.size
        if dwarfs(rule, loss):
            start_over(self)
        had_loss = self.visits[item] > 0.0
        squared = absorb_average(self, item, probability, loss)
        if had_loss and rule.unit > 0.0:
            candidate = probability_of(self, item, uniform_weight(self))
            fallback.judge(self.fallback[0], squared, n, probability, candidate)

    def value(self, item: int) -> float:
        """Return the root of the shrunk average of squared losses; 1 before the first loss."""
        return value_of(self, item)

    def prepare(self, size: int) -> int:
        """Set the mixing; at the end of a block, choose the mode of the next one."""
        rule, n = self.rule[0], self.scores.size
        rule.mixing = mixing_after(rule.fed, n)
        return fallback.begin_block(self.fallback[0], size)

    def fade(self, item: int) -> None:
        """Discount the visits."""
        if self.rule[0].fade < 1.0:
            self.visits[item] *= self.rule[0].fade

    def fetch(self, item: int) -> None:
        """Prefetch what lies side by side: it may be in two cache lines."""
        prefetch(self.index.weights, item)
        prefetch(self.visits, item)

    def draw_next(self) -> Any:
        """Deal from the deck, or draw from the index."""
        if self.fallback[0].shuffling:
            return deal_one(self.deck, self.stream), 1.0 / self.scores.size
        return draw_from_index(self)

    def by_weight(self) -> bool:
        """Return whether the sampler is in its adaptive mode."""
        return not self.fallback[0].shuffling

    def fill_probabilities(self, out: Floats) -> None:
        """Write the probability of every item, in the current mode."""
        if self.fallback[0].shuffling:
            out[:] = 1.0 / out.size
        else:
            fill_from_index(self, out)


# --- what `EpochVRB` shares ---------------------------------------------------------------------


class WithAverages(Protocol):
    """A state with visit averages."""

    @property
    def rule(self) -> Cell[AveragesRule]: ...
    @property
    def scores(self) -> Floats: ...
    @property
    def visits(self) -> NDArray[np.float32]: ...


@kernel(inline=True)
def mixing_after(fed: Any, n: int) -> Any:
    """Return min(1, sqrt(n / (4 u))) after u losses."""
    return 1.0 if 4 * fed <= n else math.sqrt(n / (4.0 * fed))


@kernel(inline=True)
def value_of(state: WithAverages, item: int) -> Any:
    """Return the root of the shrunk average of squared losses; 1 before the first loss."""
    rule = state.rule[0]
    if rule.unit == 0.0:
        return 1.0
    average, visits = state.scores[item], state.visits[item]
    return shrunk_root(average, visits, rule.mean_square, rule.disagreement) / rule.first_root


@kernel(inline=True)
def absorb_average(state: WithAverages, item: int, probability: float, loss: float) -> Any:
    """Update the item's average, the overall average and D; return the squared loss, clipped."""
    rule, n = state.rule[0], state.scores.size
    share = pace(rule.fed, n)
    if rule.unit == 0.0 and loss > 0.0:
        set_unit(state, loss, share, probability)
    squared = normalised(loss, rule.unit) ** 2
    if rule.unit > 0.0:
        rule.mean_square = moved_mean(
            rule.mean_square, squared / (n * probability), share, least_mean(rule.first_root)
        )
        squared = clipped(squared, n, rule.mean_square)
    visits, past = state.visits[item], state.scores[item]
    if visits > 0.0 and squared + past > 0.0:
        rule.compared += 1.0
        gap = distance(squared, past) - rule.disagreement
        rule.disagreement += pace(rule.compared, n) * gap
    state.scores[item] = moved_average(past, visits, squared)
    state.visits[item] = visits + 1.0
    return squared


@kernel(inline=True)
def dwarfs(rule: AveragesRule, loss: float) -> Any:
    """Return whether past losses are negligible compared with this one: time to start over."""
    return loss * rule.unit > TOO_LARGE or (loss > 0.0 and is_faint(rule))


@kernel(inline=True)
def is_faint(rule: AveragesRule) -> Any:
    """Return whether a run of zeros has made m negligible."""
    return rule.unit > 0.0 and rule.mean_square <= least_mean(rule.first_root)


@kernel
def set_unit(state: WithAverages, loss: float, share: Any, probability: float) -> None:
    """Set the unit from the first non-zero loss: the inverse of a power of two near it."""
    rule = state.rule[0]
    rule.unit = unit_after(rule.unit, loss)
    squared = normalised(loss, rule.unit) ** 2
    rule.first_root = math.sqrt(share * (squared / (state.scores.size * probability)))


@kernel
def start_over(state: ParameterFree) -> None:
    """Start over: past losses are negligible compared with the latest one."""
    forget_averages(state)
    fallback.forget(state.fallback[0])
    rebuild(state)


@kernel
def forget_averages(state: WithAverages) -> None:
    """Forget all losses."""
    rule = state.rule[0]
    rule.unit = rule.mean_square = rule.disagreement = rule.compared = 0.0
    for item in range(state.scores.size):
        state.scores[item] = 0.0
        state.visits[item] = 0.0
