"""Shards: consecutive items with a sampler of their own."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.draws import Draw
from tombola.random import Stream
from tombola.samplers import EpochVRB, Sampler
from tombola.samplers.registry import make_sampler

__all__ = ["SamplerChoice", "Shard", "join_draws", "make_shard"]


class Shard:
    """Items ``start`` to ``stop - 1``, their sampler, and how often each item was drawn."""

    def __init__(self, start: int, sampler: Sampler) -> None:
        self.start = start
        self.stop = start + sampler.n
        self.sampler = sampler
        self.counts = np.zeros(sampler.n, dtype=np.int32)

    def draw(self, size: int) -> Draw:
        """Draw items, numbered from 0 within the shard, and count them."""
        draw = self.sampler.draw(size)
        np.add.at(self.counts, draw.indices, np.int32(1))  # the same type: seven times faster
        return draw

    def update(self, draw: Draw, losses: NDArray[np.float64]) -> None:
        """Feed the sampler those losses that belong to items of the shard."""
        own = (draw.indices >= self.start) & (draw.indices < self.stop)
        if own.any():
            part = draw[own]
            local = Draw.made(
                part.indices - self.start,
                part.probabilities,
                self.sampler.n,
                part.round,
                part.tags,
            )
            self.sampler.update(local, losses[own])


class SamplerChoice(NamedTuple):
    """Which sampler to make for some items; all as for `ImportanceLoader`."""

    sampler: str | Sampler | Callable[..., Sampler]
    groups: Any
    seed: int
    quantity: str
    share: float | None = None

    def within(self, shard: int, start: int, stop: int) -> "SamplerChoice":
        """Return the choice for one of several shards: its groups, and a seed of its own."""
        words = [int(word) for word in Stream(self.seed).child(shard).words(2)]
        groups = None if self.groups is None else self.groups[start:stop]
        return self._replace(groups=groups, seed=words[0] << 64 | words[1])


def make_shard(start: int, n: int, choice: SamplerChoice) -> Shard:
    """Return a shard of n items with the sampler asked for; a sampler passed in is used itself."""
    sampler, groups, seed, quantity, share = choice
    if share is not None:
        sampler = EpochVRB(n, share=share, seed=seed)
    elif not isinstance(sampler, Sampler):
        sampler = make_sampler(sampler, n, seed, groups, what="items", whose="the dataset")
    elif sampler.n != n:
        raise ValueError(f"the sampler is over {sampler.n} items, the dataset has {n} items")
    if not sampler.fixed_size:
        raise TypeError(
            f"{type(sampler).__name__} draws a random number of items, and batches have a size"
        )
    if quantity != "loss":  # the default leaves a sampler as its maker has set it up
        sampler.quantity = quantity
    return Shard(start, sampler)


def join_draws(
    draws: Sequence[Draw], indices: NDArray[np.int64] | None = None, n: int | None = None
) -> Draw:
    """Return several draws as one; `indices` and `n` replace theirs."""
    if len(draws) == 1 and indices is None:
        return draws[0]
    tags = [draw.tags for draw in draws if draw.tags is not None]
    return Draw.made(
        np.concatenate([draw.indices for draw in draws]) if indices is None else indices,
        np.concatenate([draw.probabilities for draw in draws]),
        draws[0].n if n is None else n,
        draws[0].round,
        np.concatenate(tags) if len(tags) == len(draws) else None,
    )
