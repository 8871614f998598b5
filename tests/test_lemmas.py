"""The lemmas and inequalities of the paper's proofs, by brute force; each has a wrong version."""

import itertools
import math

import numpy as np
import pytest

from tombola import theory

ROUNDS = 5


def short_games():
    """Losses of all games of five rounds over two items with losses 0, 1/2 and 1, and FTRL's p.

    p has one entry more than there are rounds: p_1 to p_6.
    """
    losses = np.array(list(itertools.product([0.0, 0.5, 1.0], repeat=2 * ROUNDS)))
    losses = losses.reshape(-1, ROUNDS, 2)
    before = np.cumsum(losses**2, axis=1)
    before = np.concatenate([np.zeros_like(before[:, :1]), before], axis=1)
    roots = np.sqrt(before + 1.0)  # Lemma 2, gamma = L = 1
    return losses, roots / roots.sum(axis=2, keepdims=True)


def excess(losses, p, p_min):
    """The cost of FTRL over that of the best fixed p with p >= p_min, n = 2."""
    squares = (losses**2).sum(axis=1)
    roots = np.sqrt(squares) + 1e-300
    best = np.clip(roots / roots.sum(axis=1, keepdims=True), p_min, 1 - p_min)
    cost = (losses**2 / p[:, :ROUNDS]).sum(axis=(1, 2))
    return cost - (squares / best).sum(axis=1), squares


@pytest.mark.parametrize("p_min", [0.01, 0.1, 0.25])
def test_lemma_4_on_all_short_games(p_min):
    regret, squares = excess(*short_games(), p_min)
    bounds = [theory.leader_cost(1.0, s, p_min) for s in squares[::97]]
    assert (regret[::97] <= bounds).all()
    assert regret.max() <= theory.leader_cost(1.0, [0.0, 0.0], p_min)
    # a hundredth of the first term alone would not do
    assert (regret > 0.22 * 2 * np.sqrt(squares).sum(axis=1)).any()


def test_theorem_3_follows_from_lemmas_4_and_6():
    rng = np.random.default_rng(0)
    for n, T in itertools.product([1, 2, 10, 100], [1, 10, 10**4, 10**8]):
        squares = T * rng.uniform(0, 1, n) ** rng.integers(1, 10)
        total = float(np.sqrt(squares).sum())
        p_min = min(1 / (2 * n), 1 / (math.sqrt(6) * total))  # as in the proof
        both = theory.leader_cost(1.0, squares, p_min) + theory.restricted_price(squares, p_min)
        assert both / n**2 <= theory.full_information(1.0, squares=squares) * (1 + 1e-12)
        # the lemmas give 24 L in place of 44 L
        assert both / n**2 <= theory.full_information(1.0, squares=squares) - 20 + 1e-9 * both


def test_lemma_5_on_all_short_games():
    """Follow the leader, be the leader: with R(p) = sum_i 1 / p(i), for every p."""
    losses, p = short_games()
    cost = (losses**2 / p[:, :ROUNDS]).sum(axis=(1, 2))
    ahead = (losses**2 / p[:, 1:]).sum(axis=(1, 2))  # of p_{t+1} in round t
    squares = (losses**2).sum(axis=1)
    broken = False
    for first in (0.01, 0.2, 0.5, 0.7, 0.99):
        fixed = np.array([first, 1 - first])
        regret = cost - (squares / fixed).sum(axis=1)
        regulariser = (1 / fixed).sum() - 4.0  # R(p_1) = 4
        assert (regret <= cost - ahead + regulariser + 1e-9).all()
        broken |= bool((regret > cost - ahead + 1e-9).any())
    assert broken  # the wrong lemma has no regulariser


def test_stability_of_the_leader():
    """Equations 5 and 16: sum_t f_t(p_t) - f_t(p_{t+1}) <= 22 n sqrt(L) sum_i sqrt(.. + L)."""
    losses, p = short_games()
    change = (losses**2 * (1 / p[:, :ROUNDS] - 1 / p[:, 1:])).sum(axis=(1, 2))
    last = (losses[:, :-1] ** 2).sum(axis=1)
    limit = 2 * np.sqrt(last + 1.0).sum(axis=1)
    assert (change <= 22 * limit).all()
    assert (change > 0.1 * limit).any()  # 0.1 would be too small a constant


def test_what_mixing_costs():
    """Proof of Theorem 7: 1 / p~ - 1 / p <= n theta."""
    largest = 0.0
    for n, theta in itertools.product([1, 2, 10, 1000], [1e-3, 0.1, 0.5, 0.99]):
        p = np.append(np.geomspace(1e-9, 1, 200), 1 / n)
        mixed = (1 - theta) * p + theta / n
        difference = 1 / mixed - 1 / p
        assert (difference <= n * theta * (1 + 1e-12)).all()
        assert (mixed >= theta / n * (1 - 1e-12)).all()
        largest = max(largest, float(difference.max()) / (n * theta))
    assert largest > 0.8  # half of it would not do


