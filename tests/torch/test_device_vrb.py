"""`VRB` on a device: the host's rule, exact permutations, and nothing half done.

Kernels run on a CUDA device where there is one, else under Triton's interpreter on few items.
Without Triton those tests are skipped, and the CPU's sampler alone is tested.
"""

import contextlib
import io
import itertools
import math

import numpy as np
import pytest
import torch
from device_case import (
    CUDA,
    DEVICE,
    change_kernels,
    changed,
    cuda_tests,
    fixtures,
    long,
    needs_triton,
    numbers_of,
    on,
    refuse,
)
from device_oracle import key_of, philox, random_below
from device_player import Player
from device_rule import BatchRule

import tombola
from tombola.checkpoint import CheckpointError
from tombola.draws import Draw
from tombola.testing import check_sampler
from tombola.torch import VRB, TensorDraw
from tombola.torch.device import launching
from tombola.torch.device import sampler as device_sampler
from tombola.torch.device.layout import Real, Whole
from tombola.torch.tensors import from_tensors

# the interpreter's arithmetic is numpy's, which warns where a GPU does not
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

new, on_board = fixtures(lambda device, n, seed=0, **more: VRB(n, device=device, seed=seed, **more))


# ---- the rule


def play(make, n, rule, *, size, rounds, seed=0):
    """Feed a device and the oracle the same draws and losses; yield both after each batch."""
    sampler, oracle = make(n, seed), BatchRule(n)
    generator = np.random.default_rng(seed)
    for turn in range(rounds):
        draw = sampler.draw(size)
        oracle.draw(size)
        ticket, mixing = draw.ticket, sampler._engine.reals[Real.MIXING].item()
        losses = rule(ticket.indices, generator, turn)
        sampler.update(draw, on(sampler, losses))
        sampler.check()
        oracle.update(ticket.indices, ticket.probabilities, losses, mixing)
        yield sampler._engine, oracle, ticket, losses
    assert sampler._engine.board.verify() == -1


def compare(make, n, rule, *, size, rounds, seed=0, scaled=False):
    """Compare all that a device knows with the oracle, but for weights that are `scaled` again."""
    tolerance = 1e-12
    close = dict(rel=tolerance, abs=tolerance)
    for engine, oracle, _, _ in play(make, n, rule, size=size, rounds=rounds, seed=seed):
        numbers, counts = engine.reals.tolist(), engine.wholes.tolist()
        assert counts[Whole.FED] == oracle.fed
        assert counts[Whole.CURSOR] == oracle.cursor
        assert numbers[Real.COMPARED] == oracle.compared
        assert numbers[Real.UNIT] == oracle.unit
        if scaled:
            oracle.scale, oracle.weights = numbers[Real.SCALE], engine.board.leaves.tolist()
            oracle.guard_ours = numbers[Real.GUARD_OURS]
        assert numbers[Real.SCALE] == oracle.scale
        assert numbers[Real.MEAN_SQUARE] == pytest.approx(oracle.mean, **close)
        assert numbers[Real.DISAGREEMENT] == pytest.approx(oracle.gap, **close)
        assert numbers[Real.FIRST_ROOT] == pytest.approx(oracle.first_root, **close)
        assert counts[Whole.LEFT] == oracle.left
        assert counts[Whole.SHUFFLING] == oracle.shuffling
        assert numbers[Real.GUARD_UNIFORM] == pytest.approx(oracle.guard_uniform, **close)
        assert numbers[Real.GUARD_OURS] == pytest.approx(oracle.guard_ours, **close)
        assert engine.visits.tolist() == oracle.visits.tolist()
        np.testing.assert_allclose(engine.scores.cpu(), oracle.scores, tolerance, 0)
        np.testing.assert_allclose(engine.board.leaves.tolist(), oracle.weights, tolerance, 2)
        (ours, uniform), (ours_spread, uniform_spread) = oracle.spreads()
        largest = numbers[Real.LARGEST_LOSS] or 1.0
        gauge = pytest.approx([ours, uniform], rel=1e-9)
        assert [largest**2 * numbers[k] for k in (Real.OURS, Real.UNIFORM)] == gauge
        spreads = [largest**4 * numbers[k] for k in (Real.OURS_SPREAD, Real.UNIFORM_SPREAD)]
        assert spreads == pytest.approx(
            [ours_spread, uniform_spread], rel=1e-6, abs=1e-12 * max(ours, uniform) ** 2
        )
    return engine


