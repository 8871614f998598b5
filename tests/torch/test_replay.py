"""`PrioritizedSampler`: what TorchRL expects of a prioritised sampler, restated.

TorchRL is not needed: `Ring` calls a sampler in the order in which TorchRL's buffers do. Where
TorchRL is installed, the last tests go through its own buffers.
"""

import copy
import importlib.util
import multiprocessing
import pickle
import runpy
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from states import same
from tombola.checkpoint import CheckpointError
from tombola.torch.replay import PrioritizedSampler
from tombola.torch.replay.extremes import block_bits, least, new_bounds, note
from tombola.torch.replay.priorities import settle
from tombola.torch.replay.sampler import base_class

EXAMPLES = Path(__file__).parents[2] / "examples"
EPS = 1e-8


class Ring:
    """A buffer of numbers that overwrites the oldest."""

    def __init__(self, capacity, **options):
        settings = {"alpha": 1.0, "beta": 1.0} | options
        self.sampler = PrioritizedSampler(capacity, **settings)
        self.capacity, self.storage, self.cursor = capacity, [], 0

    def extend(self, values):
        slots = [(self.cursor + k) % self.capacity for k in range(len(values))]
        self.cursor = (self.cursor + len(values)) % self.capacity
        for slot, value in zip(slots, values, strict=True):
            if slot < len(self.storage):
                self.storage[slot] = value
            else:
                self.storage.append(value)
        self.sampler.mark_update(torch.tensor(slots), storage=self.storage)  # by the writer
        self.sampler.extend(torch.tensor(slots))
        return slots

    def sample(self, size):
        return self.sampler.sample(self.storage, size)


class Grid:
    """A storage of two dimensions."""

    shape, ndim = (4, 3), 2

    def __len__(self):
        return 12


def probabilities(sampler):
    """The exact probabilities of a draw."""
    settle(sampler._board)
    units = sampler._board.slots.weights
    return units / units.sum()


def filled(priorities, capacity=None, **options):
    ring = Ring(capacity or len(priorities), **options)
    ring.extend(range(len(priorities)))
    ring.sampler.update_priority(range(len(priorities)), priorities)
    return ring


# --- new items -------------------------------------------------------------------------------


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("alpha", [0.4, 1.0])
def test_new_items_get_the_largest_priority_raised_to_alpha_once(alpha, within):
    ring = filled([100.0, 3.0], 10, alpha=alpha, max_priority_within_buffer=within)
    ring.extend(["new"])
    assert ring.sampler.default_priority == 100.0
    assert ring.sampler.priorities[:3].tolist() == [100.0, 3.0, 100.0]
    p = probabilities(ring.sampler)
    assert p[2] == p[0]
    assert p[1] / p[0] == pytest.approx((3 / 100) ** alpha, rel=1e-6)


def test_the_first_items_have_priority_one():
    ring = Ring(10)
    assert ring.sampler.default_priority == 1.0
    ring.extend(range(4))
    assert ring.sampler.priorities[:4].tolist() == [1.0] * 4


def test_add_and_extend_do_without_a_writer_that_marks():
    sampler = PrioritizedSampler(6, alpha=1.0, beta=1.0)
    sampler.add(0)
    sampler.update_priority(0, 5.0)
    sampler.extend((1, 2))
    sampler.extend(torch.tensor([3]))
    sampler.extend(range(4, 5))
    assert sampler.priorities[:5].tolist() == [5.0] * 5
    assert sampler.priorities[5:].isnan().all()


@pytest.mark.parametrize("within", [False, True])
def test_the_largest_priority_ever_or_within_the_buffer(within):
    ring = Ring(11, alpha=0.6, max_priority_within_buffer=within)
    for k in range(20):
        [slot] = ring.extend([k])
        ring.sampler.update_priority(slot, 21.0 - k)
        expected = 21.0 if k <= 10 or not within else 31.0 - k  # of the oldest that is left
        assert ring.sampler.default_priority == expected
    ring.sampler.update_priority(range(11), 12)
    assert ring.sampler.default_priority == (12.0 if within else 21.0)


def test_the_largest_within_the_buffer_is_known_with_alpha_zero():
    ring = filled([100.0, 10.0], alpha=0.0, max_priority_within_buffer=True)
    ring.sampler.update_priority(0, 50.0)
    assert ring.sampler.default_priority == 50.0


