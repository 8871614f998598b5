"""Batches that are drawn on the host: numbered, drawn, possibly ahead, loaded and handed out.

Batches are numbered 0, 1, 2, ... over the life of a loader, across epochs. One rule says what
a batch is based on: **batch t is drawn with all feedback that was given before batch t - lag was
handed out.** If the loop gives feedback for each batch before it takes the next one, these are
the losses of batches 0 to t - lag - 1.

A loader with workers draws K = num_workers * prefetch_factor batches ahead, so feedback cannot
count before K further batches are drawn. With lag >= K it does not matter how many of them are
really drawn ahead, nor how fast the workers are: draws depend on the feedback alone. A lag of
K + 1 leaves losses on a device one step to arrive on the host.

A batch that the dataset fails to load counts as handed out. When a new iteration begins, the one
in progress is abandoned: all that may have been drawn ahead for it is drawn and counts as handed
out, so that later draws do not depend on how far ahead a loader was. Its iterator may go on: it
has these batches, and draws more, which count as handed out when they are drawn.
"""

import time
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.samplers.epoch_vrb import draws_in
from tombola.torch.communication import find_connection
from tombola.torch.loader.base import Batches, Iteration
from tombola.torch.loader.checkpoints import resume, take
from tombola.torch.loader.dataset import Indices, NumberedBatch
from tombola.torch.loader.drawing import DrawnBatch, make_processes
from tombola.torch.loader.feedback import FeedbackQueue
from tombola.torch.loader.settings import Settings
from tombola.torch.tensor_draw import TensorDraw
from tombola.validation import whole

__all__ = ["HostBatches"]

# The latest iterator of each loader, as long as it lives: its workers end with it.
_LATEST: "weakref.WeakKeyDictionary[HostBatches, weakref.ref[PairedBatches]]" = (
    weakref.WeakKeyDictionary()
)


