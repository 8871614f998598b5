"""The settings and the interface of the loaders and the bare sampler, and the batches behind it."""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from inspect import signature
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader

from tombola.samplers import Sampler
from tombola.torch.communication import world_size
from tombola.torch.tensor_draw import TensorDraw
from tombola.validation import number, whole

__all__ = [
    "ARGUMENTS", "MOST_UNANSWERED", "Batches", "DatasetLoader", "Iteration", "LoaderBase",
    "Settings",
]  # fmt: skip

MOST_UNANSWERED = 256  # batches without feedback that are remembered


@dataclass(eq=False, kw_only=True)
class Settings:
    """The arguments of a loader, checked once; see `ImportanceLoader`."""

    n: int
    batch_size: int = 1
    sampler: str | Sampler | Callable[..., Sampler] = "auto"
    groups: Any = None
    seed: int = 0
    quantity: str = "loss"
    lag: int | None = None  # None: one more than `ahead`, or that of a state that is loaded
    drop_last: bool = False
    distributed: str | None = "auto"
    shards: int | None = None
    process_group: Any = None
    share: float | None = None
    ahead: int = 0  # batches that workers draw ahead, if that is known

    def __post_init__(self) -> None:
        """Check all that does not depend on the other processes."""
        self.batch_size = whole("batch_size", self.batch_size, 1)
        self.drop_last = bool(self.drop_last)
        if self.lag is not None:
            self.lag = whole("lag", self.lag, 0)
            if self.lag < self.ahead:
                raise ValueError(
                    f"lag={self.lag} is too small: the workers draw {self.ahead} batches "
                    "(num_workers * prefetch_factor) before the first one is handed out, so no "
                    f"feedback can count sooner; declare lag={self.ahead} or more, or use fewer "
                    "workers"
                )
        if self.shards is not None:
            self.shards = whole("shards", self.shards, 1)
        if not isinstance(self.quantity, str):
            raise TypeError(f"quantity must be a string, got {self.quantity!r}")
        if isinstance(self.groups, str):
            raise ValueError(
                f"groups must have the group of each item, got {self.groups!r}: labels are found "
                "by an ImportanceLoader, which has the dataset"
            )
        if isinstance(self.groups, Tensor):
            self.groups = self.groups.numpy(force=True)
        if self.groups is not None and len(self.groups) != self.n:
            raise ValueError(f"groups has {len(self.groups)} labels for {self.n} items")
        share = self.share
        if share is None:
            return
        if not 0 < number("share", share) < math.inf:
            raise ValueError(f"share must be positive, got {share}")
        if self.sampler not in ("auto", "epoch-vrb"):
            raise ValueError(
                f"share={share} is for sampler='epoch-vrb', which it stands for, "
                f"got {self.sampler!r}"
            )
        if self.groups is not None:
            raise ValueError(f"share={share} draws by items: it cannot be combined with groups")

    def fit(self, sampler: Any) -> None:
        """Set the quantity of a sampler; raise a ValueError if it is over other items."""
        if sampler.n != self.n:
            raise ValueError(
                f"the sampler is over {sampler.n} items, the dataset has {self.n} items"
            )
        if self.quantity != "loss":  # the default leaves a sampler as its maker has set it up
            sampler.quantity = self.quantity


# The arguments of an `ImportanceLoader`, those that it hands to a `DataLoader` included.
ARGUMENTS = frozenset(
    {*signature(DataLoader).parameters, *(one.name for one in fields(Settings))} - {"n", "ahead"}
)
# Set when a loader is made; as with a DataLoader, setting it later would change nothing.
FIXED = ARGUMENTS | {"n", "device"}


@dataclass(eq=False)
class Iteration:
    """One pass over an epoch. Only the host, which may draw ahead, uses `waiting` and `fresh`."""

    left: int = 0  # items of the epoch that are not drawn yet, over all processes
    waiting: dict[int, Any] = field(default_factory=dict)  # batches drawn and not handed out
    life: int = 0  # of the loader: loading a state begins a new one, and ends the iterations before
    fresh: bool = True  # whether nothing of the epoch is drawn yet


