"""The bounds against brute force on small cases, and the lemmas behind them."""

import itertools
import math

import numpy as np
import pytest

from tombola import theory


def lemma_13(a):
    sums = np.cumsum(np.square(a))
    return float((np.power(a, 4)[sums > 0] / sums[sums > 0] ** 1.5).sum())


def test_lemma_13():
    rng = np.random.default_rng(0)
    sequences = [np.ones(100_000), np.full(1000, 1e-3), [0.0, 0.0, 1.0]]
    sequences += [rng.uniform(0, 1, 50) ** rng.integers(1, 20) for _ in range(200)]
    for growth, ones in itertools.product([1.01, 1.1, 1.5, 2.0, 4.0], [0, 10, 10_000]):
        # slow growth from a tiny first number up to 1, then ones
        rising = growth ** -np.arange(0.0, 60 / math.log(growth))[::-1]
        sequences.append(np.append(rising, np.ones(ones)))
    largest = max(lemma_13(a) for a in sequences)
    assert 2.7 < largest <= theory.SUM_CONSTANT  # the wrong constant, 2.7, is too small


def test_lemma_16():
    for x, a in itertools.product(10.0 ** np.arange(-6, 7), repeat=2):
        least = min(math.sqrt(a), a / math.sqrt(x))
        assert math.sqrt(x + a) - math.sqrt(x) <= least * (1 + 1e-9) + 1e-12
        if a < x:  # the wrong lemma, with a third of it, does not hold
            assert math.sqrt(x + a) - math.sqrt(x) > least / 3


def test_theorem_3_on_all_short_games():
    """All games of five rounds over two items with losses 0, 1/2 and 1: 3^10 of them."""
    losses = np.array(list(itertools.product([0.0, 0.5, 1.0], repeat=10))).reshape(-1, 5, 2)
    squares = np.zeros((len(losses), 2))
    cost = np.zeros(len(losses))
    for t in range(5):
        roots = np.sqrt(squares + 1.0)  # Lemma 2
        p = roots / roots.sum(axis=1, keepdims=True)
        cost += (losses[:, t] ** 2 / p).sum(axis=1)
        squares += losses[:, t] ** 2
    regret = (cost - np.sqrt(squares).sum(axis=1) ** 2) / 4
    tight = 27 * np.sqrt(squares).mean(axis=1) + 44
    assert theory.full_information(1.0, squares=squares[-1]) == pytest.approx(tight[-1])
    assert (regret <= tight).all()
    assert (tight <= theory.full_information(1.0, rounds=5) + 1e-9).all()
    assert regret.max() > 0.5


def test_lemma_2_minimises():
    squares, gamma = np.array([3.0, 0.0, 1.0]), 0.5
    p = np.sqrt(squares + gamma) / np.sqrt(squares + gamma).sum()
    least = ((squares + gamma) / p).sum()
    for q in np.random.default_rng(0).dirichlet(np.ones(3), 2000):
        assert ((squares + gamma) / q).sum() >= least


def expected_cost(losses, rounds, mixing, bound=1.0):
    """The exact expectation of the cost of Algorithm 1, over all n^T sequences of draws."""
    n = len(losses)

    def later(w, t):
        if t == rounds:
            return 0.0
        p = [math.sqrt(w[i] + bound * n / mixing) for i in range(n)]
        p = [(1 - mixing) * p[i] / sum(p) + mixing / n for i in range(n)]
        total = sum(losses[i] ** 2 / p[i] for i in range(n))
        for i in range(n):
            after = [w[j] + (losses[i] ** 2 / p[i] if i == j else 0) for j in range(n)]
            total += p[i] * later(after, t + 1)
        return total

    return later([0.0] * n, 0)


@pytest.mark.parametrize("losses", [[1.0, 0.0], [1.0, 0.3], [1.0, 1.0]])
def test_theorem_7_on_all_draws(losses):
    rounds = 10
    mixing = (2 / rounds) ** (1 / 3)
    squares = rounds * np.square(losses)
    regret = (expected_cost(losses, rounds, mixing) - np.sqrt(squares).sum() ** 2) / 4
    sharp = theory.bandit_with_mixing(1.0, 2, rounds, mixing, squares)
    assert -1e-9 <= regret <= sharp <= theory.bandit_with_mixing(1.0, 2, rounds, mixing)


def test_bandit_bounds_follow_from_each_other():
    for n, ratio in itertools.product([1, 2, 10, 1000], [1, 1.5, 10, 1e3, 1e7]):
        T = n * ratio
        rate = theory.non_oblivious_rate(2.0, n, T)
        assert rate == pytest.approx(2 * n ** (1 / 3) * T ** (2 / 3))
        mixed = theory.bandit_with_mixing(2.0, n, T, (n / T) ** (1 / 3))
        assert mixed <= 72 * rate * (1 + 1e-9) <= theory.bandit(2.0, n, T) == 74 * rate
        assert theory.anytime(2.0, n, T) < theory.bandit(2.0, n, T)


