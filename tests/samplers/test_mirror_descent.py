"""Mirror descent, against dense steps with a projection by bisection."""

import numpy as np
import pytest

from tombola import Draw, MirrorDescent, Uniform
from tombola.samplers.rivals import mirror_descent

pytestmark = pytest.mark.kernels


def project(q, floor):
    """KL projection onto {p >= floor}: p = max(scale * q, floor), summing to 1."""
    low, high = 0.0, 1.0 / q.sum()
    high *= 2
    for _ in range(200):
        scale = (low + high) / 2
        low, high = (scale, high) if np.maximum(scale * q, floor).sum() < 1 else (low, scale)
    p = np.maximum(high * q, floor)
    return p / p.sum()


def dense_step(p, item, chance, loss, alpha, bound, floor, clip):
    n = len(p)
    c = max(clip * bound / floor**2 - (loss / (n * chance)) ** 2, 0)
    q = p.copy()
    q[item] *= np.exp(-alpha * c / chance)
    return project(q, floor / n)


@pytest.mark.parametrize(
    ("n", "floor", "clip", "step", "bound"),
    [
        (5, 0.1, 0.1, 0.05, 1.0),
        (7, 0.6, 1.0, 0.01, 40.0),
        (2, 0.3, 0.5, 0.2, 1e-30),
        (3, 1, 1, 1, 1),
    ],
)
def test_steps_are_those_of_the_rule(n, floor, clip, step, bound):
    sampler = MirrorDescent(n, bound=bound, floor=floor, clip=clip, step=step, seed=1)
    rng = np.random.default_rng(0)
    p = np.full(n, 1 / n)
    units = np.inf  # in the mass of an item at the floor, at its least so far
    for _ in range(100):
        units = min(units, sampler.state.index.sums[0].total * floor / n)
        np.testing.assert_allclose(sampler.probabilities(), p, rtol=5 / units + 1e-12)
        draw = sampler.draw(3)
        losses = rng.random(3) * np.sqrt(bound)
        sampler.update(draw, losses)
        for item, chance, loss in zip(draw.indices, draw.probabilities, losses, strict=True):
            p = dense_step(p, item, chance, loss, step / bound, bound, floor, clip)


def test_an_estimate_of_the_largest_size_changes_nothing():
    """c is 0, in numbers that are exact."""
    sampler = MirrorDescent(4, bound=1.0, floor=1.0, clip=1.0)
    before = sampler.state_dict()["parts"]
    for loss in (1.0, 1.5):
        sampler.update(Draw([2], [0.25], 4), [loss])
        assert sampler.state.scores.tolist() == before["scores"].tolist()
        assert sampler.state.index.weights.tolist() == before["index"]["weights"].tolist()


def test_masses_are_magnified_below_their_limit_only():
    for mass, scores in ((2.0**-500, [2.0**-501] * 2), (2.0**-501, [2.0**-2] * 2)):
        sampler = MirrorDescent(2, bound=1.0, floor=0.1)
        sampler.state.scores[:] = mass / 2
        sampler.state.rule[0].mass = mass
        sampler.state.sweep[0].scale /= mass
        mirror_descent.shrink(sampler.state, 0, 1.0)
        assert sampler.state.scores.tolist() == scores


def test_the_step_of_a_horizon_and_without_one():
    n, floor, root = 10, 0.5, np.sqrt(2 * np.log(10) / 10)
    planned = MirrorDescent(n, bound=4.0, horizon=900)
    free = MirrorDescent(n, bound=4.0)
    p, q = np.full(n, 1 / n), np.full(n, 1 / n)
    for t in range(1, 31):
        draw = Draw([t % 7], [0.1], n)
        planned.update(draw, [0.3])
        free.update(draw, [0.3])
        p = dense_step(p, t % 7, 0.1, 0.3, floor**2 * root / 30 / 4, 4.0, floor, 0.1)
        fallen = floor**2 * root / np.sqrt(max(n, t)) / 4
        q = dense_step(q, t % 7, 0.1, 0.3, fallen, 4.0, floor, 0.1)
    np.testing.assert_allclose(planned.probabilities(), p, rtol=1e-9)
    np.testing.assert_allclose(free.probabilities(), q, rtol=1e-9)


