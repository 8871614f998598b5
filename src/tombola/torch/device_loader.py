"""The loader for data on a device: draws, gathers and feedback stay there."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from tombola.torch.labels import resolve_groups
from tombola.torch.loader import ImportanceLoader
from tombola.torch.monitoring import Stopwatch, logged_values, most_drawn
from tombola.torch.tensor_draw import TensorDraw
from tombola.torch.tensors import TensorState
from tombola.validation import whole

__all__ = ["DeviceLoader"]

REMEMBERED = 256  # batches without feedback
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
            return "open is True and left is 0: after its last batch, an epoch is over"
        return ""


class DeviceLoader(ImportanceLoader):
    """Load batches of tensors that are on a device, without waiting for the host.

    ``ImportanceLoader(TensorDataset(x, y))`` becomes one of these where x and y are on a CUDA
    device, the sampler is "auto", "vrb" or "group-vrb", and neither workers, a collate_fn, a lag
    nor several processes are asked for. It may be made for tensors on the CPU as well, where it
    gathers a batch at once, not item by item.

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
        lag: int | None = None,
        distributed: str | None = "auto",
        **others: Any,
    ) -> None:
        self._tensors = tensors_of(dataset)
        unusable = {
            **others,
            "lag": lag,
            "distributed": distributed if distributed != "auto" else 0,
        }
        for name, value in unusable.items():
            if value:
                raise TypeError(f"{name} cannot be given where data are drawn on a device")
        self.dataset, self.device = dataset, self._tensors[0].device
        self.n = len(self._tensors[0])
        self.batch_size = whole("batch_size", batch_size, 1)
        self.drop_last = bool(drop_last)
        self.lag = self.num_workers = 0
        groups = resolve_groups(groups, dataset, self.n)
        self._sampler = sampler_for(sampler, self.n, self.device, groups, seed, quantity)
        self._drawn = torch.zeros(self.n, dtype=torch.int32, device=self.device)
        self._skipped = torch.zeros((), dtype=torch.int64, device=self.device)
        self._stopwatch = Stopwatch()
        self._unanswered: dict[int, DeviceDraw] = {}
        self._epoch, self._left, self._open = 0, 0, False
        self._continues = False  # whether the next iteration continues the epoch that is open
        self._iteration = 0  # the number of iterations begun; a new one ends those before

    @property
    def sampler(self) -> Any:
        """The sampler."""
        return self._sampler

    @property
    def samplers(self) -> list[Any]:
        """The sampler, in a list."""
        return [self._sampler]

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        rest = 0 if self.drop_last else self.batch_size - 1
        return (self.n + rest) // self.batch_size

    @property
    def epoch(self) -> int:
        """The number of epochs that are over: handed out to the last batch, or abandoned."""
        return self._epoch

    def __iter__(self) -> Iterator[tuple[Any, TensorDraw]]:
        """Draw the batches of an epoch, each when it is asked for."""
        self._iteration += 1
        if not (self._open and self._continues):
            self._epoch += self._open
            self._left, self._open = self.n, True
            self._end_if_over()  # there may be too few items for a batch
        self._continues = False
        self._stopwatch.begin()
        return self._batches(self._iteration)

    def _batches(self, iteration: int) -> Iterator[tuple[Any, TensorDraw]]:
        while True:
            if iteration != self._iteration:
                raise RuntimeError(
                    "a new iteration has begun, or a state was loaded, which ended this one"
                )
            if not self._open:
                return
            start = time.perf_counter()
            draw = self._next_draw()
            self._stopwatch.seconds += time.perf_counter() - start
            yield [part[draw.indices] for part in self._tensors], draw

    def _next_draw(self) -> DeviceDraw:
        """Draw the next batch, and count it."""
        draw = self._sampler.draw(min(self.batch_size, self._left))
        ones = torch.ones_like(draw.indices, dtype=torch.int32)
        self._drawn.index_add_(0, draw.indices, ones)
        self._unanswered[draw.number] = draw
        if len(self._unanswered) > REMEMBERED:
            del self._unanswered[next(iter(self._unanswered))]
        self._left -= len(draw)
        self._end_if_over()
        return draw

    def _end_if_over(self) -> None:
        """After the last batch, the epoch is over."""
        if self._left < (self.batch_size if self.drop_last else 1):
            self._epoch, self._open = self._epoch + 1, False

    def update(self, draw: TensorDraw, losses: Any, *, skip_nonfinite: bool = False) -> None:
        """Learn from the losses of a batch: now, later, in another order, for a part, or never.

        Parameters
        ----------
        draw : TensorDraw
            As it came with the batch; for a part of it, that part.
        losses : Tensor, shape (len(draw),)
            On the device: losses or gradient norms, *not* multiplied by importances. A batch with
            one that is negative or not finite is refused as a whole; `check` says so.
        skip_nonfinite : bool, default=False
            Whether to leave out items whose loss is not finite. This waits for the device.
        """
        start = time.perf_counter()
        if skip_nonfinite and isinstance(draw, TensorDraw) and isinstance(losses, Tensor):
            finite = losses.detach().isfinite()
            self._skipped += (~finite).sum()
            draw, losses = draw[finite], losses[finite]
        self._sampler.update(draw, losses)
        self._unanswered.pop(draw.number, None)
        self._stopwatch.seconds += time.perf_counter() - start

    def check(self) -> None:
        """Raise the error of the first update that was refused since the last check; this waits."""
        self._sampler.check()

    @property
    def unanswered(self) -> list[TensorDraw]:
        """Batches that were handed out and have no feedback, at most 256; a state has none."""
        return list(self._unanswered.values())

    @property
    def skipped(self) -> int:
        """The number of losses that `update` has left out; this waits."""
        return int(self._skipped)

    @property
    def time_share(self) -> float:
        """The share of the host's time spent on launching draws and feedback."""
        return self._stopwatch.share

    def most_drawn(self, k: int = 10) -> list[tuple[int, int]]:
        """Return the k items drawn most often, with their counts; this waits."""
        return most_drawn(self._drawn.numpy(force=True), k)

    def log(self, logger: Callable[[str, float, int], Any], step: int) -> None:
        """Tell a logger how the sampling performs, as `ImportanceLoader.log` does; this waits."""
        counts = self._drawn.numpy(force=True)
        values = logged_values(self._sampler.gauge, counts, self.time_share, self.lag)
        for name, value in values.items():
            logger(f"tombola/{name}", value, step)

    def state_dict(self) -> dict[str, Any]:
        """Return the state: the sampler, the position in the epoch, and counts of draws.

        It loads under ``torch.load(..., weights_only=True)``. Raises as `check` does.
        """
        return DeviceLoaderState(
            epoch=self._epoch,
            left=self._left,
            open=self._open,
            counts=self._drawn.numpy(force=True),
            skipped=self.skipped,
            sampler=self._sampler.state_dict(),
        ).state_dict()

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Continue from a state; the next iteration continues its epoch.

        Raises a `tombola.checkpoint.CheckpointError` for a state that is damaged or does not fit,
        and nothing changes. The batch size may differ.
        """
        read = DeviceLoaderState.from_state_dict(state, n=self.n)
        self._sampler.load_state_dict(read.sampler)
        self._epoch, self._left, self._open = read.epoch, read.left, read.open
        self._drawn.copy_(torch.from_numpy(read.counts))
        self._skipped.fill_(read.skipped)
        self._unanswered.clear()
        self._continues = True
        self._iteration += 1


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


def sampler_for(
    sampler: Any, n: int, device: torch.device, groups: Any, seed: int, quantity: str
) -> DeviceSampler:
    """Return the sampler asked for."""
    if isinstance(sampler, DeviceSampler):
        if sampler.n != n:
            raise ValueError(f"the sampler is over {sampler.n} items, the dataset has {n} items")
        if sampler.device != device:
            raise ValueError(f"the sampler is on {sampler.device}, the data on {device}")
        if quantity != "loss":
            sampler.quantity = quantity
        return sampler
    if sampler not in SAMPLERS:
        raise TypeError(
            f"sampler must be one of {', '.join(SAMPLERS)}, a tombola.torch.VRB or a "
            f"tombola.torch.GroupVRB where data are on a device, got {sampler!r}"
        )
    if groups is not None and len(groups) != n:
        raise ValueError(f"groups has {len(groups)} labels for {n} items")
    if sampler == "vrb" or (sampler == "auto" and groups is None):
        return VRB(n, device=device, quantity=quantity, seed=seed)
    if groups is None:
        raise ValueError("group-vrb needs groups: the group of each item, such as its class label")
    return GroupVRB(groups, device=device, quantity=quantity, seed=seed)


def serves(dataset: Any, sampler: Any, options: Mapping[str, Any]) -> bool:
    """Return whether a `DeviceLoader` can do what is asked of an `ImportanceLoader`."""
    if not isinstance(dataset, TensorDataset) or not dataset.tensors:
        return False
    usual = {"groups", "seed", "quantity", "drop_last"}
    asked = {name for name, value in options.items() if name not in usual and value}
    alone = world_size() <= 1 or options.get("distributed", "auto") is None
    return (
        all(part.device.type == "cuda" for part in dataset.tensors)
        and len({part.device for part in dataset.tensors}) == 1
        and (isinstance(sampler, DeviceSampler) or sampler in SAMPLERS)
        and asked <= {"distributed"}
        and options.get("distributed", "auto") in ("auto", None)
        and alone
    )
