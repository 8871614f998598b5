"""Games: the compiled loop against the Python one, adversaries against their formulas."""

import copy
import pickle
from statistics import NormalDist

import numpy as np
import pytest

import budget
from states import assert_same
from test_theory import expected_cost
from tombola import VRB, Sampler, Shuffle, Stream, Uniform, theory
from tombola.ledger import Ledger, pseudo_regret
from tombola.simulate import (
    Adversary,
    Decaying,
    Equal,
    Neglect,
    Noisy,
    Outlier,
    Sparse,
    Starved,
    Stationary,
    Switching,
    log_normal,
    play,
)
from tombola.simulate.randomness import LOSSES, ROUNDS
from tombola.state import derived

BASE = [3.0, 1.0, 0.5, 2.0, 1.0, 0.1]


class Slow:
    """Hides the state of a sampler, so that it plays in Python."""

    def __init__(self, sampler):
        self.n, self.feedback = sampler.n, sampler.feedback
        self.draw, self.update = sampler.draw, sampler.update
        self.probabilities = sampler.probabilities


class FTRL(Sampler):
    """A stand-in with full information: p ~ sqrt(sum of squared losses + L)."""

    feedback = "all"

    def __init__(self, n, bound=1.0, seed=0):
        super().__init__(n, seed, {"bound": bound})
        self.squares = np.full(n, float(bound))

    def probabilities(self):
        return np.sqrt(self.squares) / np.sqrt(self.squares).sum()

    def _draw(self, size):
        return np.zeros(size, dtype=np.int64), np.full(size, self.probabilities()[0])

    def _update(self, draw, losses):
        raise AssertionError("this player needs all losses")

    def update_all(self, losses):
        self.squares += losses**2


def makers():
    return [
        lambda: VRB(6, bound=9.0, horizon=300, seed=3),
        lambda: VRB(6, seed=4),
        lambda: Shuffle(6, seed=5),
    ]


@pytest.mark.kernels
@pytest.mark.parametrize("options", [{}, {"batch_size": 7}, {"feed": False}, {"stride": 5}])
@pytest.mark.parametrize("make", makers())
def test_compiled_and_python_loops_play_the_same_game(make, options):
    fast, slow = make(), make()
    compiled = play(fast, Stationary(BASE), 300, **options)
    python = play(Slow(slow), Stationary(BASE), 300, **options)
    assert compiled.table() == python.table()
    assert_same(fast.state_dict(), slow.state_dict())
    assert fast.rounds == 300


@pytest.mark.kernels
@pytest.mark.parametrize("adversary", [lambda: Noisy(BASE, seed=1), lambda: Neglect(BASE)])
def test_the_same_against_moving_losses(adversary):
    fast, slow = makers()[0](), makers()[0]()
    first, second = adversary(), adversary()
    assert play(fast, first, 200).table() == play(Slow(slow), second, 200).table()
    assert first.rounds == second.rounds == 200


@pytest.mark.kernels
def test_a_game_can_be_continued():
    whole, parts = makers()[0](), makers()[0]()
    ledger = play(whole, Noisy(BASE, seed=1), 500)
    adversary, account = Noisy(BASE, seed=1), Ledger(6, marks="geometric")
    for rounds in (1, 0, 123, 376):
        play(parts, adversary, rounds, ledger=account)
    assert np.array_equal(whole.state.scores, parts.state.scores)
    assert account.regret == pytest.approx(ledger.regret, rel=1e-12)
    assert account.history()["rounds"].tolist() == ledger.history()["rounds"].tolist()


@pytest.mark.kernels
def test_account_of_a_game():
    """Cost and regret, by the formulas, from the distributions of a Python loop."""
    sampler, adversary = makers()[0](), Noisy(BASE, seed=2)
    cost, squares = 0.0, np.zeros(6)
    for _ in range(100):
        draw = sampler.draw(1)
        p = sampler.probabilities()
        losses = adversary.losses(p)
        assert p[draw.indices[0]] == draw.probabilities[0]
        cost += (losses**2 / p).sum()
        squares += losses**2
        sampler.update(draw, losses[draw.indices])
    ledger = play(makers()[0](), Noisy(BASE, seed=2), 100)
    assert ledger.cost == pytest.approx(cost)
    assert ledger.regret == pytest.approx((cost - np.sqrt(squares).sum() ** 2) / 36)


