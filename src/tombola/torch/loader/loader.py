"""The loader, and the bare sampler for loops that build their own `DataLoader`."""

from collections.abc import Callable, Iterator
from typing import Any

from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data import Sampler as TorchSampler

from tombola.samplers import Sampler
from tombola.torch.loader.base import Batches, DatasetLoader, LoaderBase
from tombola.torch.loader.dataset import Numbered, WorkerInit
from tombola.torch.loader.device import DeviceBatches, serves
from tombola.torch.loader.host import HostBatches
from tombola.torch.loader.labels import resolve_groups
from tombola.torch.loader.settings import Settings
from tombola.torch.tensor_draw import TensorDraw
from tombola.validation import whole

__all__ = ["ImportanceLoader", "ImportanceSampler"]

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
    lag : int, optional
        By default 1. At least num_workers * prefetch_factor of the loader that it is given to (and
        what else draws ahead), otherwise drawing raises an error; one more if losses are on a
        device.

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

    def __init__(
        self,
        n: int,
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
    ) -> None:
        if isinstance(n, TorchSampler):  # Lightning makes a batch sampler again around its own
            raise TypeError(
                f"n is a {type(n).__name__}: a framework tries to draw in place of this sampler; "
                "give it an ImportanceLoader, which it leaves alone"
            )
        settings = Settings(
            n=whole("n", n, 1), batch_size=batch_size, sampler=sampler, groups=groups, seed=seed,
            quantity=quantity, lag=lag, drop_last=drop_last, distributed=distributed, shards=shards,
            process_group=process_group, share=share,
        )  # fmt: skip
        super().__init__(settings, HostBatches(settings))

    _batches: HostBatches

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
    groups : array-like of shape (n,) or "auto", optional
        The group of each item, for example its class label. `GroupVRB` shares what it learns
        within a group. "auto" takes the labels that the dataset has: ``dataset.targets`` or
        ``dataset.labels``, or the one tensor of whole numbers in a `TensorDataset`, and none
        if there are more than n/20 different ones. It says on stderr what it took.
    seed : int, default=0
        Same seed and same losses, same draws. No other generator influences them. Workers do not
        draw, so forked ones repeat nothing; a loader that is itself forked does: give each
        process a seed of its own, unless `distributed` divides the draws among them.
    quantity : str, default="loss"
        What is fed to `update`: "loss" or "gradient norm". The gauge reports it. With "loss", a
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
    **loader_options
        Other arguments of `DataLoader`: num_workers, prefetch_factor, pin_memory, collate_fn,
        persistent_workers, generator, worker_init_fn, timeout, multiprocessing_context,
        pin_memory_device, in_order.

    Attributes
    ----------
    sampler : Sampler
        The tombola sampler.
    samplers : list of Sampler
        Those of all shards of this process, if it has several.
    skipped : int
        How many losses of this process were left out by ``update(..., skip_nonfinite=True)``.
    lag : int
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
        **loader_options: Any,
    ) -> None:
        n = _count_items(dataset)
        for name, reason in REFUSED.items():
            if loader_options.pop(name, None):
                raise TypeError(f"{name} cannot be given: {reason}")
        on_device = serves(
            dataset, sampler, {"lag": lag, "distributed": distributed, "shards": shards,
                               "process_group": process_group, "share": share, **loader_options},
        )  # fmt: skip
        ahead = _drawn_ahead(**loader_options)
        if lag is not None and whole("lag", lag, 0) < ahead:
            workers = loader_options["num_workers"]
            raise ValueError(
                f"lag={lag} is too small: {workers} workers, {ahead // workers} batches each, draw "
                f"{ahead} batches before the first one is handed out, so no feedback can count "
                f"sooner; declare lag={ahead} or more, or use fewer workers"
            )
        settings = Settings(
            n=n, batch_size=batch_size, sampler=sampler, seed=seed, quantity=quantity, lag=lag,
            groups=resolve_groups(groups, dataset, n), drop_last=drop_last, shards=shards,
            distributed=distributed, process_group=process_group, share=share, ahead=ahead,
        )  # fmt: skip
        batches: Batches
        fixed: dict[str, Any] = {"dataset": dataset, "num_workers": 0}
        if on_device:
            batches, self._source = DeviceBatches(dataset, settings), dataset
            fixed["device"] = batches.device
        else:
            batches = HostBatches(settings)
            numbered = Numbered(dataset, loader_options.pop("collate_fn", None))
            loader_options["worker_init_fn"] = WorkerInit(loader_options.get("worker_init_fn"))
            self._source = DataLoader(
                numbered, batch_sampler=batches, collate_fn=numbered.collate, **loader_options
            )
            fixed["num_workers"] = self._source.num_workers
        super().__init__(settings, batches, **fixed)


def _count_items(dataset: Any) -> int:
    """Return the number of items, or say why the dataset cannot be drawn from."""
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__"):
        raise TypeError(
            f"{type(dataset).__name__} hands out items in its own order; drawing the ones that "
            "matter needs a map-style dataset, with len(dataset) and dataset[i]"
        )
    try:
        return len(dataset)
    except TypeError:
        raise TypeError(
            f"{type(dataset).__name__} has no len(); the number of items must be known to draw "
            "from them"
        ) from None


def _drawn_ahead(num_workers: Any = 0, prefetch_factor: Any = None, **others: Any) -> int:
    """Return how many batches the workers of a `DataLoader` draw ahead.

    Values that a `DataLoader` refuses count as 0 here.
    """
    factor = 2 if prefetch_factor is None else prefetch_factor  # the default of a DataLoader
    if not (isinstance(num_workers, int) and isinstance(factor, int)):
        return 0
    return max(0, num_workers) * max(0, factor)