def test_least_and_largest_as_read_from_all_numbers():
    generator = np.random.default_rng(0)
    n = 300
    values, low, high = np.full(n, np.nan), new_bounds(n), new_bounds(n)
    bits = block_bits(n)
    for step in range(3000):
        item = int(generator.integers(n if step > 1000 else 40))
        new = float(generator.choice([0.0, 1.0, 2.0, generator.random()]))
        note(low, item >> bits, values[item], new)
        note(high, item >> bits, -values[item], -new)
        values[item] = new
        if step % 7 == 0:
            assert least(low, values, 1.0, bits) == np.nanmin(values)
            assert least(high, values, -1.0, bits) == -np.nanmax(values)


# --- slots that are overwritten, empty, or not there -------------------------------------------


def test_a_late_update_of_an_overwritten_item_counts_for_the_new_one():
    ring = filled([1.0, 1.0, 1.0])
    index = torch.tensor([0])  # drawn now ...
    ring.extend(["new"])
    assert ring.storage[0] == "new"
    ring.sampler.update_priority(index, 7.0)  # ... and learnt from after it was overwritten
    assert ring.sampler.priorities.tolist() == [7.0, 1.0, 1.0]
    assert probabilities(ring.sampler)[0] == pytest.approx(7 / 9)


def test_an_overwritten_item_loses_its_priority():
    ring = filled([0.1, 5.0, 2.0])
    ring.extend(["new"])
    assert ring.sampler.priorities.tolist() == [5.0, 5.0, 2.0]


def test_below_capacity_only_items_are_drawn():
    ring = filled([1.0, 2.0, 3.0], 1000)
    index, _ = ring.sample(2000)
    assert sorted(set(index.tolist())) == [0, 1, 2]


def test_slots_beyond_the_end_of_the_storage_are_not_drawn():
    torch.manual_seed(0)
    ring = filled([1.0, 2.0, 1000.0], 10)
    index, info = ring.sampler.sample(ring.storage[:2], 1000)
    assert sorted(set(index.tolist())) == [0, 1]
    assert float(info["priority_weight"].max()) == 1.0
    assert sorted(set(ring.sample(5000)[0].tolist())) == [0, 1, 2]  # and they are kept


def test_an_empty_buffer_cannot_be_sampled():
    ring = Ring(5)
    with pytest.raises(RuntimeError, match="Cannot sample from an empty storage"):
        ring.sample(2)
    with pytest.raises(RuntimeError, match="none of the 3 items of the storage has a priority"):
        ring.sampler.sample([1, 2, 3], 2)


def test_emptying_forgets_items_and_the_largest_priority():
    ring = filled([4.0, 9.0], 5, alpha=0.5)
    ring.sampler._empty()
    assert ring.sampler.default_priority == 1.0
    assert ring.sampler.priorities.isnan().all()
    assert ring.sampler.alpha == 0.5
    ring.sampler.extend([3])
    assert ring.sampler.sample(range(5), 10)[0].tolist() == [3] * 10


def test_negative_slots_are_left_out_with_their_priorities():
    ring = filled([1.0, 2.0, 3.0])
    ring.sampler.update_priority([-1, 1, -1], [90.0, 5.0, float("nan")])
    assert ring.sampler.priorities.tolist() == [1.0, 5.0, 3.0]
    assert ring.sampler.default_priority == 5.0
    ring.sampler.update_priority(-1, 90.0)
    assert ring.sampler.default_priority == 5.0


def test_the_last_priority_of_a_slot_wins():
    ring = filled([1.0, 2.0])
    ring.sampler.update_priority([0, 1, 0], [5.0, 6.0, 7.0])
    assert ring.sampler.priorities.tolist() == [7.0, 6.0]


# --- shapes ----------------------------------------------------------------------------------


def test_one_priority_for_all_or_one_for_each():
    ring = filled([1.0, 2.0, 3.0])
    for priority in (2, 2.0, torch.tensor(2.0), torch.tensor([[2.0]]), [2]):
        ring.sampler.update_priority(torch.tensor([0, 2]), priority)
        assert ring.sampler.priorities.tolist() == [2.0, 2.0, 2.0]
        ring.sampler.update_priority(range(3), [1.0, 2.0, 3.0])
    ring.sampler.update_priority(torch.tensor([2, 0]), torch.tensor([[8.0], [9.0]]).bfloat16())
    assert ring.sampler.priorities.tolist() == [9.0, 2.0, 8.0]
    ring.sampler.update_priority([], [])


