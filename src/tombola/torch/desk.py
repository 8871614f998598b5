"""The desk where batches are drawn, handed out and answered, each by its number.

Batches are numbered 0, 1, 2, ... over the life of a desk, epoch after epoch. One rule says what
a batch knows: **batch t is drawn with all feedback that was given before batch t - lag was handed
out.** If the loop answers each batch before it takes the next one, these are the losses of
batches 0 to t - lag - 1.

A loader with workers draws ahead: by K = workers * prefetch_factor batches. So feedback cannot
count before K batches have gone by, and with lag >= K it does not matter how many of them are
really drawn ahead, nor when the workers are done: draws depend on the feedback and on nothing
else. A lag of K + 1 leaves losses on a device one step to arrive on the host.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tombola.draws import Draw
from tombola.samplers import Sampler
from tombola.torch.distributed import (
    Replicated,
    Sharded,
    digest,
    find_ranks,
    world_size,
)
from tombola.torch.feedback import Feedback, check_values, received
from tombola.torch.shards import joined, make_shards
from tombola.torch.tensor_draw import TensorDraw
from tombola.torch.tensors import from_tensors, to_tensors
from tombola.validation import whole

__all__ = ["Desk", "Indices", "NumberedBatch"]

_END = object()
KEPT = 256  # batches without an answer that a checkpoint keeps; older ones are forgotten


class Indices(list[int]):
    """The items of a batch, and the number of the batch."""

    def __init__(self, items: Sequence[int] = (), number: int = -1) -> None:
        super().__init__(items)
        self.number = number


class NumberedBatch(NamedTuple):
    """A batch of data, and its number."""

    number: int
    batch: Any


class _Issue(NamedTuple):
    """A batch that was drawn: by all ranks together, and this rank's part of it."""

    drawn: Draw
    part: Draw
    shares: NDArray[np.float64] | None


class _Coming(NamedTuple):
    """Feedback that was given here and is not due yet."""

    due: int
    number: int
    draw: Draw
    losses: Callable[[], NDArray[np.float64]]
    skip_nonfinite: bool


