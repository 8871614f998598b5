"""A draw as tensors, with a mean that gradients flow through."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tombola.draws import Draw

__all__ = ["TensorDraw", "wrong_shape"]


class TensorDraw:
    """How one batch was drawn: items, importances, and unbiased estimates from them.

    Attributes
    ----------
    indices : Tensor of int64, shape (B,)
        The items drawn.
    importances : Tensor of float32, shape (B,)
        The factor of each loss: 1 / (n p).
    n : int
        The number of items that they were drawn from.
    number : int
        The number of the batch, counted over the life of the loader.
    ticket : Draw
        The draw of the sampler, in float64; feedback refers to it.
    shares : ndarray of float64, shape (B,), or None
        With sharded items, the share of all batches that comes from the shard of the item;
        `ticket` then has the probability within the shard, and the importance is 1 / (n p share).
    shards : int
        The number of shards that the items were drawn from. If there are several, only the whole
        batch gives estimates; a part, ``draw[mask]``, is for feedback.

    Examples
    --------
    >>> draw = TensorDraw(Draw([2, 0, 2], [0.5, 0.25, 0.5], n=3), number=0)
    >>> losses = torch.tensor([6.0, 3.0, 6.0], requires_grad=True)
    >>> draw.mean(losses)                                    # of the mean over all three items
    tensor(4., grad_fn=<MeanBackward1>)
    >>> draw
    TensorDraw(3 of 3 items, batch 0)
    """

    __slots__ = (
        "_feedback_only", "_weights", "importances", "indices", "n", "number", "shards", "shares",
        "ticket",
    )  # fmt: skip

    def __init__(
        self,
        ticket: Draw,
        number: int,
        shares: NDArray[np.float64] | None = None,
        shards: int = 1,
    ) -> None:
        self.ticket = ticket
        self.n = ticket.n
        self.number = number
        self.shares = shares
        self.shards = shards
        self._feedback_only = False
        self.indices = torch.from_numpy(ticket.indices.copy())
        self.importances = torch.from_numpy(self._exact().astype(np.float32))
        self._weights: Tensor | None = None

    def _exact(self) -> NDArray[np.float64]:
        """Return the importances in float64."""
        exact = self.ticket.importances
        return exact if self.shares is None else exact / self.shares

    def mean(self, losses: Tensor) -> Tensor:
        """Return the unbiased estimate of the mean over all n items, in the dtype of `losses`.

        ``losses[j]`` belongs to item ``indices[j]``: a number, or a tensor of any shape. Half
        precision is summed in float32, and the sum is rounded once.
        """
        mean = self._mean(losses)
        return mean.to(losses.dtype) if losses.is_floating_point() else mean

    def sum(self, losses: Tensor) -> Tensor:
        """Return the unbiased estimate of the sum over all n items, in the dtype of `losses`.

        Float16 holds nothing above 65,504: sum ``losses.float()`` over many items.
        """
        total = self._mean(losses) * self.n
        return total.to(losses.dtype) if losses.is_floating_point() else total

    def _mean(self, losses: Tensor) -> Tensor:
        """Return the mean in the precision of the computation."""
        weights = self._weights_for(losses)
        if losses.ndim > 1:
            weights = weights.reshape(-1, *[1] * (losses.ndim - 1))
        return (losses.to(weights.dtype) * weights).mean(0)

    def _weights_for(self, losses: Tensor) -> Tensor:
        """Return the importances in the right precision and on the right device, moved once."""
        if not isinstance(losses, Tensor):
            raise TypeError(f"losses must be a tensor, got a {type(losses).__name__}")
        if losses.shape[:1] != (len(self),):
            raise ValueError(wrong_shape(len(self), tuple(losses.shape)))
        if len(self) == 0:
            raise ValueError("an empty draw estimates nothing")
        if self._feedback_only:
            raise ValueError(
                f"a part of a draw from {self.shards} shards is for feedback only: it holds "
                "another share of each shard than the batch, so its mean would be biased; take "
                "the mean of the whole draw"
            )
        dtype = torch.float64 if losses.dtype == torch.float64 else torch.float32
        weights = self._weights
        if weights is None or weights.device != losses.device or weights.dtype != dtype:
            source = self._doubles() if dtype == torch.float64 else self.importances
            weights = self._weights = source.to(losses.device, non_blocking=True)
        return weights

    def _doubles(self) -> Tensor:
        """Return the importances in float64, wherever they are."""
        return torch.from_numpy(self._exact().copy())

    def to(self, device: Any, non_blocking: bool = False) -> "TensorDraw":
        """Return the draw with its tensors on a device, as ``Tensor.to`` does."""
        moved = TensorDraw.__new__(TensorDraw)
        moved.ticket, moved.n, moved.number = self.ticket, self.n, self.number
        moved.shares, moved.shards = self.shares, self.shards
        moved._feedback_only = self._feedback_only
        moved.indices = self.indices.to(device, non_blocking=non_blocking)
        moved.importances = self.importances.to(device, non_blocking=non_blocking)
        moved._weights = None
        return moved

    def __getitem__(self, key: Any) -> "TensorDraw":
        """Return a part (a slice, a mask or positions), for feedback or estimates from it.

        A part of a draw from several shards of one process is for feedback only.
        """
        if isinstance(key, Tensor):
            key = key.cpu().numpy()
        shares = None if self.shares is None else np.atleast_1d(self.shares[key])
        part = TensorDraw(self.ticket[key], self.number, shares, self.shards)
        part._feedback_only = self.shards > 1
        return part.to(self.indices.device)

    def __len__(self) -> int:
        return len(self.ticket)

    def __repr__(self) -> str:
        return f"TensorDraw({len(self)} of {self.n} items, batch {self.number})"


def wrong_shape(size: int, shape: tuple[int, ...]) -> str:
    """Return a message about losses of the wrong shape."""
    if not shape:
        return (
            f"losses is a single number; a loss for each of the {size} items is needed: "
            "use reduction='none'"
        )
    return f"losses must have one entry for each of the {size} items drawn, got shape {shape}"
