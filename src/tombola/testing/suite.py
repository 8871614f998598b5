"""All checks, and the function that runs them."""

from collections.abc import Callable, Collection, Sequence

from tombola.testing import (
    draws,
    epochs,
    errors,
    extremes,
    feedback,
    frequencies,
    randomness,
    state,
)
from tombola.testing.playing import Factory

__all__ = ["CHECKS", "STATISTICAL", "check_sampler"]

Check = Callable[..., None]

STATISTICAL: tuple[Check, ...] = (
    frequencies.check_frequencies,
    frequencies.check_first_draws,
    frequencies.check_mean,
)
OF_EPOCHS: tuple[Check, ...] = (epochs.check_inclusion, epochs.check_epoch_mean)
OF_SINGLE_DRAWS: tuple[Check, ...] = (
    feedback.check_duplicates,
    feedback.check_probability_of_the_draw,
    feedback.check_gauge,
    feedback.check_foreign_draws,
    feedback.check_irregular_feedback,
)
CHECKS: tuple[Check, ...] = (
    draws.check_probabilities,
    draws.check_draws,
    *STATISTICAL,
    *OF_EPOCHS,
    draws.check_empty_draw,
    draws.check_one_item,
    randomness.check_seeds,
    randomness.check_global_randomness,
    *OF_SINGLE_DRAWS,
    errors.check_bad_feedback,
    extremes.check_zero_losses,
    extremes.check_extreme_losses,
    state.check_resume,
    state.check_reset,
)


def check_sampler(
    factory: Factory,
    *,
    n: Sequence[int] = (1, 2, 6, 40),
    uses_probability: bool = True,
    skip: Collection[str] = (),
) -> None:
    """Run every check; raise one AssertionError that lists all broken promises.

    If the `feedback` of the sampler is "all", the checks of feedback for single draws are left
    out; if its draws are `independent`, those of whole epochs.

    Parameters
    ----------
    factory : callable
        ``factory(n, seed)`` returns a new sampler over n items.
    n : sequence of int, default=(1, 2, 6, 40)
        The numbers of items to check with. Statistical checks run for those up to 6.
    uses_probability : bool, default=True
        Whether the rule of the sampler uses the probability that an item was drawn with. A check
        cannot distinguish a rule that looks up this probability too late from a rule that never
        uses it, so pass False for the latter. This is not needed for a sampler that ignores
        feedback.
    skip : collection of str, default=()
        Names of checks to leave out, for a sampler that breaks a promise on purpose.

    Raises
    ------
    AssertionError
        One line for each check that failed.

    Examples
    --------
    >>> import tombola
    >>> check_sampler(lambda n, seed: tombola.VRB(n, bound=1.0, mixing=0.2, seed=seed))
    """
    names = [check.__name__ for check in CHECKS]
    for name in skip:
        if name not in names:
            raise ValueError(f"skip has {name!r}, which is not a check; the checks are {names}")
    sampler = factory(max(n), 0)
    takes = getattr(sampler, "feedback", None)
    if takes not in ("drawn", "all"):
        raise AssertionError(f'sampler.feedback must be "drawn" or "all", got {takes!r}')
    left_out = OF_SINGLE_DRAWS if takes == "all" else ()
    left_out += OF_EPOCHS if getattr(sampler, "independent", True) else ()
    broken = []
    for check in CHECKS:
        if check.__name__ in skip or check in left_out:
            continue
        more = {}
        if check is feedback.check_probability_of_the_draw:
            more["uses_probability"] = uses_probability
        for size in _sizes(check, n):
            try:
                check(factory, n=size, **more)
            except Exception as error:
                kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
                broken.append(f"{check.__name__} (n = {size}): {kind}{error}")
                break
    if broken:
        raise AssertionError("the sampler fails\n  " + "\n  ".join(broken))


def _sizes(check: Check, n: Sequence[int]) -> list[int]:
    """Return the numbers of items that a check makes sense for."""
    if check is draws.check_one_item:
        return [size for size in n if size == 1]
    several = [size for size in n if size > 1]
    if check in STATISTICAL + OF_EPOCHS:
        return [size for size in several if size <= 6]
    return several