def compare_with_host(make, n, rule, *, size, rounds, exact=False):
    """Feed a device and the host the same draws and losses; compare all they know."""
    sampler, host = make(n, 0), tombola.VRB(n, seed=0)
    engine, generator = sampler._engine, np.random.default_rng(0)
    tolerance = 0.0 if exact else 1e-12
    close = dict(rel=tolerance, abs=tolerance)
    for turn in range(rounds):
        draw = sampler.draw(size)
        host.draw(size)  # sets its mixing, and counts its blocks
        losses = rule(draw.ticket.indices, generator, turn)
        sampler.update(draw, on(sampler, losses))
        host.update(draw.ticket, losses)
        numbers, counts = engine.reals.tolist(), engine.wholes.tolist()
        own, fallback, sweep = host.state.rule[0], host.state.fallback[0], host.state.sweep[0]
        assert counts[Whole.FED] == own.fed
        assert counts[Whole.DRAWN] == own.drawn
        assert counts[Whole.LEFT] == fallback.left
        assert counts[Whole.SHUFFLING] == fallback.shuffling
        assert counts[Whole.CURSOR] == sweep.cursor
        if size == 1:  # else duplicates are not compared with each other
            assert numbers[Real.COMPARED] == own.compared
        assert numbers[Real.UNIT] == own.unit
        assert numbers[Real.MIXING] == own.mixing
        assert numbers[Real.MEAN_SQUARE] == pytest.approx(own.mean_square, **close)
        assert numbers[Real.DISAGREEMENT] == pytest.approx(own.disagreement, **close)
        assert numbers[Real.FIRST_ROOT] == pytest.approx(own.first_root, **close)
        if size == 1:  # else an item is known to the host from its second loss in a batch on
            assert numbers[Real.GUARD_UNIFORM] == pytest.approx(fallback.uniform, **close)
            assert numbers[Real.GUARD_OURS] == pytest.approx(fallback.ours, rel=1e-6)
        elif exact:  # with equal weights
            assert numbers[Real.GUARD_OURS] == numbers[Real.GUARD_UNIFORM]
            assert fallback.ours == fallback.uniform
        assert engine.visits.tolist() == host.state.visits.tolist()
        np.testing.assert_allclose(engine.scores.cpu(), host.state.scores, tolerance, 0)
        weights = np.array(engine.board.leaves.tolist()) / numbers[Real.SCALE]
        expected = host.state.index.weights / sweep.scale
        np.testing.assert_allclose(weights, expected, tolerance, 2 / numbers[Real.SCALE])
    sampler.check()
    return engine


RULES = {
    "uneven": lambda items, generator, turn: (items + 1.0) ** 2,
    "noisy": lambda items, generator, turn: (
        np.exp(items / 5) * generator.lognormal(size=len(items))
    ),
    "sparse": lambda items, generator, turn: 3.0 * (generator.random(len(items)) < 0.3),
    "jumping": lambda items, generator, turn: np.where(np.arange(len(items)) % 5 == 4, 50.0, 1.0),
    "a spike": lambda items, generator, turn: np.where(
        (np.arange(len(items)) == 3) & (turn == 2), 1e4, 1.0 + items % 3
    ),
    "zeros at first": lambda items, generator, turn: (
        (items + 1.0) * (turn > 1) * (np.arange(len(items)) > 2)
    ),
}


@needs_triton
@pytest.mark.parametrize("name", RULES)
def test_one_loss_at_a_time_is_the_hosts_rule(on_board, name):
    compare_with_host(on_board, 6, RULES[name], size=1, rounds=60 if CUDA else 15)


@needs_triton
@pytest.mark.parametrize("name", RULES)
def test_batches_follow_the_rule(on_board, name):
    """With many duplicates, and a sweep of all items."""
    compare(on_board, 6, RULES[name], size=13, rounds=6)


@needs_triton
@pytest.mark.parametrize(("n", "size"), [(1, 3), (2, 5), (40, 16), (300, 20), (300, 150)])
def test_batches_follow_the_rule_for_any_number_of_items(on_board, n, size):
    compare(on_board, n, RULES["noisy"], size=size, rounds=6)


@needs_triton
@pytest.mark.parametrize("value", [1.0, 0.25, 1024.0])
def test_powers_of_two_give_the_hosts_digits(on_board, value):
    """Every sum is exact: all numbers are equal to the bit, also where epochs are shuffled."""
    rule = lambda items, generator, turn: np.full(len(items), value)  # noqa: E731
    engine = compare_with_host(on_board, 8, rule, size=48, rounds=8, exact=True)
    assert engine.wholes[Whole.SHUFFLING] == 1


