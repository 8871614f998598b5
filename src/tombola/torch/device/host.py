"""The index on the CPU: the host's own, behind the interface of `tombola.torch.device.board`."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tombola.index import WeightIndex
from tombola.random import Stream
from tombola.torch.device.layout import LIMIT, Fault

__all__ = ["Host"]

Whole = NDArray[np.int64]


class Host:
    """A `tombola.WeightIndex` whose faults are kept until they are asked for.

    Draw number k takes its words from child k of the stream, so that the number of draws made is
    all there is to know about the stream, as on a device.
    """

    def __init__(self, weights: Tensor, device: torch.device, seed: int) -> None:
        del device  # there is one
        self.load(weights, seed, 0)

    def load(self, weights: Tensor, seed: int, position: int) -> None:
        """Take over valid weights and the state of the stream; forget faults."""
        self._weights: Whole = weights.numpy(force=True).astype(np.int64)  # a copy
        self._index = WeightIndex(self._weights)
        self._limit = LIMIT // self._weights.size
        self._seed, self.position = seed, position
        self._fault = (Fault.NONE, 0, 0)

    @property
    def leaves(self) -> Tensor:
        """The weights."""
        return torch.from_numpy(self._weights)

    @property
    def total(self) -> Tensor:
        """The sum of all weights."""
        return torch.tensor(self._index.total)

    @property
    def nbytes(self) -> int:
        """The memory used."""
        return self._index.nbytes + self._weights.nbytes

    def fault(self) -> tuple[int, int, int]:
        """Return kind, position and value of the first fault since the last call."""
        fault, self._fault = self._fault, (Fault.NONE, 0, 0)
        return fault

    def verify(self) -> int:
        """Check every invariant of the index."""
        self._index.verify()
        return -1

    def draw(self, size: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return items, their weights and the total."""
        total = self.total
        if total == 0 and size > 0:
            self._record(Fault.EMPTY, self.position, 0)
            items, weights = np.full(size, -1), np.zeros(size, dtype=np.int64)
        else:
            items = self._index.draw(size, Stream(self._seed, (self.position,)))
            weights = self._weights[items]
        self.position += size > 0
        return torch.from_numpy(items), torch.from_numpy(weights), total

    def set(self, indices: Tensor, weights: Tensor) -> None:
        """Set weights; the last position of an item wins."""
        items, new = indices.numpy(), weights.numpy()
        if self._accepts(items, new, 0, self._limit, Fault.WEIGHT):
            self._assign(items, new)

    def add(self, indices: Tensor, amounts: Tensor, most: int) -> None:
        """Add amounts, each from -most to most, to weights."""
        items, changes = indices.numpy(), amounts.numpy()
        if not self._accepts(items, changes, -most, most, Fault.AMOUNT):
            return
        unique, where = np.unique(items, return_inverse=True)
        new = self._weights[unique]
        np.add.at(new, where, changes)
        last = np.zeros(unique.size, dtype=np.int64)
        np.maximum.at(last, where, np.arange(items.size))
        outside = (new < 0) | (new > self._limit)
        if outside.any():
            position = last[outside].min()
            self._record(Fault.RANGE, int(position), int(items[position]))
        else:
            self._assign(unique, new)

    def _assign(self, items: Whole, new: Whole) -> None:
        self._index.set(items, new)
        self._weights[items] = new  # of equal items, numpy keeps the last

    def _accepts(self, items: Whole, values: Whole, least: int, most: int, kind: int) -> bool:
        """Return whether a batch is without fault; record its first one."""
        bad_item = (items < 0) | (items >= self._weights.size)
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