def test_estimated_squares_are_unbiased_and_their_variance_is_that_of_equation_24():
    losses, p = np.array([1.0, 0.5, 0.2]), np.array([0.2, 0.5, 0.3])
    # row: the item drawn; column: the estimate of each squared loss
    estimates = np.diag(losses**2 / p)
    assert p @ estimates == pytest.approx(losses**2)
    variance = p @ (estimates - losses**2) ** 2
    assert variance == pytest.approx(losses**4 / p - losses**4)
    assert (variance <= losses**2 / p).all()  # L = 1
    assert (variance > 0.1 * losses**4 / p).all()


def chance_of_sum(values, chances, rounds, threshold):
    """P(Z_1 + .. + Z_T >= threshold) of independent two-valued Z, exactly."""
    high, low = values
    total = 0.0
    for k in range(rounds + 1):  # k times the first value
        if k * high + (rounds - k) * low >= threshold:
            total += math.comb(rounds, k) * chances[0] ** k * chances[1] ** (rounds - k)
    return total


@pytest.mark.parametrize("p", [0.5, 0.1, 0.01])
def test_lemma_14_by_binomials(p):
    """Z = 1/p - 1 with probability p, else -1: the error of an estimate of 1."""
    values, chances = (1 / p - 1, -1.0), (p, 1 - p)
    broken = False
    for T, delta in itertools.product([3, 10, 100, 400], [1 / math.e, 0.1, 0.01, 1e-4]):
        sigma2 = T * (1 / p - 1)
        limit = theory.freedman(sigma2, 1 / p, delta)
        allowed = 4 * delta * math.log(T)
        assert chance_of_sum(values, chances, T, limit) <= allowed
        wrong = 0.5 * math.sqrt(sigma2 * math.log(1 / delta))
        broken |= chance_of_sum(values, chances, T, wrong) > allowed
    assert broken  # the wrong one has half of sigma in place of 2


def algorithm_1(losses, rng):
    """Play Algorithm 1 with L = 1; return sigma^2, the largest error of each score, all p_t."""
    T, n = losses.shape
    theta = (n / T) ** (1 / 3)
    scores, true, spread, worst = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    uniforms, played = rng.uniform(size=T), np.empty((T, n))
    for t in range(T):
        roots = np.sqrt(scores + n / theta)
        played[t] = roots / roots.sum()
        p = (1 - theta) * played[t] + theta / n
        squares = losses[t] ** 2
        spread += squares**2 / p - squares**2  # equation 24
        item = min(n - 1, int(np.searchsorted(np.cumsum(p), uniforms[t])))
        scores[item] += squares[item] / p[item]
        true += squares
        worst = np.maximum(worst, np.abs(scores - true))
    return spread, worst, played


