"""Shuffled epochs whose items are chosen by what `VRB` learns."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import kernel
from tombola.index.layout import place_type
from tombola.samplers.compiled import Compiled, CompiledSampler
from tombola.samplers.deck import Cards, Turn, deal_one
from tombola.samplers.default_rule import (
    AveragesRule,
    absorb_average,
    dwarfs,
    forget_averages,
    mixing_after,
    value_of,
)
from tombola.samplers.water_filling import TOTAL_BITS, choose_items, fill_chances
from tombola.state import Cell, Floats, Ints, Record, array, cell, derived, integer
from tombola.validation import number

__all__ = ["EpochVRB"]

UNIT_BITS = 32  # a chance of 2^32 is one draw in an epoch, or less, so that their sum fits
LONGEST = 2**40  # draws in an epoch


class Epoch(Record):
    """What an epoch is divided into."""

    unit: int = derived("the chance of an item that comes once in every epoch")
    total: int = derived("the sum of all chances")
    most: int = derived("the largest chance")


class EpochRule(AveragesRule):
    """The numbers of the rule."""

    least: int = integer("the smallest chance", 1, "epoch.most")


class EpochState(Compiled):
    """The visit averages of `VRB(n)`, and an epoch that was chosen by them."""

    epoch: Cell[Epoch] = derived("what an epoch is divided into")
    rule: Cell[EpochRule]
    chosen: Cards
    chances: Ints = array("how often each item is expected in an epoch, in units", 1, "epoch.most")
    scores: Floats = array("h", 0.0, 2.0**1020)
    visits: NDArray[np.float32] = array("V, the number of losses of each item", 0.0, 2.0**100)

    def fault(self, saved: Mapping[str, Any]) -> str:
        """Return what is wrong with an epoch: its length, or how often an item comes."""
        unit, total = int(self.epoch[0].unit), int(self.epoch[0].total)
        chances = saved["chances"]
        if sum(chances.tolist()) != total:  # without overflow
            return f"chances must sum to {total}"
        times = np.bincount(saved["chosen"]["items"], minlength=chances.size)
        wrong = (times < chances // unit) | (times > -(-chances // unit))
        if wrong.any():
            item = int(wrong.argmax())
            return f"chosen.items has item {item} {times[item]} times, which its chance rules out"
        return ""

    def draw_one(self) -> Any:
        """Deal the next item of the epoch; return it and its share of the epoch's draws."""
        if self.chosen.turn[0].place == 0:
            begin_epoch(self)
        item = deal_one(self.chosen, self.stream)
        return item, self.chances[item] / self.epoch[0].total

    def update_one(self, item: int, probability: float, loss: float) -> None:
        """Update the averages as `VRB` does; the next epoch is chosen by them."""
        if dwarfs(self.rule[0], loss):
            forget_averages(self)
        absorb_average(self, item, probability, loss)
        self.rule[0].fed += 1

    def fill_probabilities(self, out: Floats) -> None:
        """Write the share of every item in the draws of this epoch."""
        for item in range(out.size):
            out[item] = self.chances[item] / self.epoch[0].total


@kernel(allocates=True)
def begin_epoch(state: EpochState) -> None:
    """Compute the chances of all items, and choose those of an epoch."""
    epoch, rule, n = state.epoch[0], state.rule[0], state.scores.size
    rule.mixing = mixing_after(rule.fed, n)
    share = epoch.total // n
    rule.least = min(share, int(rule.mixing * share) + 1)
    values = np.empty(n)
    for item in range(n):
        values[item] = value_of(state, item)
    fill_chances(values, rule.least, epoch.most, epoch.total, state.chances)
    choose_items(state.chances, epoch.unit, state.stream, state.chosen.items)


def draws_in(share: float, n: int) -> int:
    """Return the number of draws in an epoch."""
    return max(1, round(share * n))


