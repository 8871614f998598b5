"""The verdict, on both sides of its thresholds."""

import numpy as np
import pytest

from tombola.advice import Method, decide
from tombola.advice.verdict import ALIKE, PAYS


def method(label, kind, sooner, fewer=None, ratio=0.3, overhead=1.5, solver="AdaGrad"):
    fewer = sooner if fewer is None else fewer
    seconds = [1.0 / times if times else np.inf for times in sooner]
    ones = [1.0] * len(sooner)
    known = ratio if kind in ("baseline", "adaptive") else None
    return Method(label, solver, kind, known, overhead, 1.0, seconds, seconds, ones, fewer, sooner)


def verdict(vrb=(1.0, 1.0, 1.0), default=(0.5, 0.5, 0.5), plain=None, ideal=0.1, **others):
    methods = [
        method("shuffle", "baseline", [1.0] * 3),
        method("VRB", "adaptive", list(vrb), **others),
        method("default", "default", list(default), solver="SDCA"),
        method("plain SDCA", "plain", list(default if plain is None else plain), solver="SDCA"),
    ]
    return decide(methods, ideal)


JUST = PAYS + 1e-9


@pytest.mark.parametrize(
    ("vrb", "default", "pays", "use"),
    [
        ((1.01, JUST, 9.0), (0.5, 0.5, 0.5), True, "adaptive"),
        ((1.01, PAYS - 1e-9, 9.0), (0.5, 0.5, 0.5), False, "shuffle"),  # the median is too low
        ((1.00, JUST, 9.0), (0.5, 0.5, 0.5), False, "try"),  # not in every seed
        ((0.00, JUST, 9.0), (0.5, 0.5, 0.5), False, "try"),
        ((0.9, 1.0, 1.2), (1.01, JUST, 2.0), False, "default"),
        ((0.9, 1.0, 1.2), (1.01, PAYS - 1e-9, 2.0), False, "shuffle"),
        ((0.9, 1.0, 1.2), (0.99, JUST, 2.0), False, "try"),
        ((1.1, 1.5, 2.0), (1.1, 1.4, 9.0), True, "adaptive"),  # sooner in the median
        ((1.1, 1.5, 2.0), (1.1, 1.6, 1.7), True, "default"),
        ((1.1, 1.5, 2.0), (0.9, 9.0, 9.0), True, "adaptive"),  # the default is not certain
        ((0.9, 9.0, 9.0), (1.1, 1.5, 2.0), False, "default"),
    ],
)
def test_it_pays_only_if_it_is_sooner_in_every_seed_and_enough_in_the_median(
    vrb, default, pays, use
):
    said = verdict(vrb, default)
    assert (said.pays, said.use) == (pays, use)
    label = {"adaptive": "VRB", "default": "default", "shuffle": "shuffle"}
    if use != "try":
        assert said.method == label[use]
    assert said.headline
    assert said.reasons


def test_fewer_draws_alone_do_not_pay():
    said = verdict((0.9, 0.9, 0.9), fewer=[5.0, 5.0, 5.0], overhead=5.6)
    assert said.use == "shuffle"
    assert "each takes 5.6 times as long" in said.reasons[0]


@pytest.mark.parametrize(
    ("ideal", "words"), [(ALIKE + 1e-9, "little to gain"), (ALIKE, "gains little from that")]
)
def test_the_reason_follows_what_was_possible(ideal, words):
    assert words in verdict(ideal=ideal).reasons[0]


def test_seeds_that_disagree_are_counted():
    assert "VRB was sooner in 2 of 3 seeds" in verdict((0.9, 2.0, 3.0)).headline


def test_what_the_default_owes_to_its_draws_is_said():
    sooner = (2.0, 2.0, 2.0)
    assert "takes 2.00 times as long" in verdict(default=sooner, plain=(1.0, 1.0, 1.0)).reasons[1]
    assert "does not reach the goal" in verdict(default=sooner, plain=(1.0, 0.0, 1.0)).reasons[1]


@pytest.mark.parametrize(
    ("plain", "pays", "label"),
    [
        ((1.5, 1.9, 0.0), True, "default"),
        ((1.5, 1.99 / PAYS, 1.0), True, "default"),
        ((1.5, 1.9, 1.9), False, "default"),  # the median is too low
        ((2.1, 1.0, 1.0), False, "default"),  # not in every seed
        ((2.1, 2.1, 2.1), False, "default"),
        ((2.1, 2.01 * PAYS, 9.0), False, "plain SDCA"),
    ],
)
def test_the_default_pays_if_its_draws_do(plain, pays, label):
    said = verdict(default=(2.0, 2.0, 2.0), plain=plain)
    assert (said.pays, said.method) == (pays, label)
    assert said.use == ("default" if label == "default" else "shuffle")


@pytest.mark.parametrize(
    ("sooner", "words"),
    [
        ((0.0, 0.0, 0.0), "is reached by the default (SDCA) in 0 of 3 seeds."),
        ((0.0, 0.0, 0.5), "is reached by the default (SDCA) in 1 of 3 seeds."),
        ((0.0, 0.5, 0.6), "0.50 [never, 0.60] times as long as the default (SDCA), which reaches "
         "it in 2 of 3 seeds, and"),
        ((0.4, 0.5, 0.6), "0.50 [0.40, 0.60] times as long as the default (SDCA), and"),
    ],
)  # fmt: skip
def test_who_does_not_arrive_is_counted(sooner, words):
    assert words in verdict(default=sooner).reasons[-1]


def test_where_training_fails_nothing_is_said():
    methods = [method("shuffle", "baseline", [0.0] * 3), method("VRB", "adaptive", [0.0] * 3)]
    said = decide(methods, 0.1)
    assert (said.pays, said.use) == (False, "shuffle")
    assert said.headline == "Nothing can be said."
