"""Epochs that are chosen: enumerated inclusion, exact lengths, equal scores, damaged states."""

import itertools
from collections import Counter

import numpy as np
import pytest

import tombola
from states import same
from tombola import checkpoint
from tombola.checkpoint import CheckpointError
from tombola.samplers import deck, epoch_vrb, water_filling
from tombola.samplers.deck import swap_in

N = 40
LOSSES = (1.0 + np.arange(N) % 9) ** 2


def play(sampler, epochs, losses=LOSSES):
    """Play whole epochs, fed after each batch; return their items."""
    played = []
    for _ in range(epochs):
        draw = sampler.draw(sampler.epoch_length)
        sampler.update(draw, losses[draw.indices])
        played.append(draw.indices)
    return played


# --- what is chosen, over all orders and starts --------------------------------------------------


def inclusion(choose, chances, unit, monkeypatch):
    """How often each item is chosen, over all starts and all swaps of the order; and how many."""
    n, times, runs = len(chances), np.zeros(len(chances), dtype=int), 0
    bounds = [unit, *range(n, 0, -1)]
    for script in itertools.product(*map(range, bounds)):
        words = iter(zip(script, bounds, strict=True))

        def next_below(stream, bound, words=words):
            value, expected = next(words)
            assert bound == expected
            return value

        for module in (water_filling, deck):
            monkeypatch.setattr(module, "next_below", next_below)
        items = np.full(chances.sum() // unit, -1)
        choose(chances, unit, None, items)
        counts = np.bincount(items, minlength=n)  # an item that was not written is an error
        assert (counts >= chances // unit).all()
        assert (counts <= -(-chances // unit)).all()
        times += counts
        runs += 1
    return times, runs


@pytest.mark.parametrize(
    "chances",
    [
        [1, 2, 4, 5],  # of 6: two of four items
        [6, 1, 1, 4],  # one in every epoch
        [13, 2, 7, 2],  # longer epochs: an item two times or three
        [6, 6, 6],  # share 1, equal
        [1, 1, 1, 1, 2],
    ],
)
def test_items_are_chosen_exactly_as_often_as_their_chance_says(chances, monkeypatch):
    chances = np.array(chances)
    choose = getattr(water_filling.choose_items, "py_func", water_filling.choose_items)
    monkeypatch.setattr(water_filling, "swap_in", getattr(swap_in, "py_func", swap_in))
    times, runs = inclusion(choose, chances, 6, monkeypatch)
    assert (times * 6 == chances * runs).all()


def start_at_zero(chances, unit, stream, items):
    """A systematic sample whose first point is not random."""
    water_filling.next_below(stream, unit)
    order = list(range(len(chances)))
    for k in range(len(order)):
        other = k + water_filling.next_below(stream, len(order) - k)
        order[k], order[other] = order[other], order[k]
    line = np.repeat(order, chances[order])
    items[:] = line[::unit]


def test_a_start_that_is_not_random_is_seen(monkeypatch):
    chances = np.array([1, 2, 4, 5])
    times, runs = inclusion(start_at_zero, chances, 6, monkeypatch)
    assert (times * 6 != chances * runs).any()


def test_pairs_can_come_together_in_one_epoch(monkeypatch):
    """A fixed order would never choose neighbours: the order of every epoch is random."""
    sampler = tombola.EpochVRB(4, share=0.5, seed=3)
    pairs = Counter(tuple(sorted(items.tolist())) for items in play(sampler, 600, np.ones(4)))
    assert len(pairs) == 6
    assert min(pairs.values()) > 60


# --- epochs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "length"), [(0.3, 12), (0.5, 20), (1.0, 40), (1.7, 68), (3, 120)]
)
def test_every_epoch_has_exactly_its_length(share, length):
    sampler = tombola.EpochVRB(N, share=share, seed=1)
    assert sampler.epoch_length == length
    for _ in range(12):
        (items,) = play(sampler, 1)
        chances, unit = sampler.state.chances, sampler.state.epoch[0].unit
        np.testing.assert_allclose(sampler.probabilities() * length, chances / unit, rtol=1e-15)
        counts = np.bincount(items, minlength=N)
        assert counts.sum() == length
        assert (counts >= chances // unit).all()
        assert (counts <= -(-chances // unit)).all()
        if share < 1:
            assert counts.max() == 1
    assert sampler.state.chances.sum() == sampler.state.epoch[0].total


def test_equal_scores_at_share_one_are_shuffled_epochs_and_others_are_not():
    sampler = tombola.EpochVRB(N, seed=1)
    orders = play(sampler, 20, np.full(N, 0.3))
    assert all(sorted(items) == list(range(N)) for items in orders)
    assert len({tuple(items) for items in orders}) == 20
    sampler.reset()
    orders = play(sampler, 20)
    assert sorted(orders[0]) == list(range(N))  # nothing is known
    assert not any(sorted(items) == list(range(N)) for items in orders[1:])
    assert all(np.bincount(items, minlength=N)[LOSSES == 81].min() >= 2 for items in orders[5:])


def test_importances_make_the_mean_over_an_epoch_unbiased():
    """The estimate from an epoch, over seeds, against the mean; and what it is without them."""
    right, wrong = [], []
    for seed in range(400):
        sampler = tombola.EpochVRB(N, share=0.5, seed=seed)
        play(sampler, 2)
        draw = sampler.draw(20)
        np.testing.assert_allclose(
            draw.importances, 20 / (N * 20 * sampler.probabilities()[draw.indices])
        )
        right.append(draw.mean(LOSSES[draw.indices]))
        wrong.append(LOSSES[draw.indices].mean())
    error = 6 * np.std(right) / np.sqrt(len(right))
    assert abs(np.mean(right) - LOSSES.mean()) < error
    assert np.mean(wrong) - LOSSES.mean() > 2 * error


def test_scores_are_those_of_vrb():
    sampler, vrb = tombola.EpochVRB(N, seed=1), tombola.VRB(N, seed=1)
    rng = np.random.default_rng(0)
    for k in range(60):
        draw = (sampler, vrb)[k % 2].draw(13)
        losses = LOSSES[draw.indices] * rng.lognormal(size=13) * (1e40 if k == 30 else 1.0)
        sampler.update(draw, losses)
        vrb.update(draw, losses)
    for part in ("scores", "visits"):
        assert (getattr(sampler.state, part) == getattr(vrb.state, part)).all()
    for field in ("unit", "mean_square", "disagreement", "compared", "first_root", "fed"):
        assert sampler.state.rule[field] == vrb.state.rule[field]


def test_batches_cross_the_ends_of_epochs():
    whole, parts = tombola.EpochVRB(N, share=0.7, seed=1), tombola.EpochVRB(N, share=0.7, seed=1)
    together = whole.draw(100)
    apart = [parts.draw(size) for size in (1, 27, 2, 30, 40)]
    assert together.indices.tolist() == np.concatenate([d.indices for d in apart]).tolist()
    for k in range(0, 84, 28):
        assert len(set(together.indices[k : k + 28])) == 28


def test_no_importance_exceeds_one_over_the_mixing():
    sampler = tombola.EpochVRB(N, seed=1)
    losses = np.where(np.arange(N) == 0, 100.0, 1e-6)
    for k in range(1, 30):
        play(sampler, 1, losses)
        sampler.draw(1)
        theta = 0.5 / np.sqrt(k)
        assert 1.5 < 1 / (N * sampler.probabilities().min()) < 1 / theta
        assert sampler.gauge.importance_limit == pytest.approx(1 / theta, rel=1e-6)
        sampler.draw(N - 1)


def test_large_epochs_fit_into_integers():
    sampler = tombola.EpochVRB(3, share=1e6, seed=1)
    assert sampler.epoch_length == 3_000_000
    draw = sampler.draw(3_000_000)
    assert np.bincount(draw.indices).tolist() == [1_000_000] * 3
    assert int(sampler.state.epoch[0].total) < 2**62


@pytest.mark.parametrize(("share", "unit"), [(0.3, 2**32), (0.4, 2**31), (1.0, 2**30)])
def test_chances_of_long_epochs_are_in_larger_units(share, unit, monkeypatch):
    """As for 2^30 draws and more: with a lower limit, epochs of 16 and 40 draws are long."""
    monkeypatch.setattr(epoch_vrb, "TOTAL_BITS", 36)
    sampler = tombola.EpochVRB(N, share=share, seed=1)
    play(sampler, 3)
    epoch = sampler.state.epoch[0]
    assert (epoch.unit, epoch.total) == (unit, round(share * N) * unit)
    assert sampler.state.chances.sum() == epoch.total < 2**36


@pytest.mark.parametrize("share", [0, -0.5, np.nan, np.inf, 1e40])
def test_shares_that_are_no_length_are_refused(share):
    with pytest.raises(ValueError, match="share must be positive"):
        tombola.EpochVRB(5, share=share)


def test_an_epoch_of_too_many_draws_is_refused_before_it_is_made():
    with pytest.raises(ValueError, match=r"an epoch less than 2\^40 draws"):
        tombola.EpochVRB(10**6, share=1e12)


def test_a_small_share_is_one_draw():
    assert tombola.EpochVRB(5, share=0.01).epoch_length == 1


# --- damaged states ------------------------------------------------------------------------------


def lengthen(parts):
    parts["chances"][3] += 1


def exchange(parts):
    items = parts["chosen"]["items"]
    items[0] = items[1]


def overflow(parts):
    parts["chances"][:] = 2**32  # the sum of all is right modulo 2^64 only for other n


def twice(parts):
    parts["chosen"]["items"][:] = (np.arange(20) + 7) % N
    parts["chosen"]["items"][-1] = 7
    parts["chances"][:] = 2**31  # one half


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lengthen, "chances must sum to 85899345920"),
        (overflow, "chances must sum to 85899345920"),
        (exchange, "which its chance rules out"),
        (twice, "item 7 2 times, which its chance rules out"),
    ],
)
def test_a_state_whose_epoch_is_wrong_is_refused(damage, message):
    sampler = tombola.EpochVRB(N, share=0.5, seed=1)
    play(sampler, 3)
    sampler.draw(5)
    state, before = sampler.state_dict(), sampler.state_dict()
    damage(state["parts"])
    with pytest.raises(CheckpointError, match=message):
        sampler.load_state_dict(state)
    assert same(sampler.state_dict(), before)


def test_a_share_cannot_ask_for_more_memory_than_the_file_holds(tmp_path):
    sampler = tombola.EpochVRB(N, share=1.5, seed=1)
    checkpoint.write(tmp_path / "it", sampler.state_dict())
    assert tombola.load(tmp_path / "it").draw(90) == sampler.draw(90)
    state = sampler.state_dict()
    state["parameters"]["share"] = 2.0
    checkpoint.write(tmp_path / "it", state)
    with pytest.raises(CheckpointError, match="has no array of 80 entries"):
        tombola.load(tmp_path / "it")
