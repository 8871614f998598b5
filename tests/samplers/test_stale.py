"""Stale: the last known losses, however old, and the mean where there is none."""

import numpy as np
import pytest

from tombola import Draw, Stale, Uniform

pytestmark = pytest.mark.kernels


def test_the_table_holds_the_last_losses():
    losses = np.array([1.0, 4.0, 0.0, 2.0])
    sampler = Stale(4, mixing=0.2, seed=1)
    everything = Draw(np.arange(4), np.full(4, 0.25), 4)
    sampler.update(everything, losses[::-1])
    sampler.update(everything, losses)
    np.testing.assert_allclose(sampler.probabilities(), 0.8 * losses / 7 + 0.05, rtol=1e-6)


def test_missing_items_have_the_mean():
    """Not zero, as in the published code, where the estimate is that of the other items."""
    sampler = Stale(6, mixing=0.1, seed=2)
    part = Draw([0, 1, 2], np.full(3, 1 / 6), 6)
    for _ in range(4):  # the sweep passes all items
        sampler.update(part, [1.0, 2.0, 6.0])
    mean = sampler.state.rule[0].mean_loss / sampler.state.rule[0].unit
    table = np.array([1.0, 2.0, 6.0, mean, mean, mean])
    assert 1.0 < mean < 6.0
    p = sampler.probabilities()
    np.testing.assert_allclose(p, 0.9 * table / table.sum() + 0.1 / 6, rtol=0.2)
    np.testing.assert_allclose(p[:3] - 0.1 / 6, 0.9 * table[:3] / table.sum(), rtol=0.2)
    values = np.arange(1.0, 7.0)
    estimate = (p * values / (6 * p)).sum()
    assert estimate == pytest.approx(values.mean())
    wrong = np.where(np.arange(6) < 3, table / 9, 0.0)  # of those that are not missing
    biased = (wrong[:3] * values[:3] / (6 * wrong[:3])).sum()
    assert abs(biased / values.mean() - 1) > 0.5


def test_the_mean_is_that_of_all_items():
    """Whatever they were drawn with: l / (n p) is averaged, not l."""
    losses = np.arange(1.0, 201.0)
    sampler = Stale(200, seed=3)
    for _ in range(100):
        draw = sampler.draw(20)
        sampler.update(draw, losses[draw.indices])
    mean = sampler.state.rule[0].mean_loss / sampler.state.rule[0].unit
    assert mean == pytest.approx(losses.mean(), rel=0.15)
    assert losses[sampler.draw(2000).indices].mean() > 1.25 * losses.mean()  # the wrong mean


def test_losses_of_others_are_as_good_as_own_ones():
    """A table filled by a worker that draws uniformly, long ago: unbiased, and better than that."""
    losses = np.linspace(0.1, 3.0, 50) ** 3
    sampler, worker = Stale(50, mixing=0.1, seed=4), Uniform(50, seed=5)
    for _ in range(30):
        draw = worker.draw(20)
        sampler.update(draw, losses[draw.indices])
    p = sampler.probabilities()
    assert (p * (losses / (50 * p))).sum() == pytest.approx(losses.mean())
    cost = (losses**2 / p).sum() / losses.sum() ** 2
    assert cost < 1.05 < 1.5 < 50 * (losses**2).sum() / losses.sum() ** 2


def test_zeros_for_ever():
    """The mean stops at a trace; then the next loss counts."""
    sampler = Stale(3, seed=6)
    sampler.update(Draw([0, 1], [0.3, 0.3], 3), [1.0, 2.0])
    zeros = Draw(np.zeros(3000, dtype=np.int64), np.full(3000, 1 / 3), 3)
    sampler.update(zeros, np.zeros(3000))
    assert sampler.state.rule[0].mean_loss == 2.0**-200
    p = sampler.probabilities()
    assert p.sum() == pytest.approx(1)
    assert p.argmax() == 1
    everything = Draw(np.arange(3), np.full(3, 1 / 3), 3)
    sampler.update(everything, np.zeros(3))
    assert sampler.probabilities().min() >= 0.1 / 3 * (1 - 1e-9)
    sampler.update(everything, [0.0, 0.0, 1e-5])
    assert sampler.probabilities().argmax() == 2


@pytest.mark.parametrize("unit", [2.0**300, 2.0**-300])
def test_units_do_not_matter(unit):
    samplers = [Stale(20, seed=7) for _ in range(2)]
    for _ in range(30):
        for sampler, factor in zip(samplers, (1.0, unit), strict=True):
            draw = sampler.draw(4)
            sampler.update(draw, factor * (1.0 + draw.indices % 3))
    first, second = (sampler.draw(50).indices.tolist() for sampler in samplers)
    assert first == second


def test_bad_arguments():
    with pytest.raises(ValueError, match="mixing"):
        Stale(5, mixing=0.0)
