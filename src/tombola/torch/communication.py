"""The connection between the processes that train one model, found through torch.distributed.

Messages go through a gloo group of the library's own, in host memory, also if the model is
trained over NCCL: a device never waits for them. A process group that the user passes is used as
it is; if its backend is NCCL, messages go through the device.

Groups are referred to weakly: ``destroy_process_group()`` ends their threads, also while a loader
is alive.
"""

import os
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import distributed as dist

__all__ = ["Connection", "find_connection", "gather_over", "require_initialised", "world_size"]

Gather = Callable[[NDArray[np.int64]], NDArray[np.int64]]


class Connection(NamedTuple):
    """How this process is connected to the others; for modes see `tombola.torch.loader.drawing`.

    `gather` takes an int64 array and returns those of all processes, one per row. Every process
    calls it equally often, with arrays of equal length. None if there is no other process.
    """

    mode: Literal["single", "replicated", "sharded"] = "single"
    rank: int = 0
    world: int = 1
    gather: Gather | None = None

    def require_equal(self, settings: Mapping[str, int]) -> None:
        """Raise an error if a setting, or the mode, differs between processes."""
        if self.gather is None:
            return
        settings = {'distributed (1 for "sharded")': self.mode == "sharded", **settings}
        rows = self.gather(np.array(list(settings.values()), dtype=np.int64))
        for k, name in enumerate(settings):
            other = int(np.argmax(rows[:, k] != rows[0, k]))
            if other:
                raise ValueError(
                    f"all processes need the same {name}: rank 0 has {rows[0, k]}, "
                    f"rank {other} has {rows[other, k]}"
                )


def find_connection(distributed: str | None, process_group: Any) -> Connection:
    """Return the connection that the argument `distributed` and torch.distributed ask for."""
    if distributed not in (None, "auto", "replicated", "sharded"):
        raise ValueError(
            f'distributed must be "auto", "replicated", "sharded" or None, got {distributed!r}'
        )
    if distributed is None:
        return Connection()
    if not world_size():
        require_initialised(
            " (Lightning: make the loader in train_dataloader), or pass distributed=None for a "
            "loader that draws on its own"
        )
        return Connection("sharded" if distributed == "sharded" else "single")
    world = dist.get_world_size(process_group)
    if world == 1 and distributed != "sharded":
        return Connection()
    group = _own_group() if process_group is None else process_group
    mode: Literal["replicated", "sharded"] = "sharded" if distributed == "sharded" else "replicated"
    return Connection(mode, dist.get_rank(process_group), world, gather_over(group))


def require_initialised(otherwise: str) -> None:
    """Raise an error if this is one of several processes, and they are not connected yet."""
    expected = int(os.environ.get("WORLD_SIZE", "1"))
    if expected > 1 and not world_size():
        raise RuntimeError(
            f"this is one of WORLD_SIZE={expected} processes, but torch.distributed is not "
            f"initialised: call init_process_group first{otherwise}"
        )


# The gloo group of the library, by the default group that it belongs to.
_own_groups: "weakref.WeakKeyDictionary[Any, weakref.ref[Any]]" = weakref.WeakKeyDictionary()


def _own_group() -> Any:
    """Return the gloo group of all processes: one for all loaders, made with the first."""
    world = dist.group.WORLD
    reference = _own_groups.get(world)
    group = None if reference is None else reference()
    if group is None:
        group = dist.new_group(backend="gloo")
        _own_groups[world] = weakref.ref(group)
    return group


def world_size() -> int:
    """Return the number of processes; 0 if torch.distributed is not initialised."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 0


def gather_over(group: Any) -> Gather:
    """Return a function that gathers an int64 array from each process of a group."""
    world = dist.get_world_size(group)
    on_device = dist.get_backend(group) == "nccl"
    reference = weakref.ref(group)

    def gather(message: NDArray[np.int64]) -> NDArray[np.int64]:
        group = reference()
        if group is None:
            raise RuntimeError(
                "the process group of this loader was destroyed: make a loader after each "
                "init_process_group"
            )
        sent = torch.from_numpy(message)
        sent = sent.cuda() if on_device else sent
        received = [torch.empty_like(sent) for _ in range(world)]
        dist.all_gather(received, sent, group=group)
        return torch.stack(received).cpu().numpy()

    return gather