@long
@needs_triton
def test_steady_losses_end_where_the_hosts_do(on_board):
    """In batches, and one by one on the host: nearly the same weights."""
    sampler, host = on_board(12), tombola.VRB(12)
    losses = (np.arange(12) + 1.0) ** 2
    for _ in range(40):
        draw = sampler.draw(24)
        sampler.update(draw, on(sampler, losses[draw.ticket.indices]))
        ticket = host.draw(24)
        host.update(ticket, losses[ticket.indices])
    scores = sampler._engine.scores.cpu() / sampler._engine.reals[Real.UNIT].cpu() ** 2
    np.testing.assert_allclose(scores, losses**2, 1e-6)
    np.testing.assert_allclose(sampler.probabilities().cpu(), host.probabilities(), 0.1)


@needs_triton
def test_batches_of_several_programs(on_board, monkeypatch):
    monkeypatch.setattr(device_sampler, "learn_launch", lambda size: (16, 1))
    compare(on_board, 10, RULES["noisy"], size=53, rounds=3)
    compare(on_board, 300, RULES["zeros at first"], size=53, rounds=5)
    sampler = on_board(10)
    draw = sampler.draw(53)
    before = numbers_of(sampler)
    losses = torch.ones(53, device=DEVICE)
    losses[40], losses[51] = math.nan, -1.0
    sampler.update(draw, losses)
    with pytest.raises(ValueError, match=r"losses\[40\] is nan"):
        sampler.check()
    assert numbers_of(sampler) == before
    sampler.update(draw, torch.ones(53, device=DEVICE))
    sampler.check()
    assert sampler.gauge.count == 53
    assert not any(part.any() for part in sampler._engine.tables[11][:3])  # the table is clear


@needs_triton
def test_the_type_of_losses_may_change(on_board):
    sampler, twin = on_board(7), on_board(7)
    for dtype in (torch.float32, torch.float64, torch.float16, torch.int32, torch.float32):
        draw, same = sampler.draw(9), twin.draw(9)
        sampler.update(draw, (draw.indices + 1).to(dtype))
        twin.update(same, (same.indices + 1).double())
    assert torch.equal(sampler.probabilities(), twin.probabilities())


# ---- wrong kernels


LEARN, WEIGH = "learn_kernels", "weigh_kernels"
WRONG = {
    "m without a cap": (LEARN, "tl.minimum(new, (1.0 + 1.0 / share) * mean)", "new"),
    "m more than doubles": (LEARN, "tl.minimum(moved, 2.0 * mean)", "moved"),
    "m forgets nothing": (LEARN, "tl.minimum(before + count,", "(before + count + 0.0 *"),
    "duplicates count once": (LEARN, "tl.where(leading, times, 1)", "tl.where(leading, 1, 1)"),
    "one of the duplicates": (LEARN, "tl.where(times == 1.0,", "tl.where(times > 0.0,"),
    "all duplicates lead": (LEARN, "leading & learnt\n", "learnt\n"),
    "the window of one loss": (LEARN, "+ times, tl.maximum(LAST", "+ 1.0, tl.maximum(LAST"),
    "D counts first visits": (LEARN, "(visited > 0.0) & (both > 0.0)", "(both > 0.0)"),
    "guard counts first visits": (LEARN, "judged = leading & (visited > 0.0)", "judged = leading"),
    "no clipping": (LEARN, "tl.minimum(square, CLIP * count * moved)", "square"),
    "no writer": (LEARN, "tl.where(swept == 0, chosen", "tl.where(swept != 0, chosen"),
    "half a sweep": (WEIGH, "(away < 2 * taken)", "(away < taken)"),
    "a sweep behind": (WEIGH, "+ n - (2 * size) % n) % n", ") % n"),
    "a level forgotten": (WEIGH, "tl.static_range(1, HEIGHT", "tl.static_range(2, HEIGHT"),
    "one program of many": (LEARN, "(row < programs)", "(row < 1)"),
    "pairs count once": (LEARN, "found & 65535", "found & 1"),
    "half a sweep at once": (LEARN, "near & (away < 2 * taken)", "near & (away < taken)"),
    "drawn items not weighed": (LEARN, "(found >= 0) & (own < taken)", "(found < 0) & (own < 0)"),
    "a sweep too early": (LEARN, "> 0:  # the batch has moved", "> 999:  # the batch has moved"),
    "the largest loss lost": (LEARN, "BATCH_LARGEST, largest,", "BATCH_LARGEST, 0.0 * largest,"),
}  # fmt: skip