class Batches(ABC):
    """Where batches come from: they are drawn on the host, or on the device that holds the data."""

    lag: int  # how many batches late feedback counts
    samplers: list[Any]  # those that this process draws by ...
    first: int = 0  # ... from this item on

    def __init__(self, settings: Settings, world: int = 1) -> None:
        self.settings = settings
        # the latest batches that were handed out and have no feedback, by number
        self.unanswered: dict[int, TensorDraw] = {}
        self.seconds = 0.0  # spent on draws and feedback
        self.begun = -math.inf  # the clock when the first batch was asked for
        self.epoch, self.open = 0, False  # epochs that are over, and whether one has begun
        self.current = Iteration()  # the latest one, which a state continues
        self._global_size = settings.batch_size * world
        self._smallest_rest = self._global_size if settings.drop_last else 1
        self._continues = False  # whether the next iteration continues the current one
        self._taking_turns = False  # whether an earlier iteration goes on beside the current one
        self._life = 0
        # whether other processes were looked for before torch.distributed was initialised
        self._before_group = settings.distributed is not None and not world_size()

    def begin(self) -> Iteration:
        """Begin an epoch, or continue the one of a state; an iteration in progress may go on."""
        if self._before_group and world_size() > 1:
            raise RuntimeError(
                "torch.distributed was initialised after this was made, so each process would "
                "draw the same: make it after init_process_group, or pass distributed=None"
            )
        if not (self.open and self._continues):
            if self.open:
                self.abandon()
            self.current = Iteration(self.epoch_length(), life=self._life)
            self._taking_turns = False
        self.open, self._continues = True, False
        if self.begun == -math.inf:
            self.begun = time.perf_counter()
        self.end_if_over(self.current)  # there may be too few items for a batch
        return self.current

    def abandon(self) -> None:
        """End an epoch early."""
        self.epoch += 1

    def end_if_over(self, iteration: Iteration) -> None:
        """End the epoch if no batch is left; called when it begins and after each batch."""
        if iteration is not self.current:
            self._taking_turns = True
        elif not iteration.waiting and iteration.left < self._smallest_rest:
            self.open = False
            self.epoch += 1

    def require_running(self, iteration: Iteration) -> None:
        """Raise an error if an iteration cannot go on."""
        if iteration.life != self._life:
            raise RuntimeError(
                "this iteration has ended: a state was loaded, or its persistent workers serve a "
                "newer one"
            )

    def require_one_iteration(self) -> None:
        """Raise an error if a state would lose the progress of an iteration."""
        if self.open and self._taking_turns:
            raise RuntimeError(
                "two iterations take turns, and a state holds the epoch of one: save when the "
                "later one is over, or iterate over a second loader"
            )

    def resume_at(self, epoch: int, is_open: bool, left: int, waiting: dict[int, Any]) -> None:
        """Take the position of a state; any iteration ends."""
        self._life += 1
        self.epoch, self.open = epoch, is_open
        self.current = Iteration(left, waiting, self._life, fresh=False)
        self._continues, self._taking_turns = True, False

    def remember(self, draw: TensorDraw) -> None:
        """Remember a batch until it has feedback; forget the oldest if there are too many."""
        self.unanswered[draw.number] = draw
        if len(self.unanswered) > MOST_UNANSWERED:
            del self.unanswered[next(iter(self.unanswered))]

    def __len__(self) -> int:
        """Return the number of batches in an epoch; in this one, if epochs vary."""
        return (self.epoch_length() + self._global_size - self._smallest_rest) // self._global_size

    @abstractmethod
    def epoch_length(self) -> int:
        """Return the number of items in an epoch, of all processes; in this one, if epochs vary."""

    @abstractmethod
    def batches(self, source: Any) -> Iterator[tuple[Any, TensorDraw]]:
        """Begin an epoch, or continue the one of a state; each batch comes with its draw.

        `source` is a loader of numbered data on the host, the dataset on a device.
        """

    @abstractmethod
    def give(self, draw: TensorDraw, losses: Any, skip_nonfinite: bool) -> None:
        """Take the losses of a batch."""

    @abstractmethod
    def check(self) -> None:
        """Raise the error of feedback that a device has refused."""

    @property
    @abstractmethod
    def skipped(self) -> int:
        """The number of losses that were left out because they are not finite."""

    @abstractmethod
    def counts(self) -> NDArray[np.int32]:
        """Return how often each item was drawn, from `first` on."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return the state."""

    @abstractmethod
    def load_state_dict(self, state: Any) -> None:
        """Continue from a state; on an error nothing changes."""


