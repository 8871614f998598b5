"""An epoch of weighted draws: drawn a little ahead, handed out, and taken back if necessary."""

import copy

import numpy as np

from tombola.index.real import CHUNK, RealWeights
from tombola.random import Stream
from tombola.torch.weighted.state import SavedEpoch

__all__ = ["Epoch"]

FIRST = 64  # items drawn at once after a change of weights; then twice as many, up to CHUNK


class Epoch:
    """An epoch, or the rest of one: items of all processes, in the order of their draws.

    Items are drawn many at a time, which is faster than one by one, with the same result: `settle`
    takes back what was drawn ahead, before a weight changes or a state is saved.
    """

    def __init__(self, board: RealWeights, stream: Stream, share: int, world: int) -> None:
        self.board, self.stream, self.world = board, stream, world
        self.share = share  # the number of items for each process
        self.items = np.empty(share * world, dtype=np.int64)  # k * world + rank: item k of a rank
        self.begin = 0  # items of the epoch before these; not 0 after a resume
        self.kept = 0  # how many of the items came with a state: they are not drawn again
        self.drawn = self.handed = 0  # of all items, and of the share of a process
        self.over = False  # whether all items are back on the board
        self.iterated = False  # whether an iteration may still ask for items
        self.apart = False  # whether it has a board of its own, since another epoch has begun
        self._reach = FIRST  # the number of items that are drawn at once
        self._chunk = 0  # where the latest draws begin, among the items
        self._chunk_position = stream.position  # and in the stream

    @classmethod
    def restored(cls, board: RealWeights, saved: SavedEpoch, left: int, world: int) -> "Epoch":
        """Return the rest of a saved epoch: `left` items for each process, or fewer."""
        if saved.over and not board.replacement:  # no more can be drawn
            left = min(left, saved.ahead.size // world)
        stream = Stream(saved.seed)
        stream.position = saved.position
        epoch = cls(board, stream, left, world)
        epoch.items = np.concatenate([saved.ahead, epoch.items[saved.ahead.size :]])
        epoch.begin, epoch.over = saved.begin, saved.over
        epoch.kept = epoch.drawn = epoch._chunk = saved.ahead.size
        return epoch

    @property
    def off_board(self) -> bool:
        """Whether items are off the board."""
        return not (self.over or self.board.replacement or self.begin + self.drawn == 0)

    def draw(self, target: int) -> None:
        """Draw up to item number `target`, and some ahead."""
        while self.drawn < target:
            self.board.check_enough(target - self.drawn)
            self._chunk, self._chunk_position = self.drawn, self.stream.position
            ahead = self.items[self.drawn : self.drawn + self._reach]
            self.drawn += self.board.draw(self.stream, ahead)
            self._reach = min(2 * self._reach, CHUNK)

    def settle(self) -> None:
        """Undo the draws that are ahead of the items handed out."""
        target = max(self.kept, self.handed * self.world)
        if target < self.drawn:  # then item number `target` is one of the latest draws
            self.board.undo(self.items[self._chunk : self.drawn])
            self.stream.position = self._chunk_position
            if self._chunk < target:
                self.board.draw(self.stream, self.items[self._chunk : target])
            self.drawn = target
            self._reach = FIRST

    def release(self) -> None:
        """Return the items to the board."""
        if not (self.over or self.board.replacement):
            # after a resume, the first of them are known by their mark alone
            known = self.begin == 0
            drawn = np.sort(self.items[: self.drawn]) if known else np.flatnonzero(self.board.taken)
            self.board.release(drawn)
        self.over = True

    def abandon(self) -> None:
        """Return the items to the board; a further iteration of them has a copy of it, in O(n)."""
        self.settle()  # how far draws were ahead must not matter
        board = copy.deepcopy(self.board) if self.iterated else None
        self.release()
        if board is not None:
            self.board.rebuild()  # the same order as after any whole epoch, so the same draws
            self.board, self.over, self.apart = board, False, True