@long
@needs_triton
@pytest.mark.parametrize("name", ["right", *WRONG])
def test_wrong_kernels_are_rejected(on_board, monkeypatch, tmp_path, name):
    text = "import triton\n"
    change_kernels(monkeypatch, tmp_path, *WRONG.get(name, (LEARN, text, text)))
    one_program = device_sampler.learn_launch

    def trial():
        for launch in (lambda size: (8, 1), one_program):
            monkeypatch.setattr(device_sampler, "learn_launch", launch)
            for rule in ("noisy", "jumping", "sparse"):
                compare(on_board, 6, RULES[rule], size=13, rounds=3)
            for rule in ("noisy", "a spike"):
                compare(on_board, 300, RULES[rule], size=40, rounds=4)

    if name == "right":
        trial()
    else:
        with pytest.raises(AssertionError):
            trial()


# ---- losses of any size


@needs_triton
def test_a_loss_that_dwarfs_all_before(on_board):
    """It counts as 2^250 times the first one at most: everything stays finite."""

    def rule(items, generator, turn):
        return (items + 1.0) * (1e-40 if turn < 2 else 1e40)

    engine = compare(on_board, 6, rule, size=13, rounds=2)
    engine = compare(on_board, 6, rule, size=13, rounds=5, scaled=True)
    assert engine.reals.isfinite().all()


@needs_triton
def test_a_mean_that_zeros_have_made_vanish(on_board):
    """It becomes 0, and the next losses count in full, however large they are."""
    n, losses = 12, 1.0 + np.arange(12) % 4
    sampler = on_board(n)
    draw = sampler.draw(6)
    sampler.update(draw, on(sampler, losses[draw.ticket.indices]))
    state = sampler.state_dict()
    small = changed(state, ("state", "reals", "mean_square"), 1.5 * 2.0**-700)
    sampler.load_state_dict(small)
    draw = sampler.draw(6)
    sampler.update(draw, on(sampler, np.zeros(6)))
    assert sampler.state_dict()["state"]["reals"]["mean_square"] == 0.0
    for _ in range(30):
        draw = sampler.draw(6)
        sampler.update(draw, on(sampler, losses[draw.ticket.indices]))
    reals = sampler.state_dict()["state"]["reals"]
    mean = reals["mean_square"] / reals["unit"] ** 2
    assert mean == pytest.approx((losses**2).mean(), rel=0.5)


@long
@needs_triton
@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("factor", [2.0**-45, 2.0**14])
def test_weights_are_scaled_again(on_board, monkeypatch, tmp_path, factor, small):
    """At once, or by the sweep as for many items: weights return to their range, and are right."""
    if not small:
        old = "SMALL = tl.constexpr(weighted.SMALL)"
        change_kernels(monkeypatch, tmp_path, LEARN, old, "SMALL = tl.constexpr(4)")
    sampler, host = on_board(5), tombola.VRB(5)
    engine = sampler._engine

    def turn():
        draw = sampler.draw(12)
        losses = draw.ticket.indices + 1.0
        sampler.update(draw, on(sampler, losses))
        host.draw(12)
        host.update(draw.ticket, losses)

    for _ in range(10):
        turn()
    engine.reals[Real.SCALE] *= factor
    for _ in range(2 if small else 40):
        turn()
    sampler.check()
    assert engine.board.verify() == -1
    assert 2**10 * 5 <= engine.board.total <= 2**60
    np.testing.assert_allclose(sampler.probabilities().cpu(), host.probabilities(), 5e-3)


@needs_triton
def test_extreme_losses(on_board):
    for values in ([5e-324, 1e300, 1e-300], [1e308, 0.0, 1e-308], [0.0, 0.0, 5e-324]):
        sampler = on_board(3)
        for value in values:
            draw = sampler.draw(8)
            sampler.update(draw, torch.full((8,), value, dtype=torch.float64, device=DEVICE))
            chances = sampler.probabilities()
            assert chances.isfinite().all()
            assert chances.sum().item() == pytest.approx(1.0)
        sampler.check()
        assert sampler._engine.board.verify() == -1


def test_a_draw_whose_tensors_are_written_again_has_new_weights(on_board):
    """As replays of a CUDA graph do."""
    sampler = on_board(20)
    draw = sampler.draw(4)
    for dtype in (torch.float32, torch.float64):
        losses = torch.ones(4, dtype=dtype, device=DEVICE)
        for probability in (0.5, 0.1):
            draw.probabilities.fill_(probability)
            draw.importances.fill_(1 / (20 * probability))
            assert float(draw.mean(losses)) == pytest.approx(1 / (20 * probability))


# ---- draws