def test_gradients_do_not_matter():
    ring = filled([1.0, 2.0])
    ring.sampler.update_priority([0], torch.tensor([3.0], requires_grad=True) * 2)
    assert ring.sampler.priorities.tolist() == [6.0, 2.0]


def test_a_storage_of_two_dimensions():
    sampler, storage = PrioritizedSampler(12, alpha=1.0, beta=1.0), Grid()
    rows = torch.tensor([[a, b] for a in range(4) for b in range(3)])
    sampler.mark_update(rows, storage=storage)
    sampler.extend(rows)  # nothing to do, nothing to fail
    assert sampler.priorities.tolist() == [1.0] * 12
    sampler.update_priority(
        torch.tensor([[1, 2], [-1, 0]]), torch.tensor([1e9, 5.0]), storage=storage
    )
    index, _ = sampler.sample(storage, 8)
    assert [part.tolist() for part in index] == [[1] * 8, [2] * 8]
    sampler.update_priority(index, 0.0, storage=storage)  # a tuple, as it was drawn
    assert float(sampler.priorities[5]) == 0.0
    with pytest.raises(ValueError, match="rows of 2 coordinates: pass a storage"):
        sampler.update_priority(rows, 1.0)
    with pytest.raises(IndexError, match=r"index\[1\] is \[4, 0\], out of range"):
        sampler.update_priority(torch.tensor([[0, 0], [4, 0]]), 1.0, storage=storage)


# --- importances -----------------------------------------------------------------------------


def test_importances_are_divided_by_the_largest_in_the_buffer():
    priorities = np.random.default_rng(1).lognormal(0, 1, 50)
    ring = filled(priorities, alpha=0.7, beta=0.5)
    index, info = ring.sample(400)
    weights = (priorities + EPS) ** 0.7
    expected = (weights[index] / weights.min()) ** -0.5
    assert info["priority_weight"].dtype == torch.float32
    np.testing.assert_allclose(info["priority_weight"], expected, rtol=1e-5)


def test_the_least_priority_is_found_whatever_changes():
    generator = np.random.default_rng(2)
    ring = Ring(200, alpha=0.7, beta=0.4, dtype=torch.float64)
    for _ in range(300):
        ring.extend(range(int(generator.integers(1, 9))))
        index, info = ring.sample(8)
        weights = (ring.sampler.priorities.numpy() + EPS) ** 0.7
        expected = (weights[index] / np.nanmin(weights)) ** -0.4
        np.testing.assert_allclose(info["priority_weight"], expected, rtol=1e-9)
        ring.sampler.update_priority(index, generator.lognormal(0, 2, 8))


def test_without_normalising_the_weighted_mean_is_unbiased_and_with_it_is_not():
    losses = np.random.default_rng(3).lognormal(0, 1, 30)
    estimates = {}
    for normalize in (False, True):
        ring = filled(losses, alpha=0.8, normalize=normalize, dtype=torch.float64)
        importances = np.full(30, np.nan)
        for _ in range(20):
            index, info = ring.sample(200)
            importances[index] = info["priority_weight"]
        # the expectation, exactly: sum_i p_i importance_i loss_i
        estimates[normalize] = float(probabilities(ring.sampler) @ (importances * losses))
    assert estimates[False] == pytest.approx(losses.mean(), rel=1e-12)
    assert estimates[True] < 0.5 * losses.mean()


def test_importances_are_of_the_probabilities_even_where_weights_are_rounded_up():
    ring = filled([1e-25, 1.0, 1e10], eps=1e-30, normalize=False, dtype=torch.float64)
    p = probabilities(ring.sampler)
    assert 0 < p[0] < 2.0**-49
    index, info = ring.sample(10)
    np.testing.assert_allclose(info["priority_weight"], 1 / (3 * p[index]), rtol=1e-12)


