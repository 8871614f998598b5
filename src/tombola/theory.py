"""The paper's bounds, as functions.

L is a bound on the *squared* losses, and regret is divided by n^2. Theorems and lemmas are
numbered as in Borsos, Krause, Levy (2018), "Online Variance Reduction for Stochastic Optimization",
where they share one counter. Bounds for unknown horizons, which the paper only mentions, are
derived in the docstrings.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.validation import share

__all__ = [
    "ANYTIME_CONSTANT",
    "BANDIT_CONSTANT",
    "DOUBLING_CONSTANT",
    "SUM_CONSTANT",
    "adagrad",
    "anytime",
    "bandit",
    "bandit_with_mixing",
    "doubling",
    "fixed_price",
    "freedman",
    "full_information",
    "leader_cost",
    "non_oblivious_rate",
    "restricted_price",
    "score_error",
    "strongly_convex_sgd",
    "uniform_crossing",
]

# Lemma 13: the upper bound on sum_t a_t^4 / (a_1^2 + .. + a_t^2)^(3/2) for a_t in [0, 1]; the
# largest value in the tests is 2.8
SUM_CONSTANT = 44.0
BANDIT_CONSTANT = 74.0  # Theorem 7
ANYTIME_CONSTANT = 72.5  # 1.5 + 27 + 44, see `anytime`
DOUBLING_CONSTANT = BANDIT_CONSTANT / (1.0 - 2.0 ** (-2.0 / 3.0))  # 199.98, see `doubling`


def full_information(
    bound: float, *, rounds: float | None = None, squares: ArrayLike | None = None
) -> float:
    """Bound the regret of FTRL with full information (Theorem 3), in one of its two forms.

        27 sqrt(L) / n  sum_i sqrt(l_{1:T}^2(i)) + 44 L   <=   27 L sqrt(T) + 44 L

    Parameters
    ----------
    bound : float
        L.
    rounds : int, optional
        T, for the form on the right.
    squares : array-like of float, shape (n,), optional
        l_{1:T}^2(i), the sum of squared losses of each item, for the form on the left.

    Examples
    --------
    >>> full_information(1.0, rounds=100)
    314.0
    >>> full_information(1.0, squares=[100.0, 0.0])
    179.0
    """
    if (rounds is None) == (squares is None):
        raise ValueError("pass either rounds or squares")
    if squares is not None:
        return 27.0 * math.sqrt(bound) * float(np.sqrt(squares).mean()) + 44.0 * bound
    assert rounds is not None
    return 27.0 * bound * math.sqrt(rounds) + 44.0 * bound


def bandit(bound: float, n: int, rounds: float) -> float:
    """Bound the pseudo-regret of Algorithm 1 with theta = (n/T)^(1/3), for T >= n (Theorem 7).

        74 L n^(1/3) T^(2/3)

    The constants of `bandit_with_mixing` add up to 72; the theorem states 74.

    Examples
    --------
    >>> round(bandit(1.0, 8, 1000), 6)
    14800.0
    """
    return BANDIT_CONSTANT * non_oblivious_rate(bound, n, rounds)


def bandit_with_mixing(
    bound: float, n: int, rounds: float, mixing: float, squares: ArrayLike | None = None
) -> float:
    """Bound the pseudo-regret of Algorithm 1 for any mixing (proof of Theorem 7).

        theta L T + 27 sqrt(L / (n theta))  sum_i sqrt(l_{1:T}^2(i)) + 44 n L / theta

    Parameters
    ----------
    bound, n, rounds
        L, n, T.
    mixing : float in (0, 1]
        theta.
    squares : array-like of float, shape (n,), optional
        l_{1:T}^2(i); by default L T for each item.

    Examples
    --------
    >>> round(bandit_with_mixing(1.0, 8, 8000, mixing=0.1), 1)    # Theorem 7: 59200
    25920.0
    """
    mixing = share("mixing", mixing, zero=False)
    roots = n * math.sqrt(bound * rounds) if squares is None else float(np.sqrt(squares).sum())
    return (
        mixing * bound * rounds
        + 27.0 * math.sqrt(bound / (n * mixing)) * roots
        + 44.0 * n * bound / mixing
    )


def non_oblivious_rate(bound: float, n: int, rounds: float) -> float:
    """Return L n^(1/3) T^(2/3), for T >= n.

    Against an adversary that sees the player's past draws, the expected regret of Algorithm 1
    grows no faster than this, up to logarithms and an unspecified constant (Theorem 8).
    """
    if not rounds >= n:
        raise ValueError(f"the theorem needs T >= n, got T = {rounds}, n = {n}")
    return float(bound * n ** (1 / 3) * rounds ** (2 / 3))


def anytime(bound: float, n: int, rounds: float) -> float:
    """Bound the pseudo-regret with theta_t = min(1, (n/t)^(1/3)), at every T >= n.

        72.5 L n^(1/3) T^(2/3)

    L n / theta_t never decreases, so FTRL with growing regularisers keeps the paper's stability
    term, 27, and its last term, 44. Mixing costs sum_t theta_t L <= 1.5 L n^(1/3) T^(2/3).
    """
    return ANYTIME_CONSTANT * non_oblivious_rate(bound, n, rounds)


def doubling(bound: float, n: int, rounds: float) -> float:
    """Bound the pseudo-regret of restarts after n, 3n, 7n, ... rounds, at every T >= n.

        74 L n sum_{k <= K} 2^(2k/3),   K the phase of round T

    Phase k lasts n 2^k rounds, and Theorem 7 bounds its regret. The worst T is at the start of a
    phase, where the sum is at most 74 / (1 - 2^(-2/3)) L n^(1/3) T^(2/3): 2.7 times the bound for
    a known horizon.

    Examples
    --------
    >>> doubling(1.0, 10, 10) == bandit(1.0, 10, 10)
    True
    >>> round(doubling(1.0, 1, 2**30) / bandit(1.0, 1, 2**30), 2)
    2.7
    """
    if not rounds >= n:
        raise ValueError(f"the theorem needs T >= n, got T = {rounds}, n = {n}")
    last = 0
    while n * (2 ** (last + 1) - 1) < rounds:
        last += 1
    phases = float(sum(2.0 ** (2 * k / 3) for k in range(last + 1)))
    return BANDIT_CONSTANT * bound * n * phases


def uniform_crossing(n: int) -> float:
    """Return the smallest T at which uniform draws *can* violate Theorem 7: (4 * 74)^3 n.

    Their regret is at most L T / 4, with half of the losses at the bound and half at 0. For smaller
    T, no player that stays near uniform violates the bound, for any losses.

    Examples
    --------
    >>> f"{uniform_crossing(2):.3g}"
    '5.19e+07'
    """
    return (4.0 * BANDIT_CONSTANT) ** 3 * n


def leader_cost(bound: float, squares: ArrayLike, p_min: float) -> float:
    """Bound the excess cost of FTRL over the best fixed p with p >= p_min (Lemma 4).

        22 n sqrt(L) sum_i sqrt(l_{1:T}^2(i)) + 22 n^2 L + n L / p_min

    Unlike the regret, it is not divided by n^2. With `restricted_price` it gives Theorem 3.

    Examples
    --------
    >>> leader_cost(1.0, [4.0, 9.0], p_min=0.25)
    316.0
    """
    roots = np.sqrt(np.asarray(squares, dtype=np.float64))
    n = len(roots)
    if not 0 < p_min <= (1 + 1e-12) / n:
        raise ValueError(f"p_min must be above 0 and at most 1/n = {1 / n}, got {p_min}")
    return (
        22.0 * n * math.sqrt(bound) * float(roots.sum()) + 22.0 * n**2 * bound + n * bound / p_min
    )


def restricted_price(squares: ArrayLike, p_min: float) -> float:
    """Bound the price of the constraint p >= p_min, for p_min <= 1/(2n) (Lemma 6).

        6 n p_min (sum_i sqrt(l_{1:T}^2(i)))^2

    Unlike the regret, it is not divided by n^2.

    Examples
    --------
    >>> restricted_price([4.0, 9.0], p_min=0.1)     # the price itself: 0, since p = (0.4, 0.6)
    30.000000000000004
    """
    roots = np.sqrt(np.asarray(squares, dtype=np.float64))
    if not 0 <= p_min <= 0.5 / len(roots):
        raise ValueError(f"p_min must be from 0 to 1/(2n) = {0.5 / len(roots)}, got {p_min}")
    return 6.0 * len(roots) * p_min * float(roots.sum()) ** 2


def fixed_price(losses: ArrayLike, limits: ArrayLike) -> float:
    """Bound the excess cost of the best *fixed* distribution over the best of each round (Lemma 1).

        2 sqrt(T) L* (1/n) sum_i sqrt(V(i)) + ((1/n) sum_i sqrt(V(i)))^2

    with V(i) = sum_t (l_t(i) - l*(i))^2 and L* the mean of the limits l*. Both costs are divided
    by n^2. The mean loss, averaged over rounds, must be at least L*.

    Parameters
    ----------
    losses : array-like of float, shape (T, n)
    limits : array-like of float, shape (n,)
        l*(i): the limits of the losses.

    Examples
    --------
    >>> fixed_price([[2.0, 1.0], [1.0, 1.0]], limits=[1.0, 1.0])    # V = 1, 0
    1.6642135623730951
    """
    array = np.atleast_2d(np.asarray(losses, dtype=np.float64))
    goal = np.asarray(limits, dtype=np.float64)
    if goal.shape != array.shape[1:]:
        raise ValueError(f"limits must have shape {array.shape[1:]}, got {goal.shape}")
    if array.mean() < goal.mean() * (1 - 1e-12):
        raise ValueError("the lemma needs a mean loss of at least the mean of the limits")
    spread = float(np.sqrt(((array - goal) ** 2).sum(axis=0)).mean())
    return 2.0 * math.sqrt(len(array)) * float(goal.mean()) * spread + spread**2


def freedman(variance: float, largest: float, chance: float) -> float:
    """Return what a martingale exceeds with probability at most 4 delta log(T) (Lemma 14).

        max(2 sigma, 3 b sqrt(log(1/delta))) sqrt(log(1/delta))

    for the sum of T >= 3 differences of size at most b, with sigma^2 the sum of their conditional
    variances.

    Parameters
    ----------
    variance, largest : float
        sigma^2 and b.
    chance : float in (0, 1/e]
        delta.

    Examples
    --------
    >>> round(freedman(100.0, 1.0, chance=0.01), 1)
    42.9
    """
    if not 0 < chance <= 1 / math.e:
        raise ValueError(f"chance must be above 0 and at most 1/e, got {chance}")
    root = math.sqrt(math.log(1.0 / chance))
    return max(2.0 * math.sqrt(variance), 3.0 * largest * root) * root


def score_error(bound: float, rounds: float, squares: ArrayLike) -> NDArray[np.float64]:
    """Bound, for each item, how far scores of Algorithm 1 are from l_{1:t}^2 (Lemma 15).

        M(i) <= 10 n^(2/3) L T^(1/3) + 4 sqrt(L) sqrt(r(i) sum_j r(j)),   r = sqrt(l_{1:T}^2)

    for T >= n, theta = (n/T)^(1/3), with high probability and up to logarithms; M(i) is the larger
    of 2 sigma(i) and 6 n L / theta. It is at most 14 L sqrt(n T).

    Parameters
    ----------
    bound, rounds
        L, T.
    squares : array-like of float, shape (n,)
        l_{1:T}^2(i).

    Returns
    -------
    ndarray of float64, shape (n,)

    Examples
    --------
    >>> score_error(1.0, 1000, squares=[1000.0] * 8).round()       # 14 sqrt(8000) = 1252
    array([758., 758., 758., 758., 758., 758., 758., 758.])
    """
    roots = np.sqrt(np.asarray(squares, dtype=np.float64))
    n = len(roots)
    if not rounds >= n:
        raise ValueError(f"the lemma needs T >= n, got T = {rounds}, n = {n}")
    first = 10.0 * n ** (2 / 3) * bound * rounds ** (1 / 3)
    return np.asarray(first + 4.0 * math.sqrt(bound) * np.sqrt(roots * roots.sum()))


def adagrad(diameter: float, second_moments: ArrayLike) -> float:
    """Bound the error of AdaGrad's averaged iterate on a convex objective (Theorem 9).

        2 D / T  sqrt(sum_t E |g_t|^2)

    Examples
    --------
    >>> adagrad(1.0, [4.0] * 16)
    1.0
    """
    moments = np.asarray(second_moments, dtype=np.float64)
    return 2.0 * diameter / len(moments) * math.sqrt(float(moments.sum()))


def strongly_convex_sgd(strength: float, second_moments: ArrayLike) -> float:
    """Bound the error of SGD's weighted iterate for a mu-strongly convex objective (Theorem 10).

        2 / (mu T (T + 1))  sum_t E |g_t|^2,   steps 2 / (mu t), weights proportional to t

    Examples
    --------
    >>> strongly_convex_sgd(0.5, [1.0, 1.0, 1.0])
    1.0
    """
    moments = np.asarray(second_moments, dtype=np.float64)
    return 2.0 / (strength * len(moments) * (len(moments) + 1)) * float(moments.sum())
