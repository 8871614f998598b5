"""Feedback, from `update` to the first batch drawn with it, across all processes.

Losses are checked once: in host memory by `update`, from a device when they have arrived and all
processes have them, so that all raise the same error.
"""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tombola.draws import Draw
from tombola.state import Document, Floats, array, count, derived, integer, nested
from tombola.torch.communication import Connection
from tombola.torch.tensor_draw import TensorDraw, wrong_shape

if TYPE_CHECKING:
    from tombola.torch.loader.drawing import Processes

__all__ = ["Feedback", "FeedbackQueue", "share_feedback"]

_OF_A_BATCH = attrgetter("due", "number")
_IN_ORDER = attrgetter("due", "number", "rank")


class Feedback(Document):
    """The losses of a batch, or of a part of it."""

    due: int = integer(
        "the number of the first batch that is drawn with it", 0, "position.handed + lag"
    )
    number: int = count("the batch that the losses belong to")
    draw: Draw = nested("the items", Draw)
    losses: Any = array("their losses", 0.0, dtype=np.float64, shape=("draw.indices.size",))
    rank: int = count("the process that gave it", default=0)
    late: bool = derived("whether losses came from a device and are not checked", default=False)

    def part(self, key: Any, rank: int = 0) -> "Feedback":
        """Return the feedback of some of the items, given by a process."""
        return Feedback(
            due=self.due, number=self.number, draw=self.draw[key], losses=self.losses[key],
            rank=rank, late=self.late,
        )  # fmt: skip

    def arrive(self) -> None:
        """Wait for losses from a device; until then, `losses` is a function that does."""
        if callable(self.losses):
            self.losses = self.losses()