def test_beta_can_be_annealed():
    ring = filled([1.0, 4.0], beta=0.0)
    for beta in (0.0, np.float64(0.5), 1):
        ring.sampler.beta = beta
        index, info = ring.sample(50)
        expected = torch.tensor([1.0, 4.0**-beta], dtype=torch.float32)[index]
        torch.testing.assert_close(info["priority_weight"], expected)
    with pytest.raises(ValueError, match=r"beta must be finite and not negative, got -0.1"):
        ring.sampler.beta = -0.1


@pytest.mark.parametrize("path", [(0.5,), (0.0, 1.5), (1.0,)])
def test_alpha_can_be_annealed_from_zero_as_well(path):
    priorities = np.arange(1.0, 7.0)
    ring = filled(priorities, 10)
    for alpha in path:
        ring.sampler.alpha = alpha
    expected = (priorities + EPS) ** path[-1]
    np.testing.assert_allclose(
        probabilities(ring.sampler)[:6], expected / expected.sum(), rtol=1e-9
    )
    assert not probabilities(ring.sampler)[6:].any()
    assert ring.sampler.default_priority == 6.0
    with pytest.raises(ValueError, match=r"alpha must be finite and not negative, got -1"):
        ring.sampler.alpha = -1
    assert ring.sampler.alpha == path[-1]


def test_alpha_zero_is_uniform():
    ring = filled([1e-9, 1.0, 1e9, 5.0], 10, alpha=0.0)
    assert probabilities(ring.sampler)[:4].tolist() == [0.25] * 4
    assert ring.sample(20)[1]["priority_weight"].tolist() == [1.0] * 20


# --- frequencies -----------------------------------------------------------------------------


def after_mixed_operations(operations, capacity=97, alpha=0.6):
    """A ring that has wrapped many times, and the priorities that a plain list would hold."""
    generator = np.random.default_rng(4)
    ring, known, largest, done = Ring(capacity, alpha=alpha), {}, 1.0, 0
    torch.manual_seed(4)
    while done < operations:
        size = int(generator.integers(1, 33))
        kind = generator.random()
        if kind < 0.3 or not known:
            for slot in ring.extend([0.0] * size):
                known[slot] = largest
        else:
            index, _ = ring.sample(size)
            # from 10^-6 to 10^6, and now and then a sweep far down or up: the unit must follow
            scale = 10.0 ** (6 * np.sin(done / 500))
            values = generator.lognormal(0, 2, size) * scale
            ring.sampler.update_priority(index, values)
            largest = max(largest, values.max())
            known.update(zip(index.tolist(), values.tolist(), strict=True))
        done += size
    priorities = np.array([known[slot] for slot in range(capacity)])
    return ring, priorities


def check_frequencies(operations, draws):
    ring, priorities = after_mixed_operations(operations)
    assert ring.sampler.priorities.tolist() == priorities.tolist()
    # of similar size, so that each item is expected often enough
    ring.sampler.update_priority(range(0, 97, 2), priorities.max() / (1 + np.arange(49)))
    priorities[::2] = priorities.max() / (1 + np.arange(49))
    expected = (priorities + EPS) ** 0.6
    np.testing.assert_allclose(
        probabilities(ring.sampler), expected / expected.sum(), rtol=1e-9, atol=2**-48
    )
    counts = np.bincount(ring.sample(draws)[0], minlength=97)
    rare = expected / expected.sum() * draws < 10

    def p_value(weights):
        cells = np.append(weights[~rare], weights[rare].sum())
        observed = np.append(counts[~rare], counts[rare].sum())
        keep = cells > 0
        return chisquare(observed[keep], cells[keep] / cells.sum() * draws).pvalue

    assert p_value(expected) > 1e-3
    wrong = expected.copy()
    wrong[::2] **= 0.95  # alpha twice, and weaker than the real mistake
    assert p_value(wrong) < 1e-9


def test_frequencies_after_mixed_operations_in_a_ring_that_wraps():
    check_frequencies(20_000, 200_000)


@pytest.mark.slow
def test_frequencies_after_a_million_mixed_operations():
    check_frequencies(1_000_000, 2_000_000)


def test_draws_follow_the_generator():
    ring = filled(np.arange(1.0, 100.0))
    torch.manual_seed(5)
    first = ring.sample(30)[0]
    torch.manual_seed(5)
    assert ring.sample(30)[0].equal(first)
    assert not ring.sample(30)[0].equal(first)
    ring.sampler._rng = torch.Generator().manual_seed(6)  # as `ReplayBuffer.set_rng` does
    second = ring.sample(30)[0]
    ring.sampler._rng.manual_seed(6)
    assert ring.sample(30)[0].equal(second)


