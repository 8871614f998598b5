"""What comes into a `PrioritizedSampler` from outside: indices and priorities of any kind."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tombola.torch.replay.board import PriorityBoard, too_heavy
from tombola.validation import number

__all__ = ["exponent", "fault", "has_coordinates", "items_of", "positive", "priorities_of"]


def exponent(name: str, value: Any) -> float:
    """Return an argument as a float of at least 0, or raise an error that names it."""
    given = number(name, value)
    if not 0 <= given < np.inf:
        raise ValueError(f"{name} must be finite and not negative, got {value}")
    return given


def positive(name: str, value: Any) -> float:
    """Return an argument as a float above 0, or raise an error that names it."""
    given = number(name, value)
    if not 0 < given < np.inf:
        raise ValueError(f"{name} must be finite and above 0, got {value}")
    return given


def has_coordinates(index: Any) -> bool:
    """Return whether an index is of several dimensions: rows, or a vector for each dimension."""
    if isinstance(index, tuple):
        return any(np.ndim(part) > 0 for part in index)
    return np.ndim(index) > 1


def items_of(index: Any, storage: Any) -> NDArray[np.int64]:
    """Return slots as a vector; rows of coordinates become slots by the shape of the storage."""
    if isinstance(index, torch.Tensor) and index.dtype == torch.int64 and index.ndim == 1:
        return np.ascontiguousarray(index.cpu().numpy())
    if isinstance(index, tuple) and has_coordinates(index):
        index = torch.stack([torch.as_tensor(part) for part in index], -1)
    elif isinstance(index, range):
        index = torch.arange(index.start, index.stop, index.step)
    given = torch.as_tensor(index)
    kind = given.dtype
    if given.numel() and (kind.is_floating_point or kind.is_complex or kind == torch.bool):
        raise TypeError(f"index must hold integers, got {kind}")
    items: NDArray[np.int64] = given.to("cpu", torch.int64).numpy()
    if items.ndim > 1:
        items = _slots_of(items.reshape(-1, items.shape[-1]), storage)
    return np.ascontiguousarray(items.reshape(-1))


def _slots_of(rows: NDArray[np.int64], storage: Any) -> NDArray[np.int64]:
    """Return the slot of each row of coordinates, -1 where one of them is negative."""
    shape = getattr(storage, "shape", None)
    if shape is None or len(shape) != rows.shape[1]:
        raise ValueError(
            f"index has rows of {rows.shape[1]} coordinates: pass the storage, with a shape of so "
            f"many dimensions, got shape {None if shape is None else tuple(shape)}"
        )
    outside = (rows >= np.array(shape)).any(axis=1)
    if outside.any():
        j = int(outside.argmax())
        raise IndexError(
            f"index[{j}] is {rows[j].tolist()}, out of range for a storage of shape {tuple(shape)}"
        )
    slots = np.ravel_multi_index(tuple(rows.T), tuple(shape), mode="clip")
    return np.where((rows < 0).any(axis=1), -1, slots)


def priorities_of(priority: Any, count: int) -> NDArray[np.float64]:
    """Return priorities as a vector of `count` numbers, or of one that counts for all."""
    if isinstance(priority, torch.Tensor):
        priority = priority.detach().cpu()
        priority = priority.double() if priority.dtype == torch.bfloat16 else priority.numpy()
    values = np.asarray(priority, dtype=np.float64).reshape(-1)
    if values.size not in (1, count):
        raise ValueError(
            f"priority must be a number, or as many as index has items: got {values.size} for "
            f"{count} items"
        )
    return np.ascontiguousarray(values)


def fault(
    board: PriorityBoard, items: NDArray[np.int64], priorities: NDArray[np.float64], j: int
) -> Exception:
    """Return the error for the item or priority at position j."""
    if items[j] >= board.capacity:
        return IndexError(
            f"index[{j}] is {items[j]}, out of range for a capacity of {board.capacity}"
        )
    position = 0 if priorities.size == 1 else j
    priority = float(priorities[position])
    if 0 <= priority < np.inf and too_heavy(priority, board.alpha, board.eps):
        return ValueError(
            f"priority[{position}] is {priority}: (priority + eps) ** alpha is beyond 2^900, with "
            f"alpha={board.alpha}"
        )
    return ValueError(
        f"priority[{position}] is {priority}: priorities must be finite and not negative"
    )