def test_a_larger_stride_is_close():
    losses = log_normal(20, 1.5, seed=1)
    exact = play(VRB(20, seed=1), Stationary(losses), 20_000)
    coarse = play(VRB(20, seed=1), Stationary(losses), 20_000, stride=10)
    assert coarse.best_cost() == pytest.approx(exact.best_cost(), rel=1e-12)
    assert coarse.regret == pytest.approx(exact.regret, rel=0.02)
    assert coarse.regret != exact.regret
    for stride, adversary in [(2, Noisy(losses)), (2, Neglect(losses)), (0, Stationary(losses))]:
        with pytest.raises(ValueError, match="stride"):
            play(VRB(20), adversary, 10, stride=stride)


@pytest.mark.kernels
def test_full_information():
    adversary = Switching([1.0, 0.0], [0.0, 1.0], at=30)
    player, ledger = FTRL(2), Ledger(2)
    play(player, adversary, 300, ledger=ledger)
    assert player.squares.tolist() == [31, 271]
    for row in ledger.table():
        assert row["regret"] <= theory.full_information(1.0, rounds=row["rounds"])
    # the wrong player stops learning after ten rounds
    frozen, adversary = FTRL(2), Switching([1.0, 0.0], [0.0, 1.0], at=10)
    ledger = play(frozen, adversary, 10)
    play(frozen, adversary, 5_000, ledger=ledger, feed=False)
    assert ledger.regret > theory.full_information(1.0, rounds=5_010)


def test_theorem_7_and_players_that_break_it():
    n, T = 10, 20_000
    losses = [1.0] * 7 + [0.0] * 3
    right = [play(VRB(n, bound=1.0, horizon=T, seed=s), Stationary(losses), T) for s in range(5)]
    assert 0 < pseudo_regret(right).high < theory.bandit(1.0, n, T)
    wrong = []
    for seed in range(5):  # too little mixing, and no prior
        sampler = VRB(n, bound=1e-20, mixing=0.001, seed=seed)
        wrong.append(play(sampler, Stationary(losses), T))
    assert pseudo_regret(wrong).low > theory.bandit(1.0, n, T)


def deviation(bound, games=2000):
    """The mean cost of short games, from its exact expectation, in standard errors."""
    rounds = 8
    exact = expected_cost([1.0, 0.3], rounds, mixing=0.5)
    costs = []
    for seed in range(games):
        sampler = VRB(2, bound=bound, mixing=0.5, seed=seed)
        costs.append(play(sampler, Stationary([1.0, 0.3]), rounds).cost)
    return abs(np.mean(costs) - exact) / (np.std(costs) / np.sqrt(games))


def test_mean_cost_is_that_of_all_draws():
    """Algorithm 1 over all 2^8 sequences of draws, against games."""
    limit = NormalDist().inv_cdf(1 - budget.ALPHA / 2)
    assert deviation(bound=1.0) < limit
    assert deviation(bound=0.3) > limit  # the wrong sampler has a different bound


# --- adversaries ----------------------------------------------------------------------------


@pytest.mark.kernels
def test_adversaries_against_their_formulas():
    b, other = np.array(BASE), np.arange(1.0, 7.0)
    p = np.full(6, 1 / 6)
    before, after = b.copy(), b.copy()
    before[-1] *= 1e-3
    after[-1] *= 10
    expected = [
        (Stationary(b), lambda t: b),
        (Equal(6, 2.0), lambda t: np.full(6, 2.0)),
        (Switching(b, other, at=4), lambda t: b if t < 4 else other),
        (Decaying(b, other), lambda t: other + (b - other) / np.sqrt(1 + t / 6)),
        (Outlier(6, item=2, at=5), lambda t: np.where((np.arange(6) == 2) & (t == 5), 1e6, 1.0)),
        (Starved(b, at=4), lambda t: before if t < 4 else after),
    ]
    for adversary, formula in expected:
        for t in range(9):
            assert adversary.losses(p) == pytest.approx(formula(t)), (adversary, t)
        assert f"6 items, round {t + 1}" in repr(adversary)


@pytest.mark.kernels
def test_starved_items():
    for n, starved in [(3, 1), (60, 3), (5000, 50)]:
        assert (Starved(np.ones(n), at=1).losses() < 1).sum() == starved