# --- states ----------------------------------------------------------------------------------


def continued(sampler):
    """What a sampler draws from here on."""
    torch.manual_seed(7)
    drawn = []
    for k in range(5):
        index, info = sampler.sample(range(60), 16)
        drawn.append((index.tolist(), info["priority_weight"].tolist(), sampler.default_priority))
        sampler.update_priority(index, torch.linspace(0.1, k + 1.0, 16))
    return drawn


def used(**options):
    sampler = PrioritizedSampler(60, **({"alpha": 0.8, "beta": 0.6} | options))
    sampler.extend(range(40))
    torch.manual_seed(8)
    for _ in range(50):
        index, _ = sampler.sample(range(60), 8)
        sampler.update_priority(index, torch.rand(8) * 10)
    return sampler


def test_files_pickles_and_copies_continue_with_the_same_draws(tmp_path):
    sampler = used()
    torch.save(sampler.state_dict(), tmp_path / "state.pt")
    sampler.dumps(tmp_path / "folder")
    others = [PrioritizedSampler(60, 0.5, 0.5, 1e-3) for _ in range(2)]
    others[0].load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    others[1].loads(tmp_path / "folder")
    others += [pickle.loads(pickle.dumps(sampler)), copy.deepcopy(sampler)]
    expected = continued(sampler)
    for other in others:
        assert (other.alpha, other.beta) == (0.8, 0.6)
        assert continued(other) == expected


def test_a_sampler_is_not_shared_with_a_process_that_is_spawned():
    process = multiprocessing.get_context("spawn").Process(target=print, args=(used(),))
    with pytest.raises(RuntimeError, match="cannot be shared between processes"):
        process.start()


def changed(state, path, value):
    """A copy of a state with another value in one place."""
    name, _, rest = path.partition(".")
    return {**state, name: changed(state[name], rest, value) if rest else value}


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("max_capacity", 61, "saved with max_capacity=61, here it is 60"),
        ("priorities", torch.full((60,), torch.nan).double(), "units and scale do not fit"),
        ("units", torch.ones(60).long(), "units and scale do not fit"),
        ("rule.scale", 3.0, "units and scale do not fit"),
        ("order", torch.zeros(60).int(), "order does not fit the units"),
        ("rule.largest", 0.5, "largest is 0.5"),
    ],
)
def test_a_state_that_does_not_fit_changes_nothing(path, value, message):
    sampler = used()
    expected = continued(copy.deepcopy(sampler))
    with pytest.raises(CheckpointError, match=message):
        sampler.load_state_dict(changed(sampler.state_dict(), path, value))
    assert continued(sampler) == expected


def test_what_is_wrong_with_a_file_is_said_with_its_name(tmp_path):
    sampler = used()
    expected = continued(copy.deepcopy(sampler))
    PrioritizedSampler(61, 0.8, 0.6).dumps(tmp_path)
    with pytest.raises(CheckpointError, match=r"prioritized_sampler\.npz: .* max_capacity=61"):
        sampler.loads(tmp_path)
    assert continued(sampler) == expected


# --- errors ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "priority", "error", "message"),
    [
        ([0, 3], [1.0, 1.0], IndexError, r"index\[1\] is 3, out of range for a capacity of 3"),
        ([0, 1], [1.0, -0.5], ValueError, r"priority\[1\] is -0.5: priorities must be finite"),
        ([1, 0], [float("nan"), 1.0], ValueError, r"priority\[0\] is nan"),
        ([1, 0], [1.0, float("inf")], ValueError, r"priority\[1\] is inf"),
        ([1, 0, 2], [1.0, 2.0], ValueError, "got 2 for 3 items"),
        ([1, 0], [1.0, 1e300], ValueError, r"priority\[1\] is 1e\+300: .* beyond 2\^900"),
        ([0.5], [1.0], TypeError, "index must hold integers, got dtype float64"),
    ],
)
def test_a_bad_update_names_the_position_and_changes_nothing(index, priority, error, message):
    ring = filled([1.0, 2.0, 3.0], alpha=1.5)
    before = ring.sampler.state_dict()
    with pytest.raises(error, match=message):
        ring.sampler.update_priority(index, priority)
    assert same(before, ring.sampler.state_dict())


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"max_capacity": 0}, ValueError, "max_capacity must be a positive number of slots, got 0"),
        ({"alpha": -0.1}, ValueError, "alpha must be finite and not negative, got -0.1"),
        ({"beta": float("nan")}, ValueError, "beta must be finite and not negative, got nan"),
        ({"eps": 0.0}, ValueError, "eps must be positive and finite, got 0.0"),
        ({"dtype": torch.half}, ValueError, "dtype must be torch.float32 or torch.float64"),
        ({"reduction": "sum"}, ValueError, "reduction must be one of"),
        ({"normalize": 1}, TypeError, "normalize must be True or False, got 1"),
    ],
)
def test_bad_parameters(options, error, message):
    with pytest.raises(error, match=message):
        PrioritizedSampler(**({"max_capacity": 3, "alpha": 1.0, "beta": 1.0} | options))


