"""What the samplers on a device have in common: arguments, errors and checkpoints."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from tombola.gauge import Gauge
from tombola.state import count, mapping, same
from tombola.torch.device.device_draw import DeviceDraw
from tombola.torch.device.layout import POSITION_BITS
from tombola.torch.device.vrb_layout import Trouble
from tombola.torch.tensor_draw import TensorDraw, wrong_shape
from tombola.torch.tensors import TensorState
from tombola.validation import whole

__all__ = ["DeviceSampler", "place_of", "runs_kernels"]

MOST_LOSSES = 1 << POSITION_BITS


class DeviceState(TensorState):
    """All that defines a sampler on a device."""

    engine: str = same("what does the work: on the CPU the host's sampler, elsewhere kernels")
    n: int = same("items")
    seed: int = same("the seed of the draws")
    shuffle: bool = same("whether shuffled epochs are dealt while adaptive draws do not pay")
    calls: int = count("calls of `draw` that were not replays of a CUDA graph")
    state: Mapping[str, Any] = mapping("what has changed since the beginning")


class DeviceSampler:
    """A sampler whose state is on a device: base of `VRB` and `GroupVRB`."""

    saved_as: ClassVar[type[DeviceState]]
    feedback: ClassVar[Literal["drawn", "all"]] = "drawn"

    def __init__(
        self, n: int, device: torch.device, engine: Any, *, shuffle: bool, quantity: str, seed: int
    ) -> None:
        self.n, self.device, self.seed = n, device, seed
        self.shuffle, self.quantity = shuffle, quantity
        self._calls = 0
        self._engine: Any = engine  # a RuleBoard or a SamplerHost

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
        size = whole("size", size, 0, 2**30)
        self._calls += 1
        items, probabilities, importances = self._engine.draw(size)
        return DeviceDraw(items, probabilities, importances, self.n, self._calls - 1)

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
        if losses.dtype.is_complex or losses.dtype == torch.bool:
            raise TypeError(f"losses must hold numbers, got {losses.dtype}")
        if losses.shape != draw.indices.shape:
            raise ValueError(wrong_shape(len(draw), tuple(losses.shape)))
        if len(draw) > MOST_LOSSES:
            raise ValueError(
                f"{len(draw)} losses are too many for one batch: {MOST_LOSSES} at most"
            )
        for name, part in {"the draw": draw.indices, "losses": losses}.items():
            if part.device != self.device:
                raise ValueError(f"{name} is on {part.device}, the sampler on {self.device}")
        given = losses.detach()
        if given.dtype not in (torch.float32, torch.float64):
            given = given.float() if given.is_floating_point() else given.double()
        self._engine.update(
            draw.indices.contiguous(), draw.probabilities.contiguous(), given.contiguous()
        )

    def _moved(self, draw: TensorDraw) -> DeviceDraw:
        """Return a draw of a host's sampler on the device."""
        ticket = draw.ticket
        arrays = (torch.tensor(part) for part in (ticket.indices, ticket.probabilities))
        items, chances = (array.to(self.device) for array in arrays)
        return DeviceDraw(items, chances, draw.importances, ticket.n, draw.number)

    def probabilities(self) -> Tensor:
        """Return the distribution as of the latest draw, with the feedback since then, in O(n)."""
        chances: Tensor = self._engine.probabilities()
        return chances

    def check(self) -> None:
        """Raise the error of the first update that was refused since the last check; this waits."""
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
        return "shuffle" if self._engine.shuffling else "adaptive"

    @property
    def gauge(self) -> Gauge:
        """Estimates of the benefit over uniform sampling so far; this waits."""
        limit = self._engine.largest_importance
        return Gauge(self._engine.tally(), self.n, limit, self.mode, self.quantity)

    @property
    def rounds(self) -> int:
        """The number of draws so far, also in CUDA graphs; this waits."""
        return int(self._engine.tally()["rounds"][0])

    @property
    def nbytes(self) -> int:
        """The memory used, in bytes."""
        return int(self._engine.nbytes)

    def reset(self) -> None:
        """Return to the initial state, in the same memory: the sampler then repeats its draws."""
        self._calls = 0
        self._engine.reset()

    def _identity(self) -> dict[str, Any]:
        """Return what a state must agree with."""
        return {
            "engine": type(self._engine).__name__,
            "n": self.n,
            "seed": self.seed,
            "shuffle": self.shuffle,
        }

    def state_dict(self) -> dict[str, Any]:
        """Return all that defines the sampler; raises as `check` does.

        The state holds tensors on the CPU, numbers and strings only. One of a CUDA device loads on
        any CUDA device, one of the CPU on the CPU.
        """
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
        read = self.saved_as.from_state_dict(state, **self._identity())
        self._engine.load(read.state)
        self._calls = read.calls

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={self.n}, device='{self.device}', seed={self.seed})"


def place_of(device: torch.device | str | None) -> torch.device:
    """Return a device with its number, by default torch's default device."""
    place = torch.get_default_device() if device is None else torch.device(device)
    if place.type == "cuda" and place.index is None:
        place = torch.device("cuda", torch.cuda.current_device())
    return place


def runs_kernels(device: torch.device) -> bool:
    """Return whether kernels do the work on a device, not the host's sampler."""
    return device.type != "cpu"
