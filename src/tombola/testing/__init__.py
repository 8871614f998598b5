"""The conformance suites: what every sampler and every state promises, as checks to run.

`check_sampler` plays a sampler of any class, ours or yours, and reports which promises it breaks.
Each check is also a function of its own, which you can run alone while you look for the fault:

>>> from tombola import Uniform
>>> from tombola.testing import check_sampler, check_seeds
>>> check_seeds(lambda n, seed: Uniform(n, seed=seed))
>>> check_sampler(lambda n, seed: Uniform(n, seed=seed))

A check calls ``factory(n, seed)`` for new samplers. If a sampler takes other arguments, derive
them from n: ``lambda n, seed: Static(1.0 + np.arange(n), seed=seed)``.

`check_state` does the same for anything with `state_dict` and `load_state_dict`: it resumes,
damages and refuses states, and watches the memory that loading one takes.

Losses are between 0 and 1, so a bound of 1 holds, except in `check_extreme_losses`. Statistical
checks have fixed seeds, and a correct sampler fails one with a probability of about ALPHA.
"""

from tombola.testing.draws import (
    check_draws,
    check_empty_draw,
    check_one_item,
    check_probabilities,
)
from tombola.testing.epochs import check_epoch_mean, check_inclusion
from tombola.testing.errors import check_bad_feedback
from tombola.testing.extremes import check_extreme_losses, check_zero_losses
from tombola.testing.feedback import (
    check_duplicates,
    check_foreign_draws,
    check_gauge,
    check_irregular_feedback,
    check_probability_of_the_draw,
)
from tombola.testing.frequencies import ALPHA, check_first_draws, check_frequencies, check_mean
from tombola.testing.randomness import check_global_randomness, check_seeds
from tombola.testing.state import (
    check_reset,
    check_resume,
    check_state,
    check_state_damage,
    check_state_memory,
    check_state_refusal,
    check_state_resume,
)
from tombola.testing.suite import CHECKS, check_sampler

__all__ = [
    "ALPHA",
    "CHECKS",
    "check_bad_feedback",
    "check_draws",
    "check_duplicates",
    "check_empty_draw",
    "check_epoch_mean",
    "check_extreme_losses",
    "check_first_draws",
    "check_foreign_draws",
    "check_frequencies",
    "check_gauge",
    "check_global_randomness",
    "check_inclusion",
    "check_irregular_feedback",
    "check_mean",
    "check_one_item",
    "check_probabilities",
    "check_probability_of_the_draw",
    "check_reset",
    "check_resume",
    "check_sampler",
    "check_seeds",
    "check_state",
    "check_state_damage",
    "check_state_memory",
    "check_state_refusal",
    "check_state_resume",
    "check_zero_losses",
]
