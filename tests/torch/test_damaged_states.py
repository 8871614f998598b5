"""States for PyTorch that are damaged in ways of their own: relations, lists of states, tensors.

Every entry of every state is damaged in tests/state/test_conformance.py.
"""

import copy
import functools

import numpy as np
import pytest
import torch
from test_resume import DATA, N, digest, loss_of, through_a_file
from torch.utils.data import TensorDataset

import tombola
from fuzz import places as every_place
from tombola.checkpoint import CheckpointError
from tombola.torch import DeviceLoader, ImportanceLoader, WeightedSampler, device
from tombola.torch.replay import PrioritizedSampler

MODES = {
    "plain": {},
    "tags": {"sampler": lambda n, seed, groups: tombola.SRG(n, seed=seed)},
    "sharded": {"distributed": "sharded", "shards": 3},
}


def make(mode):
    return ImportanceLoader(DATA, 8, seed=5, lag=4, **MODES[mode])


def trained(mode, batches):
    """A loader in the middle of an epoch, with batches that wait and feedback that is not due."""
    loader = make(mode)
    for (items,), draw in loader:
        if draw.number % 5:
            loader.update(draw, loss_of(items, draw.number))
        if draw.number == batches:
            break
    while len(loader._batches.current.waiting) < 2:  # as workers would
        loader._batches.draw_next(loader._batches.current)
    return loader


@functools.cache
def honest(mode):
    return through_a_file(trained(mode, 3).state_dict())


def places(state, path=()):
    """The path of every entry, outside of the states of samplers."""
    if path and path[-1] == "sampler":
        yield path
        return
    if path:
        yield path
    if isinstance(state, dict):
        for key, inner in state.items():
            yield from places(inner, (*path, key))
    elif isinstance(state, list):
        for k, inner in enumerate(state):
            yield from places(inner, (*path, k))


def at(state, path):
    for key in path:
        state = state[key]
    return state


def damaged(state, path, value):
    """A copy of a state with another value in one place."""
    state = copy.deepcopy(state)
    at(state, path[:-1])[path[-1]] = value
    return state


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("position", "drawn"), 0, "drawn must be an integer from 4 to 9, got 0"),
        (("position", "handed"), 10**6, "drawn must be an integer from 1000000 to 1000005, got 6"),
        (("position", "handed"), 0, "drawn must be an integer from 0 to 5, got 6"),
        (("position", "left"), N + 1, f"left must be an integer from 0 to {N}, got {N + 1}"),
        (("position", "open"), 1, "open must be a bool, got 1 of type int"),
        (("position", "open"), False, "epoch is over, but of 6 batches drawn only 4 are"),
        pytest.param(
            ("position", "epoch"), 10**5000, "epoch must be .* got one too long", id="huge"
        ),
        (("format",), np.array(["a", "b"]), "format an array of <U1 of shape"),
        (("shards", 0, "counts"), torch.zeros(N).int().to_sparse(), "numpy cannot hold"),
        (("rank",), 1, "rank must be an integer from 0 to 0"),
        (("world",), 0, "world must be an integer from 1"),
        (("batch_size",), 0, "batch_size must be an integer from 1"),
        (
            ("shards", 0, "counts"),
            torch.zeros(N, dtype=torch.int64),
            "counts must be an array of any int32",
        ),
        (("shards", 0, "start"), 1, "does not hold items 0 to 49 as one shard"),
        (("waiting", 1, "number"), 3, r"waiting has batches \[4, 3\]: they must be in the order"),
        (("waiting", 1, "number"), 4, "batch 4 occurs 2 times in waiting and unanswered"),
        (("waiting", 0, "number"), 6, r"waiting.0.number must be an integer from 0 to 5"),
        (("unanswered", 0, "number"), 4, "batch 4 occurs 2 times in waiting and unanswered"),
        (("waiting", 0, "draw", "n"), N + 1, r"waiting.0.draw.n must be 50, got 51"),
        (("waiting", 0, "draw", "nominal"), 8, r"waiting.0: draw must be of a fixed size"),
        (("waiting", 0, "shares"), torch.ones(8, dtype=torch.float64), "items are not sharded"),
        (("given", 0, "due"), 9, r"given.0.due must be an integer from 0 to 8, got 9"),
    ],
)
def test_what_is_wrong_is_named(path, value, message):
    with pytest.raises(CheckpointError, match=message):
        make("plain").load_state_dict(damaged(honest("plain"), path, value))


