"""tombola draws the training examples that matter.

The index draws items exactly in proportion to integer weights, in constant time:

>>> from tombola import Stream, WeightIndex
>>> index = WeightIndex([1, 0, 3])
>>> index.set([1], [4])
>>> index.draw(6, Stream(seed=0))
array([2, 1, 1, 1, 2, 2])
"""

from tombola.checkpoint import load, save
from tombola.draws import Draw
from tombola.index import WeightIndex
from tombola.random import Stream
from tombola.samplers import (
    VRB,
    AdaptiveWeighted,
    Avare,
    MirrorDescent,
    Safe,
    Sampler,
    Shuffle,
    Uniform,
)

__version__ = "0.1.0.dev0"
__all__ = [
    "VRB",
    "AdaptiveWeighted",
    "Avare",
    "Draw",
    "MirrorDescent",
    "Safe",
    "Sampler",
    "Shuffle",
    "Stream",
    "Uniform",
    "WeightIndex",
    "load",
    "save",
]