def permuted(seed, epoch, place, n):
    """The item at a place of an epoch, in plain integers."""
    lane, mask, key = 2**31 + 1, 2**32 - 1, key_of(seed)
    counter = (epoch & mask, epoch >> 32, lane)
    keys = [
        word
        for attempt in range(2)
        for word in philox((*counter, attempt), (key & mask, key >> 32))
    ]

    def mixed(word):
        word = (word ^ word >> 16) * 0x85EBCA6B & mask
        word = (word ^ word >> 13) * 0xC2B2AE35 & mask
        return word ^ word >> 16

    bits = (n - 1).bit_length()
    low_bits = bits // 2
    value = place
    while True:
        high, low = value >> low_bits, value & (1 << low_bits) - 1
        for first, second in zip(keys[::2], keys[1::2], strict=True):
            high ^= mixed(low + first & mask) & (1 << bits - low_bits) - 1
            low ^= mixed(high + second & mask) & (1 << low_bits) - 1
        value = high << low_bits | low
        if value < n:
            return (value + random_below(seed, epoch, 2**31, n)) % n


@pytest.mark.parametrize("n", [*range(1, 20), 127, 128, 129, 1000])
def test_the_network_is_a_permutation(n):
    for seed, epoch in ((0, 0), (2**64 - 1, 3), (5, 2**33)):
        assert sorted(permuted(seed, epoch, place, n) for place in range(n)) == list(range(n))


def test_permutations_differ_and_every_pair_occurs():
    """Over many epochs of 5 items, all 120 orders come up about equally often."""
    orders = [tuple(permuted(3, epoch, place, 5) for place in range(5)) for epoch in range(6000)]
    counts = np.array([orders.count(order) for order in itertools.permutations(range(5))])
    assert counts.sum() == 6000
    assert ((counts - 50) ** 2 / 50).sum() < 119 + 6 * math.sqrt(2 * 119)


