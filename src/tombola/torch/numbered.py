"""Batches with their number, by which losses find their draw again."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import Dataset, TensorDataset, default_collate

__all__ = ["Indices", "Numbered", "NumberedBatch"]


class Indices(list[int]):
    """The items of a batch, and the number of the batch."""

    def __init__(self, items: Sequence[int] = (), number: int = -1) -> None:
        super().__init__(items)
        self.number = number


class NumberedBatch(NamedTuple):
    """A batch of data, and its number."""

    number: int
    batch: Any


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
        """Return the whole batch, collated, and its number."""
        if not isinstance(indices, Indices):
            raise TypeError(
                "these indices are not a batch of an ImportanceSampler: something else has drawn "
                "them, or has split its batches differently"
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
