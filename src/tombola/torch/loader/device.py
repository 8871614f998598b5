"""Batches that are drawn and gathered on the device that holds the data: nothing waits there."""

import time
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import TensorDataset

from tombola.state import Scope, array, count, flag, integer, mapping
from tombola.torch.communication import find_connection, world_size
from tombola.torch.device import VRB, GroupVRB
from tombola.torch.loader.base import ARGUMENTS, Batches, DatasetLoader, Iteration, Settings
from tombola.torch.loader.labels import resolve_groups
from tombola.torch.tensor_draw import TensorDraw, wrong_shape
from tombola.torch.tensors import TensorState

__all__ = ["DeviceBatches", "DeviceLoader", "serves"]

SAMPLERS = ("auto", "vrb", "group-vrb")


class DeviceLoaderState(TensorState):
    """Everything that a `DeviceLoader` needs to continue."""

    kind: ClassVar = "DeviceLoader"

    epoch: int = count("epochs that are over")
    left: int = integer("items of this epoch that are not drawn yet", 0, "n")
    open: bool = flag("whether an epoch has begun and is not over")
    counts: NDArray[np.int32] = array(
        "how often each item was drawn", 0, 2**31 - 1, dtype=np.int32, shape=("n",)
    )
    skipped: int = count("losses that `update` has left out")
    sampler: Mapping[str, Any] = mapping("the state of the sampler")

    def fault(self, scope: Scope) -> str:
        """Return what is wrong with an epoch that is open."""
        if self.open and self.left == 0:
            return "the epoch is open but has no items left"
        return ""


class DeviceBatches(Batches):
    """Draws batches on the device of the data, with all feedback given before."""

    lag = 0

    def __init__(self, dataset: Any, settings: Settings) -> None:
        if settings.distributed is not None and world_size() > 1:
            raise RuntimeError(
                f"data on a device are drawn by each process on its own, and all {world_size()} "
                "would draw the same items: pass distributed=None, and to each process a seed of "
                "its own, or take an ImportanceLoader, whose processes share draws"
            )
        find_connection(settings.distributed, None)  # an error if others are still to be found
        super().__init__(settings)
        self.device = tensors_of(dataset)[0].device
        self.sampler = sampler_for(settings, self.device)
        self.samplers = [self.sampler]
        self._drawn = torch.zeros(settings.n, dtype=torch.int32, device=self.device)
        self._skipped = torch.zeros((), dtype=torch.int64, device=self.device)

    def epoch_length(self) -> int:
        """Return the number of items."""
        return self.settings.n

    def batches(self, source: Any) -> Iterator[tuple[Any, TensorDraw]]:
        """Begin an epoch of the tensors of a dataset, or continue the one of a state."""
        return self._gathered(tensors_of(source), self.begin())

    def _gathered(
        self, tensors: list[Tensor], iteration: Iteration
    ) -> Iterator[tuple[Any, TensorDraw]]:
        """Draw the batches of an iteration, each when it is asked for, and gather them."""
        while True:
            self.require_running(iteration)
            if iteration.left < self._smallest_rest:
                return
            start = time.perf_counter()
            draw = self.sampler.draw(min(self.settings.batch_size, iteration.left))
            ones = torch.ones_like(draw.indices, dtype=torch.int32)
            self._drawn.index_add_(0, draw.indices, ones)
            self.remember(draw)
            iteration.left -= len(draw)
            self.end_if_over(iteration)
            self.seconds += time.perf_counter() - start
            yield [part[draw.indices] for part in tensors], draw

    def give(self, draw: TensorDraw, losses: Any, skip_nonfinite: bool) -> None:
        """Learn from the losses of a batch at once; only to skip some waits for the device."""
        if skip_nonfinite and isinstance(losses, Tensor):
            if losses.shape != (len(draw),):
                raise ValueError(wrong_shape(len(draw), tuple(losses.shape)))
            finite = losses.detach().isfinite()
            self.sampler.update(draw[finite], losses[finite])
            self._skipped += (~finite).sum()
        else:
            self.sampler.update(draw, losses)
        self.unanswered.pop(draw.number, None)

    @property
    def skipped(self) -> int:
        """The number of losses that were left out; this waits."""
        return int(self._skipped)

    def counts(self) -> NDArray[np.int32]:
        """Return how often each item was drawn; this waits."""
        return self._drawn.numpy(force=True)

    def check(self) -> None:
        """Raise the error of the first update that was refused since the last check; this waits."""
        self.sampler.check()

    def state_dict(self) -> dict[str, Any]:
        """Return the state: the sampler, the position in the epoch, and counts of draws."""
        return DeviceLoaderState(
            epoch=self.epoch, left=self.current.left, open=self.open, counts=self.counts(),
            skipped=self.skipped, sampler=self.sampler.state_dict(),
        ).state_dict()  # fmt: skip

    def load_state_dict(self, state: Any) -> None:
        """Continue from a state; the batch size may differ."""
        read = DeviceLoaderState.from_state_dict(state, n=self.settings.n)
        self.sampler.load_state_dict(read.sampler)
        self.resume_at(read.epoch, read.open, read.left, {})
        self._drawn.copy_(torch.from_numpy(read.counts))
        self._skipped.fill_(read.skipped)
        self.unanswered.clear()


