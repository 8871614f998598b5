"""`WeightedSampler`: the contract of torch's WeightedRandomSampler, and what goes beyond it.

Two real processes play over gloo, once, for all tests that need them.
"""

import copy
import itertools
import math
import pickle
import runpy
import sys
import types
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from crowd import two_processes
from scipy import stats
from torch import distributed as dist
from torch.utils.data import BatchSampler, DataLoader, WeightedRandomSampler
from torch.utils.data.distributed import DistributedSampler

from states import same
from tombola.checkpoint import CheckpointError
from tombola.torch import WeightedSampler

WEIGHTS = [0.1, 0.9, 0.0, 0.7, 3.0, 0.6]
MODES = pytest.mark.parametrize("replacement", [True, False])
both = pytest.mark.parametrize("kind", [WeightedRandomSampler, WeightedSampler])


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def chances(weights, size):
    """The probability of each ordered draw of `size` items without replacement, by enumeration."""
    exact = {}
    for items in itertools.permutations(range(len(weights)), size):
        left, chance = sum(weights), 1.0
        for item in items:
            chance *= weights[item] / left
            left -= weights[item]
        if chance > 0:
            exact[items] = chance
    return exact


def p_value(draws, exact):
    """Of a chi-squared test; 0 if something was drawn that cannot be."""
    counts = Counter(draws)
    if not counts.keys() <= exact.keys():
        return 0.0
    expected = np.array(list(exact.values())) * len(draws)
    return stats.chisquare([counts[key] for key in exact], expected).pvalue


# --- the contract ----------------------------------------------------------------------------


@both
@MODES
def test_an_epoch_is_that_many_python_ints(kind, replacement):
    sampler = kind(WEIGHTS, 5, replacement, seeded())
    for _ in range(3):
        items = list(sampler)
        assert [type(item) for item in items] == [int] * 5
        assert len(sampler) == sampler.num_samples == 5
        assert replacement or len(set(items)) == 5
        assert 2 not in items  # its weight is 0
    assert isinstance(sampler, torch.utils.data.Sampler)
    assert sampler.weights.dtype == torch.float64
    assert sampler.weights.tolist() == WEIGHTS
    assert sampler.replacement is replacement


@both
@pytest.mark.parametrize(
    "given",
    [
        [1, 2, 3],
        (0.5, 1.0, 1.5),
        np.array([1, 2, 3], np.int32),
        torch.tensor([2, 4, 6]),
        list(torch.tensor([0.5, 1.0, 1.5])),
        range(1, 4),
    ],
)
def test_weights_of_any_type(kind, given):
    draws = list(kind(given, 3000, generator=seeded(1)))
    assert p_value(draws, {0: 1 / 6, 1: 2 / 6, 2: 3 / 6}) > 1e-6


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.bool, torch.uint8])
def test_weights_of_any_dtype(dtype):
    weights = torch.tensor([1, 0, 1], dtype=dtype)
    assert set(WeightedSampler(weights, 50)) == {0, 2}
    assert WeightedSampler(torch.ones(3, requires_grad=True)).weights.tolist() == [1.0] * 3


@both
@MODES
@pytest.mark.parametrize("given", [True, False])
def test_the_generator_decides(kind, replacement, given):
    generator = seeded() if given else None
    sampler = kind(range(1, 50), 20, replacement, generator)
    seed = generator.manual_seed if given else torch.manual_seed
    seed(3)
    first, second = list(sampler), list(sampler)
    seed(3)
    assert [list(sampler), list(sampler)] == [first, second]
    assert first != second
    seed(4)
    assert list(sampler) != first


def test_only_epochs_take_from_the_generator():
    before = torch.get_rng_state()
    WeightedSampler(WEIGHTS).state_dict()
    list(WeightedSampler(WEIGHTS, generator=seeded()))
    assert torch.equal(torch.get_rng_state(), before)


