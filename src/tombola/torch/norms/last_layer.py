"""Gradient norms with respect to the outputs of a model, from these alone."""

import torch
from torch import Tensor

from tombola.torch.norms.rules import squared_lengths, widened

__all__ = ["last_layer_norms"]

IGNORED = -100  # the class that cross_entropy ignores by default


def last_layer_norms(
    logits: Tensor,
    targets: Tensor,
    *,
    loss: str = "cross_entropy",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the norm of each example's gradient with respect to the outputs of the model.

    It costs almost nothing, and a bound on the gradient norm is proportional to it, with a factor
    that depends on the model more than on the example. The two agree poorly in the first epochs
    and well later (``benchmarks/torch_norms.py`` measures it).

    Parameters
    ----------
    logits : Tensor, shape (B, ...)
        The output of the model; for "cross_entropy" of shape (B, classes).
    targets : Tensor
        As for the loss: for "cross_entropy" class numbers of shape (B,), or probabilities of
        shape (B, classes); otherwise of the shape of `logits`. Class -100, which
        `cross_entropy` ignores, has norm 0.
    loss : {"cross_entropy", "binary_cross_entropy_with_logits", "mse_loss"}
        The name in `torch.nn.functional`. With several outputs per example, their losses are
        summed.
    label_smoothing : float, default=0.0
        As for `torch.nn.functional.cross_entropy`.

    Returns
    -------
    Tensor of float32, shape (B,)
        On the device of the logits, detached.

    Examples
    --------
    >>> import torch
    >>> last_layer_norms(torch.tensor([[0.0, 0.0], [0.0, 3.0]]), torch.tensor([1, 1]))
    tensor([0.7071, 0.0671])
    """
    if loss not in ("cross_entropy", "binary_cross_entropy_with_logits", "mse_loss"):
        raise ValueError(
            "loss must be 'cross_entropy', 'binary_cross_entropy_with_logits' or 'mse_loss', "
            f"got {loss!r}"
        )
    if label_smoothing and loss != "cross_entropy":
        raise ValueError(f"label_smoothing is for 'cross_entropy', got loss {loss!r}")
    z, targets = widened(logits.detach()), targets.detach()
    numbers = loss == "cross_entropy" and not targets.is_floating_point()
    if loss == "cross_entropy" and z.ndim != 2:
        raise ValueError(f"logits must have shape (batch, classes), got {tuple(z.shape)}")
    if targets.shape != (z.shape[:1] if numbers else z.shape):
        raise ValueError(
            f"targets of shape {tuple(targets.shape)} do not fit logits of shape {tuple(z.shape)}"
        )
    if loss == "mse_loss":
        slopes = 2 * (z - targets)
    elif loss == "binary_cross_entropy_with_logits":
        slopes = z.sigmoid() - targets
    else:
        ignored = targets == IGNORED if numbers else None
        if ignored is not None:
            classes = targets.masked_fill(ignored, 0).to(torch.int64).unsqueeze(1)
            targets = torch.zeros_like(z).scatter_(1, classes, 1.0)
        chances = targets.to(z.dtype).lerp(torch.full_like(z, 1 / z.shape[1]), label_smoothing)
        slopes = z.softmax(1) - chances
        if ignored is not None:
            slopes = slopes.masked_fill(ignored.unsqueeze(1), 0.0)
    return squared_lengths(slopes.reshape(len(z), -1)).sqrt().to(torch.float32)
