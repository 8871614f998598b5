"""ImportanceLoader, by PyTorch's tests of its DataLoader.

Without feedback, it draws in the order of the items, or shuffled, and loads as a DataLoader does.
What decides on the draws instead is given to a DataLoader: samplers, batch samplers, iterable data
sets, and items one by one (`batch_size=None`).
"""

import inspect

import numpy as np
import torch
from torch.utils import data as theirs

import tombola
from peers.suites._torch import DURING_TESTS, LEFT_OUT, MODULES
from tombola.torch import ImportanceLoader

__all__ = ["DURING_TESTS", "EXPECTED", "LEFT_OUT", "MODULES", "REPLACE"]

THEIRS = theirs.DataLoader
SIGNATURE = inspect.signature(THEIRS)


class InOrder(tombola.Sampler):
    """Deals the items in their order, again and again."""

    def __init__(self, n, seed=0, groups=None):
        super().__init__(n, seed)
        self.next = 0

    def _draw(self, size):
        items = np.arange(self.next, self.next + size) % self.n
        self.next += size
        return items, np.full(size, 1.0 / self.n)

    def _update(self, draw, losses):
        pass

    def probabilities(self):
        return np.full(self.n, 1.0 / self.n)


class DataLoader(ImportanceLoader):
    """Their arguments, our loader; only the batches are handed out, without their draws."""

    def __new__(cls, *values, **given):
        bound = SIGNATURE.bind(*values, **given)
        bound.apply_defaults()
        given = bound.arguments
        if (
            isinstance(given["dataset"], theirs.IterableDataset)
            or given["sampler"] is not None
            or given["batch_sampler"] is not None
            or given["batch_size"] is None
        ):
            return THEIRS(**given)
        return super().__new__(cls)

    def __class_getitem__(cls, item):
        return cls

    def __init__(self, *values, **given):
        given = SIGNATURE.bind(*values, **given).arguments
        given.pop("sampler", None)
        given.pop("batch_sampler", None)
        shuffle = given.pop("shuffle", None)
        words = torch.empty((), dtype=torch.int64).random_(generator=given.get("generator"))
        super().__init__(
            **given, sampler="shuffle" if shuffle else InOrder, seed=int(words), distributed=None
        )

    def __iter__(self):
        return Alone(super().__iter__())


class Alone:
    """Batches without their draws; attributes are those of the iterator of the DataLoader."""

    def __init__(self, pairs):
        self._pairs, self._first = pairs, []

    def __iter__(self):
        return self

    def __next__(self):
        return self._first.pop() if self._first else next(self._pairs)[0]

    def __getattr__(self, name):
        if self._pairs._coming is None:  # theirs starts the workers at once
            self._first.append(next(self._pairs)[0])
        return getattr(self._pairs._coming, name)


REPLACE = {"torch.utils.data.DataLoader": DataLoader}
EXPECTED = {
    "*::test_growing_dataset": (
        "by design: a data set that has grown is an error, since the sampler knows those items "
        "that it was made for."
    ),
}
