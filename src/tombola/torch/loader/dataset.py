"""The dataset of a loader: the number of items, their labels, and numbered batches.

The number of a batch leads back to its draw once a `DataLoader` has loaded it.
"""

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch._utils import ExceptionWrapper
from torch.utils.data import (
    Dataset,
    IterableDataset,
    TensorDataset,
    default_collate,
    get_worker_info,
)

__all__ = [
    "Indices", "Numbered", "NumberedBatch", "WorkerInit", "count_items", "groups_of",
    "resolve_groups",
]  # fmt: skip

ATTRIBUTES = ("targets", "labels")
FEWEST_ITEMS = 20  # of a group, on average: a rarer label says little about its items
_said: set[str] = set()


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


def resolve_groups(groups: Any, dataset: Any, n: int) -> Any:
    """Return the groups: those that were given, or those of the dataset for "auto"."""
    if not isinstance(groups, str):
        return groups
    if groups != "auto":
        raise ValueError(f'groups must be "auto" or the group of each item, got {groups!r}')
    found, text = groups_of(dataset, n)
    _say_once(f'tombola: groups="auto": {text}')
    return found


def groups_of(dataset: Any, n: int) -> tuple[NDArray[Any] | None, str]:
    """Return the label of each item, or None, and a sentence that says which.

    They are whole numbers or strings in ``dataset.targets`` or ``dataset.labels``, or the one
    tensor of whole numbers in a `TensorDataset`. With more than n/20 different labels there are
    none.

    Examples
    --------
    >>> import torch
    >>> from torch.utils.data import TensorDataset
    >>> data = TensorDataset(torch.zeros(60, 5), torch.arange(60) % 3)
    >>> groups, text = groups_of(data, 60)
    >>> text
    'the 3 labels in dataset.tensors[1]'
    """
    candidates = {f"dataset.{name}": getattr(dataset, name, None) for name in ATTRIBUTES}
    if isinstance(dataset, TensorDataset):
        candidates |= {f"dataset.tensors[{k}]": part for k, part in enumerate(dataset.tensors)}
    found = {
        name: labels
        for name, given in candidates.items()
        if given is not None and (labels := _as_labels(given, n)) is not None
    }
    attributes = [name for name in found if "[" not in name]
    if not found:
        return None, "no labels found, so there are no groups"
    if not attributes and len(found) > 1:
        return None, f"{' and '.join(found)} may both be labels, so there are no groups"
    name = attributes[0] if attributes else next(iter(found))
    count = len(np.unique(found[name]))
    if count * FEWEST_ITEMS > n:
        return None, f"{name} has {count} labels for {n} items, too many, so there are no groups"
    return found[name], f"the {count} labels in {name}"


def _as_labels(given: Any, n: int) -> NDArray[Any] | None:
    """Return n whole numbers or strings as an array; None if it is something else."""
    if isinstance(given, Tensor):
        if given.is_floating_point() or given.is_complex() or given.shape != (n,):
            return None
        return given.numpy(force=True)
    try:
        array = np.asarray(given)
    except (TypeError, ValueError):  # rows of unequal length
        return None
    return array if array.shape == (n,) and array.dtype.kind in "biuU" else None


def _say_once(text: str) -> None:
    """Print a line on stderr, once, in the first of several processes."""
    group = torch.distributed
    first = not (group.is_available() and group.is_initialized() and group.get_rank())
    if first and text not in _said and not os.environ.get("TOMBOLA_QUIET"):
        print(text, file=sys.stderr, flush=True)
    _said.add(text)
