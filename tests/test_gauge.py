"""The gauge: exact in expectation, and never sure of what it cannot know."""

import math

import numpy as np
import pytest

import budget
from tombola import VRB, Draw, Shuffle, Uniform
from tombola.gauge import Gauge, new_tally, record

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


def sums_by_definition(n, chances, losses, ratio):
    """The sums of z = l^2 u (u - r) and of z^2, this one rounded up, from the z themselves."""
    u = 1 / (n * chances)
    z = (losses / losses.max()) ** 2 * u * (u - ratio)
    guesses = np.concatenate([[0.0], np.cumsum(z)[:-1] / np.arange(1, len(z))])
    squares = ((z - guesses) ** 2).sum() + z.sum() ** 2 / len(z)
    assert squares >= (z**2).sum() * (1 - 1e-9)
    return z.sum(), squares


def factor_by_definition(count, n, confidence):
    """Theorem 2.2 of Waudby-Smith et al., with a rho for which it is nearly smallest at n."""
    alpha = 1 - confidence
    rho = math.sqrt((-2 * math.log(alpha) + math.log(1 - 2 * math.log(alpha))) / n)
    x = count * rho**2
    of_the_mean = 2 * (x + 1) / (count**2 * rho**2) * math.log(math.sqrt(x + 1) / alpha)
    return math.sqrt(count * of_the_mean)


def wealth_by_definition(n, chances, losses, ratio, limit):
    """The wealth of all bets against a ratio."""
    total, squares = sums_by_definition(n, chances, losses, ratio)
    width = limit * (limit - ratio)
    wealth = 0.0
    for k in range(60):
        bet = 2 ** (-k / 2)
        s = bet * width
        if s < 1:
            psi = -math.log(1 - s) - s
            start = 8 / ((k + 8) * (k + 9))
            wealth += start * math.exp(-bet * total - psi * squares / width**2)
    return wealth


def worst_by_definition(n, chances, losses, limit, confidence):
    """The first ratio of the grid that bets against it and those below exclude."""
    u = 1 / (n * chances)
    seen = (losses**2 * u**2).sum() / (losses**2 * u).sum()
    prior = {k: 1 / (1 + (k / 64) ** 2) for k in range(-12 * 64, 12 * 64 + 1)}
    wealth = 0.0
    for k, share in prior.items():
        ratio = 2 ** (k / 64)
        if seen < ratio < limit:
            share /= sum(prior.values())
            wealth += share * wealth_by_definition(n, chances, losses, ratio, limit)
            if wealth >= 1 / (1 - confidence):
                return ratio
    return limit


FEEDBACK = {
    "few": (10, np.array([0.05, 0.3]), np.array([0.1, 1.0])),
    "many": (3000, np.array([0.1, 0.1, 0.4, 0.4]), np.array([1.0, 1.0, 0.1, 0.2])),
    "worse": (3000, np.array([0.04, 0.32, 0.32, 0.32]), np.array([1.0, 0.1, 0.1, 0.1])),
    "growing": (3000, np.array([0.2, 0.8]), np.array([1.0, 0.3])),
}  # fmt: skip


@pytest.mark.parametrize("name", FEEDBACK)
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_both_bounds_are_those_of_the_definition(name, confidence):
    rounds, chances, losses = FEEDBACK[name]
    n = len(chances)
    items = np.random.default_rng(0).choice(n, rounds, p=chances / chances.sum())
    fed = losses[items] * (np.linspace(1, 2, rounds) if name == "growing" else 1.0)
    chances = chances[items]
    tally = new_tally()
    assert record(tally, n, chances, fed) == -1
    limit = float(1 / (n * chances.min()))
    gauge = Gauge(tally, n, limit)

    low, high = gauge.interval(confidence)
    factor = factor_by_definition(rounds, n, confidence)
    for end, outwards in ((low, 1 - 1e-6), (high, 1 + 1e-6)):
        for ratio, inside in ((end / outwards, True), (end * outwards, False)):
            total, squares = sums_by_definition(n, chances, fed, ratio)
            if (low, high) != (0.0, limit):
                assert (abs(total) <= factor * math.sqrt(squares)) == inside
    assert ((low, high) == (0.0, limit)) == (name == "few" and confidence > 0.5)

    worst = gauge.worst(confidence)
    assert worst == pytest.approx(worst_by_definition(n, chances, fed, limit, confidence))
    assert gauge.second_moment_ratio < worst
    assert (worst < limit) == (name != "few")
    assert Gauge(tally, n).worst(confidence) == math.inf  # an unknown range