@needs_triton
@pytest.mark.parametrize("n", [1, 7, pytest.param(129, marks=[] if CUDA else pytest.mark.slow)])
def test_shuffled_epochs_are_dealt(on_board, n):
    """Equal losses: all blocks but the first are shuffled, and batches cross their ends."""
    seed = 2**63 + 5
    sampler, drawn = on_board(n, seed), []
    block, size = sampler._engine.block, 100
    for _ in range(-(-3 * block // size)):
        draw = sampler.draw(size)
        sampler.update(draw, torch.ones(size, device=DEVICE))
        drawn.append(draw)
    items = torch.cat([draw.indices for draw in drawn]).tolist()[block:]
    chances = torch.cat([draw.probabilities for draw in drawn]).tolist()[block:]
    assert sampler.mode == "shuffle"
    assert set(chances) == {1 / n}
    assert items == [permuted(seed, k // n, k % n, n) for k in range(len(items))]
    for first in range(0, len(items) - n + 1, n):
        assert sorted(items[first : first + n]) == list(range(n))


@needs_triton
def test_draws_are_the_mixtures(on_board):
    """Dart by dart: below the total by weight, above it uniform; probabilities to the bit."""
    n, seed, both = 200, 11, set()
    sampler = on_board(n, seed)
    for position in range(12):
        weights = sampler._engine.board.leaves.tolist()
        fed = sampler._engine.wholes[Whole.FED].item()
        mixing = 1.0 if 4 * fed <= n else math.sqrt(n / (4.0 * fed))
        total = sum(weights)
        spread = int(mixing / (1 - mixing) * total / n) + 1 if mixing < 1 else 1
        if mixing == 1:
            weights, total = [0] * n, 0
        ends = np.cumsum(weights)
        draw = sampler.draw(20)
        for lane, (item, chance) in enumerate(
            zip(draw.indices.tolist(), draw.probabilities.tolist(), strict=True)
        ):
            dart = random_below(seed, position, lane, total + n * spread)
            below = dart < total
            both.add(below)
            expected = (
                int(np.searchsorted(ends, dart, side="right"))
                if below
                else (dart - total) // spread
            )
            assert item == expected
            assert chance == (weights[item] + spread) / (total + n * spread)
        np.testing.assert_allclose(draw.importances.cpu(), 1 / (n * draw.probabilities.cpu()), 1e-6)
        sampler.update(draw, (draw.indices + 1).double())
    assert both == {False, True}


@long
@needs_triton
def test_blocks_end_within_a_batch(on_board):
    """The host's count of blocks and modes, for batches of several blocks."""
    rule = lambda items, generator, turn: 1.0 + 9.0 * (items == 2) * (turn > 3)  # noqa: E731
    compare_with_host(on_board, 3, lambda *given: np.ones(len(given[0])), size=600, rounds=2)
    compare(on_board, 3, rule, size=600, rounds=6)


@needs_triton
def test_without_shuffling_draws_stay_adaptive(on_board):
    sampler = on_board(3, shuffle=False)
    for _ in range(4):
        draw = sampler.draw(200)
        sampler.update(draw, torch.ones(200, device=DEVICE))
    assert sampler.mode == "adaptive"


# ---- behaviour, on the CPU and on the device


def test_draws_estimate_and_learn(new):
    sampler = new(20, seed=3)
    losses = torch.tensor([0.1] * 19 + [5.0], device=sampler.device)
    for _ in range(20):
        draw = sampler.draw(32)
        assert isinstance(draw, TensorDraw)
        sampler.update(draw, losses[draw.indices])
    sampler.check()
    assert sampler.probabilities().argmax() == 19
    assert sampler.gauge.second_moment_ratio < 0.8
    assert sampler.gauge.count == 640
    assert sampler.rounds == 20
    assert draw.number == 19
    values = losses[draw.indices].requires_grad_()
    mean = draw.mean(values)
    assert mean.item() == pytest.approx(draw.ticket.mean(values.tolist()), rel=1e-5)
    assert draw.sum(values.double()).item() == pytest.approx(20 * mean.item(), rel=1e-5)
    mean.backward()
    np.testing.assert_allclose(values.grad.cpu() * 32, draw.importances.cpu(), 1e-6)
    part = draw[:5]
    assert (len(part), part.n, part.number) == (5, 20, 19)
    assert part.to("cpu").indices.device.type == "cpu"
    assert repr(part) == "DeviceDraw(5 of 20 items, draw 19)"
    sampler.update(part, losses[part.indices])
    assert sampler.nbytes > 20 * 20
    assert repr(sampler).startswith("VRB(n=20, device=")


def test_the_same_run_twice_gives_the_same_draws(new):
    def run(seed):
        sampler = new(9, seed)
        for _ in range(4):
            draw = sampler.draw(11)
            sampler.update(draw, (draw.indices + 1).double())
        return draw.indices.tolist(), sampler.probabilities().tolist()

    assert run(1) == run(1)
    assert run(1) != run(2)


BAD = [
    ([1.0, math.nan, 1.0, -1.0], r"losses\[1\] is nan.*: losses must be finite"),
    ([1.0, 1.0, math.inf, 1.0], r"losses\[2\] is inf"),
    ([1.0, 1.0, 1.0, -0.5], r"losses\[3\] is -0.5"),
]


@pytest.mark.parametrize(("losses", "message"), BAD)
def test_bad_losses_are_refused_as_a_whole(new, losses, message):
    sampler = new(5)
    draw = sampler.draw(4)
    sampler.update(draw, on(sampler, [1.0, 2.0, 3.0, 4.0]))
    before = numbers_of(sampler)
    with pytest.raises(ValueError, match=message):
        refuse(sampler, draw, losses, [-1.0] * 4)  # the first fault is kept
    assert numbers_of(sampler) == before
    with pytest.raises(ValueError, match=message):
        refuse(sampler, draw, losses, then=sampler.state_dict)
    sampler.update(draw, on(sampler, [1.0] * 4))
    sampler.check()
    assert sampler.gauge.count == 8


def test_bad_draws_are_refused(new):
    sampler = new(5)
    draw = sampler.draw(3)
    before = numbers_of(sampler)
    draw.indices[1] = 5
    with pytest.raises((IndexError, ValueError), match=r"indices\[1\] (is|must be).* 4"):
        refuse(sampler, draw, [1.0] * 3)
    draw.indices[1] = 0
    draw.probabilities[2] = 0.0
    with pytest.raises(ValueError, match=r"probabilities\[2\] .*0.0"):
        refuse(sampler, draw, [1.0] * 3)
    assert numbers_of(sampler) == before


def test_arguments_are_checked(new):
    sampler = new(5)
    draw = sampler.draw(3)
    with pytest.raises(TypeError, match="draw must be a TensorDraw, got Tensor"):
        sampler.update(draw.indices, on(sampler, [1.0] * 3))
    with pytest.raises(TypeError, match="losses must be a tensor, got list"):
        sampler.update(draw, [1.0] * 3)
    with pytest.raises(TypeError, match=r"losses must hold numbers, got torch\.complex64"):
        sampler.update(draw, torch.zeros(3, dtype=torch.complex64, device=sampler.device))
    with pytest.raises(ValueError, match="one entry for each of the 3 items"):
        sampler.update(draw, on(sampler, [1.0] * 4))
    with pytest.raises(ValueError, match="the draw is over 6 items, this sampler has 5"):
        sampler.update(TensorDraw(Draw([5], [0.5], 6), 0), on(sampler, [1.0]))
    with pytest.raises(ValueError, match="losses is on meta"):
        sampler.update(draw, torch.zeros(3, device="meta"))
    with pytest.raises(ValueError, match="size must be from 0"):
        sampler.draw(-1)
    with pytest.raises(ValueError, match="n must be from 1"):
        new(0)
    with pytest.raises(ValueError, match="seed must be from 0"):
        new(3, seed=2**64)


@pytest.mark.slow
def test_states_continue(new):
    first = new(9, seed=4)
    for _ in range(40):
        draw = first.draw(11)
        first.update(draw, (draw.indices + 1).double())
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second = new(9, seed=4)
    with contextlib.suppress(ValueError):  # on the CPU at once
        second.update(second.draw(2), on(second, [-1.0, 1.0]))
    second.load_state_dict(torch.load(file, weights_only=True))
    second.check()  # faults of another life are forgotten
    for _ in range(3):
        draws = [sampler.draw(11) for sampler in (first, second)]
        assert draws[0].indices.tolist() == draws[1].indices.tolist()
        assert draws[0].number == draws[1].number
        for sampler, draw in zip((first, second), draws, strict=True):
            sampler.update(draw, (draw.indices + 1).double())
    assert repr(first.state_dict()) == repr(second.state_dict())
    second.reset()
    assert repr(second.state_dict()) == repr(new(9, seed=4).state_dict())


BAD_STATES = [
    (["n"], 4, "saved with n=4, here it is 3"),
    (["calls"], -1, "calls must be an integer from 0"),
    (["state"], None, "state must be a dict, got None"),
    (["state", "position"], 2**60 + 1, "position must be an integer from 0 to 2.60, got"),
    (["calls"], 2**60 + 1, "calls must be an integer from 0 to 2.60, got"),
    (["state", "reals"], {}, "it has no state.reals.mixing"),
    (["state", "reals", "mixing"], 0.0, "reals.mixing must be a float from .* got 0.0"),
    (["state", "reals", "mean_square"], math.nan, "reals.mean_square must be .* got nan"),
    (["state", "reals", "scale"], 1, "reals.scale must be a float from .* got 1 of type int"),
    pytest.param(["state", "reals", "scale"], 10**5000, "scale .* one too long", id="huge scale"),
    (["state", "reals", "bad_value"], 1.0, "state.reals has an unknown entry 'bad_value'"),
    (["state", "wholes", "cursor"], 3, "wholes.cursor must be an integer from 0 to 2"),
    (["state", "wholes", "left"], 10**6, "wholes.left must be an integer from 0 to 258"),
    (["state", "wholes", "shuffling"], 2, "wholes.shuffling must be an integer from 0 to 1"),
    (["state", "weights"], torch.ones(3), "weights must be an array of 3 int64"),
    (["state", "weights"], torch.ones(3).long().to("meta"), "weights .* numpy cannot hold"),
    (["state", "weights"], torch.ones(3).long().to_sparse(), "weights .* numpy cannot hold"),
    (["state", "visits"], torch.zeros(3).to("meta"), "visits .* numpy cannot hold"),
    (["state", "weights"], torch.tensor([1, 0, 1]), r"weights\[1\] must be from 1 .* got 0"),
    (["state", "weights"], torch.tensor([2**61] * 3), "weights must have a sum of at most"),
    (["state", "scores"], torch.tensor([0, math.nan, 0]).double(), r"scores\[1\] .* got nan"),
    (["state", "visits"], torch.tensor([0.0, 0.0, -1.0]), r"visits\[2\] .* got -1"),
]


@needs_triton
@pytest.mark.parametrize(("path", "value", "message"), BAD_STATES)
def test_bad_states_change_nothing(on_board, path, value, message):
    sampler = on_board(3)
    sampler.draw(2)
    state = sampler.state_dict()
    with pytest.raises(CheckpointError, match=message):
        sampler.load_state_dict(changed(state, path, value))
    assert repr(sampler.state_dict()) == repr(state)


@needs_triton
def test_a_state_with_gradients_leaves_none(on_board):
    sampler = on_board(3)
    state = sampler.state_dict()
    scores = state["state"]["scores"].requires_grad_()
    sampler.load_state_dict(changed(state, ["state", "scores"], scores))
    assert not sampler.state_dict()["state"]["scores"].requires_grad


def test_the_cpu_draws_what_the_hosts_sampler_does():
    """Item by item, with the same state."""
    sampler, host = VRB(9, device="cpu", seed=4), tombola.VRB(9, seed=4)
    for _ in range(40):
        draw, expected = sampler.draw(7), host.draw(7)
        assert draw.indices.tolist() == expected.indices.tolist()
        assert draw.probabilities.tolist() == expected.probabilities.tolist()
        assert draw.number == expected.round
        sampler.update(draw, (draw.indices + 1).double())
        host.update(expected, expected.indices + 1.0)
    assert sampler.probabilities().tolist() == host.probabilities().tolist()
    assert repr(sampler.gauge) == repr(host.gauge)
    assert sampler.mode == host.mode
    twin = tombola.VRB(9, seed=4)
    twin.load_state_dict(from_tensors(sampler.state_dict()))
    assert twin.draw(5) == host.draw(5)


@needs_triton
def test_states_of_the_cpu_and_of_a_device_are_not_mixed_up(on_board, monkeypatch):
    sampler = on_board(3)
    state = sampler.state_dict()
    monkeypatch.setattr(launching, "runs_kernels", lambda device: False)
    host = VRB(3, device="cpu")
    with pytest.raises(CheckpointError, match=r"the state is of 'torch.VRB'"):
        host.load_state_dict(state)
    with pytest.raises(CheckpointError, match=r"this is a torch.VRB"):
        sampler.load_state_dict(host.state_dict())


def test_the_gauge_says_that_there_is_no_feedback_yet(new):
    sampler = new(5)
    assert "no feedback yet" in repr(sampler.gauge)
    sampler.draw(3)
    assert "no feedback yet" in repr(sampler.gauge)
    assert repr(sampler.gauge) == repr(tombola.VRB(5).gauge)


# ---- all promises of a sampler


# what takes seconds, not minutes; the host's sampler has all checks elsewhere
QUICK = ("check_probabilities", "check_empty_draw", "check_one_item", "check_bad_feedback")


@pytest.mark.slow
def test_it_keeps_its_promises(new):
    """On a GPU all but one: a batch is learnt from at once, not as its items one by one."""
    from tombola.testing.suite import CHECKS

    names = [check.__name__ for check in CHECKS]
    skip = ["check_duplicates"] if CUDA else [name for name in names if name not in QUICK]
    sizes = (1, 2, 6, 40) if CUDA else (1, 6)
    check_sampler(lambda n, seed: Player(new(n, seed)), n=sizes, skip=skip)


@needs_triton
@pytest.mark.slow
def test_a_device_keeps_all_its_promises(on_board):
    check_sampler(
        lambda n, seed: Player(on_board(n, seed)),
        n=(1, 2, 6),
        skip=["check_first_draws", "check_duplicates"],
    )


# ---- on a CUDA device


@cuda_tests
@pytest.mark.parametrize(("n", "size"), [(1000, 128), (100_000, 4096), (3_000_000, 5000)])
def test_a_gpu_follows_the_host(n, size):
    """And two runs give the same bytes."""

    def run():
        return compare(
            lambda n, seed: VRB(n, device="cuda", seed=seed),
            n,
            lambda items, generator, turn: (
                np.exp(items % 97 / 30) * generator.lognormal(size=len(items))
            ),
            size=size,
            rounds=12,
        )

    first, second = run(), run()
    assert torch.equal(first.board.memory, second.board.memory)
    assert torch.equal(first.reals, second.reals)
    assert torch.equal(first.scores, second.scores)


@cuda_tests
def test_nothing_waits():
    sampler = VRB(100_000, device="cuda")
    for mode in ("default", "error"):  # the first round compiles
        torch.cuda.set_sync_debug_mode(mode)
        try:
            for size in (0, 1, 128, 4096):
                draw = sampler.draw(size)
                sampler.update(draw, (draw.indices + 1).float())
                sampler.probabilities()
                if size:
                    draw.mean((draw.indices + 1).double())
        finally:
            torch.cuda.set_sync_debug_mode("default")
    sampler.check()


@cuda_tests
@pytest.mark.parametrize("size", [128, 4096])
def test_a_graph_replays_what_eager_calls_do(size):
    eager, graphed = (VRB(5000, device="cuda", seed=4) for _ in range(2))
    losses = torch.rand(5000, device="cuda")

    def turn(sampler):
        draw = sampler.draw(size)
        sampler.update(draw, losses[draw.indices])
        return draw

    turn(eager)
    turn(graphed)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        draw = turn(graphed)
    for _ in range(60):
        graph.replay()
        expected = turn(eager)
        assert torch.equal(draw.indices, expected.indices)
        assert torch.equal(draw.probabilities, expected.probabilities)
    assert torch.equal(eager._engine.reals, graphed._engine.reals)
    assert torch.equal(eager._engine.wholes, graphed._engine.wholes)
    assert graphed.rounds == 61
