"""Adaptive weighted SGD, against the rule in numpy."""

from fractions import Fraction

import numpy as np
import pytest

from budget import chi_square_excess
from tombola import AdaptiveWeighted, Draw, Uniform, checkpoint

pytestmark = pytest.mark.kernels

LABELS = np.repeat(["a", "b", "c"], [5, 14, 1])


class Dense:
    """The rule, written down slowly."""

    def __init__(self, groups, step, floor):
        self.groups, self.step, self.floor = groups, step, floor
        self.sizes = np.bincount(groups)
        self.tau = np.log(self.sizes / len(groups))
        self.seen = []
        self.mean, self.spent = 0.0, 0.0

    def shares(self):
        return np.exp(self.tau) / np.exp(self.tau).sum()

    def update(self, item, p, loss):
        n, c, shares = len(self.groups), self.groups[item], self.shares()
        v = loss**2 / (n * p) / (n * shares[c] / self.sizes[c])
        self.seen.append(v)
        count = len(self.seen)
        self.mean = np.mean(self.seen) if count <= 1000 else self.mean + (v - self.mean) / 1000
        if v > 0:
            onehot = np.arange(len(shares)) == c
            move = min(self.step * v / self.mean, 1)
            self.spent += move**2
            self.tau += move / np.sqrt(1 + self.spent) * (onehot - shares)
            self.tau = np.log(self.shares())
            cap = self.floor / (1 - self.floor) * self.sizes / n
            self.tau = np.maximum(self.tau, np.log(cap))


@pytest.mark.parametrize(("step", "floor"), [(0.05, 0.1), (0.7, 0.4), (3.0, 0.01)])
def test_steps_are_those_of_the_rule(step, floor):
    groups = np.array([0, 1, 1, 2, 0, 1, 1, 3, 1, 1])
    sampler = AdaptiveWeighted(groups, step=step, floor=floor, seed=2)
    dense = Dense(groups, step, floor)
    rng = np.random.default_rng(0)
    for _ in range(300):
        draw = sampler.draw(4)
        losses = rng.lognormal(0, 1, 4) * (rng.random(4) < 0.8) * (1 + groups[draw.indices])
        sampler.update(draw, losses)
        for item, p, loss in zip(draw.indices, draw.probabilities, losses, strict=True):
            dense.update(item, p, loss)
        expected = (dense.shares() / dense.sizes)[groups]
        np.testing.assert_allclose(sampler.probabilities(), expected, rtol=1e-8)
        assert sampler.probabilities().min() >= floor / 10 * (1 - 1e-9)
        assert (draw.importances <= sampler._largest_importance()).all()


@pytest.mark.parametrize("foreign", [False, True])
def test_it_settles_where_theory_says(foreign):
    """P(c) is proportional to n_c rms_c, whoever draws."""
    groups = np.repeat([0, 1, 2], [600, 300, 100])
    losses = np.random.default_rng(0).lognormal(0, 0.5, 1000) * np.array([1.0, 3.0, 9.0])[groups]
    rms = np.array([np.sqrt(np.mean(losses[groups == c] ** 2)) for c in range(3)])
    wanted = rms * [600, 300, 100] / (rms * [600, 300, 100]).sum()
    sampler = AdaptiveWeighted(groups)
    source = Uniform(1000) if foreign else sampler
    shares = []
    for _ in range(1500):
        draw = source.draw(16)
        sampler.update(draw, losses[draw.indices])
        shares.append(np.bincount(groups, sampler.probabilities()))
    np.testing.assert_allclose(np.mean(shares[500:], axis=0), wanted, atol=0.02)


def test_groups_that_mean_nothing_do_little_harm():
    rng = np.random.default_rng(0)
    losses = rng.lognormal(0, 1.5, 2000)
    sampler = AdaptiveWeighted(rng.integers(0, 20, 2000))
    for _ in range(300):
        draw = sampler.draw(64)
        sampler.update(draw, losses[draw.indices])
    assert (losses**2 / sampler.probabilities()).sum() < 1.05 * 2000 * (losses**2).sum()