@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_the_largest_ratio_where_squares_add_up_to_little(confidence):
    """One large loss, then many small ones: the squares of z sum to less than 1."""
    chances, losses = np.full(2000, 0.125), np.full(2000, 0.1)
    chances[:2], losses[0] = (1.0, 0.03125), 1.0
    tally = new_tally()
    assert record(tally, 16, chances, losses) == -1
    worst = Gauge(tally, 16, 2.0).worst(confidence)
    assert worst == pytest.approx(worst_by_definition(16, chances, losses, 2.0, confidence))
    assert sums_by_definition(16, chances, losses, worst)[1] < 0.2
    assert worst < 1.9


def test_the_largest_ratio_where_losses_add_up_to_little():
    """The sum that uniform draws would have is below 1; what is excluded is next to the limit."""
    chances, losses = np.full(80, 0.002), np.full(80, 0.15)
    chances[0] = losses[0] = 1.0
    tally = new_tally()
    assert record(tally, 1000, chances, losses) == -1
    assert tally["uniform"] < 1
    limit = 1024.005
    assert Gauge(tally, 1000, limit).worst() == 1024.0
    assert worst_by_definition(1000, chances, losses, limit, 0.95) == 1024.0


def test_the_interval_is_narrowest_after_n_losses():
    """In standard deviations, and for every n alike."""
    for n in (50, 5000):
        factors = {part: factor_by_definition(part * n, n, 0.95) for part in (0.2, 0.5, 1, 2, 5)}
        assert min(factors, key=factors.get) == 1 == round(factors[1] / 3.03)


def test_bounds_end_at_the_range_of_importances():
    tally = new_tally()
    tally["uniform"], tally["ours"], tally["count"] = 1e9, 1e9 / 4096, 10**12
    gauge = Gauge(tally, 5, 3.0)
    assert gauge.worst() == pytest.approx(2 ** (-12 + 1 / 64))  # the grid's next ratio
    tally["ours"] = 1e3  # beyond the grid, which ends there
    assert gauge.worst() == 2.0**-12
    tally["ours"] = 1e9 * 2.99
    assert gauge.interval()[1] <= gauge.worst() <= 3.0
    tally["largest_importance"] = 4.0
    assert gauge.worst() > 3.0
    tally["uniform"] = tally["ours"] = 3.0  # little evidence
    assert gauge.worst() == 4.0


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
    assert gauge.worst() == 1.0
    assert (gauge.count, gauge.effective_sample_size, gauge.largest_importance) == (0, 0.0, 0.0)


def test_losses_of_zero_say_nothing():
    sampler = VRB(10)
    draw = sampler.draw(50)
    sampler.update(draw, np.zeros(50))
    assert sampler.gauge.count == 50
    assert math.isnan(sampler.gauge.second_moment_ratio)
    assert sampler.gauge.interval() == (0.0, 1.0)  # the draws were uniform
    assert sampler.gauge.worst() == 1.0


def test_a_few_losses_of_likely_items_are_enough():
    """Items with half of all draws each: the sums are below 1, and so are the ratio's bounds."""
    tally = new_tally()
    record(tally, 100, np.full(40, 0.5), np.ones(40))
    assert tally[0].uniform < 1
    assert Gauge(tally, 100, 10.0).interval() == pytest.approx((0.02, 0.02))


