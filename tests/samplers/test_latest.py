"""`Latest`: half in shuffled order, half by the latest losses."""

import numpy as np
import pytest

import tombola
from tombola import Latest
from tombola.checkpoint import CheckpointError


def test_without_losses_it_shuffles():
    sampler = Latest(10, seed=1)
    assert sorted(sampler.draw(10).indices.tolist()) == list(range(10))
    np.testing.assert_array_equal(sampler.probabilities(), np.full(10, 0.1))


def test_half_of_a_plan_is_by_the_latest_losses():
    losses = np.array([0.0, 1.0, 3.0, 0.0, 4.0] * 40)
    sampler = Latest(200, seed=2)
    sampler.update_all(losses)
    draw = sampler.draw(100)  # one plan
    expected = losses / losses.sum() / 2 + 1 / 400
    np.testing.assert_allclose(sampler.probabilities(), expected)
    np.testing.assert_allclose(draw.probabilities, expected[draw.indices])
    counts = np.bincount(draw.indices % 5, minlength=5)
    # 50 by losses: 0, 6.25, 18.75, 0, 25 of each kind, rounded; 50 of a shuffled epoch
    np.testing.assert_allclose(counts, [10, 16, 29, 10, 35], atol=8)
    sampler.update(draw, np.zeros(100))
    sampler.draw(1)
    assert (sampler.probabilities()[draw.indices] <= 1 / 400 + 1e-12).all()


def test_long_run_frequencies_are_the_probabilities():
    losses = np.random.default_rng(0).exponential(size=50)
    sampler = Latest(50, seed=3)
    sampler.update_all(losses)
    draws = 50_000
    counts = np.bincount(sampler.draw(draws).indices, minlength=50) / draws
    # systematic: each plan of 25 is within one draw of its expectation
    np.testing.assert_allclose(counts, sampler.probabilities(), atol=5e-3)
    wrong = losses / losses.sum()
    assert np.abs(counts - wrong).max() > 1e-2


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("plan", "items"), np.full(15, 30)),
        (("plan", "turn", "place"), 16),
        (("plan", "turn", "place"), -1),
        (("scores",), np.full(30, -1.0)),
        (("scores",), np.full(30, np.nan)),
        (("plan", "scores"), np.full(30, np.inf)),
    ],
)
def test_a_damaged_state_is_refused(path, value):
    sampler = Latest(30)
    state = sampler.state_dict()
    place = state["parts"]
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(CheckpointError):
        sampler.load_state_dict(state)


@pytest.mark.parametrize(
    ("among", "message"),
    [
        ([], "at least one item"),
        ([0.5], "integers"),
        ([0, 9], r"among\[1\] is 9, not from 0 to 8"),
        ([1, 1], "twice"),
    ],
)
def test_bad_items_are_named(among, message):
    with pytest.raises(ValueError, match=message):
        Latest(9, among=among)


def test_bad_losses_are_named():
    with pytest.raises(ValueError, match=r"losses\[1\] is -1.0"):
        Latest(2).update_all([0.0, -1.0])
    with pytest.raises(ValueError, match=r"losses must have shape \(2,\), one for each item"):
        Latest(2).update_all([0.0])
    for wrong in ("abc", [None, 1.0]):
        with pytest.raises(TypeError, match="losses must hold numbers"):
            Latest(2).update_all(wrong)


@pytest.mark.parametrize("given", [{}, {"plan": 4}, {"among": [1, 3, 4]}])
def test_solvers_that_pass_all_losses_get_the_draws_of_the_sampler(given):
    by_sampler, by_state = Latest(6, seed=4, **given), Latest(6, seed=4, **given)
    losses = np.array([0.0, 2.0, 1e300, 0.5, 7.0, 1.0])
    for sampler in (by_sampler, by_state):
        sampler.draw(2)  # some of a plan, which is dropped
    by_sampler.update_all(losses)
    by_state.state.update_all(losses)
    np.testing.assert_array_equal(by_state.probabilities(), by_sampler.probabilities())
    np.testing.assert_array_equal(by_state.draw(12).indices, by_sampler.draw(12).indices)


@pytest.mark.parametrize("given", [{}, {"plan": 4}, {"among": [1, 3, 4]}])
def test_a_file_restores_it_by_name(given, tmp_path):
    sampler = Latest(6, seed=4, **given)
    sampler.update_all(np.arange(6.0))
    sampler.draw(3)
    tombola.save(sampler, tmp_path / "sampler")
    copy = tombola.load(tmp_path / "sampler")
    assert copy.draw(20) == sampler.draw(20)


def test_a_file_cannot_ask_for_a_longer_plan_than_it_holds(tmp_path):
    state = Latest(6, plan=4).state_dict()
    state["parameters"]["plan"] = 10**14
    tombola.checkpoint.write(tmp_path / "sampler", state)
    with pytest.raises(CheckpointError, match="no array of 100000000000000 entries"):
        tombola.load(tmp_path / "sampler")
