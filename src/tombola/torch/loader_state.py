"""The state of a loader: what is in it, and what is valid."""

from collections import Counter
from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tombola.draws import SMALLEST, Draw
from tombola.state import (
    Document,
    Floats,
    Scope,
    array,
    count,
    integer,
    listed,
    mapping,
    nested,
    optional,
    same,
)
from tombola.torch.epochs import Position
from tombola.torch.feedback import MOST_UNANSWERED
from tombola.torch.messages import Feedback
from tombola.torch.tensors import TensorState

__all__ = ["LoaderState", "SavedBatch", "SavedShard"]


class SavedShard(Document):
    """Consecutive items with a sampler of their own; see `Shard`."""

    start: int = integer("the first item", 0, "n - 1")
    counts: NDArray[np.int32] = array("how often each item was drawn", 0, 2**31 - 1, dtype=np.int32)
    sampler: Mapping[str, Any] = mapping("the state of the sampler")

    @property
    def stop(self) -> int:
        """The first item of the next shard."""
        return self.start + self.counts.size


class SavedBatch(Document):
    """What was drawn for a batch; see `DrawnBatch`."""

    number: int = integer("the number of the batch", 0, "position.drawn - 1")
    draw: Draw = nested("what was drawn", Draw)
    shares: Floats | None = optional(
        array(
            "for sharded items, the share of all batches that comes from the shard of the item",
            SMALLEST, 1.0, dtype=np.float64, shape=("draw.indices.size",),
        )
    )  # fmt: skip

    def fault(self, scope: Scope) -> str:
        """Return what is wrong with the draw or the shares."""
        if not len(self.draw) or self.draw.nominal is not None:
            return "draw must be of a fixed size, at least 1"
        if self.shares is None and scope.find("sharded"):
            return "shares must be an array: items are sharded"
        if self.shares is not None and not scope.find("sharded"):
            return "shares must be None: items are not sharded"
        return ""


class LoaderState(TensorState):
    """Everything that a loader, or the bare sampler, needs to continue."""

    kind: ClassVar = "ImportanceLoader"

    n: int = same("items")
    lag: int = same("how many batches late feedback counts")
    drop_last: bool = same("whether a last batch that is smaller is left out")
    sharded: bool = same("whether each process draws from items of its own")
    batch_size: int = count("items of a batch, in the process that saved the state", least=1)
    world: int = count("processes", least=1)
    rank: int = integer("the process that saved the state; 0 unless sharded", 0, "world - 1")
    position: Position = nested("how far drawing and handing out have come", Position)
    shards: list[SavedShard] = listed("the shards of the process", SavedShard)
    waiting: list[SavedBatch] = listed("batches that are not handed out", SavedBatch)
    unanswered: list[SavedBatch] = listed("batches that have no feedback", SavedBatch)
    given: list[Feedback] = listed("feedback that is not due yet", Feedback)

    def fault(self, scope: Scope) -> str:
        """Return what is wrong between the parts."""
        drawn, handed, waiting = self.position.drawn, self.position.handed, len(self.waiting)
        if self.rank and not self.sharded:
            return "rank must be 0: items are not sharded"
        if drawn - handed != waiting:
            return (
                "the state is incomplete: batches that were drawn are missing, "
                f"{drawn} were drawn, {handed} handed out, {waiting} wait"
            )
        if len(self.unanswered) > MOST_UNANSWERED:
            return f"unanswered has {len(self.unanswered)} batches, more than {MOST_UNANSWERED}"
        numbers = Counter(batch.number for batch in (*self.waiting, *self.unanswered))
        number, times = max(numbers.items(), key=itemgetter(1), default=(0, 0))
        if times > 1:
            return f"batch {number} occurs {times} times in waiting and unanswered"
        return self._shard_fault() or self._draw_fault()

    def _shard_fault(self) -> str:
        starts, stops = [one.start for one in self.shards], [one.stop for one in self.shards]
        if not self.sharded or not starts or (starts[1:] == stops[:-1] and stops[-1] <= self.n):
            return ""
        return (
            f"shards begin at {starts} and end at {stops}: they must follow each other within the "
            f"{self.n} items"
        )

    def _draw_fault(self) -> str:
        first, stop = 0, self.n
        if self.sharded and self.shards:
            first, stop = self.shards[0].start, self.shards[-1].stop
        for name, draw in self._draws():
            if draw.n != self.n:
                return f"{name}.n must be {self.n}, got {draw.n}"
            inside = (draw.indices >= first) & (draw.indices < stop)
            if not inside.all():
                item = draw.indices[inside.argmin()]
                return f"{name}.indices must be items from {first} to {stop - 1}, got {item}"
        return ""

    def _draws(self) -> Iterator[tuple[str, Draw]]:
        for name in ("waiting", "unanswered", "given"):
            for k, one in enumerate(getattr(self, name)):
                yield f"{name}.{k}.draw", one.draw