class Desk:
    """What the loader and the bare sampler share; see the module for the one rule.

    Parameters
    ----------
    n, batch_size, sampler, groups, seed, lag, drop_last, distributed, shards, process_group
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
        lag: int,
        drop_last: bool,
        distributed: str | None,
        shards: int | None,
        process_group: Any,
        ahead: int = 0,
    ) -> None:
        self.n = n
        self.batch_size = whole("batch_size", batch_size, 1)
        self.lag = whole("lag", lag, 0)
        self.drop_last = bool(drop_last)
        if isinstance(groups, Tensor):
            groups = groups.cpu().numpy()
        if groups is not None and len(groups) != n:
            raise ValueError(f"groups has {len(groups)} labels for {n} items")
        self._ranks = find_ranks(distributed, process_group, self.batch_size)
        self._early = distributed is not None and not world_size()  # before init_process_group
        facts = {
            "number of items": n,
            "batch_size": self.batch_size,
            "lag": self.lag,
            "drop_last": self.drop_last,
            "num_workers * prefetch_factor": ahead,  # else ranks would wait for each other
            'distributed (1 for "sharded")': type(self._ranks) is Sharded,
            "shards": self._ranks.world if shards is None else whole("shards", shards, 1),
        }
        self._ranks.agree(facts)
        self._shards, self._least = make_shards(self._ranks, n, sampler, groups, seed, shards)
        if self.batch_size < self._least:
            raise ValueError(
                f"batch_size={self.batch_size} is less than the {self._least} shards of a "
                "process; each batch draws from all of them"
            )
        self._drawn = 0  # batches drawn so far: the number of the next one
        self._handed = 0  # batches handed out so far
        self._left = 0  # items of this epoch that were not drawn yet, of all processes
        self._open = False  # whether an epoch is under way
        self._epoch = 0  # epochs that are over
        self._resumed = False  # whether to go on with it, instead of beginning a new one
        self._turn = 0  # iterations begun
        self._paired = False  # whether `batches` is there to hand out what is drawn next
        self._waiting: dict[int, _Issue] = {}  # drawn, not handed out
        self._unanswered: dict[int, _Issue] = {}  # handed out, no feedback
        self._coming: deque[_Coming] = deque()  # given here, not due
        self._given: list[Feedback] = []  # known to all ranks, not due
        self.skipped = 0  # losses that were left out, see `update`
        self._progress = digest(repr(self.sampler).encode())
        self._seconds, self._since = 0.0, 0.0

    @property
    def sampler(self) -> Sampler:
        """The sampler; where this process has several shards, that of the first."""
        return self._shards.shards[0].sampler

    @property
    def samplers(self) -> list[Sampler]:
        """The samplers of all shards of this process; mostly there is one."""
        return [shard.sampler for shard in self._shards.shards]

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        size = self.batch_size * self._ranks.world
        return self.n // size if self.drop_last else -(-self.n // size)

    @property
    def epoch(self) -> int:
        """How many epochs are over: handed out to the last batch, or broken off.

        A checkpoint holds it, so a loop that may be resumed says
        ``for epoch in range(loader.epoch, epochs)``.
        """
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Do nothing: draws go on from epoch to epoch by themselves. Loops may call it."""

    # --- drawing and handing out ------------------------------------------------------------

    def _index_lists(self) -> Iterator[Indices]:
        """Draw the batches of an epoch, each as it is asked for."""
        self._begin()
        turn = self._turn
        for number, issue in list(self._waiting.items()):
            self._check_turn(turn)
            yield Indices(issue.part.indices.tolist(), number)
        while self._is_more():
            self._check_turn(turn)
            try:
                number = self._draw_next()
            except ValueError as error:
                self._resumed = True  # the epoch is not over
                raise ValueError(f"{error}. A new iteration goes on with this epoch") from None
            yield Indices(self._waiting[number].part.indices.tolist(), number)

    def _check_turn(self, turn: int) -> None:
        if turn != self._turn:
            raise RuntimeError(
                "a new iteration has begun, or a state was loaded, which ended this one"
            )

    def _begin(self) -> None:
        if self._early and world_size() > 1:
            raise RuntimeError(
                "torch.distributed was initialised after this was made, so each process would "
                "draw the same: make it after init_process_group, or pass distributed=None"
            )
        if not self._paired:
            raise RuntimeError(
                "batches are asked for without their draws, so that no loss would find its way "
                "back: iterate over sampler.batches(loader). A framework that takes batches from "
                "a loader itself needs an ImportanceLoader, not a DataLoader with this sampler"
            )
        self._turn += 1
        if not (self._open and self._resumed):
            if self._open:
                self._drop_ahead()
                self._epoch += 1
            self._left = self.n
        self._open, self._resumed = True, False
        if not self._since:
            self._since = time.perf_counter()

    def _drop_ahead(self) -> None:
        """End an epoch that was broken off: what may have been drawn ahead is drawn and dropped.

        So the draws after it do not depend on how far ahead a loader was.
        """
        while self._is_more() and self._drawn < self._handed + self.lag:
            self._draw_next()
        self._waiting.clear()
        self._handed = self._drawn

    def _is_more(self) -> bool:
        """Return whether the epoch has another batch."""
        return self._left >= (self.batch_size * self._ranks.world if self.drop_last else 1)

    def _draw_next(self) -> int:
        """Learn what is due, draw the next batch and return its number."""
        start = time.perf_counter()
        number = self._drawn
        if number - self.lag > self._handed:
            raise RuntimeError(
                f"batch {number} is asked for while only {self._handed} batches have been handed "
                f"out, so it cannot know of losses up to lag={self.lag} batches before: something "
                "draws further ahead. Declare a larger lag (num_workers * prefetch_factor, and "
                "what a framework adds); where a whole epoch is drawn in advance, nothing can "
                "adapt"
            )
        self._learn(number)
        # of equal size on each rank, and with something from each shard
        size = max(self._least, min(self.batch_size, -(-self._left // self._ranks.world)))
        drawn, shares = self._shards.draw(self._ranks.drawn(size))
        self._waiting[number] = _Issue(drawn, self._ranks.part(drawn), shares)
        self._drawn += 1
        self._left = max(0, self._left - size * self._ranks.world)
        if type(self._ranks) is Replicated:
            self._progress = digest(drawn.indices.tobytes(), self._progress)
        self._seconds += time.perf_counter() - start
        return number

    def batches(self, loader: Any) -> Iterator[tuple[Any, TensorDraw]]:
        """Iterate over a loader of `Numbered` data: each batch, and how it was drawn."""
        self._paired = True
        try:
            coming = iter(loader)
            numbered = next(coming, _END)
        finally:
            self._paired = False
        turn = self._turn
        while numbered is not _END:
            if not isinstance(numbered, NumberedBatch):
                raise TypeError(
                    "the batches of the loader have no number: it needs "
                    "DataLoader(numbered, batch_sampler=sampler, collate_fn=numbered.collate) "
                    "with numbered = tombola.torch.Numbered(dataset)"
                )
            self._check_turn(turn)  # else the number may be that of another draw
            yield numbered.batch, self._hand_out(numbered.number)
            numbered = next(coming, _END)

    def _hand_out(self, number: int) -> TensorDraw:
        issue = self._waiting.pop(number, None)
        if issue is None:
            raise RuntimeError(
                f"batch {number} is not waiting: it was handed out before, or belongs to an "
                "iteration that a new one has ended"
            )
        self._handed += 1
        if not self._waiting and not self._is_more():  # frameworks do not ask for a batch more
            self._open = False
            self._epoch += 1
        self._unanswered[number] = issue
        if len(self._unanswered) > KEPT:
            del self._unanswered[next(iter(self._unanswered))]
        return self._as_tensors(number, issue)

    def _as_tensors(self, number: int, issue: _Issue) -> TensorDraw:
        return TensorDraw(issue.part, number, issue.shares, len(self._shards.shards))

    # --- feedback ---------------------------------------------------------------------------

    def update(self, draw: TensorDraw, losses: Any, *, skip_nonfinite: bool = False) -> None:
        """Learn from the losses of a batch: now, later, in another order, for a part, or never.

        They count from the batch on that comes `lag` batches after the next one to be handed
        out. Of a batch without feedback nothing is learnt; estimates are unbiased all the same.

        Parameters
        ----------
        draw : TensorDraw
            As it came with the batch; for a part of it, that part: ``draw[mask]``. One of another
            loader over as many items is not told apart.
        losses : tensor or array-like, shape (len(draw),)
            Finite and not negative: losses or gradient norms, *not* multiplied by importances.
            A tensor on a CUDA device is copied behind what the device has to do before; values
            are then checked when they are due, otherwise at once.
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
        arrival = received(draw, losses, skip_nonfinite)
        due = self._handed + self.lag
        self._coming.append(_Coming(due, draw.number, draw.ticket, arrival, skip_nonfinite))
        self._unanswered.pop(draw.number, None)
        self._seconds += time.perf_counter() - start

    @property
    def unanswered(self) -> list[TensorDraw]:
        """Batches that were handed out and that no feedback came for, at most 256.

        Feedback for a part is an answer to the batch. After a resume, compute their losses anew
        if they should count; the state of replicated processes does not hold them, since each
        process has answered batches of its own.
        """
        return [self._as_tensors(number, issue) for number, issue in self._unanswered.items()]

    def _learn(self, number: int) -> None:
        """Apply the feedback that is due when batch `number` is drawn."""
        due = [feedback for feedback in self._given if feedback.due <= number]
        self._given = [feedback for feedback in self._given if feedback.due > number]
        due += self._ranks.exchange(self._arrived(number), self._progress)
        due.sort(key=_order)
        for k, feedback in enumerate(due):
            try:
                check_values(feedback.losses, feedback.draw, feedback.number)
            except ValueError:
                self._given = due[:k] + due[k + 1 :] + self._given  # all but this one
                raise
        for _, told in groupby(due, key=lambda feedback: feedback[:2]):
            parts = list(told)  # of one batch: learnt at once, whoever gave them
            if type(self._ranks) is not Sharded and len(parts) > 1:
                draw = joined([part.draw for part in parts])
                losses = np.concatenate([part.losses for part in parts])
                parts = [Feedback(*parts[0][:2], draw, losses)]
            for part in parts:
                self._shards.update(part.draw, part.losses)

    def _arrived(self, number: float) -> list[Feedback]:
        """Take out what was given here and is due at a batch, waiting for devices if need be."""
        arrived = []
        while self._coming and self._coming[0].due <= number:
            coming = self._coming.popleft()
            draw, losses = coming.draw, coming.losses()
            if coming.skip_nonfinite and not np.isfinite(losses).all():
                finite = np.isfinite(losses)
                self.skipped += int(len(losses) - finite.sum())
                draw, losses = draw[finite], losses[finite]
                if not len(losses):
                    continue
            arrived.append(Feedback(coming.due, coming.number, draw, losses))
        return arrived

    # --- checkpoints ------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state: samplers, batches drawn ahead, feedback that is not due yet.

        Call it between batches, best after `update`, where the model and its optimiser are
        saved. It holds tensors, numbers, strings, lists and dicts, and loads under
        ``torch.load(..., weights_only=True)``. Iteration goes on after the last batch that was
        handed out, with the same batches as if nothing had happened, also under another number
        of workers; `epoch` says which epoch they belong to.

        With several processes, all of them call it. Replicated: the state is the same on each,
        so that one may save it; `unanswered`, which is not, is not in it. Sharded: each saves
        its own.
        """
        self._given += self._ranks.exchange(self._arrived(np.inf), self._progress, saving=True)
        self._given.sort(key=_order)
        unanswered = {} if type(self._ranks) is Replicated else self._unanswered
        state = {
            "format": 1,
            "n": self.n,
            "lag": self.lag,
            "batch_size": self.batch_size,
            "drop_last": self.drop_last,
            "sharded": type(self._ranks) is Sharded,
            "rank": self._ranks.rank if type(self._ranks) is Sharded else 0,
            "world": self._ranks.world,
            "drawn": self._drawn,
            "handed": self._handed,
            "left": self._left,
            "open": self._open,
            "epoch": self._epoch,
            "shards": [shard.state_dict() for shard in self._shards.shards],
            "waiting": [_kept(number, issue) for number, issue in self._waiting.items()],
            "unanswered": [_kept(number, issue) for number, issue in unanswered.items()],
            "given": [
                {**feedback._asdict(), "draw": feedback.draw.to_arrays()}
                for feedback in self._given
            ],
        }
        tensors: dict[str, Any] = to_tensors(state)
        return tensors

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Go on where another one was; the next iteration takes up its epoch.

        Items, lag, sampler and its parameters must be those of the state; the number of workers
        may differ, and so may the batch size and the number of processes: batches that were
        drawn ahead are then cut anew. With sharded items and another number of processes, pass
        the states of all processes that there were, as a list; what these had drawn ahead is
        drawn anew, and all feedback is kept.

        An iteration under way ends with an error. The next one takes up the epoch of the state,
        so do not begin one only to peek at a batch: the one after it begins a new epoch.
        """
        if not isinstance(state, (Mapping, list, tuple)):
            raise TypeError(f"state must be from state_dict(), got {type(state).__name__}")
        given = [state] if isinstance(state, Mapping) else list(state)
        states = [self._fitting(from_tensors(dict(one))) for one in given]
        ranks, sharded = self._ranks, type(self._ranks) is Sharded
        here = [one for one in states if (one["rank"], one["world"]) == (ranks.rank, ranks.world)]
        moved = sharded and not here  # items may have come from several processes
        mine = here[0] if here else states[0]
        told = states if moved else [mine]
        waiting = {} if moved else self._issues([mine], "waiting")
        unanswered = self._issues(told, "unanswered")
        feedback = [
            Feedback(
                kept["due"],
                kept["number"],
                draw[ours],
                np.array(kept["losses"])[ours],
                kept["rank"],
            )
            for one in told
            for kept in one["given"]
            for draw in [Draw.from_arrays(kept["draw"])]
            for ours in [self._shards.owned(draw)]
            if ours.any()
        ]
        dropped = mine["waiting"] if moved else []
        again = sum(len(kept["draw"]["indices"]) for kept in dropped) * mine["world"]
        self._shards.load([shard for one in told for shard in one["shards"]])
        self._left = mine["left"] + again
        self._drawn, self._handed = mine["drawn"] - len(dropped), mine["handed"]
        self._open, self._resumed, self._turn = mine["open"], True, self._turn + 1
        self._epoch = mine["epoch"]
        self._waiting, self._unanswered = waiting, unanswered
        self._given = feedback
        self._coming.clear()
        self._progress = digest(repr((self._drawn, self._handed, self._left)).encode())
        if type(ranks) is Replicated:
            self._fill_up()

    def _fitting(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return a state, or raise an error that says why it does not fit."""
        if state.get("format") != 1 or "waiting" not in state:
            raise ValueError("the state is not from state_dict() of a loader, format 1")
        _check_keys(state)
        for name, own in (("n", self.n), ("lag", self.lag), ("drop_last", self.drop_last)):
            if state[name] != own:
                raise ValueError(f"the state was saved with {name}={state[name]}, here it is {own}")
        if state["drawn"] - state["handed"] != len(state["waiting"]):
            raise ValueError("the state is not whole: batches that were drawn are missing")
        if state["sharded"] != (type(self._ranks) is Sharded):
            raise ValueError("a state of sharded items fits sharded items only, and no other does")
        return state

    def _issues(self, states: Sequence[dict[str, Any]], name: str) -> dict[int, _Issue]:
        """Return batches from states: of several processes joined, and what is ours of them."""
        parts: dict[int, list[tuple[Draw, NDArray[np.float64] | None]]] = {}
        for state in states:
            for kept in state[name]:
                pair = Draw.from_arrays(kept["draw"]), kept["shares"]
                parts.setdefault(kept["number"], []).append(pair)
        issues = {}
        for number, pairs in parts.items():
            draw, shares = joined([draw for draw, _ in pairs]), None
            ours = self._shards.owned(draw)
            if type(self._ranks) is Sharded:
                shares = np.concatenate([shares for _, shares in pairs])[ours]
            draw = draw if ours.all() else draw[ours]
            if len(draw):
                issues[number] = _Issue(draw, self._ranks.part(draw), shares)
        return issues

    def _fill_up(self) -> None:
        """Draw more items into batches that do not divide by a new number of processes."""
        for number, issue in self._waiting.items():
            missing = -len(issue.drawn) % self._ranks.world
            if missing:
                drawn = joined([issue.drawn, self._shards.draw(missing)[0]])
                self._waiting[number] = _Issue(drawn, self._ranks.part(drawn), None)
                self._left = max(0, self._left - missing)

    # --- seeing it work ---------------------------------------------------------------------

    @property
    def time_share(self) -> float:
        """The share of time, since the first batch was asked for, that draws and feedback took.

        Loading data is not in it; waiting for losses, and for other processes, is.
        """
        passed = time.perf_counter() - self._since
        return self._seconds / passed if self._since else 0.0

    def most_drawn(self, k: int = 10) -> list[tuple[int, int]]:
        """Return the k items drawn most often, and how often; of this process's, if sharded."""
        counts = np.concatenate([shard.counts for shard in self._shards.shards])
        top = np.argsort(-counts, kind="stable")[: whole("k", k, 0)]
        first = self._shards.shards[0].start
        return [(int(item) + first, int(counts[item])) for item in top]

    def log(self, logger: Callable[[str, float, int], Any], step: int) -> None:
        """Tell a logger, a function (name, value, step), how the sampling goes.

        "tombola/second_moment_ratio", "ratio_low" and "ratio_high": the gauge, below 1 where
        draws beat uniform ones; "adaptive": 1, or 0 while shuffled epochs do as well;
        "time_share": see `time_share`; "lag": how many batches late feedback counts;
        "most_drawn_share": the part of all draws that the most-drawn hundredth of the items got.
        `tombola.torch.loggers` has functions for TensorBoard, Weights & Biases and MLflow.
        """
        gauge = self.sampler.gauge
        low, high = gauge.interval()
        counts = np.concatenate([shard.counts for shard in self._shards.shards])
        top = -(-len(counts) // 100)
        values = {
            "second_moment_ratio": gauge.second_moment_ratio,
            "ratio_low": low,
            "ratio_high": high,
            "adaptive": float(gauge.mode == "adaptive"),
            "time_share": self.time_share,
            "lag": float(self.lag),
            "most_drawn_share": float(
                np.partition(counts, -top)[-top:].sum() / max(1, counts.sum())
            ),
        }
        for name, value in values.items():
            if np.isfinite(value):  # before feedback, and of some samplers, nothing is known
                logger(f"tombola/{name}", value, step)


def _order(feedback: Feedback) -> tuple[int, int, int]:
    """Return by what feedback is sorted; what one process gave for a batch stays in its order."""
    return feedback.due, feedback.number, feedback.rank


_KEYS = (
    "n", "lag", "batch_size", "drop_last", "sharded", "rank", "world", "drawn", "handed", "left",
    "open", "epoch", "shards", "waiting", "unanswered", "given",
)  # fmt: skip
_KEYS_OF_LISTS = {
    "shards": ("start", "counts", "sampler"),
    "waiting": ("number", "draw", "shares"),
    "unanswered": ("number", "draw", "shares"),
    "given": ("due", "number", "draw", "losses", "rank"),
}


def _check_keys(state: Mapping[str, Any]) -> None:
    """Refuse a state that lacks something, naming it."""
    missing = [key for key in _KEYS if key not in state]
    missing += [
        f"{name}.{k}.{key}"
        for name, keys in _KEYS_OF_LISTS.items()
        for k, kept in enumerate(state.get(name, ()))
        for key in keys
        if key not in kept
    ]
    if missing:
        raise ValueError(f"the state is not whole: it has no {missing[0]}")


def _kept(number: int, issue: _Issue) -> dict[str, Any]:
    return {"number": number, "draw": issue.drawn.to_arrays(), "shares": issue.shares}
