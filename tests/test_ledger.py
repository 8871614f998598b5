"""The ledger against brute force."""

import itertools

import numpy as np
import pytest

from tombola import ledger as ledgers
from tombola.ledger import Ledger, best_fixed, mean_estimate, pseudo_regret, student
from tombola.theory import restricted_price

pytestmark = pytest.mark.kernels


def random_games(seed, rounds=40, n=5):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(n), rounds), np.exp(rng.normal(0, 1, (rounds, n)))


def test_account_equals_brute_force():
    p, losses = random_games(0)
    ledger = Ledger(5)
    ledger.record(p[0], losses[0])
    ledger.record(p[1:], losses[1:])
    history = ledger.history()
    for T in (1, 7, 40):
        cost = sum(losses[t, i] ** 2 / p[t, i] for t in range(T) for i in range(5))
        best = sum(np.sqrt((losses[:T, i] ** 2).sum()) for i in range(5)) ** 2
        variance = 0.0
        for t in range(T):
            # the estimate l(I) / (n p(I)): its variance, over all five outcomes
            outcomes = losses[t] / (5 * p[t])
            variance += (p[t] * outcomes**2).sum() - (p[t] * outcomes).sum() ** 2
        assert history["rounds"][T - 1] == T
        assert history["cost"][T - 1] == pytest.approx(cost)
        assert history["best_cost"][T - 1] == pytest.approx(best)
        assert history["regret"][T - 1] == pytest.approx((cost - best) / 25)
        assert history["variance"][T - 1] == pytest.approx(variance)
        assert history["ideal_cost"][T - 1] == pytest.approx((losses[:T].sum(1) ** 2).sum())
        assert history["uniform_cost"][T - 1] == pytest.approx(5 * (losses[:T] ** 2).sum())
    assert ledger.table()[-1]["regret"] == ledger.regret
    assert ledger.table()[-1]["variance"] == ledger.variance
    assert len(str(ledger).splitlines()) == 41


def test_best_distribution_has_the_best_cost():
    p, losses = random_games(1)
    ledger = Ledger(5)
    ledger.record(p, losses)
    for p_min in (0.0, 0.05, 0.15, 0.2):
        best = ledger.best_distribution(p_min)
        assert best.sum() == pytest.approx(1)
        assert best.min() >= p_min
        assert ledger.best_cost(p_min) == pytest.approx((ledger.squares / best).sum())
    assert ledger.best_cost(0.2) == pytest.approx(ledger.uniform_cost)


def minimised(squares, p_min):
    """Minimise sum squares / p by moving mass between two items at a time, on a fine grid."""
    n = len(squares)
    p = np.full(n, 1 / n)
    shares = np.linspace(0, 1, 2001)
    for _ in range(60):
        for i, j in itertools.combinations(range(n), 2):
            free = p[i] + p[j] - 2 * p_min
            first = p_min + free * shares[1:-1]
            second = p[i] + p[j] - first
            k = (squares[i] / first + squares[j] / second).argmin()
            p[i], p[j] = first[k], second[k]
    return p


@pytest.mark.parametrize("p_min", [0.0, 0.03, 0.12, 0.24, 0.25])
@pytest.mark.parametrize("seed", range(4))
def test_restricted_simplex_against_a_minimiser(p_min, seed):
    squares = np.exp(np.random.default_rng(seed).normal(0, 3, 4))
    closed = best_fixed(squares, p_min)
    found = minimised(squares, p_min)
    assert closed.sum() == pytest.approx(1)
    assert closed.min() >= p_min
    assert (squares / closed).sum() <= (squares / found).sum() * (1 + 1e-12)
    assert (squares / closed).sum() == pytest.approx((squares / found).sum(), rel=1e-3)
    if p_min <= 1 / 8:  # Lemma 6
        best = np.sqrt(squares).sum() ** 2
        assert (squares / closed).sum() - best <= restricted_price(squares, p_min) + 1e-9 * best


def test_best_fixed_edges():
    assert best_fixed([0.0, 0.0]).tolist() == [0.5, 0.5]
    assert best_fixed([4.0, 0.0]).tolist() == [1.0, 0.0]
    assert best_fixed([4.0]).tolist() == [1.0]
    with pytest.raises(ValueError, match="p_min"):
        best_fixed([1.0, 1.0], 0.6)


