"""`GroupVRB` on a device: the oracle's rule, exact draws, and nothing half done."""

import io
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
from device_oracle import random_below
from device_player import Player
from group_rule_oracle import GroupBatchRule

import tombola
from tombola.checkpoint import CheckpointError
from tombola.testing import check_sampler
from tombola.torch import GroupVRB, TensorDraw
from tombola.torch.device import sampler as device_sampler
from tombola.torch.device.layout import Real, Whole

# the interpreter's arithmetic is numpy's, which warns where a GPU does not
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
GROUPS = [0, 2, 1, 0, 0, 1, 2, 0]


def make(device, groups=GROUPS, seed=0, **more):
    return GroupVRB(groups, device=device, seed=seed, **more)


new, on_board = fixtures(make)


# ---- the rule


def compare(make, groups, rule, *, size, rounds, seed=0):
    """Feed a device and the oracle the same draws and losses; compare all they know."""
    sampler, oracle = make(groups, seed, shuffle=False), GroupBatchRule(groups)
    engine, generator = sampler._engine, np.random.default_rng(seed)
    members = engine.members.cpu().numpy()
    close = dict(rtol=1e-12, atol=0)
    for turn in range(rounds):
        draw = sampler.draw(size)
        ticket = draw.ticket
        np.testing.assert_allclose(
            ticket.probabilities, oracle.probabilities()[ticket.indices], **close
        )
        losses = rule(ticket.indices, generator, turn)
        sampler.update(draw, on(sampler, losses))
        oracle.update(ticket.indices, ticket.probabilities, losses)
        sampler.check()
        numbers = engine.reals.tolist()
        assert engine.wholes[Whole.FED] == oracle.fed
        assert numbers[Real.UNIT] == oracle.unit
        assert numbers[Real.SCALE] == oracle.scale
        assert numbers[Real.MEAN_SQUARE] == pytest.approx(oracle.level, rel=1e-12)
        assert numbers[Real.GUARD_UNIFORM] == pytest.approx(oracle.guard_uniform, rel=1e-12)
        assert numbers[Real.GUARD_OURS] == pytest.approx(oracle.guard_ours, rel=1e-11)
        assert engine.seen.tolist() == oracle.seen.tolist()
        np.testing.assert_allclose(engine.levels.cpu(), oracle.levels, **close)
        np.testing.assert_allclose(engine.scores.cpu(), oracle.scores[members], **close)
        assert engine.visits.tolist() == oracle.visits[members].tolist()
        np.testing.assert_allclose(
            engine.board.leaves.cpu(), oracle.weights[members], rtol=0, atol=1
        )
        np.testing.assert_allclose(engine.group_weights.cpu(), oracle.group_weights, 1e-6)
        oracle.weights[members] = engine.board.leaves.cpu()  # roundings do not add up
        oracle.group_weights = engine.group_weights.cpu().numpy().copy()
        areas = np.bincount(oracle.numbers, oracle.weights)
        assert engine.areas.tolist() == areas.tolist()
        np.testing.assert_allclose(sampler.probabilities().cpu(), oracle.probabilities(), **close)
    assert engine.board.verify() == engine.groups.verify() == -1
    assert not any(part.any() for part in (engine.losses_of, engine.sums_of))
    return engine


RULES = {
    "by group": lambda items, generator, turn: 1.0 + 3.0 * (np.array(GROUPS)[items % 8] == 2),
    "noisy": lambda items, generator, turn: (
        np.exp(items / 3) * generator.lognormal(size=len(items))
    ),
    "sparse": lambda items, generator, turn: 3.0 * (generator.random(len(items)) < 0.3),
    "zeros at first": lambda items, generator, turn: (items + 1.0) * (turn > 1),
    "half of them zero": lambda items, generator, turn: items % 2 * 3.0,
    "jumping": lambda items, generator, turn: (items + 1.0) * 10.0 ** (4 * (turn % 3)),
}


@needs_triton
@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("size", [1, 13])
def test_batches_follow_the_rule(on_board, name, size):
    compare(on_board, GROUPS, RULES[name], size=size, rounds=6)


@needs_triton
def test_one_group_one_item_and_many_groups(on_board):
    compare(on_board, [0], RULES["noisy"], size=3, rounds=3)
    compare(on_board, [0] * 5, RULES["noisy"], size=3, rounds=3)
    compare(on_board, [*range(150)], RULES["noisy"], size=9, rounds=3)