@both
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([-1.0, 2.0], 2), r"weights\[0\] is -1.0: weights must be finite and not negative"),
        (([1.0, math.nan], 2), r"weights\[1\] is nan"),
        (([1.0, math.inf], 2), r"weights\[1\] is inf"),
        (([0.0, 0.0], 2), "all 2 weights are 0"),
        (([], 2), "weights is empty"),
        (([[1.0, 2.0]], 1), r"weights must have one dimension, got shape \(1, 2\)"),
        ((1.0, 1), r"weights must have one dimension, got shape \(\)"),
        (([1.0, 2.0], 0), "num_samples must be a positive number of draws, got 0"),
        (([1.0, 2.0], -1), "num_samples must be"),
        (([1.0, 2.0], 2.0), "num_samples must be"),
        (([1.0, 2.0], True), "num_samples must be"),
        (([1.0, 2.0], 2, 1), "replacement must be True or False, got 1"),
        (([1.0, 2.0], 3, False), "cannot draw 3 items without replacement: only 2 of 2"),
    ],
)
def test_bad_arguments(kind, arguments, message):
    if kind is WeightedRandomSampler:  # some of them only when it is iterated
        with pytest.raises((ValueError, RuntimeError)):
            list(kind(*arguments))
    else:
        with pytest.raises(ValueError, match=message):
            kind(*arguments)


def test_bad_arguments_that_the_original_lets_pass():
    assert sorted(WeightedRandomSampler([1, 0, 0], 2, False))[0] == 0  # and one of weight 0
    with pytest.raises(ValueError, match="cannot draw 2 items without replacement: only 1 of 3"):
        WeightedSampler([1, 0, 0], 2, False)
    with pytest.raises(ValueError, match="cannot draw 3 items without replacement: only 1 of 3"):
        WeightedSampler([1, 0, 0], replacement=False)
    with pytest.raises(TypeError, match=r"generator must be a torch\.Generator, got int"):
        WeightedSampler([1.0], generator=3)
    with pytest.raises(TypeError, match="weights must hold numbers, got dtype complex64"):
        WeightedSampler(torch.ones(2, dtype=torch.complex64))


def test_what_cannot_be_assigned_says_what_to_do():
    sampler = WeightedSampler(WEIGHTS)
    with pytest.raises(AttributeError, match=r"weights cannot be assigned: call update\(indices"):
        sampler.weights = torch.ones(6)
    with pytest.raises(AttributeError, match="replacement"):
        sampler.replacement = False
    assert sampler.weights.tolist() == WEIGHTS
    sampler.num_samples, sampler.generator = 3, seeded(1)  # as of the original
    again = WeightedSampler(WEIGHTS, 3, generator=seeded(1))
    assert list(sampler) == list(again)
    assert len(sampler) == 3


def test_an_epoch_is_as_long_as_the_items_by_default():
    sampler = WeightedSampler(np.arange(10))
    assert len(sampler) == len(list(sampler)) == 10


@both
@pytest.mark.parametrize("workers", [0, 2])
def test_in_a_data_loader(kind, workers):
    sampler = kind([1.0] * 5 + [0.0] * 5, 7, generator=seeded(1))
    loader = DataLoader(range(10), 3, sampler=sampler, num_workers=workers)
    first = [batch.tolist() for batch in loader]
    assert [len(batch) for batch in first] == [3, 3, 1]
    assert len(loader) == 3
    assert max(map(max, first)) < 5
    assert [batch.tolist() for batch in loader] != first
    batches = BatchSampler(sampler, 3, drop_last=True)
    assert [len(batch) for batch in batches] == [3, 3]


# --- frequencies -----------------------------------------------------------------------------


@both
def test_frequencies_with_replacement(kind):
    draws = list(kind(WEIGHTS, 100_000, generator=seeded(2)))
    exact = {k: weight / sum(WEIGHTS) for k, weight in enumerate(WEIGHTS) if weight}
    assert p_value(draws, exact) > 1e-6
    other = [0.1, 0.9, 0.0, 0.7, 2.9, 0.7]  # what a wrong sampler would draw
    wrong = {k: weight / sum(other) for k, weight in enumerate(other) if weight}
    assert p_value(draws, wrong) < 1e-6


@both
def test_frequencies_without_replacement(kind):
    """Of ordered triples, against their exact probabilities."""
    sampler = kind([1.0, 2.0, 4.0, 8.0], 3, False, seeded(3))
    draws = [tuple(sampler) for _ in range(10_000)]
    assert p_value(draws, chances([1, 2, 4, 8], 3)) > 1e-6
    assert p_value(draws, chances([1, 2, 4, 7], 3)) < 1e-6


