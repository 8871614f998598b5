"""Feedback between the call of `update` and the batch from which on it counts."""

from collections import deque
from collections.abc import Callable
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.draws import Draw
from tombola.torch.losses import check_losses, copy_losses
from tombola.torch.messages import Feedback
from tombola.torch.processes import DrawnBatch, Processes
from tombola.torch.tensor_draw import TensorDraw

__all__ = ["MOST_UNANSWERED", "FeedbackQueue"]

MOST_UNANSWERED = 256  # batches without feedback that are remembered


class _Arriving(NamedTuple):
    """Feedback that was given in this process; its losses may still be on a device."""

    due: int
    number: int
    draw: Draw
    losses: Callable[[], NDArray[np.float64]]
    skip_nonfinite: bool


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
        self.unanswered[number] = batch
        if len(self.unanswered) > MOST_UNANSWERED:
            del self.unanswered[next(iter(self.unanswered))]

    def give(self, draw: TensorDraw, losses: Any, due: int, skip_nonfinite: bool) -> None:
        """Take the losses of a batch, which count from batch `due` on."""
        copied = copy_losses(draw, losses, skip_nonfinite)
        self.arriving.append(_Arriving(due, draw.number, draw.ticket, copied, skip_nonfinite))
        self.unanswered.pop(draw.number, None)

    def learn(self, number: int) -> None:
        """Feed the samplers everything that is due when batch `number` is drawn."""
        self.gather(number)
        due = [feedback for feedback in self.gathered if feedback.due <= number]
        self.gathered = self.gathered[len(due) :]  # it is sorted by due
        for _, parts in groupby(due, key=attrgetter("due", "number")):
            self._processes.learn(list(parts))

    def gather(self, number: float, saving: bool = False) -> None:
        """Share what is due at batch `number` with the other processes, and check it.

        Bad losses raise an error. They are dropped, and everything else is kept.
        """
        self.gathered += self._processes.share(self._arrived(number), saving)
        # stable: what one process gave for one batch stays in the order it was given
        self.gathered.sort(key=attrgetter("due", "number", "rank"))
        for k, feedback in enumerate(self.gathered):
            try:
                check_losses(feedback.losses, feedback.draw, feedback.number)
            except ValueError:
                del self.gathered[k]
                raise

    def _arrived(self, number: float) -> list[Feedback]:
        """Take out what was given in this process and is due, waiting for devices if needed."""
        arrived = []
        while self.arriving and self.arriving[0].due <= number:
            given = self.arriving.popleft()
            draw, losses = given.draw, given.losses()
            if given.skip_nonfinite and not np.isfinite(losses).all():
                finite = np.isfinite(losses)
                self.skipped += int(len(losses) - finite.sum())
                draw, losses = draw[finite], losses[finite]
                if not len(losses):
                    continue
            arrived.append(Feedback(due=given.due, number=given.number, draw=draw, losses=losses))
        return arrived
