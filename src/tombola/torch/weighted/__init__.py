"""Weighted draws, in the place of `torch.utils.data.WeightedRandomSampler`."""

from tombola.torch.weighted.sampler import WeightedSampler

__all__ = ["WeightedSampler"]
