"""What the loader and the bare sampler have in common, put together from its parts."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tombola.samplers import Sampler
from tombola.samplers.epoch_vrb import draws_in
from tombola.torch.checkpoints import Checkpoints
from tombola.torch.communication import find_connection, world_size
from tombola.torch.epochs import Epochs
from tombola.torch.feedback import FeedbackQueue
from tombola.torch.monitoring import Stopwatch, logged_values, most_drawn
from tombola.torch.processes import make_processes
from tombola.torch.shards import SamplerChoice
from tombola.torch.tensor_draw import TensorDraw
from tombola.validation import number, whole

__all__ = ["AdaptiveBatches"]


class AdaptiveBatches:
    """The interface to draws, feedback, checkpoints and monitoring.

    Parameters
    ----------
    n, batch_size, sampler, groups, seed, quantity, lag, drop_last, distributed, shards, \
process_group, share
        As for `ImportanceLoader`, with n items and a lag.
    ahead : int
        How many batches a loader draws ahead, if that is known.
    """

    def __init__(
        self,
        n: int,
        batch_size: int,
        sampler: str | Sampler | Callable[..., Sampler],
        groups: Any,
        seed: int,
        quantity: str,
        lag: int,
        drop_last: bool,
        distributed: str | None,
        shards: int | None,
        process_group: Any,
        share: float | None,
        ahead: int = 0,
    ) -> None:
        self.n = n
        self.batch_size = whole("batch_size", batch_size, 1)
        self.lag = whole("lag", lag, 0)
        self.drop_last = bool(drop_last)
        if not isinstance(quantity, str):
            raise TypeError(f"quantity must be a string, got {quantity!r}")
        if isinstance(groups, Tensor):
            groups = groups.cpu().numpy()
        if isinstance(groups, str):
            raise ValueError(
                f"groups must have the group of each item, got {groups!r}: labels are found by an "
                "ImportanceLoader, which has the dataset"
            )
        if groups is not None and len(groups) != n:
            raise ValueError(f"groups has {len(groups)} labels for {n} items")
        _check_share(share, sampler, groups)
        connection = find_connection(distributed, process_group)
        connection.require_equal(
            {
                "number of items": n,
                "batch_size": self.batch_size,
                "lag": self.lag,
                "drop_last": self.drop_last,
                "number of draws in an epoch": n if share is None else draws_in(share, n),
                "num_workers * prefetch_factor": ahead,  # else processes would wait for each other
                "shards": connection.world if shards is None else whole("shards", shards, 1),
            }
        )
        choice = SamplerChoice(sampler, groups, seed, quantity, share)
        processes = make_processes(connection, n, self.batch_size, choice, shards)
        self._shards = processes.shards
        self._stopwatch = Stopwatch()
        self._feedback = FeedbackQueue(processes)
        self._epochs = Epochs(
            n, self.batch_size, self.lag, self.drop_last, processes, self._feedback,
            self._stopwatch, before_group=distributed is not None and not world_size(),
        )  # fmt: skip
        settings = {
            "n": n, "lag": self.lag, "drop_last": self.drop_last, "sharded": processes.sharded
        }  # fmt: skip
        self._checkpoints = Checkpoints(
            settings, self.batch_size, self._epochs, self._feedback, processes
        )

    @property
    def sampler(self) -> Sampler:
        """The sampler; where this process has several shards, that of the first."""
        return self._shards[0].sampler

    @property
    def samplers(self) -> list[Sampler]:
        """The samplers of all shards of this process; usually there is one."""
        return [shard.sampler for shard in self._shards]

    def __len__(self) -> int:
        """Return the number of batches in an epoch; in this one, if the sampler varies it."""
        return len(self._epochs)

    @property
    def epoch(self) -> int:
        """The number of epochs that are over: handed out to the last batch, or abandoned.

        A checkpoint holds it, so a loop that may be resumed says
        ``for epoch in range(loader.epoch, epochs)``.
        """
        return self._epochs.position.epoch

    def set_epoch(self, epoch: int) -> None:
        """Do nothing: no epoch repeats the draws of another. Loops written for others call it."""

    def update(self, draw: TensorDraw, losses: Any, *, skip_nonfinite: bool = False) -> None:
        """Learn from the losses of a batch: now, later, in another order, for a part, or never.

        They count from the batch on that comes `lag` batches after the next one to be handed
        out. Nothing is learnt from a batch without feedback; estimates are unbiased all the same.

        Parameters
        ----------
        draw : TensorDraw
            As it came with the batch; for a part of it, that part: ``draw[mask]``. It must be of
            this loader: a draw of another one over equally many items is not detected.
        losses : tensor or array-like, shape (len(draw),)
            Finite and not negative: losses or gradient norms, *not* multiplied by importances.
            A tensor on a CUDA device is copied asynchronously; its values are checked when they
            are due or saved, otherwise at once.
        skip_nonfinite : bool, default=False
            Whether to leave out items whose loss is not finite, instead of raising an error:
            for gradient norms under a `GradScaler`, whose scale overflows now and then. They
            are counted, when due, in `skipped`.
        """
        start = time.perf_counter()
        if not isinstance(draw, TensorDraw):
            raise TypeError(f"draw must be what came with the batch, got {type(draw).__name__}")
        if draw.ticket.n != self.n:
            raise ValueError(f"the draw is over {draw.ticket.n} items, this is over {self.n}")
        due = self._epochs.position.handed + self.lag
        self._feedback.give(draw, losses, due, skip_nonfinite)
        self._stopwatch.seconds += time.perf_counter() - start

    @property
    def unanswered(self) -> list[TensorDraw]:
        """Batches that were handed out and have no feedback, at most 256.

        Feedback for a part counts as feedback for the batch. After a resume, compute their losses
        again if they should count. The state of replicated processes does not hold them, since
        they differ between the processes.
        """
        return [
            TensorDraw(batch.part, number, batch.shares, len(self._shards))
            for number, batch in self._feedback.unanswered.items()
        ]

    @property
    def skipped(self) -> int:
        """The number of losses of this process that `update` has left out."""
        return self._feedback.skipped

    def state_dict(self) -> dict[str, Any]:
        """Return the state: samplers, batches drawn ahead, feedback that is not due yet.

        Call it between batches, best after `update`, where the model and its optimiser are
        saved. It holds tensors, numbers, strings, lists and dicts, and loads under
        ``torch.load(..., weights_only=True)``. Iteration continues after the last batch that was
        handed out, with the batches of an uninterrupted run, also under another number of
        workers; `epoch` says which epoch they belong to.

        With several processes, all of them call it. Replicated: the state is the same on each,
        so that one may save it; `unanswered`, which is not, is not in it. Sharded: each saves
        its own.
        """
        return self._checkpoints.take()

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Continue from a state; the next iteration continues its epoch.

        Items, lag, sampler and its parameters must be those of the state; the number of workers
        may differ, and so may the batch size and the number of processes: batches that were
        drawn ahead are then divided differently. With sharded items and another number of
        processes, pass the states of all former processes as a list; what these had drawn ahead
        is drawn again, and all feedback is kept.

        An iteration that is in progress ends with an error. The next one continues the epoch of
        the state, so do not begin one only to look at a batch: the one after it begins a new
        epoch.

        The state may come from anywhere: every entry is checked first. One that is missing,
        damaged or does not fit raises a `tombola.checkpoint.CheckpointError`, and nothing changes.
        """
        self._checkpoints.resume(state if isinstance(state, (list, tuple)) else [state])

    @property
    def time_share(self) -> float:
        """The share of time, since the first batch was asked for, spent on draws and feedback.

        Loading data is not included; waiting for losses and for other processes is.
        """
        return self._stopwatch.share

    def most_drawn(self, k: int = 10) -> list[tuple[int, int]]:
        """Return the k items drawn most often, with their counts; sharded: of this process."""
        return most_drawn(self._counts(), k, self._shards[0].start)

    def log(self, logger: Callable[[str, float, int], Any], step: int) -> None:
        """Tell a logger, a function (name, value, step), how the sampling performs.

        "tombola/second_moment_ratio", "ratio_low" and "ratio_high": the gauge and its interval,
        below 1 where draws beat uniform ones; "ratio_worst": what is certain, see
        `tombola.gauge.Gauge.worst`; "adaptive": 1, or 0 while shuffled epochs do as well;
        "time_share": see `time_share`; "lag": how many batches late feedback counts;
        "most_drawn_share": the share of all draws that the most-drawn hundredth of the items got.
        Values that are not known yet are left out. `tombola.torch.loggers` has functions for
        TensorBoard, Weights & Biases and MLflow.
        """
        values = logged_values(self.sampler.gauge, self._counts(), self.time_share, self.lag)
        for name, value in values.items():
            logger(f"tombola/{name}", value, step)

    def _counts(self) -> NDArray[np.int32]:
        """Return how often each item of this process was drawn."""
        return np.concatenate([shard.counts for shard in self._shards])


def _check_share(share: Any, sampler: Any, groups: Any) -> None:
    """Raise a ValueError if a share is given together with what it does not apply to."""
    if share is None:
        return
    if not 0 < number("share", share) < math.inf:
        raise ValueError(f"share must be positive, got {share}")
    if sampler not in ("auto", "epoch-vrb"):
        raise ValueError(
            f"share={share} is for sampler='epoch-vrb', which it stands for, got {sampler!r}"
        )
    if groups is not None:
        raise ValueError(f"share={share} draws by items: it cannot be combined with groups")
