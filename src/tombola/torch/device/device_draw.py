"""Draws that never left the device."""

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor

from tombola.draws import Draw
from tombola.torch.device.layout import room_for
from tombola.torch.tensor_draw import TensorDraw

__all__ = ["DeviceDraw", "IndexDraw", "unscaled"]


class DeviceDraw(TensorDraw):
    """How one batch was drawn, as a `TensorDraw`, with everything on the device of the sampler.

    Nothing waits for the host, except for `ticket` and for a part by a mask.

    Attributes
    ----------
    probabilities : Tensor of float64, shape (B,)
        The probability that each item was drawn with.
    number : int
        The number of calls of `draw` before this one.
    """

    __slots__ = ("_out", "_size", "probabilities")

    _out: Tensor
    _size: int
    probabilities: Tensor

    def __init__(
        self, indices: Tensor, probabilities: Tensor, importances: Tensor, n: int, number: int
    ) -> None:
        self._begin(n, number)
        self.indices = indices
        self.probabilities = probabilities
        self.importances = importances

    def _begin(self, n: int, number: int) -> None:
        self.n, self.number = n, number
        self.shares, self.shards = None, 1
        self._feedback_only = False
        self._weights = None

    @classmethod
    def within(cls, out: Tensor, size: int, *more: Any) -> Self:
        """Return the draw that kernels have written into a tensor, of which parts are taken later.

        The arguments after `size` are those of the constructor after its tensors.
        """
        draw = cls.__new__(cls)
        draw._begin(*more)
        draw._out, draw._size = out, size
        return draw

    def __getattr__(self, name: str) -> Tensor:
        """Return a part of the kernels' output; it is cut out at the first access."""
        if name not in ("indices", "probabilities", "importances"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        size, room = self._size, room_for(self._size)
        if name == "indices":
            part = self._out.narrow(0, 0, size)
        elif name == "probabilities":
            part = self._out.narrow(0, room, size).view(torch.float64)
        else:
            part = self._out.narrow(0, 2 * room, room // 2).view(torch.float32).narrow(0, 0, size)
        setattr(self, name, part)
        return part

    @property
    def ticket(self) -> Draw:  # type: ignore[override]
        """The draw on the host; this waits."""
        return Draw(
            self.indices.cpu().numpy(), self.probabilities.cpu().numpy(), self.n, self.number
        )

    def _doubles(self) -> Tensor:
        return 1.0 / (self.n * self.probabilities)

    def _weights_for(self, losses: Tensor) -> Tensor:
        weights = super()._weights_for(losses)
        self._weights = None  # replays of a CUDA graph write new draws into the same tensors
        return weights

    def to(self, device: Any, non_blocking: bool = False) -> Self:
        """Return the draw with its tensors on a device, as ``Tensor.to`` does."""
        return self._mapped(lambda part: part.to(device, non_blocking=non_blocking))

    def __getitem__(self, key: Any) -> Self:
        """Return a part (a slice, a mask or positions); a mask waits for the host."""
        return self._mapped(lambda part: part[key].reshape(-1))

    def _mapped(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Return the draw with all its tensors changed in the same way."""
        indices, probabilities, importances, *more = self._arguments()
        return type(self)(change(indices), change(probabilities), change(importances), *more)

    def _arguments(self) -> tuple[Any, ...]:
        """Return the arguments of the constructor."""
        return self.indices, self.probabilities, self.importances, self.n, self.number

    def __reduce__(self) -> Any:
        return type(self), self._arguments()

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} of {self.n} items, draw {self.number})"


class IndexDraw(DeviceDraw):
    """A `DeviceDraw` of a `WeightIndex`, with the weights of its items.

    Probabilities and importances are computed when they are asked for.

    Attributes
    ----------
    indices : Tensor of int64, shape (B,)
        The items; -1 if there was nothing to draw from.
    weights : Tensor, shape (B,)
        Their weights when they were drawn: int64, or float64 if the weights are real.
    total : Tensor, shape ()
        The total when they were drawn.
    """

    __slots__ = ("_exponent", "_total", "_units")

    def __init__(
        self,
        indices: Tensor,
        units: Tensor,
        total: Tensor,
        n: int,
        number: int,
        exponent: int | None,
    ) -> None:
        self._begin(n, number, exponent)
        self.indices, self._units, self._total = indices, units, total

    def _begin(self, n: int, number: int, exponent: int | None = None) -> None:
        super()._begin(n, number)
        self._exponent = exponent

    def __getattr__(self, name: str) -> Tensor:
        if name == "_units":
            part = self._out.narrow(0, room_for(self._size), self._size)
        elif name == "_total":
            part = self._out[2 * room_for(self._size)]
        else:
            return super().__getattr__(name)
        setattr(self, name, part)
        return part

    @property
    def probabilities(self) -> Tensor:  # type: ignore[override]
        """The probability of each item at the time of the draw, float64."""
        return self._units.double() / self._total

    @property
    def importances(self) -> Tensor:  # type: ignore[override]
        """The factor of each loss: 1 / (n p), float32."""
        return self._doubles().float()

    @property
    def weights(self) -> Tensor:
        """The weight of each item at the time of the draw."""
        return unscaled(self._units, self._exponent)

    @property
    def total(self) -> Tensor:
        """The sum of all weights at the time of the draw."""
        return unscaled(self._total, self._exponent)

    def _mapped(self, change: Callable[[Tensor], Tensor]) -> "IndexDraw":
        indices, units = change(self.indices), change(self._units)
        total = self._total.to(units.device)
        return IndexDraw(indices, units, total, self.n, self.number, self._exponent)

    def _arguments(self) -> tuple[Any, ...]:
        return self.indices, self._units, self._total, self.n, self.number, self._exponent


def unscaled(units: Tensor, exponent: int | None) -> Tensor:
    """Return the weights that integers stand for, on a scale of 2^exponent."""
    if exponent is None:
        return units
    half = exponent // 2  # neither half overflows
    return units.double() / 2.0**half / 2.0 ** (exponent - half)