@pytest.mark.kernels
def test_neglect_raises_what_the_player_neglects():
    adversary = Neglect(BASE, low=0.1)
    b = np.array(BASE)
    fair = b / b.sum()
    p = fair.copy()
    p[[0, 3]] = p[0] + 0.01, p[3] - 0.01
    losses = adversary.losses(p)
    assert losses[0] == pytest.approx(0.3)
    assert losses[3] == 2.0
    squares = b**2 + losses**2
    due = np.sqrt(squares) / np.sqrt(squares).sum()
    assert adversary.losses(fair) == pytest.approx(np.where(fair < due, b, 0.1 * b))


def normal_excess(sigma):
    """Chi-square of log-normal(1) losses over 20 classes of equal probability."""
    sample = np.log(log_normal(100_001, sigma, seed=5))
    edges = [NormalDist().inv_cdf(k / 20) for k in range(1, 20)]
    return budget.chi_square_excess(np.bincount(np.searchsorted(edges, sample)), np.ones(20))


def test_log_normal():
    assert normal_excess(1.0) < 1
    assert normal_excess(1.05) > 1  # the wrong one is a little too wide


def sparse_excess(density):
    adversary = Sparse(np.ones(100), density, seed=6)
    kept = sum(np.count_nonzero(adversary.losses()) for _ in range(1000))
    return budget.chi_square_excess([kept, 100_000 - kept], [0.2, 0.8])


def test_sparse():
    assert sparse_excess(0.2) < 1
    assert sparse_excess(0.21) > 1


@pytest.mark.kernels
def test_noise_is_redrawn_for_each_round_and_item():
    adversary = Noisy(np.ones(5), seed=7)
    rounds = np.array([adversary.losses() for _ in range(50)])
    assert len(np.unique(rounds)) == 250
    assert np.array_equal(rounds[0], Noisy(np.ones(5), seed=7).losses())
    assert not np.array_equal(rounds[0], Noisy(np.ones(5), seed=8).losses())


@pytest.mark.kernels
def test_random_words_are_not_shared():
    state = np.random.get_state()[1].copy()
    first = {int(word) for word in Stream(3).words(1000)}
    for child in (LOSSES, ROUNDS, 0, 1):
        words = {int(word) for word in Stream(3).child(child).words(1000)}
        assert not first & words
    play(VRB(6, seed=3), Noisy(BASE, seed=3), 50)
    assert np.array_equal(state, np.random.get_state()[1])


class Broken(Adversary):
    broken: np.ndarray = derived("the loss of item 1 in round 3")

    def __new__(cls, n, loss):
        return cls.build(n, broken=np.array([loss]))

    def fill(self, t, probabilities, out):
        out[:] = 1.0
        if t == 3:
            out[1] = self.broken[0]


@pytest.mark.kernels
@pytest.mark.parametrize("loss", [np.nan, np.inf, -1.0])
@pytest.mark.parametrize("wrap", [lambda sampler: sampler, Slow])
def test_bad_losses(loss, wrap):
    with pytest.raises(ValueError, match="item 1 in round 3"):
        play(wrap(makers()[0]()), Broken(6, loss), 10)


@pytest.mark.kernels
def test_a_game_that_ends_early_counts_the_rounds_that_were_played():
    fast, slow = makers()[0](), makers()[0]()
    for sampler in (fast, Slow(slow)):
        with pytest.raises(ValueError, match="item 1 in round 3"):
            play(sampler, Broken(6, np.nan), 10)
    assert fast.rounds == slow.rounds == 4


@pytest.mark.kernels
def test_bad_arguments():
    with pytest.raises(ValueError, match="adversary has 6"):
        play(Uniform(5), Stationary(BASE), 1)
    with pytest.raises(ValueError, match="ledger is over 5"):
        play(Uniform(6), Stationary(BASE), 1, ledger=Ledger(5))
    with pytest.raises(ValueError, match="batch_size"):
        play(Uniform(6), Stationary(BASE), 1, batch_size=0)
    with pytest.raises(ValueError, match="rounds"):
        play(Uniform(6), Stationary(BASE), -1)


@pytest.mark.kernels
def test_adversaries_can_be_copied():
    adversary = Noisy(BASE, seed=1)
    adversary.losses()
    for twin in (copy.deepcopy(adversary), pickle.loads(pickle.dumps(adversary))):
        after = copy.deepcopy(adversary).losses()
        assert np.array_equal(twin.losses(), after)
        assert adversary.rounds == 1
