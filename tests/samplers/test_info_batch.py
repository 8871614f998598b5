"""InfoBatch: which items an epoch keeps, with what weight, over all choices; and when."""

import itertools

import numpy as np
import pytest

import tombola
from states import same
from tombola.checkpoint import CheckpointError
from tombola.samplers import deck
from tombola.samplers.rivals import info_batch

LOSSES = np.array([0.1, 0.2, 5.0, 0.3, 6.0, 0.1])  # 1.95 on average
LOW, HIGH = [0, 1, 3, 5], [2, 4]


def play(sampler, epochs, losses=LOSSES):
    """Play whole epochs; return the items of each."""
    played = []
    for _ in range(epochs):
        first = sampler.draw(1)  # decides on the length
        rest = sampler.draw(sampler.epoch_length - 1)
        for draw in (first, rest):
            sampler.update(draw, losses[draw.indices])
        played.append([*first.indices.tolist(), *rest.indices.tolist()])
    return played


def chosen(sampler, monkeypatch, begin=None):
    """The epochs that may follow, over all choices at their start."""
    state = sampler.state_dict()
    for name in ("kept_of", "mean_loss", "swap_in"):
        kernel = getattr(info_batch, name)
        monkeypatch.setattr(info_batch, name, getattr(kernel, "py_func", kernel))
    kernel = info_batch.begin_epoch
    begin = begin or getattr(kernel, "py_func", kernel)
    for script in itertools.product(range(4), range(3)):  # two of four are kept
        sampler.load_state_dict(state)
        words = iter(script)
        monkeypatch.setattr(deck, "next_below", lambda *_, words=words: next(words))
        begin(sampler.state)
        yield sampler.state.deck.items[: sampler.epoch_length].tolist()


def test_an_epoch_keeps_each_item_below_the_mean_equally_often(monkeypatch):
    sampler = tombola.InfoBatch(6, 20, seed=1)
    play(sampler, 2)
    epochs = list(chosen(sampler, monkeypatch))
    assert len(epochs) == 12
    times = np.zeros(6, dtype=int)
    for epoch in epochs:
        assert len(set(epoch)) == len(epoch) == 4
        times[epoch] += 1
    assert times.tolist() == [6, 6, 12, 6, 12, 6]  # one half, or always
    # so the expected sum over an epoch with importances is exactly 4 times the mean
    np.testing.assert_allclose(times / 12 / (6 * sampler.probabilities()), 4 / 6)


def keep_the_first(state):
    """An epoch that keeps the first ones, by number: not random."""
    deck.next_below(None, None)
    state.deck.items[:4] = HIGH + LOW[:2]
    state.epoch[0].length = 4


def test_an_epoch_that_is_not_random_is_seen(monkeypatch):
    sampler = tombola.InfoBatch(6, 20, seed=1)
    play(sampler, 2)
    times = np.zeros(6, dtype=int)
    for epoch in chosen(sampler, monkeypatch, keep_the_first):
        times[epoch] += 1
    assert times.tolist() != [6, 6, 12, 6, 12, 6]


@pytest.mark.parametrize(
    ("epochs", "until", "lengths"),
    [
        (8, 0.875, [6, 4, 4, 4, 4, 4, 4, 6, 6, 6]),
        (10, 0.875, [6, 4, 4, 4, 4, 4, 4, 4, 4, 6, 6]),  # 8.75: the published code gets it wrong
        (3, 1.0, [6, 4, 4, 6, 6]),
        (3, 0.0, [6, 6, 6]),
    ],
)
def test_the_first_epoch_and_the_last_eighth_are_full(epochs, until, lengths):
    sampler = tombola.InfoBatch(6, epochs, until=until, seed=1)
    assert [len(epoch) for epoch in play(sampler, len(lengths))] == lengths
    assert sampler.probabilities().tolist() == [1 / 6] * 6  # weights are those of a full epoch


def test_the_first_epoch_is_full_whatever_is_known():
    sampler = tombola.InfoBatch(6, 20, seed=1)
    sampler.update(tombola.Draw(np.arange(6), np.full(6, 1 / 6), 6), LOSSES)  # another's draw
    assert [len(epoch) for epoch in play(sampler, 2)] == [6, 4]


