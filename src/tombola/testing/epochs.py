"""Statistical checks of samplers that choose whole epochs, whose draws are not independent."""

from typing import Any

import numpy as np

from tombola.testing.frequencies import ALPHA
from tombola.testing.judging import promise
from tombola.testing.playing import Factory, feed, fixed_losses

__all__ = ["check_epoch_mean", "check_inclusion"]

SEEDS = 1000


def check_inclusion(factory: Factory, n: int = 6) -> None:
    """Check that each item comes in an epoch as often as reported, given what was learnt before.

    Over many seeds: two epochs to learn from, then one whose items are counted.
    """
    errors = np.zeros((SEEDS, n))
    for seed in range(SEEDS):
        sampler = factory(n, seed)
        for _ in range(2):
            _play_epoch(sampler, n, fixed_losses(n))
        first = sampler.draw(1)  # it decides on the epoch
        reported = sampler.probabilities()
        rest = sampler.draw(sampler.epoch_length - 1)
        if np.array_equal(reported, sampler.probabilities()):  # else it changed within
            items = np.concatenate([first.indices, rest.indices])
            errors[seed] = np.bincount(items, minlength=n) - items.size * reported
    sums, margins = errors.sum(axis=0), _margin(errors)
    worst = int(np.argmax(np.abs(sums) - margins))
    promise(
        bool((np.abs(sums) <= margins).all()),
        f"over {SEEDS} epochs, item {worst} comes {sums[worst]:+.4g} times more often than "
        f"reported, which should be within {margins[worst]:.4g}",
    )


def check_epoch_mean(factory: Factory, n: int = 6) -> None:
    """Check that the estimate from a whole epoch is unbiased while the sampler learns within it.

    Over many seeds: two epochs to learn from, then one whose draws are averaged.
    """
    for values in (np.ones(n), 1.0 - fixed_losses(n) ** 2):
        errors = np.zeros((SEEDS, 1))
        for seed in range(SEEDS):
            sampler = factory(n, seed)
            for _ in range(2):
                _play_epoch(sampler, n, values)
            errors[seed] = _play_epoch(sampler, n, values) - values.mean()
        total, margin = float(errors.sum()), float(_margin(errors)[0])
        promise(
            abs(total) <= margin,
            f"over {SEEDS} epochs, the estimates of a mean of {values.mean():.3g} are biased: "
            f"their errors sum to {total:.4g}, which should be within {margin:.4g}",
        )


def _play_epoch(sampler: Any, n: int, values: Any) -> float:
    """Play one epoch in batches of two, and feed each; return the estimate of a mean."""
    total, done = 0.0, 0
    while done == 0 or done < sampler.epoch_length:
        draw = sampler.draw(1 if done == 0 else min(2, sampler.epoch_length - done))
        total += float((draw.importances * values[draw.indices]).sum())
        done += len(draw)
        feed(sampler, draw, fixed_losses(n))
    return total / done


def _margin(errors: Any) -> Any:
    """Return how far the sums of independent errors may be from 0: an inequality of Bernstein's.

    The margin is a little larger since the variance is estimated from the same errors, and since
    the errors of an estimate without variance are those of rounding.
    """
    x = np.log(2 * errors.shape[1] / ALPHA) + 3
    return 1e-9 * SEEDS + np.sqrt(2 * (errors**2).sum(axis=0) * x) + np.abs(errors).max(axis=0) * x
