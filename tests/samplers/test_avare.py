"""Avare, against the projection by bisection after each loss."""

import numpy as np
import pytest

from tombola import Avare, Draw, Uniform

pytestmark = pytest.mark.kernels


def least(n, fed, floor, decay):
    """eps_t as the authors write it: 1 / (C^(1 - d/3) (C + u)^(d/3)) + p_min."""
    if floor == 1:
        return 1 / n
    c = 1 / (1 / n - floor / n)
    return 1 / (c ** (1 - decay / 3) * (c + fed) ** (decay / 3)) + floor / n


def projected(h, eps):
    if not h.any():
        return np.full(len(h), 1 / len(h))
    low, high = 0.0, 1e6 * h.sum()
    for _ in range(300):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(h / middle, eps).sum() > 1 else (low, middle)
    p = np.maximum(h / high, eps)
    return p / p.sum()


@pytest.mark.parametrize(
    ("floor", "decay"), [(0.2, 1.0), (0.0, 1.0), (0.3, 0.5), (0.0, 0.0), (1.0, 1.0)]
)
@pytest.mark.parametrize("n", [1, 2, 6])
def test_few_items_follow_the_rule_exactly(n, floor, decay):
    sampler = Avare(n, floor=floor, decay=decay)
    rng = np.random.default_rng(n)
    h = np.zeros(n)
    fed = 0
    for _ in range(60):
        draw = sampler.draw(2)
        losses = rng.lognormal(0, 1, 2) * (rng.random(2) < 0.7) * 1e-3
        sampler.update(draw, losses)
        for item, loss in zip(draw.indices, losses, strict=True):
            h[item] = loss
        fed += 2
        if sampler.state.rule[0].unit:
            expected = projected(h, least(n, fed, floor, decay))
            np.testing.assert_allclose(sampler.probabilities(), expected, rtol=1e-6)


def test_many_items_follow_it_whenever_the_level_is_computed():
    n = 400
    sampler = Avare(n)
    rng = np.random.default_rng(0)
    h = np.zeros(n)
    losses = rng.lognormal(0, 1.5, n)
    computed = 0
    for fed in range(1, 3000):
        draw = sampler.draw()
        h[draw.indices] = losses[draw.indices] * rng.lognormal(0, 0.2)
        due = sampler.state.rule[0].due
        sampler.update(draw, h[draw.indices])
        eps = least(n, fed, 0.2, 1.0)
        assert sampler.state.rule[0].least == pytest.approx(eps, rel=1e-12)
        p = sampler.probabilities()
        assert p.min() >= eps / 2 * (1 - 1e-6)
        assert 1 / (n * p.min()) <= sampler._largest_importance()
        if sampler.state.rule[0].due != due:
            computed += 1
            np.testing.assert_allclose(p, projected(h, eps), rtol=1e-5)
    assert 3000 / 100 < computed < 60


def test_a_sudden_giant_does_not_starve_the_rest():
    sampler = Avare(1000)
    everything = Draw(np.arange(1000), np.full(1000, 1e-3), 1000)
    sampler.update(everything, np.ones(1000))
    sampler.update(everything[7], [1e9])
    eps = least(1000, 1001, 0.2, 1.0)
    p = sampler.probabilities()
    assert p.min() >= eps / 2
    assert p.argmax() == 7


def test_a_batch_is_its_losses_one_by_one_and_the_last_loss_counts():
    whole, single = Avare(50), Avare(50)
    draw = Uniform(50, seed=3).draw(200)
    losses = np.linspace(0, 1, 200)
    whole.update(draw, losses)
    for part, loss in zip(draw, losses, strict=True):
        single.update(part, [loss])
    assert (whole.probabilities() == single.probabilities()).all()
    twice = Avare(3)
    twice.update(Draw([1, 1], [0.5, 0.5], 3), [9.0, 2.0])
    assert twice.state.losses[1] * 4 == 2.0 * twice.state.rule[0].unit * 4


@pytest.mark.parametrize("scale", [1e-307, 1e-200, 1.0, 1e200, 1e307])
def test_the_unit_of_losses_does_not_matter(scale):
    ours, scaled = Avare(30), Avare(30)
    factor = 2.0 ** np.round(np.log2(scale))
    for _ in range(30):
        draw = ours.draw(8)
        assert scaled.draw(8) == draw
        ours.update(draw, 1.0 + draw.indices % 7)
        scaled.update(draw, (1.0 + draw.indices % 7) * factor)
    assert ours.probabilities().std() > 0


def test_zeros_giants_and_back():
    sampler = Avare(40)
    for loss in (0.0, 1e-200, 1e200, 0.0):
        for _ in range(30):
            draw = sampler.draw(32)
            sampler.update(draw, np.full(32, loss))
        assert sampler.probabilities().sum() == pytest.approx(1)
        assert sampler.probabilities().min() >= 0.1 / 40
    everything = Draw(np.arange(40), np.full(40, 1 / 40), 40)
    sampler.update(everything, np.zeros(40))
    assert sampler.probabilities() == pytest.approx(1 / 40)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"floor": -0.1}, "floor must be from 0 to 1, got -0.1"),
        ({"decay": 2}, "decay must be from 0 to 1, got 2"),
        ({"decay": np.nan}, "decay must be from 0 to 1, got nan"),
    ],
)
def test_bad_parameters(given, message):
    with pytest.raises(ValueError, match=message):
        Avare(10, **given)
