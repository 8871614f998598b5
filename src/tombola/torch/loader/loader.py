"""The loader and the bare sampler, and behind them batches that are drawn on the host.

Batches are numbered 0, 1, 2, ... over the life of a loader, across epochs. A loader with workers
draws K = num_workers * prefetch_factor of them ahead, so feedback cannot count before K further
batches are drawn. With lag >= K it does not matter how many of them are really drawn ahead, nor
how fast the workers are: draws depend on the feedback alone. A lag of K + 1 leaves losses on a
device one step to arrive on the host.

A batch that the dataset fails to load counts as handed out. When a new iteration begins, the one
in progress is abandoned: all that may have been drawn ahead for it is drawn and counts as handed
out, so that later draws do not depend on how far ahead a loader was. Its iterator may go on: it
has these batches, and draws more, which count as handed out when they are drawn.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import DataLoader
from torch.utils.data import Sampler as TorchSampler

from tombola.samplers import Sampler
from tombola.samplers.epoch_vrb import draws_in
from tombola.torch.communication import find_connection
from tombola.torch.loader.base import Batches, DatasetLoader, Iteration, LoaderBase, Settings
from tombola.torch.loader.checkpoints import resume, take
from tombola.torch.loader.dataset import (
    Indices,
    Numbered,
    NumberedBatch,
    WorkerInit,
    count_items,
)  # fmt: skip
from tombola.torch.loader.device import DeviceBatches, serves
from tombola.torch.loader.drawing import DrawnBatch, make_processes
from tombola.torch.loader.feedback import FeedbackQueue
from tombola.torch.loader.labels import resolve_groups
from tombola.torch.tensor_draw import TensorDraw
from tombola.validation import whole

__all__ = ["HostBatches", "ImportanceLoader", "ImportanceSampler"]

# Arguments of a DataLoader that would replace the draws.
REFUSED = {
    "shuffle": "the sampler decides what is drawn; sampler='shuffle' deals shuffled epochs",
    "batch_sampler": "batches are drawn here; give a tombola sampler as `sampler`",
}


class ImportanceSampler(LoaderBase, TorchSampler[list[int]]):
    """The bare batch sampler, for loops that build their own `DataLoader`.

    It is the loader without the loading: everything but the following is as in
    `ImportanceLoader`.

    Parameters
    ----------
    n : int
        The number of items.
    batch_size : int, default=1
    sampler : str, Sampler or callable, default="auto"
    lag : int, optional
        By default 1. At least num_workers * prefetch_factor of the loader that it is given to, plus
        batches that a framework draws ahead; otherwise drawing raises an error. One more if losses
        are on a device.
    **settings
        groups, seed, quantity, drop_last, distributed, shards, process_group and share.

    Examples
    --------
    >>> import torch
    >>> from torch.utils.data import DataLoader, TensorDataset
    >>> dataset = TensorDataset(torch.arange(100.0))
    >>> sampler = ImportanceSampler(len(dataset), batch_size=10, seed=1)
    >>> numbered = Numbered(dataset)
    >>> loader = DataLoader(numbered, batch_sampler=sampler, collate_fn=numbered.collate)
    >>> for (x,), draw in sampler.batches(loader):
    ...     sampler.update(draw, x)
    >>> len(loader), sampler.sampler.gauge.count
    (10, 80)
    """

    _batches: "HostBatches"

    def __init__(
        self,
        n: int,
        batch_size: int = 1,
        sampler: str | Sampler | Callable[..., Sampler] = "auto",
        *,
        lag: int | None = None,
        **settings: Any,
    ) -> None:
        if isinstance(n, TorchSampler):  # Lightning makes a batch sampler again around its own
            raise TypeError(
                f"n is a {type(n).__name__}: a framework tries to draw in place of this sampler; "
                "give it an ImportanceLoader, which it leaves alone"
            )
        asked = Settings(
            n=whole("n", n, 1), batch_size=batch_size, sampler=sampler, lag=lag, ahead=0, **settings
        )  # fmt: skip
        super().__init__(HostBatches(asked))

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self._batches)

    def batches(self, loader: Any) -> Iterator[tuple[Any, TensorDraw]]:
        """Iterate over a `DataLoader` of `Numbered` data: each batch, and how it was drawn."""
        drawing = getattr(loader, "batch_sampler", self)
        if drawing is not self:
            raise TypeError(
                f"the loader draws by a {type(drawing).__name__}, not by this sampler: give it "
                "batch_sampler=sampler, and do not hand it to a framework that puts a sampler of "
                "its own around it (Accelerate's prepare does, with several processes)"
            )
        return self._batches.batches(loader)


class ImportanceLoader(DatasetLoader):
    """Load batches of the examples that matter, and learn from their losses which those are.

    Like `torch.utils.data.DataLoader`, but each batch comes with its draw, which keeps estimates
    unbiased and leads the losses back. An epoch has as many batches as with a `DataLoader`, unless
    the sampler has an ``epoch_length`` of its own (`EpochVRB`, `InfoBatch`); the distribution
    changes from batch to batch, or from epoch to epoch.

    Batch t is drawn with all feedback that was given before batch t - lag was handed out: if
    feedback for each batch is given before the next one is taken, the losses of batches 0 to
    t - lag - 1. So neither timing nor the number of workers changes what is drawn (except under
    ``in_order=False``, where timing decides which batch comes next). Feedback may be missing;
    feedback that is late counts `lag` batches after the next batch. An epoch that is left early
    loses `lag` batches: they may have been drawn already.

    An exception of the dataset is raised as by a `DataLoader`: the batch is lost, and the iterator
    may go on with the next one. A new iteration abandons the one in progress, whose `lag` next
    batches are drawn at once; both iterators may go on, each with draws of its own from the one
    sampler, so that the number of workers then matters. Meanwhile `state_dict` is an error.

    With a `TensorDataset` on a CUDA device, draws, batches and feedback stay there, as with a
    `DeviceLoader`, if only batch_size, sampler ("auto", "vrb", "group-vrb", or a sampler on the
    device), groups, seed, quantity and drop_last are given, in one process or under
    ``distributed=None``. With any other option, batches are drawn on the host.

    Parameters
    ----------
    dataset : map-style dataset
        With ``len`` and items by number. Iterable datasets choose the order of items themselves
        and are refused.
    batch_size : int, default=1
        Of each process.
    sampler : str, Sampler or callable, default="auto"
        "auto" ("group-vrb" with `groups`, "vrb" without), "vrb", "group-vrb",
        "epoch-vrb" (shuffled epochs whose items are chosen, see `share`), "shuffle" (plain
        shuffled epochs), "uniform", "balanced" (groups equally often); a tombola sampler over
        ``len(dataset)`` items; or a function (n, seed, groups) that returns one.
    groups : array-like of shape (n,), "labels" or "auto", optional
        The group of each item, for example its class label. `GroupVRB` shares feedback within a
        group. "labels" takes those that the dataset has: ``dataset.targets`` or
        ``dataset.labels``, a column named label or target (Hugging Face), or the one tensor of
        whole numbers in a `TensorDataset`, also behind a `Subset` or a `ConcatDataset`; of several
        labels of an item, the rarest. It is an error if there are none, or more than n/20
        different ones; "auto" then takes no groups. The choice is printed on stderr.
    seed : int, default=0
        Same seed and same losses, same draws. No other generator influences them. Workers do not
        draw, so forked ones repeat nothing; a loader that is itself forked does: give each
        process a seed of its own, unless `distributed` divides the draws among them.
    quantity : str, default="loss"
        The kind of feedback: "loss" or "gradient norm". The gauge reports it. With "loss", a
        sampler that is passed in keeps its own quantity.
    lag : int, optional
        In batches. At least ``num_workers * prefetch_factor``, which are drawn ahead; the
        default is one more, so that no device is waited for, or that of a state that is loaded.
        Runs with different numbers of workers draw the same if they have the same lag.
    drop_last : bool, default=False
        Whether to leave out a last batch that is smaller.
    distributed : {"auto", "replicated", "sharded"} or None, default="auto"
        With several processes under torch.distributed. "replicated" (which "auto" chooses): the
        processes draw one global batch of world * batch_size together and share all feedback.
        "sharded": each draws from its own part of the items, for indexes too large to copy.
        None: this process draws on its own.
    shards : int, optional
        With "sharded": the number of shards, at least one per process (the default). Shards
        are never divided, so a run that may continue with more processes needs more of them.
    process_group : ProcessGroup, optional
        The processes that share the draws; by default all.
    share : float, optional
        The length of an epoch, over that of the dataset: ``share=0.7`` draws shuffled epochs of
        seven tenths of the items, chosen by `EpochVRB`, so that ``len(loader)``, and schedules
        that go by it, shrink. Below 1, no item comes twice in an epoch.
    **options
        Other arguments of `DataLoader`: num_workers, prefetch_factor, pin_memory, collate_fn,
        persistent_workers, generator, worker_init_fn, timeout, multiprocessing_context,
        pin_memory_device, in_order.

    Attributes
    ----------
    dataset : map-style dataset
    device : torch.device
        That of the data, if batches are drawn there; otherwise there is no such attribute.

    Examples
    --------
    >>> import torch
    >>> from torch.utils.data import TensorDataset
    >>> x = torch.arange(200.0)
    >>> loader = ImportanceLoader(TensorDataset(x), batch_size=20, lag=0)
    >>> for epoch in range(20):
    ...     for (x,), draw in loader:
    ...         losses = x**2
    ...         estimate = draw.mean(losses)     # unbiased; call .backward() on it
    ...         loader.update(draw, losses)
    >>> loader.sampler.gauge.second_moment_ratio < 0.7
    True
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        sampler: str | Sampler | Callable[..., Sampler] = "auto",
        *,
        groups: Any = None,
        seed: int = 0,
        quantity: str = "loss",
        lag: int | None = None,
        drop_last: bool = False,
        distributed: str | None = "auto",
        shards: int | None = None,
        process_group: Any = None,
        share: float | None = None,
        **options: Any,
    ) -> None:
        n = count_items(dataset)
        for name, reason in REFUSED.items():
            if options.pop(name, None):
                raise TypeError(f"{name} cannot be given: {reason}")
        host_only = {
            "lag": lag, "distributed": distributed, "shards": shards,
            "process_group": process_group, "share": share,
        }  # fmt: skip
        settings = Settings(
            n=n, batch_size=batch_size, sampler=sampler, seed=seed, quantity=quantity,
            groups=resolve_groups(groups, dataset, n), drop_last=drop_last,
            ahead=_drawn_ahead(**options), **host_only,
        )  # fmt: skip
        batches: Batches
        fixed: dict[str, Any] = {"dataset": dataset, "num_workers": 0}
        if serves(dataset, sampler, {**host_only, **options}):
            batches, self._source = DeviceBatches(dataset, settings), dataset
            fixed["device"] = batches.device
        else:
            batches = HostBatches(settings)
            numbered = Numbered(dataset, options.pop("collate_fn", None))
            options["worker_init_fn"] = WorkerInit(options.get("worker_init_fn"))
            self._source = DataLoader(
                numbered, batch_sampler=batches, collate_fn=numbered.collate, **options
            )
            fixed["num_workers"] = self._source.num_workers
        super().__init__(batches, **fixed)


