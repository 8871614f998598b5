"""Checks of seeds, and of random state outside the sampler."""

import random

import numpy as np

from tombola.testing.judging import promise, same
from tombola.testing.playing import Factory, trace

__all__ = ["check_global_randomness", "check_seeds"]


def check_seeds(factory: Factory, n: int = 6) -> None:
    """Check that draws repeat with the same seed, and differ with another one."""
    first, second, other = factory(n, 5), factory(n, 5), factory(n, 6)
    played = trace(first)
    promise(same(played, trace(second)), "two samplers with the same seed draw differently")
    promise(
        not np.array_equal(played["indices"], trace(other)["indices"]),
        "samplers with different seeds draw the same items",
    )


def check_global_randomness(factory: Factory, n: int = 6) -> None:
    """Check that the global generators of Python and numpy are not used."""
    python, numpy_ = random.getstate(), np.random.get_state(legacy=False)  # noqa: NPY002
    sampler = factory(n, 7)
    trace(sampler)
    sampler.load_state_dict(sampler.state_dict())
    sampler.reset()
    promise(random.getstate() == python, "the global generator of `random` was used")
    promise(
        same(np.random.get_state(legacy=False), numpy_),  # noqa: NPY002
        "the global generator of numpy was used",
    )