def test_draws_of_other_shards_are_refused():
    state = honest("sharded")
    elsewhere = damaged(state, ("shards", 2, "start"), 40)
    with pytest.raises(CheckpointError, match="they must follow each other within the 50 items"):
        make("sharded").load_state_dict(elsewhere)
    fewer = {**state, "shards": state["shards"][:1]}
    with pytest.raises(CheckpointError, match="must be items from 0 to 15"):
        make("sharded").load_state_dict(fewer)


def ended(mode):
    """A state after the last batch of an epoch that says that the epoch is open."""
    loader = make(mode)
    for (items,), draw in loader:
        loader.update(draw, loss_of(items, draw.number))
    state = through_a_file(loader.state_dict())
    position = state["position"]
    assert (position["open"], position["left"], position["epoch"]) == (False, 0, 1)
    return {**state, "position": {**position, "open": True}}


@pytest.mark.parametrize("mode", MODES)
def test_an_epoch_without_a_batch_left_is_not_open(mode):
    loader = trained(mode, 2)
    before = digest(loader.state_dict())
    state = ended(mode)
    moved = [through_a_file({**state, "world": 2, "rank": rank}) for rank in range(2)]
    for wrong in [state, [state], moved if mode == "sharded" else [state]]:
        with pytest.raises(CheckpointError, match="the epoch is open but has no items left"):
            loader.load_state_dict(wrong)
        assert digest(loader.state_dict()) == before


def test_lists_of_states_are_checked():
    loader, state = make("sharded"), honest("sharded")
    moved = [through_a_file({**state, "world": 2, "rank": rank}) for rank in range(2)]
    for states, message in [
        ([], "there is no state in the list"),
        ([state, 3], "a state must be a dict, got 3 of type int"),
        ([moved[0], {**moved[1], "rank": 0}], "two states are of the same rank"),
        (
            [moved[0], damaged(moved[1], ("position", "epoch"), 1)],
            "the states have epoch=0 and epoch=1",
        ),
        ([moved[0], {**moved[1], "world": 3}], "the states have world=2 and world=3"),
    ]:
        with pytest.raises(CheckpointError, match=message):
            loader.load_state_dict(states)


def test_random_numbers_are_refused_or_do_no_harm():
    """A loader that takes a state can finish its epoch and save again."""
    random, state = np.random.default_rng(0), honest("plain")
    numbers = [path for path in places(state) if type(at(state, path)) is int]
    for _ in range(60):
        loader = trained("plain", 2)
        before = digest(loader.state_dict())
        path = numbers[random.integers(len(numbers))]
        value = int(random.integers(-4, 60))
        try:
            loader.load_state_dict(damaged(state, path, value))
        except CheckpointError:
            assert digest(loader.state_dict()) == before
        else:
            epoch = loader.epoch
            for (items,), draw in loader:
                loader.update(draw, loss_of(items, draw.number))
            assert loader.epoch == epoch + 1
            loader.load_state_dict(through_a_file(loader.state_dict()))


def test_a_bad_loss_of_a_device_is_refused_before_it_is_saved(monkeypatch):
    """It would make the state unreadable."""
    monkeypatch.setattr(
        "tombola.torch.loader.feedback.copy_losses", lambda draw, losses, skip: losses.numpy
    )
    loader = ImportanceLoader(TensorDataset(torch.arange(N)), 8, lag=3)
    for k, (_, draw) in enumerate(loader):
        losses = torch.ones(len(draw), dtype=torch.float64)
        losses[2] = float("nan") if k == 1 else 1.0
        loader.update(draw, losses)
        if k == 1:
            break
    with pytest.raises(ValueError, match=r"losses\[2\] of batch 1 is nan"):
        loader.state_dict()
    state = through_a_file(loader.state_dict())  # everything else is kept
    assert [given["number"] for given in state["given"]] == [0]


