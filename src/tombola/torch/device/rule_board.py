"""What `VRB` and `GroupVRB` on a device have in common: numbers, scratch memory, states."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from tombola.checkpoint import CheckpointError
from tombola.compiling.records import Record
from tombola.gauge import new_tally
from tombola.samplers.fallback import block_size
from tombola.torch.device.board import LEAST_POWER, Board
from tombola.torch.device.layout import NO_FAULT, ROOMY_BITS, Fault
from tombola.torch.device.rule_state import check_arrays, check_numbers
from tombola.torch.device.vrb_layout import NEVER, Part, Real, Trouble, Whole, reals, wholes

__all__ = ["RuleBoard", "learn_launch"]

FAULTS = (  # numbers that are not saved
    "trouble", "where", "bad_value", "batch_fault", "batch_largest", "accepted", "room",
    "level_before",
)  # fmt: skip


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

    arrays: ClassVar[
        Mapping[str, tuple[float, float]]
    ]  # names of the saved arrays, and their ranges

    def __init__(
        self, weights: Tensor, seed: int, *, scale: float, mixing: float, shuffle: bool
    ) -> None:
        device, n = weights.device, weights.numel()
        self.n, self.seed, self.shuffle = n, seed, shuffle
        self.bits, self.block = (n - 1).bit_length(), block_size(n)
        self.scale, self.first_mixing = scale, mixing
        self.board = Board(weights, device, seed)
        self.reals = torch.zeros(len(reals), dtype=torch.float64, device=device)
        self.wholes = torch.zeros(len(wholes), dtype=torch.int64, device=device)
        self.tables: dict[int, Table] = {}  # kept for good: a CUDA graph may hold their addresses
        self._begin()

    def _begin(self) -> None:
        """Set the numbers of a new sampler."""
        self.reals.zero_()
        self.wholes.zero_()
        self.reals[Real.MIXING] = self.first_mixing
        self.reals[Real.SCALE] = self.scale
        self.wholes[Whole.LEFT] = self.block if self.shuffle else NEVER
        self.wholes[Whole.BATCH_FAULT] = NO_FAULT

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

    def tally(self) -> Record:
        """Return the sums of the gauge on the host; this waits."""
        tally, sums = new_tally(), self.reals.tolist()
        for name in tally.dtype.names or ():
            if name in reals:
                tally[name] = sums[reals[name]]
        tally["rounds"] = int(self.wholes[Whole.ROUNDS])
        tally["count"] = int(self.wholes[Whole.FED])
        return tally

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

    def state(self) -> dict[str, Any]:
        """Return all that defines the sampler, on the host."""
        numbers, counts = self.reals.tolist(), self.wholes.tolist()
        return {
            "position": self.board.position,
            "reals": {name: numbers[k] for name, k in reals.items() if name not in FAULTS},
            "wholes": {name: counts[k] for name, k in wholes.items() if name not in FAULTS},
            "weights": self.board.leaves.to("cpu", copy=True),
            **{name: getattr(self, name).to("cpu", copy=True) for name in self.arrays},
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a state, in the same memory; a bad one raises and changes nothing."""
        names = {"position", "reals", "wholes", "weights", *self.arrays}
        if not isinstance(state, Mapping) or set(state) != names:
            raise CheckpointError(f"the state on a device has the entries {sorted(names)}")
        expected = self.state()
        check_numbers(state, expected, self.n, self.block if self.shuffle else NEVER)
        check_arrays(state, expected, self.arrays)
        self.board.load(state["weights"], self.seed, state["position"], None)
        self._begin()
        for part, places, given in (
            (self.reals, reals, state["reals"]),
            (self.wholes, wholes, state["wholes"]),
        ):
            for name, number in given.items():
                part[places[name]] = number
        for name in self.arrays:
            getattr(self, name).copy_(state[name].detach())


def unfused(load: Callable[[], tuple[Any, ...]]) -> list[Unfused]:
    """Return kernels for launches, or say that they need Triton."""
    try:
        return [Unfused(kernel) for kernel in load()]
    except ImportError as error:
        raise ImportError(
            f"samplers on a GPU need Triton, which comes with PyTorch: {error}"
        ) from error
