"""Prioritised replay: draws of transitions in proportion to priorities, in a ring.

>>> sampler = PrioritizedSampler(max_capacity=1000, alpha=0.6, beta=0.4)
>>> storage = list(range(8))                              # or one of TorchRL
>>> sampler.extend(range(8))                              # new items have the largest priority
>>> index, info = sampler.sample(storage, batch_size=4)
>>> sampler.update_priority(index, [0.5, 2.0, 0.1, 1.0])  # absolute TD errors
"""

from tombola.torch.replay.sampler import PrioritizedSampler

__all__ = ["PrioritizedSampler"]
