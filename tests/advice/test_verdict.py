"""The verdict, on both sides of its thresholds."""

import math

import pytest

from tombola.advice import Method, Model, decide
from tombola.advice.verdict import (
    ALIKE,
    CLOSE,
    FASTER,
    LEAST,
    NEAR,
    PAYS,
    choose,
    is_close,
    is_settled,
)


def model(name, library, seconds, *, left=0.0, score=0.9, converged=True, family="log loss"):
    return Model(name, f"{name}()", library, family, 10, seconds, 3, 0.5, left, score, converged,
                 left <= 1e-3)  # fmt: skip


def raced(lbfgs, newton, ours, **others):
    return [
        model("lbfgs", "scikit-learn", lbfgs),
        model("newton", "scikit-learn", newton),
        model("ours", "tombola", ours, **others),
    ]


def method(label, kind, times, draws=None, cost=1.0, solver="AdaGrad"):
    draws = times if draws is None else draws
    return Method(label, solver, kind, 0.3, cost, list(draws), list(draws), list(times),
                  [1.0] * len(times))  # fmt: skip


def drawn(vrb=(1.0, 1.0, 1.0), default=(0.5, 0.5, 0.5), plain=(0.5, 0.5, 0.5), **others):
    return [
        method("shuffle", "baseline", [1.0] * 3),
        method("VRB", "adaptive", vrb, **others),
        method("default", "default", default, solver="SDCA, by latest residuals"),
        method("plain SDCA", "plain", plain, solver="SDCA, shuffled"),
    ]


@pytest.mark.parametrize(
    ("times", "chosen"),
    [
        ((1.0, 1.0, 1.0), "lbfgs"),
        ((1.0, 0.7, 0.7), "lbfgs"),  # a tie: what users have
        ((FASTER + 0.01, 9.0, 1.0), "ours"),
        ((FASTER - 0.01, 9.0, 1.0), "lbfgs"),
        ((9.0, 1.0, 0.7), "newton"),
        ((9.0, 1.0, 0.6), "ours"),
        ((0.9 * LEAST, 9.0, 0.001), "lbfgs"),  # ninety times as long, and yet nothing to save
        ((LEAST + 0.0011, 9.0, 0.001), "ours"),
    ],
)
def test_scikit_learn_is_advised_unless_another_is_clearly_faster(times, chosen):
    verdict = decide(raced(*times), [], 0.1)
    assert verdict.method == chosen
    assert verdict.use == ("tombola" if chosen == "ours" else "scikit-learn")
    assert verdict.headline.endswith(f" {chosen}().")
    assert verdict.pays is None
    short = any("race of less than a tenth" in reason for reason in verdict.reasons)
    assert short == (min(t for t in times if t == dict(zip(
        ("lbfgs", "newton", "ours"), times, strict=True))[chosen]) < LEAST)  # fmt: skip


def test_seconds_count_for_all_rows():
    times = (0.06, 9.0, 0.01)
    assert choose(raced(*times)).name == "lbfgs"
    assert choose(raced(*times), share=10.0).name == "ours"


def test_who_has_not_arrived_is_not_advised_but_mentioned():
    models = raced(1.0, 1.0, 0.1, left=0.0011)
    verdict = decide(models, [], 0.1)
    assert verdict.method == "lbfgs"
    assert any("short of the lowest objective" in reason for reason in verdict.reasons)
    assert decide(raced(1.0, 1.0, 0.1, left=0.0009), [], 0.1).method == "ours"


def test_nothing_is_advised_where_no_model_ended_by_itself():
    models = [model("lbfgs", "scikit-learn", 1.0, converged=False),
              model("ours", "tombola", 1.0, left=0.5)]  # fmt: skip
    verdict = decide(models, [], 0.1)
    assert (verdict.use, verdict.method) == ("undecided", None)
    assert verdict.headline.startswith("Undecided")


