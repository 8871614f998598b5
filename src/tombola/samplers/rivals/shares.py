"""Shares of a few parts, groups or distributions: learnt loss by loss, drawn by an index."""

import math

import numpy as np

from tombola.compiling import kernel
from tombola.index.layout import Index, build
from tombola.samplers.compiled import Compiled
from tombola.state import Floats, Ints, array, derived

__all__ = ["TOTAL_WEIGHT", "Shares", "weigh"]

TOTAL_WEIGHT = 2.0**40  # of all parts: integers up to rounding


@kernel
def learn_many(state: "Shares", items: Ints, probabilities: Floats, losses: Floats) -> None:
    """Learn from a batch, one loss after the other, then update the weights."""
    for j in range(items.size):
        state.learn(items[j], probabilities[j], losses[j])
    weigh(state)


@kernel
def weigh(state: "Shares") -> None:
    """Convert shares into integer weights, rounding up."""
    for c in range(state.shares.size):
        state.index.weights[c] = np.int64(math.ceil(state.shares[c] * TOTAL_WEIGHT))
    build(state.index)


class Shares(Compiled):
    """Base class of states that draw one of a few parts by its share, then an item from it."""

    index: Index = derived("over the parts, by their shares")
    shares: Floats = array("the share of each part", 0.0, 1.0 + 1e-9)

    update_many = learn_many

    def learn(self, item: int, probability: float, loss: float) -> None:
        """Update the shares from one loss."""
        raise NotImplementedError

    def update_one(self, item: int, probability: float, loss: float) -> None:
        """Learn from one loss."""
        self.learn(item, probability, loss)
        weigh(self)

    def restore(self) -> None:
        """Compute the weights of the parts."""
        weigh(self)
