"""Several processes that train one model: who draws what, and who hears of which losses.

*Replicated*: every process holds the whole sampler and draws the whole global batch, the same
everywhere since the random words and the feedback are the same; each takes its part. Feedback is
gathered when it is due, as 64-bit integers (items, batch numbers) and the 64 bits of float64
(probabilities, losses), and applied in the same order everywhere.

*Sharded*: every process owns some of the items and draws from them alone. Nothing is gathered.

What is gathered goes through a gloo group of our own, in the memory of the host, also where the
model is trained over NCCL: a device never waits for it. The group that a user gives is used as it
is; if it is an NCCL one, through the device.
"""

import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import distributed as dist

from tombola.draws import Draw
from tombola.torch.feedback import Feedback

__all__ = ["Ranks", "Replicated", "Sharded", "find_ranks"]

Gather = Callable[[NDArray[np.int64]], NDArray[np.int64]]


class Ranks:
    """One process on its own.

    Attributes
    ----------
    rank, world : int
        Which process of how many.
    """

    def __init__(
        self, rank: int = 0, world: int = 1, gather: Gather | None = None, width: int = 1
    ) -> None:
        self.rank = rank
        self.world = world
        self._gather = gather
        self._width = width

    def drawn(self, size: int) -> int:
        """Return how many items this process draws for a local batch of this size."""
        return size

    def part(self, draw: Draw) -> Draw:
        """Return the part of a draw that is this process's batch."""
        return draw

    def exchange(
        self, feedback: list[Feedback], progress: int, saving: bool = False
    ) -> list[Feedback]:
        """Return the feedback of all processes that this one has to hear of."""
        return feedback

    def agree(self, facts: Mapping[str, int]) -> None:
        """Raise an error where the processes are told different things."""
        if self._gather is None:
            return
        told = self._gather(np.array(list(facts.values()), dtype=np.int64))
        for k, name in enumerate(facts):
            other = int(np.argmax(told[:, k] != told[0, k]))
            if other:
                raise ValueError(
                    f"all processes need the same {name}: rank 0 has {told[0, k]}, "
                    f"rank {other} has {told[other, k]}"
                )


class Sharded(Ranks):
    """Each process draws from its own items."""