def test_frequencies_of_samples():
    sampler = WeightedSampler([1.0, 2.0, 4.0, 8.0], 3, False, seeded(4))
    next(iter(sampler))  # does not matter: samples are apart from epochs
    draws = [tuple(sampler.sample(2).tolist()) for _ in range(5_000)]
    assert p_value(draws, chances([1, 2, 4, 8], 2)) > 1e-6
    list(sampler)
    draws = [tuple(sampler.sample(2).tolist()) for _ in range(5_000)]
    assert p_value(draws, chances([1, 2, 4, 8], 2)) > 1e-6
    sampler = WeightedSampler([1.0, 2.0, 4.0, 8.0], generator=seeded(5))
    exact = {k: 2**k / 15 for k in range(4)}
    assert p_value(sampler.sample(50_000).tolist(), exact) > 1e-6


def test_samples_are_tensors():
    sampler = WeightedSampler([1.0] * 100, replacement=False, generator=seeded())
    for size in (0, 1, 100):
        items = sampler.sample(size)
        assert items.dtype == torch.int64
        assert items.shape == (size,)
        assert len(set(items.tolist())) == size
    with pytest.raises(ValueError, match="cannot draw 101 items without replacement"):
        sampler.sample(101)
    with pytest.raises(ValueError, match="size must not be negative, got -1"):
        sampler.sample(-1)


def test_a_sample_does_not_disturb_the_epoch():
    for replacement in (True, False):
        sampler, undisturbed = (
            WeightedSampler(range(1, 3001), 3000, replacement, seeded()) for _ in range(2)
        )
        epoch, drawn = iter(sampler), []
        for _ in range(5):
            drawn += itertools.islice(epoch, 500)
            sampler.sample(20)
        assert drawn + list(epoch) == list(undisturbed)


# --- weights that change ---------------------------------------------------------------------


def test_updates_count_from_the_next_draw_on():
    sampler = WeightedSampler([1.0, 0.0, 0.0], 9, generator=seeded())
    drawn = []
    for k, item in enumerate(sampler):
        drawn.append(item)
        if k % 3 == 2:
            sampler.update([item, (item + 1) % 3], torch.tensor([0.0, 2.5]))
    assert drawn == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert sampler.weights.tolist() == [2.5, 0.0, 0.0]
    sampler.update([0, 1, 0], [1.0, 1.0, 0.0])  # the last one wins
    sampler.update(2, 0.0)
    sampler.update([], [])
    assert set(sampler) == {1}


def test_an_update_during_an_epoch_without_replacement():
    """Exactly: the second draw is by the new weights of the three that are left."""
    sampler = WeightedSampler([1.0, 2.0, 3.0, 4.0], 2, False, seeded(6))
    draws = []
    for _ in range(10_000):
        epoch = iter(sampler)
        first = next(epoch)
        sampler.update([0, 1, 2, 3], [4.0, 3.0, 2.0, 1.0])  # also of the one that is drawn
        draws.append((first, *epoch))
        sampler.update([0, 1, 2, 3], [1.0, 2.0, 3.0, 4.0])
    exact = {
        (a, b): (a + 1) / 10 * (4 - b) / (10 - (4 - a))
        for a, b in itertools.permutations(range(4), 2)
    }
    assert p_value(draws, exact) > 1e-6
    assert p_value(draws, chances([1, 2, 3, 4], 2)) < 1e-6


def test_an_item_that_is_drawn_stays_out_and_its_new_weight_counts_in_the_next_epoch():
    for _ in range(20):
        sampler = WeightedSampler([1.0] * 6, 4, False)
        epoch = iter(sampler)
        first = next(epoch)
        sampler.update(first, 0.0)
        sampler.update(first, 1e9)
        assert first not in list(epoch)
        assert next(iter(sampler)) == first


def test_an_epoch_that_runs_out_says_so_and_can_be_saved():
    sampler = WeightedSampler([1.0, 1.0, 1.0], replacement=False, generator=seeded())
    epoch = iter(sampler)
    first = next(epoch)
    others = [item for item in range(3) if item != first]
    sampler.update(others, [0.0, 0.0])  # no error: it may be changed again, as here
    sampler.update(others[:1], [1.0])
    assert next(epoch) == others[0]
    with pytest.raises(ValueError, match="all 3 weights are 0"):
        next(epoch)
    for _ in range(2):
        with pytest.raises(ValueError, match="cannot draw 3 items without replacement: only 2"):
            list(sampler)
        assert sampler.epoch == 1
    sampler.update(others[1], 1.0)
    assert sorted(sampler) == [0, 1, 2]