def scenes(n, T):
    rng = np.random.default_rng(1)
    late = np.ones((T, n))
    late[: T // 2, 0] = 0.0  # an item that matters only in the end
    return [np.ones((T, n)), late, np.tile(np.eye(n)[0], (T, 1)), rng.uniform(0, 1, (T, n))]


@pytest.mark.parametrize("n", [2, 5])
def test_lemma_15_in_games(n):
    T, rng = 3000, np.random.default_rng(0)
    least = 6 * n ** (2 / 3) * T ** (1 / 3)  # 6 n L / theta
    for losses in scenes(n, T):
        spread, worst, p = algorithm_1(losses, rng)
        M = np.maximum(2 * np.sqrt(spread), least)
        squares = (losses**2).sum(axis=0)
        bound = theory.score_error(1.0, T, squares)
        assert (worst <= M).all()  # equation 26
        assert (bound >= M).all()  # equation 27
        assert (bound <= 14 * math.sqrt(n * T)).all()  # equation 28
        assert (bound < 10 * M).all()  # a tenth of it would not do
        late = np.cumsum(losses**2, axis=0) >= 2 * M
        star = (late * losses**2 / p).sum(axis=0)
        theta = (n / T) ** (1 / 3)
        parts = 2 * n * M / theta + n * theta * T + star
        assert (spread <= parts).all()  # equation 35
        assert (spread > parts / 50).any()  # a fiftieth of it would not do


def test_a_step_in_the_proof_of_lemma_15_does_not_hold():
    """After equation 37: 1 / p_t(i) <= 2 sum_j sqrt(l_{1:T}^2(j)) / sqrt(l_{1:t}^2(i)).

    Equation 37 and L n / theta <= l_{1:t}^2(i) / 2 are shown where l_{1:t}^2(i) >= 2 M(i), and used
    for all items. With one item of loss 1 and 99 of loss 0, the right side is 2 in the last round.
    The lemma holds.
    """
    n, T = 100, 100_000
    theta = (n / T) ** (1 / 3)
    prior, score, spread = n / theta, 0.0, 0.0
    inverse = []
    for uniform in np.random.default_rng(0).uniform(size=T):
        p = math.sqrt(score + prior)
        p /= p + (n - 1) * math.sqrt(prior)
        mixed = (1 - theta) * p + theta / n
        spread += 1 / mixed - 1
        score += (uniform < mixed) / mixed
        inverse.append(1 / p)
    M = max(2 * math.sqrt(spread), 6 * prior)
    assert T >= 2 * M
    assert abs(score - T) <= M  # the event that the proof conditions on
    assert inverse[-1] > 2 * 4  # four times the printed bound
    assert sum(inverse[math.ceil(2 * M) :]) > 2 * 4 * T  # so equation 38 does not hold, either
    assert theory.score_error(1.0, T, [T] + [0] * (n - 1))[0] >= M


def test_from_errors_of_scores_to_regret():
    """Equations 29 to 34, with the errors at the bounds of Lemma 15."""
    rng = np.random.default_rng(0)
    largest = 0.0
    for n, ratio in itertools.product([1, 2, 10, 1000], [1, 10, 1e3, 1e6]):
        T = n * ratio
        for power in (0, 1, 8):
            squares = T * rng.uniform(0, 1, n) ** power + 1e-9
            roots = np.sqrt(squares)
            rate = n ** (7 / 3) * T ** (2 / 3)
            M = theory.score_error(1.0, T, squares)
            A = np.sqrt(squares + M).sum() ** 2 - roots.sum() ** 2
            first = roots.sum() * np.minimum(np.sqrt(M), M / roots).sum()
            second = np.sqrt(M).sum() ** 2
            assert (2 * first + 2 * second) * (1 + 1e-9) >= A  # equation 29
            assert second <= 14 * rate * (1 + 1e-9)  # equation 30
            plain = 16 * n ** (2 / 3) * T ** (1 / 3)
            other = 16 * np.sqrt(roots * roots.sum())
            assert (np.maximum(plain, other) >= M).all()  # equation 31
            assert first <= 16 * rate  # equations 32 and 33
            assert 64 * rate >= A  # equation 34
            largest = max(largest, A / rate)
    assert largest > 10  # a constant of 10 would not do


def test_lemma_17():
    grid = np.geomspace(1e-12, 1e12, 200_001)
    for a, b in itertools.product([1e-2, 1.0, 30.0], repeat=2):
        largest = np.minimum(a * grid**0.125, b * grid**-0.25).max()
        assert largest <= a ** (2 / 3) * b ** (1 / 3) * (1 + 1e-12)
        assert largest > 0.999 * a ** (2 / 3) * b ** (1 / 3)  # so it is the least such bound


def test_lemma_18():
    rng = np.random.default_rng(0)
    sequences = [np.ones(100_000), [1.0], [1.0, 0.0, 0.0], np.arange(1.0, 1000.0)]
    sequences += [rng.uniform(0, 1, 50) ** rng.integers(1, 20) for _ in range(200)]
    ratios = []
    for a in sequences:
        sums = np.cumsum(a)
        ratios.append(float((a / np.sqrt(sums)).sum() / math.sqrt(sums[-1])))
    assert 1.99 < max(ratios) <= 2.0  # 1.99 would be too small


@pytest.mark.parametrize("losses", [[1.0, 0.0], [1.0, 0.3], [1.0, 1.0]])
def test_modified_costs_on_all_draws(losses):
    """Equations 7, 8 and 34 over all 2^10 sequences of draws of Algorithm 1, exactly."""
    n, T = 2, 10
    theta = (n / T) ** (1 / 3)
    squares = np.square(losses)
    goal = T**0.5 * np.sum(losses)  # sum_i sqrt(l_{1:T}^2(i))
    cost = modified = gain = total = 0.0
    for items in itertools.product(range(n), repeat=T):
        w, weight, f, g, unmixed = np.zeros(n), 1.0, 0.0, 0.0, 0.0
        for item in items:
            q = np.sqrt(w + n / theta)
            q /= q.sum()
            p = (1 - theta) * q + theta / n
            f += (squares / p).sum()
            g += squares[item] / p[item] ** 2  # f~_t(p~_t)
            unmixed += squares[item] / p[item] / q[item]  # f~_t(p_t)
            w[item] += squares[item] / p[item]
            weight *= p[item]
        best = np.sqrt(w).sum() ** 2
        cost, modified, total = cost + weight * f, modified + weight * g, total + weight
        gain += weight * (best - goal**2)
        regret = (unmixed - best) / n**2
        limit = 27 / math.sqrt(n * theta) * np.sqrt(w).sum() + 44 * n / theta
        assert regret <= limit  # equation 7, in every game
        assert best - goal**2 <= 64 * n ** (7 / 3) * T ** (2 / 3)  # equation 34
    assert total == pytest.approx(1)
    assert modified == pytest.approx(cost)  # E f~ = E f
    assert gain <= 1e-9  # E min f~ <= min f, which is concave: (A) is 0 at most


def test_errors():
    with pytest.raises(ValueError, match="p_min"):
        theory.leader_cost(1.0, [1.0, 1.0], 0.0)
    with pytest.raises(ValueError, match="chance"):
        theory.freedman(1.0, 1.0, 0.5)
    with pytest.raises(ValueError, match="T >= n"):
        theory.score_error(1.0, 1, [1.0, 1.0])