def test_anytime_mixing_costs_one_and_a_half():
    for n in (1, 7, 100):
        t = np.arange(1, 200 * n + 1)
        spent = np.cumsum(np.minimum(1, np.cbrt(n / t)))
        allowed = n ** (1 / 3) * t ** (2 / 3)
        assert (spent <= 1.5 * allowed).all()
        assert (spent > 1.3 * allowed)[-1]


def test_doubling_constant():
    n = 3
    ratios = [
        theory.doubling(1.0, n, T) / theory.non_oblivious_rate(1.0, n, T)
        for T in range(n, 200_000, 7)
    ]
    assert max(ratios) <= theory.DOUBLING_CONSTANT == pytest.approx(199.98, abs=0.01)
    assert max(ratios) > 0.99 * theory.DOUBLING_CONSTANT
    # phases end after n, 3n, 7n, ... rounds
    assert theory.doubling(1.0, n, 3 * n) < theory.doubling(1.0, n, 3 * n + 1)
    assert theory.doubling(1.0, n, n + 1) == theory.doubling(1.0, n, 3 * n)


def test_uniform_draws_break_theorem_7_beyond_the_crossing():
    for n in (2, 10):
        T = theory.uniform_crossing(n)
        half = np.repeat([1.0, 0.0], n // 2)
        regret = (n * T * half.sum() - T * half.sum() ** 2) / n**2
        assert regret == pytest.approx(theory.bandit(1.0, n, T))


def test_lemma_1():
    rng = np.random.default_rng(0)
    for n, T in [(1, 1), (3, 10), (10, 500)]:
        limits = np.exp(rng.normal(0, 1, n))
        start = limits + np.exp(rng.normal(0, 1, n))
        drift = np.sqrt(1 + np.arange(T) / n)[:, None]
        losses = limits + (start - limits) / drift
        best = np.sqrt((losses**2).sum(axis=0)).sum() ** 2 / n**2
        ideal = (losses.sum(axis=1) ** 2).sum() / n**2
        assert best <= ideal + theory.fixed_price(losses, limits)
    still = np.tile(limits, (5, 1))
    assert theory.fixed_price(still, limits) == 0  # then the best fixed one is ideal
    with pytest.raises(ValueError, match="mean loss"):
        theory.fixed_price(still * 0.5, limits)


def noisy_descent(steps, rng, rounds=300):
    """Minimise w^2/2 - w/2 over [-1, 1] with noisy gradients; return iterates and gradients."""
    w, iterates, gradients = -1.0, [], []
    for t in range(rounds):
        gradient = w - 0.5 + rng.normal()
        iterates.append(w)
        gradients.append(gradient)
        w = min(1.0, max(-1.0, w - steps(t + 1, gradients) * gradient))
    return np.array(iterates), np.square(gradients)


def test_theorems_9_and_10():
    rng = np.random.default_rng(0)

    def error(w):
        return w**2 / 2 - w / 2 + 0.125

    adaptive = [
        noisy_descent(lambda t, g: 2 / math.sqrt(2 * np.square(g).sum()), rng) for _ in range(100)
    ]
    moments = np.mean([m for _, m in adaptive], axis=0)
    assert np.mean([error(w.mean()) for w, _ in adaptive]) <= theory.adagrad(2.0, moments)
    strong = [noisy_descent(lambda t, g: 2 / t, rng) for _ in range(100)]
    moments = np.mean([m for _, m in strong], axis=0)
    weights = np.arange(1, 301)
    errors = [error(np.average(w, weights=weights)) for w, _ in strong]
    assert np.mean(errors) <= theory.strongly_convex_sgd(1.0, moments)


def test_errors():
    for call in (theory.bandit, theory.anytime, theory.doubling, theory.non_oblivious_rate):
        with pytest.raises(ValueError, match="T >= n"):
            call(1.0, 10, 9)
    with pytest.raises(ValueError, match="either"):
        theory.full_information(1.0)
    with pytest.raises(ValueError, match="either"):
        theory.full_information(1.0, rounds=3, squares=[1.0])
    with pytest.raises(ValueError, match="mixing"):
        theory.bandit_with_mixing(1.0, 2, 10, 0.0)
    with pytest.raises(ValueError, match="p_min"):
        theory.restricted_price([1.0, 1.0], 0.3)
    with pytest.raises(ValueError, match="limits"):
        theory.fixed_price([[1.0, 1.0]], [1.0])
