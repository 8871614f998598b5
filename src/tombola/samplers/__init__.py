"""The samplers: one algorithm per file."""

from tombola.samplers.base import Sampler
from tombola.samplers.group_vrb import GroupVRB
from tombola.samplers.shuffle import Shuffle
from tombola.samplers.uniform import Uniform
from tombola.samplers.vrb import VRB

__all__ = ["VRB", "GroupVRB", "Sampler", "Shuffle", "Uniform"]
