"""WeightedSampler, by PyTorch's tests of WeightedRandomSampler and of RandomSampler.

A RandomSampler is one of equal weights. Loaders that shuffle use it, too.
"""

import torch

from peers.suites._torch import DURING_TESTS, LEFT_OUT, MODULES
from tombola.torch import WeightedSampler

__all__ = ["DURING_TESTS", "EXPECTED", "LEFT_OUT", "MODULES", "REPLACE"]


class RandomSampler(WeightedSampler):
    def __init__(self, data_source, replacement=False, num_samples=None, generator=None):
        super().__init__(torch.ones(len(data_source)), num_samples, replacement, generator)


REPLACE = {
    "torch.utils.data.WeightedRandomSampler": WeightedSampler,
    "torch.utils.data.RandomSampler": RandomSampler,
    "torch.utils.data.dataloader.RandomSampler": RandomSampler,
}
MORE = (
    "by design: More draws than items are an error without replacement; a RandomSampler begins "
    "the items again."
)
EXPECTED = {
    "*::test_growing_dataset": (
        "by design: Each item has a weight, so a data set that has grown needs another sampler."
    ),
    "*::test_random_sampler": MORE,
    "*::test_random_sampler_len_without_replacement": MORE,
}
