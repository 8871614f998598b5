"""What comes into a `WeightedSampler` from outside: weights, items, and other processes."""

import os
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tombola.index.inputs import check_real
from tombola.state import CheckpointError
from tombola.torch.communication import Connection, find_connection, world_size
from tombola.validation import whole

__all__ = ["connection_of", "real_numbers", "set_generator", "shared_update"]

WORDS = 624  # of a generator of torch on the CPU: what is left and its place make one more ...
NEW = 1, 0  # ... but for a new one


def real_numbers(name: str, given: Any) -> NDArray[np.float64]:
    """Return weights as a new array, or raise an error that names the first bad one."""
    array = _array(name, given)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold real numbers, got dtype {array.dtype}")
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got shape {array.shape}")
    values = array.astype(np.float64, order="C")
    check_real(name, values)
    return values


def _item_numbers(name: str, given: Any, n: int) -> NDArray[np.int64]:
    array = _array(name, given)
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"{name} must hold integers, got dtype {array.dtype}")
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got shape {array.shape}")
    wrong = (array < 0) | (array >= n)
    if wrong.any():
        j = int(np.argmax(wrong))
        raise IndexError(f"{name}[{j}] is {array[j]}, out of range for {n} items")
    return array.astype(np.int64)


def _array(name: str, given: Any) -> NDArray[Any]:
    if isinstance(given, Tensor):
        given = given.detach().cpu()
        if given.dtype == torch.bfloat16:  # numpy has no such type
            given = given.float()
        array: NDArray[Any] = given.numpy()
        return array
    try:
        return np.asarray(given)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{name} must have one dimension: {error}") from None


def connection_of(
    num_replicas: int | None, rank: int | None, process_group: Any, generator: Any
) -> Connection:
    """Return the connection that the arguments ask for; without `gather` if they are given."""
    if num_replicas is None and rank is None:
        expected = int(os.environ.get("WORLD_SIZE", "1"))
        if expected > 1 and not world_size():
            raise RuntimeError(
                f"this is one of WORLD_SIZE={expected} processes, but torch.distributed is not "
                "initialised: call init_process_group first, or pass num_replicas and rank"
            )
        return find_connection("auto", process_group)
    if num_replicas is None or rank is None or process_group is not None:
        raise ValueError(
            "num_replicas and rank go together, without process_group, got "
            f"num_replicas={num_replicas}, rank={rank}, process_group={process_group}"
        )
    world = whole("num_replicas", num_replicas, 1)
    if world > 1 and generator is None:
        raise ValueError(
            f"num_replicas={world} needs a generator, in the same state on all processes"
        )
    return Connection("replicated", whole("rank", rank, 0, world), world)


def shared_update(
    connection: Connection, handed: int, n: int, indices: Any, weights: Any
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the items and weights of an update, those of all processes by rank.

    An error on one process is an error on all. `handed` is how much of its epoch a process has
    handed out; it must be the same on all.
    """
    try:
        items, values, fault = *_checked(indices, weights, n), None
    except (TypeError, ValueError, IndexError) as error:
        items, values, fault = np.empty(0, np.int64), np.empty(0), error
    if connection.gather is None:
        if fault is not None:
            raise fault
        return items, values
    headers = connection.gather(np.array([fault is not None, handed, items.size], dtype=np.int64))
    if fault is not None:
        raise fault
    if headers[:, 0].any():
        raise ValueError(f"the update of rank {int(headers[:, 0].argmax())} is not valid")
    if (headers[:, 1] != headers[0, 1]).any():
        raise RuntimeError(
            "processes must update at the same point of an epoch; they have handed out "
            f"{headers[:, 1].tolist()} items"
        )
    sizes = headers[:, 2]
    message = np.zeros((2, int(sizes.max())), dtype=np.int64)
    message[0, : items.size] = items
    message[1, : items.size] = values.view(np.int64)
    if not message.size:
        return items, values
    rows = connection.gather(message.reshape(-1)).reshape(len(sizes), 2, -1)
    sent = np.arange(rows.shape[2]) < sizes[:, None]
    return rows[:, 0][sent], rows[:, 1][sent].view(np.float64)


def _checked(indices: Any, weights: Any, n: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    items = _item_numbers("indices", indices if np.ndim(indices) else [indices], n)
    values = real_numbers("weights", weights if np.ndim(weights) else [weights])
    if items.size != values.size:
        raise ValueError(
            f"indices and weights must have the same length, got {items.size} and {values.size}"
        )
    return items, values


def set_generator(generator: torch.Generator, state: NDArray[np.uint8]) -> None:
    """Set the state of a generator, or raise a `CheckpointError` and leave it as it is."""
    state = state.copy()
    try:
        torch.Generator(generator.device).set_state(torch.from_numpy(state))
    except (RuntimeError, TypeError) as error:
        raise CheckpointError(f"generator is not a state of one: {error}") from None
    if generator.device.type == "cpu" and _place(torch.Generator().get_state().numpy()) == NEW:
        left, place = _place(state)
        if left + place != WORDS + 1 and (left, place) != NEW:
            raise CheckpointError(
                f"generator is not a state of one: {left} words left at place {place} of {WORDS}"
            )
    generator.set_state(torch.from_numpy(state))


def _place(state: NDArray[np.uint8]) -> tuple[int, int]:
    """Return how many words a generator on the CPU has left, and the place of the next one.

    torch does not compare the two, and would read beyond the words. A new generator
    shows whether torch still keeps them here in a state.
    """
    return int(state[8:12].view(np.int32)[0]), int(state[16:24].view(np.int64)[0])
