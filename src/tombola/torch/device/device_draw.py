"""A draw that never left the device."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from tombola.draws import Draw
from tombola.torch.tensor_draw import TensorDraw

__all__ = ["DeviceDraw"]


class DeviceDraw(TensorDraw):
    """How one batch was drawn, as a `TensorDraw`, with everything on the device of the sampler.

    Nothing waits for the host, except for `ticket` and for a part by a mask.

    Attributes
    ----------
    indices : Tensor of int64, shape (B,)
        The items drawn.
    probabilities : Tensor of float64, shape (B,)
        The probability that each item was drawn with.
    importances : Tensor of float32, shape (B,)
        What each loss is multiplied by: 1 / (n p).
    n : int
        The number of items that the sampler draws from.
    number : int
        The number of calls of `draw` before this one.
    """

    __slots__ = ("n", "probabilities")

    def __init__(
        self, indices: Tensor, probabilities: Tensor, importances: Tensor, n: int, number: int
    ) -> None:
        self.indices = indices
        self.probabilities = probabilities
        self.importances = importances
        self.n = n
        self.number = number
        self.shares, self.shards = None, 1
        self._feedback_only = False
        self._weights = None

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

    def sum(self, losses: Tensor) -> Tensor:
        """Return the unbiased estimate of the sum over all n items, in the dtype of `losses`."""
        total = self._mean(losses) * self.n
        return total.to(losses.dtype) if losses.is_floating_point() else total

    def to(self, device: Any, non_blocking: bool = False) -> "DeviceDraw":
        """Return the draw with its tensors on a device, as ``Tensor.to`` does."""
        return self._mapped(lambda part: part.to(device, non_blocking=non_blocking))

    def __getitem__(self, key: Any) -> "DeviceDraw":
        """Return a part (a slice, a mask or positions); a mask waits for the host."""
        return self._mapped(lambda part: part[key].reshape(-1))

    def _mapped(self, change: Callable[[Tensor], Tensor]) -> "DeviceDraw":
        """Return the draw with all its tensors changed in the same way."""
        indices, probabilities = change(self.indices), change(self.probabilities)
        importances = change(self.importances)
        return DeviceDraw(indices, probabilities, importances, self.n, self.number)

    def __reduce__(self) -> Any:
        parts = (self.indices, self.probabilities, self.importances, self.n, self.number)
        return DeviceDraw, parts

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        return f"DeviceDraw({len(self)} of {self.n} items, draw {self.number})"
