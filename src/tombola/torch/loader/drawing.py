"""How processes share draws and feedback; all differences between the modes are here.

*Single*: one process draws from all items.

*Replicated*: every process holds the whole sampler and draws the whole global batch, the same on
each since random words and feedback are the same; each takes its part. Feedback is shared when it
is due and applied in the same order on all.

*Sharded*: every process owns some of the items, in shards (consecutive items with a sampler of
their own), and draws from these alone. Nothing is shared.
"""

import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tombola.draws import SMALLEST, Draw
from tombola.random import Stream
from tombola.samplers import EpochVRB, Sampler
from tombola.samplers.epoch_vrb import draws_in
from tombola.samplers.registry import make_sampler
from tombola.state import Document, Floats, Scope, array, integer, nested, optional
from tombola.torch.communication import Connection
from tombola.torch.loader.base import Settings
from tombola.torch.loader.feedback import Feedback, share_feedback

__all__ = [
    "DrawnBatch", "Processes", "Replicated", "Shard", "Sharded", "join_draws", "make_processes"
]  # fmt: skip


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
            items, n = part.indices - self.start, self.sampler.n
            local = Draw.made(items, part.probabilities, n, part.round, part.tags)
            self.sampler.update(local, losses[own])


class DrawnBatch(Document):
    """The draw of a batch; for replicated processes, of all of them together."""

    number: int = integer("the number of the batch", 0, "position.drawn - 1")
    draw: Draw = nested("the draw", Draw)
    shares: Floats | None = optional(
        array(
            "for sharded items, the share of all batches that comes from the shard of the item",
            SMALLEST, 1.0, dtype=np.float64, shape=("draw.indices.size",),
        )
    )  # fmt: skip

    def fault(self, scope: Scope) -> str:
        """Return what is wrong with the draw or the shares."""
        if not len(self.draw) or self.draw.nominal is not None:
            return "draw must be of a fixed size, at least 1"
        if self.shares is None and scope.find("sharded"):
            return "shares must be an array: items are sharded"
        if self.shares is not None and not scope.find("sharded"):
            return "shares must be None: items are not sharded"
        return ""


class Processes:
    """How this process draws and learns: here alone, from all items; see below for the others.

    The settings are those of the loader, over the items of all processes.
    """

    sharded: ClassVar[bool] = False
    # Whether a state holds the batches without feedback, which may differ between processes.
    saves_unanswered: ClassVar[bool] = True
    smallest_batch = 1

    def __init__(self, connection: Connection, settings: Settings, shards: list[Shard]) -> None:
        self.connection, self.settings, self.shards = connection, settings, shards
        self.rank, self.world = connection.rank, connection.world
        # a checksum of all draws so far, which replicated processes compare
        self._progress = zlib.crc32(repr(shards[0].sampler).encode())

    def draw(self, number: int, size: int) -> DrawnBatch:
        """Draw a batch of `size` items for each process."""
        return DrawnBatch(number=number, draw=self.shards[0].draw(size), shares=None)

    def part(self, batch: DrawnBatch) -> Draw:
        """Return the part of a batch that is handed out in this process."""
        return batch.draw

    def complete(self, batch: DrawnBatch) -> int:
        """Draw more, if all processes need it for an equal part; return how many items."""
        return 0

    def share(self, feedback: list[Feedback], saving: bool = False) -> list[Feedback]:
        """Return the feedback that this process learns from, given its own feedback."""
        return feedback

    def learn(self, feedback: Sequence[Feedback]) -> None:
        """Feed the sampler all feedback for one batch, at once."""
        draw, losses = feedback[0].draw, feedback[0].losses
        if len(feedback) > 1:
            draw = join_draws([part.draw for part in feedback])
            losses = np.concatenate([part.losses for part in feedback])
        self.shards[0].sampler.update(draw, losses)

    def owns(self, draw: Draw) -> NDArray[np.bool_]:
        """Return which items of a draw belong to the shards of this process."""
        first, last = self.shards[0].start, self.shards[-1].stop
        own: NDArray[np.bool_] = (draw.indices >= first) & (draw.indices < last)
        return own

    def epoch_length(self) -> int:
        """Return the number of draws in an epoch, of all processes together."""
        return self.shards[0].sampler.epoch_length

    def resumed(self, position: Sequence[int]) -> None:
        """Start the checksum of draws from the position of a state."""
        self._progress = zlib.crc32(repr(tuple(position)).encode())


