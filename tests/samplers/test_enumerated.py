"""Exact unbiasedness for few items, in states that awkward feedback has led to.

The index draws item i for exactly weights[i] + uniform of its darts (tests/index enumerates
that). So the distribution of a draw is known as fractions, and no statistics are needed: the
reported probabilities are those fractions, and the expectation of an estimate is the mean.
"""

from fractions import Fraction

import numpy as np
import pytest

import tombola
from tombola import Stream
from tombola.samplers.weighted import uniform_weight

MAKERS = {
    "VRB": lambda n: tombola.VRB(n, seed=1),
    "VRB, mixing": lambda n: tombola.VRB(n, bound=1.0, mixing=0.1, seed=1),
    "VRB, horizon": lambda n: tombola.VRB(n, bound=1.0, horizon=500 * n, seed=1),
    "VRB, anytime": lambda n: tombola.VRB(n, bound=1.0, seed=1),
    "Static": lambda n: tombola.Static(np.arange(1.0, n + 1), mixing=0.25, seed=1),
    "MABS": lambda n: tombola.MABS(n, horizon=1000, bound=1.0, seed=1),
    "MirrorDescent": lambda n: tombola.MirrorDescent(n, bound=1.0, seed=1),
    "OSMD": lambda n: tombola.OSMD(n, bound=1.0, seed=1),
    "Stale": lambda n: tombola.Stale(n, seed=1),
    "Avare": lambda n: tombola.Avare(n, seed=1),
    "SRG": lambda n: tombola.SRG(n, seed=1),
    "Safe": lambda n: tombola.Safe(n, smoothness=np.ones(n), seed=1),
}


def awkward_feedback(sampler, scale, rounds=60):
    """Late, out of order, in part, from another sampler, or never."""
    n, stream = sampler.n, Stream(5)
    other = tombola.Static(np.arange(n, 0.0, -1.0), mixing=0.5, seed=9)
    losses = scale * np.linspace(0.1, 1.0, n)
    waiting = []
    for k in range(rounds):
        waiting.append(sampler.draw(1 + k % 3))
        waiting.append(other.draw(2))
        if k % 4 == 3:
            late = waiting.pop(int(stream.integers(len(waiting), 1)[0]))
            part = late[: 1 + len(late) // 2]
            sampler.update(part, losses[part.indices])
        if len(waiting) > 6:
            waiting.pop(0)  # lost


def fractions(sampler):
    """The exact distribution of the next draw, from the integers of the index."""
    sampler.draw(1)  # sets mixing and mode
    weights, uniform = sampler.state.index.weights, int(uniform_weight(sampler.state))
    if sampler.mode == "shuffle" or uniform < 0:
        return [Fraction(1, sampler.n)] * sampler.n
    total = int(weights.sum()) + sampler.n * uniform
    return [Fraction(int(weight) + uniform, total) for weight in weights]


@pytest.mark.parametrize("scale", [1.0, 1e200, 1e-200])
@pytest.mark.parametrize("n", range(1, 7))
@pytest.mark.parametrize("name", MAKERS)
def test_reported_probabilities_are_the_fractions_of_the_darts(name, n, scale):
    sampler = MAKERS[name](n)
    awkward_feedback(sampler, scale)
    exact = fractions(sampler)
    assert sum(exact) == 1
    draw = sampler.draw(64)
    for item, probability in zip(draw.indices, draw.probabilities, strict=True):
        assert abs(Fraction(float(probability)) / exact[item] - 1) < Fraction(1, 2**50)
    # the expectation, over the darts, of an estimate that divides by what was *reported*
    reported = [Fraction(float(p)) for p in sampler.probabilities()]
    values = [Fraction(7 * item + 3, 5) for item in range(n)]
    terms = zip(exact, reported, values, strict=True)
    expectation = sum(p * v / (n * r) for p, r, v in terms if p)
    assert abs(expectation / (sum(values) / n) - 1) < Fraction(1, 2**48)


def test_a_probability_of_now_instead_of_the_draw_is_seen():
    """The wrong report: what the item would be drawn with after feedback has moved it."""
    sampler = MAKERS["VRB, mixing"](6)
    exact = fractions(sampler)
    draw = sampler.draw(64)
    sampler.update(draw, np.linspace(0.0, 1.0, 64))
    late = sampler.probabilities()[draw.indices]
    assert any(
        abs(Fraction(float(p)) / exact[item] - 1) > Fraction(1, 2**50)
        for item, p in zip(draw.indices, late, strict=True)
    )
