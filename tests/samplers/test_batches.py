"""A batch is drawn, and learnt from, exactly as item by item: the staged paths change nothing."""

import numpy as np
import pytest

import tombola
from states import assert_same
from tombola.samplers import weighted

pytestmark = pytest.mark.kernels

SHAPES = {
    "lognormal": lambda rng, size: rng.lognormal(0, 1.5, size),
    "zeros": lambda rng, size: np.zeros(size),
    "sparse": lambda rng, size: rng.random(size) * (rng.random(size) < 0.3),
    "wild": lambda rng, size: rng.lognormal(0, 12, size),
    "huge": lambda rng, size: 1e35 * rng.lognormal(0, 2, size),  # makes the sampler start over
    "tiny": lambda rng, size: 1e-40 * rng.random(size),
}
SAMPLERS = {
    "VRB": lambda n: tombola.VRB(n),
    "VRB, independent draws": lambda n: tombola.VRB(n, shuffle=False),
    "VRB, fading": lambda n: tombola.VRB(n, memory=3.0 * n),
    "GroupVRB": lambda n: tombola.GroupVRB(np.arange(n) % min(n, 7)),
    "GroupVRB, many groups": lambda n: tombola.GroupVRB(np.arange(n) // 2, shuffle=False),
    "GroupVRB, bounds": lambda n: tombola.GroupVRB(
        np.arange(n) % 3 % n, bound=1.0 + np.arange(n) % 5
    ),
}


def play(sampler, batches, *, split):
    """Draw and feed; return all items. With `split`, one item and one loss at a time."""
    rng, items = np.random.default_rng(7), []
    for shape, size in batches:
        if split:
            parts = [sampler.draw(1) for _ in range(size)]
            items += [int(part.indices[0]) for part in parts]
            for part, loss in zip(parts, SHAPES[shape](rng, size), strict=True):
                sampler.update(part, [loss])
        else:
            draw = sampler.draw(size)
            items += draw.indices.tolist()
            sampler.update(draw, SHAPES[shape](rng, size))
    return items


@pytest.mark.parametrize("n", [1, 2, 5, 60, 700])
@pytest.mark.parametrize("name", SAMPLERS)
def test_a_batch_is_its_items_one_by_one(name, n):
    rng = np.random.default_rng(n)
    batches = [
        ("sparse", 3),
        *((str(rng.choice(list(SHAPES))), size) for size in (200, 9, 131, 400)),
    ]
    batches += [("lognormal", 256), ("huge", 150), ("lognormal", 150), ("zeros", 40)]
    whole, parts = SAMPLERS[name](n), SAMPLERS[name](n)
    assert play(whole, batches, split=False) == play(parts, batches, split=True)
    assert_same(_played(whole), _played(parts))


@pytest.mark.parametrize("n", [2, 5, 60])
def test_a_mean_that_vanishes_within_a_batch(n):
    """The sampler starts over at the first loss after many zeros, in the middle of a batch."""
    whole, parts = tombola.VRB(n), tombola.VRB(n)
    rng = np.random.default_rng(n)
    some = lambda size: rng.lognormal(0, 1.5, size)  # noqa: E731
    for losses in (some(200), np.r_[some(60), np.zeros(150 * n), some(200), np.zeros(5)], some(99)):
        draw = whole.draw(len(losses))
        whole.update(draw, losses)
        parts.draw(len(losses))
        for j, loss in enumerate(losses):
            parts.update(draw[j : j + 1], [loss])
    assert_same(_played(whole), _played(parts))


def _played(sampler):
    """The state without the number of calls."""
    state = sampler.state_dict()
    state["tally"].pop("rounds")
    return state


@pytest.mark.parametrize(
    ("scale", "kept"), [(2**10 - 1, False), (2**10, True), (2**59, True), (2**59 + 2**10, False)]
)
def test_the_scale_is_kept_at_the_ends_of_its_range(scale, kept):
    """Two items of value 1, whose weights are the scale; the total is from 2 * 2^10 to 2^60."""
    sampler, draw = tombola.VRB(2), tombola.Draw([0, 1] * 4, [0.5] * 8, 2)
    sampler.update(draw, np.ones(8))
    sampler.state.sweep[0].scale = scale
    sampler.update(draw, np.ones(8))
    assert (sampler.state.index.weights.tolist() == [scale, scale]) == kept
    assert (sampler.state.sweep[0].scale == scale) == kept


def test_a_change_of_scale_in_the_middle_of_a_batch():
    # losses that grow a thousandfold within one batch: the total passes its limit half way
    n = 300
    whole, parts = tombola.VRB(n, shuffle=False), tombola.VRB(n, shuffle=False)
    scales = set()
    for turn in range(12):
        for sampler in (whole, parts):
            draw = sampler.draw(500)
            losses = 10.0 ** (turn + np.arange(500) / 150)
            if sampler is whole:
                sampler.update(draw, losses)
            else:
                for j in range(500):
                    sampler.update(draw[j], losses[j : j + 1])
        scales.add(float(whole.state.sweep[0].scale))
        assert_same(_played(whole), _played(parts))
    assert len(scales) > 2
    assert weighted.LOW * n <= whole.state.index.sums[0].total <= weighted.HIGH