@needs_triton
def test_batches_of_several_programs(on_board, monkeypatch):
    monkeypatch.setattr(device_sampler, "learn_launch", lambda size: (16, 1))
    groups = np.arange(300) % 7
    compare(on_board, groups, RULES["noisy"], size=53, rounds=3)


@long
@needs_triton
def test_steady_losses_end_where_the_hosts_do(on_board):
    """In batches, and one by one on the host: nearly the same distribution."""
    groups = np.array([0] * 30 + [1] * 6 + [2] * 4)
    losses = np.where(groups == 0, 0.1, np.where(groups == 1, 1.0, 3.0)) * (1 + np.arange(40) % 2)
    sampler, host = on_board(groups), tombola.GroupVRB(groups)
    for _ in range(40):
        draw = sampler.draw(32)
        sampler.update(draw, on(sampler, losses[draw.ticket.indices]))
        ticket = host.draw(32)
        host.update(ticket, losses[ticket.indices])
    assert sampler.mode == host.mode == "adaptive"
    expected = host.group_probabilities()
    np.testing.assert_allclose(sampler.group_probabilities().cpu(), expected, 0.05)
    np.testing.assert_allclose(sampler.probabilities().cpu(), host.probabilities(), 0.15)


@long
@needs_triton
def test_equal_losses_shuffle(on_board):
    """Epochs are dealt: every item equally often."""
    sampler, items = on_board(), []
    for _ in range(20):
        draw = sampler.draw(64)
        sampler.update(draw, torch.ones(64, device=DEVICE))
        items += draw.indices.tolist()
    assert sampler.mode == "shuffle"
    tail = items[sampler._engine.block :]
    assert np.bincount(tail).tolist() == [len(tail) // 8] * 8


WRONG = {
    "groups of the end": ("draw_kernels", "starts + group + 1)", "starts + group)"),
    "before forgotten": ("draw_kernels", "weight_before(board, n, first, HEIGHT) +", "0 * first +"),
    "any item too often": ("draw_kernels", "by_weight = part > GROUP", "by_weight = part > 3"),
    "kappa stays": ("weigh_kernels", "start + (1.0 - rest)", "start + (0.0 * rest)"),
    "duplicates once": ("learn_kernels", "- score) * times / window", "- score) / window"),
    "no floor of h": ("learn_kernels", "tl.maximum(moved, SMALLEST_SCORE)", "moved"),
    "areas lost": ("weigh_kernels", "areas + group, weight -", "areas + group, old -"),
    "level after": ("learn_kernels", "LEVEL_BEFORE, mean)", "LEVEL_BEFORE, moved)"),
    "sums kept": ("weigh_kernels", "tl.store(sums_of + group, zero, mask=inside)", "pass"),
}  # fmt: skip


@long
@needs_triton
@pytest.mark.parametrize("name", ["right", *WRONG])
def test_wrong_kernels_are_rejected(on_board, monkeypatch, tmp_path, name):
    text = "import triton\n"
    given = WRONG.get(name, ("draw_kernels", text, text))
    change_kernels(monkeypatch, tmp_path, *given)

    def trial():
        for rule in ("noisy", "zeros at first", "sparse"):
            compare(on_board, GROUPS, RULES[rule], size=13, rounds=4)
        compare(on_board, GROUPS, RULES["half of them zero"], size=60, rounds=6)
        draws_are_the_mixtures(on_board)

    if name == "right":
        trial()
    else:
        with pytest.raises(AssertionError):
            trial()


# ---- draws


def draws_are_the_mixtures(make):
    """Word by word: which part, which group, which member."""
    seed, groups = 11, np.array(GROUPS)
    sampler = make(GROUPS, seed, shuffle=False)
    engine, parts = sampler._engine, set()
    members, starts = engine.members.tolist(), engine.starts.tolist()
    for position in range(8):
        weights, group_weights = engine.board.leaves.tolist(), engine.group_weights.tolist()
        draw = sampler.draw(16)
        for lane, item in enumerate(draw.indices.tolist()):
            part = random_below(seed, position, lane, 8)
            bound = 8 if part == 0 else 3 if part == 1 else sum(group_weights)
            dart = random_below(seed, position, lane + 2**30, bound)
            if part == 0:
                place = dart
            else:
                ends = np.cumsum(group_weights)
                group = dart if part == 1 else int(np.searchsorted(ends, dart, side="right"))
                first, end = starts[group], starts[group + 1]
                bound = end - first if part == 1 else sum(weights[first:end])
                throw = random_below(seed, position, lane + 3 * 2**30, bound)
                inner = int(np.searchsorted(np.cumsum(weights[first:end]), throw, side="right"))
                place = first + (throw if part == 1 else inner)
            parts.add(min(part, 2))
            assert item == members[place]
        sampler.update(draw, on(sampler, 1.0 + groups[draw.ticket.indices] * 2.0))
    assert parts == {0, 1, 2}


@needs_triton
def test_draws_are_the_mixtures(on_board):
    draws_are_the_mixtures(on_board)


# ---- behaviour, on the CPU and on the device


def test_draws_estimate_and_learn(new):
    groups = ["common"] * 40 + ["rare"] * 4
    sampler = new(groups, seed=3)
    losses = torch.tensor([0.1] * 40 + [2.0] * 4, device=sampler.device)
    for _ in range(12):
        draw = sampler.draw(16)
        assert isinstance(draw, TensorDraw)
        sampler.update(draw, losses[draw.indices])
    sampler.check()
    assert sampler.labels == ["common", "rare"]
    assert sampler.group_probabilities()[1] > 0.3
    assert sampler.gauge.second_moment_ratio < 0.8
    assert sampler.gauge.importance_limit == 8.0
    assert (sampler.rounds, sampler.gauge.count, draw.number) == (12, 192, 11)
    assert sampler.nbytes > 44 * 30
    assert repr(sampler).startswith("GroupVRB(n=44, device=")
    assert sampler.probabilities().sum().item() == pytest.approx(1.0)


def test_the_cpu_draws_what_the_hosts_sampler_does():
    """Item by item, with the same probabilities."""
    sampler, host = GroupVRB(GROUPS, device="cpu", seed=4), tombola.GroupVRB(GROUPS, seed=4)
    for _ in range(30):
        draw, expected = sampler.draw(7), host.draw(7)
        assert draw.indices.tolist() == expected.indices.tolist()
        sampler.update(draw, (draw.indices + 1).double())
        host.update(expected, expected.indices + 1.0)
    assert sampler.probabilities().tolist() == host.probabilities().tolist()
    np.testing.assert_allclose(sampler.group_probabilities(), host.group_probabilities(), 1e-12)


def test_groups_may_be_a_tensor(new):
    assert new(torch.tensor([3, 1, 3])).labels == [1, 3]
    with pytest.raises(ValueError, match=r"groups\[1\] is None"):
        new([1, None])


def test_bad_losses_are_refused_as_a_whole(new):
    sampler = new()
    draw = sampler.draw(4)
    sampler.update(draw, on(sampler, [1.0, 2.0, 3.0, 4.0]))
    before = numbers_of(sampler)
    with pytest.raises(ValueError, match=r"losses\[1\] is nan.*: losses must be finite"):
        refuse(sampler, draw, [1.0, math.nan, 1.0, -1.0])
    assert numbers_of(sampler) == before
    sampler.update(draw, on(sampler, [1.0] * 4))
    sampler.check()
    assert sampler.gauge.count == 8


@needs_triton
def test_extreme_losses(on_board):
    for values in ([5e-324, 1e300, 1e-300], [1e308, 0.0, 1e-308], [0.0, 0.0, 5e-324]):
        sampler = on_board()
        for value in values:
            draw = sampler.draw(8)
            sampler.update(draw, torch.full((8,), value, dtype=torch.float64, device=DEVICE))
            chances = sampler.probabilities()
            assert chances.isfinite().all()
            assert chances.sum().item() == pytest.approx(1.0)
        sampler.check()
        assert sampler._engine.board.verify() == sampler._engine.groups.verify() == -1


@pytest.mark.slow
def test_states_continue(new):
    first = new(seed=4)
    for _ in range(30):
        draw = first.draw(11)
        first.update(draw, (draw.indices + 1).double())
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second = new(seed=4)
    second.load_state_dict(torch.load(file, weights_only=True))
    for _ in range(3):
        draws = [sampler.draw(11) for sampler in (first, second)]
        assert draws[0].indices.tolist() == draws[1].indices.tolist()
        for sampler, draw in zip((first, second), draws, strict=True):
            sampler.update(draw, (draw.indices + 1).double())
    assert repr(first.state_dict()) == repr(second.state_dict())
    second.reset()
    assert repr(second.state_dict()) == repr(new(seed=4).state_dict())


BAD_STATES = [
    (["groups"], torch.tensor(GROUPS, dtype=torch.int32).roll(1), "saved with another groups"),
    (["groups"], torch.tensor(GROUPS, dtype=torch.int32).to("meta"), "groups .* numpy cannot hold"),
    (["groups"], torch.tensor(GROUPS).to_sparse(), "groups .* numpy cannot hold"),
    (["state", "reals", "mean_square"], math.nan, "reals.mean_square must be .* got nan"),
    (["state", "scores"], torch.zeros(8).double(), r"scores\[0\] must be from 0.0625 .* got 0.0"),
    (["state", "visits"], torch.full((8,), 16, dtype=torch.uint8), r"visits\[0\] .* got 16"),
    (["state", "levels"], torch.tensor([1.0, -1.0, 0.0]).double(), r"levels\[1\] .* got -1"),
    (["state", "seen"], torch.tensor([1, 2]), "seen must be an array of 3 int64"),
    (["state", "group_weights"], torch.tensor([1, 0, 1]), r"group_weights\[1\] .* got 0"),
    (["state", "group_weights"], torch.tensor([2**61] * 3), "group_weights must have a sum of"),
]


@needs_triton
@pytest.mark.parametrize(("path", "value", "message"), BAD_STATES)
def test_bad_states_change_nothing(on_board, path, value, message):
    sampler = on_board()
    sampler.draw(2)
    state = sampler.state_dict()
    with pytest.raises(CheckpointError, match=message):
        sampler.load_state_dict(changed(state, path, value))
    assert repr(sampler.state_dict()) == repr(state)


# ---- all promises of a sampler


def groups_of(n):
    return np.arange(n) % max(1, min(3, n // 2))


# what takes seconds, not minutes; the host's samplers have all checks elsewhere
QUICK = ("check_probabilities", "check_empty_draw", "check_one_item", "check_bad_feedback")


@pytest.mark.slow
def test_it_keeps_its_promises(new):
    """On a GPU all but one: a batch is learnt from at once, not as its items one by one."""
    from tombola.testing.suite import CHECKS

    names = [check.__name__ for check in CHECKS]
    skip = ["check_duplicates"] if CUDA else [name for name in names if name not in QUICK]
    check_sampler(
        lambda n, seed: Player(new(groups_of(n), seed)),
        n=(1, 2, 6, 40) if CUDA else (1, 6),
        skip=skip,
        uses_probability=False,
    )


# ---- on a CUDA device


@cuda_tests
@pytest.mark.parametrize(
    ("n", "count", "size"), [(1000, 10, 128), (100_000, 1000, 4096), (300_000, 20_000, 5000)]
)
def test_a_gpu_follows_the_rule(n, count, size):
    """And two runs give the same bytes."""
    groups = np.random.default_rng(n).integers(count, size=n)
    groups[:count] = np.arange(count)

    def run():
        return compare(
            lambda groups, seed, **more: GroupVRB(groups, device="cuda", seed=seed, **more),
            groups,
            lambda items, generator, turn: (
                np.exp(groups[items] % 97 / 30) * generator.lognormal(size=len(items))
            ),
            size=size,
            rounds=8,
        )

    first, second = run(), run()
    assert torch.equal(first.board.memory, second.board.memory)
    assert torch.equal(first.groups.memory, second.groups.memory)
    assert torch.equal(first.reals, second.reals)


@cuda_tests
def test_frequencies_are_the_probabilities():
    groups = np.repeat(np.arange(50), np.arange(50) + 1)
    sampler = GroupVRB(groups, device="cuda", shuffle=False)
    for _ in range(50):
        draw = sampler.draw(256)
        sampler.update(draw, (draw.indices % 13 + 1).double())
    chances = sampler.probabilities()
    counts = torch.zeros(len(groups), dtype=torch.float64, device="cuda")
    for _ in range(100):
        counts += torch.bincount(sampler.draw(10**5).indices, minlength=len(groups))
    expected = chances * 1e7
    statistic = ((counts - expected) ** 2 / expected).sum().item()
    degrees = len(groups) - 1
    assert statistic < degrees + 6 * math.sqrt(2 * degrees)


@cuda_tests
@pytest.mark.parametrize("size", [128, 4096])
def test_a_graph_replays_what_eager_calls_do(size):
    groups = np.arange(5000) % 37
    eager, graphed = (GroupVRB(groups, device="cuda", seed=4) for _ in range(2))
    losses = torch.rand(5000, device="cuda")

    def turn(sampler):
        draw = sampler.draw(size)
        sampler.update(draw, losses[draw.indices])
        return draw

    for sampler in (eager, graphed):
        turn(sampler)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for sampler in (eager, graphed):
            turn(sampler)
    finally:
        torch.cuda.set_sync_debug_mode("default")
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
    eager.check()
