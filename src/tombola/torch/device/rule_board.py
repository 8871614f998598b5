"""What `VRB` and `GroupVRB` on a device have in common: numbers, scratch memory, states."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tombola.gauge import Tally
from tombola.samplers.fallback import block_size
from tombola.state import Cell, Document, Ints, Scope, array, cell, count, nested
from tombola.torch.device.board import LEAST_POWER, Board
from tombola.torch.device.layout import LIMIT, ROOMY_BITS, Fault
from tombola.torch.device.vrb_layout import NEVER, Part, Real, Reals, Trouble, Whole, Wholes

__all__ = ["RuleBoard", "RuleState", "learn_launch", "sum_fault"]


class RuleState(Document):
    """What changes in a sampler on a device."""

    position: int = count("draws from the stream so far")
    reals: Reals = nested("numbers of float64", Reals)
    wholes: Wholes = nested("numbers of int64", Wholes)
    weights: Ints = array("the weight of each item", 1, LIMIT, dtype=np.int64, shape=("n",))

    def fault(self, scope: Scope) -> str:
        """Return what is wrong with the sum of the weights."""
        return sum_fault("weights", self.weights)


def sum_fault(name: str, weights: Ints) -> str:
    """Return what is wrong with the sum of weights; "" if nothing is."""
    within = weights.sum(dtype=np.float64) <= LIMIT
    return "" if within else f"{name} must have a sum of at most 2^62"


class LearnLaunch(NamedTuple):
    """How a batch of losses is cut into programs."""

    tile: int  # losses of one program
    warps: int


def learn_launch(size: int) -> LearnLaunch:
    """Return how to learn from a batch of this size."""
    if size <= 256:
        tile = max(32, 1 << (size - 1).bit_length())
        return LearnLaunch(tile, tile // 32)
    return LearnLaunch(128, 4)


class Table(NamedTuple):
    """Scratch memory for a batch; entries, counts and sums are zero between calls."""

    entries: Tensor  # (2^bits,): item and last position
    counts: Tensor  # (2^bits,): the number of losses of an item
    sums: Tensor  # (2^bits,): the sum of their squares, as a whole number
    slots: Tensor  # the slot of each position
    bits: int
    parts: Tensor  # the sums of each program
    chosen: Tensor  # the items to be weighed


class Unfused:
    """A kernel whose multiplications and additions are rounded one by one, as on the host."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def __getitem__(self, grid: Any) -> Any:
        return partial(self.kernel[grid], enable_fp_fusion=False)