class HostBatches(Batches):
    """Draws batches on the host: the batch sampler of a `DataLoader`.

    Attributes
    ----------
    processes : Processes
        What this process draws and learns, alone or with others.
    feedback : FeedbackQueue
    handed, drawn : int
        The number of batches handed out, and drawn, which is the number of the next one.
    longest : int
        The largest number of items that an epoch may have.
    """

    def __init__(self, settings: Settings) -> None:
        connection = find_connection(settings.distributed, settings.process_group)
        super().__init__(settings, connection.world)
        self.lag, n, share = settings.first_lag, settings.n, settings.share
        shards = connection.world if settings.shards is None else settings.shards
        connection.require_equal(
            {
                "number of items": n,
                "batch_size": settings.batch_size,
                "lag": self.lag,
                "drop_last": settings.drop_last,
                "number of draws in an epoch": n if share is None else draws_in(share, n),
                # else processes would wait for each other
                "num_workers * prefetch_factor": settings.ahead,
                "shards": whole("shards", shards, 1),
            }
        )
        self.processes = make_processes(connection, settings)
        self.feedback = FeedbackQueue(self.processes)
        self.samplers = [shard.sampler for shard in self.processes.shards]
        self.first = self.processes.shards[0].start
        self.longest = max(n, self.processes.epoch_length())
        self.handed = self.drawn = 0
        self.paired = False  # whether `PairedBatches` asks, which pairs batches with their draws

    def epoch_length(self) -> int:
        """Return the number of items in an epoch; in this one, if epochs vary."""
        return self.processes.epoch_length()

    def batches(self, source: Any) -> Iterator[tuple[Any, TensorDraw]]:
        """Iterate over a loader of `Numbered` data: each batch, and how it was drawn."""
        return PairedBatches(self, source)

    def __iter__(self) -> Iterator[Indices]:
        """Yield the items of each batch of an epoch, which are drawn when they are asked for."""
        iteration = self.begin()
        last = -1
        while True:
            self.require_running(iteration)
            # what a state held, or was drawn when the iteration was abandoned, comes first
            number = next((number for number in iteration.waiting if number > last), None)
            if number is None and iteration.left < self._smallest_rest:
                return
            if number is None:
                number = self._draw_for(iteration)
            last = number
            yield Indices(iteration.waiting[number].part.indices.tolist(), number)

    def begin(self) -> Iteration:
        """Begin an epoch, or continue the one of a state."""
        if not self.paired:
            raise RuntimeError(
                "batches are asked for without their draws, so that no loss could be fed back: "
                "iterate over sampler.batches(loader). A framework that takes batches from a "
                "loader itself needs an ImportanceLoader, not a DataLoader with this sampler"
            )
        return super().begin()

    def abandon(self) -> None:
        """End an epoch early: draw all batches that may have been drawn ahead."""
        while self.current.left >= self._smallest_rest and self.drawn < self.handed + self.lag:
            self.draw_next()
        self.handed = self.drawn
        super().abandon()

    def _draw_for(self, iteration: Iteration) -> int:
        """Draw a batch; after bad feedback, the next iteration continues the current one."""
        try:
            return self.draw_next(iteration)
        except ValueError as error:
            if iteration is not self.current:
                raise
            self._continues = True
            raise ValueError(f"{error}. A new iteration continues this epoch") from None

    def draw_next(self, iteration: Iteration | None = None) -> int:
        """Learn what is due and draw the next batch of an iteration; return its number."""
        iteration, number = iteration or self.current, self.drawn
        if number - self.lag > self.handed:
            raise RuntimeError(
                f"batch {number} is asked for while only {self.handed} batches have been "
                f"handed out, so it cannot know of losses up to lag={self.lag} batches before: "
                f"something draws further ahead. Declare a larger lag, {number - self.handed} or "
                "more (num_workers * prefetch_factor, and what a framework adds); if a whole epoch "
                "is drawn in advance, nothing can adapt"
            )
        start = time.perf_counter()
        self.feedback.learn(number)
        world = self.processes.world
        # of equal size on each process, and with items from each shard
        size = min(self.settings.batch_size, -(-iteration.left // world))
        size = max(self.processes.smallest_batch, size)
        iteration.waiting[number] = self.processes.draw(size)
        self.drawn += 1
        self.handed += iteration is not self.current
        if iteration.fresh:  # the first draw of an epoch decides on its length
            iteration.left, iteration.fresh = self.processes.epoch_length(), False
        iteration.left = max(0, iteration.left - size * world)
        self.stopwatch.seconds += time.perf_counter() - start
        return number

    def hand_out(self, iteration: Iteration, number: int) -> DrawnBatch:
        """Return a batch that is loaded, or failed to; after the last, the epoch is over."""
        batch: DrawnBatch | None = iteration.waiting.pop(number, None)
        if batch is None:
            raise RuntimeError(
                f"batch {number} is not waiting: it was handed out before, or belongs to an "
                "iteration that a new one has ended"
            )
        self.handed += iteration is self.current
        self.end_if_over(iteration)  # a framework does not ask for one batch more than there are
        return batch

    def give(self, draw: TensorDraw, losses: Any, skip_nonfinite: bool) -> None:
        """Take the losses of a batch, which count `lag` batches after the next one."""
        if draw.ticket.n != self.settings.n:
            raise ValueError(
                f"the draw is over {draw.ticket.n} items, this is over {self.settings.n}"
            )
        self.feedback.give(draw, losses, self.handed + self.lag, skip_nonfinite)

    def tensor_draw(self, number: int, batch: DrawnBatch) -> TensorDraw:
        """Return the draw that goes with a batch."""
        return TensorDraw(batch.part, number, batch.shares, len(self.processes.shards))

    @property
    def unanswered(self) -> list[TensorDraw]:
        """Batches that were handed out and have no feedback."""
        return [self.tensor_draw(*kept) for kept in self.feedback.unanswered.items()]

    @property
    def skipped(self) -> int:
        """The number of losses of this process that were left out."""
        return self.feedback.skipped

    def counts(self) -> NDArray[np.int32]:
        """Return how often each item of this process was drawn."""
        return np.concatenate([shard.counts for shard in self.processes.shards])

    def check(self) -> None:
        """Do nothing: errors of feedback are raised by `update`, or by the iteration."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state; all processes take theirs at once."""
        self.require_one_iteration()
        return take(self)

    def load_state_dict(self, state: Any) -> None:
        """Continue from a state, or from a list of those of all processes."""
        resume(self, state if isinstance(state, (list, tuple)) else [state])


class PairedBatches(Iterator[tuple[Any, TensorDraw]]):
    """Iterates over a loader of `Numbered` data: each batch, and how it was drawn.

    As with a `DataLoader`, an exception of the dataset does not end it: the batch is lost, and the
    next one follows. Any other error does.
    """

    def __init__(self, host: HostBatches, loader: Any) -> None:
        self._host, self._loader = host, loader
        self._coming: Any = None  # the iterator over the loader, once it has begun
        self._iteration: Iteration | None = None
        self._over = False

    def __next__(self) -> tuple[Any, TensorDraw]:
        if self._over:
            raise StopIteration
        try:
            numbered, iteration = self._next()
            batch = self._host.hand_out(iteration, numbered.number)
        except BaseException:
            self._over = True
            raise
        data = numbered.opened()
        self._host.feedback.expect(numbered.number, batch)
        return data, self._host.tensor_draw(numbered.number, batch)

    def _next(self) -> tuple[NumberedBatch, Iteration]:
        """Return the next batch that the loader has, and the iteration that it belongs to."""
        host = self._host
        if self._iteration is None:
            host.paired = True
            try:
                self._coming = iter(self._loader)
                numbered = next(self._coming)
            finally:
                host.paired = False
            reference: Any = _LATEST.get(host)
            before, self._iteration = reference and reference(), host.current
            shared = before is not None and before._coming is self._coming
            if shared and before._iteration is not self._iteration:
                before._iteration.life = -1  # workers that persist serve one iteration at a time
            _LATEST[host] = weakref.ref(self)
        else:
            host.require_running(self._iteration)
            numbered = next(self._coming)
        if not isinstance(numbered, NumberedBatch):
            raise TypeError(
                "the batches of the loader have no number: it needs "
                "DataLoader(numbered, batch_sampler=sampler, collate_fn=numbered.collate) "
                "with numbered = tombola.torch.Numbered(dataset)"
            )
        return numbered, self._iteration
