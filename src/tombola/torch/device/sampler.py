"""The common parts of `VRB` and `GroupVRB` on a device: the public base class, and launches."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tombola.gauge import Gauge, Tally
from tombola.samplers.base import Sampler
from tombola.samplers.fallback import block_size
from tombola.state import Document, Ints, Scope, array, cell, count, mapping, nested, same
from tombola.torch.device import launching
from tombola.torch.device.board import Board, draw_launch, power_for, scratch
from tombola.torch.device.device_draw import DeviceDraw
from tombola.torch.device.launching import Launch, Plans, kernels, place_of
from tombola.torch.device.layout import (
    LIMIT,
    MOST_ITEMS,
    NEVER,
    PARTS,
    POSITION_BITS,
    Fault,
    Real,
    Reals,
    Trouble,
    Whole,
    Wholes,
    room_for,
)
from tombola.torch.tensor_draw import TensorDraw, wrong_shape
from tombola.torch.tensors import TensorState, from_tensors, to_tensors
from tombola.validation import whole

__all__ = ["DeviceSampler", "DeviceState", "RuleBoard", "RuleState", "sum_fault"]

MOST_LOSSES = 1 << POSITION_BITS
MOST_DRAWS = 2**30


# ---- the public class


class DeviceState(TensorState):
    """All that defines a sampler on a device."""

    form: ClassVar = 3

    n: int = same("items")
    seed: int = same("the seed of the draws")
    shuffle: bool = same("whether shuffled epochs are dealt while adaptive draws do not pay")
    calls: int = count("calls of `draw` that were not replays of a CUDA graph")
    state: Mapping[str, Any] = mapping("the mutable state")


class DeviceSampler:
    """A sampler whose state is on a device: base of `VRB` and `GroupVRB`.

    On the CPU it holds a sampler of `tombola.samplers` and converts tensors, nothing more.
    """

    saved_as: ClassVar[type[DeviceState]]
    feedback: ClassVar[Literal["drawn", "all"]] = "drawn"

    def __init__(
        self,
        n: int,
        groups: Any,
        board: Callable[..., "RuleBoard"],
        host: Callable[..., Sampler],
        *,
        device: torch.device | str | None,
        shuffle: bool,
        quantity: str,
        seed: int,
    ) -> None:
        self.n, self.seed = whole("n", n, 1, MOST_ITEMS + 1), whole("seed", seed, 0, 2**64)
        self.device, self.shuffle = place_of(device), bool(shuffle)
        self._calls = 0
        self._on_host = not launching.runs_kernels(self.device)
        make = host if self._on_host else partial(board, device=self.device)
        self._engine: Any = make(
            self.n if groups is None else groups,
            shuffle=self.shuffle, quantity=str(quantity), seed=self.seed,
        )  # fmt: skip

    def draw(self, size: int = 1) -> DeviceDraw:
        """Draw items, independently and with replacement, or from shuffled epochs.

        Parameters
        ----------
        size : int
            The number of draws. Zero uses nothing of the stream.

        Returns
        -------
        draw : DeviceDraw
            A `TensorDraw` with everything on the device.
        """
        if type(size) is not int or not 0 <= size < MOST_DRAWS:
            size = whole("size", size, 0, MOST_DRAWS)
        drawn = self._engine.draw(size)
        if self._on_host:
            importances = torch.from_numpy(drawn.importances.astype(np.float32))
            items, chances = torch.tensor(drawn.indices), torch.tensor(drawn.probabilities)
            return DeviceDraw(items, chances, importances, self.n, drawn.round)
        self._calls += 1
        return DeviceDraw.within(drawn, size, self.n, self._calls - 1)

    def update(self, draw: TensorDraw, losses: Tensor) -> None:
        """Learn from the losses of drawn items; an item that occurs twice counts twice.

        Feedback may come late, out of order, for a part of a draw, or never.

        Parameters
        ----------
        draw : TensorDraw
            As it came from `draw`, or a part of it.
        losses : Tensor, shape (len(draw),)
            On the device, finite and not negative, *not* multiplied by importances.
        """
        if not isinstance(draw, TensorDraw):
            raise TypeError(f"draw must be a TensorDraw, got {type(draw).__name__}")
        if not isinstance(losses, Tensor):
            raise TypeError(f"losses must be a tensor, got {type(losses).__name__}")
        if not isinstance(draw, DeviceDraw):
            draw = self._moved(draw)
        if draw.n != self.n:
            raise ValueError(f"the draw is over {draw.n} items, this sampler has {self.n}")
        dtype, indices = losses.dtype, draw.indices
        if dtype not in (torch.float32, torch.float64):
            if dtype.is_complex or dtype == torch.bool:
                raise TypeError(f"losses must hold numbers, got {dtype}")
            losses = losses.detach()
            losses = losses.float() if dtype.is_floating_point else losses.double()
        if losses.shape != indices.shape:
            raise ValueError(wrong_shape(len(draw), tuple(losses.shape)))
        if losses.numel() > MOST_LOSSES:
            raise ValueError(
                f"{len(draw)} losses are too many for one batch: {MOST_LOSSES} at most"
            )
        if indices.device != self.device or losses.device != self.device:
            name, part = (
                ("losses", losses) if indices.device == self.device else ("the draw", indices)
            )
            raise ValueError(f"{name} is on {part.device}, the sampler on {self.device}")
        if self._on_host:
            self._engine.update(draw.ticket, losses.detach().double().numpy())
        else:
            self._engine.update(
                indices.contiguous(), draw.probabilities.contiguous(), losses.contiguous()
            )

    def _moved(self, draw: TensorDraw) -> DeviceDraw:
        """Return a draw of a host's sampler on the device."""
        ticket = draw.ticket
        arrays = (torch.tensor(part) for part in (ticket.indices, ticket.probabilities))
        items, chances = (array.to(self.device) for array in arrays)
        return DeviceDraw(items, chances, draw.importances, ticket.n, draw.number)

    def probabilities(self) -> Tensor:
        """Return the distribution as of the latest draw, with the feedback since then, in O(n)."""
        return torch.as_tensor(self._engine.probabilities())

    def check(self) -> None:
        """Raise the error of the first update that was refused since the last check; this waits.

        On the CPU there is nothing to check: `update` raises errors itself.
        """
        if self._on_host:
            return
        kind, where, value = self._engine.trouble()
        if kind == Trouble.INDEX:
            raise IndexError(f"indices[{where}] is {value:.0f}, not from 0 to {self.n - 1}")
        if kind == Trouble.PROBABILITY:
            raise ValueError(f"probabilities[{where}] is {value}, not from 2^-200 to 1")
        if kind == Trouble.LOSS:
            raise ValueError(f"losses[{where}] is {value}: losses must be finite and not negative")

    @property
    def mode(self) -> str:
        """The current mode, "adaptive" or "shuffle"; this waits."""
        return str(self._engine.mode)

    @property
    def gauge(self) -> Gauge:
        """Estimates of the benefit over uniform sampling so far; this waits."""
        gauge: Gauge = self._engine.gauge
        return gauge

    @property
    def quantity(self) -> str:
        """The kind of feedback: "loss" or "gradient norm"."""
        return str(self._engine.quantity)

    @quantity.setter
    def quantity(self, quantity: str) -> None:
        self._engine.quantity = quantity

    @property
    def rounds(self) -> int:
        """The number of draws so far, also in CUDA graphs; this waits."""
        return int(self._engine.rounds)

    @property
    def nbytes(self) -> int:
        """The memory used by the arrays of the sampler, in bytes."""
        arrays = arrays_of(self._engine.state) if self._on_host else self._engine.tensors()
        return sum(part.nbytes for part in arrays)

    def reset(self) -> None:
        """Return to the initial state, in the same memory: the sampler then repeats its draws."""
        self._calls = 0
        self._engine.reset()

    def _identity(self) -> dict[str, Any]:
        """Return the fields of a state that must match this sampler."""
        return {"n": self.n, "seed": self.seed, "shuffle": self.shuffle}

    def state_dict(self) -> dict[str, Any]:
        """Return all that defines the sampler; raises as `check` does.

        The state holds tensors on the CPU, numbers and strings only. One of a CUDA device loads on
        any CUDA device. That of the CPU is the state of the host's sampler, as tensors.
        """
        if self._on_host:
            state: dict[str, Any] = to_tensors(self._engine.state_dict())
            return state
        self.check()
        engine = self._engine.saved()
        return self.saved_as(**self._identity(), calls=self._calls, state=engine).state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state, in the same memory.

        Raises
        ------
        CheckpointError
            If the state is invalid or belongs to another sampler; nothing has changed then.
        """
        if self._on_host:
            self._engine.load_state_dict(from_tensors(state))
            return
        read = self.saved_as.from_state_dict(state, **self._identity())
        self._engine.load(read.state)
        self._calls = read.calls

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={self.n}, device='{self.device}', seed={self.seed})"


def arrays_of(state: Any) -> Iterator[NDArray[Any]]:
    """Return the arrays of a nested state."""
    for part in state:
        if isinstance(part, np.ndarray):
            yield part
        else:
            yield from arrays_of(part)


# ---- on a device


class RuleState(Document):
    """The mutable state of a sampler on a device."""

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


def learn_launch(size: int) -> tuple[int, int]:
    """Return the losses and the warps of one program that learns from a batch of this size."""
    if size <= 128:
        tile = max(32, 1 << (size - 1).bit_length())
        return tile, tile // 32
    return (64, 2) if size <= 16384 else (256, 8)


class RuleBoard(ABC):
    """Weights on a board, two small tensors of numbers, and the kernels that work on them.

    Nothing here is validated but by the kernels; `VRB` and `GroupVRB` are the public classes.
    """

    saved_as: ClassVar[type[RuleState]]
    grouped: ClassVar[bool]
    group_height: int = 1  # of the board of groups
    scores: Tensor
    visits: Tensor

    def __init__(
        self, weights: Tensor, seed: int, *, scale: float, mixing: float, shuffle: bool,
        quantity: str,
    ) -> None:  # fmt: skip
        device, n = weights.device, weights.numel()
        self.n, self.seed, self.shuffle = n, seed, shuffle
        self.bits, self.block = (n - 1).bit_length(), block_size(n)
        self.scale, self.first_mixing = scale, mixing
        self.board = Board(weights, device, seed)
        self.reals = torch.zeros(len(Reals.declared), dtype=torch.float64, device=device)
        self.wholes = torch.zeros(len(Wholes.declared), dtype=torch.int64, device=device)
        self.quantity = quantity
        self.learning, self.weighing = kernels("learn_kernels"), kernels("weigh_kernels")
        self.tables = scratch(device, sizes_of_table, MOST_LOSSES)
        self._draw, self._update = Plans(self._plan_draw), Plans(self._plan_update)
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

    def draw(self, size: int) -> Tensor:
        """Return items, probabilities and importances in one tensor: see `DeviceDraw`."""
        room = room_for(size)
        out = torch.empty(5 * room // 2, dtype=torch.int64, device=self.reals.device)
        if size:
            self._draw[size](out)
        else:
            self.wholes[Whole.ROUNDS] += 1
        return out

    def _plan_draw(self, size: int) -> Launch:
        tile, warps, groups = draw_launch(size)
        kernel, head, heights = self._drawn_by()
        return self.board.launch(
            kernel, -(-size // tile), head, (size, room_for(size), self.bits, self.block),
            warps=warps, HEIGHT=self.board.shape.height, **heights, TILE=tile, GROUPS=groups,
        )  # fmt: skip

    @abstractmethod
    def _drawn_by(self) -> tuple[Any, tuple[Any, ...], dict[str, int]]:
        """Return the kernel of a draw, its arguments before the draw, and heights of boards."""

    def update(self, indices: Tensor, probabilities: Tensor, losses: Tensor) -> None:
        """Learn from losses of float32 or float64."""
        size = indices.numel()
        if size:
            learn, weigh = self._update[size, losses.dtype == torch.float64]
            for launch in learn:
                launch(indices, probabilities, losses)
            for launch in weigh:
                launch()

    def _plan_update(self, batch: tuple[int, bool]) -> tuple[list[Launch], list[Launch]]:
        """Learn by one launch, or two for many losses; then write weights."""
        size, double = batch
        entries, counts, sums, slots, chosen, parts, bits = self.tables[power_for(size)]
        parts = parts.view(torch.float64)
        tile, warps = learn_launch(size)
        programs = -(-size // tile)
        groups, count, starts, areas, places, group_of, *of_groups = self._groups()
        before = (self.n, self.reals, self.wholes, self.scores)
        head = (
            self.board.memory, self.n, groups, count, self.reals, self.wholes, self.scores,
            self.visits, starts, areas, places, group_of, *of_groups,
        )  # fmt: skip
        table, launch = (entries, counts, sums, slots), self.board.launch
        heights = {"HEIGHT": self.board.shape.height, "GROUP_HEIGHT": self.group_height}
        constants = {"TILE": tile, "DOUBLE": double, "GROUPED": self.grouped}
        if programs == 1:
            learn = [
                launch(
                    self.learning.learn_kernel, 1, head, (size, bits, parts, chosen), warps=warps,
                    **heights, **constants,
                )
            ]  # fmt: skip
        else:
            learn = [
                launch(
                    self.learning.enter_kernel, programs, (*before, places, group_of, *of_groups),
                    (size, *table, bits, parts), warps=warps, **constants,
                ),
                launch(
                    self.learning.visit_kernel, programs, head,
                    (size, *table, bits, parts, chosen, programs), warps=warps, **heights,
                    **constants,
                ),
            ]  # fmt: skip
        return learn, self._plan_weights(size, programs, chosen, bits)

    def _groups(self) -> tuple[Any, ...]:
        """Return the arguments about groups; without groups, kernels read none of them."""
        return (self.board.memory, 1, *[self.wholes] * 8)

    @abstractmethod
    def _plan_weights(self, size: int, programs: int, chosen: Tensor, bits: int) -> list[Launch]:
        """Write the weights that a batch changes, unless the launches before have done so."""

    def trouble(self) -> tuple[int, int, float]:
        """Return kind, position and value of the first fault since the last call; this waits."""
        kind, where = self.wholes[Whole.TROUBLE : Whole.WHERE + 1].tolist()
        value = float(self.reals[Real.BAD_VALUE])
        if kind != Trouble.NONE:
            self.wholes[Whole.TROUBLE] = Trouble.NONE
        elif self.board.fault()[0] != Fault.NONE:
            raise RuntimeError("a draw rejected every random word; please report this")
        return kind, where, value

    @property
    def gauge(self) -> Gauge:
        """The estimates so far; this waits."""
        reals, counts = self.reals.tolist(), self.wholes.tolist()
        sums = zip(Reals.declared, reals, strict=True)
        tally = Tally(
            rounds=counts[Whole.ROUNDS],
            count=counts[Whole.FED],
            **{name: number for name, number in sums if name in Tally.declared},
        )
        # no importance has exceeded 1 / mixing
        return Gauge(cell(tally), self.n, 1.0 / reals[Real.MIXING], self.mode, self.quantity)

    @property
    def mode(self) -> str:
        """The present mode; this waits."""
        return "shuffle" if self.wholes[Whole.SHUFFLING] else "adaptive"

    @property
    def rounds(self) -> int:
        """The number of draws so far; this waits."""
        return int(self.wholes[Whole.ROUNDS])

    def tensors(self) -> Iterator[Tensor]:
        """Return all memory, scratch included."""
        yield from self.board.tensors()
        for parts in (vars(self).values(), *self.tables.values()):
            yield from (part for part in parts if isinstance(part, Tensor) and not part._is_view())

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
        self.board.load(self.board.leaves, self.seed, read.position)
        self._put(read.reals, read.wholes)

    def _arrays(self) -> dict[str, Tensor]:
        """Return the tensors that are saved, by name."""
        names = (name for name in self.saved_as.declared if name not in RuleState.declared)
        return {"weights": self.board.leaves, **{name: getattr(self, name) for name in names}}

    def _sizes(self) -> dict[str, Any]:
        """Return the sizes, besides n, that shapes of a state refer to."""
        return {}


def sizes_of_table(full: int, most: int) -> tuple[int, ...]:
    """Return the sizes of scratch memory.

    By slots: items with their last positions, the numbers of their losses, the sums of their
    squares. By positions: slots, and items to be weighed. Last, the sums of each program.
    """
    return full, full, full, most, most, PARTS * most // 32
