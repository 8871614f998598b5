"""The state of a loader on the host: take it, and continue from it, also with other processes."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tombola.state import (
    CheckpointError,
    Document,
    Scope,
    array,
    count,
    flag,
    integer,
    listed,
    mapping,
    nested,
    same,
)  # fmt: skip
from tombola.torch.loader.base import MOST_UNANSWERED
from tombola.torch.loader.drawing import DrawnBatch, Processes, Shard, join_draws
from tombola.torch.loader.feedback import Feedback
from tombola.torch.tensors import TensorState, from_tensors
from tombola.validation import brief

if TYPE_CHECKING:
    from tombola.torch.loader.loader import HostBatches

__all__ = ["LoaderState", "Position", "resume", "take"]


class Position(Document):
    """How far drawing and handing out have come."""

    handed: int = count("batches handed out", default=0)
    drawn: int = integer(
        "batches drawn, which is the number of the next one", "handed", "handed + lag + 1",
        default=0,
    )  # fmt: skip
    left: int = integer(
        "items of this epoch that are not drawn yet, over all processes", 0, "longest", default=0
    )
    open: bool = flag("whether an epoch has begun and is not over", default=False)
    epoch: int = count("epochs that are over", default=0)

    def fault(self, scope: Scope) -> str:
        """Return what is wrong with an epoch that is open, or over."""
        waiting = self.drawn > self.handed
        if self.open and self.left == 0 and not waiting:
            return "the epoch is open but has no items left"
        if not self.open and waiting:
            return (
                f"the epoch is over, but of {self.drawn} batches drawn only {self.handed} are "
                "handed out"
            )
        return ""


class SavedShard(Document):
    """Consecutive items with a sampler of their own; see `Shard`."""

    start: int = integer("the first item", 0, "n - 1")
    counts: NDArray[np.int32] = array("how often each item was drawn", 0, 2**31 - 1, dtype=np.int32)
    sampler: Mapping[str, Any] = mapping("the state of the sampler")

    @property
    def stop(self) -> int:
        """The first item of the next shard."""
        return self.start + self.counts.size


class LoaderState(TensorState):
    """Everything that a loader, or the bare sampler, needs to continue."""

    kind: ClassVar = "ImportanceLoader"

    n: int = same("items")
    lag: int = count("how many batches late feedback counts")
    drop_last: bool = same("whether a last batch that is smaller is left out")
    sharded: bool = same("whether each process draws from items of its own")
    batch_size: int = count("items of a batch, in the process that saved the state", least=1)
    world: int = count("processes", least=1)
    rank: int = integer("the process that saved the state; 0 unless sharded", 0, "world - 1")
    position: Position = nested("how far drawing and handing out have come", Position)
    shards: list[SavedShard] = listed("the shards of the process", SavedShard)
    waiting: list[DrawnBatch] = listed("batches that are not handed out", DrawnBatch)
    unanswered: list[DrawnBatch] = listed("batches that have no feedback", DrawnBatch)
    given: list[Feedback] = listed("feedback that is not due yet", Feedback)

    def fault(self, scope: Scope) -> str:
        """Return what is wrong between the parts."""
        return next(self._faults(), "")

    def _faults(self) -> Iterator[str]:
        drawn, handed, waiting = self.position.drawn, self.position.handed, len(self.waiting)
        if self.rank and not self.sharded:
            yield "rank must be 0: items are not sharded"
        if drawn - handed != waiting:
            yield (
                "the state is incomplete: batches that were drawn are missing, "
                f"{drawn} were drawn, {handed} handed out, {waiting} wait"
            )
        if len(self.unanswered) > MOST_UNANSWERED:
            yield f"unanswered has {len(self.unanswered)} batches, more than {MOST_UNANSWERED}"
        order = [batch.number for batch in self.waiting]
        if order != sorted(order):
            yield f"waiting has batches {order}: they must be in the order of their numbers"
        numbers = Counter(batch.number for batch in (*self.waiting, *self.unanswered))
        number, times = max(numbers.items(), key=itemgetter(1), default=(0, 0))
        if times > 1:
            yield f"batch {number} occurs {times} times in waiting and unanswered"
        first, stop = 0, self.n
        if self.sharded and self.shards:
            starts, stops = [one.start for one in self.shards], [one.stop for one in self.shards]
            first, stop = starts[0], stops[-1]
            if starts[1:] != stops[:-1] or stop > self.n:
                yield (
                    f"shards begin at {starts} and end at {stops}: they must follow each other "
                    f"within the {self.n} items"
                )
        for name in ("waiting", "unanswered", "given"):
            for k, draw in enumerate(one.draw for one in getattr(self, name)):
                if draw.n != self.n:
                    yield f"{name}.{k}.draw.n must be {self.n}, got {draw.n}"
                inside = (draw.indices >= first) & (draw.indices < stop)
                if not inside.all():
                    item = draw.indices[inside.argmin()]
                    yield (
                        f"{name}.{k}.draw.indices must be items from {first} to {stop - 1}, "
                        f"got {item}"
                    )


def take(batches: "HostBatches") -> dict[str, Any]:
    """Return the state, with tensors; all processes take theirs at once."""
    processes, feedback = batches.processes, batches.feedback
    feedback.gather(np.inf, saving=True)
    unanswered = batches.unanswered.values() if processes.saves_unanswered else ()
    return LoaderState(
        **_in_common(batches),
        lag=batches.lag,
        batch_size=batches.settings.batch_size,
        rank=processes.rank if processes.sharded else 0,
        world=processes.world,
        position=Position(
            handed=batches.handed,
            drawn=batches.drawn,
            left=batches.current.left,
            open=batches.open,
            epoch=batches.epoch,
        ),
        shards=[
            SavedShard(start=shard.start, counts=shard.counts, sampler=shard.sampler.state_dict())
            for shard in processes.shards
        ],
        waiting=list(batches.current.waiting.values()),
        unanswered=[
            DrawnBatch(number=draw.number, draw=draw.ticket, shares=draw.shares)
            for draw in unanswered
        ],
        given=feedback.gathered,
    ).state_dict()


def resume(batches: "HostBatches", states: Sequence[Any]) -> None:
    """Continue from states of all processes or of one; on an error nothing has changed."""
    states = from_tensors(states)
    for state in states:
        _check_lag(batches, state.get("lag") if isinstance(state, Mapping) else None)
    longest = max(batches.settings.n, batches.epoch_length())  # items of an epoch
    known = {**_in_common(batches), "longest": longest}
    read = [LoaderState.from_state_dict(state, **known) for state in states]
    if not read:
        raise CheckpointError("there is no state in the list")
    processes = batches.processes
    sources, moved = _sources(processes, read)
    position, drawn_ahead = sources[0].position, sources[0].waiting
    if moved:  # batches that other processes had drawn ahead are drawn again
        items = sum(len(batch.draw) for batch in drawn_ahead) * sources[0].world
        position.left = min(longest, position.left + items)
        position.drawn -= len(drawn_ahead)
        drawn_ahead = []
    drawn_ahead = _joined(processes, drawn_ahead)
    unanswered = _joined(processes, [one for source in sources for one in source.unanswered])
    given = [
        one.part(own, one.rank)
        for source in sources
        for one in source.given
        for own in [processes.owns(one.draw)]
        if own.any()
    ]
    _load_shards(processes.shards, [shard for source in sources for shard in source.shards])
    processes.resumed((position.drawn, position.handed, position.left))
    for batch in drawn_ahead:
        position.left = max(0, position.left - processes.complete(batch))
    batches.handed, batches.drawn, batches.lag = position.handed, position.drawn, sources[0].lag
    waiting = {batch.number: batch for batch in drawn_ahead}
    batches.resume_at(position.epoch, position.open, position.left, waiting)
    batches.feedback.given.clear()
    batches.feedback.gathered = given
    batches.unanswered.clear()
    for batch in unanswered:
        if batch.number < position.drawn:
            batches.expect(batch)


def _in_common(batches: "HostBatches") -> dict[str, Any]:
    """Return the fields of a state that must match the loader."""
    n, drop_last = batches.settings.n, batches.settings.drop_last
    return {"n": n, "drop_last": drop_last, "sharded": batches.processes.sharded}


def _check_lag(batches: "HostBatches", saved: Any) -> None:
    """Raise an error if a loader cannot continue with the lag of a state, which may be anything."""
    given, ahead = batches.settings.lag, batches.settings.ahead
    if type(saved) is not int or saved < 0:
        return  # the check of the field answers
    lag = brief(saved)
    if saved < ahead:
        raise CheckpointError(
            f"the state was saved with lag={lag}, and the workers of this loader draw {ahead} "
            "batches ahead (num_workers * prefetch_factor): to continue it, that must be at most "
            f"{lag}; a run that may continue with these workers needs lag={ahead} or more from "
            "its start"
        )
    if given not in (None, saved):
        raise CheckpointError(
            f"the state was saved with lag={lag}, here it is {given}: make the loader with "
            f"lag={lag}, or without a lag, to continue it"
        )


def _sources(processes: Processes, states: Sequence[LoaderState]) -> tuple[list[LoaderState], bool]:
    """Return the states to take from, and whether items come from other processes."""
    here = (processes.rank, processes.world)
    own = [state for state in states if (state.rank, state.world) == here]
    if own or not processes.sharded:
        return [*own, states[0]][:1], False
    runs = [
        {
            "world": state.world, "lag": state.lag,
            "handed": state.position.handed, "epoch": state.position.epoch,
        }
        for state in states
    ]  # fmt: skip
    for run in runs[1:]:
        for name, value in run.items():
            if value != runs[0][name]:
                raise CheckpointError(
                    f"the states have {name}={runs[0][name]} and {name}={value}: they must be of "
                    "the processes of one run, after the same batch"
                )
    if len({state.rank for state in states}) < len(states):
        raise CheckpointError("two states are of the same rank")
    return list(states), True


def _joined(processes: Processes, saved: Sequence[DrawnBatch]) -> list[DrawnBatch]:
    """Join the parts of batches from several processes; return those of this process."""
    parts: dict[int, list[DrawnBatch]] = {}
    for part in saved:
        parts.setdefault(part.number, []).append(part)
    joined = []
    for number, pieces in parts.items():
        draw = join_draws([piece.draw for piece in pieces])
        own = processes.owns(draw)
        shares = [piece.shares for piece in pieces if piece.shares is not None]
        own_shares = np.concatenate(shares)[own] if shares else None
        if own.any():
            joined.append(DrawnBatch(number=number, draw=draw[own], shares=own_shares))
    return joined


def _load_shards(shards: Sequence[Shard], saved: Sequence[SavedShard]) -> None:
    """Load all shards; if one cannot be loaded, all stay as they are."""
    by_items = {(state.start, state.stop): state for state in reversed(saved)}
    matching = []
    for shard in shards:
        if (shard.start, shard.stop) not in by_items:
            raise CheckpointError(
                f"the state does not hold items {shard.start} to {shard.stop - 1} as one shard; "
                "pass the states of all processes that there were, as a list, and the number of "
                "shards that there were"
            )
        matching.append(by_items[shard.start, shard.stop])
    before = [shard.sampler.state_dict() for shard in shards]
    for k, (shard, state) in enumerate(zip(shards, matching, strict=True)):
        try:
            shard.sampler.load_state_dict(state.sampler)
        except Exception as error:
            for other, old in zip(shards[: k + 1], before, strict=False):
                other.sampler.load_state_dict(old)
            raise CheckpointError(
                f"the sampler of items {shard.start} to {shard.stop - 1}: {error}"
            ) from error
    for shard, state in zip(shards, matching, strict=True):
        shard.counts[:] = state.counts
