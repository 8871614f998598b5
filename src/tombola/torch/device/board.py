"""The index on a device: buffers of fixed address, and launches that never wait for the host."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tombola.torch.device.launching import Launcher
from tombola.torch.device.layout import (
    CELLS,
    FAN,
    POSITION_BITS,
    ROOMY_BITS,
    WIDTH,
    Cell,
    Fault,
    shape_of,
)

__all__ = ["Board"]

SMALL = 1024  # batches up to this size are set by one launch, which compares all pairs
GATHERED = 1024  # from this size on, changes of the top sums are added up within a program first
LEAST_POWER = 11  # the smallest table is for 2^11 positions
ROOMY = 2**17  # up to this size, a table has more slots than it needs


class DrawLaunch(NamedTuple):
    """How a draw is cut into programs, and its rows into groups."""

    tile: int  # draws of one program
    warps: int
    groups: int  # of leaves; 1: fewest steps one after the other; 8 or 16: fewest instructions


def draw_launch(size: int) -> DrawLaunch:
    """Return how to draw a batch of this size."""
    if size <= 1024:
        return DrawLaunch(1, 1, 1)
    return DrawLaunch(8, 4, 1) if size <= 16384 else DrawLaunch(32, 4, 8)


class SetLaunch(NamedTuple):
    """How a small batch of changes is cut into programs, and what these read at a time."""

    tile: int  # changes of one program
    warps: int
    chunk: int  # positions of the batch that it compares with at a time


def set_launch(size: int) -> SetLaunch:
    """Return how to set a small batch of this size."""
    return SetLaunch(16, 4, 128) if size <= 256 else SetLaunch(16, 4, 256)


def table_warps(size: int) -> int:
    """Return the warps of a program of a large batch, one change a thread."""
    return 1 if size <= 16384 else 4


ATTEMPTS = 64  # words for a draw: less than a quarter of them are rejected


class Table(NamedTuple):
    """Scratch memory for large batches, all zero between calls."""

    entries: Tensor  # (2^bits,): item and last position
    sums: Tensor  # (2^bits,): the sum of the amounts of an item
    slots: Tensor  # the slot of each position
    faults: Tensor  # the first fault of each program, in the batch
    ranges: Tensor  # the same, in the sums
    bits: int


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
        self.kernels = load_kernels()
        self.shape = shape = shape_of(weights.numel())
        self.memory = torch.zeros(shape.size, dtype=torch.int64, device=device)
        self.cells = self.memory[:CELLS]
        self.levels = [
            self.memory[start : start + rows * (FAN if level else WIDTH)]
            for level, (start, rows) in enumerate(zip(shape.starts, shape.rows, strict=True))
        ]
        self.leaves = self.levels[0][: shape.n]
        self.tables: dict[int, Table] = {}  # kept for good: a CUDA graph may hold their addresses
        self.launch = Launcher(self.memory.device)
        self.load(weights, seed, 0, None)

    def load(self, weights: Tensor, seed: int, position: int, order: Any) -> None:
        """Take over valid weights and the state of the stream; forget faults.

        Draws from a board do not depend on the order of changes before: `order` is not used.
        """
        del order
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
    def order(self) -> None:
        """There is none."""
        return None

    @property
    def total(self) -> Tensor:
        """The sum of all weights."""
        return self.levels[-1].sum()

    @property
    def position(self) -> int:
        """The number of draws made."""
        return int(self.cells[Cell.POSITION])

    @property
    def nbytes(self) -> int:
        """The memory used, scratch included."""
        scratch = (part for table in self.tables.values() for part in table[:-1])
        return sum(part.nbytes for part in (self.memory, *scratch))

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

    def draw(self, size: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return items, their weights and the total."""
        indices = torch.empty(size, dtype=torch.int64, device=self.memory.device)
        weights = torch.empty_like(indices)
        if size == 0:
            return indices, weights, self.total
        total = torch.empty((), dtype=torch.int64, device=self.memory.device)
        tile, warps, groups = draw_launch(size)
        self.launch(
            self.kernels.draw_kernel, -(-size // tile), self.memory, self.shape.n, indices, weights,
            total, size, warps=warps, HEIGHT=self.shape.height, TILE=tile, GROUPS=groups,
            ATTEMPTS=ATTEMPTS,
        )  # fmt: skip
        return indices, weights, total

    def set(self, indices: Tensor, weights: Tensor) -> None:
        """Set weights; the last position of an item wins."""
        size, (n, height, *_, limit) = indices.numel(), self.shape
        if size > SMALL:
            self._change(indices, weights, 0, limit, add=False)
        elif size > 0:
            tile, warps, chunk = set_launch(size)
            self.launch(
                self.kernels.set_kernel, -(-size // tile), self.memory, n, limit, indices, weights,
                size, warps=warps, given=(indices, weights), HEIGHT=height, TILE=tile, CHUNK=chunk,
                GATHER=size >= GATHERED,
            )  # fmt: skip

    def add(self, indices: Tensor, amounts: Tensor, most: int) -> None:
        """Add amounts, each from -most to most, to weights."""
        if indices.numel() > 0:
            self._change(indices, amounts, -most, most, add=True)

    def _change(self, indices: Tensor, values: Tensor, least: int, most: int, *, add: bool) -> None:
        """Set or add by way of a table: enter the batch, look at its sums, make the changes."""
        (n, height, *_, limit), board, kernels = self.shape, self.memory, self.kernels
        size = indices.numel()
        entries, sums, slots, faults, ranges, bits = self._table(size)
        warps = table_warps(size)
        tile, table = 32 * warps, (entries, sums, slots)
        programs = -(-size // tile)
        self.launch(
            kernels.insert_kernel, programs, board, n, least, most, indices, values, size, *table,
            faults, bits, warps=warps, given=(indices, values), ADD=add, TILE=tile,
        )  # fmt: skip
        if add:
            self.launch(
                kernels.add_kernel, programs, board, n, limit, indices, size, *table, faults,
                ranges, warps=warps, given=(indices,), HEIGHT=height, TILE=tile,
            )  # fmt: skip
        self.launch(
            kernels.apply_kernel, programs, board, n, indices, values, size, *table,
            ranges if add else faults, warps=warps, given=(indices, values), ADD=add,
            HEIGHT=height, TILE=tile, GATHER=size >= GATHERED,
        )  # fmt: skip

    def _table(self, size: int) -> Table:
        """Return a table with two slots for each position, or eight while that is cheap."""
        power = max((size - 1).bit_length(), LEAST_POWER)
        if power not in self.tables:
            device = self.memory.device
            if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
                raise RuntimeError(
                    f"a batch of {size} needs scratch memory: set or add one of this size before "
                    "the capture of a CUDA graph"
                )
            most = 1 << power
            bits = power + (ROOMY_BITS if most <= ROOMY else 1)
            entries, sums, slots, faults, ranges = (
                torch.zeros(count, dtype=torch.int64, device=device)
                for count in (1 << bits, 1 << bits, most, most // 32, most // 32)
            )
            self.tables[power] = Table(entries, sums, slots, faults, ranges, bits)
        return self.tables[power]


MOST_CHANGES = 1 << POSITION_BITS  # positions of a batch that fit into a table


def load_kernels() -> Any:
    """Return the module of kernels, which needs Triton."""
    try:
        from tombola.torch.device import kernels
    except ImportError as error:
        raise ImportError(
            f"an index on a GPU needs Triton, which comes with PyTorch: {error}"
        ) from error
    return kernels
