"""Games of a sampler against an adversary: ten million rounds in seconds."""

from tombola.simulate.adversaries import (
    Adversary,
    Decaying,
    Equal,
    Neglect,
    Noisy,
    Outlier,
    Sparse,
    Starved,
    Stationary,
    Switching,
    log_normal,
)
from tombola.simulate.game import play

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