def test_draws_follow_the_reported_probabilities():
    sampler = AdaptiveWeighted(LABELS)
    for _ in range(30):
        draw = sampler.draw(16)
        sampler.update(draw, (LABELS[draw.indices] == "c") + 0.2)
    p = sampler.probabilities()
    weights, starts = sampler.state.index.weights, sampler.state.groups.starts
    exact = [
        Fraction(int(weights[c]), int(weights.sum())) / int(starts[c + 1] - starts[c])
        for c in sampler.state.groups.number
    ]
    assert sum(exact) == 1
    np.testing.assert_allclose(p, [float(chance) for chance in exact], rtol=1e-15)
    draw = sampler.draw(50_000)
    assert (draw.probabilities == p[draw.indices]).all()
    counts = np.bincount(draw.indices, minlength=20)
    assert chi_square_excess(counts, p) < 1
    assert chi_square_excess(counts, np.full(20, 0.05)) > 1


def test_a_batch_is_its_losses_one_by_one_and_draws_continue():
    whole, single = AdaptiveWeighted(LABELS), AdaptiveWeighted(LABELS)
    draw = Uniform(20, seed=3).draw(100)
    losses = np.linspace(0, 1, 100)
    whole.update(draw, losses)
    for part, loss in zip(draw, losses, strict=True):
        single.update(part, [loss])
    assert (whole.probabilities() == single.probabilities()).all()
    parts = [whole.draw(size).indices for size in (3, 0, 5)]
    assert np.concatenate(parts).tolist() == single.draw(8).indices.tolist()


def test_any_labels_make_groups(tmp_path):
    kinds = [
        LABELS,
        LABELS.tolist(),
        LABELS == "b",
        np.array(["y", "x", 3, (1, 2), "y"], dtype=object),
        np.array([0.5, 0.5, 1.0, 2.0]),
        [7],
    ]
    for labels in kinds:
        sampler = AdaptiveWeighted(labels, seed=4)
        sampler.update(sampler.draw(6), np.arange(6.0))
        again = AdaptiveWeighted(**sampler.parameters)
        again.load_state_dict(sampler.state_dict())
        assert again.draw(20) == sampler.draw(20)
        assert sampler.probabilities().sum() == pytest.approx(1)
        checkpoint.save(sampler, tmp_path / "it")
        assert checkpoint.load(tmp_path / "it").draw(20) == sampler.draw(20)
        sampler.reset()
        assert sampler.draw(9) == AdaptiveWeighted(labels, seed=4).draw(9)
    assert "n=" not in repr(sampler)


@pytest.mark.parametrize("scale", [1e-307, 1e-200, 1e200, 1e300])
def test_the_unit_of_losses_does_not_matter(scale):
    ours, scaled = AdaptiveWeighted(LABELS), AdaptiveWeighted(LABELS)
    factor = 2.0 ** np.round(np.log2(scale))
    for _ in range(30):
        draw = ours.draw(8)
        assert scaled.draw(8) == draw
        ours.update(draw, 1.0 + draw.indices % 7)
        scaled.update(draw, (1.0 + draw.indices % 7) * factor)
    assert ours.probabilities().std() > 0


def test_zeros_giants_and_back():
    sampler = AdaptiveWeighted(LABELS)
    sampler.update(sampler.draw(50), np.zeros(50))
    assert sampler.probabilities() == pytest.approx(1 / 20)
    for loss in (1e-200, 1e200, 0.0, 1e-200, 1.0):
        for _ in range(10):
            draw = sampler.draw(32)
            sampler.update(draw, np.full(32, loss))
        p = sampler.probabilities()
        assert p.sum() == pytest.approx(1)
        assert p.min() >= 0.1 / 20 * (1 - 1e-9)
    sampler.update(Draw([19], [1e-60], 20), [1e200])
    assert sampler.probabilities().sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("groups", "given", "message"),
    [
        ([], {}, "groups is empty"),
        (np.array([[1], [2]]), {}, r"groups must have one dimension, got shape \(2, 1\)"),
        ([1, 2], {"step": 0}, "step must be positive and finite, got 0"),
        ([1, 2], {"floor": 0.6}, "floor must be above 0 and at most 0.5, got 0.6"),
    ],
)
def test_bad_parameters(groups, given, message):
    with pytest.raises(ValueError, match=message):
        AdaptiveWeighted(groups, **given)
