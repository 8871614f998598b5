"""What the processes of a `WeightedSampler` share: their connection, and all updates."""

import sys
from types import FrameType
from typing import Any

import numpy as np

from tombola.index.inputs import (
    check_items,
    check_real,
    check_sizes,
    item_numbers,
    one_dimension,
    real_numbers,
)
from tombola.state import Floats, Ints
from tombola.torch.communication import Connection
from tombola.torch.tensors import as_array
from tombola.validation import whole

__all__ = ["divider", "given_connection", "shared_update", "weights_of"]


def given_connection(
    num_replicas: Any, rank: Any, process_group: Any, generator: Any
) -> Connection:
    """Return the connection of processes that are numbered by the user, and do not communicate."""
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


def divider() -> str:
    """Return the class of Accelerate that divides this iteration among processes; "" if none does.

    It is found on the stack: a sampler cannot see otherwise that most of its items are dropped.
    """
    frame: FrameType | None = sys._getframe() if "accelerate.data_loader" in sys.modules else None
    while frame is not None:
        kind = frame.f_code.co_qualname.partition(".")[0]
        if kind in ("BatchSamplerShard", "DataLoaderDispatcher") and (
            frame.f_globals.get("__name__") == "accelerate.data_loader"
        ):
            return kind
        frame = frame.f_back
    return ""


def shared_update(
    connection: Connection, handed: int, n: int, indices: Any, weights: Any
) -> tuple[Ints, Floats]:
    """Return the items and weights of an update, those of all processes by rank.

    An error on one process is an error on all. `handed` is how much of its epoch a process has
    handed out; it must be the same on all.
    """
    items, values, fault = np.empty(0, dtype=np.int64), np.empty(0), None
    try:
        items, values = _checked(indices, weights, n)
    except (TypeError, ValueError, IndexError) as error:
        if connection.gather is None:
            raise
        fault = error
    if connection.gather is None:
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


def weights_of(given: Any) -> Floats:
    """Return weights as a new array, or raise an error that names the first bad one."""
    array = one_dimension("weights", as_array(given))
    values = real_numbers("weights", array.astype(np.uint8) if array.dtype == bool else array)
    check_real("weights", values)
    return values


def _checked(indices: Any, weights: Any, n: int) -> tuple[Ints, Floats]:
    items, values = item_numbers("indices", as_array(indices)), weights_of(weights)
    check_sizes(indices=items, weights=values)
    check_items("indices", items, n)
    return items, values
