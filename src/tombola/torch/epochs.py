"""Epochs: batches are numbered, drawn, possibly ahead, and handed out.

Batches are numbered 0, 1, 2, ... over the life of a loader, across epochs. One rule says what
a batch is based on: **batch t is drawn with all feedback that was given before batch t - lag was
handed out.** If the loop gives feedback for each batch before it takes the next one, these are
the losses of batches 0 to t - lag - 1.

A loader with workers draws K = num_workers * prefetch_factor batches ahead, so feedback cannot
count before K further batches are drawn. With lag >= K it does not matter how many of them are
really drawn ahead, nor how fast the workers are: draws depend on the feedback alone. A lag of
K + 1 leaves losses on a device one step to arrive on the host.
"""

import time
from collections.abc import Iterator
from typing import Any

from tombola.state import Document, Scope, count, flag, integer
from tombola.torch.communication import world_size
from tombola.torch.feedback import FeedbackQueue
from tombola.torch.monitoring import Stopwatch
from tombola.torch.numbered import Indices, NumberedBatch
from tombola.torch.processes import DrawnBatch, Processes
from tombola.torch.tensor_draw import TensorDraw

__all__ = ["Epochs", "Position"]

_END = object()


class Position(Document):
    """How far drawing and handing out have come."""

    handed: int = count("batches handed out", default=0)
    drawn: int = integer(
        "batches drawn, which is the number of the next one", "handed", "handed + lag + 1",
        default=0,
    )  # fmt: skip
    left: int = integer(
        "items of this epoch that are not drawn yet, over all processes", 0, "longest", default=0
    )
    open: bool = flag("whether an epoch has begun and is not over", default=False)
    epoch: int = count("epochs that are over", default=0)

    def fault(self, scope: Scope) -> str:
        """Return what is wrong with an epoch that is open, or over."""
        waiting = self.drawn > self.handed
        if self.open and self.left == 0 and not waiting:
            return "open is True and left is 0: after its last batch, an epoch is over"
        if not self.open and waiting:
            return (
                f"open is False, but of {self.drawn} batches drawn {self.handed} are handed out: "
                "an epoch is over after its last batch"
            )
        return ""