@MODES
@pytest.mark.parametrize("n", [300, 5000])
def test_drawing_ahead_and_saving_do_not_change_draws(replacement, n, monkeypatch):
    """Item by item, the same as in chunks, with updates and saves at any time."""

    def lived(chunk, save):
        monkeypatch.setattr("tombola.torch.weighted.epoch.FIRST", chunk)
        monkeypatch.setattr("tombola.torch.weighted.epoch.CHUNK", chunk)
        chance = np.random.default_rng(1)
        sampler = WeightedSampler(chance.random(n) ** 9, 200, replacement, seeded(7))
        drawn = []
        for stop in (200, 131, 200, 200):
            for k, item in enumerate(sampler):
                drawn.append(item)
                if k % 37 == 5:
                    count = [1, 7, 80][k % 3]
                    scale = 10.0 ** chance.integers(-20, 20)
                    sampler.update(chance.integers(n, size=count), chance.random(count) * scale)
                if k % save == 0:
                    sampler.state_dict()
                if k == stop:
                    break
        state = sampler.state_dict()
        return drawn, state["weights"].tolist(), state["order"].tolist()

    expected = lived(1, 1)
    assert lived(1024, 10) == expected
    assert lived(13, 7) == expected
    assert len(set(expected[0][:200])) == 200 or replacement


def test_drawing_ahead_in_an_abandoned_epoch_does_not_change_draws(monkeypatch):
    def lived(chunk):
        monkeypatch.setattr("tombola.torch.weighted.epoch.FIRST", chunk)
        monkeypatch.setattr("tombola.torch.weighted.epoch.CHUNK", chunk)
        sampler = WeightedSampler(range(1, 5001), 200, False, seeded(7))
        return list(itertools.islice(sampler, 10)) + list(sampler)

    assert lived(1) == lived(1024)


@pytest.mark.parametrize(
    ("indices", "weights", "error", "message"),
    [
        (
            [0, 6],
            [1.0, 1.0],
            IndexError,
            r"indices\[1\] is 6, out of range for an index of 6",
        ),
        ([-1], [1.0], IndexError, r"indices\[0\] is -1, out of range"),
        ([0.0], [1.0], TypeError, "indices must hold integers, got dtype float64"),
        ([[0]], [[1.0]], ValueError, r"indices must have one dimension, got shape \(1, 1\)"),
        ([0, 1], [1.0], ValueError, "must have the same length, got 2 and 1"),
        ([0, 1], [1.0, -2.0], ValueError, r"weights\[1\] is -2.0"),
        ([0, 1], [1.0, math.nan], ValueError, r"weights\[1\] is nan"),
        ([0, 1], [math.inf, 1.0], ValueError, r"weights\[0\] is inf"),
    ],
)
def test_a_bad_update_changes_nothing(indices, weights, error, message):
    sampler, other = (WeightedSampler(WEIGHTS, 50, generator=seeded()) for _ in range(2))
    with pytest.raises(error, match=message):
        sampler.update(indices, weights)
    assert list(sampler) == list(other)


@both
@MODES
def test_iterations_at_the_same_time(kind, replacement):
    """As PyTorch's own test has it, and in turns of uneven length."""
    generator = seeded()
    sampler = kind([0.1, 0.9, 0.4, 0.7, 3.0, 0.6] * 50, 250, replacement, generator)
    together, alone = [[], []], []
    iterations = iter(sampler), iter(sampler)
    for k, iteration in enumerate(iterations):
        generator.manual_seed(k)
        together[k].append(next(iteration))
    for _ in range(83):
        together[0] += itertools.islice(iterations[0], 1)
        together[1] += itertools.islice(iterations[1], 2)
    together = [drawn + list(rest) for drawn, rest in zip(together, iterations, strict=True)]
    for k in range(2):
        generator.manual_seed(k)
        alone.append(list(sampler))
    assert together == alone


