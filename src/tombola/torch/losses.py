"""Losses on their way to the sampler: copied to the host and checked."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tombola.draws import Draw
from tombola.torch.tensor_draw import TensorDraw, wrong_shape

__all__ = ["check_losses", "copy_losses"]


def copy_losses(
    draw: TensorDraw, losses: Any, skip_nonfinite: bool = False
) -> Callable[[], NDArray[np.float64]]:
    """Copy losses; the function returned gives them as a float64 array.

    Losses in host memory are copied and checked at once. Those on a CUDA device are copied to
    pinned memory, in the order of the device's work; those on another device are copied on the
    device. Only the function that is returned waits.
    """
    if isinstance(losses, Tensor):
        losses = losses.detach()
        shape, wrong_type = tuple(losses.shape), losses.is_complex() or losses.dtype == torch.bool
    else:
        losses = np.asarray(losses)
        shape, wrong_type = losses.shape, losses.dtype.kind not in "fiu"
    if shape != (len(draw),):
        raise ValueError(wrong_shape(len(draw), shape))
    if wrong_type:
        raise TypeError(f"losses must hold numbers, got dtype {losses.dtype}")
    if isinstance(losses, Tensor) and losses.device.type != "cpu":
        return _copy_from_device(losses)
    if isinstance(losses, Tensor):
        array = losses.to(torch.float64, copy=True).numpy()
    else:
        array = np.array(losses, dtype=np.float64)
    check_losses(array, draw.ticket, draw.number, skip_nonfinite)
    return lambda: array


def _copy_from_device(losses: Tensor) -> Callable[[], NDArray[np.float64]]:
    if losses.device.type != "cuda":
        kept = losses.clone()  # the caller may overwrite the tensor
        return lambda: kept.to("cpu").to(torch.float64).numpy()  # not all devices have float64
    host = torch.empty(losses.shape, dtype=losses.dtype, pin_memory=True)
    host.copy_(losses, non_blocking=True)
    copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
    copied.record(torch.cuda.current_stream(losses.device))

    def wait() -> NDArray[np.float64]:
        copied.synchronize()
        return host.to(torch.float64).numpy()

    return wait


def check_losses(
    losses: NDArray[np.float64], draw: Draw, number: int, skip_nonfinite: bool = False
) -> None:
    """Refuse losses that are negative or not finite, naming batch, item and value.

    With `skip_nonfinite`, those that are not finite pass: they are left out later.
    """
    # the minimum is NaN where any value is
    if losses.size and not (losses.min() >= 0.0 and losses.max() < np.inf):
        good = (losses >= 0.0) & (losses < np.inf)
        if skip_nonfinite:
            good |= ~np.isfinite(losses)
        j = int(np.argmin(good))
        if good[j]:
            return
        raise ValueError(
            f"losses[{j}] of batch {number} is {losses[j]} (item {draw.indices[j]}): "
            "losses must be finite and not negative"
            + ("" if np.isfinite(losses[j]) else "; skip_nonfinite=True leaves such items out")
        )
