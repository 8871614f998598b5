"""Checks of losses that are zero, enormous or tiny."""

import numpy as np

from tombola.testing.judging import check_usable
from tombola.testing.playing import Factory, fixed_losses, play, play_round

__all__ = ["check_extreme_losses", "check_zero_losses"]


def check_zero_losses(factory: Factory, n: int = 6) -> None:
    """Check that a sampler can draw after losses of 0, and learn later."""
    sampler = factory(n, 14)
    for _ in range(100):
        play_round(sampler, 8, np.zeros(n))
        check_usable(sampler, n, "after losses of 0")
    play(sampler)
    check_usable(sampler, n, "after losses of 0, then others")


def check_extreme_losses(factory: Factory, n: int = 6) -> None:
    """Check that probabilities stay finite after losses of 1e200 and 1e-200, in turn."""
    for factors in ((1e200,), (1e-200,), (1e-200, 1e200), (1e200, 1e-200), (1.0, 1e300, 5e-324)):
        sampler = factory(n, 15)
        for factor in factors:
            for _ in range(30):
                play_round(sampler, 8, fixed_losses(n) * factor)
                check_usable(sampler, n, f"after losses of about {factor}")
