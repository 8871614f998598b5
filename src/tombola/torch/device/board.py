"""The board of an index: buffers of fixed address, and launches that never wait for the host."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tombola.torch.device.launching import Launch, Plans, kernels
from tombola.torch.device.layout import (
    CELLS,
    FAN,
    POSITION_BITS,
    ROOMY_BITS,
    WIDTH,
    Cell,
    Fault,
    room_for,
    shape_of,
)

__all__ = ["Board", "draw_launch", "power_for", "scratch"]

SMALL = 1024  # batches up to this size are set by one launch, which compares all pairs
GATHERED = 1024  # from this size on, changes of the top sums are added up within a program first
LEAST_POWER = 11  # the smallest table is for 2^11 positions
ROOMY = 2**17  # up to this size, a table has more slots than it needs


def draw_launch(size: int) -> tuple[int, int, int]:
    """Return the draws and the warps of one program, and the groups that a row of leaves is cut in.

    One group takes the fewest steps one after the other, 8 or 16 the fewest instructions.
    """
    if size <= 1024:
        return 1, 1, 1
    return (8, 4, 1) if size <= 16384 else (32, 4, 8)


def set_launch(size: int) -> tuple[int, int, int]:
    """Return the changes and the warps of one program, and how many others it reads at a time."""
    return (16, 4, 128) if size <= 256 else (16, 4, 256)


def table_warps(size: int) -> int:
    """Return the warps of a program of a large batch, one change a thread."""
    return 1 if size <= 16384 else 4


ATTEMPTS = 64  # words for a draw: less than a quarter of them are rejected


def scratch(
    device: torch.device, counts: Callable[[int, int], tuple[int, ...]], roomy: int
) -> Plans[int, tuple[Any, ...]]:
    """Return scratch memory by powers of two of the size of a batch: tensors of int64, and bits.

    `counts` gives the sizes of the tensors, from the slots of a table and the positions of a batch.
    A table has eight slots for each position, and two in batches of more than `roomy`. The tables
    are kept for good, since a CUDA graph may hold their addresses.
    """

    def make(power: int) -> tuple[Any, ...]:
        most = 1 << power
        if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            raise RuntimeError(
                f"a batch of {most // 2 + 1} to {most} needs scratch memory: make a call of this "
                "size before the capture of a CUDA graph"
            )
        bits = power + (ROOMY_BITS if most <= roomy else 1)
        tensors = (
            torch.zeros(count, dtype=torch.int64, device=device)
            for count in counts(1 << bits, most)
        )
        return *tensors, bits

    return Plans(make)


def power_for(size: int) -> int:
    """Return the power of two of the scratch memory for a batch."""
    return max((size - 1).bit_length(), LEAST_POWER)


def key_of(seed: int) -> int:
    """Return the generator's key for a seed, as a signed integer: the next number of SplitMix64.

    Torch's generators on CUDA are Philox 4x32-10 as well, with the seed itself as the key. With the
    same key and the same seed, draws and random numbers of torch would be the same words.
    """
    word = np.array([seed], dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return int((word ^ (word >> np.uint64(31))).view(np.int64)[0])


class Board:
    """Leaves, sums and cells on one device, and the kernels that work on them.

    Nothing here is validated but by the kernels; `WeightIndex` is the public class.
    """

    def __init__(self, weights: Tensor, device: torch.device, seed: int) -> None:
        self.kernels = kernels("kernels")
        self.shape = shape = shape_of(weights.numel())
        self.memory = torch.zeros(shape.size, dtype=torch.int64, device=device)
        self.cells = self.memory[:CELLS]
        self.levels = [
            self.memory[start : start + rows * (FAN if level else WIDTH)]
            for level, (start, rows) in enumerate(zip(shape.starts, shape.rows, strict=True))
        ]
        self.leaves = self.levels[0][: shape.n]
        self.tables = scratch(
            self.memory.device, lambda full, most: (full, full, most, most // 32, most // 32), ROOMY
        )
        self.launch = partial(Launch, self.memory.device, {})
        self._draw, self._set = Plans(self._plan_draw), Plans(self._plan_set)
        self._changes = Plans(self._plan_changes)
        self.load(weights, seed, 0)

    def load(self, weights: Tensor, seed: int, position: int) -> None:
        """Take over valid weights and the state of the stream; forget faults."""
        self.leaves.copy_(weights)
        for level in range(1, len(self.levels)):
            rows = self._rows(level - 1)
            torch.sum(rows, 1, out=self.levels[level][: len(rows)])
        self.cells[Cell.KEY] = key_of(seed)
        self.cells[Cell.POSITION] = position
        self.cells[Cell.KIND] = Fault.NONE

    def _rows(self, level: int) -> Tensor:
        """Return a level by rows."""
        return self.levels[level].view(-1, FAN if level else WIDTH)

    @property
    def total(self) -> Tensor:
        """The sum of all weights."""
        return self.levels[-1].sum()

    @property
    def position(self) -> int:
        """The number of draws made."""
        return int(self.cells[Cell.POSITION])

    def tensors(self) -> Iterator[Tensor]:
        """Return all memory, scratch included."""
        yield self.memory
        for *parts, _ in self.tables.values():
            yield from parts

    def fault(self) -> tuple[int, int, int]:
        """Return kind, position and value of the first fault since the last call; this waits."""
        kind, where, value = self.cells[Cell.KIND : Cell.VALUE + 1].tolist()
        if kind != Fault.NONE:
            self.cells[Cell.KIND] = Fault.NONE
        return kind, where, value

    def verify(self) -> int:
        """Return the first level whose sums are not those of the level below, or -1."""
        for k in range(1, len(self.levels)):
            expected = self._rows(k - 1).sum(1)
            padding = self.levels[k][len(expected) :]
            if not torch.equal(self.levels[k][: len(expected)], expected) or padding.any():
                return k
        return -1

    def draw(self, size: int) -> Tensor:
        """Return items, their weights and the total in one tensor: see `IndexDraw`."""
        room = room_for(size)
        out = torch.empty(2 * room + 1, dtype=torch.int64, device=self.memory.device)
        if size:
            self._draw[size](out)
        else:
            out[0] = self.total
        return out

    def _plan_draw(self, size: int) -> Launch:
        tile, warps, groups = draw_launch(size)
        return self.launch(
            self.kernels.draw_kernel, -(-size // tile), (self.memory, self.shape.n),
            (size, room_for(size)), warps=warps, HEIGHT=self.shape.height, TILE=tile,
            GROUPS=groups, ATTEMPTS=ATTEMPTS,
        )  # fmt: skip

    def set(self, indices: Tensor, weights: Tensor) -> None:
        """Set weights; the last position of an item wins."""
        size = indices.numel()
        if size > SMALL:
            self._change(size, None, indices, weights)
        elif size > 0:
            self._set[size](indices, weights)

    def _plan_set(self, size: int) -> Launch:
        tile, warps, chunk = set_launch(size)
        return self.launch(
            self.kernels.set_kernel, -(-size // tile),
            (self.memory, self.shape.n, self.shape.limit), (size,), warps=warps,
            HEIGHT=self.shape.height, TILE=tile, CHUNK=chunk, GATHER=size >= GATHERED,
        )  # fmt: skip

    def add(self, indices: Tensor, amounts: Tensor, most: int) -> None:
        """Add amounts, each from -most to most, to weights."""
        if indices.numel() > 0:
            self._change(indices.numel(), most, indices, amounts)

    def _change(self, size: int, most: int | None, indices: Tensor, values: Tensor) -> None:
        """Set, or add amounts up to `most`, by way of a table."""
        insert, add, apply = self._changes[size, most]
        insert(indices, values)
        if add is not None:
            add(indices)
        apply(indices, values)

    def _plan_changes(self, change: tuple[int, int | None]) -> tuple[Launch, Launch | None, Launch]:
        """Enter the batch into a table, look at its sums if amounts are added, make the changes."""
        size, most = change
        (n, height, *_, limit), board, kernels = self.shape, self.memory, self.kernels
        entries, sums, slots, faults, ranges, bits = self.tables[power_for(size)]
        warps, table, add = table_warps(size), (entries, sums, slots), most is not None
        tile = 32 * warps
        programs = -(-size // tile)
        insert = self.launch(
            kernels.insert_kernel, programs,
            (board, n, 0 if most is None else -most, limit if most is None else most),
            (size, *table, faults, bits), warps=warps, ADD=add, TILE=tile,
        )  # fmt: skip
        look = self.launch(
            kernels.add_kernel, programs, (board, n, limit), (size, *table, faults, ranges),
            warps=warps, HEIGHT=height, TILE=tile,
        )  # fmt: skip
        apply = self.launch(
            kernels.apply_kernel, programs, (board, n),
            (size, *table, ranges if add else faults), warps=warps, ADD=add, HEIGHT=height,
            TILE=tile, GATHER=size >= GATHERED,
        )  # fmt: skip
        return insert, look if add else None, apply


MOST_CHANGES = 1 << POSITION_BITS  # positions of a batch that fit into a table
