"""The state of a loader as a value: to a plain dict, and back with every entry checked."""

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.checkpoint import CheckpointError
from tombola.draws import Draw
from tombola.entries import Entry
from tombola.torch.epochs import Position
from tombola.torch.feedback import MOST_UNANSWERED
from tombola.torch.messages import Feedback
from tombola.torch.tensors import from_tensors, to_tensors
from tombola.validation import is_exactly

__all__ = ["LoaderState", "SavedBatch", "SavedShard", "Settings"]

FORMAT = 1


class Settings(NamedTuple):
    """What a state and the loader that loads it must have in common."""

    n: int
    lag: int
    drop_last: bool
    sharded: bool


class SavedShard(NamedTuple):
    """A shard: its first item, how often its items were drawn, and the state of its sampler."""

    start: int
    counts: NDArray[np.int32]
    sampler: dict[str, Any]


class SavedBatch(NamedTuple):
    """What was drawn for a batch; see `DrawnBatch`."""

    drawn: Draw
    shares: NDArray[np.float64] | None


@dataclass
class LoaderState:
    """Everything that a loader needs to continue.

    Attributes
    ----------
    settings : Settings
    batch_size, rank, world : int
        Of the process that saved it; the rank is 0 unless items are sharded.
    position : Position
    shards : list of SavedShard
    waiting, unanswered : dict of int to SavedBatch
        By number: batches that are not handed out, and those that have no feedback.
    given : list of Feedback
        Not due yet.
    """

    settings: Settings
    batch_size: int
    rank: int
    world: int
    position: Position
    shards: list[SavedShard]
    waiting: dict[int, SavedBatch]
    unanswered: dict[int, SavedBatch]
    given: list[Feedback]

    def to_dict(self) -> dict[str, Any]:
        """Return it as dicts, lists, tensors, numbers and strings."""
        batches = {
            name: [
                {"number": number, "draw": batch.drawn.to_arrays(), "shares": batch.shares}
                for number, batch in saved.items()
            ]
            for name, saved in (("waiting", self.waiting), ("unanswered", self.unanswered))
        }
        given = [{**one._asdict(), "draw": one.draw.to_arrays()} for one in self.given]
        state: dict[str, Any] = to_tensors(
            {
                "format": FORMAT,
                **self.settings._asdict(),
                "batch_size": self.batch_size,
                "rank": self.rank,
                "world": self.world,
                **asdict(self.position),
                "shards": [shard._asdict() for shard in self.shards],
                **batches,
                "given": given,
            }
        )
        return state

    @classmethod
    def from_dict(cls, state: Any, expected: Settings, longest: int) -> "LoaderState":
        """Return the state in a dict that may hold anything, or raise a `CheckpointError`.

        No epoch has more than `longest` items.
        """
        entry = Entry(from_tensors(state))
        if not is_exactly(entry.value.get("format"), FORMAT):
            raise CheckpointError(
                f"the state is not from state_dict() of a loader, format {FORMAT}"
            )
        _check_settings(entry, expected)
        world = entry.whole("world", 1)
        rank = entry.whole("rank", 0, world - 1 if expected.sharded else 0)
        position = _position(entry, expected, longest)
        shards = [_shard(one, expected.n) for one in entry.entries("shards")]
        items = _items(shards, expected)
        waiting = _batches(entry, "waiting", expected, items, position.drawn)
        if position.drawn - position.handed != len(waiting):
            raise CheckpointError(
                "the state is incomplete: batches that were drawn are missing, "
                f"{position.drawn} were drawn, {position.handed} handed out, {len(waiting)} wait"
            )
        unanswered = _batches(entry, "unanswered", expected, items, position.drawn)
        if len(unanswered) > MOST_UNANSWERED or not waiting.keys().isdisjoint(unanswered):
            raise CheckpointError(
                f"unanswered has {len(unanswered)} batches: they must be at most "
                f"{MOST_UNANSWERED}, and none of them in waiting"
            )
        latest = position.handed + expected.lag
        given = [_feedback(one, expected.n, items, latest) for one in entry.entries("given")]
        batch_size = entry.whole("batch_size", 1)
        return cls(expected, batch_size, rank, world, position, shards, waiting, unanswered, given)


