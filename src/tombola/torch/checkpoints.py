"""Take the state of a loader, and continue from one or several, also with other processes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tombola.state import CheckpointError
from tombola.torch.epochs import Epochs, Position
from tombola.torch.feedback import FeedbackQueue
from tombola.torch.loader_state import LoaderState, SavedBatch, SavedShard
from tombola.torch.processes import DrawnBatch, Processes
from tombola.torch.shards import Shard, join_draws
from tombola.torch.tensors import from_tensors

__all__ = ["Checkpoints"]


@dataclass(frozen=True, eq=False, repr=False)
class Checkpoints:
    """Builds states of the parts of a loader, and puts states into them.

    Parameters
    ----------
    settings : dict
        What a state and the loader that loads it must have in common, by name.
    batch_size : int
    epochs : Epochs
    feedback : FeedbackQueue
    processes : Processes
    """

    settings: Mapping[str, Any]
    batch_size: int
    epochs: Epochs
    feedback: FeedbackQueue
    processes: Processes

    def take(self) -> dict[str, Any]:
        """Return the state, with tensors; all processes take theirs at once."""
        processes = self.processes
        self.feedback.gather(np.inf, saving=True)
        unanswered = self.feedback.unanswered if processes.saves_unanswered else {}
        return LoaderState(
            **self.settings,
            batch_size=self.batch_size,
            rank=processes.rank if processes.sharded else 0,
            world=processes.world,
            position=self.epochs.position,
            shards=[
                SavedShard(
                    start=shard.start, counts=shard.counts, sampler=shard.sampler.state_dict()
                )
                for shard in processes.shards
            ],
            waiting=_saved(self.epochs.waiting),
            unanswered=_saved(unanswered),
            given=self.feedback.gathered,
        ).state_dict()

    def resume(self, states: Sequence[Any]) -> None:
        """Continue from states of all processes or of one; on an error nothing has changed."""
        longest = self.epochs.longest
        read = [
            LoaderState.from_state_dict(state, **self.settings, longest=longest)
            for state in from_tensors(states)
        ]
        if not read:
            raise CheckpointError("there is no state in the list")
        processes = self.processes
        sources, moved = self._sources(read)
        position = sources[0].position
        waiting: dict[int, DrawnBatch] = {}
        if moved:  # what the other processes had drawn ahead is drawn again
            _undo_waiting(position, sources[0], longest)
        else:
            waiting = self._restored([sources[0].waiting])
        unanswered = self._restored([source.unanswered for source in sources])
        given = [
            one.part(own, one.rank)
            for source in sources
            for one in source.given
            for own in [processes.owns(one.draw)]
            if own.any()
        ]
        _load_shards(processes.shards, [shard for source in sources for shard in source.shards])
        processes.resumed((position.drawn, position.handed, position.left))
        for number, batch in waiting.items():
            waiting[number] = processes.completed(batch)
            more = len(waiting[number].drawn) - len(batch.drawn)
            position.left = max(0, position.left - more)
        self.epochs.resume(position, waiting)
        self.feedback.arriving.clear()
        self.feedback.gathered = given
        self.feedback.unanswered = {
            number: batch for number, batch in unanswered.items() if number < position.drawn
        }

    def _sources(self, states: Sequence[LoaderState]) -> tuple[list[LoaderState], bool]:
        """Return the states to take from, and whether items come from other processes."""
        here = (self.processes.rank, self.processes.world)
        own = [state for state in states if (state.rank, state.world) == here]
        if own or not self.processes.sharded:
            return [*own, states[0]][:1], False
        first = states[0]
        for state in states[1:]:
            for name, one, other in [
                ("world", first.world, state.world),
                ("handed", first.position.handed, state.position.handed),
                ("epoch", first.position.epoch, state.position.epoch),
            ]:
                if one != other:
                    raise CheckpointError(
                        f"the states have {name}={one} and {name}={other}: they must be of the "
                        "processes of one run, after the same batch"
                    )
        if len({state.rank for state in states}) < len(states):
            raise CheckpointError("two states are of the same rank")
        return list(states), True

    def _restored(self, saved: Sequence[Sequence[SavedBatch]]) -> dict[int, DrawnBatch]:
        """Return batches of several processes joined, and of each what this process has."""
        parts: dict[int, list[SavedBatch]] = {}
        for batches in saved:
            for piece in batches:
                parts.setdefault(piece.number, []).append(piece)
        restored = {}
        for number, pieces in parts.items():
            shares = [piece.shares for piece in pieces if piece.shares is not None]
            batch = self.processes.restored(
                join_draws([piece.draw for piece in pieces]),
                np.concatenate(shares) if shares else None,
            )
            if len(batch.drawn):
                restored[number] = batch
        return restored


def _saved(batches: Mapping[int, DrawnBatch]) -> list[SavedBatch]:
    return [
        SavedBatch(number=number, draw=batch.drawn, shares=batch.shares)
        for number, batch in batches.items()
    ]


def _undo_waiting(position: Position, state: LoaderState, longest: int) -> None:
    """Put the items of waiting batches, of all processes, back into the epoch."""
    items = sum(len(batch.draw) for batch in state.waiting) * state.world
    position.left = min(longest, position.left + items)
    position.drawn -= len(state.waiting)


def _load_shards(shards: Sequence[Shard], saved: Sequence[SavedShard]) -> None:
    """Load all shards; where one cannot be loaded, all stay as they are."""
    matching = [_matching(shard, saved) for shard in shards]
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


def _matching(shard: Shard, saved: Sequence[SavedShard]) -> SavedShard:
    for state in saved:
        if (state.start, len(state.counts)) == (shard.start, len(shard.counts)):
            return state
    raise CheckpointError(
        f"the state does not hold items {shard.start} to {shard.stop - 1} as one shard; pass "
        "the states of all processes that there were, as a list, and the number of shards that "
        "there were"
    )
