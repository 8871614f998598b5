"""The race: who goes on, at which rate, and what is compared."""

import math
import time

import numpy as np
import pytest

from tombola.advice import Pair, decide
from tombola.advice.race import (
    LOOKS,
    RUNGS,
    Contender,
    Look,
    judged,
    race,
    smoothed,
    speed,
    total_steps,
)

CONTENDERS = [Contender("shuffle"), *(Contender(name, "losses") for name in "abcd")]
PACE = {"shuffle": 1.0, "a": 0.5, "b": 3.0, "c": 2.0, "d": 1.0}  # how fast losses fall
BEST = {"shuffle": 1.0, "a": 1.0, "b": 3.0, "c": 1 / 3, "d": 9.0}  # at this rate


class Planned:
    """A run whose losses are known: 1 / (1 + pace t), slower away from the best rate."""

    def __init__(self, contender, rate, seed, noise=0.0):
        away = abs(math.log(rate / BEST[contender.sampler]))
        self.pace = PACE[contender.sampler] * math.exp(-away) / 100
        self.noise, self.rng = noise, np.random.default_rng(seed)
        self.seconds, self.looks = [], [Look(0, 1.0)]

    def advance(self, steps):
        noise = math.exp(self.noise * self.rng.normal())
        self.seconds.append(2e-3 if self.pace > 0.01 else 1e-3)
        self.looks.append(Look(steps, noise / (1.0 + self.pace * steps)))


def raced(begin=Planned, rates=(1 / 3, 1.0, 3.0), **options):
    options = {"steps": 40 * LOOKS, "seeds": 3, "seed": 5, **options}
    return race(begin, CONTENDERS, rates, **options)


def test_the_best_contender_meets_shuffling_each_at_its_own_best_rate():
    found = raced()
    assert (found.best.sampler, found.rate, found.shuffle_rate) == ("b", 3.0, 1.0)
    assert [pair.seed for pair in found.pairs] == [6, 7, 8]
    for pair in found.pairs:
        # three times the pace; means of three looks are a little above a convex curve
        assert pair.steps_ratio == pytest.approx(1 / 3, rel=0.05)
        assert pair.time_ratio == pytest.approx(pair.steps_ratio * 2)  # and twice the time a step
    assert found.verdict.pays is True


def test_the_rungs_halve_and_a_rate_at_the_end_of_the_grid_goes_beyond():
    calls = []
    found = raced(progress=lambda *call: calls.append(call))
    ends = {}
    for curve in found.curves:
        ends.setdefault(len(curve.looks) - 1, []).append((curve.name.split()[0], curve.rate))
    short, half = RUNGS
    assert len(ends[short]) == 11  # of 15, and two at rates beyond the grid
    assert sorted(name for name, _ in ends[half]) == ["b", "b", "c", "c", "shuffle", "shuffle"]
    assert any(rate == pytest.approx(9.0) for name, rate in ends[half] if name == "b")
    assert any(rate == pytest.approx(1 / 9) for name, rate in ends[half] if name == "c")
    assert sorted(ends[LOOKS]) == [("b", 3.0)] * 3 + [("shuffle", 1.0)] * 3
    spent = sum(len(curve.looks) - 1 for curve in found.curves) / LOOKS
    assert spent == pytest.approx(total_steps(5, 3, 3), rel=0.1)
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert calls[-1][0] <= calls[-1][1]


def test_noise_makes_the_interval_wider_and_never_the_middle_a_verdict():
    def noisy(*given):
        return Planned(*given, noise=0.5)

    quiet, loud = raced(), raced(noisy)
    assert len(quiet.pairs) == 3
    assert 3 <= len(loud.pairs) <= 9
    assert (len(loud.pairs) == 9) or loud.verdict.pays is not None
    assert loud.verdict.high / loud.verdict.low > quiet.verdict.high / quiet.verdict.low


def test_a_spent_budget_ends_it_without_a_decision_it_has_no_seeds_for():
    class Slow(Planned):
        def advance(self, steps):
            time.sleep(0.01)
            super().advance(steps)

    began = time.perf_counter()
    found = raced(Slow, budget=0.3)
    assert time.perf_counter() - began < 5.0
    assert found.verdict.pays is None
    assert "larger budget" in str(found.verdict)
    assert found.curves


def test_more_seeds_while_it_is_too_close_and_no_more():
    class Level(Planned):
        def advance(
            self, steps
        ):  # as fast, and each step at nine tenths of the time: the threshold
            super().advance(steps)
            self.seconds[-1] = 0.9 if self.contender != "shuffle" else self.rng.lognormal(0, 0.01)

        def __init__(self, contender, *given):
            super().__init__(Contender("shuffle"), *given)
            self.contender = contender.sampler

    found = raced(Level)
    assert (found.verdict.pays is None) == (len(found.pairs) == 9)
    assert len(found.pairs) >= 3


def test_who_ends_higher_does_not_pay_however_fast_it_is():
    pairs = [Pair(k, 0.5, 1.0, 1.0, 0.5 + 0.01 * k, 1.1 + 0.01 * k, 1.0, 0.0, 0.0)
             for k in range(4)]  # fmt: skip
    vetoed = judged(pairs, "")
    assert vetoed.pays is False
    assert "ends at a higher loss" in str(vetoed)
    assert decide([pair.time_ratio for pair in pairs]).pays is True


def path(pace, steps=40):
    return [Look(step, 1.0 / (1.0 + pace * step)) for step in range(0, 10 * steps, 10)]


def test_speed_is_symmetric_and_needs_no_goal_that_is_never_reached():
    for mine, other in ((0.01, 0.03), (0.03, 0.01), (0.02, 0.02)):
        ratio = speed(path(mine), path(other))
        assert ratio == pytest.approx(other / mine, rel=0.15)
        assert speed(path(other), path(mine)) == pytest.approx(1 / ratio)


def test_one_noisy_look_decides_nothing_and_a_rise_does_not_count():
    even, lucky = path(0.02), path(0.02)
    lucky[-1] = Look(lucky[-1].step, lucky[-1].loss / 2)  # the last look of a run that is no faster
    assert 0.8 < speed(lucky, even) <= 1.0  # to half of the loss, by the looks alone: 0.5
    rising = path(0.02)
    rising[20:] = [Look(look.step, 2.0) for look in rising[20:]]
    assert (np.diff(smoothed(rising)) <= 0).all()
    assert speed(rising, even) == pytest.approx(1.0)  # as fast until there
    assert not np.isfinite(smoothed([*even, Look(999, math.nan)])).any()
    assert speed([*even[:-1], Look(390, math.nan)], even) == 50.0