def test_a_loss_of_zero_is_free_and_an_impossible_item_is_not():
    ledger = Ledger(2)
    ledger.record([1.0, 0.0], [2.0, 0.0])
    assert ledger.cost == 4
    ledger.record([1.0, 0.0], [2.0, 1.0])
    assert ledger.cost == np.inf


def test_marks():
    p, losses = random_games(2)
    for marks, expected in [
        ("all", list(range(1, 41))),
        ("geometric", [1, 2, 3, 4, 5, 6, 8, 10, 13, 17, 22, 29, 38, 40]),
        ([30, 10], [10, 30, 40]),
        ([], [40]),
    ]:
        ledger = Ledger(5, marks=marks)
        ledger.record(p, losses)
        assert ledger.history()["rounds"].tolist() == expected
    whole = Ledger(5)
    whole.record(p, losses)
    assert whole.regret == ledger.regret


@pytest.mark.parametrize(
    ("p", "losses", "message"),
    [
        ([0.5, 0.5], [1.0, -1.0], r"losses\[0, 1\] is -1.0"),
        ([0.5, 0.5], [np.nan, 1.0], r"losses\[0, 0\] is nan"),
        ([0.5, 0.6], [1.0, 1.0], r"sum of probabilities\[0\] is 1.1"),
        ([1.5, -0.5], [1.0, 1.0], r"probabilities\[0, 0\] is 1.5"),
        ([0.5, 0.5, 0.0], [1.0, 1.0, 1.0], "shape"),
        ([[0.5, 0.5], [0.5, 0.5]], [[1.0, 1.0], [np.inf, 1.0]], r"losses\[1, 0\] is inf"),
    ],
)
def test_errors_leave_the_ledger_alone(p, losses, message):
    ledger = Ledger(2)
    with pytest.raises(ValueError, match=message):
        ledger.record(p, losses)
    assert (ledger.rounds, ledger.cost, ledger.squares.sum()) == (0, 0, 0)


def test_bad_arguments():
    with pytest.raises(ValueError, match="n must be"):
        Ledger(0)
    with pytest.raises(ValueError, match="marks must be"):
        Ledger(2, marks="often")
    with pytest.raises(ValueError, match="share n and rounds"):
        pseudo_regret([Ledger(2), Ledger(3)])
    with pytest.raises(ValueError, match="confidence"):
        student(1.0, 3)


def test_student_against_tables():
    for freedom, quantile in [(1, 12.706), (2, 4.303), (3, 3.182), (9, 2.262), (30, 2.042)]:
        assert student(0.95, freedom) == pytest.approx(quantile, abs=1e-3)
    assert student(0.95, 10_000) == pytest.approx(1.9602, abs=1e-4)


def games(seeds, same):
    out = []
    for seed in range(seeds):
        p, losses = random_games(seed)
        ledger = Ledger(5, marks=[])
        ledger.record(p, random_games(0)[1] if same else losses)
        out.append(ledger)
    return out


def test_pseudo_regret():
    same = games(6, same=True)
    assert pseudo_regret(same) == pytest.approx(mean_estimate([g.regret for g in same]))
    other = games(6, same=False)
    cost = np.mean([g.cost for g in other])
    best = np.sqrt(np.mean([g.squares for g in other], axis=0)).sum() ** 2
    estimate = pseudo_regret(other)
    assert estimate.value == pytest.approx((cost - best) / 25)
    assert estimate.low < estimate.value < estimate.high
    assert estimate.value <= np.mean([g.regret for g in other])  # the minimum is concave
    assert pseudo_regret(other[:1]).value == pytest.approx(other[0].regret)
    assert pseudo_regret(other[:1]).high == np.inf


def test_a_sheet_is_cleared_when_it_is_added():
    sheet = ledgers.new_sheet(3)
    sheet.losses[:] = 1.0
    assert ledgers.account(sheet, 2.0) == -1
    ledger = Ledger(3, marks="geometric")
    ledger.add(sheet, 2)
    assert ledger.cost == pytest.approx(18)
    assert (sheet.squares == 0).all()
    sheet.losses[1] = np.inf
    assert ledgers.account(sheet, 1.0) == 1
