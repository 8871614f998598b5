"""The index on the CPU: the host's own, behind the interface of `tombola.torch.device.board`."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tombola.index import drawing, layout, setting
from tombola.random import Stream
from tombola.torch.device.layout import LIMIT, Fault

__all__ = ["Host"]

Whole = NDArray[np.int64]
Places = NDArray[Any]


class Host:
    """The dart board of `tombola.index.layout`, with faults kept until they are asked for.

    Draw number k takes its words from child k of the stream, so that the number of draws made is
    all there is to know about the stream, as on a device.
    """

    def __init__(self, weights: Tensor, device: torch.device, seed: int) -> None:
        del device  # there is one
        self.load(weights, seed, 0, None)

    def load(self, weights: Tensor, seed: int, position: int, order: Places | None) -> None:
        """Take over valid weights and the state of the stream; forget faults.

        `order` is the order of the columns, which draws depend on. Without it they are sorted.
        """
        index = layout.new_index(weights.numpy(force=True).astype(np.int64))  # a copy
        if order is None:
            layout.build(index)
        else:
            index.order[:] = order
            index.restore()
        self._index = index
        self._limit = LIMIT // weights.numel()
        self._seed, self.position = seed, position
        self._fault = (Fault.NONE, 0, 0)

    @property
    def order(self) -> Places:
        """The order of the columns."""
        return self._index.order

    @property
    def leaves(self) -> Tensor:
        """The weights."""
        return torch.from_numpy(self._index.weights)

    @property
    def total(self) -> Tensor:
        """The sum of all weights."""
        return torch.tensor(int(self._index.sums[0].total))

    @property
    def nbytes(self) -> int:
        """The memory used."""
        return sum(part.nbytes for part in self._index._asdict().values())

    def fault(self) -> tuple[int, int, int]:
        """Return kind, position and value of the first fault since the last call."""
        fault, self._fault = self._fault, (Fault.NONE, 0, 0)
        return fault

    def verify(self) -> int:
        """Return 1 if an invariant is violated, or -1."""
        return 1 if layout.first_fault(self._index) >= 0 else -1

    def draw(self, size: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return items, their weights and the total."""
        total = self.total
        items, weights = np.full(size, -1), np.zeros(size, dtype=np.int64)
        if total > 0:
            stream = Stream(self._seed, (self.position,))
            drawing.draw_many(self._index, stream.state, items, np.empty(size), 0)
            weights = self._index.weights[items]
        elif size > 0:
            self._record(Fault.EMPTY, self.position, 0)
        self.position += size > 0
        return torch.from_numpy(items), torch.from_numpy(weights), total

    def set(self, indices: Tensor, weights: Tensor) -> None:
        """Set weights; the last position of an item wins."""
        items, new = indices.numpy(), weights.numpy()
        if self._accepts(items, new, 0, self._limit, Fault.WEIGHT):
            setting.assign_many(self._index, items, new)

    def add(self, indices: Tensor, amounts: Tensor, most: int) -> None:
        """Add amounts, each from -most to most, to weights."""
        items, changes = indices.numpy(), amounts.numpy()
        if not self._accepts(items, changes, -most, most, Fault.AMOUNT):
            return
        unique, new, last = setting.summed(self._index.weights, items, changes)
        outside = (new < 0) | (new > self._limit)
        if outside.any():
            position = last[outside].min()
            self._record(Fault.RANGE, int(position), int(items[position]))
        else:
            setting.assign_many(self._index, unique, new)

    def _accepts(self, items: Whole, values: Whole, least: int, most: int, kind: int) -> bool:
        """Return whether a batch is without fault; record its first one."""
        bad_item = (items < 0) | (items >= self._index.weights.size)
        bad = bad_item | (values < least) | (values > most)
        if not bad.any():
            return True
        j = int(bad.argmax())
        fault = (Fault.INDEX, items[j]) if bad_item[j] else (kind, values[j])
        self._record(fault[0], j, int(fault[1]))
        return False

    def _record(self, kind: int, where: int, value: int) -> None:
        if self._fault[0] == Fault.NONE:
            self._fault = (kind, where, value)
