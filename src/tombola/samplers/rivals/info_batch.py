"""InfoBatch: shuffled epochs that leave out some of the items with small losses."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import kernel
from tombola.samplers.compiled import Compiled, CompiledSampler
from tombola.samplers.deck import Deck, deal_among, new_deck, swap_in
from tombola.state import Cell, Floats, Record, array, cell, count, derived, integer
from tombola.validation import number, share, whole

__all__ = ["InfoBatch"]

UNKNOWN = -1.0  # the loss of an item that had none yet


class Plan(Record):
    """What is pruned, and when."""

    prune: float = derived("the share of the items below the mean that is left out")
    stop: int = derived("the first epoch that is dealt in full")


class Epoch(Record):
    """The epoch that is dealt."""

    number: int = count("epochs begun", default=0)
    length: int = integer("items that are dealt", 1, "losses.size")
    below: int = integer("items below the mean", 0, "losses.size", default=0)
    kept: int = integer("how many of them are dealt", 0, "losses.size", default=0)


class InfoBatchState(Compiled):
    """The last loss of each item, and an epoch that was chosen by them."""

    plan: Cell[Plan] = derived("what is pruned, and when")
    epoch: Cell[Epoch]
    deck: Deck  # the items of this epoch, then those that it leaves out
    below: NDArray[np.uint8] = array(
        "1 for items that were below the mean when the epoch began", 0, 1
    )
    losses: Floats = array("the last loss of each item, -1 before the first", UNKNOWN)

    def fault(self, saved: Mapping[str, Any]) -> str:
        """Return what is wrong with an epoch: its counts, its place, or which items it keeps."""
        epoch, below, n = saved["epoch"], saved["below"], self.losses.size
        count = int(below.sum())
        kept = kept_of(count, float(self.plan[0].prune))
        counts = {"below": count, "kept": kept, "length": n - count + kept}
        for name, right in counts.items():
            if epoch[name] != right:
                return f"epoch.{name} is {epoch[name]}, but the epoch has {right}"
        if saved["deck"]["turn"]["place"] >= epoch["length"]:
            return f"deck.turn.place is not below the {epoch['length']} items of the epoch"
        left_out = saved["deck"]["items"][epoch["length"] :]
        if not below[left_out].all():
            return "deck.items leaves out an item that was not below the mean"
        return ""

    def draw_one(self) -> Any:
        """Deal the next item of the epoch; return it and its probability."""
        if self.deck.turn[0].place == 0:
            begin_epoch(self)
        item = deal_among(self.deck, self.epoch[0].length, self.stream)
        return item, probability_of(self, item)

    def update_one(self, item: int, probability: float, loss: float) -> None:
        """Remember the loss."""
        self.losses[item] = loss

    def fill_probabilities(self, out: Floats) -> None:
        """Write the probability of every item in this epoch."""
        for item in range(out.size):
            out[item] = probability_of(self, item)


@kernel(inline=True)
def probability_of(state: InfoBatchState, item: int) -> Any:
    """Return kept / (below L) for an item below the mean, 1 / L for another, of L draws."""
    epoch = state.epoch[0]
    if state.below[item]:
        return epoch.kept / (epoch.below * epoch.length)
    return 1.0 / epoch.length


@kernel
def kept_of(count: Any, prune: Any) -> Any:
    """Return how many of `count` items are kept: at least one, unless there are none."""
    return count - np.int64(prune * count)


@kernel
def mean_loss(losses: NDArray[np.float64]) -> Any:
    """Return the mean of the known losses; exactly their value if all are equal."""
    count, least = 0, np.inf
    for loss in losses:
        if loss >= 0.0:
            count += 1
            least = min(least, loss)
    mean = least
    for loss in losses:
        if loss >= 0.0:
            mean += (loss - least) / count
    return mean


@kernel
def begin_epoch(state: InfoBatchState) -> None:
    """Choose the items of an epoch: all of those not below the mean, and some of the others."""
    epoch, items, n = state.epoch[0], state.deck.items, state.losses.size
    pruning = 0 < epoch.number < state.plan[0].stop
    mean = mean_loss(state.losses) if pruning else 0.0
    front = 0  # items from here on, up to the one looked at, are below the mean
    for place in range(n):
        item = items[place]
        state.below[item] = 0.0 <= state.losses[item] < mean
        if not state.below[item]:
            items[place] = items[front]
            items[front] = item
            front += 1
    epoch.below = n - front
    epoch.kept = kept_of(epoch.below, state.plan[0].prune)
    epoch.length = front + epoch.kept
    epoch.number += 1
    for place in range(front, epoch.length):
        swap_in(items, place, n, state.stream)


class InfoBatch(CompiledSampler):
    """Shuffled epochs that leave out, at random, some of the items below the mean loss.

    At the start of an epoch, let m be the mean of the last known losses, and let `count` items
    have a loss below m. A random `kept` = count - floor(prune count) of them are kept, and all
    other items; the epoch deals these L items in random order. The probability of a draw is

        1 / L, or kept / (count L) for an item below the mean

    so those kept weigh count / kept times as much as the others. The first epoch, and those from
    ``until * epochs`` on, are shuffled epochs of all items.

    Parameters
    ----------
    n : int
        The number of items.
    epochs : int
        The number of epochs planned; later ones are dealt in full.
    prune : float in [0, 1), default=0.5
        The share of the items below the mean that an epoch leaves out.
    until : float from 0 to 1, default=0.875
        The share of the epochs planned after which nothing is left out.
    seed : int, default=0

    Attributes
    ----------
    epoch_length : int
        L, the number of draws in the epoch of the latest draw. It is decided at the first draw of
        an epoch, and varies from epoch to epoch.

    Notes
    -----
    Guarantee: `kept` is given by the losses, not random, so every draw of an epoch is item i with
    exactly the probability reported, over the choice and the shuffling of the epoch, and the mean
    over an epoch is unbiased, item by item. No importance exceeds 1 / (1 - prune). Draws of one
    epoch are not independent.

    Cost: O(n) at the start of an epoch, O(1) for a draw and an update; memory is 13 bytes per item
    (17 from 2^31 items on).

    Deviations: importances estimate the *mean* over all items. The published weights, 1 and
    1 / (1 - prune), are n / L times these, so that an epoch of fewer steps moves as far as a full
    one: use ``draw.importances * n / sampler.epoch_length`` for the same steps. The published
    weight is 1 / (1 - prune) where here it is count / kept, which is unbiased if count (1 - prune)
    is not an integer, too. Items without a loss are kept; losses that are all equal are not below
    their mean.

    Examples
    --------
    >>> import numpy as np
    >>> losses = np.array([0.1] * 6 + [1.0] * 4)
    >>> sampler = InfoBatch(10, epochs=8)
    >>> for _ in range(3):
    ...     draw = sampler.draw(1)                 # begins an epoch
    ...     rest = sampler.draw(sampler.epoch_length - 1)
    ...     for part in (draw, rest):
    ...         sampler.update(part, losses[part.indices])
    ...     print(sampler.epoch_length, sampler.probabilities()[[0, -1]].round(3))
    10 [0.1 0.1]
    7 [0.071 0.143]
    7 [0.071 0.143]

    References
    ----------
    Qin et al. (2024). InfoBatch: Lossless Training Speed Up by Unbiased Dynamic Data Pruning.
    """

    independent = False  # the draws of an epoch depend on one another

    state: InfoBatchState

    def __init__(
        self,
        n: int,
        epochs: int,
        *,
        prune: float = 0.5,
        until: float = 0.875,
        quantity: str = "loss",
        seed: int = 0,
    ) -> None:
        given = {
            "epochs": whole("epochs", epochs, 1),
            "prune": number("prune", prune),
            "until": share("until", until),
        }
        if not 0 <= prune < 1:
            raise ValueError(f"prune must be at least 0 and less than 1, got {prune}")
        super().__init__(n, seed, given, quantity=quantity)
        self.state = InfoBatchState(
            stream=self._stream.state,
            plan=cell(Plan(prune=float(prune), stop=math.ceil(until * epochs))),
            epoch=cell(Epoch(length=self.n)),
            deck=new_deck(self.n),
            below=np.zeros(self.n, dtype=np.uint8),
            losses=np.full(self.n, UNKNOWN),
        )

    @property
    def epoch_length(self) -> int:
        """The number of draws in the epoch of the latest draw."""
        return int(self.state.epoch[0].length)

    def _largest_importance(self) -> float:
        return 1.0 / (1.0 - float(self.parameters["prune"]))
