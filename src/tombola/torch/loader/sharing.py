"""Feedback for a batch, and the messages by which replicated processes share it.

Messages are int64 arrays: item and batch numbers as they are, probabilities and losses as the 64
bits of a float64, so that nothing is rounded on the way.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.draws import Draw
from tombola.state import Document, Floats, array, count, derived, integer, nested
from tombola.torch.communication import Connection

__all__ = ["Feedback", "share_feedback"]


class Feedback(Document):
    """The losses of a batch, or of a part of it."""

    due: int = integer(
        "the number of the first batch that is drawn with it", 0, "position.handed + lag"
    )
    number: int = count("the batch that the losses belong to")
    draw: Draw = nested("the items", Draw)
    losses: Floats = array("their losses", 0.0, dtype=np.float64, shape=("draw.indices.size",))
    rank: int = count("the process that gave it", default=0)
    late: bool = derived("whether losses came from a device and are not checked", default=False)

    def part(self, key: Any, rank: int = 0) -> "Feedback":
        """Return the feedback of some of the items, given by a process."""
        return Feedback(
            due=self.due, number=self.number, draw=self.draw[key], losses=self.losses[key],
            rank=rank, late=self.late,
        )  # fmt: skip


def share_feedback(
    connection: Connection,
    feedback: Sequence[Feedback],
    width: int,
    progress: int,
    saving: bool = False,
) -> list[Feedback]:
    """Return the feedback of all processes: the same on each, with the rank that gave it.

    It takes one message per process, and more if a process has feedback for several batches,
    or for more items than a message holds.

    Parameters
    ----------
    connection : Connection
    feedback : sequence of Feedback
        Of this process.
    width : int
        The number of items that a message holds.
    progress : int
        A checksum of everything drawn so far: processes that have drawn differently are detected
        by it.
    saving : bool, default=False
        Whether a state is being saved, rather than a batch drawn: all processes must do the same.
    """
    assert connection.gather is not None
    own = [
        one.part(slice(k, k + width)) for one in feedback for k in range(0, len(one.draw), width)
    ]
    shared: list[Feedback] = []
    messages, k = 1, 0
    while k < messages:
        received = connection.gather(_packed(own, k, progress, width, saving))
        _require_same_call(received[:, _SAVING])
        _require_same_progress(received[:, _PROGRESS])
        messages = int(received[:, _MESSAGES].max())
        unpacked = [_unpacked(message, rank) for rank, message in enumerate(received)]
        shared += [piece for piece in unpacked if piece is not None]
        k += 1
    return shared


def _require_same_call(saving: NDArray[np.int64]) -> None:
    other = int(np.argmax(saving != saving[0]))
    if other:
        caller = 0 if saving[0] else other
        raise RuntimeError(
            "state_dict() must be called on all processes, after the same batch: rank "
            f"{caller} has called it, while rank {other - caller} asks for a batch"
        )


def _require_same_progress(progress: NDArray[np.int64]) -> None:
    other = int(np.argmax(progress != progress[0]))
    if other:
        raise RuntimeError(
            f"ranks 0 and {other} have not drawn the same: all processes need the same "
            "data, labels, sampler, seed and number of steps, and the state of a "
            "checkpoint on all of them or on none"
        )


# Layout of a message, int64[_HEAD + 4 * width]: the fields below, then items, probabilities,
# losses and tags (-1: none) of one piece of feedback.
_MESSAGES, _PROGRESS, _SAVING, _DUE, _NUMBER, _LATE, _ROUND, _N, _SIZE, _HEAD = range(10)


def _packed(
    pieces: Sequence[Feedback], k: int, progress: int, width: int, saving: bool
) -> NDArray[np.int64]:
    """Return message k of a process; its size is 0 if the process has fewer."""
    message = np.zeros(_HEAD + 4 * width, dtype=np.int64)
    message[_MESSAGES], message[_PROGRESS], message[_SAVING] = len(pieces), progress, saving
    if k < len(pieces):
        draw = pieces[k].draw
        message[_DUE], message[_NUMBER] = pieces[k].due, pieces[k].number
        message[_LATE] = pieces[k].late
        message[_ROUND], message[_N], message[_SIZE] = draw.round, draw.n, len(draw)
        rows = message[_HEAD:].reshape(4, width)[:, : len(draw)]
        rows[0] = draw.indices
        rows[1] = draw.probabilities.view(np.int64)
        rows[2] = pieces[k].losses.view(np.int64)
        rows[3] = -1 if draw.tags is None else draw.tags
    return message


def _unpacked(message: NDArray[np.int64], rank: int) -> Feedback | None:
    """Return the feedback in the message of a process, if there is any."""
    size = int(message[_SIZE])
    if size == 0:
        return None
    items, probabilities, losses, tags = message[_HEAD:].reshape(4, -1)[:, :size].copy()
    draw = Draw.made(
        items,
        probabilities.view(np.float64),
        int(message[_N]),
        int(message[_ROUND]),
        None if tags[0] < 0 else tags.astype(np.uint8),
    )
    return Feedback(
        due=int(message[_DUE]),
        number=int(message[_NUMBER]),
        draw=draw,
        losses=losses.view(np.float64),
        rank=rank,
        late=bool(message[_LATE]),
    )
