"""The gauge: exact in expectation, and never sure of what it cannot know."""

import math

import numpy as np
import pytest

import budget
from tombola import VRB, Draw, Shuffle, Uniform
from tombola.gauge import Gauge, _deviation, new_tally, record

pytestmark = pytest.mark.kernels


def too_many(runs, chance):
    """The least number of failures that has a probability below ALPHA, by Chernoff's bound."""
    for failures in range(int(runs * chance) + 1, runs + 1):
        q = failures / runs
        rest = (1 - q) * math.log((1 - q) / (1 - chance)) if q < 1 else 0.0
        if runs * (q * math.log(q / chance) + rest) > math.log(1 / budget.ALPHA):
            return failures
    return runs + 1


def exact_moments(losses, probabilities):
    n = len(losses)
    return (losses**2 / probabilities).sum() / n**2, (losses**2).mean()


def test_the_ratio_is_exact_by_enumeration():
    """Feed each item as often as its probability says: the sums are then the expectations."""
    chances = np.array([1, 3, 12, 8]) / 24
    losses = np.array([5.0, 0.0, 1.0, 0.25])
    items = np.repeat(np.arange(4), [1, 3, 12, 8])
    sampler = Uniform(4)
    sampler.update(Draw(items, chances[items], 4), losses[items])
    ours, uniform = exact_moments(losses, chances)
    gauge = sampler.gauge
    assert gauge.second_moment_ratio == pytest.approx(ours / uniform, rel=1e-13)
    assert gauge.count == 24
    assert gauge.entropy == pytest.approx(-(chances * np.log(chances)).sum(), rel=1e-13)
    assert gauge.largest_importance == 6.0
    u = 1 / (4 * chances[items])
    assert gauge.effective_sample_size == pytest.approx(u.sum() ** 2 / (u**2).sum(), rel=1e-13)
    low, high = gauge.interval()
    assert 0 <= low < gauge.second_moment_ratio < high
    # the wrong ratio forgets that the feedback itself was drawn unevenly
    wrong = (losses[items] ** 2 * u).sum() / (losses[items] ** 2).sum()
    assert abs(wrong - ours / uniform) > 0.1


def deviation_by_definition(n, chances, losses, ratio, limit, alpha):
    """Sum and margin of z = l^2 u (u - r), from the z themselves."""
    u = 1 / (n * chances)
    z = (losses / losses.max()) ** 2 * u * (u - ratio)
    guesses = np.concatenate([[0.0], np.cumsum(z)[:-1] / np.arange(1, len(z))])
    spread = ((z - guesses) ** 2).sum()
    width = limit * (limit - ratio) + ratio * ratio / 4  # from -r^2/4 to limit (limit - r)
    margins = [
        (math.log(k * (k + 1) / alpha) + (-math.log(1 - 2**-k) - 2**-k) * spread / width**2) * 2**k
        for k in range(1, 40)
    ]
    return z.sum(), min(margins) * width


FEEDBACK = {
    "few": (10, np.array([0.05, 0.3]), np.array([0.1, 1.0])),
    "many": (3000, np.array([0.1, 0.1, 0.4, 0.4]), np.array([1.0, 1.0, 0.1, 0.2])),
    "worse": (3000, np.array([0.04, 0.32, 0.32, 0.32]), np.array([1.0, 0.1, 0.1, 0.1])),
    "growing": (3000, np.array([0.2, 0.8]), np.array([1.0, 0.3])),
}  # fmt: skip


@pytest.mark.parametrize("name", FEEDBACK)
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_the_interval_is_that_of_the_definition(name, confidence):
    rounds, chances, losses = FEEDBACK[name]
    n = len(chances)
    items = np.random.default_rng(0).choice(n, rounds, p=chances / chances.sum())
    fed = losses[items] * (np.linspace(1, 2, rounds) if name == "growing" else 1.0)
    chances = chances[items]
    tally = new_tally()
    assert record(tally, n, chances, fed) == -1
    limit = float(1 / (n * chances.min()))
    ratios = [limit * 2.0 ** (-k / 32) for k in range(385)]
    alpha = (1 - confidence) / (2 * len(ratios))
    expected = [deviation_by_definition(n, chances, fed, r, limit, alpha) for r in ratios]
    total, margin = _deviation(tally[0], np.array(ratios), limit, alpha)
    assert total == pytest.approx([total for total, _ in expected], rel=1e-9, abs=1e-9)
    assert margin == pytest.approx([margin for _, margin in expected], rel=1e-9)
    low = max((r for r, (s, m) in zip(ratios, expected, strict=True) if s > m), default=0.0)
    high = min((r for r, (s, m) in zip(ratios, expected, strict=True) if -s > m), default=limit)
    assert Gauge(tally, n).interval(confidence) == (0.0, math.inf)  # an unknown range
    assert Gauge(tally, n, limit).interval(confidence) == pytest.approx((low, high), rel=1e-12)
    assert (low > 0 or high < limit) == (name != "few")


