"""The saved state of a `WeightedSampler`: weights, the current epoch, the generator."""

from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from tombola.index.layout import saved_order
from tombola.index.real import LARGEST_EXPONENT, LEAST_EXPONENT
from tombola.state import (
    CheckpointError,
    Document,
    Floats,
    Ints,
    Scope,
    array,
    count,
    flag,
    integer,
    nested,
    optional,
    same,
)
from tombola.torch.tensors import TensorState

__all__ = ["SavedEpoch", "WeightedState", "set_generator"]

WORDS = 624  # of a generator of torch on the CPU: words left + place = 625 ...
NEW = 1, 0  # ... except in a new one


class SavedEpoch(Document):
    """An epoch that has begun."""

    seed: int = integer("the seed of its stream", 0, 2**63 - 1)
    position: int = count("words of the stream used so far")
    begin: int = count("items, over all processes, that were used")
    ahead: Ints = array("items that were drawn after these", 0, "n - 1", dtype=np.int64)
    over: bool = flag("whether all items were drawn, and none is off the board any more")


class WeightedState(TensorState):
    """Everything that a `WeightedSampler` needs to continue; the same on all processes."""

    kind: ClassVar = "WeightedSampler"

    n: int = same("items")
    num_samples: int = same("draws in an epoch, of all processes together")
    replacement: bool = same("whether items stay on the board when they are drawn")
    weights: Floats = array("the weight of each item", 0.0, dtype=np.float64, shape=("n",))
    exponent: int = integer("the scale is 2^exponent", LEAST_EXPONENT, LARGEST_EXPONENT)
    order: NDArray[Any] = saved_order("n")
    taken: NDArray[np.bool_] | None = optional(
        array("which items are off the board", 0, 1, dtype=np.bool_, shape=("n",))
    )
    epoch: int = count("epochs that are over")
    open: SavedEpoch | None = optional(nested("the epoch that has begun", SavedEpoch))
    generator: NDArray[np.uint8] | None = optional(
        array("the state of the generator", 0, 255, dtype=np.uint8)
    )

    def fault(self, scope: Scope) -> str:
        """Return what is wrong between the parts."""
        own = scope.find("has_generator")
        if own == (self.generator is None):
            return (
                f"the state was saved with{'out' if own else ''} a generator, "
                f"here there is {'one' if own else 'none'}"
            )
        if self.open is None or self.replacement:
            return "" if self.taken is None else "taken must be None: no item is off the board"
        if self.open.over == (self.taken is not None):
            return f"taken must be {'None' if self.open.over else 'an array'}"
        ahead = self.open.ahead
        drawn, taken = self.open.begin + ahead.size, self.taken
        if (
            np.unique(ahead).size < ahead.size
            or drawn > self.num_samples
            or not (taken is None or (np.count_nonzero(taken) == drawn and taken[ahead].all()))
        ):
            return "open and taken do not fit: each item is drawn once, and those drawn are taken"
        return ""


def set_generator(generator: torch.Generator, state: NDArray[np.uint8]) -> None:
    """Set the state of a generator, or raise a `CheckpointError` and leave it as it is."""
    state = state.copy()
    try:
        torch.Generator(generator.device).set_state(torch.from_numpy(state))
    except (RuntimeError, TypeError) as error:
        raise CheckpointError(f"generator is not a state of one: {error}") from None
    if generator.device.type == "cpu" and _place(torch.Generator().get_state().numpy()) == NEW:
        left, place = _place(state)
        if left + place != WORDS + 1 and (left, place) != NEW:
            raise CheckpointError(
                f"generator is not a state of one: {left} words left at place {place} of {WORDS}"
            )
    generator.set_state(torch.from_numpy(state))


def _place(state: NDArray[np.uint8]) -> tuple[int, int]:
    """Return how many words a generator on the CPU has left, and the place of the next one.

    torch does not compare the two, and would read beyond the words. A new generator
    shows whether torch still keeps them here in a state.
    """
    return int(state[8:12].view(np.int32)[0]), int(state[16:24].view(np.int64)[0])
