"""MABS: exponential weights, in logarithms."""

import math
import pickle

import numpy as np
import pytest

from players import draw_one, update_one
from tombola import MABS, Draw
from tombola.samplers.rivals import mabs

pytestmark = pytest.mark.kernels


class Oracle:
    """The rule of the docstring, on n log-weights."""

    def __init__(self, n, mixing, delta):
        self.logs, self.n, self.mixing, self.delta = np.zeros(n), n, mixing, delta

    def probabilities(self):
        weights = np.exp(self.logs - self.logs.max())
        return (1 - self.mixing) * weights / weights.sum() + self.mixing / self.n

    def update(self, draw, losses):
        rise = self.delta * losses**2 / self.n**2 / draw.probabilities**3
        np.add.at(self.logs, draw.indices, rise)


def printed_step(n, horizon, bound, mixing):
    """sqrt(eta^4 ln n / (T n^5 A)), A = (1/n) sum a^2 for a at its bound."""
    a = np.broadcast_to(bound, n) / n**2
    return math.sqrt(mixing**4 * math.log(n) / (horizon * n**5 * np.mean(a**2)))


@pytest.mark.parametrize("batch", [1, 7])
@pytest.mark.parametrize("n", [2, 5, 40])
def test_rule(n, batch):
    losses = np.random.default_rng(n).uniform(0.0, 2.0, n)
    sampler = MABS(n, horizon=300, bound=4.0, mixing=0.3)
    slow = Oracle(n, 0.3, printed_step(n, 300, 4.0, 0.3))
    for _ in range(300 // batch):
        draw = sampler.draw(batch)
        assert draw.probabilities == pytest.approx(slow.probabilities()[draw.indices], rel=1e-8)
        sampler.update(draw, losses[draw.indices])
        slow.update(draw, losses[draw.indices])
        assert sampler.probabilities() == pytest.approx(slow.probabilities(), rel=1e-8)
    assert sampler.probabilities().sum() == pytest.approx(1, abs=1e-12)


def test_large_steps_move_the_reference():
    """Log-weights far beyond what exp can hold: the rule holds all the same."""
    n, losses = 10, np.linspace(0.0, 1.0, 10)
    sampler, slow = MABS(n, step=2.0), Oracle(n, 0.4, 2.0)
    for _ in range(400):
        draw = sampler.draw(3)
        sampler.update(draw, losses[draw.indices])
        slow.update(draw, losses[draw.indices])
        assert sampler.probabilities() == pytest.approx(slow.probabilities(), rel=1e-8)
    assert slow.logs.max() > 1000
    assert (sampler.probabilities() >= 0.4 / n).all()


def test_the_reference_is_raised_beyond_its_room_only():
    sampler = MABS(1, step=4.0)  # each loss of 1 adds 4 to the logarithm
    for reference in (0.0, 8.0, 8.0, 16.0):
        sampler.update(Draw([0], [1.0], 1), [1.0])
        assert sampler.state.rule[0].reference == reference


def test_many_items_follow_by_the_sweep(monkeypatch):
    """With more than SMALL items nothing is rebuilt at once; here n = 50 counts as many."""
    monkeypatch.setattr(mabs, "SMALL", 10)
    reference = getattr(mabs.raise_reference, "py_func", mabs.raise_reference)
    sampler = MABS(50, step=0.0)
    before = sampler.state.index.weights.copy()
    sampler.state.scores[0] = 3.0
    reference(sampler.state, 3.0)
    assert (sampler.state.index.weights == before).all()
    for _ in range(25):  # two items for each loss
        sampler.update(Draw([0], [0.5], n=50), [0.0])
    slow = Oracle(50, 0.4, 0.0)
    slow.logs[0] = 3.0
    assert sampler.probabilities() == pytest.approx(slow.probabilities(), rel=1e-8)


@pytest.mark.parametrize("bound", [1e-6, 9.0, np.array([1.0, 2.0, 3.0, 4.0])])
def test_step_from_horizon_and_bound(bound):
    sampler = MABS(4, horizon=1000, bound=bound)
    assert sampler.step == pytest.approx(printed_step(4, 1000, bound, 0.4), rel=1e-12)
    tuned = MABS(4, bound=bound, step=sampler.step)
    assert tuned.state.rule[0].gain == pytest.approx(sampler.state.rule[0].gain, rel=1e-12)


def test_unit_of_the_losses_does_not_matter_with_a_bound():
    samplers = [MABS(6, horizon=50, bound=scale**2, seed=2) for scale in (1.0, 1024.0, 2.0**-300)]
    for _ in range(50):
        draws = [sampler.draw(2) for sampler in samplers]
        assert draws[0] == draws[1] == draws[2]
        for sampler, scale in zip(samplers, (1.0, 1024.0, 2.0**-300), strict=True):
            sampler.update(draws[0], scale * (draws[0].indices / 5))


def test_duplicates_count_each():
    together, apart = MABS(3, step=0.5), MABS(3, step=0.5)
    draw = Draw([1, 1, 2, 1], [0.2, 0.2, 0.5, 0.2], n=3)
    together.update(draw, [1.0, 2.0, 3.0, 4.0])
    for part, loss in zip(draw, [1.0, 2.0, 3.0, 4.0], strict=True):
        apart.update(part, [loss])
    assert together.probabilities().tolist() == apart.probabilities().tolist()
    expected = 0.5 / 9 * np.array([0.0, (1 + 4 + 16) / 0.2**3, 9 / 0.5**3])
    assert together.state.scores == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("settings", [{"horizon": 10, "bound": 1.0}, {"step": 1e300}])
def test_extremes(settings):
    sampler = MABS(4, **settings)
    for losses in ([0.0] * 4, [1e-200] * 4, [1e200, 0.0, 1.0, 1e308], [1e308] * 4, [1.0] * 4):
        sampler.update(Draw([0, 1, 2, 3], [0.25, 1e-3, 1.0, 1e-60], n=4), losses)
        update_one(sampler.state, 1, 5e-324, losses[1])
        chances = sampler.probabilities()
        assert np.isfinite(sampler.state.scores).all()
        assert chances.sum() == pytest.approx(1)
        assert (chances >= 0.1).all()
        sampler.draw(3)


def test_zeros_stay_uniform_and_one_item_works():
    sampler = MABS(5, horizon=10, bound=1.0)
    sampler.update(sampler.draw(20), np.zeros(20))
    assert sampler.probabilities().tolist() == [0.2] * 5
    alone = MABS(1, horizon=10, bound=1.0)
    alone.update(alone.draw(3), [1.0, 2.0, 3.0])
    assert alone.draw(3).importances.tolist() == [1.0] * 3


def test_compiled_loops_do_the_same():
    sampler, loop = MABS(9, step=0.1, seed=3), MABS(9, step=0.1, seed=3)
    for _ in range(50):
        draw = sampler.draw()
        item, probability = draw_one(loop.state)
        assert (item, probability) == (draw.indices[0], draw.probabilities[0])
        sampler.update(draw, [float(item)])
        update_one(loop.state, item, probability, float(item))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "needs a horizon and a bound, or a step"),
        ({"horizon": 10}, "needs a horizon and a bound, or a step"),
        ({"horizon": 0, "bound": 1.0}, "horizon must be a positive number of draws, got 0"),
        ({"horizon": 1.5, "bound": 1.0}, "horizon must be a positive number of draws, got 1.5"),
        ({"horizon": 10, "bound": [1.0, -2.0, 3.0]}, r"bound\[1\] is -2.0"),
        ({"step": np.nan}, "step must be finite and not negative, got nan"),
        ({"step": 1.0, "mixing": 0.0}, "mixing must be above 0 and at most 1, got 0.0"),
        ({"step": 1.0, "mixing": 1.5}, "mixing must be above 0 and at most 1, got 1.5"),
    ],
)
def test_bad_parameters(settings, message):
    with pytest.raises(ValueError, match=message):
        MABS(3, **settings)


def test_bad_losses_change_nothing():
    sampler = MABS(3, step=1.0)
    draw = sampler.draw(2)
    before = pickle.dumps(sampler.state_dict())
    with pytest.raises(ValueError, match=r"losses\[1\] is -1.0"):
        sampler.update(draw, [1.0, -1.0])
    assert pickle.dumps(sampler.state_dict()) == before
