"""The index on a device: exact, the same on every run, and nothing half done.

Kernels run on a CUDA device where there is one, else under Triton's interpreter on small boards.
Without Triton those tests are skipped, and the CPU's index alone is tested.
"""

import contextlib
import copy
import io
import math
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from device_case import (
    CUDA,
    DEVICE,
    change_kernels,
    cuda_tests,
    fixtures,
    needs_triton,
    use_kernels,
)  # fmt: skip
from device_oracle import Oracle, key_of, philox

import tombola
from tombola.checkpoint import CheckpointError
from tombola.index.real import NONE_TAKEN, fill_integers
from tombola.torch import WeightIndex
from tombola.torch.device import board, index
from tombola.torch.device.layout import Cell, shape_of
from tombola.torch.tensors import from_tensors, to_tensors

ODD = 2**64 // 5 + 1  # a total for which a fifth of all words is rejected
FULL = 2**62 // 16
ODD_WEIGHTS = [FULL] * 12 + [ODD - 12 * FULL] + [0] * 3
HALF_WEIGHTS = [FULL] * 14 + [2**65 // 9 - 14 * FULL, 0]  # of the low halves below it, half are

new, on_board = fixtures(
    lambda device, weights, seed=0: WeightIndex(torch.tensor(weights), device=device, seed=seed)
)


def on(device_index, values):
    return torch.tensor(values, dtype=torch.int64, device=device_index.device)


def put(device_index, items, weights):
    device_index.set(on(device_index, items), on(device_index, weights))


def add(device_index, items, amounts):
    device_index.add(on(device_index, items), on(device_index, amounts))


def assert_equals(device_index, oracle):
    """Leaves, all sums, scratch and counters are what they should be, to the bit."""
    engine = device_index._engine
    assert engine.leaves.tolist() == oracle.weights
    for level, sums in zip(engine.levels[1:], oracle.levels(), strict=True):
        assert level.tolist() == sums + [0] * (len(level) - len(sums))
    assert not engine.levels[0][len(oracle.weights) :].any()
    cells = engine.cells.tolist()
    assert cells[Cell.POSITION] == oracle.position
    assert cells[Cell.TICKET] == 0
    assert not any(part.any() for table in engine.tables.values() for part in table[:2])


def play(make, n, seed, *, rounds=3, draws=9, size=20, spread=2**40):
    """Mix draws, sets and adds; compare each step with the oracle. Returns all bytes."""
    generator = np.random.default_rng(seed)
    weights = generator.integers(0, spread, n).tolist()
    device_index, oracle = make(weights, seed), Oracle(weights, seed)
    drawn = []
    for _ in range(rounds):
        draw = device_index.draw(draws)
        total, expected = oracle.total, oracle.draw(draws)
        assert draw.indices.tolist() == expected
        assert draw.weights.tolist() == [oracle.weights[i] for i in expected]
        assert draw.total.item() == total
        drawn.append(draw.indices)
        # near to one another, and some of them twice or more
        items = (expected[0] + generator.integers(0, 2 * size, size)) % n
        new_weights = generator.integers(0, spread, size)
        device_index.set(on(device_index, items.tolist()), on(device_index, new_weights.tolist()))
        oracle.set(items.tolist(), new_weights.tolist())
        assert_equals(device_index, oracle)
        amounts = generator.integers(0, spread, size).tolist()
        add(device_index, items.tolist(), amounts)
        oracle.add(items.tolist(), amounts)
        assert_equals(device_index, oracle)
    device_index.check()
    device_index.verify()
    drawn.append(device_index._engine.memory)
    return torch.cat(drawn).cpu().numpy().tobytes()


# ---- against the oracle


def test_the_oracle_knows_philox():
    """Known answers of Random123, `kat_vectors`."""
    assert philox((0,) * 4, (0, 0)) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    ones = 0xFFFFFFFF
    assert philox((ones,) * 4, (ones, ones)) == (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)


def test_keys_are_the_numbers_of_splitmix():
    """Published numbers: those after the seeds 0 and 1234567."""
    assert key_of(0) == 0xE220A8397B1DCDAF
    assert key_of(1234567) == 6457827717110365317
    for seed in (0, 1, 2**63, 2**64 - 1):
        assert board.key_of(seed) % 2**64 == key_of(seed)
        assert -(2**63) <= board.key_of(seed) < 2**63


@pytest.mark.parametrize("n", [1, 127, 128, 129, 16_384, 16_385, 10**9])
def test_boards_are_padded_to_whole_rows(n):
    shape = shape_of(n)
    assert shape.rows[-1] == 1
    assert [rows * 32 for rows in shape.rows[1:]] >= list(shape.rows[:-1])
    assert shape.starts[-1] == 128
    assert shape.size == shape.starts[0] + shape.rows[0] * 128
    assert shape.limit * n <= 2**62


def test_a_billion_items_take_at_most_8_1_bytes_each():
    assert shape_of(10**9).size * 8 <= 8.1 * 10**9


@needs_triton
@pytest.mark.parametrize(
    ("n", "seed"), [(1, 0), (7, 2**64 - 1), (128, 1), (129, 2**63), (16_385, 5)]
)
def test_draws_and_changes_are_the_oracles(on_board, n, seed):
    play(on_board, n, seed)


@needs_triton
@pytest.mark.parametrize("launch", [(4, 1, 1), (8, 1, 16), (16, 1, 32), (2, 2, 8)])
def test_draws_do_not_depend_on_how_they_are_cut(on_board, monkeypatch, launch):
    monkeypatch.setattr(board, "draw_launch", lambda size: launch)
    play(on_board, 300, 3, draws=21)


@needs_triton
def test_large_batches_go_through_the_table(on_board, monkeypatch):
    monkeypatch.setattr(board, "SMALL", 0)
    play(on_board, 300, 3, rounds=2, size=150)


@needs_triton
def test_changes_of_top_sums_are_gathered(on_board, monkeypatch):
    monkeypatch.setattr(board, "GATHERED", 0)
    play(on_board, 17_000, 4, rounds=2)


@needs_triton
def test_the_same_run_twice_gives_the_same_bytes(on_board):
    assert play(on_board, 129, 9) == play(on_board, 129, 9)


@needs_triton
def test_words_are_rejected_as_they_should_be(on_board):
    for weights in (ODD_WEIGHTS, HALF_WEIGHTS):
        device_index, oracle = on_board(weights, 8), Oracle(weights, 8)
        assert device_index.draw(40).indices.tolist() == oracle.draw(40)


BOARDS = [
    [3],
    [0, 2, 0, 0, 5, 1],
    [0] * 127 + [2] + [0] * 128 + [3, 1],  # the ends of rows, an empty row
    [0] * 16_383 + [1, 2] + [0] * 200 + [4],  # three levels
    [2**40, 1, 2, 0, 2**40, 1, 1],  # more digits than float32 has
]
# `descend` with darts that a test gives
LOCATE = """

@triton.jit
def locate(board, n, darts, items, HEIGHT: tl.constexpr, GROUPS: tl.constexpr):
    lane = tl.program_id(0) * 4 + tl.arange(0, 4)
    item = descend(board, tl.cast(n, tl.int64), tl.load(darts + lane), HEIGHT, GROUPS)
    tl.store(items + lane, item)
"""


def vary(monkeypatch, folder, old, new):
    """Replace one piece of the text of the kernels, and add `locate`."""
    change_kernels(monkeypatch, folder, "kernels", old, new, LOCATE)


def assert_darts_land(make, weights):
    """Of the darts 0 .. total - 1, item i has weights[i], in order: look at both ends of each."""
    engine = make(weights)._engine
    ends = np.cumsum(weights)
    filled = np.flatnonzero(weights)
    darts = np.resize([*(ends - weights)[filled], *(ends - 1)[filled], *range(weights[-1])], 16)
    given = torch.tensor(darts, device=DEVICE)
    items = torch.empty_like(given)
    for groups in (1, 16):
        engine.kernels.locate[(4,)](
            engine.memory, len(weights), given, items, HEIGHT=engine.shape.height, GROUPS=groups
        )
        assert items.tolist() == np.searchsorted(ends, darts, side="right").tolist()


@needs_triton
def test_every_dart_lands_on_its_item(on_board, monkeypatch, tmp_path):
    vary(monkeypatch, tmp_path, *RIGHT)
    for weights in BOARDS:
        assert_darts_land(on_board, weights)


# ---- wrong kernels

RIGHT = ("import triton\n", "import triton\n")
WRONG = {
    "float32 mass": ("tl.cumsum(sums, 1)", "tl.cumsum(sums.to(tl.float32), 1).to(tl.int64)"),
    "no rejection": ("pending = rest < rejected\n", "pending = rest < 0 * rejected\n"),
    "rejects all that may be": ("(0 - bound) % bound", "bound"),
    "off by one dart": ("passed = ends <= rest", "passed = ends < rest"),
    "off by one block": ("first = leaves + row *", "first = leaves + tl.maximum(row - 1, 0) *"),
    "off by one group": ("place += start", "place += start + 8"),
    "lost update": (
        'tl.atomic_add(sums, delta, mask=delta != 0, sem="relaxed")',
        "tl.store(sums, tl.load(sums) + delta, mask=delta != 0)",
    ),
    "all duplicates win": ("(tl.max(last, 1) == own)", "(tl.max(last, 1) >= own)"),
    "stands still": ("position + 1)", "position)"),
    "all lanes alike": ("lane.to(tl.uint32), attempt", "(lane * 0).to(tl.uint32), attempt"),
    "table not cleared": ("tl.store(table + slot, tl.zeros_like(slot), mask=chosen)", "pass"),
    "amounts of duplicates lost": (
        'tl.atomic_add(sums + found, value, mask=found >= 0, sem="relaxed")',
        "tl.store(sums + found, value, mask=found >= 0)",
    ),
}


def trial(make):
    """What the tests above do, at once."""
    for weights in BOARDS:
        assert_darts_land(make, weights)
    test_words_are_rejected_as_they_should_be(make)
    play(make, 300, 3, rounds=2)


@needs_triton
@pytest.mark.parametrize("name", ["right", *WRONG])
def test_wrong_kernels_are_rejected(on_board, monkeypatch, tmp_path, name):
    vary(monkeypatch, tmp_path, *WRONG.get(name, RIGHT))
    if name == "right":
        trial(on_board)
    else:
        with pytest.raises(AssertionError):
            trial(on_board)


def excess(make):
    """Standard errors between the share of the first 7 items and their probability."""
    items = make(HALF_WEIGHTS, 8).draw(8192).indices
    p = 7 * FULL / sum(HALF_WEIGHTS)
    return abs((items < 7).double().mean().item() - p) / (p * (1 - p) / 8192) ** 0.5


@needs_triton
def test_frequencies_show_a_modulo(on_board, monkeypatch, tmp_path):
    """Modulo this total, 5 of 2^64 words are equal for darts in its lower half, else 4."""
    launch = (8, 1, 16) if CUDA else (512, 4, 1)  # few programs to interpret
    monkeypatch.setattr(board, "draw_launch", lambda size: launch)
    assert excess(on_board) < 5
    right = "dart = tl.umulhi(word, bound)\n    rest = word * bound"
    vary(monkeypatch, tmp_path, right, "dart = word % bound\n    rest = word | bound")
    assert excess(on_board) > 5


# ---- behaviour, the CPU's index and the device's


def test_draws_and_changes(new):
    device_index = new([1, 2, 0, 5])
    draw = device_index.draw(30)
    assert draw.indices.dtype == torch.int64
    assert set(draw.indices.tolist()) <= {0, 1, 3}
    assert draw.weights.tolist() == [[1, 2, 0, 5][i] for i in draw.indices]
    assert draw.probabilities.tolist() == [w / 8 for w in draw.weights.tolist()]
    put(device_index, [3, 0, 3, 1], [7, 6, 0, 0])
    assert device_index.weights.tolist() == [6, 0, 0, 0]
    assert set(device_index.draw(9).indices.tolist()) == {0}
    add(device_index, [2, 0, 2, 0], [3, -1, 4, -2])
    assert device_index.weights.tolist() == [3, 0, 7, 0]
    assert device_index.total.item() == 10
    given = device_index.probabilities(on(device_index, [2, 1, 4, -1])).tolist()
    assert given[:2] == [0.7, 0]
    assert np.isnan(given[2:]).all()
    device_index.check()
    device_index.verify()
    assert len(device_index) == 4
    assert repr(device_index).startswith("WeightIndex(n=4, device=")
    assert device_index.nbytes > 32


def test_a_draw_keeps_its_probabilities(new):
    device_index = new([4, 4])
    draw = device_index.draw(3)
    put(device_index, [0, 1], [1, 0])
    assert draw.probabilities.tolist() == [0.5] * 3


def test_copies_are_copies(new):
    given = [4, 4]
    device_index = new(given)
    device_index.weights[0] = 9
    assert device_index.weights.tolist() == given


def test_seeds_and_positions_matter(new):
    weights = list(range(1, 100))
    first, second = new(weights, 3), new(weights, 3)
    drawn = [first.draw(8).indices.tolist() for _ in range(3)]
    assert drawn == [second.draw(8).indices.tolist() for _ in range(3)]
    assert drawn[0] != drawn[1]
    assert drawn[0] != new(weights, 4).draw(8).indices.tolist()


def test_empty_calls_do_nothing(new):
    weights = list(range(1, 100))
    device_index = new(weights)
    draw = device_index.draw(0)
    assert draw.indices.shape == draw.probabilities.shape == (0,)
    assert draw.total.item() == sum(weights)
    put(device_index, [], [])
    add(device_index, [], [])
    device_index.set([], [])
    assert device_index.weights.tolist() == weights
    assert device_index.draw(4).indices.tolist() == new(weights).draw(4).indices.tolist()


@needs_triton
def test_nothing_to_draw_from(on_board):
    device_index = on_board([0] * 200)
    draw = device_index.draw(3)
    assert draw.indices.tolist() == [-1] * 3
    assert draw.weights.tolist() == [0] * 3
    assert draw.total.item() == 0
    with pytest.raises(ValueError, match="nothing to draw from in draw 0: all 200 items"):
        device_index.check()
    device_index.check()  # told once
    put(device_index, [150], [2])
    assert device_index.draw(3).indices.tolist() == [150] * 3
    device_index.check()


LARGEST = 2**62 // 5
BAD_SETS = [
    ([0, 5, 1, -1], [1, 1, 1, 1], IndexError, r"items\[1\] is 5, out of range .* of 5 items"),
    ([0, 1, -1, 7], [1, 1, 1, -1], IndexError, r"items\[2\] is -1, out of range"),
    ([0, 1, 2, 9], [1, 1, -3, 1], ValueError, r"weights\[2\] is -3, but weights must not be neg"),
    ([0, 1, 2], [1, LARGEST + 1, -3], ValueError, rf"weights\[1\] is {LARGEST + 1}, but 2\^62"),
    ([0, 2**62, 2], [1, 1, -3], IndexError, rf"items\[1\] is {2**62}, out"),
    ([0, 7, 2], [1, -1, 3], IndexError, r"items\[1\] is 7, out"),
]
BAD_ADDS = [
    *[(i, a, e, m) for i, a, e, m in BAD_SETS[:2]],
    ([0, 1], [1, 2**62], ValueError, rf"deltas\[1\] is {2**62}, but 2\^62 // max\(n, k\) is"),
    ([0, 1], [1, -(2**62)], ValueError, r"deltas\[1\] is -4611686018427387904"),
    ([3, 0, 3], [1, 1, -9], ValueError, r"for item 3, the last one at position 2, bring its w"),
    ([2, 0], [LARGEST, 1], ValueError, rf"for item 2, the last .* 0 to {LARGEST}, which is"),
    ([3, 0, 9], [-9, 1, 1], IndexError, r"items\[2\] is 9"),  # before sums are looked at
]


def assert_refused(device_index, change, error, message):
    weights = device_index.weights.tolist()
    change()
    assert device_index.weights.tolist() == weights
    device_index.verify()
    with pytest.raises(error, match=message):
        device_index.state_dict()
    device_index.check()


@needs_triton
@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize(("items", "weights", "error", "message"), BAD_SETS)
def test_bad_sets_are_refused_as_a_whole(
    on_board, monkeypatch, small, items, weights, error, message
):
    if not small:
        monkeypatch.setattr(board, "SMALL", 0)
    device_index = on_board([1, 2, 3, 4, 5])
    assert_refused(device_index, lambda: put(device_index, items, weights), error, message)
    put(device_index, [1, 1], [9, LARGEST])  # and the next batch is accepted
    device_index.check()
    assert device_index.weights.tolist() == [1, LARGEST, 3, 4, 5]


@needs_triton
@pytest.mark.parametrize(("items", "amounts", "error", "message"), BAD_ADDS)
def test_bad_adds_are_refused_as_a_whole(on_board, items, amounts, error, message):
    device_index = on_board([1, 2, 3, 4, 5])
    assert_refused(device_index, lambda: add(device_index, items, amounts), error, message)
    add(device_index, [3, 3, 3], [-9, 3, 5])  # below zero on the way is not below zero
    device_index.check()
    assert device_index.weights.tolist() == [1, 2, 3, 3, 5]


@needs_triton
def test_the_first_fault_is_kept(on_board):
    device_index = on_board([1, 2, 3])
    put(device_index, [0, 4], [1, 1])
    put(device_index, [0, 1], [-1, 1])
    put(device_index, [0], [8])
    with pytest.raises(IndexError, match=r"items\[1\] is 4"):
        device_index.check()
    device_index.check()
    assert device_index.weights.tolist() == [8, 2, 3]


def test_the_largest_total_is_drawn_from(new):
    n = 130
    device_index = new([2**62 // n] * n)
    draw = device_index.draw(20)
    assert draw.total.item() == 2**62 // n * n
    assert len(set(draw.indices.tolist())) > 10
    device_index.check()


@needs_triton
def test_a_draw_without_luck_is_reported(on_board, monkeypatch):
    """One attempt is not enough where a fifth of the words is rejected."""
    device_index = on_board(ODD_WEIGHTS)
    engine = device_index._engine
    out = torch.empty(129, dtype=torch.int64, device=DEVICE)
    engine.kernels.draw_kernel[(4,)](
        engine.memory, 16, out, 64, 64, HEIGHT=1, TILE=16, GROUPS=1, ATTEMPTS=1
    )
    assert ((out[:64] >= 0) & (out[:64] < 16)).all()
    with pytest.raises(RuntimeError, match="draw 0 rejected every random word"):
        device_index.check()


# ---- states


def test_states_continue_the_stream(new):
    weights = list(range(1, 200))
    first = new(weights, 2**64 - 3)
    first.draw(5)
    put(first, [3, 150], [1000, 0])
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    second = new([0] * 199, 5)
    with contextlib.suppress(IndexError):  # on the CPU at once
        put(second, [-1], [3])
    second.load_state_dict(state)
    second.check()  # faults of another life are forgotten
    assert second.seed == first.seed
    for _ in range(2):
        assert second.draw(6).indices.tolist() == first.draw(6).indices.tolist()
    second.verify()
    assert state["weights"][3] == 1000


BAD_STATES = [
    ({"seed": -1}, "seed must be an integer from 0"),
    ({"seed": 2.0}, "seed must be an integer"),
    ({"position": 2**60 + 1}, "position must be an integer from 0 to 2.60, got"),
    ({"position": True}, "position must be an integer"),
    ({"weights": [1, 2, 3]}, "weights must be an array of 3 int64, got a list"),
    ({"weights": torch.ones(3)}, "weights must be an array of 3 int64"),
    ({"weights": torch.ones(4).long()}, r"weights must be an array of 3 .* of shape \(4,\)"),
    *[
        ({name: tensor}, f"{name} is a tensor that numpy cannot hold")
        for name in ("weights",)
        for tensor in (torch.ones(3).long().to("meta"), torch.ones(3).long().to_sparse())
    ],
    ({"weights": torch.tensor([1, 2, -3])}, r"weights\[2\] must be .* got -3"),
    ({"weights": torch.tensor([1, 2**62, 3])}, r"weights\[1\] must be .* got 4611686018427387904"),
]


@needs_triton
@pytest.mark.parametrize(("change", "message"), BAD_STATES)
def test_bad_states_change_nothing(on_board, change, message):
    device_index = on_board([1, 2, 3], 7)
    state = device_index.state_dict()
    with pytest.raises(CheckpointError, match=message):
        device_index.load_state_dict({**state, **change})
    assert repr(device_index.state_dict()) == repr(state)


def test_states_of_the_cpu_are_the_hosts():
    """They load there and back; nothing changes if they are wrong."""
    for weights in (list(range(1, 40)), [k / 7 for k in range(39)]):
        device_index, host = WeightIndex(weights, seed=3), tombola.WeightIndex(weights, seed=3)
        device_index.draw(5), host.draw(5)
        state = device_index.state_dict()
        twin = tombola.WeightIndex.from_state_dict(from_tensors(state))
        assert twin.draw(7) == host.draw(7)
        other = WeightIndex([1] * 39)
        other.load_state_dict(to_tensors(twin.state_dict()))
        assert other.draw(7).indices.tolist() == host.draw(7).indices.tolist()
        assert other.seed == 3
        for wrong in (
            {**state, "order": state["order"] * 0},
            to_tensors(tombola.WeightIndex([1]).state_dict()),
        ):
            with pytest.raises(CheckpointError, match=r"order|saved with n=1, here it is 39"):
                device_index.load_state_dict(wrong)
        assert repr(device_index.state_dict()) == repr(state)


def test_the_cpu_draws_what_the_hosts_index_does():
    """Items, probabilities and weights, with the errors of the host, at once."""
    for weights, fresh in (([1, 2, 0, 5], [0, 6]), ([0.5, 2.25, 0.0, 5.0], [0.0, 6.5])):
        device_index = WeightIndex(torch.tensor(weights, dtype=None), device="cpu", seed=7)
        host = tombola.WeightIndex(torch.tensor(weights).numpy(), seed=7)
        for _ in range(3):
            draw, expected = device_index.draw(9), host.draw(9)
            assert draw.indices.tolist() == expected.indices.tolist()
            assert draw.probabilities.tolist() == expected.probabilities.tolist()
            assert draw.number == expected.round
            assert draw.weights.tolist() == [host[item] for item in expected.indices.tolist()]
            assert draw.total.item() == host.total
            device_index.set(torch.tensor([3, 0]), torch.tensor(fresh))
            host.set([3, 0], fresh)
            device_index.add([1, 1], torch.tensor([1, 1]))
            host.add([1, 1], [1, 1])
        assert device_index.weights.tolist() == host.weights.tolist()
        assert device_index.total.item() == host.total
        before = device_index.weights.tolist()
        for items, values, error in (([1, 4], [1, 1], IndexError), ([1, 0], [1, -1], ValueError)):
            with pytest.raises(error, match=r"(items|weights)\[1\] is"):
                device_index.set(torch.tensor(items), torch.tensor(values))
        with pytest.raises(ValueError, match=r"deltas\[0\] is -99"):
            device_index.add(torch.tensor([1]), torch.tensor([-99]))
        assert device_index.weights.tolist() == before
    with pytest.raises(ValueError, match="nothing to draw from"):
        WeightIndex([0, 0]).draw(1)


# ---- real weights


@pytest.fixture
def real(monkeypatch):
    """A function that makes an index of real weights of the kind that runs on a device."""
    use_kernels(monkeypatch)
    return lambda values, seed=0: WeightIndex(
        torch.tensor(values, dtype=torch.float64, device=DEVICE), seed=seed
    )


def test_real_weights_become_integers_by_the_rule_of_the_host():
    words = torch.arange(0x7C00, dtype=torch.int16).view(torch.float16)
    values = words.double().numpy()
    for exponent in (-12, -1, 0, 10, 24, 45):
        expected = np.empty(values.size, dtype=np.int64)
        fill_integers(values, NONE_TAKEN, exponent, expected)
        for given in (words, torch.from_numpy(values)):
            made = index._integers(given, 2.0**exponent).numpy()
            np.testing.assert_array_equal(made, expected)
            np.testing.assert_array_equal(index._integers(-given, 2.0**exponent).numpy(), -expected)


@needs_triton
@pytest.mark.parametrize("largest", [1.0, 3.0, 1e300, 1e-300, 5e-324])
@pytest.mark.parametrize("n", [1, 3, 1000])
def test_the_scale_leaves_room_for_weights_a_thousand_times_as_large(real, n, largest):
    device_index = real([largest] + [0.0] * (n - 1))
    units = int(device_index._engine.leaves[0])
    assert 0 < units <= 2**62 // n // 1024
    if largest > 1e-200:
        assert units > 2**62 // n // 8192
        device_index.set([0], [1024 * largest])
        device_index.check()
        assert device_index.weights[0] == 1024 * largest


@needs_triton
def test_real_draws_and_changes(real):
    device_index = real([0.5, 1.0, 0.0, 2.5], seed=1)
    draw = device_index.draw(30)
    assert set(draw.indices.tolist()) == {0, 1, 3}
    assert draw.weights.tolist() == [[0.5, 1.0, 0.0, 2.5][i] for i in draw.indices]
    assert draw.probabilities.tolist() == [w / 4 for w in draw.weights.tolist()]
    assert draw.importances.tolist() == (1 / (4 * draw.probabilities)).float().tolist()
    assert draw.total.item() == 4
    assert draw.ticket == tombola.Draw(
        draw.indices.cpu().numpy(), draw.probabilities.cpu().numpy(), 4, 0
    )
    assert draw.mean(draw.probabilities).item() == 0.25
    put(device_index, [3, 0], [0, 6])  # integers are real numbers too
    device_index.add([1, 1, 3], [0.25, 1.0, 1e-300])
    device_index.add([0], torch.tensor([-2.5], dtype=torch.float16, device=DEVICE))
    device_index.check()
    weights = device_index.weights.tolist()
    assert weights[:3] == [3.5, 2.25, 0.0]
    assert 0 < weights[3] < 1e-12
    assert device_index.probabilities([1]).item() == pytest.approx(2.25 / 5.75, rel=1e-15)
    assert device_index.draw(2).number == 1
    device_index.verify()


@needs_triton
def test_real_weights_start_from_nothing(real):
    device_index = real([0.0] * 5)
    device_index.set([1, 2], [1000.0, 0.001])
    device_index.check()
    np.testing.assert_allclose(device_index.weights.cpu(), [0, 1000.0, 0.001, 0, 0], atol=2.0**-48)


@needs_triton
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda index: index.set([0, 1], [1.0, -0.5]), r"weights\[1\] is -0.5, but .* negative"),
        (lambda index: index.set([0, 1], [1.0, math.nan]), r"weights\[1\] is nan, but .* finite"),
        (
            lambda index: index.set([0, 1], [1.0, math.inf]),
            r"weights\[1\] is 16384.0 or beyond; the scale",
        ),
        (
            lambda index: index.set([0], [5000.0]),
            r"weights\[0\] is 5000.0; .* weights up to 4096.0",
        ),
        (lambda index: index.add([0, 1], [1.0, math.nan]), r"deltas\[1\] is nan, but 2\^62"),
        (lambda index: index.add([1, 0], [-0.75, 1.0]), "for item 1, the last .* 0 to 4096.0, wh"),
    ],
)
def test_bad_real_changes_are_refused_as_a_whole(real, call, message):
    device_index = real([3.0, 0.5, 1.0, 2.0])
    assert_refused(device_index, lambda: call(device_index), ValueError, message)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -2.5], r"weights\[1\] is -2.5, but weights must not be negative"),
        ([1.0, math.nan], r"weights\[1\] is nan, but weights must be finite"),
        ([math.inf, 1.0], r"weights\[0\] is 4096.0 or beyond; .* weights up to 2048.0"),
    ],
)
def test_bad_real_weights(real, weights, message):
    with pytest.raises(ValueError, match=message):
        real(weights)


