"""Labels that a dataset has, as the groups of its items."""

import os
import sys
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import TensorDataset

__all__ = ["groups_of", "resolve_groups"]

ATTRIBUTES = ("targets", "labels")
FEWEST_ITEMS = 20  # of a group, on average: a rarer label says little about its items
_said: set[str] = set()


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
