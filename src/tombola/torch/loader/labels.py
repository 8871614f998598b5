"""The labels of a dataset, for `groups`."""

import os
import sys
from collections import Counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import ConcatDataset, Subset, TensorDataset

__all__ = ["groups_of", "resolve_groups"]

ATTRIBUTES = ("targets", "labels")
COLUMNS = ("label", "labels", "target", "targets")  # of a table, as those of Hugging Face
FEWEST_ITEMS = 20  # of a group, on average: a rarer label says little about its items
LOOKED = (
    "looked in dataset.targets, dataset.labels, columns named label or target, and tensors of "
    "whole numbers, also behind a Subset or a ConcatDataset"
)
NONE = ", so there are no groups"
_said: set[str] = set()


def resolve_groups(groups: Any, dataset: Any, n: int) -> Any:
    """Return the groups: those that were given, or those of the dataset for a word."""
    if not isinstance(groups, str):
        return groups
    if groups not in ("auto", "labels"):
        raise ValueError(
            f'groups must be "labels", "auto" or the group of each item, got {groups!r}'
        )
    found, text = groups_of(dataset, n)
    if found is None and groups == "labels":
        raise ValueError(f'groups="labels": {text}; {LOOKED}. Pass the label of each item')
    _say_once(f'tombola: groups="{groups}": {text}{"" if found is not None else NONE}')
    return found


def groups_of(dataset: Any, n: int) -> tuple[NDArray[Any] | None, str]:
    """Return the label of each item, or None, and a sentence that says which.

    They are whole numbers or strings in ``dataset.targets`` or ``dataset.labels``, in a column of
    that name, or in the one tensor of whole numbers of a `TensorDataset`. Of several labels of an
    item, it is the rarest. With more than n/20 different labels there are none.

    Examples
    --------
    >>> import torch
    >>> from torch.utils.data import TensorDataset
    >>> data = TensorDataset(torch.zeros(60, 5), torch.arange(60) % 3)
    >>> groups, text = groups_of(data, 60)
    >>> text
    'the 3 labels in dataset.tensors[1]'
    """
    found = labels_in(dataset, n)
    named = [name for name in found if "tensors[" not in name]
    if not found:
        return None, "no labels found"
    if not named and len(found) > 1:
        return None, f"{' and '.join(found)} may both be labels"
    name = named[0] if named else next(iter(found))
    count = len(np.unique(found[name]))
    if count * FEWEST_ITEMS > n:
        return None, f"{name} has {count} labels for {n} items, too many"
    return found[name], f"the {count} labels in {name}"


def labels_in(dataset: Any, n: int) -> dict[str, NDArray[Any]]:
    """Return what may be the labels of the n items, by where it is."""
    if isinstance(dataset, Subset):
        inner: Any = dataset.dataset
        items = np.asarray(dataset.indices)
        found = labels_in(inner, len(inner))
        return {f"{name} of a Subset": labels[items] for name, labels in found.items()}
    if isinstance(dataset, ConcatDataset):
        parts = [labels_in(part, len(part)) for part in dataset.datasets]  # type: ignore[arg-type]
        return {
            f"{name} of a ConcatDataset": np.concatenate([part[name] for part in parts])
            for name in parts[0]
            if all(name in part for part in parts)
        }
    several = not isinstance(dataset, TensorDataset)
    if isinstance(dataset, TensorDataset):
        given: dict[str, Any] = {
            f"dataset.tensors[{k}]": part for k, part in enumerate(dataset.tensors)
        }
    else:
        given = {f"dataset.{name}": getattr(dataset, name, None) for name in ATTRIBUTES}
        columns = getattr(dataset, "column_names", None)
        if isinstance(columns, list):
            given |= {f"dataset[{name!r}]": dataset[name] for name in COLUMNS if name in columns}
    all_labels = {name: as_labels(each, n, several) for name, each in given.items()}
    return {name: labels for name, labels in all_labels.items() if labels is not None}


def as_labels(given: Any, n: int, several: bool) -> NDArray[Any] | None:
    """Return n whole numbers or strings; None if it is something else.

    `several` allows more than one label of an item: a list of labels each, or a matrix of 0 and 1.
    """
    if given is None or isinstance(given, (str, bytes)):
        return None
    if isinstance(given, Tensor):
        given = given.numpy(force=True)
    try:
        array = np.asarray(given)
    except (TypeError, ValueError):  # rows of unequal length
        return rarest(given, n) if several else None
    if array.shape == (n,) and array.dtype.kind in "biuU":
        return array
    if not several or array.ndim != 2 or len(array) != n:
        return None
    if ((array == 0) | (array == 1)).all():
        return rarest([np.flatnonzero(row) for row in array], n)
    return rarest(given, n) if isinstance(given, list) and array.dtype.kind in "iu" else None


def rarest(labels: Any, n: int) -> NDArray[Any] | None:
    """Return the rarest label of each item, -1 for one without; None if they are not numbers."""
    try:
        rows = [np.asarray(row, dtype=np.int64).tolist() for row in labels]
    except (TypeError, ValueError):
        return None
    if len(rows) != n or any(not isinstance(row, list) for row in rows):
        return None
    counts = Counter(label for row in rows for label in set(row))
    chosen = np.array([min(row, key=lambda one: (counts[one], one), default=-1) for row in rows])
    return chosen if len(np.unique(chosen)) > 1 else None


def _say_once(text: str) -> None:
    """Print a line on stderr, once, in the first of several processes."""
    group = torch.distributed
    first = not (group.is_available() and group.is_initialized() and group.get_rank())
    if first and text not in _said and not os.environ.get("TOMBOLA_QUIET"):
        print(text, file=sys.stderr, flush=True)
    _said.add(text)
