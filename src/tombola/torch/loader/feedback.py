"""Feedback between the call of `update` and the batch from which on it counts.

Losses are checked once: in host memory by `update`, from a device when they have arrived and all
processes have them, so that all raise the same error.
"""

from collections import deque
from collections.abc import Callable
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tombola.draws import Draw
from tombola.torch.loader.base import remember
from tombola.torch.loader.drawing import DrawnBatch, Processes
from tombola.torch.loader.sharing import Feedback
from tombola.torch.tensor_draw import TensorDraw, wrong_shape

__all__ = ["FeedbackQueue"]


class _Arriving(NamedTuple):
    """Feedback that was given in this process; its losses may still be on a device."""

    due: int
    number: int
    draw: Draw
    losses: NDArray[np.float64] | Callable[[], NDArray[np.float64]]
    skip_nonfinite: bool
    late: bool  # whether losses come from a device and are not checked


class FeedbackQueue:
    """Holds feedback until it is due, and then feeds it to the samplers.

    Attributes
    ----------
    arriving : deque of _Arriving
        Given in this process and not due.
    gathered : list of Feedback
        Shared by all processes and not due.
    unanswered : dict of int to DrawnBatch
        Batches that were handed out and have no feedback, by number.
    skipped : int
        Losses that were left out because they are not finite.
    """

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self.arriving: deque[_Arriving] = deque()
        self.gathered: list[Feedback] = []
        self.unanswered: dict[int, DrawnBatch] = {}
        self.skipped = 0

    def expect(self, number: int, batch: DrawnBatch) -> None:
        """Note that a batch was handed out."""
        remember(self.unanswered, number, batch)

    def give(self, draw: TensorDraw, losses: Any, due: int, skip_nonfinite: bool) -> None:
        """Take the losses of a batch, which count from batch `due` on."""
        copied = copy_losses(draw, losses, skip_nonfinite)
        late = callable(copied)
        self.arriving.append(_Arriving(due, draw.number, draw.ticket, copied, skip_nonfinite, late))
        self.unanswered.pop(draw.number, None)

    def learn(self, number: int) -> None:
        """Feed the samplers everything that is due when batch `number` is drawn."""
        self.gather(number)
        due = [feedback for feedback in self.gathered if feedback.due <= number]
        self.gathered = self.gathered[len(due) :]  # it is sorted by due
        for _, parts in groupby(due, key=attrgetter("due", "number")):
            self._processes.learn(list(parts))

    def gather(self, number: float, saving: bool = False) -> None:
        """Share what is due at batch `number` with the other processes, and check what was late.

        Bad losses raise an error. They are dropped, and everything else is kept.
        """
        self.gathered += self._processes.share(self._arrived(number), saving)
        # stable: what one process gave for one batch stays in the order it was given
        self.gathered.sort(key=attrgetter("due", "number", "rank"))
        for k, feedback in enumerate(self.gathered):
            if feedback.late:
                try:
                    _check_losses(feedback.losses, feedback.draw, feedback.number)
                except ValueError:
                    del self.gathered[k]
                    raise
                feedback.late = False

    def _arrived(self, number: float) -> list[Feedback]:
        """Take out what was given in this process and is due, waiting for devices if needed."""
        arrived = []
        while self.arriving and self.arriving[0].due <= number:
            given = self.arriving.popleft()
            draw, losses = given.draw, given.losses
            if callable(losses):
                losses = losses()
            if given.skip_nonfinite and not np.isfinite(losses).all():
                finite = np.isfinite(losses)
                self.skipped += int(len(losses) - finite.sum())
                draw, losses = draw[finite], losses[finite]
                if not len(losses):
                    continue
            arrived.append(
                Feedback(
                    due=given.due, number=given.number, draw=draw, losses=losses, late=given.late
                )
            )
        return arrived

    def __getstate__(self) -> dict[str, Any]:
        """Return what a pickle holds: losses on a device are waited for, and stay unchecked."""
        arriving = deque(
            given._replace(losses=given.losses()) if callable(given.losses) else given
            for given in self.arriving
        )
        return {**vars(self), "arriving": arriving}


def copy_losses(
    draw: TensorDraw, losses: Any, skip_nonfinite: bool = False
) -> NDArray[np.float64] | Callable[[], NDArray[np.float64]]:
    """Copy losses; return them as a float64 array, or a function that waits for them.

    Losses in host memory are checked. Those on a CUDA device are copied to pinned memory, in the
    order of the device's work; those on another device are copied on the device.
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
    _check_losses(array, draw.ticket, draw.number, skip_nonfinite)
    return array


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


def _check_losses(
    losses: NDArray[np.float64], draw: Draw, number: int, skip_nonfinite: bool = False
) -> None:
    """Refuse losses that are negative or not finite, naming batch, item and value.

    With `skip_nonfinite`, those that are not finite pass: they are left out later.
    """
    # the minimum is NaN if any value is
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
