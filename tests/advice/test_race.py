"""The race: its goal, its rows and its seeds."""

import itertools
import json

import numpy as np
import pytest
from samples import PLENTY, alike, by_label, imbalanced

from tombola.advice import advise, fits, race
from tombola.advice.results import arrival


def test_the_goal_is_on_the_way_that_shuffling_makes_and_shuffling_arrives(even_clock):
    advice = advise(*imbalanced(), task="classification", budget=PLENTY)
    (raced,) = advice.races
    baseline = advice.methods[0]
    assert baseline.label == "shuffle"
    assert baseline.time_ratio == baseline.draws_ratio == [1.0] * advice.seeds
    for k, goal in enumerate(raced.goals):
        curve = np.array(raced.objective["shuffle"][k])
        assert goal == pytest.approx(curve.min() + 0.001 * (curve[0] - curve.min()))
        first = int(np.flatnonzero(curve <= goal)[0])
        assert raced.epochs[first - 1] <= baseline.draws[k] / 480 <= raced.epochs[first]
    for rows in raced.objective.values():
        assert np.shape(rows) == (advice.seeds, len(raced.epochs))


def test_the_same_seed_gives_the_same_race_and_another_one_another(even_clock):
    data = imbalanced()
    first, again, other = (
        advise(*data, task="classification", budget=PLENTY, seed=seed) for seed in (3, 3, 4)
    )
    assert first.races[0].objective == again.races[0].objective
    assert first.possible == again.possible
    assert first.races[0].objective != other.races[0].objective


def test_what_was_given_stays_as_it_is(even_clock):
    X, y = imbalanced()
    kept = X.copy(), y.copy()
    advise(100 * X, y, task="classification", budget=PLENTY)
    np.testing.assert_array_equal(X, kept[0])
    np.testing.assert_array_equal(y, kept[1])


def test_fewer_rows_keep_their_numbers(even_clock):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30_000, 3)), np.arange(30_000) % 2000 == 0
    X[~y] /= 1000
    advice = advise(X, y, task="classification", budget=0.01)
    assert 1000 <= advice.raced < advice.rows == 24_000
    assert any(f"of {advice.raced:,} of the 24,000 rows" in it for it in advice.verdict.reasons)
    assert any("Raced on" in line for line in str(advice).split("\n"))
    assert any("was fitted once" in note for note in advice.notes)
    for item in advice.items:
        assert item.label == str(y[item.row])
    assert "True" in {group.group for group in advice.groups}


@pytest.mark.parametrize(
    ("X", "y", "task"),
    [
        (np.array([[0.0], [1.0]]), [0, 1], "classification"),
        (np.zeros((150, 2)), np.arange(150) % 2, "classification"),
        (np.ones((150, 2)), np.arange(150) % 10 == 0, "classification"),
        (np.array([[1.0], [2.0], [4.0]]), [1.0, 2.0, 3.0], "regression"),
        (np.zeros((150, 2)), np.arange(150.0), "regression"),
        (np.arange(8.0)[:, None], None, "clustering"),
        (np.ones((150, 2)), None, "clustering"),
    ],
)
def test_odd_data_get_advice_too(X, y, task, even_clock):
    advice = advise(X, y, task=task, budget=PLENTY)
    json.dumps(advice.as_dict(), allow_nan=False)
    assert str(advice).startswith(advice.verdict.headline)
    assert bool(advice.code) == (advice.verdict.use != "undecided")
    for possible in advice.possible:
        assert 0 <= possible.ideal <= possible.best_fixed * (1 + 1e-12) <= 1 + 1e-12


def test_progress_counts_up_to_the_end(even_clock):
    calls = []
    advise(
        *alike(), task="classification", budget=PLENTY, progress=lambda *call: calls.append(call)
    )
    assert [done for done, _ in calls] == list(range(1, len(calls) + 1))
    assert calls[-1][0] == calls[-1][1]


def test_the_rows_and_groups_that_matter_come_first(even_clock):
    X, y = alike()
    y = y.copy()
    odd = [17, 200, 411]
    y[odd] = ~y[odd]  # on the wrong side: their losses stay large
    names = np.where(y, "yes", "no")
    advice = advise(
        X, names, task="classification", X_test=X[:80], y_test=names[:80], budget=PLENTY
    )
    assert sorted(item.row for item in advice.items[:3]) == odd
    assert [item.label for item in advice.items] == [names[item.row] for item in advice.items]
    total = sum(group.share_of_draws for group in advice.groups)
    assert total == pytest.approx(1.0)
    assert sum(group.rows for group in advice.groups) == len(X)
    for item in advice.items:
        assert item.times_uniform == pytest.approx(item.probability * len(X))


def test_with_several_classes_the_rarest_and_the_commonest_are_raced(even_clock):
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b", "c", "d"], [100, 300, 20, 80])
    X = rng.normal(size=(500, 4)) + np.repeat(np.eye(4), [100, 300, 20, 80], axis=0)
    advice = advise(X, y, task="classification", budget=PLENTY)
    assert [each.name for each in advice.possible] == [
        "c against the rest (16 of 400 rows)",
        "b against the rest (240 of 400 rows)",
    ]
    assert {group.group for group in advice.groups} == {"a", "b", "c", "d"}
    assert "rarest and the commonest" in str(advice)
    draws = [
        arrival(race.Curve(np.array(each.epochs) * 400, curve, 1.0, 1.0), each.goals[0])
        for each in advice.races
        for curve in [np.array(each.objective["VRB"][0])]
    ]
    assert by_label(advice)["VRB"].draws[0] == pytest.approx(sum(draws))  # they are added up


def test_the_clock_does_not_decide_what_is_raced(monkeypatch):
    """The same races and models on a clock of any pace; only times differ."""
    found = []
    for pace in (1e-6, 1.0):
        ticks = itertools.count()
        for module in (fits, race):
            monkeypatch.setattr(module, "clock", lambda ticks=ticks, pace=pace: pace * next(ticks))
        found.append(advise(*imbalanced(400), task="classification", budget=0.5))
    slow, fast = found
    assert slow.races == fast.races
    assert (slow.seeds, slow.epochs, slow.raced) == (fast.seeds, fast.epochs, fast.raced)
    for a, b in zip(slow.models, fast.models, strict=True):
        assert (a.name, a.objective, a.score, a.passes) == (b.name, b.objective, b.score, b.passes)


def test_goals_are_met_between_evaluations():
    curve = race.Curve(np.array([0.0, 10.0, 20.0]), np.array([4.0, 2.0, 1.0]), 1.0, 1.0)
    assert arrival(curve, 3.0) == 5.0
    assert arrival(curve, 1.5) == 15.0
    assert arrival(curve, 4.0) == 0.0
    assert arrival(curve, 0.5) == np.inf