class DeviceLoader(DatasetLoader):
    """Load batches of tensors that are on a device, without waiting for the host.

    An `ImportanceLoader` does the same with a `TensorDataset` on a CUDA device, if it is given
    nothing else than the parameters below, in one process. This one may be made for tensors on the
    CPU as well: it gathers a batch at once, not item by item.

    Each batch is ``[x[draw.indices], y[draw.indices]]``, and the sampler is a `tombola.torch.VRB`
    or a `tombola.torch.GroupVRB`: a batch is drawn with all feedback given before. Draws are not
    those of an `ImportanceLoader` on the host. On a CUDA device, a bad loss is reported by `check`
    or `state_dict`, not by `update`.

    Parameters
    ----------
    dataset : TensorDataset, Tensor or sequence of Tensor
        All on one device, and of the same length.
    batch_size : int, default=1
    sampler : {"auto", "vrb", "group-vrb"} or sampler, default="auto"
        A `tombola.torch.VRB` or `tombola.torch.GroupVRB` over the items, or the name of one;
        "auto": "group-vrb" with `groups`, "vrb" without.
    groups : array-like or Tensor of shape (n,), or "auto", optional
        The group of each item, for example its class label; "auto" as for `ImportanceLoader`.
    seed, quantity, drop_last
        As for `ImportanceLoader`.
    distributed : {"auto"} or None, default="auto"
        With several processes, "auto" is an error, since each would draw the same items; None: this
        process draws on its own, by a seed that should be its own, too.

    Attributes
    ----------
    sampler : VRB or GroupVRB
    device : torch.device
        That of the data and the sampler.
    lag, num_workers : int
        Both 0.

    Examples
    --------
    >>> x = torch.arange(200.0)
    >>> loader = DeviceLoader([x, x + 1], batch_size=20)
    >>> for epoch in range(20):
    ...     for (x, y), draw in loader:
    ...         losses = x**2
    ...         estimate = draw.mean(losses)     # unbiased; call .backward() on it
    ...         loader.update(draw, losses)
    >>> loader.sampler.gauge.second_moment_ratio < 0.7
    True
    """

    device: torch.device

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        sampler: Any = "auto",
        *,
        groups: Any = None,
        seed: int = 0,
        quantity: str = "loss",
        drop_last: bool = False,
        **others: Any,
    ) -> None:
        for name in _only_on_the_host(others):
            if name not in ARGUMENTS:
                raise TypeError(f"DeviceLoader has no argument {name!r}")
            raise TypeError(f"{name} cannot be given if data are drawn on a device")
        n = len(tensors_of(dataset)[0])
        settings = Settings(
            n=n, batch_size=batch_size, sampler=sampler, groups=resolve_groups(groups, dataset, n),
            seed=seed, quantity=quantity, drop_last=drop_last,
            distributed=others.get("distributed", "auto"),
        )  # fmt: skip
        batches, self._source = DeviceBatches(dataset, settings), dataset
        super().__init__(batches, dataset=dataset, num_workers=0, device=batches.device)

    def _count_items(self) -> int:
        return len(tensors_of(self.dataset)[0])


def tensors_of(dataset: Any) -> list[Tensor]:
    """Return the tensors of a dataset, all on one device and of one length."""
    given = dataset.tensors if isinstance(dataset, TensorDataset) else dataset
    tensors: list[Tensor] = [given] if isinstance(given, Tensor) else list(given)
    if not tensors or not all(isinstance(part, Tensor) and part.ndim for part in tensors):
        raise TypeError("dataset must be a TensorDataset, a tensor or several tensors of rows")
    for k, part in enumerate(tensors):
        if len(part) != len(tensors[0]):
            raise ValueError(f"dataset[0] has {len(tensors[0])} rows, dataset[{k}] has {len(part)}")
        if part.device != tensors[0].device:
            raise ValueError(f"dataset[0] is on {tensors[0].device}, dataset[{k}] on {part.device}")
    if len(tensors[0]) == 0:
        raise ValueError("dataset is empty: there is nothing to draw from")
    return tensors


def sampler_for(settings: Settings, device: torch.device) -> VRB | GroupVRB:
    """Return the sampler asked for."""
    sampler, n, groups = settings.sampler, settings.n, settings.groups
    if isinstance(sampler, (VRB, GroupVRB)):
        if sampler.device != device:
            raise ValueError(f"the sampler is on {sampler.device}, the data on {device}")
        settings.fit(sampler)
        return sampler
    if sampler not in SAMPLERS:
        raise TypeError(
            f"sampler must be one of {', '.join(SAMPLERS)}, a tombola.torch.VRB or a "
            f"tombola.torch.GroupVRB if data are on a device, got {sampler!r}"
        )
    if sampler == "group-vrb" and groups is None:
        raise ValueError("group-vrb needs groups: the group of each item, such as its class label")
    more: dict[str, Any] = {
        "device": device, "quantity": settings.quantity, "seed": settings.seed
    }  # fmt: skip
    return VRB(n, **more) if sampler == "vrb" or groups is None else GroupVRB(groups, **more)


def serves(dataset: Any, sampler: Any, options: Mapping[str, Any]) -> bool:
    """Return whether an `ImportanceLoader` with these arguments can draw on the data's device."""
    return (
        isinstance(dataset, TensorDataset)
        and len({part.device for part in dataset.tensors}) == 1
        and dataset.tensors[0].device.type == "cuda"
        and (isinstance(sampler, (VRB, GroupVRB)) or sampler in SAMPLERS)
        and not _only_on_the_host(options)
        and (world_size() <= 1 or options.get("distributed", "auto") is None)
    )


def _only_on_the_host(options: Mapping[str, Any]) -> list[str]:
    """Return the options, among those asked for, that batches on a device do not have."""
    return [
        name for name, value in options.items()
        if (value or name not in ARGUMENTS) and (name, value) != ("distributed", "auto")
    ]  # fmt: skip
