"""The loader, and the bare sampler for loops that build their own `DataLoader`."""

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data import Sampler as TorchSampler

from tombola.samplers import Sampler
from tombola.torch.adaptive import AdaptiveBatches
from tombola.torch.labels import resolve_groups
from tombola.torch.numbered import Numbered
from tombola.torch.tensor_draw import TensorDraw
from tombola.validation import whole

__all__ = ["ImportanceLoader", "ImportanceSampler"]

# Arguments of a DataLoader that would replace the draws.
REFUSED = {
    "shuffle": "the sampler decides what is drawn; sampler='shuffle' deals shuffled epochs",
    "batch_sampler": "batches are drawn here; give a tombola sampler as `sampler`",
}


class ImportanceSampler(AdaptiveBatches, TorchSampler[list[int]]):
    """The bare batch sampler, for loops that build their own `DataLoader`.

    It is the loader without the loading: everything but the following is as in
    `ImportanceLoader`.

    Parameters
    ----------
    n : int
        The number of items.
    lag : int, default=1
        At least num_workers * prefetch_factor of the loader that it is given to (and what else
        draws ahead), otherwise drawing raises an error; one more where losses are on a device.

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
        lag: int = 1,
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
        super().__init__(
            whole("n", n, 1), batch_size, sampler, groups, seed, quantity, lag, drop_last,
            distributed, shards, process_group, share,
        )  # fmt: skip

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self._epochs)

    def batches(self, loader: Any) -> Iterator[tuple[Any, TensorDraw]]:
        """Iterate over a `DataLoader` of `Numbered` data: each batch, and how it was drawn."""
        drawing = getattr(loader, "batch_sampler", self)
        if drawing is not self:
            raise TypeError(
                f"the loader draws by a {type(drawing).__name__}, not by this sampler: give it "
                "batch_sampler=sampler, and do not hand it to a framework that puts a sampler of "
                "its own around it (Accelerate's prepare does, with several processes)"
            )
        return self._epochs.batches(loader)


class ImportanceLoader(AdaptiveBatches):
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

    For a `TensorDataset` on a CUDA device this makes a `DeviceLoader`, whose draws, batches and
    feedback stay there.

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
        default is one more, so that no device is waited for. Runs that should draw alike under
        different numbers of workers need the same lag.
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
        Those of all shards of this process, where it has several.
    skipped : int
        How many losses of this process were left out by ``update(..., skip_nonfinite=True)``.
    lag : int
    dataset : map-style dataset

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

    def __new__(
        cls, dataset: Any = None, batch_size: Any = 1, sampler: Any = "auto", **options: Any
    ) -> "ImportanceLoader":
        """Return a `DeviceLoader` where the data are on a device, and nothing needs the host."""
        from tombola.torch import device_loader

        if cls is ImportanceLoader and device_loader.serves(dataset, sampler, options):
            return object.__new__(device_loader.DeviceLoader)
        return object.__new__(cls)

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
        ahead = _drawn_ahead(**loader_options)
        lag = ahead + 1 if lag is None else whole("lag", lag, 0)
        if lag < ahead:
            workers = loader_options["num_workers"]
            raise ValueError(
                f"lag={lag} is too small: {workers} workers, {ahead // workers} batches each, draw "
                f"{ahead} batches before the first one is handed out, so no feedback can count "
                f"sooner; declare lag={ahead} or more, or use fewer workers"
            )
        groups = resolve_groups(groups, dataset, n)
        super().__init__(
            n, batch_size, sampler, groups, seed, quantity, lag, drop_last, distributed, shards,
            process_group, share, ahead,
        )  # fmt: skip
        numbered = Numbered(dataset, loader_options.pop("collate_fn", None))
        self.dataset = dataset
        self._loader: DataLoader[Any] = DataLoader(
            numbered,
            batch_sampler=self._epochs,
            collate_fn=numbered.collate,
            **loader_options,
        )
        self.num_workers = self._loader.num_workers

    def __iter__(self) -> Iterator[tuple[Any, TensorDraw]]:
        return self._epochs.batches(self._loader)

    @property
    def batch_sampler(self) -> NoReturn:
        """There is none that a framework could wrap or replace."""
        raise AttributeError(
            "an ImportanceLoader has no batch_sampler: a framework would put its own draws in "
            "place of ours, or skip batches to resume. Resume by load_state_dict (with Hugging "
            "Face's Trainer, under ignore_data_skip=True), and leave the loader out of prepare"
        )


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