@pytest.mark.parametrize(("prune", "kept"), [(0.0, 5), (0.2, 4), (0.5, 3), (0.9, 1), (0.99, 1)])
def test_weights_are_counts_over_kept_for_any_share(prune, kept):
    losses = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 9.0, 9.0])
    sampler = tombola.InfoBatch(7, 100, prune=prune, seed=1)
    epochs = play(sampler, 4, losses)
    assert [len(epoch) for epoch in epochs] == [7] + [2 + kept] * 3
    weights = 1 / sampler.probabilities()
    np.testing.assert_allclose(weights[:5] / weights[5], 5 / kept)
    assert sampler.probabilities().sum() == pytest.approx(1)
    # those published: 1, and count / kept
    importances = 1 / (7 * sampler.probabilities())
    np.testing.assert_allclose(importances * 7 / sampler.epoch_length, [5 / kept] * 5 + [1.0] * 2)


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e300, 5e-324, 0.0])
def test_equal_losses_are_not_below_their_mean(value):
    sampler = tombola.InfoBatch(1000, 100, seed=1)
    assert [len(epoch) for epoch in play(sampler, 3, np.full(1000, value))] == [1000] * 3


def test_items_without_a_loss_are_kept():
    sampler = tombola.InfoBatch(6, 100, seed=1)
    draw = sampler.draw(6)
    known = np.isin(draw.indices, [0, 2])
    sampler.update(draw[known], LOSSES[draw.indices[known]])
    assert sorted(play(sampler, 1)[0]) == [0, 1, 2, 3, 4, 5]  # one is below: it is kept, of one
    sampler.reset()
    draw = sampler.draw(6)
    known = np.isin(draw.indices, [0, 1, 2])
    sampler.update(draw[known], LOSSES[draw.indices[known]])
    assert len(play(sampler, 1)[0]) == 5


def test_the_latest_loss_counts():
    sampler = tombola.InfoBatch(6, 100, seed=1)
    play(sampler, 1)
    play(sampler, 1, LOSSES[::-1].copy())
    full = tombola.Draw(np.arange(6), np.full(6, 1 / 6), 6)
    sampler.update(full, LOSSES.max() - LOSSES)
    epoch = play(sampler, 1)[0]
    assert set(LOW) <= set(epoch)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"epochs": 0}, ValueError, "epochs must be at least 1, got 0"),
        ({"epochs": 2.5}, TypeError, "epochs must be an integer, got 2.5"),
        ({"epochs": 5, "prune": 1.0}, ValueError, "prune must be at least 0 and less than 1"),
        ({"epochs": 5, "prune": -0.1}, ValueError, "prune must be at least 0 and less than 1"),
        ({"epochs": 5, "until": 1.5}, ValueError, "until must be from 0 to 1, got 1.5"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        tombola.InfoBatch(6, **arguments)


def leave_out_a_high_one(parts):
    items = parts["deck"]["items"]
    place = items.tolist().index(2)
    items[place], items[-1] = items[-1], items[place]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda parts: parts["below"].__setitem__(2, 1), "epoch.below is 4, but the epoch has 5"),
        (lambda parts: parts["epoch"].update(kept=1), "epoch.kept is 1, but the epoch has 2"),
        (lambda parts: parts["epoch"].update(length=5), "epoch.length is 5, but the epoch has 4"),
        (lambda parts: parts["deck"]["turn"].update(place=4), "place is not below the 4 items"),
        (leave_out_a_high_one, "leaves out an item that was not below the mean"),
        (lambda parts: parts["losses"].__setitem__(1, np.inf), r"losses\[1\] must be .*, got inf"),
    ],
)
def test_a_state_whose_epoch_is_wrong_is_refused(damage, message):
    sampler = tombola.InfoBatch(6, 20, seed=1)
    play(sampler, 2)
    sampler.draw(1)
    state, before = sampler.state_dict(), sampler.state_dict()
    damage(state["parts"])
    with pytest.raises(CheckpointError, match=message):
        sampler.load_state_dict(state)
    assert same(sampler.state_dict(), before)
