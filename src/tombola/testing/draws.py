"""Checks of what a draw reports."""

import numpy as np

from tombola.testing.judging import (
    check_distribution,
    check_form,
    check_refusal,
    close,
    promise,
)
from tombola.testing.playing import Factory, feed, fixed_losses, play_round

__all__ = ["check_draws", "check_empty_draw", "check_one_item", "check_probabilities"]


def check_probabilities(factory: Factory, n: int = 6) -> None:
    """Check that probabilities() is a distribution over n items, round after round."""
    sampler = factory(n, 1)
    for played in range(30):
        draw = play_round(sampler, 5)
        check_distribution(sampler.probabilities(), n, f"after {played + 1} rounds")
        promise(bool((draw.probabilities > 0).all()), "an item with probability 0 was drawn")


def check_draws(factory: Factory, n: int = 6) -> None:
    """Check that a draw is immutable and agrees with probabilities(), item by item."""
    sampler = factory(n, 2)
    previous = -1
    for size in (1, 3, 2 * n + 1, 1, 300, 1, 300):
        # the first draw after feedback may change the distribution of the next ones
        single = sampler.draw(1)
        before = sampler.probabilities()
        promise(
            close(single.probabilities, before[single.indices]),
            f"the draw of item {single.indices[:1]} reports the probability "
            f"{single.probabilities[:1]}, and probabilities() right after it "
            f"{before[single.indices[:1]]}",
        )
        draw = sampler.draw(size)
        after = sampler.probabilities()
        check_form(draw, size, n)
        promise(draw.round > single.round > previous, "rounds do not increase from draw to draw")
        previous = draw.round
        # the distribution may change within a batch: each item belongs to one of the two
        right = np.isclose(draw.probabilities, before[draw.indices], rtol=1e-12, atol=0)
        right |= np.isclose(draw.probabilities, after[draw.indices], rtol=1e-12, atol=0)
        wrong = ~right
        promise(
            not wrong.any(),
            f"the draw of items {draw.indices[wrong][:3]} reports the probabilities "
            f"{draw.probabilities[wrong][:3]}, and probabilities() "
            f"{before[draw.indices[wrong][:3]]}",
        )
        for drawn in (single, draw):
            feed(sampler, drawn, fixed_losses(n))


def check_empty_draw(factory: Factory, n: int = 6) -> None:
    """Check that draw(0) uses no randomness, and that invalid sizes are refused."""
    sampler, twin = factory(n, 3), factory(n, 3)
    for _ in range(3):
        empty = sampler.draw(0)
        check_form(empty, 0, n)
        if sampler.feedback == "drawn":
            sampler.update(empty, [])
        draws = sampler.draw(7), twin.draw(7)
        promise(
            np.array_equal(draws[0].indices, draws[1].indices),
            "draw(0) changes the items drawn after it: it used randomness",
        )
        for player, draw in zip((sampler, twin), draws, strict=True):
            feed(player, draw, fixed_losses(n))
    for size, error in ((-1, ValueError), (1.5, TypeError), ("3", TypeError)):
        check_refusal(sampler, sampler.draw, (size,), error, f"draw({size!r})")


def check_one_item(factory: Factory, n: int = 1) -> None:
    """Check that a single item has probability 1, whatever its losses."""
    sampler = factory(n, 4)
    for loss in (0.0, 1.0, 0.5):
        draw = sampler.draw(3)
        promise(
            draw.indices.tolist() == [0] * 3 and close(draw.probabilities, np.ones(3)),
            f"with one item, a draw has items {draw.indices} and "
            f"probabilities {draw.probabilities}",
        )
        feed(sampler, draw, np.array([loss]))
        promise(
            close(sampler.probabilities(), np.ones(1)), "the only item does not have probability 1"
        )
