"""Losses on their way to the sampler: checked, copied to the host, waiting until they are due."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tombola.draws import Draw
from tombola.torch.tensor_draw import TensorDraw, wrong_shape

__all__ = ["Feedback", "check_values", "received"]


class Feedback(NamedTuple):
    """What was fed for a batch, and the number of the first batch that is drawn with it."""

    due: int
    number: int  # of the batch that it is about
    draw: Draw
    losses: NDArray[np.float64]
    rank: int = 0  # of the process that gave it


def received(
    draw: TensorDraw, losses: Any, skip_nonfinite: bool = False
) -> Callable[[], NDArray[np.float64]]:
    """Take losses in; the function returned gives them as a float64 array, once they are needed.

    Losses in the memory of the host are copied and checked at once. Those of a CUDA device are
    copied to pinned memory behind what the device has to do before, those of another device on
    the device; only the function waits.
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
        return _copied_later(losses)
    if isinstance(losses, Tensor):
        array = losses.to(torch.float64, copy=True).numpy()
    else:
        array = np.array(losses, dtype=np.float64)
    check_values(array, draw.ticket, draw.number, skip_nonfinite)
    return lambda: array


def _copied_later(losses: Tensor) -> Callable[[], NDArray[np.float64]]:
    if losses.device.type != "cuda":
        kept = losses.clone()  # whoever gave them may overwrite them
        return lambda: kept.to("cpu").to(torch.float64).numpy()  # not all devices have float64
    host = torch.empty(losses.shape, dtype=losses.dtype, pin_memory=True)
    host.copy_(losses, non_blocking=True)
    copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
    copied.record(torch.cuda.current_stream(losses.device))

    def wait() -> NDArray[np.float64]:
        copied.synchronize()
        return host.to(torch.float64).numpy()

    return wait


def check_values(
    losses: NDArray[np.float64], draw: Draw, number: int, skip_nonfinite: bool = False
) -> None:
    """Refuse losses that are not finite or negative, naming batch, item and value.

    With `skip_nonfinite` those that are not finite pass: they are left out later.
    """
    # a minimum is nan where any value is
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
