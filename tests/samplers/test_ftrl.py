"""FTRL: p_t in proportion to sqrt(sum of squared losses + L)."""

import pickle

import numpy as np
import pytest

from tombola import FTRL

pytestmark = pytest.mark.kernels


def oracle(rounds, bound):
    """Lemma 2 with gamma = L, as printed."""
    root = np.sqrt((np.asarray(rounds) ** 2).sum(axis=0) + bound)
    return root / root.sum()


@pytest.mark.parametrize("n", [1, 2, 5, 100])
@pytest.mark.parametrize("each", [False, True])
def test_rule(n, each):
    generator = np.random.default_rng(n)
    bound = generator.uniform(0.5, 2.0, n) if each else 0.7
    sampler = FTRL(n, bound)
    rounds = np.zeros((1, n))
    for _ in range(30):
        expected = oracle(rounds, bound)
        assert sampler.probabilities() == pytest.approx(expected, rel=1e-9)
        draw = sampler.draw(4)
        assert draw.probabilities == pytest.approx(expected[draw.indices], rel=1e-9)
        losses = generator.exponential(size=n)
        sampler.update_all(losses)
        rounds = np.vstack([rounds, losses])
    assert sampler.probabilities().sum() == pytest.approx(1, abs=1e-12)


def test_by_hand():
    sampler = FTRL(3, bound=4.0)
    sampler.update_all([0, 0, 1])
    sampler.update_all([0, 4, 2])  # roots of 4, 4 + 16, 4 + 1 + 4
    roots = np.array([2.0, np.sqrt(20.0), 3.0])
    assert sampler.probabilities() == pytest.approx(roots / roots.sum(), rel=1e-12)


def test_regret_is_within_the_theorem():
    """Theorem 3: at most 27 L sqrt(T) + 44 L; far less here, and far less than uniform's."""
    generator = np.random.default_rng(3)
    n, rounds = 20, 400
    sizes = generator.pareto(1.5, n)
    losses = sizes / sizes.max() * generator.uniform(0.5, 1.0, (rounds, n))
    sampler = FTRL(n, bound=1.0)
    cost = 0.0
    for row in losses:
        cost += (row**2 / sampler.probabilities()).sum() / n**2
        sampler.update_all(row)
    best = np.sqrt((losses**2).sum(axis=0)).sum() ** 2 / n**2
    uniform = (losses**2).sum() / n
    assert best < cost < best + 27 * np.sqrt(rounds) + 44
    assert cost - best < (uniform - best) / 4


def test_equal_losses_and_zero_losses_stay_uniform():
    sampler = FTRL(8, bound=1.0)
    for loss in (0.0, 1.0, 3.0):
        sampler.update_all(np.full(8, loss))
        assert sampler.probabilities().tolist() == [1 / 8] * 8


@pytest.mark.parametrize("bound", [1e-300, 1.0, 1e300])
def test_extreme_losses(bound):
    sampler = FTRL(4, bound)
    for losses in ([1e200, 1.0, 1e-200, 0.0], [1e-200] * 4, [1e308] * 4):
        sampler.update_all(losses)
        chances = sampler.probabilities()
        assert (chances > 0).all()
        assert chances.sum() == pytest.approx(1)
    assert sampler.draw(10).importances.max() < np.inf


def test_feedback_of_drawn_items_is_refused():
    sampler = FTRL(3, bound=1.0)
    draw = sampler.draw(2)
    before = pickle.dumps(sampler.state_dict())
    with pytest.raises(TypeError, match=r"all items: call update_all\(losses\)"):
        sampler.update(draw, [1.0, 2.0])
    assert pickle.dumps(sampler.state_dict()) == before


@pytest.mark.parametrize(
    ("losses", "error", "message"),
    [
        ([1.0, np.nan, 1.0], ValueError, r"losses\[1\] is nan: losses must be finite"),
        ([1.0, 1.0, -0.5], ValueError, r"losses\[2\] is -0.5"),
        ([np.inf, 1.0, 1.0], ValueError, r"losses\[0\] is inf"),
        ([1.0, 2.0], ValueError, r"losses must have shape \(3,\), one for each item, got \(2,\)"),
        ([[1.0, 2.0, 3.0]], ValueError, r"got \(1, 3\)"),
        (["a", "b", "c"], TypeError, "losses must hold numbers, got dtype <U1"),
    ],
)
def test_bad_losses(losses, error, message):
    sampler = FTRL(3, bound=1.0)
    sampler.update_all([1, 2, 3])
    before = pickle.dumps(sampler.state_dict())
    with pytest.raises(error, match=message):
        sampler.update_all(losses)
    assert pickle.dumps(sampler.state_dict()) == before


@pytest.mark.parametrize(
    ("bound", "message"),
    [
        (0.0, "bound is 0"),
        (-1.0, r"bound\[0\] is -1.0"),
        ([1.0, np.nan, 1.0], r"bound\[1\] is nan"),
        ([1.0, 1.0], "one for each of 3 items, got 2"),
    ],
)
def test_bad_bound(bound, message):
    with pytest.raises(ValueError, match=message):
        FTRL(3, bound)
