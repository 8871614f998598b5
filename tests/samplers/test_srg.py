"""SRG: the last norm seen, refreshed where the coin said "uniform"."""

import pickle

import numpy as np
import pytest

from budget import chi_square_excess
from players import draw_one, update_one
from tombola import SRG, Draw, Uniform
from tombola.random import Stream
from tombola.samplers.rivals.srg import flip
from tombola.samplers.weighted import rebuild

pytestmark = pytest.mark.kernels


def oracle(norms, mixing):
    """The rule of the docstring, once every norm is known."""
    return (1 - mixing) * norms / norms.sum() + mixing / len(norms)


def settle(sampler):
    """Let the sweep pass over all items: feedback for draws that refresh nothing."""
    idle = Draw([0], [1.0], n=sampler.n, tags=[0])
    for _ in range(sampler.n):
        sampler.update(idle, [0.0])


@pytest.mark.parametrize("refresh", ["coin", "always"])
@pytest.mark.parametrize("n", [2, 5, 30])
def test_rule(n, refresh):
    generator = np.random.default_rng(n)
    sampler = SRG(n, mixing=0.3, refresh=refresh)
    norms = generator.uniform(0.5, 2.0, n)
    sampler.update(Draw(range(n), np.full(n, 1 / n), n=n, tags=np.ones(n)), norms)
    settled = norms.copy()
    for _ in range(200):
        assert sampler.probabilities() == pytest.approx(oracle(settled, 0.3), rel=1e-9)
        draw = sampler.draw(3)
        assert draw.probabilities.tolist() == sampler.probabilities()[draw.indices].tolist()
        losses = generator.exponential(size=3)
        sampler.update(draw, losses)
        for j, item in enumerate(draw.indices):
            if refresh == "always" or draw.tags[j] == 1:
                settled[item] = losses[j]
    assert (draw.tags is None) == (refresh == "always")


def test_coin_and_item_have_the_joint_distribution_of_the_rule():
    """Items with the coin are uniform, the others follow q, and the coin has its share."""
    norms, size = np.array([1.0, 2.0, 4.0, 8.0, 0.5]), 20_000
    sampler = SRG(5, mixing=0.4, seed=6)
    sampler.update(Draw(range(5), np.full(5, 0.2), n=5, tags=np.ones(5)), norms)
    settle(sampler)
    draw = sampler.draw(size)
    coins = draw.tags == 1
    uniform = np.bincount(draw.indices[coins], minlength=5)
    others = np.bincount(draw.indices[~coins], minlength=5)
    assert chi_square_excess(uniform, np.ones(5)) < 1
    assert chi_square_excess(others, norms) < 1
    assert chi_square_excess([coins.sum(), size - coins.sum()], [0.4, 0.6]) < 1
    # a coin that does not look at the item is rejected
    wrong = np.random.default_rng(0).uniform(size=size) < 0.4
    assert chi_square_excess(np.bincount(draw.indices[wrong], minlength=5), np.ones(5)) > 1


def test_a_coin_shows_uniform_for_exactly_its_share_of_the_words():
    """53 bits of a word are k: k + 1 of 2^53 is the least share for which it does."""
    k = int(Stream(3).words(1)[0]) >> 11
    assert not flip(Stream(3).state, k / 2**53)
    assert flip(Stream(3).state, (k + 1) / 2**53)


def test_feedback_without_tags_refreshes_a_uniform_sample():
    """Draws of another sampler, far from uniform: the coin makes them so, at the rate asked for."""
    norms = np.array([1.0, 3.0, 12.0])
    chances = norms / norms.sum()
    sampler = SRG(3, mixing=0.1)
    refreshed = np.zeros(3, dtype=int)
    items = np.random.default_rng(1).choice(3, size=20_000, p=chances)
    for item in items:
        sampler.state.losses[item] = -1.0
        update_one(sampler.state, item, chances[item], norms[item])
        refreshed[item] += sampler.state.losses[item] >= 0
    assert chi_square_excess(refreshed, np.ones(3)) < 1
    assert chi_square_excess(np.bincount(items, minlength=3), np.ones(3)) > 1
    assert 0.08 < refreshed.sum() / 20_000 < 0.12


def test_untagged_uniform_feedback_always_refreshes_with_full_mixing():
    sampler = SRG(4, mixing=1.0)
    sampler.update(Uniform(4).draw(50), np.ones(50))
    assert (sampler.state.losses >= 0).all()


def test_items_not_seen_take_the_mean():
    sampler = SRG(6, mixing=0.2)
    sampler.update(Draw([1, 2, 1], [0.3, 0.2, 0.3], n=6, tags=[1, 1, 1]), [6.0, 3.0, 3.0])
    settle(sampler)
    assert sampler.probabilities() == pytest.approx(
        oracle(np.array([4.0, 3.0, 3.0, 4.0, 4.0, 4.0]), 0.2), rel=1e-9
    )