class LoaderBase:
    """Base of the loaders and the bare sampler: draws, feedback, checkpoints and monitoring."""

    n: int
    batch_size: int
    drop_last: bool

    def __init__(self, batches: Batches, **fixed: Any) -> None:
        self._batches = batches
        for name in ("n", "batch_size", "drop_last"):
            fixed[name] = getattr(batches.settings, name)
        vars(self).update(fixed)  # past __setattr__

    def __setattr__(self, name: str, value: Any) -> None:
        if name in FIXED:
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized: "
                "make a new one, and load the state of this one if it should continue"
            )
        super().__setattr__(name, value)

    @property
    def lag(self) -> int:
        """How many batches late feedback counts."""
        return self._batches.lag

    @property
    def sampler(self) -> Any:
        """The sampler; if this process has several shards, that of the first."""
        return self._batches.samplers[0]

    @property
    def samplers(self) -> list[Any]:
        """The samplers of all shards of this process; usually there is one."""
        return list(self._batches.samplers)

    def __len__(self) -> int:
        """Return the number of batches in an epoch; in this one, if the sampler varies it."""
        return len(self._batches)

    @property
    def epoch(self) -> int:
        """The number of epochs that are over: handed out to the last batch, or abandoned.

        A checkpoint holds it, so a loop that may be resumed says
        ``for epoch in range(loader.epoch, epochs)``.
        """
        return self._batches.epoch

    def set_epoch(self, epoch: int) -> None:
        """Do nothing: no epoch repeats the draws of another. Loops written for others call it."""

    def update(self, draw: TensorDraw, losses: Any, *, skip_nonfinite: bool = False) -> None:
        """Learn from the losses of a batch: now, later, in another order, for a part, or never.

        They count from the batch on that comes `lag` batches after the next one to be handed
        out. Nothing is learnt from a batch without feedback; estimates stay unbiased.

        Parameters
        ----------
        draw : TensorDraw
            As it came with the batch; for a part of it, that part: ``draw[mask]``. It must be of
            this loader: a draw of another one over equally many items is not detected.
        losses : tensor or array-like, shape (len(draw),)
            Finite and not negative: losses or gradient norms, *not* multiplied by importances.
            Those in host memory are checked at once. A tensor on a CUDA device is copied
            asynchronously; its values are checked when they are due or saved. If data are drawn
            on the device, losses must be there too; a batch with a bad one is refused as a whole,
            and `check` says so.
        skip_nonfinite : bool, default=False
            Whether to leave out items whose loss is not finite, instead of raising an error:
            for gradient norms under a `GradScaler`, whose scale overflows now and then. They
            are counted, when due, in `skipped`. If data are drawn on a device, this waits for it.
        """
        start = time.perf_counter()
        self._batches.give(draw, losses, skip_nonfinite)
        self._batches.seconds += time.perf_counter() - start

    def check(self) -> None:
        """Raise the error of the first update that a device refused since the last check.

        This waits for the device. On the host there is nothing to check: `update` raises the
        error, or the iteration once losses on a device are due.
        """
        self._batches.check()

    @property
    def unanswered(self) -> list[TensorDraw]:
        """Batches that were handed out and have no feedback, at most 256.

        Feedback for a part counts as feedback for the batch. After a resume, compute their losses
        again if they should count. Neither the state of replicated processes, which differ in
        them, nor that of data on a device holds them.
        """
        return list(self._batches.unanswered.values())

    @property
    def skipped(self) -> int:
        """The number of losses of this process that `update` has left out."""
        return self._batches.skipped

    def state_dict(self) -> dict[str, Any]:
        """Return the state: samplers, batches drawn ahead, feedback that is not due yet.

        Call it between batches, best after `update`, where the model and its optimiser are
        saved. It holds tensors, numbers, strings, lists and dicts, and loads under
        ``torch.load(..., weights_only=True)``. Iteration continues after the last batch that was
        handed out, with the batches of an uninterrupted run, also under another number of
        workers; `epoch` says which epoch they belong to. While two iterations take turns, it is
        an error.

        With several processes, all of them call it. Replicated: the state is the same on each,
        so that one may save it; `unanswered`, which is not, is not in it. Sharded: each saves
        its own. If data are drawn on a device, it raises as `check` does.
        """
        self._batches.require_one_iteration()
        return self._batches.state_dict()

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Continue from a state; the next iteration continues its epoch.

        Items, sampler and its parameters must be those of the state; the number of workers
        may differ, and so may the batch size and the number of processes: batches that were
        drawn ahead are then divided differently. A loader that was made without a `lag` takes
        that of the state; one that its workers cannot keep is an error. With sharded items and
        another number of processes, pass the states of all former processes as a list; batches
        that these had drawn ahead are drawn again, and all feedback is kept.

        Iterations that are in progress end with an error. The next one continues the epoch of
        the state, so do not begin one only to look at a batch: the one after it begins a new
        epoch.

        The state may come from anywhere: every entry is checked first. One that is missing,
        damaged or does not fit raises a `tombola.checkpoint.CheckpointError`, and nothing changes.
        """
        self._batches.load_state_dict(state)

    @property
    def time_share(self) -> float:
        """The share of time, since the first batch was asked for, spent on draws and feedback.

        Loading data is not included; waiting for losses and for other processes is. If data are
        drawn on a device, it is the time that the host takes to launch the work.
        """
        return self._batches.seconds / (time.perf_counter() - self._batches.begun)

    def most_drawn(self, k: int = 10) -> list[tuple[int, int]]:
        """Return the k items drawn most often, with their counts; sharded: of this process."""
        counts = self._batches.counts()
        top = np.argsort(-counts, kind="stable")[: whole("k", k, 0)]
        return [(self._batches.first + int(item), int(counts[item])) for item in top]

    def log(self, logger: Callable[[str, float, int], Any], step: int) -> None:
        """Call a logger, a function (name, value, step), with how the sampling performs.

        "tombola/second_moment_ratio", "ratio_low" and "ratio_high": the gauge and its interval,
        below 1 if draws beat uniform ones; "ratio_worst": the upper bound of
        `tombola.gauge.Gauge.worst`; "adaptive": 1, or 0 while shuffled epochs do as well;
        "time_share": see `time_share`; "lag": how many batches late feedback counts;
        "most_drawn_share": the share of all draws that the most-drawn hundredth of the items got.
        Values that are not known yet are left out. `tombola.torch.loggers` has functions for
        TensorBoard, Weights & Biases and MLflow.
        """
        gauge, counts = self.sampler.gauge, self._batches.counts()
        low, high = gauge.interval()
        top = -(-len(counts) // 100)
        values = {
            "second_moment_ratio": gauge.second_moment_ratio,
            "ratio_low": low,
            "ratio_high": high,
            "ratio_worst": gauge.worst(),
            "adaptive": float(gauge.mode == "adaptive"),
            "time_share": self.time_share,
            "lag": float(self.lag),
            "most_drawn_share": float(
                np.partition(counts, -top)[-top:].sum() / max(1, counts.sum())
            ),
        }
        for name, value in values.items():
            if np.isfinite(value):
                logger(f"tombola/{name}", value, step)


class DatasetLoader(LoaderBase):
    """A loader that has its dataset: base of `ImportanceLoader` and `DeviceLoader`."""

    dataset: Any
    num_workers: int
    _source: Any  # the argument of `Batches.batches`

    def _require_length(self) -> None:
        """Raise an error if the dataset is no longer the one that the sampler was made for."""
        now = self._count_items()
        if now != self.n:
            raise RuntimeError(
                f"the dataset has {now} items now, {self.n} when the loader was made; the sampler "
                f"knows only those {self.n}. Make a new loader"
            )

    def _count_items(self) -> int:
        return len(self.dataset)

    def __len__(self) -> int:
        """Return the number of batches in an epoch; in this one, if the sampler varies it."""
        self._require_length()
        return super().__len__()

    def __iter__(self) -> Iterator[tuple[Any, TensorDraw]]:
        self._require_length()
        return self._batches.batches(self._source)

    @property
    def batch_sampler(self) -> NoReturn:
        """Raise an error: there is no batch sampler that a framework could wrap or replace."""
        raise AttributeError(
            f"{type(self).__name__} has no batch_sampler: a framework would put its own draws in "
            "place of ours, or skip batches to resume. Resume by load_state_dict (with Hugging "
            "Face's Trainer, under ignore_data_skip=True), and leave the loader out of prepare"
        )
