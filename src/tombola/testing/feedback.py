"""Checks of feedback for single draws: repeated, late, partial, or for draws from elsewhere."""

import numpy as np

from tombola.draws import Draw
from tombola.samplers import Uniform
from tombola.testing.judging import check_usable, close, promise
from tombola.testing.playing import Factory, feed, fixed_losses, play, play_round

__all__ = [
    "check_duplicates",
    "check_foreign_draws",
    "check_gauge",
    "check_irregular_feedback",
    "check_probability_of_the_draw",
    "learns",
]


def check_duplicates(factory: Factory, n: int = 6) -> None:
    """Check that a batch with repeated items teaches the same as its items one by one."""
    together, apart = factory(n, 8), factory(n, 8)
    for played in range(40):
        draw, same_draw = together.draw(3 * n), apart.draw(3 * n)
        losses = fixed_losses(n)[draw.indices] * np.linspace(0.5, 1.0, len(draw))
        together.update(draw, losses)
        for j in range(len(same_draw)):
            apart.update(same_draw[j], losses[j : j + 1])
        promise(
            close(together.probabilities(), apart.probabilities(), 1e-9),
            f"in round {played + 1}, a batch with repeated items leads to "
            f"{together.probabilities()[:6]}, its items one by one to {apart.probabilities()[:6]}",
        )
        if not np.array_equal(draw.indices, same_draw.indices):
            return  # equal up to rounding, until rounding made one draw differ


def check_probability_of_the_draw(
    factory: Factory, n: int = 6, uses_probability: bool = True
) -> None:
    """Check that feedback counts with the probability of its draw, not with the current one.

    Two samplers with the same seed are fed the same late draw, but for one of them its
    probabilities are halved. If both continue alike, the rule ignores the probability that the
    draw reports.
    """
    if not learns(factory, n):
        return
    sampler, twin = factory(n, 9), factory(n, 9)
    for player in (sampler, twin):
        play(player)
    late = sampler.draw(20)
    twin.draw(20)
    halved = Draw(late.indices, late.probabilities / 2, n, late.round, late.tags)
    for player in (sampler, twin):
        play_round(player, 16)
    feed(sampler, late, fixed_losses(n))
    feed(twin, halved, fixed_losses(n))
    alike = True
    for _ in range(40):
        play_round(sampler, 8)
        play_round(twin, 8)
        alike = alike and close(sampler.probabilities(), twin.probabilities(), 1e-10)
    if uses_probability:
        promise(
            not alike,
            "a draw teaches the same whatever its probabilities: the rule looks them up when "
            "feedback arrives, which is too late (or it never uses them: pass "
            "uses_probability=False)",
        )
    else:
        promise(alike, "the rule uses the probabilities of a draw: pass uses_probability=True")


def check_gauge(factory: Factory, n: int = 6) -> None:
    """Check that the gauge uses the probabilities of late and foreign draws."""
    sampler, other = factory(n, 10), Uniform(n, seed=10)
    if not hasattr(sampler, "gauge"):
        return
    play(sampler, rounds=10)
    draws = [sampler.draw(5) for _ in range(10)] + [other.draw(5)]
    base = Draw([0, n - 1], [0.01, 0.5], n)
    sampler.reset()
    ours = uniform = 0.0
    for draw in [*draws[::-1], base]:
        losses = fixed_losses(n)[draw.indices]
        sampler.update(draw, losses)
        ours += float((losses**2 * draw.importances**2).sum())
        uniform += float((losses**2 * draw.importances).sum())
    ratio, count = sampler.gauge.second_moment_ratio, sampler.gauge.count
    fed = sum(map(len, draws)) + len(base)
    promise(count == fed, f"the gauge counts {count} of {fed} losses")
    promise(
        abs(ratio - ours / uniform) <= 1e-9 * ratio,
        f"the gauge reports a ratio of {ratio}, but the probabilities of the draws give "
        f"{ours / uniform}",
    )


def check_foreign_draws(factory: Factory, n: int = 6) -> None:
    """Check that draws from another sampler, or made by hand, are accepted."""
    sampler, other = factory(n, 11), Uniform(n, seed=11)
    for _ in range(30):
        draw = other.draw(4)
        sampler.update(draw, fixed_losses(n)[draw.indices])
        sampler.update(Draw([n - 1, 0], [1.0, 1e-6], n), [0.5, 1.0])
        check_usable(sampler, n, "after draws from another sampler")


def check_irregular_feedback(factory: Factory, n: int = 6) -> None:
    """Check that feedback may come late, out of order, in part, repeatedly, or never."""
    sampler = factory(n, 12)
    losses = fixed_losses(n)
    draws = [sampler.draw(4) for _ in range(12)]
    order = [7, 2, 11, 4, 0, 9]  # the others get no feedback
    for k in order:
        sampler.update(draws[k], losses[draws[k].indices])
        check_usable(sampler, n, "after late feedback, out of order")
    some = np.arange(len(draws[1])) % 2 == 0
    for part in (draws[1][some], draws[3][1:], draws[5][:1], draws[6][:0]):
        sampler.update(part, losses[part.indices])
        check_usable(sampler, n, "after feedback for a part of a draw")
    for _ in range(3):
        sampler.update(draws[0], losses[draws[0].indices])
        check_usable(sampler, n, "after repeated feedback")


def learns(factory: Factory, n: int) -> bool:
    """Return whether feedback changes the probabilities at all."""
    sampler, twin = factory(n, 19), factory(n, 19)
    for _ in range(60):
        play_round(sampler, 16)
        play_round(twin, 16, fixed_losses(n)[::-1])
        if not close(sampler.probabilities(), twin.probabilities(), 1e-10):
            return True
    return False
