"""K-Vib: its inclusion probabilities against an optimiser, coins, nominal sizes, refusals."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch.utils.data import TensorDataset

import tombola
from tombola import Draw
from tombola.problems import LeastSquares
from tombola.samplers.rivals import k_vib
from tombola.solvers import SGD
from tombola.torch import ImportanceLoader

N = 8


def learnt(losses, seed=1, rounds=40, **options):
    sampler = tombola.KVib(len(losses), seed=seed, **{"bound": 1.0, "mixing": 0.2} | options)
    for _ in range(rounds):
        draw = sampler.draw(3)
        sampler.update(draw, np.asarray(losses)[draw.indices])
    return sampler


def chances_of(sampler, size):
    """Expected times of all items as fractions: exactly those of the coins."""
    unit = k_vib._unit(size)
    chances = k_vib.compute_chances(sampler.state, size, unit)
    return [Fraction(int(chance), unit) for chance in chances]


@pytest.mark.parametrize("size", [1, 3, 5, 7, 8])
def test_chances_minimise_the_cost_of_the_paper(size):
    losses = np.array([0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.9, 1.0])
    sampler = learnt(losses, rounds=300)
    theta, prior = 0.2, N / (0.2 * size)
    evidence = sampler.state.scores / sampler.state.constants[0].unit ** 2 + prior
    found = minimize(
        lambda pi: (evidence / pi).sum() / evidence.sum(),
        np.full(N, size / N),
        jac=lambda pi: -evidence / pi**2 / evidence.sum(),
        bounds=[(1e-9, 1.0)] * N,
        constraints={"type": "eq", "fun": lambda pi: pi.sum() - size, "jac": lambda pi: np.ones(N)},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
    )
    expected = (1 - theta) * found.x + theta * size / N
    chances = chances_of(sampler, size)
    np.testing.assert_allclose([float(pi) for pi in chances], expected, atol=2e-5)
    assert sum(chances) == size
    assert max(chances) <= 1


def test_without_the_root_or_with_an_item_above_one_it_would_be_seen():
    """What the published code does, next to ours."""
    sampler = learnt(np.linspace(0.1, 1.0, N), rounds=300)
    evidence = sampler.state.scores + N / (0.2 * 5)
    ours = np.array([float(pi) for pi in chances_of(sampler, 5)])
    for wrong in (5 * evidence / evidence.sum(), 5 * np.sqrt(evidence) / np.sqrt(evidence).sum()):
        mixed = 0.8 * wrong + 0.2 * 5 / N
        assert np.abs(mixed - ours).max() > 1e-3


@pytest.mark.parametrize("size", [2, 3, 9])
def test_estimates_are_unbiased_over_all_coins(size):
    """Every outcome of the coins, with its probability: the expectation is the mean, exactly."""
    n = 4
    sampler = learnt([0.1, 0.2, 0.4, 1.0])
    chances = chances_of(sampler, size)
    values = [Fraction(3), Fraction(-1), Fraction(7), Fraction(2)]
    expectation, empty, total = Fraction(0), Fraction(0), Fraction(0)
    for coins in itertools.product((0, 1), repeat=n):
        weight = Fraction(1)
        for coin, pi in zip(coins, chances, strict=True):
            rest = pi - pi.numerator // pi.denominator
            weight *= rest if coin else 1 - rest
        times = [
            coin + pi.numerator // pi.denominator for coin, pi in zip(coins, chances, strict=True)
        ]
        # Draw.mean: the sum of v / (n p) over the nominal size, with p = pi / size
        estimate = (
            sum(t * v * size / (n * pi) for t, v, pi in zip(times, values, chances, strict=True))
            / size
        )
        expectation, total = expectation + weight * estimate, total + weight
        empty += weight if not any(times) else 0
    assert total == 1
    assert expectation == sum(values) / n
    assert (empty > 0) == (size < n)


def test_chances_of_uniform_draws_are_equal_to_the_last_unit():
    sampler = tombola.KVib(4, bound=1.0, mixing=1.0)
    sampler.state.scores[:] = 1e6, 1.0, 0.0, 0.0
    for size in (1, 3, 4, 6):
        assert chances_of(sampler, size) == [Fraction(size, 4)] * 4


def test_a_draw_of_size_n_has_every_item_once():
    """Whatever was learnt, there is no choice: every chance is 1, to the last unit."""
    sampler, rng = tombola.KVib(5, bound=1.0, mixing=0.5), np.random.default_rng(0)
    for _ in range(50):
        sampler.state.scores[:] = 10.0 ** rng.uniform(-3, 6, 5)
        assert chances_of(sampler, 5) == [1] * 5


@pytest.mark.parametrize("size", [1, 2, 3])
def test_both_terms_of_a_chance_are_rounded_up_by_at_most_a_unit(size):
    """The first item has almost all of the evidence: its pi is 1, others may have a pi of 0."""
    sampler, unit = tombola.KVib(4, bound=1.0, mixing=0.5), k_vib._unit(size)
    sampler.state.scores[0] = 2.0**900
    excess = [(chance - Fraction(size, 8)) * unit for chance in chances_of(sampler, size)]
    assert min(excess) >= 0  # above theta K / n
    assert max(excess) <= unit // 2 + 2  # 1 - theta more
    if size == 1:
        assert excess[1:] == [1] * 3


def test_coins_are_those_of_the_chances():
    chances, unit, runs = np.array([1, 3, 0, 9, 4, 12]), 4, 4000
    stream, counts = tombola.Stream(3), np.zeros((runs, 6), dtype=int)
    for run in range(runs):
        items = k_vib.flip_coins(chances, unit, stream.state, 7)
        counts[run] = np.bincount(items, minlength=6)
    assert (counts.min(axis=0) == chances // unit).all()
    assert (counts.max(axis=0) == -(-chances // unit)).all()
    error = np.abs(counts.mean(axis=0) - chances / unit)
    assert (error < 6 * 0.5 / np.sqrt(runs)).all()
    together = np.corrcoef(counts[:, [0, 1, 3]].T)  # independent coins
    assert np.abs(together - np.eye(3)).max() < 6 / np.sqrt(runs)


def test_draws_carry_their_nominal_size_and_may_be_empty():
    sampler = tombola.KVib(20, bound=1.0, mixing=0.5, seed=1)
    draws = [sampler.draw(2) for _ in range(200)]
    sizes = {len(draw) for draw in draws}
    assert {0, 1, 2, 3, 4} <= sizes
    assert all(draw.size == draw.nominal == 2 for draw in draws)
    empty = next(draw for draw in draws if not len(draw))
    assert empty.mean([]) == 0.0
    assert empty.mean(np.zeros((0, 3))).tolist() == [0.0, 0.0, 0.0]
    assert np.mean([draw.mean(np.ones(len(draw))) for draw in draws]) == pytest.approx(1, abs=0.25)
    sampler.update(empty, [])
    nothing = sampler.draw(0)
    assert nothing.size == 0
    assert nothing.indices.shape == nothing.probabilities.shape == (0,)
    with pytest.raises(ValueError, match="estimates nothing"):
        nothing.mean([])


def test_parts_of_a_draw_of_nominal_size_add_up():
    draw = Draw([0, 1, 4], [0.1, 0.2, 0.3], 5, nominal=4)
    values = np.array([1.0, 2.0, 3.0])
    assert draw.mean(values) == pytest.approx((1 / 0.5 + 2 / 1.0 + 3 / 1.5) / 4)
    parts = draw[:1].mean(values[:1]) + draw[1:].mean(values[1:])
    assert parts == pytest.approx(draw.mean(values))
    with pytest.raises(ValueError, match="does not split"):
        draw.split(3)
    assert Draw.read(draw.to_dict()) == draw != Draw([0, 1, 4], [0.1, 0.2, 0.3], 5)
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="nominal must be from 1"):
            Draw([0], [0.5], 5, nominal=wrong)


def test_draws_of_nominal_size_are_saved(tmp_path):
    draw = tombola.KVib(20, bound=1.0, mixing=0.5, seed=1).draw(3)
    tombola.save(draw, tmp_path / "draw.npz")
    assert tombola.load(tmp_path / "draw.npz") == draw


def test_scores_add_losses_over_inclusion():
    sampler = tombola.KVib(4, bound=4.0, mixing=0.5, seed=1)
    draw = Draw([1, 3], [0.2, 0.1], 4, nominal=3)
    sampler.update(draw, [1.0, 2.0])
    unit = sampler.state.constants[0].unit
    np.testing.assert_allclose(sampler.state.scores / unit**2, [0, 1 / 0.6, 0, 4 / 0.3])


def test_theta_is_that_of_the_horizon():
    sampler = tombola.KVib(8, bound=1.0, horizon=512)
    assert sampler.state.constants[0].mixing == pytest.approx(0.25, abs=1e-9)
    assert tombola.KVib(8, bound=1.0, horizon=7).state.constants[0].mixing == 1.0
    assert tombola.VRB(8, bound=1.0, horizon=7).state.rule[0].mixing == 1.0


def test_the_uniform_share_bounds_importances():
    sampler = learnt(np.array([1e-3] * 7 + [1.0]), mixing=0.05, rounds=400)
    for size in (1, 3, 8, 20):
        draw = sampler.draw(size)
        p = sampler.probabilities()
        assert p.sum() == pytest.approx(1)
        assert 1 / (N * p.min()) <= sampler.gauge.importance_limit
        assert (draw.probabilities == p[draw.indices]).all()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, TypeError, "bound"),
        ({"bound": 1.0}, ValueError, "give one of mixing and horizon"),
        ({"bound": 1.0, "mixing": 0.5, "horizon": 9}, ValueError, "give one of mixing and horizon"),
        ({"bound": -1.0, "mixing": 0.5}, ValueError, r"bound\[0\] is -1.0"),
        ({"bound": [1.0, 2.0], "mixing": 0.5}, ValueError, "bound must be one number"),
        ({"bound": 1.0, "mixing": 0.0}, ValueError, "mixing must be above 0"),
    ],
)
def test_bad_arguments_are_named(options, error, message):
    with pytest.raises(error, match=message):
        tombola.KVib(5, **options)
    with pytest.raises(ValueError, match=r"size must be at most 2\^31"):
        tombola.KVib(5, bound=1.0, mixing=0.5).draw(2**31 + 1)


def test_the_largest_draw_is_allowed(monkeypatch):
    monkeypatch.setattr(k_vib, "LARGEST_DRAW", 6)  # 2^31 items would not fit into memory
    sampler = tombola.KVib(3, bound=1.0, mixing=1.0)
    assert sampler.draw(6).indices.tolist() == [0, 0, 1, 1, 2, 2]
    with pytest.raises(ValueError, match="size must be at most"):
        sampler.draw(7)


def test_what_needs_batches_of_a_size_refuses_it():
    sampler = tombola.KVib(3, bound=1.0, mixing=0.5)
    problem = LeastSquares([[1.0], [2.0], [3.0]], [1.0, 2.5, 2.0])
    with pytest.raises(TypeError, match="KVib draws a random number of items"):
        SGD(0.1).minimize(problem, sampler=sampler, rounds=5)
    with pytest.raises(TypeError, match="KVib draws a random number of items"):
        ImportanceLoader(TensorDataset(torch.arange(3)), 2, sampler=sampler)