def test_the_interval_ends_at_a_4096th_of_the_range():
    tally = new_tally()
    tally["uniform"] = 1e9
    assert Gauge(tally, 5, 3.0).interval() == (0.0, 3.0 / 4096)
    tally["ours"] = 1e12
    assert Gauge(tally, 5, 3.0).interval() == (3.0, 3.0)
    tally["uniform"], alpha = 1e-9, 0.05 / 770
    certain = 2 * math.log(2 / alpha) * 9 / 4  # at the end of the range, without any spread
    for ours, low in ((certain + 0.1, 3.0), (certain - 0.1, 0.0)):
        tally["ours"] = ours
        assert Gauge(tally, 5, 3.0).interval() == (low, 3.0)


def test_a_tally_begins_with_zeros_and_one_loss_is_enough_for_a_ratio():
    assert not any(new_tally()[0])
    sampler = Uniform(4)
    assert sampler.draw(1).round == 0
    sampler.update(Draw([0], [1.0], 4), [3.0])
    assert sampler.gauge.second_moment_ratio == 0.25
    assert sampler.gauge.effective_sample_size == 1.0


def test_importances_beyond_2_to_the_200_are_clipped():
    tally = new_tally()
    assert record(tally, 1, np.array([1e-150]), np.ones(1)) == -1
    assert tally[0].largest_importance == 2.0**200
    assert all(map(math.isfinite, tally[0]))


def test_the_first_bad_loss_is_found_and_nothing_is_recorded():
    tally = new_tally()
    for bad in (-1.0, math.inf, math.nan):
        assert record(tally, 2, np.full(3, 0.5), np.array([0.0, bad, bad])) == 1
        assert not any(tally[0])


def test_before_feedback():
    gauge = VRB(10).gauge
    assert math.isnan(gauge.second_moment_ratio)
    assert math.isnan(gauge.entropy)
    assert gauge.interval() == (0.0, 1.0)  # the draws were uniform
    assert (gauge.count, gauge.effective_sample_size, gauge.largest_importance) == (0, 0.0, 0.0)


def test_losses_of_zero_say_nothing():
    sampler = VRB(10)
    draw = sampler.draw(50)
    sampler.update(draw, np.zeros(50))
    assert sampler.gauge.count == 50
    assert math.isnan(sampler.gauge.second_moment_ratio)
    assert sampler.gauge.interval() == (0.0, 1.0)  # the draws were uniform


@pytest.mark.parametrize("confidence", [0, 1, -0.5, 2, math.nan])
def test_bad_confidence(confidence):
    with pytest.raises(ValueError, match="confidence must be between 0 and 1, got"):
        Uniform(3).gauge.interval(confidence)


def test_uniform_draws_have_ratio_1_in_a_narrow_interval():
    for sampler in (Uniform(50, seed=1), Shuffle(50, seed=1)):
        draw = sampler.draw(100_000)
        sampler.update(draw, 1.0 + draw.indices % 3)
        low, high = sampler.gauge.interval()
        assert sampler.gauge.second_moment_ratio == pytest.approx(1.0, rel=1e-12)
        assert 0.95 < low <= 1.0 <= high < 1.05


def test_summary_and_repr():
    sampler = Uniform(4)
    sampler.quantity = "gradient norm"
    sampler.update(sampler.draw(8), np.ones(8))
    summary = sampler.gauge.summary()
    assert summary["quantity"] == "gradient norm"
    assert summary["mode"] == "adaptive"
    assert (summary["ratio_low"], summary["ratio_high"]) == sampler.gauge.interval()
    assert summary["entropy_of_uniform"] == math.log(4)
    assert "second moment of the gradient norm estimate over uniform's: 1 in [" in repr(
        sampler.gauge
    )
    assert Shuffle(300).gauge.mode == "shuffle"


@pytest.mark.parametrize("unit", [1e200, 1e-200, 2.0**900, 5e-309])
def test_units_do_not_matter(unit):
    losses = np.linspace(0.5, 1.5, 1000)
    draw = Draw(np.arange(1000) % 7, np.linspace(0.01, 0.2, 1000), 7)
    gauges = []
    for factor in (1.0, unit):
        sampler = Uniform(7)
        for part, loss in zip(draw.split(10), np.split(losses * factor, 10), strict=True):
            sampler.update(part, loss)
        gauges.append(sampler.gauge)
    assert gauges[1].second_moment_ratio == pytest.approx(gauges[0].second_moment_ratio, rel=1e-9)
    assert gauges[1].interval() == pytest.approx(gauges[0].interval(), rel=1e-9)


def test_losses_that_grow_from_1e_minus_200_to_1e200():
    sampler = Uniform(3)
    for exponent in range(-200, 201, 10):
        sampler.update(Draw([0, 1], [0.2, 0.4], 3), [10.0**exponent, 2 * 10.0**exponent])
    last = Uniform(3)
    last.update(Draw([0, 1], [0.2, 0.4], 3), [1e200, 2e200])
    ratio = sampler.gauge.second_moment_ratio
    assert ratio == pytest.approx(last.gauge.second_moment_ratio, rel=1e-9)


