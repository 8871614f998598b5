"""The samplers: one algorithm per file."""

from tombola.samplers.adaptive_weighted import AdaptiveWeighted
from tombola.samplers.avare import Avare
from tombola.samplers.base import Sampler
from tombola.samplers.mirror_descent import MirrorDescent
from tombola.samplers.safe import Safe
from tombola.samplers.shuffle import Shuffle
from tombola.samplers.uniform import Uniform
from tombola.samplers.vrb import VRB

__all__ = [
    "VRB",
    "AdaptiveWeighted",
    "Avare",
    "MirrorDescent",
    "Safe",
    "Sampler",
    "Shuffle",
    "Uniform",
]