class Replicated(Ranks):
    """Each process draws the same global batch and takes its part.

    Parameters
    ----------
    rank, world : int
    gather : callable
        Takes an int64 array and returns those of all ranks, one a row. Every rank calls it
        equally often, with arrays of equal length.
    width : int
        How many items one message holds: the local batch size.
    """

    def drawn(self, size: int) -> int:
        """Return the size of the global batch."""
        return size * self.world

    def part(self, draw: Draw) -> Draw:
        """Return this rank's part: equal ones, where the draw can be divided so."""
        size = len(draw)
        return draw[self.rank * size // self.world : (self.rank + 1) * size // self.world]

    def exchange(
        self, feedback: list[Feedback], progress: int, saving: bool = False
    ) -> list[Feedback]:
        """Gather feedback: every rank returns the same, with the rank that gave it.

        It takes one message a rank, and more where a rank has several batches to tell of, or
        more items than a message holds. `progress` is a number that depends on all that was
        drawn so far; ranks that have come apart are found by it. `saving` says that a state is
        asked for, and not a batch: all ranks must ask for the same.
        """
        assert self._gather is not None
        width = self._width
        mine = [
            Feedback(due, number, draw[k : k + width], losses[k : k + width])
            for due, number, draw, losses, _ in feedback
            for k in range(0, len(draw), width)
        ]
        pieces: list[Feedback] = []
        messages, k = 1, 0
        while k < messages:
            told = self._gather(packed(mine, k, progress, width, saving))
            other = int(np.argmax(told[:, 2] != told[0, 2]))
            if other:
                asking = 0 if told[0, 2] else other
                raise RuntimeError(
                    "state_dict() must be called on all processes, after the same batch: rank "
                    f"{asking} has called it, while rank {other - asking} asks for a batch"
                )
            other = int(np.argmax(told[:, 1] != told[0, 1]))
            if other:
                raise RuntimeError(
                    f"ranks 0 and {other} have not drawn the same: all processes need the same "
                    "data, labels, sampler, seed and number of steps, and the state of a "
                    "checkpoint on all of them or on none"
                )
            messages = int(told[:, 0].max())
            for rank, message in enumerate(told):
                piece = unpacked(message, rank)
                if piece is not None:
                    pieces.append(piece)
            k += 1
        return pieces


# Layout of a message: int64[HEAD + 4 * width].
#   how many messages this rank has, its progress, whether a state is asked for,
#   due, number, round, n and size of a piece of feedback (size 0: none),
#   items, bits of the probabilities, bits of the losses, tags (-1: none)
HEAD = 8


def packed(
    pieces: Sequence[Feedback], k: int, progress: int, width: int, saving: bool
) -> NDArray[np.int64]:
    """Return message k of a rank, empty where it has fewer."""
    message = np.zeros(HEAD + 4 * width, dtype=np.int64)
    message[:3] = len(pieces), progress, saving
    if k < len(pieces):
        due, number, draw, losses, _ = pieces[k]
        message[3:HEAD] = due, number, draw.round, draw.n, len(draw)
        rows = message[HEAD:].reshape(4, width)[:, : len(draw)]
        rows[0] = draw.indices
        rows[1] = draw.probabilities.view(np.int64)
        rows[2] = losses.view(np.int64)
        rows[3] = -1 if draw.tags is None else draw.tags
    return message


def unpacked(message: NDArray[np.int64], rank: int) -> Feedback | None:
    """Return the feedback in a message of a rank, if there is any."""
    due, number, round_number, n, size = (int(word) for word in message[3:HEAD])
    if size == 0:
        return None
    items, probabilities, losses, tags = message[HEAD:].reshape(4, -1)[:, :size].copy()
    marks = None if tags[0] < 0 else tags.astype(np.uint8)
    draw = Draw.made(items, probabilities.view(np.float64), n, round_number, marks)
    return Feedback(due, number, draw, losses.view(np.float64), rank)


def find_ranks(distributed: str | None, process_group: Any, batch_size: int) -> Ranks:
    """Return who draws what, from the argument `distributed` and from torch.distributed."""
    if distributed not in (None, "auto", "replicated", "sharded"):
        raise ValueError(
            f'distributed must be "auto", "replicated", "sharded" or None, got {distributed!r}'
        )
    if distributed is None:
        return Ranks()
    if not world_size():
        asked = int(os.environ.get("WORLD_SIZE", "1"))
        if asked > 1:
            raise RuntimeError(
                f"this is one of WORLD_SIZE={asked} processes, but torch.distributed is not "
                "initialised: call init_process_group first (Lightning: make the loader in "
                "train_dataloader), or pass distributed=None for a loader that draws on its own"
            )
        return Sharded() if distributed == "sharded" else Ranks()
    world = dist.get_world_size(process_group)
    if world == 1 and distributed != "sharded":
        return Ranks()
    group = _own_group() if process_group is None else process_group
    kind = Sharded if distributed == "sharded" else Replicated
    return kind(dist.get_rank(process_group), world, gather_over(group), batch_size)


_groups: dict[str, Any] = {}  # "world": the processes there are; "own": our group of them


def _own_group() -> Any:
    """Return the gloo group of all processes: one for all loaders, made with the first."""
    if _groups.get("world") is not dist.group.WORLD:
        _groups.update(world=dist.group.WORLD, own=dist.new_group(backend="gloo"))
    return _groups["own"]


def world_size() -> int:
    """Return the number of processes; 0 where torch.distributed is not initialised."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 0


def gather_over(group: Any) -> Gather:
    """Return a function that gathers an int64 array from each rank of a group."""
    world = dist.get_world_size(group)
    on_device = dist.get_backend(group) == "nccl"

    def gather(message: NDArray[np.int64]) -> NDArray[np.int64]:
        sent = torch.from_numpy(message)
        sent = sent.cuda() if on_device else sent
        told = [torch.empty_like(sent) for _ in range(world)]
        dist.all_gather(told, sent, group=group)
        return torch.stack(told).cpu().numpy()

    return gather


def digest(words: bytes, before: int = 0) -> int:
    """Return a checksum that depends on all words so far."""
    return zlib.crc32(words, before)