def covers_at_all_times(rng, losses, chances, times, interval):
    """Whether the interval holds the truth at all these times, once the largest loss was seen."""
    ours, uniform = exact_moments(losses, chances)
    n = len(losses)
    items = rng.choice(n, times[-1], p=chances)
    sums = new_tally()
    start = 0
    for time in times:
        part = items[start:time]
        assert record(sums, n, chances[part], losses[part]) == -1
        start = time
        if losses[items[:time]].max() < losses.max():
            continue
        low, high = interval(sums, items[:time])
        if not low <= ours / uniform <= high:
            return False
    return True


def test_the_interval_holds_at_all_times():
    """At 80%, over 300 runs; the wrong interval pretends that the range is that of the average."""
    chances = np.array([0.02] * 5 + [0.18] * 5)
    losses = np.array([1.0, 0.5, 0.1, 0.1, 0.1, 1.0, 0.5, 0.1, 0.1, 0.1])
    limit = float(1 / (10 * chances.min()))
    times = [2**k for k in range(2, 12)]

    def failures(interval):
        rng = np.random.default_rng(3)
        return sum(
            not covers_at_all_times(rng, losses, chances, times, interval) for _ in range(300)
        )

    def wrong(sums, items):
        u = 1 / (10 * chances[items])
        uniform = losses[items] ** 2 * u
        ratio = (uniform * u).sum() / uniform.sum()
        deviation = np.sqrt(((uniform * u - ratio * uniform) ** 2).sum()) / uniform.sum()
        return ratio - 1.2816 * deviation, ratio + 1.2816 * deviation  # the central limit's 80%

    bound = too_many(300, 0.2)
    assert failures(lambda sums, items: Gauge(sums, 10, limit).interval(0.8)) < bound
    assert failures(wrong) >= bound


def test_the_interval_holds_for_a_sampler_that_adapts():
    """Every distribution depends on the past; the truth is the ratio of the average moments."""
    losses = np.array([1.0, 0.6, 0.3, 0.2, 0.1, 0.1, 0.05, 0.05])
    failures = 0
    for seed in range(100):
        sampler = VRB(8, bound=1.0, mixing=0.2, seed=seed)
        totals = np.zeros(2)
        failed = False
        for _ in range(60):
            draw = sampler.draw(8)
            totals += exact_moments(losses, sampler.probabilities())
            sampler.update(draw, losses[draw.indices])
            low, high = sampler.gauge.interval(0.8)
            seen = sampler.tally[0].largest_loss == 1.0
            failed = failed or (seen and not low <= totals[0] / totals[1] <= high)
        failures += failed
    assert failures < too_many(100, 0.2)


def test_starved_items_are_not_called_harmless():
    """50 items in 10^5 hold nearly all of the second moment and are drawn with mixing alone.

    The first loss is a 1, as all were at first; now all others have fallen to 0.01. The true
    ratio is 8.5, and in most windows of 5000 draws nothing is to be seen of it.
    """
    n, starved, mixing = 100_000, 50, 0.1
    chances = np.full(n, mixing / n)
    chances[starved:] += (1 - mixing) / (n - starved)
    losses = np.full(n, 0.01)
    losses[:starved] = 1.0
    ours, uniform = exact_moments(losses, chances)
    assert ours / uniform == pytest.approx(8.5, rel=0.01)

    edges = np.cumsum(chances)[:-1]
    rng = np.random.default_rng(4)
    harmless, wrongly_harmless, wrongly_covered = 0, 0, 0
    for _ in range(100):
        items = np.searchsorted(edges, rng.random(5000), side="right")
        sums = new_tally()
        record(sums, n, chances[[n - 1]], np.ones(1))
        record(sums, n, chances[items], losses[items])
        low, high = Gauge(sums, n, 1 / mixing).interval()
        assert low <= ours / uniform <= high
        harmless += high < 2

        u = 1 / (n * chances[items])
        seconds = losses[items] ** 2 * u
        ratio = (seconds * u).sum() / seconds.sum()
        deviation = np.sqrt(((seconds * u - ratio * seconds) ** 2).sum()) / seconds.sum()
        wrongly_harmless += ratio + 1.96 * deviation < 2
        wrongly_covered += abs(ratio - ours / uniform) <= 1.96 * deviation
    assert harmless == 0
    assert wrongly_harmless > 60
    assert 100 - wrongly_covered >= too_many(100, 0.05)


def test_the_range_covers_adaptive_draws_of_the_past():
    """A sampler that has gone back to shuffling still has uneven draws in its gauge."""
    sampler = VRB(64, seed=2)
    skewed = np.full(64, 0.05)
    skewed[:3] = 1.0
    possible = 1.0
    modes = []
    for losses in (skewed, np.ones(64)):
        for _ in range(120):
            draw = sampler.draw(64)
            possible = max(possible, float(1 / (64 * sampler.probabilities().min())))
            sampler.update(draw, losses[draw.indices])
            modes.append(sampler.mode)
    assert "adaptive" in modes
    assert sampler.mode == "shuffle"
    assert possible > 1.5
    assert sampler._largest_importance() >= possible * (1 - 1e-9)