def _check_settings(entry: Entry, expected: Settings) -> None:
    found = Settings(
        n=entry.whole("n", 1),
        lag=entry.whole("lag"),
        drop_last=entry.flag("drop_last"),
        sharded=entry.flag("sharded"),
    )
    for name in ("n", "lag", "drop_last"):
        saved, own = getattr(found, name), getattr(expected, name)
        if saved != own:
            raise CheckpointError(f"the state was saved with {name}={saved}, here it is {own}")
    if found.sharded != expected.sharded:
        raise CheckpointError("a state of sharded items fits sharded items only, and no other does")


def _position(entry: Entry, expected: Settings, longest: int) -> Position:
    drawn = entry.whole("drawn")
    handed = entry.whole("handed", max(0, drawn - expected.lag - 1), drawn)
    left, opened = entry.whole("left", 0, longest), entry.flag("open")
    if opened and left == 0 and drawn == handed:
        raise CheckpointError("open is True and left is 0: after its last batch, an epoch is over")
    if not opened and drawn > handed:
        raise CheckpointError(
            f"open is False, but of {drawn} batches drawn {handed} are handed out: an epoch is "
            "over after its last batch"
        )
    return Position(drawn, handed, left, opened, entry.whole("epoch"))


def _shard(entry: Entry, n: int) -> SavedShard:
    start, counts = entry.whole("start", 0, n - 1), entry.array("counts", np.int32, None)
    entry.require("counts", counts >= 0, "at least 0")
    return SavedShard(start, counts, dict(entry.entry("sampler").value))


def _items(shards: list[SavedShard], expected: Settings) -> range:
    """Return the items of the process that saved the state."""
    if not expected.sharded or not shards:
        return range(expected.n)
    stops = [shard.start + len(shard.counts) for shard in shards]
    if stops[-1] > expected.n or stops[:-1] != [shard.start for shard in shards[1:]]:
        raise CheckpointError(
            f"shards begin at {[shard.start for shard in shards]} and end at {stops}: they must "
            f"follow each other within the {expected.n} items"
        )
    return range(shards[0].start, stops[-1])


def _batches(
    entry: Entry, key: str, expected: Settings, items: range, drawn: int
) -> dict[int, SavedBatch]:
    batches: dict[int, SavedBatch] = {}
    for one in entry.entries(key):
        number = one.whole("number", 0, drawn - 1)
        if number in batches:
            raise CheckpointError(f"{one.path('number')} is {number}, which occurs twice")
        draw, shares = _draw(one, expected.n, items), None
        if not len(draw):
            raise CheckpointError(f"{one.path('draw')} is empty")
        if expected.sharded:
            shares = one.array("shares", np.float64, len(draw))
            one.require("shares", (shares > 0) & (shares <= 1), "above 0 and at most 1")
        else:
            one.require("shares", one.get("shares") is None, "None: items are not sharded")
        batches[number] = SavedBatch(draw, shares)
    return batches


def _feedback(entry: Entry, n: int, items: range, latest: int) -> Feedback:
    draw = _draw(entry, n, items)
    losses = entry.numbers("losses", len(draw), least=0.0)
    due, number = entry.whole("due", 0, latest), entry.whole("number")
    return Feedback(due, number, draw, losses.copy(), entry.whole("rank"))


def _draw(parent: Entry, n: int, items: range) -> Draw:
    entry = parent.entry("draw")
    indices = entry.array("indices", np.int64, None)
    good = (indices >= items.start) & (indices < items.stop)
    entry.require("indices", good, f"an item from {items.start} to {items.stop - 1}")
    arrays = {
        "indices": indices,
        "probabilities": entry.array("probabilities", np.float64, len(indices)),
        "n": entry.whole("n", n, n),
        "round": entry.whole("round"),
    }
    if "tags" in entry.value:
        arrays["tags"] = entry.array("tags", np.uint8, len(indices))
    try:
        return Draw.from_arrays(arrays)
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{parent.path('draw')}: {error}") from error
