"""`VRB` on a device: tensors of fixed address, one launch for a draw and two for an update."""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tombola.checkpoint import CheckpointError
from tombola.compiling.records import Record
from tombola.gauge import new_tally
from tombola.samplers.fallback import block_size
from tombola.torch.device.board import LEAST_POWER, Board, draw_launch
from tombola.torch.device.layout import NO_FAULT, ROOMY_BITS, WIDTH, Fault
from tombola.torch.device.vrb_layout import (
    NEVER,
    TARGET,
    Part,
    Real,
    Trouble,
    Whole,
    reals,
    wholes,
)
from tombola.torch.device.vrb_state import check_arrays, check_numbers

__all__ = ["VRBBoard"]

FAULTS = (  # numbers that are not saved
    "trouble", "where", "bad_value", "batch_fault", "batch_largest", "accepted", "room"
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


class VRBBoard:
    """The state on one device, and the kernels that work on it.

    Nothing here is validated but by the kernels; `VRB` is the public class.
    """

    def __init__(self, n: int, device: torch.device, seed: int, *, shuffle: bool) -> None:
        kernels = map(Unfused, load_kernels())
        self._draw, self._enter, self._visit, self._learn, self._weigh = kernels
        self.tables: dict[int, Table] = {}  # kept for good: a CUDA graph may hold their addresses
        self.n, self.seed, self.shuffle = n, seed, shuffle
        self.bits, self.block = (n - 1).bit_length(), block_size(n)
        self.scale = TARGET / 2.0 ** n.bit_length()  # of n weights of value 1
        self.board = Board(torch.full((n,), int(self.scale), device=device), device, seed)
        self.reals = torch.zeros(len(reals), dtype=torch.float64, device=device)
        self.wholes = torch.zeros(len(wholes), dtype=torch.int64, device=device)
        self.scores = torch.zeros(n, dtype=torch.float64, device=device)
        self.visits = torch.zeros(n, dtype=torch.float32, device=device)
        self._begin()

    def _begin(self) -> None:
        """Set the numbers of a new sampler."""
        self.reals.zero_()
        self.wholes.zero_()
        self.reals[Real.MIXING] = 1.0
        self.reals[Real.SCALE] = self.scale
        self.wholes[Whole.LEFT] = self.block if self.shuffle else NEVER
        self.wholes[Whole.BATCH_FAULT] = NO_FAULT

    def reset(self) -> None:
        """Return to the initial state, in the same memory."""
        self.board.load(torch.full_like(self.board.leaves, int(self.scale)), self.seed, 0, None)
        self.scores.zero_()
        self.visits.zero_()
        self._begin()

    def draw(self, size: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return items, their probabilities and their importances."""
        device = self.reals.device
        items = torch.empty(size, dtype=torch.int64, device=device)
        probabilities = torch.empty(size, dtype=torch.float64, device=device)
        importances = torch.empty(size, dtype=torch.float32, device=device)
        if size == 0:
            self.wholes[Whole.ROUNDS] += 1
            return items, probabilities, importances
        tile, warps, groups = draw_launch(size)
        self.board.launch(
            self._draw, -(-size // tile), self.board.memory, self.n, self.reals, self.wholes, items,
            probabilities, importances, size, self.bits, self.block, warps=warps,
            HEIGHT=self.board.shape.height, TILE=tile, GROUPS=groups,
        )  # fmt: skip
        return items, probabilities, importances

    def update(self, indices: Tensor, probabilities: Tensor, losses: Tensor) -> None:
        """Learn from losses of float32 or float64: by two launches, or three for many losses."""
        size, height = indices.numel(), self.board.shape.height
        if size == 0:
            return
        batch, double = (indices, probabilities, losses), losses.dtype == torch.float64
        state = (self.board.memory, self.n, self.reals, self.wholes, self.scores, self.visits)
        *table, bits, parts, chosen = self._table(size)
        tile, warps = learn_launch(size)
        programs = -(-size // tile)
        if programs > 1:
            self.board.launch(
                self._enter, programs, self.n, self.reals, self.wholes, *batch, size, *table, bits,
                parts, warps=warps, given=batch, TILE=tile, DOUBLE=double,
            )  # fmt: skip
        self.board.launch(
            self._learn if programs == 1 else self._visit, programs, *state, *batch, size, *table,
            bits, parts, chosen, programs, warps=warps, given=batch, HEIGHT=height, TILE=tile,
            DOUBLE=double,
        )  # fmt: skip
        drawn, rows = -(-size // WIDTH), min(self.board.shape.rows[0], 2 * size // WIDTH + 3)
        self.board.launch(
            self._weigh, drawn + rows, *state, chosen, size, drawn, warps=4, HEIGHT=height
        )

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

    def probabilities(self) -> Tensor:
        """Return the distribution as of the latest draw, with the feedback since then."""
        n, mixing, total = self.n, self.reals[Real.MIXING], self.board.total
        share = mixing / (1.0 - mixing) * total
        uniform = (mixing >= 1.0) | (share >= 2.0**61) | (self.wholes[Whole.SHUFFLING] > 0)
        spread = (torch.where(uniform, 0.0, share) / n).long() + 1
        chances = (self.board.leaves + spread).double() / (total + n * spread).double()
        return torch.where(uniform, 1.0 / n, chances)

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
    def mixing(self) -> float:
        """The least share of uniform draws so far; this waits."""
        return float(self.reals[Real.MIXING])

    @property
    def shuffling(self) -> bool:
        """Whether shuffled epochs are dealt; this waits."""
        return bool(self.wholes[Whole.SHUFFLING])

    @property
    def nbytes(self) -> int:
        """The memory used."""
        state = (self.reals, self.wholes, self.scores, self.visits)
        tables = self.tables.values()
        scratch = (part for table in tables for part in table if isinstance(part, Tensor))
        return self.board.nbytes + sum(array.nbytes for array in (*state, *scratch))

    def state(self) -> dict[str, Any]:
        """Return all that defines the sampler, on the host."""
        numbers, counts = self.reals.tolist(), self.wholes.tolist()
        return {
            "position": self.board.position,
            "reals": {name: numbers[k] for name, k in reals.items() if name not in FAULTS},
            "wholes": {name: counts[k] for name, k in wholes.items() if name not in FAULTS},
            "weights": self.board.leaves.to("cpu", copy=True),
            "scores": self.scores.to("cpu", copy=True),
            "visits": self.visits.to("cpu", copy=True),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a state, in the same memory; a bad one raises and changes nothing."""
        names = {"position", "reals", "wholes", "weights", "scores", "visits"}
        if not isinstance(state, Mapping) or set(state) != names:
            raise CheckpointError(f"the state of VRB on a device has the entries {sorted(names)}")
        expected = self.state()
        check_numbers(state, expected, self.n, self.block if self.shuffle else NEVER)
        check_arrays(state, expected)
        self.board.load(state["weights"], self.seed, state["position"], None)
        self._begin()
        for part, places, given in (
            (self.reals, reals, state["reals"]),
            (self.wholes, wholes, state["wholes"]),
        ):
            for name, number in given.items():
                part[places[name]] = number
        self.scores.copy_(state["scores"])
        self.visits.copy_(state["visits"])


def load_kernels() -> tuple[Any, ...]:
    """Return the kernels: of draws, of what is learnt, in two steps or one, and of weights."""
    try:
        from tombola.torch.device.learn_kernels import enter_kernel, learn_kernel, visit_kernel
        from tombola.torch.device.vrb_kernels import draw_kernel
        from tombola.torch.device.weigh_kernels import weigh_kernel
    except ImportError as error:
        raise ImportError(
            f"VRB on a GPU needs Triton, which comes with PyTorch: {error}"
        ) from error
    return draw_kernel, enter_kernel, visit_kernel, learn_kernel, weigh_kernel