def without_end():
    """A list that a small file can hold, and nobody can read to its end."""
    nested = []
    for _ in range(60):
        nested = [nested, nested]
    return nested


LOADED = {
    "loader": lambda: make("plain"),
    "device loader": lambda: DeviceLoader(TensorDataset(torch.arange(N)), 8),
    "device sampler": lambda: device.VRB(N, device="cpu"),
    "device groups": lambda: device.GroupVRB(np.arange(N) % 3, device="cpu"),
    "device index": lambda: device.WeightIndex(np.ones(N, dtype=np.int64), device="cpu"),
    "weighted sampler": lambda: WeightedSampler(np.ones(N), N),
    "replay": lambda: PrioritizedSampler(N, 0.6, 0.4),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", LOADED)
def test_lists_without_end_are_refused_in_every_place(name):
    loaded = LOADED[name]()
    state = loaded.state_dict()
    for path in every_place(state):
        with pytest.raises(CheckpointError):
            loaded.load_state_dict(damaged(state, path, without_end()))
    assert digest(loaded.state_dict()) == digest(state)


def of_one_number(tensor):
    """A tensor of 2^40 numbers that a small file can hold."""
    return tensor.flatten()[:1].expand(2**40)


@pytest.mark.parametrize("name", LOADED)
def test_tensors_larger_than_their_memory_are_refused_in_every_place(name):
    loaded = LOADED[name]()
    state = honest("plain") if name == "loader" else loaded.state_dict()
    before = digest(loaded.state_dict())
    for path in every_place(state):
        if isinstance(at(state, path), torch.Tensor):
            with pytest.raises(CheckpointError):
                loaded.load_state_dict(damaged(state, path, of_one_number(at(state, path))))
    assert digest(loaded.state_dict()) == before


def test_one_tensor_in_many_places_is_refused_before_it_is_copied():
    loader, state = make("sharded"), through_a_file(honest("sharded"))
    before = digest(loader.state_dict())
    for many in (
        {**state, "given": state["given"] * 1000},
        {**state, "given": [{**state["given"][0]} for _ in range(1000)]},
        {**state, "shards": state["shards"] * 1000},
        [{**state, "world": 1000, "rank": rank} for rank in range(1000)],
    ):
        with pytest.raises(CheckpointError, match="share memory"):
            loader.load_state_dict(many)
    assert digest(loader.state_dict()) == before


def test_names_of_entries_stay_short():
    key, nested = "k" * 10**6, torch.zeros(3).bfloat16()
    for _ in range(100):
        nested = {key: nested}
    with pytest.raises(CheckpointError, match="numpy cannot hold") as raised:
        make("plain").load_state_dict({**honest("plain"), "more": nested})
    assert len(str(raised.value)) < 500
    path = ("shards", 0, "sampler", "tally", key)
    with pytest.raises(CheckpointError, match="an unknown entry 'kkk") as raised:
        make("plain").load_state_dict(damaged(honest("plain"), path, 1.0))
    assert len(str(raised.value)) < 6000


def test_a_generator_that_would_read_beyond_its_words_is_refused():
    """Torch accepts it, and reads memory that is not its own."""
    generator = torch.Generator().manual_seed(1)
    sampler = WeightedSampler(np.ones(N), N, generator=generator)
    for _ in range(2):  # a generator that is new, and one that is not
        state = through_a_file(sampler.state_dict())
        sampler.load_state_dict(state)
        wrong = copy.deepcopy(state)
        wrong["generator"].numpy()[8:12].view(np.int32)[0] = 624
        wrong["generator"].numpy()[16:24].view(np.int64)[0] = 624
        with pytest.raises(CheckpointError, match="624 words left at place 624"):
            sampler.load_state_dict(wrong)
        assert digest(sampler.state_dict()) == digest(state)
        list(sampler)