def _drawn_ahead(num_workers: Any = 0, prefetch_factor: Any = None, **others: Any) -> int:
    """Return how many batches the workers of a `DataLoader` draw ahead.

    Values that a `DataLoader` refuses count as 0 here.
    """
    factor = 2 if prefetch_factor is None else prefetch_factor  # the default of a DataLoader
    if not (isinstance(num_workers, int) and isinstance(factor, int)):
        return 0
    return max(0, num_workers) * max(0, factor)


class HostBatches(Batches):
    """Draws batches on the host: the batch sampler of a `DataLoader`."""

    def __init__(self, settings: Settings) -> None:
        connection = find_connection(settings.distributed, settings.process_group)
        super().__init__(settings, connection.world)
        n, share = settings.n, settings.share
        self.lag = settings.ahead + 1 if settings.lag is None else settings.lag
        connection.require_equal(
            {
                "number of items": n,
                "batch_size": settings.batch_size,
                "lag": self.lag,
                "drop_last": settings.drop_last,
                "number of draws in an epoch": n if share is None else draws_in(share, n),
                # else processes would wait for each other
                "num_workers * prefetch_factor": settings.ahead,
                "shards": settings.shards or connection.world,
            }
        )
        self.processes = make_processes(connection, settings)
        self.feedback = FeedbackQueue(self.processes)
        self.samplers = [shard.sampler for shard in self.processes.shards]
        self.first = self.processes.shards[0].start
        self.handed = self.drawn = 0  # batches; `drawn` is the number of the next one
        self.paired = False  # whether `PairedBatches` asks, which pairs batches with their draws
        # The latest iteration that was paired, and the id of the iterator over its loader: one
        # with workers that persist is the same for all, and one that has ended may leave its id.
        self.served, self.server = self.current, 0

    def epoch_length(self) -> int:
        """Return the number of items in an epoch, of all processes; in this one, if epochs vary."""
        return self.processes.epoch_length()

    def batches(self, source: Any) -> Iterator[tuple[Any, TensorDraw]]:
        """Iterate over a loader of `Numbered` data: each batch, and how it was drawn."""
        return PairedBatches(self, source)

    def __iter__(self) -> Iterator[Indices]:
        """Yield the items of each batch of an epoch, which are drawn when they are asked for."""
        iteration = self.begin()
        last = -1
        while True:
            # batches of a state, and those drawn when the iteration was abandoned, come first
            number = next((number for number in iteration.waiting if number > last), None)
            if number is None:
                if iteration.left < self._smallest_rest:
                    return
                try:
                    number = self.draw_next(iteration)
                except ValueError as error:  # bad losses, which came from a device
                    if iteration is not self.current:
                        raise
                    self._continues = True
                    raise ValueError(f"{error}. A new iteration continues this epoch") from None
            last = number
            items = self.processes.part(iteration.waiting[number]).indices.tolist()
            yield Indices(items, number)

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
            self.draw_next(self.current)
        self.handed = self.drawn
        super().abandon()

    def draw_next(self, iteration: Iteration) -> int:
        """Learn from due feedback, draw the next batch of an iteration, and return its number."""
        number = self.drawn
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
        iteration.waiting[number] = self.processes.draw(number, size)
        self.drawn += 1
        self.handed += iteration is not self.current
        if iteration.fresh:  # the first draw of an epoch decides on its length
            iteration.left, iteration.fresh = self.epoch_length(), False
        iteration.left = max(0, iteration.left - size * world)
        self.seconds += time.perf_counter() - start
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

    def expect(self, batch: DrawnBatch) -> TensorDraw:
        """Return the draw of a batch, which is remembered until it has feedback."""
        part, shards = self.processes.part(batch), len(self.processes.shards)
        draw = TensorDraw(part, batch.number, batch.shares, shards)
        self.remember(draw)
        return draw

    def give(self, draw: TensorDraw, losses: Any, skip_nonfinite: bool) -> None:
        """Take the losses of a batch, which count `lag` batches after the next one."""
        if not isinstance(draw, TensorDraw):
            raise TypeError(f"draw must be the draw of a batch, got {type(draw).__name__}")
        if draw.n != self.settings.n:
            raise ValueError(f"the draw is over {draw.n} items, this is over {self.settings.n}")
        self.feedback.give(draw, losses, self.handed + self.lag, skip_nonfinite)
        self.unanswered.pop(draw.number, None)

    def check(self) -> None:
        """Do nothing: errors of feedback are raised by `update`, or by the iteration."""

    @property
    def skipped(self) -> int:
        """The number of losses of this process that were left out."""
        return self.feedback.skipped

    def counts(self) -> NDArray[np.int32]:
        """Return how often each item of this process was drawn."""
        return np.concatenate([shard.counts for shard in self.processes.shards])

    def state_dict(self) -> dict[str, Any]:
        """Return the state; all processes take theirs at once."""
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
        return data, self._host.expect(batch)

    def _next(self) -> tuple[NumberedBatch, Iteration]:
        """Return the next batch that the loader has, and the iteration that it belongs to."""
        host = self._host
        if self._iteration is not None:
            host.require_running(self._iteration)
            numbered = next(self._coming)
        else:
            host.paired = True
            try:
                self._coming = iter(self._loader)
                numbered = next(self._coming)
            finally:
                host.paired = False
            self._iteration = host.current
            if host.server == id(self._coming) and host.served is not self._iteration:
                host.served.life = -1  # workers that persist serve one iteration at a time
            host.served, host.server = self._iteration, id(self._coming)
        if not isinstance(numbered, NumberedBatch):
            raise TypeError(
                "the batches of the loader have no number: it needs "
                "DataLoader(numbered, batch_sampler=sampler, collate_fn=numbered.collate) "
                "with numbered = tombola.torch.Numbered(dataset)"
            )
        return numbered, self._iteration