def test_one_loss_says_nothing_about_the_ratio():
    sampler = Uniform(4)
    sampler.update(Draw([0], [0.1], 4), [3.0])
    assert sampler.gauge.interval() == (0.0, 2.5)
    assert sampler.gauge.worst() == 2.5


@pytest.mark.parametrize("confidence", [0, 1, -0.5, 2, math.nan])
def test_bad_confidence(confidence):
    with pytest.raises(ValueError, match="confidence must be between 0 and 1, got"):
        Uniform(3).gauge.interval(confidence)
    with pytest.raises(ValueError, match="confidence must be between 0 and 1, got"):
        Uniform(3).gauge.worst(confidence)


def test_uniform_draws_have_ratio_1_in_a_narrow_interval():
    for sampler in (Uniform(50, seed=1), Shuffle(50, seed=1)):
        draw = sampler.draw(100_000)
        sampler.update(draw, 1.0 + draw.indices % 3)
        low, high = sampler.gauge.interval()
        assert sampler.gauge.second_moment_ratio == pytest.approx(1.0, rel=1e-12)
        assert (low, high) == pytest.approx((1.0, 1.0), rel=1e-6)
        assert sampler.gauge.worst() == pytest.approx(1.0, rel=1e-12)


def test_before_any_feedback_it_says_so():
    sampler = VRB(10)
    sampler.draw(5)
    assert repr(sampler.gauge) == str(sampler.gauge) == f"Gauge(no feedback yet, {sampler.mode})"
    sampler.update(sampler.draw(1), [1.0])
    assert "no feedback" not in repr(sampler.gauge)