@pytest.mark.parametrize("n", [2, 3, 1000])
def test_the_mass_and_the_floor_hold_for_long(n):
    """Masses shrink by far more than a float64 has room for."""
    sampler = MirrorDescent(n, bound=1.0, floor=0.4, step=1.0)
    rng = np.random.default_rng(0)
    for _ in range(60):
        draw = sampler.draw(100)
        sampler.update(draw, rng.random(100) ** 20)
        state = sampler.state
        assert state.rule[0].mass == pytest.approx(state.scores.sum(), rel=1e-9)
        assert sampler.probabilities().min() >= 0.4 / n * (1 - 2**-8)
        assert (draw.importances <= sampler._largest_importance()).all()
    if n < 10:
        assert state.sweep[0].scale < 1e100  # without magnify it would be 1e200


def test_magnifying_changes_no_probability():
    sampler = MirrorDescent(4, bound=1.0, step=0.01)
    sampler.update(sampler.draw(20), np.zeros(20))
    before, partial = sampler.probabilities(), sampler.state.scores[:2].sum()
    sampler.state.rule[0].summed, sampler.state.rule[0].mass_of_summed = 2, partial
    mirror_descent.magnify(sampler.state)
    assert (sampler.probabilities() == before).all()
    assert sampler.state.rule[0].mass == pytest.approx(sampler.state.scores.sum())
    assert sampler.state.rule[0].mass_of_summed == sampler.state.scores[:2].sum()


def test_a_batch_is_its_losses_one_by_one_and_others_draws_count():
    whole, single = (MirrorDescent(50, bound=1.0, step=0.01) for _ in range(2))
    draw = Uniform(50, seed=3).draw(200)
    losses = np.linspace(0, 1, 200)
    whole.update(draw, losses)
    for part, loss in zip(draw, losses, strict=True):
        single.update(part, [loss])
    assert (whole.probabilities() == single.probabilities()).all()
    assert whole.probabilities().std() > 0


@pytest.mark.parametrize("loss", [0.0, 1e-200, 1e200])
@pytest.mark.parametrize("bound", [1e-200, 1.0, 1e200])
def test_extreme_losses_and_bounds(loss, bound):
    sampler = MirrorDescent(20, bound=bound)
    for _ in range(20):
        draw = sampler.draw(16)
        sampler.update(draw, np.full(16, loss))
    p = sampler.probabilities()
    assert p.sum() == pytest.approx(1)
    assert p.min() >= 0.5 / 20 * 0.99
    sampler.update(Draw([3], [1e-60], 20), [loss])
    assert np.isfinite(sampler.probabilities()).all()


def test_one_item():
    sampler = MirrorDescent(1, bound=1.0)
    sampler.update(sampler.draw(5), np.ones(5))
    assert sampler.probabilities().tolist() == [1.0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"bound": 0}, "bound must be positive and finite, got 0"),
        ({"bound": np.inf}, "bound must be positive and finite, got inf"),
        ({"bound": 1, "floor": 0}, "floor must be above 0 and at most 1, got 0"),
        ({"bound": 1, "clip": 1.5}, "clip must be above 0 and at most 1, got 1.5"),
        ({"bound": 1, "step": -1}, "step must be positive and finite, got -1"),
        ({"bound": 1, "step": 1, "horizon": 5}, "give at most one of step and horizon"),
        ({"bound": 1, "horizon": 0}, "horizon must be a positive number of draws, got 0"),
    ],
)
def test_bad_parameters(given, message):
    with pytest.raises(ValueError, match=message):
        MirrorDescent(10, **given)