class FeedbackQueue:
    """Holds feedback until it is due, and then feeds it to the samplers."""

    def __init__(self, processes: "Processes") -> None:
        self._processes = processes
        # of this process and not due, and whether losses that are not finite are left out
        self.given: deque[tuple[Feedback, bool]] = deque()
        self.gathered: list[Feedback] = []  # shared by all processes and not due
        self.skipped = 0  # losses that were left out

    def give(self, draw: TensorDraw, losses: Any, due: int, skip_nonfinite: bool) -> None:
        """Take the losses of a batch, which count from batch `due` on."""
        copied = copy_losses(draw, losses, skip_nonfinite)
        feedback = Feedback(
            due=due, number=draw.number, draw=draw.ticket, losses=copied, late=callable(copied)
        )
        self.given.append((feedback, skip_nonfinite))

    def learn(self, number: int) -> None:
        """Feed the samplers everything that is due when batch `number` is drawn."""
        self.gather(number)
        due = [feedback for feedback in self.gathered if feedback.due <= number]
        self.gathered = self.gathered[len(due) :]  # it is sorted by due
        for _, parts in groupby(due, key=_OF_A_BATCH):
            self._processes.learn(list(parts))

    def gather(self, number: float, saving: bool = False) -> None:
        """Share feedback due at batch `number` with the other processes; check losses from devices.

        Bad losses raise an error. They are dropped, and everything else is kept.
        """
        self.gathered += self._processes.share(self._arrived(number), saving)
        # stable: feedback of one process for one batch stays in the order it was given
        self.gathered.sort(key=_IN_ORDER)
        for k, feedback in enumerate(self.gathered):
            if feedback.late:
                try:
                    _check_losses(feedback.losses, feedback.draw, feedback.number)
                except ValueError:
                    del self.gathered[k]
                    raise
                feedback.late = False

    def _arrived(self, number: float) -> list[Feedback]:
        """Take out the feedback of this process that is due, waiting for devices if needed."""
        arrived = []
        while self.given and self.given[0][0].due <= number:
            feedback, skip_nonfinite = self.given.popleft()
            if feedback.late:
                feedback.arrive()
            if skip_nonfinite and not (finite := np.isfinite(feedback.losses)).all():
                self.skipped += int((~finite).sum())
                feedback = feedback.part(finite)
                if not finite.any():
                    continue
            arrived.append(feedback)
        return arrived

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickle: losses on a device are waited for, and stay unchecked."""
        for feedback, _ in self.given:
            feedback.arrive()
        return vars(self)


def copy_losses(
    draw: TensorDraw, losses: Any, skip_nonfinite: bool = False
) -> Floats | Callable[[], Floats]:
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


def _copy_from_device(losses: Tensor) -> Callable[[], Floats]:
    if losses.device.type != "cuda":
        kept = losses.clone()  # the caller may overwrite the tensor
        return lambda: kept.to("cpu").to(torch.float64).numpy()  # not all devices have float64
    host = torch.empty(losses.shape, dtype=losses.dtype, pin_memory=True)
    host.copy_(losses, non_blocking=True)
    copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
    copied.record(torch.cuda.current_stream(losses.device))

    def wait() -> Floats:
        copied.synchronize()
        return host.to(torch.float64).numpy()

    return wait


def _check_losses(losses: Floats, draw: Draw, number: int, skip_nonfinite: bool = False) -> None:
    """Refuse losses that are negative or not finite, naming batch, item and value.

    With `skip_nonfinite`, those that are not finite pass: they are left out later.
    """
    # NaN if any value is
    least, most = np.minimum.reduce(losses, initial=0.0), np.maximum.reduce(losses, initial=0.0)
    if least >= 0.0 and most < np.inf:
        return
    good = (losses >= 0.0) & (losses < np.inf)
    if skip_nonfinite:
        good |= ~np.isfinite(losses)
    j = int(np.argmin(good))
    if not good[j]:
        raise ValueError(
            f"losses[{j}] of batch {number} is {losses[j]} (item {draw.indices[j]}): "
            "losses must be finite and not negative"
            + ("" if np.isfinite(losses[j]) else "; skip_nonfinite=True leaves such items out")
        )


def share_feedback(
    connection: Connection,
    feedback: Sequence[Feedback],
    width: int,
    progress: int,
    saving: bool = False,
) -> list[Feedback]:
    """Return the feedback of all processes: the same on each, with the rank that gave it.

    It takes one message of `width` items per process, and more if a process has feedback for
    several batches or more items. All must call it for the same purpose, `saving` a state or
    drawing a batch, and with the same `progress`, a checksum of everything drawn so far.
    """
    assert connection.gather is not None
    own = [
        one.part(slice(k, k + width)) for one in feedback for k in range(0, len(one.draw), width)
    ]
    shared: list[Feedback] = []
    messages, k = 1, 0
    while k < messages:
        received = connection.gather(_packed(own, k, progress, width, saving))
        _require_same(received)
        messages = int(received[:, _MESSAGES].max())
        unpacked = [_unpacked(message, rank) for rank, message in enumerate(received)]
        shared += [piece for piece in unpacked if piece is not None]
        k += 1
    return shared


def _require_same(received: NDArray[np.int64]) -> None:
    """Raise an error if processes have not called the same, or have not drawn the same."""
    saving, progress = received[:, _SAVING], received[:, _PROGRESS]
    if other := int(np.argmax(saving != saving[0])):
        caller = 0 if saving[0] else other
        raise RuntimeError(
            "state_dict() must be called on all processes, after the same batch: rank "
            f"{caller} has called it, while rank {other - caller} asks for a batch"
        )
    if other := int(np.argmax(progress != progress[0])):
        raise RuntimeError(
            f"ranks 0 and {other} have not drawn the same: all processes need the same "
            "data, labels, sampler, seed and number of steps, and the state of a "
            "checkpoint on all of them or on none"
        )


# A message is int64[_HEAD + 4 * width]: the fields below, then items, probabilities, losses and
# tags (-1: none) of one piece of feedback. Probabilities and losses are the 64 bits of a float64,
# so that nothing is rounded on the way.
_MESSAGES, _PROGRESS, _SAVING, _DUE, _NUMBER, _LATE, _ROUND, _N, _SIZE, _HEAD = range(10)


def _packed(
    pieces: Sequence[Feedback], k: int, progress: int, width: int, saving: bool
) -> NDArray[np.int64]:
    """Return message k of a process; its size is 0 if the process has fewer."""
    message = np.zeros(_HEAD + 4 * width, dtype=np.int64)
    message[_MESSAGES], message[_PROGRESS], message[_SAVING] = len(pieces), progress, saving
    if k < len(pieces):
        draw = pieces[k].draw
        message[_DUE], message[_NUMBER] = pieces[k].due, pieces[k].number
        message[_LATE] = pieces[k].late
        message[_ROUND], message[_N], message[_SIZE] = draw.round, draw.n, len(draw)
        rows = message[_HEAD:].reshape(4, width)[:, : len(draw)]
        rows[0] = draw.indices
        rows[1] = draw.probabilities.view(np.int64)
        rows[2] = pieces[k].losses.view(np.int64)
        rows[3] = -1 if draw.tags is None else draw.tags
    return message


def _unpacked(message: NDArray[np.int64], rank: int) -> Feedback | None:
    """Return the feedback in the message of a process, if there is any."""
    size = int(message[_SIZE])
    if size == 0:
        return None
    items, probabilities, losses, tags = message[_HEAD:].reshape(4, -1)[:, :size].copy()
    coins = None if tags[0] < 0 else tags.astype(np.uint8)
    n, round = int(message[_N]), int(message[_ROUND])
    return Feedback(
        due=int(message[_DUE]), number=int(message[_NUMBER]),
        draw=Draw.made(items, probabilities.view(np.float64), n, round, coins),
        losses=losses.view(np.float64), rank=rank, late=bool(message[_LATE]),
    )  # fmt: skip
