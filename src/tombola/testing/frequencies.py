"""Statistical checks: items are drawn as often as reported, and estimates are unbiased."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from tombola.draws import Draw
from tombola.testing.judging import promise
from tombola.testing.playing import Factory, feed, fixed_losses

__all__ = ["ALPHA", "check_first_draws", "check_frequencies", "check_mean"]

ALPHA = 1e-9  # the probability of a false alarm, for each check


def check_frequencies(factory: Factory, n: int = 6) -> None:
    """Check that items are drawn as often as reported while the sampler learns."""
    counts, expected = np.zeros(n), np.zeros(n)
    for draw, probabilities in _rounds(factory, n):
        counts += np.bincount(draw.indices, minlength=n)
        expected += draw.size * probabilities
    _check_counts(counts, expected, "in a long run")


def check_first_draws(factory: Factory, n: int = 6) -> None:
    """Check the frequencies of the first, second and third item drawn, over many seeds.

    If draws depend on one another, as in shuffled epochs, this is what the probabilities of a
    draw mean.
    """
    counts, expected = np.zeros((3, n)), np.zeros((3, n))
    for seed in range(3000):
        sampler = factory(n, seed)
        for place in range(3):
            counts[place] += np.bincount(sampler.draw(1).indices, minlength=n)
            expected[place] += sampler.probabilities()
    for place in range(3):
        _check_counts(counts[place], expected[place], f"in draw {place + 1}, over 3000 seeds")


def check_mean(factory: Factory, n: int = 6) -> None:
    """Check that `draw.mean` is an unbiased estimate: of 1 from ones, of a mean from values."""
    # Freedman's inequality for sums of martingale differences, with a small margin since the
    # variance is not fixed in advance
    x = np.log(2 / ALPHA) + 3
    for values in (np.ones(n), 1.0 - fixed_losses(n) ** 2):
        error, variance, largest = 0.0, 0.0, 0.0
        for draw, probabilities in _rounds(factory, n):
            error += draw.size * (draw.mean(values[draw.indices]) - values.mean())
            terms = values / (n * probabilities)
            second_moment = float((probabilities * terms**2).sum())
            # of a random number of items, the second moment bounds the variance
            known = values.mean() ** 2 if draw.nominal is None else 0.0
            variance += draw.size * max(0.0, second_moment - known)
            largest = max(largest, float(terms.max()))
        margin = np.sqrt(2 * variance * x) + largest * x
        promise(
            abs(error) <= margin,
            f"the estimates of a mean of {values.mean():.3g} are biased: their errors sum to "
            f"{error:.4g}, which should be within {margin:.4g}",
        )


def _rounds(factory: Factory, n: int) -> Iterator[tuple[Draw, Any]]:
    """Play 600 rounds; yield draws with the whole distribution that they came from."""
    sampler = factory(n, 18)
    for _ in range(600):
        single = sampler.draw(1)
        before = sampler.probabilities()
        yield single, before
        batch = sampler.draw(99)
        if np.array_equal(before, sampler.probabilities()):  # else it changed within the batch
            yield batch, before
        feed(sampler, single, fixed_losses(n))


def _check_counts(counts: Any, expected: Any, where: str) -> None:
    """Run a chi-square test at ALPHA; the critical value is the bound of Laurent & Massart (2000).

    If probabilities vary from draw to draw, the counts vary less than this allows for.
    """
    promise(not counts[expected == 0].any(), f"{where}, an item with probability 0 was drawn")
    counts, expected = _pooled(counts, expected)
    statistic = float(((counts - expected) ** 2 / expected).sum())
    k, x = len(counts) - 1, np.log(1 / ALPHA)
    limit = float(k + 2 * np.sqrt(k * x) + 2 * x)
    promise(
        statistic <= limit,
        f"{where}, items are not drawn as often as reported: counts {counts}, expected "
        f"{np.round(expected, 1)}, chi-square {statistic:.1f} with a limit of {limit:.1f}",
    )


def _pooled(counts: Any, expected: Any) -> tuple[Any, Any]:
    """Merge items that are too rare for a chi-square test, together with the next rarest one."""
    order = np.argsort(expected)
    counts, expected = counts[order], expected[order]
    first = int(np.searchsorted(np.cumsum(expected), 25)) + 1
    return (
        np.concatenate([[counts[:first].sum()], counts[first:]]),
        np.concatenate([[expected[:first].sum()], expected[first:]]),
    )