def test_the_earlier_of_two_iterations_has_the_weights_of_when_the_later_began():
    sampler = WeightedSampler([1.0, 1.0, 0.0])
    first, second = iter(sampler), iter(sampler)
    assert next(first) in (0, 1)
    assert next(second) in (0, 1)
    assert sampler.epoch == 1
    sampler.update([0, 1, 2], [0.0, 0.0, 1.0])
    assert next(second) == 2
    assert next(first) in (0, 1)
    state = sampler.state_dict()
    assert [*second] == [2]
    assert next(first) in (0, 1)
    assert sampler.epoch == 2
    sampler.load_state_dict(state)
    assert [*sampler] == [2]
    sampler.set_epoch(7)
    assert sampler.epoch == 2


# --- rounding --------------------------------------------------------------------------------


def test_the_smallest_positive_weight_is_drawn_next_to_the_largest():
    sampler = WeightedSampler([5e-324, 1e308, 0.0, 1.0, 1e308], 4, replacement=False)
    for _ in range(5):
        assert sorted(sampler) == [0, 1, 3, 4]
    assert sampler.weights[0] == 5e-324


def test_the_unit_becomes_smaller_as_items_are_drawn():
    """Item k comes before k + 1, half as heavy, with probability 2/3: also at 2^-500."""
    sampler = WeightedSampler(0.5 ** np.arange(540), replacement=False, generator=seeded(8))
    epochs, pairs = 100, range(500, 540, 2)
    wins = 0
    for _ in range(epochs):
        place = np.argsort(list(sampler))
        wins += sum(place[k] < place[k + 1] for k in pairs)
    trials = epochs * len(pairs)
    assert abs(wins / trials - 2 / 3) < 5 * math.sqrt(2 / 9 / trials)  # 0.5 with one unit for all
    assert 5 * math.sqrt(2 / 9 / trials) < 1 / 6


# --- large ------------------------------------------------------------------------------------


