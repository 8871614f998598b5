"""The dataset of a loader: the number of items, and numbered batches.

The number of a batch leads back to its draw once a `DataLoader` has loaded it.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch._utils import ExceptionWrapper
from torch.utils.data import (
    Dataset,
    IterableDataset,
    TensorDataset,
    default_collate,
    get_worker_info,
)

__all__ = ["Indices", "Numbered", "NumberedBatch", "WorkerInit", "count_items"]


class Indices(list[int]):
    """The items of a batch, and the number of the batch."""

    def __init__(self, items: Sequence[int] = (), number: int = -1) -> None:
        super().__init__(items)
        self.number = number


class NumberedBatch(NamedTuple):
    """A batch of data and its number, or the exception of the dataset in place of the data."""

    number: int
    batch: Any
    error: Any = None  # an exception; of a worker, as torch wraps them

    def opened(self) -> Any:
        """Return the data, or raise the exception as a `DataLoader` would."""
        if isinstance(self.error, Exception):
            raise self.error
        if self.error is not None:
            self.error.reraise()
        return self.batch


class Numbered(Dataset[Any]):
    """A dataset whose batches carry their number, so that losses find their draw again.

    Batches are fetched and collated as by `DataLoader`; those of a plain `TensorDataset` by one
    index operation per tensor. Attributes are those of the wrapped dataset, for code in workers
    that reads or sets them (``get_worker_info().dataset``).

    Parameters
    ----------
    dataset : map-style dataset
    collate_fn : callable, optional
        Makes a batch from a list of items; `default_collate` by default.
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
        """Return the whole batch, collated, and its number; an exception keeps the number, too."""
        if not isinstance(indices, Indices):
            raise TypeError(
                "these indices are not a batch of an ImportanceSampler: something else has drawn "
                "them, or has split its batches differently"
            )
        try:
            return NumberedBatch(indices.number, self._fetch(indices))
        except Exception as error:
            worker = get_worker_info()
            if worker is None:
                return NumberedBatch(indices.number, None, error)
            where = f"in DataLoader worker process {worker.id}"
            wrapped = ExceptionWrapper(where=where)  # type: ignore[no-untyped-call]
            return NumberedBatch(indices.number, None, wrapped)

    def _fetch(self, indices: Indices) -> Any:
        dataset = self.dataset
        if self._plain:
            at = torch.from_numpy(np.array(indices))
            return [t.index_select(0, at.to(t.device)) for t in dataset.tensors]
        fetch = getattr(dataset, "__getitems__", None)
        items = fetch(list(indices)) if fetch else [dataset[index] for index in indices]
        return self._collate_fn(items)

    @staticmethod
    def collate(batch: Any) -> Any:
        """Return the batch unchanged, for the argument `collate_fn`: it is collated already."""
        return batch

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "dataset" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.dataset, name, value)

    def __reduce__(self) -> Any:
        return Numbered, (self.dataset, self._collate_fn)


class WorkerInit:
    """The `worker_init_fn` of a loader: ``get_worker_info().dataset`` is the user's own dataset."""

    def __init__(self, function: Callable[[int], Any] | None) -> None:
        self._function = function

    def __call__(self, worker: int) -> None:
        """Run in a worker, before it loads anything."""
        info: Any = get_worker_info()
        if isinstance(info.dataset, Numbered):
            object.__setattr__(info, "dataset", info.dataset.dataset)  # it is frozen
        if self._function is not None:
            self._function(worker)


def count_items(dataset: Any) -> int:
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