class RuleBoard(ABC):
    """Weights on a board, two small tensors of numbers, and the kernels that work on them.

    Nothing here is validated but by the kernels; `VRB` and `GroupVRB` are the public classes.
    """

    saved_as: ClassVar[type[RuleState]]

    def __init__(
        self, weights: Tensor, seed: int, *, scale: float, mixing: float, shuffle: bool
    ) -> None:
        device, n = weights.device, weights.numel()
        self.n, self.seed, self.shuffle = n, seed, shuffle
        self.bits, self.block = (n - 1).bit_length(), block_size(n)
        self.scale, self.first_mixing = scale, mixing
        self.board = Board(weights, device, seed)
        self.reals = torch.zeros(len(Reals.declared), dtype=torch.float64, device=device)
        self.wholes = torch.zeros(len(Wholes.declared), dtype=torch.int64, device=device)
        self.tables: dict[int, Table] = {}  # kept for good: a CUDA graph may hold their addresses
        self._begin()

    def _begin(self) -> None:
        """Set the numbers of a new sampler."""
        left = self.block if self.shuffle else NEVER
        self._put(Reals(mixing=self.first_mixing, scale=self.scale), Wholes(left=left))

    def _put(self, reals: Reals, wholes: Wholes) -> None:
        """Set all numbers, in the same memory."""
        for part, numbers in ((self.reals, reals), (self.wholes, wholes)):
            part.zero_()
            for place, number in enumerate(vars(numbers).values()):
                if number:
                    part[place] = number

    def draw(self, size: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return items, their probabilities and their importances."""
        device = self.reals.device
        items = torch.empty(size, dtype=torch.int64, device=device)
        probabilities = torch.empty(size, dtype=torch.float64, device=device)
        importances = torch.empty(size, dtype=torch.float32, device=device)
        if size == 0:
            self.wholes[Whole.ROUNDS] += 1
        else:
            self._draw_into(items, probabilities, importances)
        return items, probabilities, importances

    @abstractmethod
    def _draw_into(self, items: Tensor, probabilities: Tensor, importances: Tensor) -> None:
        """Draw as many items as there is room for."""

    def update(self, indices: Tensor, probabilities: Tensor, losses: Tensor) -> None:
        """Learn from losses of float32 or float64."""
        if indices.numel() > 0:
            self._learn_from((indices, probabilities, losses), self._table(indices.numel()))

    @abstractmethod
    def _learn_from(self, batch: tuple[Tensor, Tensor, Tensor], table: Table) -> None:
        """Learn from items, probabilities and losses."""

    def _table(self, size: int) -> Table:
        """Return scratch memory for a batch, with at least eight slots for each loss."""
        power = max((size - 1).bit_length(), LEAST_POWER)
        if power not in self.tables:
            device = self.reals.device
            if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
                raise RuntimeError(
                    f"a batch of {size} needs scratch memory: update with one of this size before "
                    "the capture of a CUDA graph"
                )
            bits = power + ROOMY_BITS
            full, most = 1 << bits, 1 << power
            entries, counts, sums, slots, chosen = (
                torch.zeros(count, dtype=torch.int64, device=device)
                for count in (full, full, full, most, most)
            )
            parts = torch.zeros(Part.SIZE * most // 32, dtype=torch.float64, device=device)
            self.tables[power] = Table(entries, counts, sums, slots, bits, parts, chosen)
        return self.tables[power]

    def trouble(self) -> tuple[int, int, float]:
        """Return kind, position and value of the first fault since the last call; this waits."""
        kind, where = self.wholes[Whole.TROUBLE : Whole.WHERE + 1].tolist()
        value = float(self.reals[Real.BAD_VALUE])
        if kind != Trouble.NONE:
            self.wholes[Whole.TROUBLE] = Trouble.NONE
        elif self.board.fault()[0] != Fault.NONE:
            raise RuntimeError("a draw rejected every random word; please report this")
        return kind, where, value

    def tally(self) -> Cell[Tally]:
        """Return the sums of the gauge on the host; this waits."""
        sums = zip(Reals.declared, self.reals.tolist(), strict=True)
        counts = self.wholes.tolist()
        return cell(
            Tally(
                rounds=counts[Whole.ROUNDS],
                count=counts[Whole.FED],
                **{name: number for name, number in sums if name in Tally.declared},
            )
        )

    @property
    def largest_importance(self) -> float:
        """What no importance of a draw has exceeded; this waits."""
        return 1.0 / float(self.reals[Real.MIXING])

    @property
    def shuffling(self) -> bool:
        """Whether shuffled epochs are dealt; this waits."""
        return bool(self.wholes[Whole.SHUFFLING])

    @property
    def nbytes(self) -> int:
        """The memory used, scratch included."""
        scratch = (part for table in self.tables.values() for part in table)
        parts = (*vars(self).values(), *scratch)
        return self.board.nbytes + sum(part.nbytes for part in parts if isinstance(part, Tensor))

    def saved(self) -> dict[str, Any]:
        """Return all that defines the sampler, on the host."""
        return self.saved_as(
            position=self.board.position,
            reals=Reals(**dict(zip(Reals.declared, self.reals.tolist(), strict=True))),
            wholes=Wholes(**dict(zip(Wholes.declared, self.wholes.tolist(), strict=True))),
            **{name: part.numpy(force=True) for name, part in self._arrays().items()},
        ).to_dict()

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a state, in the same memory; a bad one raises and changes nothing."""
        least_left, block = (0, self.block) if self.shuffle else (1, NEVER)
        sizes: dict[str, Any] = {"n": self.n, "least_left": least_left, "block": block}
        read = self.saved_as.read(state, "state", **sizes, **self._sizes())
        for name, part in self._arrays().items():
            part.copy_(torch.from_numpy(getattr(read, name)))
        self.board.load(self.board.leaves, self.seed, read.position, None)
        self._put(read.reals, read.wholes)

    def _arrays(self) -> dict[str, Tensor]:
        """Return the tensors that are saved, by name."""
        names = (name for name in self.saved_as.declared if name not in RuleState.declared)
        return {"weights": self.board.leaves, **{name: getattr(self, name) for name in names}}

    def _sizes(self) -> dict[str, Any]:
        """Return what the shapes of a state refer to, besides n."""
        return {}


def unfused(load: Callable[[], tuple[Any, ...]]) -> list[Unfused]:
    """Return kernels for launches, or say that they need Triton."""
    try:
        return [Unfused(kernel) for kernel in load()]
    except ImportError as error:
        raise ImportError(
            f"samplers on a GPU need Triton, which comes with PyTorch: {error}"
        ) from error