def test_more_than_2_to_the_24_items():
    n = 2**25
    weights = torch.zeros(n)
    weights[1::2] = 1.0  # only odd items
    weights[n - 1] = 2.0**23  # as much as a quarter of all, and half of the others
    with pytest.raises(RuntimeError, match="number of categories cannot exceed"):
        list(WeightedRandomSampler(weights, 4))
    sampler = WeightedSampler(weights, 40_000, generator=seeded(9))
    items = np.array(list(sampler))
    assert (items % 2 == 1).all()
    last = 2.0**23 / (2.0**23 + 2.0**24 - 1)
    parts = np.where(items == n - 1, 16, items * 16 // n)
    exact = {part: (1 - last) / 16 for part in range(16)} | {16: last}
    assert p_value(parts.tolist(), exact) > 1e-6
    sampler.update(n - 1, 0.0)
    items = sampler.sample(10_000)
    assert n - 1 not in items
    assert len(items.unique()) > 9_900
    board = sampler._board
    assert sum(array.nbytes for array in (board.values, board.taken, *board.index)) < 24.1 * n


# --- resuming ---------------------------------------------------------------------------------


def make(replacement=True, generator=True, n=400, num_samples=250, seed=11, **options):
    weights = np.random.default_rng(0).random(n) ** 3
    generator = seeded(seed) if generator else None
    return WeightedSampler(weights, num_samples, replacement, generator, **options)


def change(sampler, k):
    """Update now and then, by what is drawn."""
    if k % 20 == 7:
        sampler.update([k, (3 * k) % 400], [k / 7, 0.5])


def lived(sampler, epoch, count=None):
    drawn = []
    for k, item in enumerate(itertools.islice(epoch, count)):
        drawn.append(item)
        change(sampler, k)
    return drawn


@MODES
@pytest.mark.parametrize("stop", [0, 1, 100, 249, 250])
def test_a_resumed_run_equals_one_that_did_not_stop(replacement, stop, tmp_path):
    """Where draws are far ahead of what was handed out."""
    sampler = make(replacement, n=5000)
    lived(sampler, iter(sampler))
    epoch = iter(sampler)
    lived(sampler, epoch, stop)
    torch.save(sampler.state_dict(), tmp_path / "state")
    rest = list(epoch)
    later = [lived(sampler, iter(sampler)) for _ in range(2)]
    other = make(replacement, n=5000, seed=99)
    list(itertools.islice(other, 17))  # whatever it has done before
    other.load_state_dict(torch.load(tmp_path / "state", weights_only=True))
    assert other.epoch == (2 if stop == 250 else 1)
    if stop < 250:
        assert list(other) == rest
    assert [lived(other, iter(other)) for _ in range(2)] == later
    assert other.epoch == sampler.epoch == 4


@MODES
@pytest.mark.parametrize("batches", [3, 7, 23, 25])
def test_resume_with_workers_that_have_asked_ahead(replacement, batches):
    sampler = make(replacement)
    loader = DataLoader(range(400), 10, sampler=sampler, num_workers=2, prefetch_factor=2)
    drawn = []
    for k, batch in enumerate(loader, start=1):
        drawn.append(batch.tolist())
        if k == batches:
            state = sampler.state_dict(consumed=10 * k)
    drawn += [batch.tolist() for batch in loader]
    other = make(replacement, seed=99)
    other.load_state_dict(state)
    loader = DataLoader(range(400), 10, sampler=other, num_workers=1)
    assert other.epoch == (1 if batches == 25 else 0)
    rest = [batch.tolist() for epoch in range(other.epoch, 2) for batch in loader]
    assert rest == drawn[batches:]
    again = make(replacement)
    again.load_state_dict(state)
    assert same(again.state_dict(), state)
    with pytest.raises(ValueError, match="consumed must be from 0 to 0, got 1"):
        again.state_dict(consumed=1)


def test_a_copy_and_a_pickle_continue():
    sampler = make(False)
    epoch = iter(sampler)
    lived(sampler, epoch, 60)
    copies = [copy.deepcopy(sampler), pickle.loads(pickle.dumps(sampler))]
    state = sampler.state_dict()
    rest = list(epoch)
    for other in copies:
        other.load_state_dict(state)
        assert list(other) == rest
        other.update([0], [4.0])
        assert other.weights[0] == 4.0


def test_a_state_loaded_during_an_iteration_ends_it():
    sampler = make()
    epoch = iter(sampler)
    next(epoch)
    sampler.load_state_dict(sampler.state_dict())
    with pytest.raises(RuntimeError, match="this iteration is over: a state was loaded"):
        next(epoch)
    assert len(list(sampler)) == 249


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 401}, "saved with n=400, here it is 401"),
        ({"num_samples": 200}, "saved with num_samples=250, here it is 200"),
        ({"replacement": True}, "saved with replacement=False, here it is True"),
        ({"generator": False}, "saved with a generator, here there is none"),
    ],
)
def test_a_state_of_another_sampler_is_refused(options, message):
    state = make(False).state_dict()
    with pytest.raises(CheckpointError, match=message):
        make(**{"replacement": False, **options}).load_state_dict(state)


def damage(path, value):
    def damaged(state):
        *parents, key = path.split(".")
        for parent in parents:
            state = state[parent]
        state[key] = value(state[key])

    return damaged


def altered(position, value):
    def alter(tensor):
        tensor = tensor.clone()
        tensor[position] = value
        return tensor

    return alter


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("weights", lambda weights: weights.flip(0)),  # the order is no longer theirs
        ("order", lambda order: order.flip(0)),
        ("exponent", lambda exponent: exponent + 1000),
        ("taken", lambda _: None),
        ("taken", lambda taken: ~taken),
        ("open.begin", lambda begin: begin + 1),
        ("open.ahead", altered(slice(0, 2), 5)),
        ("generator", lambda state: state[:100]),
        ("generator", lambda state: torch.full_like(state, 255)),
    ],
)
def test_parts_that_do_not_fit_are_refused_and_nothing_changes(path, value):
    sampler, undisturbed = make(False), make(False)
    epoch, other = iter(sampler), iter(undisturbed)
    assert list(itertools.islice(epoch, 50)) == list(itertools.islice(other, 50))
    state = copy.deepcopy(sampler.state_dict(consumed=40))
    damage(path, value)(state)
    with pytest.raises(CheckpointError):
        sampler.load_state_dict(state)
    assert list(epoch) == list(other)
    assert list(sampler) == list(undisturbed)


# --- several processes ------------------------------------------------------------------------


