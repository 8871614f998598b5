"""The loader, and the bare sampler for those who build their own."""

import weakref
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, default_collate
from torch.utils.data import Sampler as TorchSampler

from tombola.samplers import Sampler
from tombola.torch.desk import Desk, Indices, NumberedBatch
from tombola.torch.tensor_draw import TensorDraw
from tombola.validation import whole

__all__ = ["ImportanceLoader", "ImportanceSampler", "Numbered"]

# What a DataLoader is given and what would make the draws somebody else's.
REFUSED = {
    "shuffle": "the sampler decides what is drawn; sampler='shuffle' deals shuffled epochs",
    "batch_sampler": "batches are drawn here; give a tombola sampler as `sampler`",
}


class Numbered(Dataset[Any]):
    """A dataset whose batches know their number, so that losses find their draw again.

    Batches are fetched and collated as `DataLoader` does it; those of a plain `TensorDataset`
    by one index for each tensor. Attributes are those of the dataset inside, for code in
    workers that reads or sets them (``get_worker_info().dataset``).

    Parameters
    ----------
    dataset : map-style dataset
    collate_fn : callable, optional
        What makes a batch of a list of items.
    """

    dataset: Any

    def __init__(self, dataset: Any, collate_fn: Callable[[list[Any]], Any] | None = None) -> None:
        collate_fn = default_collate if collate_fn is None else collate_fn
        plain = type(dataset) is TensorDataset and collate_fn is default_collate
        self.__dict__.update(dataset=dataset, _collate_fn=collate_fn, _plain=plain)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        return self.dataset[index]

    def __getitems__(self, indices: Indices) -> NumberedBatch:
        """Return the whole batch, collated, and its number."""
        if not isinstance(indices, Indices):
            raise TypeError(
                "these indices are not a batch of an ImportanceSampler: something else has drawn "
                "them, or cut its batches anew"
            )
        dataset = self.dataset
        if self._plain:
            at = torch.from_numpy(np.array(indices))
            batch = [t.index_select(0, at.to(t.device)) for t in dataset.tensors]
            return NumberedBatch(indices.number, batch)
        fetch = getattr(dataset, "__getitems__", None)
        items = fetch(list(indices)) if fetch else [dataset[index] for index in indices]
        return NumberedBatch(indices.number, self._collate_fn(items))

    @staticmethod
    def collate(batch: Any) -> Any:
        """Return the batch, which is collated: to be passed as `collate_fn`."""
        return batch

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "dataset" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.dataset, name, value)

    def __reduce__(self) -> Any:
        return Numbered, (self.dataset, self._collate_fn)


class _Lists:
    """The batch sampler of a loader's own `DataLoader`; no cycle keeps its workers alive."""

    def __init__(self, desk: Desk) -> None:
        self.desk = weakref.proxy(desk)

    def __iter__(self) -> Iterator[Indices]:
        lists: Iterator[Indices] = self.desk._index_lists()
        return lists

    def __len__(self) -> int:
        return len(self.desk)


