"""The public class of `VRB` on a device: arguments, errors and checkpoints."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from tombola.checkpoint import CheckpointError
from tombola.gauge import Gauge
from tombola.torch.device.device_draw import DeviceDraw
from tombola.torch.device.layout import MOST_ITEMS
from tombola.torch.device.vrb_board import VRBBoard
from tombola.torch.device.vrb_host import VRBHost
from tombola.torch.device.vrb_layout import Trouble
from tombola.torch.tensor_draw import TensorDraw, wrong_shape
from tombola.validation import whole

__all__ = ["VRB"]


class VRB:
    """The Variance Reducer Bandit without parameters, where the training runs.

    The rule is that of ``tombola.VRB(n)``: it learns from the losses of drawn items which items
    cause the noise, and deals shuffled epochs while adaptive draws do not pay. On a CUDA device all
    of it stays there: `draw` and `update` launch one kernel each and return at once, and both may
    be captured in a CUDA graph; every replay continues. On the CPU a `tombola.VRB` does the work.

    The device cannot raise errors without waiting. A batch with a loss that is negative or not
    finite is therefore refused as a whole, nothing is learnt from it, and `check` or `state_dict`
    raises the error of the first such batch. This is so on the CPU as well.

    Parameters
    ----------
    n : int
        The number of items.
    device : torch.device or str, optional
        Where the sampler is; by default torch's default device.
    shuffle : bool, default=True
        Whether to deal shuffled epochs while adaptive draws do not pay.
    quantity : str, default="loss"
        What the caller passes to `update`, for the gauge: "loss" or "gradient norm".
    seed : int, default=0
        From 0 to 2^64 - 1. The same seed and the same feedback give the same draws in every run on
        the same kind of device; the CPU's are others.

    Notes
    -----
    Memory on a CUDA device: 20 bytes per item. Calls on one sampler must be ordered, as they are on
    one stream. Make one call of each kind and size before the capture of a CUDA graph: it compiles
    kernels. An update learns from 512 losses at a time, in order.

    Deviations from the host: the guard compares with the weights before each 512 losses, not before
    each loss; an epoch is a keyed permutation, not a shuffled deck.

    Examples
    --------
    >>> losses = torch.tensor([0.1] * 99 + [5.0])            # one item causes the noise
    >>> sampler = VRB(100, device="cpu")
    >>> for _ in range(200):
    ...     draw = sampler.draw(32)
    ...     sampler.update(draw, losses[draw.indices])
    >>> sampler.check()
    >>> bool(sampler.probabilities().argmax() == 99)
    True
    >>> sampler.update(draw, losses[draw.indices] - 1)       # refused
    >>> sampler.check()
    Traceback (most recent call last):
    ValueError: losses[0] is -0.8999999761581421: losses must be finite and not negative
    """

    feedback: ClassVar[Literal["drawn", "all"]] = "drawn"

    def __init__(
        self,
        n: int,
        *,
        device: torch.device | str | None = None,
        shuffle: bool = True,
        quantity: str = "loss",
        seed: int = 0,
    ) -> None:
        self.n = whole("n", n, 1, MOST_ITEMS + 1)
        self.seed = whole("seed", seed, 0, 2**64)
        self.shuffle = bool(shuffle)
        self.quantity = str(quantity)
        place = torch.get_default_device() if device is None else torch.device(device)
        if place.type == "cuda" and place.index is None:
            place = torch.device("cuda", torch.cuda.current_device())
        self.device = place
        self._calls = 0
        self._engine = engine_of(place)(self.n, place, self.seed, shuffle=self.shuffle)

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
        return DeviceDraw(*self._engine.draw(size), n=self.n, number=self._calls - 1)

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
        return self._engine.probabilities()

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
        limit = 1.0 / self._engine.mixing
        return Gauge(self._engine.tally(), self.n, limit, self.mode, self.quantity)

    @property
    def rounds(self) -> int:
        """The number of draws so far, also in CUDA graphs; this waits."""
        return int(self._engine.tally()["rounds"][0])

    @property
    def nbytes(self) -> int:
        """The memory used, in bytes."""
        return self._engine.nbytes

    def reset(self) -> None:
        """Return to the initial state, in the same memory: the sampler then repeats its draws."""
        self._calls = 0
        self._engine.reset()

    def state_dict(self) -> dict[str, Any]:
        """Return all that defines the sampler; raises as `check` does.

        The state holds tensors on the CPU, numbers and strings only. One of a CUDA device loads on
        any CUDA device, one of the CPU on the CPU.
        """
        self.check()
        return {
            "class": "torch.VRB",
            "format": 1,
            "engine": type(self._engine).__name__,
            "n": self.n,
            "seed": self.seed,
            "shuffle": self.shuffle,
            "calls": self._calls,
            "state": self._engine.state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state, in the same memory.

        Raises
        ------
        CheckpointError
            If the state is invalid or belongs to another sampler; nothing has changed then.
        """
        mine = {
            "class": "torch.VRB",
            "format": 1,
            "engine": type(self._engine).__name__,
            "n": self.n,
            "seed": self.seed,
            "shuffle": self.shuffle,
        }
        names = {*mine, "calls", "state"}
        if not isinstance(state, Mapping) or set(state) != names:
            raise CheckpointError(f"the state of VRB has the entries {sorted(names)}")
        for name, own in mine.items():
            if state[name] != own:
                raise CheckpointError(f"the state has {name} {state[name]!r}, the sampler {own!r}")
        try:
            calls = whole("calls", state["calls"], 0, 2**63)
        except (TypeError, ValueError) as error:
            raise CheckpointError(str(error)) from None
        self._engine.load(state["state"])
        self._calls = calls

    def __repr__(self) -> str:
        return f"VRB(n={self.n}, device='{self.device}', seed={self.seed})"


def engine_of(device: torch.device) -> type[VRBBoard] | type[VRBHost]:
    """Return what does the work on a device."""
    return VRBHost if device.type == "cpu" else VRBBoard