class EpochVRB(CompiledSampler):
    """Shuffled epochs whose items are chosen: those that cause the noise more often.

    An epoch has N = round(share n) draws. Item i comes in it pi_i times in expectation, with

        pi_i = max(floor, c s_i), at most 1 if N < n;   c such that the pi_i sum to N

    where s_i is the score that ``VRB(n)`` learns, and floor = theta N / n with the mixing theta of
    ``VRB(n)``: 1 until it has n/4 losses, then sqrt(n / (4 u)) after u of them. The items are
    chosen at the start of an epoch, by a systematic sample over a random order, and dealt in
    random order. So with N < n no item comes twice in an epoch; otherwise an item comes floor(pi_i)
    or ceil(pi_i) times. The probability of a draw is pi_i / N, and its importance N / (n pi_i).

    If all scores are equal, an epoch with share 1 is a shuffled epoch: every item once.

    Parameters
    ----------
    n : int
        The number of items.
    share : float, default=1.0
        The length of an epoch in items, over n; positive, and above 1 if epochs should be longer.
    seed : int, default=0

    Notes
    -----
    Guarantee: the pi_i are integers over 2^32 that sum to N exactly, so every draw of an epoch is
    item i with exactly the probability reported, over the choice and the shuffling of the epoch,
    and the mean over an epoch is an unbiased estimate, whatever was learnt before. *Given the
    earlier draws of its epoch* a draw is not, as with `Shuffle`, so draws are not independent.
    No importance exceeds 1 / theta. There is no bound on the regret.

    Cost: O(n) at the start of an epoch, O(1) for a draw and an update; memory is 20 bytes per item
    and 4 per draw of an epoch (8 from 2^31 items on).

    There is no fallback to shuffled epochs: if losses are equal up to noise, its second moment is
    1.16 times that of uniform draws. ``docs/decisions/epochs.md`` has the measurements.

    Examples
    --------
    >>> import numpy as np
    >>> losses = np.array([0.1] * 90 + [5.0] * 10)
    >>> sampler = EpochVRB(100, share=0.5)
    >>> for _ in range(5):
    ...     draw = sampler.draw(sampler.epoch_length)
    ...     sampler.update(draw, losses[draw.indices])
    >>> draw = sampler.draw(50)
    >>> int((draw.indices >= 90).sum()), len(set(draw.indices.tolist()))
    (10, 50)

    References
    ----------
    Borsos, Krause, Levy (2018). Online Variance Reduction for Stochastic Optimization.
    Madow (1949). On the Theory of Systematic Sampling, II.
    """

    independent = False  # the draws of an epoch depend on one another

    state: EpochState

    def __init__(
        self, n: int, *, share: float = 1.0, quantity: str = "loss", seed: int = 0
    ) -> None:
        super().__init__(n, seed, {"share": number("share", share)}, quantity=quantity)
        if not 0 < share * self.n < LONGEST:
            raise ValueError(
                f"share must be positive, and an epoch less than 2^40 draws, got share={share} "
                f"of n={n}"
            )
        length = draws_in(share, self.n)
        unit = 1 << min(UNIT_BITS, TOTAL_BITS - length.bit_length())
        total = length * unit
        chances = np.full(self.n, total // self.n)
        chances[: total % self.n] += 1
        self.state = EpochState(
            stream=self._stream.state,
            epoch=cell(Epoch(unit=unit, total=total, most=unit if length < self.n else total)),
            rule=cell(EpochRule(least=total // self.n)),
            chosen=Cards(
                items=(np.arange(length) % self.n).astype(place_type(self.n)), turn=cell(Turn())
            ),
            chances=chances,
            scores=np.zeros(self.n),
            visits=np.zeros(self.n, dtype=np.float32),
        )

    @classmethod
    def _entries(cls, parameters: Mapping[str, Any]) -> int:
        n = super()._entries(parameters)
        return max(n, draws_in(parameters["share"], n))

    @property
    def epoch_length(self) -> int:
        """The number of draws in an epoch."""
        return int(self.state.chosen.items.size)

    def _largest_importance(self) -> float:
        return float(self.state.epoch[0].total / (self.n * self.state.rule[0].least))
