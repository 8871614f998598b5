"""OSMD: exponential weights above a floor, against dense arrays and a sorted projection."""

import math

import numpy as np
import pytest

from tombola import OSMD, Draw

pytestmark = pytest.mark.kernels


def projected(q, floor):
    """The KL projection onto {p >= floor}, by sorting."""
    order = np.argsort(q)
    ascending = q[order]
    clamped = 0
    for m in range(1, len(q) + 1):
        if ascending[m - 1] * (1 - (m - 1) * floor) <= floor * ascending[m - 1 :].sum():
            clamped = m
    p = np.full(len(q), floor)
    rest = order[clamped:]
    p[rest] = q[rest] * (1 - clamped * floor) / q[rest].sum()
    return p


def rise(step, loss, bound, floor, n, p):
    """eta a / p^3 in the units of the docstring."""
    eta = step * floor**3 / n**3 / (bound / n**2)
    return eta * (loss / n) ** 2 / p**3


@pytest.mark.parametrize(("step", "floor"), [(3.0, 0.4), (30.0, 0.2), (1.0, 0.9)])
def test_the_rule_is_that_of_dense_arrays(step, floor):
    n, losses = 12, np.linspace(0.2, 2.0, 12)
    sampler = OSMD(n, bound=4.0, step=step, floor=floor, seed=1)
    p = np.full(n, 1 / n)
    wrong = p.copy()  # forgets the projection
    for _ in range(150):
        draw = sampler.draw(3)
        sampler.update(draw, losses[draw.indices])
        for item, chance in zip(draw.indices, draw.probabilities, strict=True):
            up = math.exp(min(step, rise(step, losses[item], 4.0, floor, n, chance)))
            p[item] *= up
            p = projected(p / p.sum(), floor / n)
            wrong[item] *= up
        np.testing.assert_allclose(sampler.probabilities(), p, rtol=0.05)
    assert p.min() == floor / n  # the floor was reached
    assert sampler.probabilities().min() >= 0.989 * floor / n
    assert abs(wrong / wrong.sum() / p - 1).max() > 0.1


def test_the_projection_is_that_of_a_generic_solver():
    scipy = pytest.importorskip("scipy.optimize")
    q = np.array([0.5, 0.2, 0.2, 0.06, 0.04])
    found = scipy.minimize(
        lambda p: (p * np.log(p / q)).sum(),
        np.full(5, 0.2),
        bounds=[(0.1, 1)] * 5,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
        options={"ftol": 1e-14},
    )
    np.testing.assert_allclose(projected(q, 0.1), found.x, atol=1e-5)


def test_an_item_that_is_drawn_twice_rises_twice():
    odds = []
    for times in (1, 2):
        sampler = OSMD(50, bound=1.0, step=0.01, seed=2)
        sampler.update(Draw([7] * times, [0.02] * times, 50), np.ones(times))
        p = sampler.probabilities()
        odds.append(math.log(p[7] / p[8]))
    up = rise(0.01, 1.0, 1.0, 0.4, 50, 0.02)
    assert odds == pytest.approx([up, 2 * up], rel=1e-6)
    assert odds[1] > 1.5 * odds[0]  # summed, not overwritten


def test_steps_of_the_theory():
    """eta = (alpha^3 / (n L)) sqrt(ln n / (2 T)); without a horizon T is the losses so far."""
    for horizon, fed, expected in ((5000, 0, 5000), (None, 0, 50), (None, 200, 201)):
        sampler = OSMD(50, bound=9.0, horizon=horizon, seed=3)
        sampler.update(Draw([0] * fed, [0.02] * fed, 50), np.zeros(fed))
        sampler.update(Draw([7], [0.02], 50), [3.0])
        p = sampler.probabilities()
        step = math.sqrt(math.log(50) / (2 * expected))
        assert math.log(p[7] / p[8]) == pytest.approx(step * 0.4**3, rel=1e-6)


def test_no_rise_exceeds_the_step():
    """Neither for a loss above the bound, nor for a draw below the floor."""
    for p, loss in ((0.008, 100.0), (1e-30, 1.0), (1e-30, 1e200)):
        sampler = OSMD(50, bound=1.0, step=0.5, seed=4)
        sampler.update(Draw([7], [p], 50), [loss])
        chances = sampler.probabilities()
        assert math.log(chances[7] / chances[8]) == pytest.approx(0.5, rel=1e-6)


def test_masses_stay_finite():
    """Each loss multiplies a mass by exp(100)."""
    sampler = OSMD(5, bound=1.0, step=100.0, seed=5)
    for turn in range(60):
        sampler.update(Draw([turn % 5], [1e-9], 5), [1.0])
        p = sampler.probabilities()
        assert p.sum() == pytest.approx(1)
        assert p.argmax() == turn % 5
        assert p.min() >= 0.989 * 0.4 / 5
    assert sampler.state.scores.max() <= 2.0**500


def test_masses_are_projected_below_the_tolerance_only():
    """Here the level is 0.99 of what the projection makes of it, to the last digit, or less."""
    for level, then in ((0.99, 0.99), (np.nextafter(0.99, 0.0), 1.0)):
        sampler = OSMD(1, bound=1.0, step=1.0, floor=1.0)
        sampler.state.rule[0].level = level
        sampler.update(Draw([0], [1.0], 1), [0.0])
        assert sampler.state.rule[0].level == then


def test_one_item_and_equal_losses():
    sampler = OSMD(1, bound=1.0)
    sampler.update(sampler.draw(5), np.ones(5))
    assert sampler.probabilities() == [1.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bound": 0.0}, "bound must be positive and finite, got 0.0"),
        ({"bound": 1.0, "step": 0.0}, "step must be above 0 and at most 100, got 0.0"),
        ({"bound": 1.0, "step": 101.0}, "step must be above 0 and at most 100, got 101.0"),
        ({"bound": 1.0, "step": 1.0, "horizon": 5}, "at most one of step and horizon"),
        ({"bound": 1.0, "floor": 0.0}, "floor"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        OSMD(5, **options)