class Replicated(Processes):
    """Every process draws the same global batch and takes its part."""

    saves_unanswered = False

    def draw(self, number: int, size: int) -> DrawnBatch:
        """Draw the global batch."""
        batch = super().draw(number, size * self.world)
        self._progress = zlib.crc32(batch.draw.indices.tobytes(), self._progress)
        return batch

    def part(self, batch: DrawnBatch) -> Draw:
        """Return the part of this process; all are equal if the size can be divided."""
        size = len(batch.draw)
        return batch.draw[self.rank * size // self.world : (self.rank + 1) * size // self.world]

    def share(self, feedback: list[Feedback], saving: bool = False) -> list[Feedback]:
        """Return the feedback of all processes, the same on each."""
        width = self.settings.batch_size
        return share_feedback(self.connection, feedback, width, self._progress, saving)

    def complete(self, batch: DrawnBatch) -> int:
        """Draw more until the batch divides by the number of processes."""
        missing = -len(batch.draw) % self.world
        if missing:
            batch.draw = join_draws([batch.draw, self.shards[0].draw(missing)])
        return missing


class Sharded(Processes):
    """Every process draws from its own shards.

    A batch takes from each shard a share in proportion to its items, at least one. With b_s of
    the B items of this batch from shard s, and the batches of `world` processes averaged, the
    importance of an item is 1 / (n p share) with share = b_s / (world B): the estimate is
    unbiased however unequal the shards are. With one shard of n_s items per process that is the
    usual 1 / (n_s p), times world n_s / n.
    """

    sharded = True

    def __init__(self, connection: Connection, settings: Settings, shards: list[Shard]) -> None:
        super().__init__(connection, settings, shards)
        # the largest number of shards of any process
        self.smallest_batch = -(-(settings.shards or self.world) // self.world)
        if settings.batch_size < self.smallest_batch:
            raise ValueError(
                f"batch_size={settings.batch_size} is less than the {self.smallest_batch} shards "
                "of a process; each batch draws from all of them"
            )
        self._ends = np.cumsum([shard.stop - shard.start for shard in shards])

    def draw(self, number: int, size: int) -> DrawnBatch:
        """Draw from every shard of this process."""
        rest = size - len(self.shards)
        sizes = 1 + np.diff(self._ends * rest // self._ends[-1], prepend=0)
        draws = [shard.draw(int(b)) for shard, b in zip(self.shards, sizes, strict=True)]
        starts = np.repeat([shard.start for shard in self.shards], sizes)
        indices = np.concatenate([draw.indices for draw in draws]) + starts
        drawn = join_draws(draws, indices, self.settings.n)
        shares = np.repeat(sizes / (self.world * size), sizes)
        return DrawnBatch(number=number, draw=drawn, shares=shares)

    def epoch_length(self) -> int:
        """Return the number of draws in an epoch, which must be the same on every process."""
        share = self.settings.share
        return self.settings.n if share is None else draws_in(share, self.settings.n)

    def learn(self, feedback: Sequence[Feedback]) -> None:
        """Feed each shard the losses of its items."""
        for part in feedback:
            for shard in self.shards:
                shard.update(part.draw, part.losses)


def make_processes(connection: Connection, settings: Settings) -> Processes:
    """Return the processes that a connection asks for, with their samplers made."""
    if connection.mode != "sharded":
        if settings.shards is not None:
            raise ValueError('shards is for distributed="sharded"')
        kind = Replicated if connection.mode == "replicated" else Processes
        return kind(connection, settings, [_make_shard(0, settings)])
    if isinstance(settings.sampler, Sampler):
        raise ValueError(
            "with sharded items each shard has a sampler of its own: pass a name, or a function "
            "(n, seed, groups) that returns a sampler"
        )
    n, rank, world = settings.n, connection.rank, connection.world
    total = world if settings.shards is None else settings.shards
    if not world <= total <= n:
        raise ValueError(
            f"there must be at least as many shards as processes ({world}) and at most as "
            f"many as items ({n}), got shards={total}"
        )
    shards = []
    for k in range(rank * total // world, (rank + 1) * total // world):
        start, stop = k * n // total, (k + 1) * n // total
        groups = None if settings.groups is None else settings.groups[start:stop]
        words = [int(word) for word in Stream(settings.seed).child(k).words(2)]
        seed = words[0] << 64 | words[1]  # each shard has draws of its own
        own = replace(settings, n=stop - start, groups=groups, seed=seed)
        shards.append(_make_shard(start, own))
    return Sharded(connection, settings, shards)


def _make_shard(start: int, settings: Settings) -> Shard:
    """Return a shard with the sampler asked for; a sampler passed in is used itself."""
    sampler, n = settings.sampler, settings.n
    if settings.share is not None:
        sampler = EpochVRB(n, share=settings.share, seed=settings.seed)
    elif not isinstance(sampler, Sampler):
        sampler = make_sampler(
            sampler, n, settings.seed, settings.groups, what="items", whose="the dataset"
        )
    if not sampler.fixed_size:
        raise TypeError(
            f"{type(sampler).__name__} draws a random number of items, and batches have a size"
        )
    settings.fit(sampler)
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
