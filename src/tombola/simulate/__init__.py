"""Games of a sampler against an adversary, compiled: ten million rounds take seconds."""

from tombola.simulate.adversary import Adversary
from tombola.simulate.game import play
from tombola.simulate.hostile import Neglect, Outlier
from tombola.simulate.noisy import Noisy, Sparse
from tombola.simulate.randomness import log_normal
from tombola.simulate.steady import Decaying, Equal, Starved, Stationary, Switching

__all__ = [
    "Adversary",
    "Decaying",
    "Equal",
    "Neglect",
    "Noisy",
    "Outlier",
    "Sparse",
    "Starved",
    "Stationary",
    "Switching",
    "log_normal",
    "play",
]