def test_mean_of_refresh_always_corrects_for_the_draws():
    """Losses count by theta / (n p) in the mean, as if items had been drawn uniformly."""
    sampler = SRG(4, mixing=0.4, refresh="always")
    sampler.update(Draw([0, 1], [0.1, 0.4], n=4), [1.0, 4.0])  # shares 1 and 1/4
    rebuild(sampler.state)
    assert sampler.probabilities() == pytest.approx(
        oracle(np.array([1.0, 4.0, 1.6, 1.6]), 0.4), rel=1e-9
    )
    sampler.update(Draw([0], [1e-60], n=4), [0.0])
    assert np.isfinite(sampler.probabilities()).all()


@pytest.mark.parametrize("refresh", ["coin", "always"])
def test_weights_never_vanish(refresh):
    sampler = SRG(5, refresh=refresh)
    sampler.update(sampler.draw(20), np.zeros(20))
    assert sampler.probabilities().tolist() == [0.2] * 5
    everything = Draw(range(5), np.full(5, 0.1), n=5, tags=np.ones(5))
    sampler.update(everything, [3.0, 0.0, 0.0, 1.0, 0.0])
    settle(sampler)
    for _ in range(5):
        sampler.update(everything, np.zeros(5))
    settle(sampler)
    assert sampler.probabilities() == pytest.approx(np.full(5, 0.2), rel=1e-3)
    assert sampler.state.index.weights.min() > 2**10  # as fine as ever: no rebuild at each update
    rebuild(sampler.state)
    assert sampler.probabilities().tolist() == [0.2] * 5


def test_only_an_item_of_norm_zero_is_left_to_the_uniform_share():
    sampler = SRG(3, mixing=0.3)
    sampler.update(Draw(range(3), [0.3] * 3, n=3, tags=[1] * 3), [1.0, 0.0, 1.0])
    settle(sampler)
    assert sampler.probabilities() == pytest.approx([0.45, 0.1, 0.45], rel=1e-9)


@pytest.mark.parametrize("first", [1e-308, 1e-200, 1.0, 1e200, 1e308])
def test_extremes(first):
    sampler = SRG(4)
    draw = Draw(range(4), [0.25] * 4, n=4, tags=[1] * 4)
    for losses in ([first] * 4, [1e200, 1.0, 1e-200, 0.0], [1e308] * 4, [5e-324] * 4, [first] * 4):
        sampler.update(draw, losses)
        settle(sampler)
        chances = sampler.probabilities()
        assert chances.sum() == pytest.approx(1)
        assert (chances >= 0.124).all()
        sampler.draw(5)


def test_unit_of_the_losses_does_not_matter():
    samplers = [SRG(6, seed=2) for _ in range(3)]
    for _ in range(50):
        draws = [sampler.draw(2) for sampler in samplers]
        assert draws[0] == draws[1] == draws[2]
        for sampler, scale in zip(samplers, (1.0, 1024.0, 2.0**-300), strict=True):
            sampler.update(draws[0], scale * (draws[0].indices / 5))


def test_one_item():
    sampler = SRG(1)
    for loss in (0.0, 2.0, 0.0, 0.0):
        draw = sampler.draw(3)
        assert draw.importances.tolist() == [1.0] * 3
        sampler.update(draw, [loss] * 3)


def test_an_empty_draw_uses_no_randomness_and_halves_make_a_whole():
    sampler, whole = SRG(7, seed=1), SRG(7, seed=1)
    before = pickle.dumps(sampler.state_dict()["parts"])
    assert sampler.draw(0).tags.size == 0
    assert pickle.dumps(sampler.state_dict()["parts"]) == before
    parts, draw = [sampler.draw(20), sampler.draw(30)], whole.draw(50)
    assert np.concatenate([part.indices for part in parts]).tolist() == draw.indices.tolist()
    assert np.concatenate([part.tags for part in parts]).tolist() == draw.tags.tolist()


def test_compiled_loops_do_the_same():
    sampler, loop = SRG(9, seed=3), SRG(9, seed=3)
    for _ in range(100):
        draw = sampler.draw()
        item, probability = draw_one(loop.state)
        assert (item, probability) == (draw.indices[0], draw.probabilities[0])
        sampler.update(draw, [float(item)])
        update_one(loop.state, item, probability, float(item))


def test_bad_parameters():
    for mixing in (0.0, 1.1, np.nan):
        with pytest.raises(ValueError, match="mixing must be above 0 and at most 1"):
            SRG(3, mixing=mixing)
    with pytest.raises(ValueError, match='refresh must be "coin" or "always", got \'never\''):
        SRG(3, refresh="never")


def test_bad_losses_change_nothing():
    sampler = SRG(3)
    draw = sampler.draw(2)
    before = pickle.dumps(sampler.state_dict())
    with pytest.raises(ValueError, match=r"losses\[1\] is nan"):
        sampler.update(draw, [1.0, np.nan])
    assert pickle.dumps(sampler.state_dict()) == before