@needs_triton
def test_real_weights_on_a_board(on_board):
    """The kernels see integers: they need nothing else."""
    device_index = WeightIndex(torch.tensor([0.5, 0.0, 1.5]).to(DEVICE), device=DEVICE)
    device_index.set(on(device_index, [1]), torch.tensor([2.0]).to(DEVICE))
    device_index.add(on(device_index, [0, 0]), torch.tensor([0.25, 0.25]).to(DEVICE))
    assert device_index.weights.tolist() == [1.0, 2.0, 1.5]
    draw = device_index.draw(6)
    assert draw.probabilities.tolist() == (draw.weights / 4.5).tolist()
    state = device_index.state_dict()
    twin = WeightIndex(torch.ones(3).to(DEVICE), device=DEVICE)
    twin.load_state_dict(state)
    assert twin.weights.tolist() == device_index.weights.tolist()
    device_index.set(on(device_index, [0, 1]), torch.tensor([1.0, math.nan]).to(DEVICE))
    with pytest.raises(ValueError, match=r"weights\[1\] is nan"):
        device_index.check()


# ---- arguments


@needs_triton
def test_arguments_are_checked(monkeypatch):
    use_kernels(monkeypatch)
    with pytest.raises(TypeError, match=r"weights must hold integers, got torch.bool"):
        WeightIndex(torch.ones(3) > 0)
    with pytest.raises(ValueError, match=r"one dimension, got shape \(2, 2\)"):
        WeightIndex([[1, 2], [3, 4]])
    with pytest.raises(ValueError, match=r"1 to 2\^38 items, got 0"):
        WeightIndex(torch.empty(0, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"weights\[1\] is -2, but weights must not"):
        WeightIndex([1, -2])
    with pytest.raises(ValueError, match=rf"weights\[0\] is {2**61 + 1}, but 2\^62 // n"):
        WeightIndex([2**61 + 1, 2])
    with pytest.raises(ValueError, match="seed must be from 0"):
        WeightIndex([1], seed=2**64)
    device_index = WeightIndex(np.array([1, 2], dtype=np.uint8), device=DEVICE)
    with pytest.raises(ValueError, match="size must be from 0"):
        device_index.draw(-1)
    with pytest.raises(TypeError, match=r"weights must hold integers, got torch.float64; make"):
        device_index.set([0], [0.5])
    with pytest.raises(TypeError, match="items must hold integers"):
        device_index.set([0.0], [1])
    with pytest.raises(ValueError, match="same length, got 2 and 1"):
        device_index.set([0, 1], [1])
    with pytest.raises(ValueError, match="one dimension"):
        device_index.add([[0]], [[1]])
    with pytest.raises(ValueError, match="items is on meta, the index on c"):
        device_index.set(torch.zeros(1, dtype=torch.int64, device="meta"), [1])
    device_index.set(np.array([1], dtype=np.int32), [7])
    assert device_index.weights.tolist() == [1, 7]


def test_triton_may_be_absent():
    script = (
        "import sys; sys.modules['triton'] = None; import torch, tombola.torch as t; "
        "from tombola.torch.device.board import Board; t.WeightIndex([1]).draw(2)\n"
        "try: Board(torch.ones(1), torch.device('cpu'), 0)\n"
        "except ImportError as error: print(error)"
    )
    out = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert out.stdout.startswith("a GPU needs Triton, which comes with PyTorch")


# ---- on a CUDA device


@cuda_tests
def test_every_residue_is_drawn_beyond_2_to_the_25():
    """Float32 would miss three of four items."""
    device_index = WeightIndex(torch.ones(2**25 + 3, dtype=torch.int64, device="cuda"))
    counts = torch.zeros(4, dtype=torch.int64, device="cuda")
    for _ in range(16):
        counts += torch.bincount(device_index.draw(65_536).indices % 4, minlength=4)
    size = 16 * 65_536
    assert ((counts - size / 4).abs() < 5 * (size * 3 / 16) ** 0.5).all(), counts.tolist()


@cuda_tests
@pytest.mark.parametrize("n", [1000, 100_000, 3_000_000])
def test_a_million_draws_and_changes(n):
    def run():
        generator = torch.Generator("cuda").manual_seed(n)
        weights = torch.randint(0, 2**30, (n,), generator=generator, device="cuda")
        device_index = WeightIndex(weights, seed=3)
        twin, batches = weights.cpu().numpy().copy(), []
        for k in range(160):
            size = (100, 1500, 4096, 5000, 20_000)[k % 5]
            items = device_index.draw(size).indices
            fresh = torch.randint(0, 2**30, (size,), generator=generator, device="cuda")
            batches.append((k % 3, items, fresh))
            device_index.add(items, fresh) if k % 3 == 0 else device_index.set(items, fresh)
        device_index.check()
        device_index.verify()
        for kind, items, fresh in batches:
            if kind == 0:
                np.add.at(twin, items.cpu().numpy(), fresh.cpu().numpy())
            else:
                twin[items.cpu().numpy()] = fresh.cpu().numpy()
        assert device_index.weights.tolist() == twin.tolist()
        return device_index._engine.memory.cpu().numpy().tobytes()

    assert run() == run()


@cuda_tests
def test_nothing_waits():
    device_index = WeightIndex(torch.arange(100_000, device="cuda"))
    batches = {size: torch.arange(size, device="cuda") for size in (128, 4096, 8192)}
    for mode in ("default", "error"):  # the first round compiles
        torch.cuda.set_sync_debug_mode(mode)
        try:
            for items in batches.values():
                draw = device_index.draw(len(items))
                device_index.set(draw.indices, items)
                device_index.add(items, items)
                device_index.probabilities(draw.indices).add_(draw.probabilities)
                device_index.total.add_(1)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    device_index.check()


@cuda_tests
@pytest.mark.parametrize("size", [128, 4096, 8192])
def test_a_graph_replays_the_draws_of_eager_calls(size):
    weights = torch.arange(1, 50_001, device="cuda")
    fresh = torch.arange(size, device="cuda") + 1
    eager, graphed = WeightIndex(weights, seed=4), WeightIndex(weights, seed=4)

    def turn(device_index):
        draw = device_index.draw(size)
        device_index.set(draw.indices, fresh)
        device_index.add(draw.indices, fresh)
        return draw

    turn(eager)
    turn(graphed)  # before the capture: compiles and allocates
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        draw = turn(graphed)
    for _ in range(5):
        graph.replay()
        expected = turn(eager)
        assert torch.equal(draw.indices, expected.indices)
        assert torch.equal(draw.weights, expected.weights)
        assert draw.total == expected.total
    assert torch.equal(eager._engine.memory, graphed._engine.memory)
    state = eager.state_dict()
    turn(eager)
    graphed.load_state_dict(state)  # in the same memory: the graph goes on from there
    graph.replay()
    assert torch.equal(eager._engine.memory, graphed._engine.memory)


@cuda_tests
def test_a_capture_without_scratch_memory_is_refused():
    device_index = WeightIndex(torch.arange(1, 50_001, device="cuda"))
    items = torch.arange(5000, device="cuda")
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        items += 1  # a graph must not be empty
        with pytest.raises(RuntimeError, match="before the capture"):
            device_index.set(items, items)
    assert device_index.weights[0] == 1


@pytest.mark.parametrize("shift", [0, 3])
def test_batches_may_begin_anywhere(new, shift):
    """Also after a launch with another beginning: compiled code assumes nothing about it."""
    device_index = new([1] * 300)
    for begin in (0, shift, 0):
        for size in (20, 2000):
            items = on(device_index, list(range(300)) * 7)[begin : begin + size]
            values = on(device_index, list(range(2100)))[begin : begin + size]
            device_index.set(items, values)
            device_index.add(items[:50], values[:50])
            expected = dict(zip(items.tolist(), values.tolist(), strict=True))
            for item, amount in zip(items[:50].tolist(), values[:50].tolist(), strict=True):
                expected[item] += amount
            device_index.check()
            device_index.verify()
            weights = device_index.weights.tolist()
            assert all(weights[item] == value for item, value in expected.items())


@cuda_tests
def test_draws_do_not_repeat_torchs_random_numbers():
    """Torch's generator is Philox, too: with the seed as the key, both would be the same words."""
    size, rounds = 4096, 40
    device_index = WeightIndex(torch.ones(2**20, dtype=torch.int64, device="cuda"), seed=5)
    places, theirs = [], []
    torch.manual_seed(5)
    for _ in range(rounds):
        places.append(device_index.draw(size).indices.double() / 2**20)
        theirs.append(torch.rand(size, dtype=torch.float64, device="cuda"))
    places, theirs = torch.stack(places), torch.stack(theirs)
    for lag in range(3):  # of the rounds; 1 - |difference| is 2/3 on average if independent
        for one, two in ((places, theirs), (theirs, places)):
            apart = (one[lag:] - two[: rounds - lag]).abs()
            assert float(apart.mean()) == pytest.approx(1 / 3, abs=0.005)
            assert float((apart < 1e-3).double().mean()) < 0.005


def test_a_draw_can_be_copied_pickled_and_cut():
    for weights in ([1, 2, 5], [0.5, 2.0, 1.5]):
        draw = WeightIndex(torch.tensor(weights)).draw(4)
        for again in (copy.copy(draw), copy.deepcopy(draw), pickle.loads(pickle.dumps(draw))):
            assert again.probabilities.equal(draw.probabilities)
            assert again.weights.equal(draw.weights)
            assert repr(again) == repr(draw) == "IndexDraw(4 of 3 items, draw 0)"
        assert draw[:2].weights.equal(draw.weights[:2])
        assert draw[:2].total == draw.to("cpu").total == draw.total


@needs_triton
@pytest.mark.parametrize("weight", [math.inf, 1e300])
@pytest.mark.parametrize("n", [1, 2])
def test_weights_beyond_the_scale_are_refused(real, n, weight):
    index = real([1.0] * n)
    index.set([0], [weight])
    with pytest.raises(ValueError, match=r"weights\[0\] is .* or beyond; the scale of this index"):
        index.check()
    assert index.weights.tolist() == [1.0] * n
    with pytest.raises(ValueError, match=r"weights\[0\] is"):
        real([math.inf] * n)


def test_the_number_of_a_draw_is_resumed(new):
    index = new([1, 2])
    index.draw(2), index.draw(2)
    again = new([1, 1])
    again.load_state_dict(index.state_dict())
    assert again.draw(1).number == index.draw(1).number == 2


@needs_triton
def test_items_get_no_advice_about_weights(real):
    items, weights = (torch.tensor([k], device=DEVICE) for k in (0.0, 1.0))
    with pytest.raises(TypeError, match=r"items must hold integers, got torch.float32, use int64"):
        real([1.0]).set(items, weights)