def test_bad_batch_sizes_and_an_alpha_that_is_too_large():
    ring = filled([1.0, 1e100])
    with pytest.raises(ValueError, match="batch_size must be a positive number of items, got 0"):
        ring.sample(0)
    with pytest.raises(ValueError, match=r"alpha is 5.0: the weight of priority 1e\+100"):
        ring.sampler.alpha = 5.0
    assert ring.sampler.alpha == 1.0


def test_parameters_and_settings_are_shown():
    sampler = PrioritizedSampler(7, 0.6, 0.4, reduction="mean")
    assert (sampler.max_size, sampler.device.type, sampler.reduction) == (7, "cpu", "mean")
    assert repr(sampler) == (
        "PrioritizedSampler(max_capacity=7, alpha=0.6, beta=0.4, eps=1e-08, reduction='mean', "
        "normalize=True)"
    )


# --- TorchRL ---------------------------------------------------------------------------------


def test_the_base_is_the_class_that_torchrl_asks_for(monkeypatch):
    names = ["torchrl", "torchrl.data", "torchrl.data.replay_buffers"]
    for name in names:
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    samplers = types.ModuleType("torchrl.data.replay_buffers.samplers")
    samplers.PrioritizedSampler = type("PrioritizedSampler", (), {})
    monkeypatch.setitem(sys.modules, samplers.__name__, samplers)
    assert base_class() is samplers.PrioritizedSampler
    monkeypatch.setitem(sys.modules, samplers.__name__, None)
    assert base_class() is object


def test_through_the_buffers_of_torchrl():
    data = pytest.importorskip("torchrl.data", exc_type=ImportError)
    from tensordict import TensorDict

    buffer = data.TensorDictReplayBuffer(
        storage=data.LazyTensorStorage(10),
        sampler=PrioritizedSampler(10, alpha=0.7, beta=0.9),
        priority_key="td_error",
        batch_size=5,
    )
    buffer.extend(TensorDict({"a": torch.arange(4)}, [4]))
    assert buffer.sampler.priorities[:4].tolist() == [1.0] * 4
    sample = buffer.sample()
    assert sample["index"].equal(sample["a"])
    sample["td_error"] = torch.full((5,), 1e8)
    buffer.update_tensordict_priority(sample)
    again = buffer.sample()
    assert set(again["index"].tolist()) <= set(sample["index"].tolist())
    assert (again["priority_weight"] > 0).all()
    buffer.empty()
    with pytest.raises(RuntimeError, match="empty storage"):
        buffer.sample()


# --- examples --------------------------------------------------------------------------------


def test_the_example_without_torchrl(capsys):
    runpy.run_path(str(EXAMPLES / "torch_replay.py"), run_name="__main__")
    printed = capsys.readouterr().out.splitlines()
    steps = {line.split(":")[0]: int(line.split(":")[1].split()[0]) for line in printed[1:]}
    assert steps["prioritised"] < 0.7 * steps["uniform"]


@pytest.mark.skipif(importlib.util.find_spec("torchrl") is not None, reason="TorchRL is installed")
def test_the_example_with_torchrl_says_so_without_it():
    ended = subprocess.run(
        [sys.executable, str(EXAMPLES / "torch_dqn.py")], check=True, capture_output=True, text=True
    )
    assert ended.stdout.count("\n") == 1
    assert "TorchRL" in ended.stdout