class Epochs:
    """The batch sampler of a loader: it yields the indices of each batch of an epoch.

    Parameters
    ----------
    n, batch_size, lag, drop_last
        As for `ImportanceLoader`.
    processes : Processes
    feedback : FeedbackQueue
    stopwatch : Stopwatch
        Adds up the time of draws and of feedback.
    before_group : bool
        Whether other processes were looked for before torch.distributed was initialised.
    """

    def __init__(
        self,
        n: int,
        batch_size: int,
        lag: int,
        drop_last: bool,
        processes: Processes,
        feedback: FeedbackQueue,
        stopwatch: Stopwatch,
        before_group: bool,
    ) -> None:
        self.longest = max(n, processes.epoch_length())
        self._batch_size = batch_size
        self._lag = lag
        self._global_size = batch_size * processes.world
        self._smallest_rest = self._global_size if drop_last else 1
        self._processes = processes
        self._feedback = feedback
        self._stopwatch = stopwatch
        self._before_group = before_group
        self.position = Position()
        self.waiting: dict[int, DrawnBatch] = {}  # drawn and not handed out, by number
        self._fresh = False  # whether nothing of this epoch is drawn yet
        self._continues = False  # whether the next iteration continues the epoch that is open
        self._iteration = 0  # the number of iterations begun; a new one ends those before
        self._paired = False  # whether `batches` runs, which pairs batches with their draws

    def __len__(self) -> int:
        """Return the number of batches in an epoch; in this one, if epochs vary."""
        return (
            self._processes.epoch_length() + self._global_size - self._smallest_rest
        ) // self._global_size

    def __iter__(self) -> Iterator[Indices]:
        """Draw the batches of an epoch, each when it is asked for."""
        self._begin()
        iteration = self._iteration
        for number, batch in list(self.waiting.items()):
            self._check_iteration(iteration)
            yield Indices(batch.part.indices.tolist(), number)
        while self.position.left >= self._smallest_rest:
            self._check_iteration(iteration)
            try:
                number, batch = self.draw_next()
            except ValueError as error:
                self._continues = True
                raise ValueError(f"{error}. A new iteration continues this epoch") from None
            yield Indices(batch.part.indices.tolist(), number)

    def _check_iteration(self, iteration: int) -> None:
        if iteration != self._iteration:
            raise RuntimeError(
                "a new iteration has begun, or a state was loaded, which ended this one"
            )

    def _begin(self) -> None:
        """Begin an epoch, or continue the one of a state."""
        if self._before_group and world_size() > 1:
            raise RuntimeError(
                "torch.distributed was initialised after this was made, so each process would "
                "draw the same: make it after init_process_group, or pass distributed=None"
            )
        if not self._paired:
            raise RuntimeError(
                "batches are asked for without their draws, so that no loss could be fed back: "
                "iterate over sampler.batches(loader). A framework that takes batches from a "
                "loader itself needs an ImportanceLoader, not a DataLoader with this sampler"
            )
        self._iteration += 1
        if not (self.position.open and self._continues):
            if self.position.open:
                self._abandon()
            self.position.left = self._processes.epoch_length()
            self._fresh = True
        self.position.open, self._continues = True, False
        self._stopwatch.begin()

    def _abandon(self) -> None:
        """End an epoch early: draw and drop all batches that may have been drawn ahead.

        So later draws do not depend on how far ahead a loader was.
        """
        position = self.position
        while position.left >= self._smallest_rest and position.drawn < position.handed + self._lag:
            self.draw_next()
        self.waiting.clear()
        position.handed = position.drawn
        position.epoch += 1

    def draw_next(self) -> tuple[int, DrawnBatch]:
        """Learn what is due and draw the next batch; return its number and the batch."""
        position, number = self.position, self.position.drawn
        if number - self._lag > position.handed:
            raise RuntimeError(
                f"batch {number} is asked for while only {position.handed} batches have been "
                f"handed out, so it cannot know of losses up to lag={self._lag} batches before: "
                "something draws further ahead. Declare a larger lag (num_workers * "
                "prefetch_factor, and what a framework adds); where a whole epoch is drawn in "
                "advance, nothing can adapt"
            )
        start = time.perf_counter()
        self._feedback.learn(number)
        # of equal size on each process, and with items from each shard
        rest = -(-position.left // self._processes.world)
        size = max(self._processes.smallest_batch, min(self._batch_size, rest))
        batch = self.waiting[number] = self._processes.draw(size)
        position.drawn += 1
        if self._fresh:  # the first draw of an epoch decides on its length
            position.left, self._fresh = self._processes.epoch_length(), False
        position.left = max(0, position.left - size * self._processes.world)
        self._stopwatch.seconds += time.perf_counter() - start
        return number, batch

    def batches(self, loader: Any) -> Iterator[tuple[Any, TensorDraw]]:
        """Iterate over a loader of `Numbered` data: each batch, and how it was drawn."""
        self._paired = True
        try:
            coming = iter(loader)
            numbered = next(coming, _END)
        finally:
            self._paired = False
        iteration = self._iteration
        while numbered is not _END:
            if not isinstance(numbered, NumberedBatch):
                raise TypeError(
                    "the batches of the loader have no number: it needs "
                    "DataLoader(numbered, batch_sampler=sampler, collate_fn=numbered.collate) "
                    "with numbered = tombola.torch.Numbered(dataset)"
                )
            self._check_iteration(iteration)  # the number may be that of another draw
            yield numbered.batch, self.hand_out(numbered.number)
            numbered = next(coming, _END)

    def hand_out(self, number: int) -> TensorDraw:
        """Return the draw of a batch that is handed out now; after the last, the epoch is over."""
        batch, position = self.waiting.pop(number, None), self.position
        if batch is None:
            raise RuntimeError(
                f"batch {number} is not waiting: it was handed out before, or belongs to an "
                "iteration that a new one has ended"
            )
        position.handed += 1
        # a framework does not ask for one batch more than there are
        if not self.waiting and position.left < self._smallest_rest:
            position.open = False
            position.epoch += 1
        self._feedback.expect(number, batch)
        return TensorDraw(batch.part, number, batch.shares, len(self._processes.shards))

    def resume(self, position: Position, waiting: dict[int, DrawnBatch]) -> None:
        """Take the position and the waiting batches of a state; any iteration ends."""
        self.position, self.waiting = position, waiting
        self._continues, self._fresh = True, False
        self._iteration += 1
