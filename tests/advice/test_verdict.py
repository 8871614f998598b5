"""The verdict: a function of an interval and a threshold, with known coverage; which model."""

import math

import numpy as np
import pytest
from scipy import stats

from tombola.advice import Model, Verdict, decide
from tombola.advice.fits import ERROR, FASTER, LEAST, NEAR, choose
from tombola.advice.verdict import judge


@pytest.mark.parametrize(
    ("low", "high", "pays"),
    [
        (0.2, 0.9, True),
        (0.2, 0.9 + 1e-9, None),
        (0.9, 1.2, None),
        (0.9 + 1e-9, 1.2, False),
        (1.0, 1.0, False),
        (0.0, math.inf, None),
        (0.61, 1.15, None),  # 0.80 in the middle, and yet
        (math.nan, math.nan, None),
    ],
)
def test_the_verdict_follows_from_the_interval(low, high, pays):
    assert judge((low, high), 0.9) is pays


def test_the_interval_is_that_of_students_t_on_logarithms():
    ratios = [0.5, 0.7, 0.65, 0.6]
    found = decide(ratios)
    logs = np.log(ratios)
    low, high = stats.t.interval(0.9, 3, logs.mean(), stats.sem(logs))
    assert (found.ratio, found.low, found.high) == pytest.approx(
        (math.exp(logs.mean()), math.exp(low), math.exp(high))
    )
    assert found.pays is judge((found.low, found.high), found.threshold, found.limit) is True
    assert f"{found.low:.2f}, {found.high:.2f}" in str(found)
    assert "less than 0.9 pays" in str(found)


def test_one_ratio_or_none_decides_nothing():
    for ratios in ([], [0.1], [math.nan, 0.1], [0.1, math.inf]):
        found = decide(ratios, settle="another seed")
        assert found.pays is None
        assert str(found).endswith("another seed")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ratios": [0.5, -1.0]}, r"ratios\[1\] is -1"),
        ({"ratios": [0.5], "threshold": -1}, "threshold"),
        ({"ratios": [0.5], "level": 2}, "level must be between 0 and 1, got 2"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        decide(**arguments)


def test_what_may_pay_over_more_steps_is_too_close_to_call():
    assert decide([0.95, 0.94, 0.96]).pays is None
    assert decide([1.05, 1.04, 1.06]).pays is False
    assert "more than 1 does not" in str(decide([1.05, 1.04, 1.06]))


def test_a_wrong_verdict_is_rare_and_a_rule_without_an_interval_is_not():
    """At threshold and limit, 5% are called that way; by the mean alone, half are."""
    rng = np.random.default_rng(0)
    noise = np.exp(rng.normal(scale=0.2, size=(2000, 4)))
    for at, way in ((0.9, True), (1.0, False)):
        wrong = sum(decide(at * row).pays is way for row in noise)
        assert 60 < wrong < 140  # 5% of 2,000, and four standard deviations
    ratios = 0.9 * noise
    assert 900 < sum(np.log(row).mean() < math.log(0.9) for row in ratios) < 1100


def model(name, library, seconds, *, left=0.0, score=0.9, converged=True, family="log loss"):
    return Model(name, f"{name}()", library, family, 100, 10, seconds, 0.5, left, score, converged,
                 left <= 1e-3)  # fmt: skip


def raced(lbfgs, newton, ours, **others):
    return [
        model("lbfgs", "scikit-learn", lbfgs),
        model("newton", "scikit-learn", newton),
        model("ours", "tombola", ours, **others),
    ]


CLEAR = FASTER / ERROR  # a ratio that an error of the clock does not turn


@pytest.mark.parametrize(
    ("times", "chosen"),
    [
        ((1.0, 1.0, 1.0), "lbfgs"),
        ((1.0, 0.7, 0.7), "lbfgs"),  # a tie: what users have
        ((1.0, 9.0, 0.99 * CLEAR), "ours"),
        ((1.0, 9.0, 1.01 * CLEAR), "lbfgs"),
        ((9.0, 1.0, 0.7), "newton"),
        ((9.0, 1.0, 0.5), "ours"),
        ((0.9 * LEAST, 9.0, 0.001), "lbfgs"),  # ninety times as long, and yet nothing to save
        ((LEAST + 0.0011, 9.0, 0.001), "ours"),
    ],
)
def test_scikit_learn_is_advised_unless_another_is_clearly_faster(times, chosen):
    models = raced(*times)
    found = choose(models)
    assert found.name == chosen
    for each in models:
        assert each.versus.ratio == pytest.approx(each.seconds / found.seconds)
        assert each.versus.pays is judge((each.versus.low, each.versus.high), FASTER)


def test_seconds_count_for_all_rows():
    times = (0.06, 9.0, 0.01)
    assert choose(raced(*times)).name == "lbfgs"
    assert choose(raced(*times), share=10.0).name == "ours"


def test_who_has_not_arrived_is_not_advised():
    assert choose(raced(1.0, 1.0, 0.1, left=0.0011)).name == "lbfgs"
    assert choose(raced(1.0, 1.0, 0.1, left=0.0009)).name == "ours"
    assert choose([model("lbfgs", "scikit-learn", 1.0, converged=False),
                   model("ours", "tombola", 1.0, left=0.5)]) is None  # fmt: skip


@pytest.mark.parametrize(("lead", "chosen"), [(NEAR - 1e-6, "softmax"), (NEAR + 1e-6, "each")])
def test_families_of_objectives_are_compared_by_their_scores(lead, chosen):
    models = [
        model("softmax", "scikit-learn", 1.0, family="softmax", score=0.9),
        model("each", "tombola", 0.9, family="one-vs-rest", score=0.9 + lead),
    ]
    assert choose(models).name == chosen


def test_a_verdict_says_its_threshold():
    assert str(Verdict(None, 0.8, 0.61, 1.15, settle="more seeds")) == (
        "too close to call: 0.80 [0.61, 1.15] times as long, where less than 0.9 pays and more "
        "than 1 does not; more seeds"
    )