class ImportanceSampler(Desk, TorchSampler[list[int]]):
    """The bare batch sampler, for those who build their own `DataLoader`.

    It is the loader without the loading: all but the following is as in `ImportanceLoader`.

    Parameters
    ----------
    n : int
        The number of items.
    lag : int, default=1
        At least num_workers * prefetch_factor of the loader it is given to (and what else
        draws ahead), else drawing raises an error; one more where losses are on a device.

    Examples
    --------
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
        sampler: str | Sampler | Callable[..., Sampler] = "vrb",
        *,
        groups: Any = None,
        seed: int = 0,
        lag: int = 1,
        drop_last: bool = False,
        distributed: str | None = "auto",
        shards: int | None = None,
        process_group: Any = None,
    ) -> None:
        if isinstance(n, TorchSampler):  # Lightning makes batch samplers anew, around its own
            raise TypeError(
                f"n is a {type(n).__name__}: a framework tries to draw in place of this sampler; "
                "give it an ImportanceLoader, which it leaves alone"
            )
        n = whole("n", n, 1)
        super().__init__(
            n, batch_size, sampler, groups, seed, lag, drop_last, distributed, shards, process_group
        )

    def __iter__(self) -> Iterator[list[int]]:
        return self._index_lists()

    def batches(self, loader: Any) -> Iterator[tuple[Any, TensorDraw]]:
        """Iterate over a `DataLoader` of `Numbered` data: each batch, and how it was drawn."""
        drawing = getattr(loader, "batch_sampler", self)
        if drawing is not self:
            raise TypeError(
                f"the loader draws by a {type(drawing).__name__}, not by this sampler: give it "
                "batch_sampler=sampler, and do not hand it to a framework that puts a sampler of "
                "its own around it (Accelerate's prepare does, with several processes)"
            )
        return super().batches(loader)


class ImportanceLoader(Desk):
    """Loads batches of the examples that matter, and learns from their losses which those are.

    As `torch.utils.data.DataLoader`, but each batch comes with its draw, which keeps estimates
    unbiased and takes the losses back. An epoch is as many batches as with a `DataLoader`; the
    distribution changes from batch to batch.

    Batch t is drawn with all feedback that was given before batch t - lag was handed out: if
    each batch is answered before the next one is taken, the losses of batches 0 to t - lag - 1.
    So neither timing nor the number of workers changes what is drawn (``in_order=False`` gives
    that up: which batch comes next is then a matter of timing). Feedback that never comes is not
    missed; feedback that comes late counts `lag` batches later than the next batch. An epoch
    that is broken off loses `lag` batches: they may have been drawn already.

    Parameters
    ----------
    dataset : map-style dataset
        With ``len`` and items by number. Iterable datasets hand out items in their own order and
        are refused.
    batch_size : int, default=1
        Of each process.
    sampler : str, Sampler or callable, default="vrb"
        "vrb" (with `groups` the same as "group-vrb"), "shuffle" (plain shuffled epochs),
        "uniform", "balanced" (groups equally often), "auto"; a tombola sampler over
        ``len(dataset)`` items; or a function (n, seed, groups) that returns one.
    groups : array-like of shape (n,), optional
        The group of each item, its class label say. What is learnt is shared within a group.
    seed : int, default=0
        Same seed and same losses, same draws. No other generator has a say in them.
    lag : int, optional
        In batches. At least ``num_workers * prefetch_factor``, which are drawn ahead; the
        default is one more, so that a device need not be waited for. Runs that should draw
        alike under different numbers of workers need the same lag.
    drop_last : bool, default=False
        Whether to leave out a last batch that is smaller.
    distributed : {"auto", "replicated", "sharded"} or None, default="auto"
        With several processes under torch.distributed. "replicated" (which "auto" chooses): the
        processes draw one global batch of world * batch_size together and share all feedback.
        "sharded": each draws from its own part of the items, for indexes too large to copy.
        None: this process draws on its own.
    shards : int, optional
        With "sharded": how many shards there are, at least one a process (the default). Shards
        are never cut, so a run that may go on with more processes needs more of them.
    process_group : ProcessGroup, optional
        The processes that share the draws; by default all.
    **loader_options
        What else `DataLoader` takes: num_workers, prefetch_factor, pin_memory, collate_fn,
        persistent_workers, generator, worker_init_fn, timeout, multiprocessing_context,
        pin_memory_device, in_order.

    Attributes
    ----------
    sampler : Sampler
        The tombola sampler. If gradient norms are fed, say so:
        ``loader.sampler.quantity = "gradient norm"``.
    samplers : list of Sampler
        Those of all shards of this process, where it has several: each has its own `quantity`.
    skipped : int
        How many losses of this process were left out by ``update(..., skip_nonfinite=True)``.
    lag : int
    dataset : map-style dataset

    Examples
    --------
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
        sampler: str | Sampler | Callable[..., Sampler] = "vrb",
        *,
        groups: Any = None,
        seed: int = 0,
        lag: int | None = None,
        drop_last: bool = False,
        distributed: str | None = "auto",
        shards: int | None = None,
        process_group: Any = None,
        **loader_options: Any,
    ) -> None:
        n = _items(dataset)
        for name, reason in REFUSED.items():
            if loader_options.pop(name, None):
                raise TypeError(f"{name} cannot be given: {reason}")
        numbered = Numbered(dataset, loader_options.pop("collate_fn", None))
        loader: DataLoader[Any] = DataLoader(
            numbered, batch_sampler=_Lists(self), collate_fn=numbered.collate, **loader_options
        )
        ahead = loader.num_workers * (loader.prefetch_factor or 0)
        lag = ahead + 1 if lag is None else whole("lag", lag, 0)
        if lag < ahead:
            raise ValueError(
                f"lag={lag} is too small: {loader.num_workers} workers, {loader.prefetch_factor} "
                f"batches each, draw {ahead} batches before the first one is handed out, so no "
                f"feedback can count sooner; declare lag={ahead} or more, or use fewer workers"
            )
        super().__init__(
            n, batch_size, sampler, groups, seed, lag, drop_last, distributed, shards,
            process_group, ahead,
        )  # fmt: skip
        self.dataset = dataset
        self.num_workers = loader.num_workers
        self._loader = loader

    def __iter__(self) -> Iterator[tuple[Any, TensorDraw]]:
        return self.batches(self._loader)

    @property
    def batch_sampler(self) -> NoReturn:
        """There is none that somebody else could wrap or replace."""
        raise AttributeError(
            "an ImportanceLoader has no batch_sampler: a framework would put its own draws in "
            "place of ours, or skip batches to resume. Resume by load_state_dict (with Hugging "
            "Face's Trainer, under ignore_data_skip=True), and leave the loader out of prepare"
        )


def _items(dataset: Any) -> int:
    """Return the number of items, or say why the dataset will not do."""
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