def test_summary_and_repr():
    sampler = Uniform(4)
    sampler.quantity = "gradient norm"
    sampler.update(sampler.draw(8), np.ones(8))
    summary = sampler.gauge.summary()
    assert summary["quantity"] == "gradient norm"
    assert summary["mode"] == "adaptive"
    assert (summary["ratio_low"], summary["ratio_high"]) == sampler.gauge.interval()
    assert summary["ratio_worst"] == sampler.gauge.worst()
    assert summary["entropy_of_uniform"] == math.log(4)
    assert repr(sampler.gauge) == (
        "Gauge(second moment of the gradient norm estimate over uniform's: 1 in [0, 1], "
        "at worst 1, 8 losses, adaptive)"
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
    assert gauges[1].worst() == pytest.approx(gauges[0].worst(), rel=1e-9)


def test_losses_that_grow_from_1e_minus_200_to_1e200():
    sampler = Uniform(3)
    for exponent in range(-200, 201, 10):
        sampler.update(Draw([0, 1], [0.2, 0.4], 3), [10.0**exponent, 2 * 10.0**exponent])
    last = Uniform(3)
    last.update(Draw([0, 1], [0.2, 0.4], 3), [1e200, 2e200])
    ratio = sampler.gauge.second_moment_ratio
    assert ratio == pytest.approx(last.gauge.second_moment_ratio, rel=1e-9)


def central_limit(gauge):
    """The wrong interval: that of the central limit theorem, at 80%, as if read only once."""
    sums, ratio = gauge.tally[0], gauge.second_moment_ratio
    spread = sums.ours_spread - 2 * ratio * sums.cross_spread + ratio**2 * sums.uniform_spread
    half = 1.2816 * math.sqrt(max(0.0, spread)) / sums.uniform
    return ratio - half, ratio + half


BOUNDS = {
    "interval": lambda gauge: gauge.interval(0.8),
    "worst": lambda gauge: (0.0, gauge.worst(0.8)),
    "wrong": central_limit,
    "wrong at worst": lambda gauge: (0.0, central_limit(gauge)[1]),
}


def failures_at_some_time(runs):
    """How many runs have a time at which each bound excludes the truth.

    A run yields pairs of a truth and a gauge whose sampler has seen the largest loss.
    """
    failures = dict.fromkeys(BOUNDS, 0)
    for run in runs:
        failed = dict.fromkeys(BOUNDS, False)
        for truth, gauge in run:
            for name, bound in BOUNDS.items():
                low, high = bound(gauge)
                failed[name] |= not low <= truth <= high
        for name in BOUNDS:
            failures[name] += failed[name]
    return failures


SPREAD = {
    "light": np.array([1.0, 0.9, 0.8, 0.7, 0.6, 1.0, 0.9, 0.8, 0.7, 0.6]),
    "heavy": np.array([1.0, 0.5, 0.1, 0.1, 0.1, 1.0, 0.5, 0.1, 0.1, 0.1]),
}


@pytest.mark.parametrize("name", SPREAD)
def test_bounds_hold_at_all_times(name):
    """At 80%, over 300 runs; those that hold at one time only are rejected."""
    losses, chances = SPREAD[name], np.array([0.02] * 5 + [0.18] * 5)
    ours, uniform = exact_moments(losses, chances)
    times = [2**k for k in range(4, 12)]
    rng = np.random.default_rng(3)

    def run():
        tally = new_tally()
        for part in np.split(rng.choice(10, times[-1], p=chances), times[:-1]):
            assert record(tally, 10, chances[part], losses[part]) == -1
            if tally["largest_loss"] == 1.0:
                yield ours / uniform, Gauge(tally, 10, 5.0)

    failures = failures_at_some_time(run() for _ in range(300))
    bound = too_many(300, 0.2)
    assert failures["interval"] < bound
    assert failures["worst"] < bound
    assert failures["wrong"] >= bound
    assert failures["wrong at worst"] >= bound


def test_bounds_hold_for_a_sampler_that_adapts():
    """Every distribution depends on the past; the truth is the ratio of the average moments."""
    losses = np.array([1.0, 0.6, 0.3, 0.2, 0.1, 0.1, 0.05, 0.05])

    def run(seed):
        sampler = VRB(8, bound=1.0, mixing=0.2, seed=seed)
        totals = np.zeros(2)
        for played in range(60):
            draw = sampler.draw(8)
            totals += exact_moments(losses, sampler.probabilities())
            sampler.update(draw, losses[draw.indices])
            if sampler.tally[0].largest_loss == 1.0 and played % 4 == 3:
                yield totals[0] / totals[1], sampler.gauge

    failures = failures_at_some_time(map(run, range(100)))
    bound = too_many(100, 0.2)
    assert failures["interval"] < bound
    assert failures["worst"] < bound
    assert failures["wrong"] >= bound


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
        gauge = Gauge(sums, n, 1 / mixing)
        assert ours / uniform <= gauge.worst()
        harmless += gauge.worst() < 2
        low, high = central_limit(gauge)
        wrongly_harmless += high < 2
        wrongly_covered += low <= ours / uniform <= high
    assert harmless == 0
    assert wrongly_harmless > 60
    assert 100 - wrongly_covered >= too_many(100, 0.2)


def test_the_interval_does_not_know_what_was_not_seen():
    """Why only `worst` may call a sampler harmless: here, nothing large was seen at all."""
    n, chances = 1000, np.full(1000, 0.9 / 999)
    chances[0] = 0.1 / 1000
    losses = np.full(n, 1.0)
    losses[0] = 100.0
    ours, uniform = exact_moments(losses, chances)
    items = 1 + np.arange(3000) % 999
    tally = new_tally()
    record(tally, n, chances[items], losses[items])
    gauge = Gauge(tally, n, 10.0)
    assert gauge.interval()[1] < 1.2 < ours / uniform
    seen = new_tally()
    record(seen, n, chances[[1]], np.full(1, 100.0))  # as large as any
    record(seen, n, chances[items], losses[items])
    assert ours / uniform < Gauge(seen, n, 10.0).worst()


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