@MODES
@pytest.mark.parametrize("world", [2, 3, 7])
def test_ranks_share_one_global_draw(replacement, world):
    alone = list(make(replacement))
    samplers = [make(replacement, num_replicas=world, rank=rank) for rank in range(world)]
    parts = [list(sampler) for sampler in samplers]
    share = -(-250 // world) if replacement else 250 // world
    assert [len(sampler) for sampler in samplers] == [share] * world
    assert [len(part) for part in parts] == [share] * world
    joined = list(itertools.chain(*zip(*parts, strict=True)))
    common = min(len(alone), len(joined))
    assert joined[:common] == alone[:common]
    assert replacement or len(set(joined)) == len(joined)


@MODES
@pytest.mark.parametrize(("before", "after"), [(2, 2), (2, 1), (1, 3), (3, 2)])
def test_a_state_continues_with_another_number_of_processes(replacement, before, after):
    alone = make(replacement)
    straight = list(alone)
    sampler = make(replacement, num_replicas=before, rank=0)
    list(itertools.islice(sampler, 30))
    state = sampler.state_dict(consumed=20)
    samplers = [make(replacement, num_replicas=after, rank=rank) for rank in range(after)]
    for other in samplers:
        other.load_state_dict(state)
    joined = list(itertools.chain(*zip(*samplers, strict=True)))
    rest = straight[20 * before :]
    assert joined[: len(rest)] == rest[: len(joined)]
    assert abs(len(joined) - len(rest)) < after
    assert [other.epoch for other in samplers] == [1] * after


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_replicas": 2}, "num_replicas and rank go together"),
        ({"rank": 0}, "num_replicas and rank go together"),
        ({"num_replicas": 2, "rank": 2}, "rank must be from 0 to 1, got 2"),
        ({"num_replicas": 2, "rank": 0, "generator": False}, "num_replicas=2 needs a generator"),
        (
            {"num_replicas": 3, "rank": 0, "num_samples": 2, "replacement": False},
            "num_samples=2 is less than the 3 processes",
        ),
    ],
)
def test_bad_ranks(options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


def test_a_process_group_that_is_expected_and_not_there(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    sampler = make()  # as before Lightning's `fit`
    for use in (len, iter, lambda sampler: sampler.sample(1), lambda sampler: sampler.update(0, 1)):
        with pytest.raises(RuntimeError, match="one of WORLD_SIZE=2 processes"):
            list(iter(use(sampler)))
    assert len(list(make(num_replicas=1, rank=0))) == 250


def test_lightning_and_others_leave_it_as_it_is():
    """They replace, or wrap, every other sampler: `test_recipes.py` runs them."""
    assert isinstance(make(), DistributedSampler)


ACCELERATE = """
class BatchSamplerShard:
    def __init__(self, sampler):
        self.sampler = sampler

    def __iter__(self):
        for item in iter(self.sampler):
            yield item
"""


def test_draws_that_accelerate_would_drop_are_an_error(monkeypatch):
    accelerate = types.ModuleType("accelerate.data_loader")
    exec(ACCELERATE, vars(accelerate))
    monkeypatch.setitem(sys.modules, "accelerate.data_loader", accelerate)
    twice = accelerate.BatchSamplerShard(make(num_replicas=2, rank=1))
    with pytest.raises(RuntimeError, match=r"Accelerate \(BatchSamplerShard\) .* num_replicas=1"):
        next(iter(twice))
    unlike = accelerate.BatchSamplerShard(make(generator=False, num_replicas=1, rank=0))
    with pytest.raises(RuntimeError, match="needs the same draws on all processes: pass a gener"):
        next(iter(unlike))
    whole = make(num_replicas=1, rank=0)
    assert len(list(accelerate.BatchSamplerShard(whole))) == 250
    assert len(list(make(num_replicas=2, rank=1))) == 125


def live(rank, folder):
    """What each of the two processes does."""
    early, resumed, first = make(generator=False), make(False, generator=False), make(False)
    list(itertools.islice(first, 50))
    resumed.load_state_dict({**first.state_dict(), "generator": None})
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    torch.manual_seed(rank)  # they need not agree
    results = {"early": [len(early), list(early)], "resumed": list(resumed)}
    torch.manual_seed(rank)
    for replacement in (True, False):
        sampler = make(replacement, generator=False)
        drawn = []
        for k, item in enumerate(sampler):
            drawn.append(item)
            if k % 10 == 9:  # each tells its own items, and not equally many
                told = drawn[-3 - rank :]
                sampler.update(told, [(7 * item) % 5 + k for item in told])
            if k == 60:
                state = sampler.state_dict()
        results[replacement] = {
            "drawn": drawn,
            "weights": sampler.weights,
            "state": state,
            "sample": sampler.sample(30).tolist(),
            "next": list(sampler),
        }

    sampler = make(generator=False)
    errors = results["errors"] = []
    for wrong in (
        lambda: make(generator=False, num_samples=250 + rank),
        lambda: WeightedSampler([1.0, 1.0 + rank]),
        lambda: sampler.update([0, 1], [1.0, -1.0 if rank else 1.0]),
        lambda: (list(itertools.islice(sampler, 3 + rank)), sampler.update([0], [1.0])),
    ):
        try:
            wrong()
        except (ValueError, RuntimeError) as error:
            errors.append(str(error))
    torch.save(results, f"{folder}/results-{rank}")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    codes, results = two_processes(live, folder)
    assert codes == [0, 0]
    return results


def joined(two, replacement, key):
    return list(itertools.chain(*zip(*(result[replacement][key] for result in two), strict=True)))


def test_a_sampler_made_or_resumed_before_the_processes_met(two):
    torch.manual_seed(0)
    lengths, parts = zip(*(result["early"] for result in two), strict=True)
    assert lengths == (125, 125)
    assert list(itertools.chain(*zip(*parts, strict=True))) == list(make(generator=False))
    rest = list(itertools.chain(*zip(*(result["resumed"] for result in two), strict=True)))
    assert rest == list(make(False))[50:]


def test_two_processes_draw_what_one_draws_with_the_seed_of_rank_0(two):
    torch.manual_seed(0)
    for replacement in (True, False):
        alone = make(replacement, generator=False)
        drawn = []
        for k, item in enumerate(alone):
            drawn.append(item)
            if k % 20 == 19:  # as both ranks do
                told = drawn[0::2][-3:] + drawn[1::2][-4:]
                alone.update(told, [(7 * item) % 5 + k // 2 for item in told])
        assert joined(two, replacement, "drawn") == drawn
        assert joined(two, replacement, "sample") == alone.sample(60).tolist()
        assert joined(two, replacement, "next") == list(alone)
        assert len(set(drawn)) == 250 or replacement


@MODES
def test_the_updates_of_both_processes_reach_both(two, replacement):
    assert torch.equal(two[0][replacement]["weights"], two[1][replacement]["weights"])
    changed = two[0][replacement]["weights"] != make().weights
    told = set()
    for rank, result in enumerate(two):
        for k in range(9, 125, 10):
            told.update(result[replacement]["drawn"][k - 2 - rank : k + 1])
    assert set(changed.nonzero()[:, 0].tolist()) == told


@MODES
def test_the_state_is_the_same_on_both_and_continues_in_one_process(two, replacement):
    states = [result[replacement]["state"] for result in two]
    assert same(*states)
    alone = make(replacement, generator=False)
    alone.load_state_dict(states[0])
    rest = joined(two, replacement, "drawn")[122:]
    assert list(itertools.islice(alone, 18)) == rest[:18]  # until the next update


def test_what_differs_between_processes_is_told_on_both(two):
    expected = [
        "all processes need the same num_samples: rank 0 has 250, rank 1 has 251",
        "all processes need the same weights (a checksum)",
        "the update of rank 1 is not valid",
        "processes must update at the same point of an epoch; they have handed out [3, 4] items",
    ]
    for error, message in zip(two[0]["errors"], expected, strict=True):
        assert error.startswith(message)
    assert two[1]["errors"][2].startswith("weights[1] is -1.0")
    assert two[1]["errors"][3] == expected[3]


def test_the_example_runs(capsys):
    path = Path(__file__).parents[2] / "examples" / "torch_weighted.py"
    runpy.run_path(str(path), run_name="__main__")
    printed = capsys.readouterr().out
    assert "resumed in epoch 2: 39 of 39 batches are left" in printed
    rare = int(printed.split("epoch 0: ")[1].split("%")[0])
    assert 20 < rare < 70  # of 2%