@pytest.mark.parametrize(("lead", "chosen"), [(NEAR - 1e-6, "softmax"), (NEAR + 1e-6, "each")])
def test_families_of_objectives_are_compared_by_their_scores(lead, chosen):
    models = [
        model("softmax", "scikit-learn", 1.0, family="softmax", score=0.9),
        model("each", "tombola", 0.9, family="one-vs-rest", score=0.9 + lead),
    ]
    assert choose(models).name == chosen


def test_close_times_are_not_settled():
    close, clear = raced(FASTER, 9.0, 1.0), raced(5.0, 90.0, 1.0)
    assert [is_settled(m, close) for m in close] == [False, True, False]
    assert all(is_settled(m, clear) for m in clear)
    assert all(is_settled(m, tie) for tie in [raced(1.0, 1.0, 1.0)] for m in tie)


@pytest.mark.parametrize(
    ("vrb", "default", "plain", "pays"),
    [
        ((0.1, 0.999 / PAYS, 0.99), (0.5,) * 3, (0.5,) * 3, True),
        ((0.1, 0.999 / PAYS, 1.01), (0.5,) * 3, (0.5,) * 3, False),  # not in enough seeds
        ((0.1, 0.1, 0.999 / PAYS, 0.99, 1.01), (0.5,) * 5, (0.5,) * 5, True),
        ((0.1, 0.1, 0.999 / PAYS, 1.01, 1.01), (0.5,) * 5, (0.5,) * 5, False),
        ((0.1, 1.001 / PAYS, 0.99), (0.5,) * 3, (0.5,) * 3, False),
        ((1.0, 1.0, 1.0), (0.3,) * 3, (0.4,) * 3, True),
        ((1.0, 1.0, 1.0), (0.35,) * 3, (0.4,) * 3, False),
        ((1.0, 1.0, 1.0), (math.inf,) * 3, (0.4,) * 3, False),
        ((1.0, 1.0, 1.0), (0.4,) * 3, (math.inf,) * 3, True),
        ((math.inf,) * 3, (0.4,) * 3, (0.4,) * 3, False),
    ],
)
def test_draws_pay_beyond_the_margin_in_the_median_and_in_most_seeds(vrb, default, plain, pays):
    verdict = decide(raced(1.0, 1.0, 1.0), drawn(vrb, default, plain), 0.1)
    assert verdict.pays is pays
    assert any("adaptive draws pay" in reason for reason in verdict.reasons) == pays


@pytest.mark.parametrize(
    ("ratios", "close"),
    [
        ((0.9 / PAYS / CLOSE,) * 5, False),
        ((1.1 * CLOSE / PAYS,) * 5, False),
        ((1.1 / PAYS / CLOSE,) * 5, True),
        ((0.9 * CLOSE / PAYS,) * 5, True),
        ((0.1, 0.1, 0.1, 1.1 / CLOSE, 9.0), True),  # the seed that decides
        ((0.1, 0.1, 0.1, 0.9 / CLOSE, 9.0), False),
        ((math.inf,) * 5, False),
    ],
)
def test_close_is_what_an_error_of_the_clock_could_turn(ratios, close):
    assert is_close(ratios) == close


def test_fewer_draws_that_cost_more_are_told_apart():
    verdict = decide([], drawn((1.1,) * 3, draws=(0.2,) * 3, cost=5.5), 0.1)
    assert any(
        "1.10 times as long" in reason and "0.20 times as many draws, each of which takes 5.5"
        in reason for reason in verdict.reasons
    )  # fmt: skip


@pytest.mark.parametrize(("ideal", "said"), [(ALIKE + 1e-9, True), (ALIKE, False)])
def test_the_reason_follows_what_was_possible(ideal, said):
    reasons = decide([], drawn(), ideal).reasons
    assert any("little to gain" in reason for reason in reasons) == said


def test_where_training_fails_nothing_is_said_about_draws():
    methods = [method("shuffle", "baseline", [math.inf] * 3), method("VRB", "adaptive", [1.0] * 3)]
    verdict = decide(raced(1.0, 1.0, 1.0), methods, 0.1)
    assert verdict.pays is None
    assert any("nothing can be said" in reason for reason in verdict.reasons)
