"""What comes into a `PrioritizedSampler` from outside: indices and priorities of any kind."""

from typing import Any

import numpy as np
import torch

from tombola.index.inputs import item_numbers, real_numbers
from tombola.state import Floats, Ints
from tombola.torch.tensors import as_array

__all__ = ["has_coordinates", "priorities_of", "slots_of"]


def has_coordinates(index: Any) -> bool:
    """Return whether an index is of several dimensions: rows, or a vector for each dimension."""
    if isinstance(index, tuple):
        return any(np.ndim(part) > 0 for part in index)
    return np.ndim(index) > 1


def slots_of(index: Any, storage: Any) -> Ints:
    """Return slots as a vector; rows of coordinates become slots by the shape of the storage."""
    if isinstance(index, torch.Tensor) and index.dtype == torch.int64 and index.ndim == 1:
        return np.ascontiguousarray(index.cpu().numpy())  # the usual case, first for speed
    if not has_coordinates(index):
        return item_numbers("index", as_array(index))
    if isinstance(index, tuple):
        index = torch.stack([torch.as_tensor(part) for part in index], -1)
    given = np.asarray(as_array(index))
    rows = item_numbers("index", given.reshape(-1)).reshape(-1, given.shape[-1])
    shape = getattr(storage, "shape", None)
    if shape is None or len(shape) != rows.shape[1]:
        raise ValueError(
            f"index has rows of {rows.shape[1]} coordinates: pass a storage with that many "
            f"dimensions, got shape {None if shape is None else tuple(shape)}"
        )
    outside = (rows >= np.array(shape)).any(axis=1)
    if outside.any():
        j = int(outside.argmax())
        raise IndexError(
            f"index[{j}] is {rows[j].tolist()}, out of range for a storage of shape {tuple(shape)}"
        )
    slots = np.ravel_multi_index(tuple(rows.T), tuple(shape), mode="clip")
    return np.where((rows < 0).any(axis=1), -1, slots)


def priorities_of(priority: Any, count: int) -> Floats:
    """Return priorities as a vector of `count` numbers, or of one that counts for all."""
    values = real_numbers("priority", np.reshape(as_array(priority), -1))
    if values.size not in (1, count):
        raise ValueError(
            f"priority must be a number, or as many as index has items: got {values.size} for "
            f"{count} items"
        )
    return values
