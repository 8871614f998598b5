"""tombola draws the training examples that matter.

The index draws items exactly in proportion to weights that can change, in constant time:

>>> from tombola import WeightIndex
>>> index = WeightIndex([1, 0, 3], seed=0)
>>> index.set([1], [4])
>>> index.draw(6).indices
array([2, 1, 1, 1, 2, 2])
"""

from importlib import import_module
from types import ModuleType

from tombola.checkpoint import load, save
from tombola.coreset import coreset
from tombola.draws import Draw
from tombola.index import WeightIndex
from tombola.random import Stream
from tombola.samplers import *  # noqa: F403
from tombola.samplers import __all__ as _samplers

__version__ = "0.2.0"
__all__ = ["Draw", "Stream", "WeightIndex", "coreset", "load", "save"]
__all__ += _samplers


def __getattr__(name: str) -> ModuleType:
    """Import the parts that need more than numpy and numba, when they are asked for."""
    if name in ("advice", "dask", "estimators", "problems", "solvers", "torch"):
        return import_module(f"tombola.{name}")
    raise AttributeError(f"module 'tombola' has no attribute {name!r}")
