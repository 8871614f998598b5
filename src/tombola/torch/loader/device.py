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
from tombola.torch.communication import world_size
from tombola.torch.device import VRB, DeviceDraw, GroupVRB
from tombola.torch.device.sampler import DeviceSampler
from tombola.torch.loader.base import ARGUMENTS, Batches, DatasetLoader, Iteration, remember
from tombola.torch.loader.labels import resolve_groups
from tombola.torch.loader.settings import Settings
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
    """Draws batches where the data are, with all feedback given before."""

    lag = 0

    def __init__(self, dataset: Any, settings: Settings) -> None:
        super().__init__(settings)
        self.device = tensors_of(dataset)[0].device
        self.samplers = [sampler_for(settings, self.device)]
        self._drawn = torch.zeros(settings.n, dtype=torch.int32, device=self.device)
        self._skipped = torch.zeros((), dtype=torch.int64, device=self.device)
        self._unanswered: dict[int, DeviceDraw] = {}

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
            draw = self._next_draw(min(self.settings.batch_size, iteration.left))
            iteration.left -= len(draw)
            self.end_if_over(iteration)
            self.stopwatch.seconds += time.perf_counter() - start
            yield [part[draw.indices] for part in tensors], draw

    def _next_draw(self, size: int) -> DeviceDraw:
        """Draw a batch, and count it."""
        draw: DeviceDraw = self.sampler.draw(size)
        ones = torch.ones_like(draw.indices, dtype=torch.int32)
        self._drawn.index_add_(0, draw.indices, ones)
        remember(self._unanswered, draw.number, draw)
        return draw

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
        self._unanswered.pop(draw.number, None)

    @property
    def unanswered(self) -> list[TensorDraw]:
        """Batches that were handed out and have no feedback; a state has none."""
        return list(self._unanswered.values())

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
        self.require_one_iteration()
        return DeviceLoaderState(
            epoch=self.epoch,
            left=self.current.left,
            open=self.open,
            counts=self.counts(),
            skipped=self.skipped,
            sampler=self.sampler.state_dict(),
        ).state_dict()

    def load_state_dict(self, state: Any) -> None:
        """Continue from a state; the batch size may differ."""
        read = DeviceLoaderState.from_state_dict(state, n=self.settings.n)
        self.sampler.load_state_dict(read.sampler)
        self.resume_at(read.epoch, read.open, read.left, {})
        self._drawn.copy_(torch.from_numpy(read.counts))
        self._skipped.fill_(read.skipped)
        self._unanswered.clear()


class DeviceLoader(DatasetLoader):
    """Load batches of tensors that are on a device, without waiting for the host.

    An `ImportanceLoader` does the same with a `TensorDataset` on a CUDA device, if it is given
    nothing else than the parameters below, in one process. This one may be made for tensors on the
    CPU as well: it gathers a batch at once, not item by item.

    Each batch is ``[x[draw.indices], y[draw.indices]]``, and the sampler is a `tombola.torch.VRB`
    or a `tombola.torch.GroupVRB`: a batch is drawn with all feedback given before. Draws are not
    those of an `ImportanceLoader` on the host. A bad loss is reported by `check` or `state_dict`,
    or by ``sampler.check()``, not by `update`.

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
        n = len(tensors_of(dataset)[0])
        for name, value in others.items():
            if name not in ARGUMENTS:
                raise TypeError(f"DeviceLoader has no argument {name!r}")
            if value and (name, value) != ("distributed", "auto"):
                raise TypeError(f"{name} cannot be given if data are drawn on a device")
        settings = Settings(
            n=n,
            batch_size=batch_size,
            sampler=sampler,
            groups=resolve_groups(groups, dataset, n),
            seed=seed,
            quantity=quantity,
            drop_last=drop_last,
            distributed=others.get("distributed", "auto"),
        )
        batches, self._source = DeviceBatches(dataset, settings), dataset
        super().__init__(settings, batches, dataset=dataset, num_workers=0, device=batches.device)

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


def sampler_for(settings: Settings, device: torch.device) -> DeviceSampler:
    """Return the sampler asked for."""
    sampler, n, groups = settings.sampler, settings.n, settings.groups
    if isinstance(sampler, DeviceSampler):
        if sampler.device != device:
            raise ValueError(f"the sampler is on {sampler.device}, the data on {device}")
        settings.fit(sampler)
        return sampler
    if sampler not in SAMPLERS:
        raise TypeError(
            f"sampler must be one of {', '.join(SAMPLERS)}, a tombola.torch.VRB or a "
            f"tombola.torch.GroupVRB if data are on a device, got {sampler!r}"
        )
    common: dict[str, Any] = {
        "device": device, "quantity": settings.quantity, "seed": settings.seed
    }  # fmt: skip
    if sampler == "vrb" or (sampler == "auto" and groups is None):
        return VRB(n, **common)
    if groups is None:
        raise ValueError("group-vrb needs groups: the group of each item, such as its class label")
    return GroupVRB(groups, **common)


def serves(dataset: Any, sampler: Any, options: Mapping[str, Any]) -> bool:
    """Return whether the device of the data can do what is asked of an `ImportanceLoader`."""
    if not isinstance(dataset, TensorDataset) or not dataset.tensors:
        return False
    # an unknown name is left to the host, whose DataLoader refuses it
    asked = {name for name, value in options.items() if value or name not in ARGUMENTS}
    alone = world_size() <= 1 or options.get("distributed", "auto") is None
    return (
        all(part.device.type == "cuda" for part in dataset.tensors)
        and len({part.device for part in dataset.tensors}) == 1
        and (isinstance(sampler, DeviceSampler) or sampler in SAMPLERS)
        and asked <= {"distributed"}
        and options.get("distributed", "auto") in ("auto", None)
        and alone
    )
