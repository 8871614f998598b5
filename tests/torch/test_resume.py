"""Stopped at any batch and resumed, a run continues as an uninterrupted one does."""

import hashlib
import io

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import tombola
from tombola.checkpoint import CheckpointError
from tombola.torch import ImportanceLoader, ImportanceSampler, Numbered

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),  # it forks
]

N, EPOCHS = 50, 2
DATA = TensorDataset(torch.arange(N))
LABELS = np.array([f"class {k % 3}" for k in range(N)])


def make(workers=0, lag=4, seed=5, **options):
    return ImportanceLoader(DATA, 8, seed=seed, lag=lag, num_workers=workers, **options)


def loss_of(items, number):
    return (1.0 + items.double()) * (1 + number % 3)


def through_a_file(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def digest(value):
    """A hash of a nested state of tensors."""
    if isinstance(value, dict):
        parts = [f"{name}:{digest(inner)}" for name, inner in sorted(value.items())]
    elif isinstance(value, list):
        parts = [digest(inner) for inner in value]
    elif isinstance(value, torch.Tensor):
        parts = [str(value.dtype), value.numpy().tobytes().hex()]
    else:
        parts = [repr(value)]
    return hashlib.sha256("|".join(parts).encode()).hexdigest()


def train(loader, stop=None):
    """Train to the end, or for `stop` batches; return them, and the state."""
    drawn = []
    for _ in range(loader.epoch, EPOCHS):
        for (items,), draw in loader:
            drawn.append(items.tolist())
            if draw.number % 5:  # some are not answered
                loader.update(draw, loss_of(items, draw.number))
            if len(drawn) == stop:
                return drawn, {"loader": loader.state_dict()}
    return drawn, {"loader": loader.state_dict()}


@pytest.mark.parametrize(
    ("before", "after"),
    [(0, 0), (2, 0), *(pytest.param(*it, marks=pytest.mark.slow) for it in [(2, 2), (0, 2)])],
    ids=lambda workers: f"{workers} workers",
)
def test_resumed_at_every_batch(before, after):
    undisturbed, end = train(make())
    assert len(undisturbed) == 14
    for cut in range(1, 15):
        first, state = train(make(before), stop=cut)
        state = through_a_file(state)
        loader = make(after)
        loader.load_state_dict(state["loader"])
        rest, last = train(loader)
        assert first + rest == undisturbed
        assert digest(last) == digest(end)


@pytest.mark.parametrize(
    "options",
    [
        {"groups": LABELS},
        {"sampler": lambda n, seed, groups: tombola.SRG(n, seed=seed)},
        {"sampler": "shuffle", "drop_last": True},
        {"lag": 0},
        {"lag": 9},
    ],
)
def test_resumed_with_other_settings(options):
    undisturbed, end = train(make(**options))
    for cut in (1, 5, 6, 7, 9):
        first, state = train(make(**options), stop=cut)
        loader = make(**options)
        loader.load_state_dict(through_a_file(state)["loader"])
        rest, last = train(loader)
        assert first + rest == undisturbed
        assert digest(last) == digest(end)


def test_resumed_between_epochs_and_before_the_first():
    undisturbed, _ = train(make())
    fresh = make()
    fresh.load_state_dict(through_a_file(make().state_dict()))
    assert train(fresh)[0] == undisturbed
    loader = make(2)
    for (items,), draw in loader:
        if draw.number % 5:
            loader.update(draw, loss_of(items, draw.number))
    again = make(2)
    again.load_state_dict(through_a_file(loader.state_dict()))
    assert train(again)[0] == undisturbed[7:]


def test_an_epoch_is_over_with_its_last_batch():
    """Frameworks count batches, and never ask for the one after the last."""
    undisturbed, _ = train(make())
    loader, drawn = make(), []
    for epoch in range(EPOCHS):
        assert loader.epoch == epoch
        batches = iter(loader)
        for _ in range(len(loader)):
            (items,), draw = next(batches)
            drawn.append(items.tolist())
            if draw.number % 5:
                loader.update(draw, loss_of(items, draw.number))
        state = through_a_file(loader.state_dict())
        loader = make()
        loader.load_state_dict(state)
    assert loader.epoch == EPOCHS
    assert drawn == undisturbed


def test_an_epoch_that_is_broken_off_is_over_when_the_next_one_begins():
    loader = make()
    next(iter(loader))
    assert loader.epoch == 0
    assert loader.state_dict()["position"]["open"]
    next(iter(loader))
    assert loader.epoch == 1


def test_saving_changes_nothing():
    undisturbed, end = train(make())
    loader, drawn = make(), []
    for _ in range(EPOCHS):
        for (items,), draw in loader:
            loader.state_dict()
            drawn.append(items.tolist())
            if draw.number % 5:
                loader.update(draw, loss_of(items, draw.number))
            loader.state_dict()
    assert drawn == undisturbed
    assert digest(loader.state_dict()) == digest(end["loader"])


def test_answers_to_batches_handed_out_before_still_count():
    """Saved before the update; the losses are computed again after the resume."""
    undisturbed, _ = train(make())
    loader = make()
    drawn, state = [], None
    for (items,), draw in loader:
        drawn.append(items.tolist())
        if draw.number == 3:
            state = loader.state_dict()
            break
        if draw.number % 5:
            loader.update(draw, loss_of(items, draw.number))
    resumed = make()
    resumed.load_state_dict(through_a_file(state))
    assert [draw.number for draw in resumed.unanswered] == [0, 3]
    for draw in resumed.unanswered[1:]:
        resumed.update(draw, loss_of(draw.indices, draw.number))
    assert drawn + train(resumed)[0] == undisturbed
    forgetful = make()
    forgetful.load_state_dict(through_a_file(state))
    assert drawn + train(forgetful)[0] != undisturbed


def test_forgotten_batches_change_the_rest():
    """Else the comparisons above would prove nothing: each part of the state is needed."""
    undisturbed, _ = train(make(2))
    first, state = train(make(2), stop=4)
    assert len(state["loader"]["waiting"]) == 3
    assert len(state["loader"]["given"]) > 0
    position = state["loader"]["position"]
    position = {**position, "drawn": position["handed"], "left": 18}
    drawn_again = {"waiting": [], "position": position}
    for forgotten in (drawn_again, {"given": []}):
        loader = make(2)
        loader.load_state_dict({**state["loader"], **forgotten})
        assert first + train(loader)[0] != undisturbed


def test_another_batch_size_issues_what_was_drawn_and_goes_on():
    _, state = train(make(2), stop=2)
    loader = ImportanceLoader(DATA, 16, seed=5, lag=4)
    loader.load_state_dict(state["loader"])
    sizes = [len(draw) for _, draw in loader]
    assert sizes == [8, 8, 8, 8, 2]
    assert [len(draw) for _, draw in loader] == [16, 16, 16, 2]


def test_the_bare_sampler_resumes_too():
    def batches(sampler):
        numbered = Numbered(DATA)
        loader = DataLoader(numbered, batch_sampler=sampler, collate_fn=numbered.collate)
        return ((sampler, items.tolist()) for (items,), _ in sampler.batches(loader))

    undisturbed = batches(ImportanceSampler(N, 8, seed=5))
    sampler, _ = next(undisturbed)
    copy = ImportanceSampler(N, 8, seed=5)
    copy.load_state_dict(through_a_file(sampler.state_dict()))
    assert [items for _, items in batches(copy)] == [items for _, items in undisturbed]


def test_the_state_holds_tensors_numbers_and_strings_only():
    _, state = train(make(groups=LABELS), stop=3)

    def kinds(value):
        if isinstance(value, dict):
            return {type(name) for name in value}.union(*map(kinds, value.values()))
        if isinstance(value, list):
            return set().union(*map(kinds, value))
        return {type(value)}

    assert kinds(state) <= {torch.Tensor, int, float, str, bool, type(None)}


def without(state, key):
    return {name: value for name, value in state.items() if name != key}


def test_a_shard_that_cannot_be_loaded_leaves_the_others_as_they_were():
    """Also where its state makes the sampler raise something else than a ValueError."""

    def two_shards():
        return ImportanceLoader(DATA, 8, distributed="sharded", shards=2, lag=0)

    other, loader = two_shards(), two_shards()
    for (items,), draw in other:
        other.update(draw, loss_of(items, 0))
    state = other.state_dict()
    state["shards"][1]["sampler"] = None
    before = digest(loader.state_dict())
    with pytest.raises(CheckpointError, match=r"shards.1.sampler must be a dict, got None"):
        loader.load_state_dict(state)
    assert digest(loader.state_dict()) == before
    state["shards"][1]["sampler"] = {"class": "VRB"}
    with pytest.raises(CheckpointError, match="the sampler of items 25 to 49"):
        loader.load_state_dict(state)
    assert digest(loader.state_dict()) == before


def test_states_that_do_not_fit_are_refused_and_change_nothing():
    _, state = train(make(), stop=3)
    state = state["loader"]
    one_more = {**state["position"], "drawn": state["position"]["drawn"] + 1}
    loader = make()
    train(loader, stop=2)
    before = digest(loader.state_dict())
    for wrong, message in [
        ({**state, "lag": 3}, "saved with lag=3, here it is 4"),
        ({**state, "lag": -1}, "lag must be an integer from 0"),
        ({**state, "n": 51}, "saved with n=51, here it is 50"),
        ({**state, "drop_last": True}, "saved with drop_last=True, here it is False"),
        ({**state, "sharded": True}, "saved with sharded=True, here it is False"),
        ({**state, "position": one_more}, "batches that were drawn are missing"),
        ({**state, "format": 9}, "the state is of 'ImportanceLoader', format 9"),
        ({}, "the state is of None, format None"),
        (make(seed=6).state_dict(), "the state was saved with another seed"),
        (make(sampler="uniform").state_dict(), "the state is of 'Uniform'"),
        ({**state, "shards": []}, "does not hold items 0 to 49"),
        (
            {**state, "position": without(state["position"], "left")},
            r"incomplete: it has no position\.left",
        ),
        ({**state, "given": [without(state["given"][0], "rank")]}, "it has no given.0.rank"),
    ]:
        with pytest.raises(CheckpointError, match=message):
            loader.load_state_dict(wrong)
        assert digest(loader.state_dict()) == before


@pytest.mark.parametrize(("before", "after"), [(2, 0), (0, 1)])
def test_a_loader_without_a_lag_takes_that_of_the_state(before, after):
    """The default depends on the number of workers; a run goes on with what it began with."""
    lag = {2: None, 0: 5}[before]
    undisturbed, end = train(make(before, lag=lag))
    first, state = train(make(before, lag=lag), stop=5)
    loader = make(after, lag=None)
    loader.load_state_dict(through_a_file(state)["loader"])
    assert loader.lag == 5
    rest, last = train(loader)
    assert first + rest == undisturbed
    assert digest(last) == digest(end)


def test_a_lag_that_the_workers_cannot_keep_is_named():
    state = make(lag=None).state_dict()
    for options, message in [
        ({"workers": 2, "lag": None}, "saved with lag=1, and the workers of this loader draw 4"),
        ({"workers": 2, "lag": 6}, "with these workers needs lag=4 or more from"),
        ({"lag": 4}, "lag=1, here it is 4: make the loader with lag=1, or without a lag"),
    ]:
        with pytest.raises(CheckpointError, match=message):
            make(**options).load_state_dict(state)


def test_a_state_within_itself_is_refused():
    loader = ImportanceLoader(TensorDataset(torch.arange(4.0)), 2)
    state = loader.state_dict()
    state["given"].append(state)
    with pytest.raises(CheckpointError, match="the state is nested too deeply"):
        loader.load_state_dict(state)


SAVED = {
    "plain": {},
    "a lag": {"lag": 4},
    "drop_last": {"drop_last": True},
    "workers": {"num_workers": 2, "lag": 5},
    "sharded": {"distributed": "sharded", "shards": 3},
    "chosen epochs": {"share": 0.5},
}


@pytest.mark.parametrize("options", SAVED.values(), ids=SAVED)
def test_states_after_every_batch_are_taken(options):
    """That of the last batch of an epoch looks as if nothing was left: then none is open."""
    loader, other = (ImportanceLoader(DATA, 8, seed=5, **options) for _ in range(2))
    seen = 0
    for _ in range(2):
        for (items,), draw in loader:
            loader.update(draw, loss_of(items, draw.number))
            state = through_a_file(loader.state_dict())
            other.load_state_dict(state)
            assert digest(other.state_dict()) == digest(state)
            assert other.epoch == loader.epoch
            seen += not state["position"]["open"]
    assert seen == 2
    assert len(list(other)) == len(other)
