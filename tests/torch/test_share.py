"""Epochs of a share of the items: their length, what is in them, ranks, resumption and lag."""

import numpy as np
import pytest
import torch
from crowd import Crowd
from test_resume import digest, through_a_file
from torch.utils.data import DataLoader, TensorDataset

import tombola
from tombola.checkpoint import CheckpointError
from tombola.torch import ImportanceLoader, ImportanceSampler, Numbered

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),  # it forks
]

N, EPOCHS = 50, 4
DATA = TensorDataset(torch.arange(N))


def make(share=0.7, workers=0, lag=4, batch_size=8, **options):
    return ImportanceLoader(
        DATA, batch_size, share=share, lag=lag, num_workers=workers, seed=5, **options
    )


def info_batch(lag=4, **options):
    return make(None, lag=lag, sampler=tombola.InfoBatch(N, EPOCHS, seed=5, **options))


def train(loader, stop=None):
    """Train to the end, or for `stop` batches; return the epochs as lists of batches."""
    epochs, count = [], 0
    for _ in range(loader.epoch, EPOCHS):
        epochs.append([])
        for (items,), draw in loader:
            epochs[-1].append(items.tolist())
            loader.update(draw, 1.0 + items.double() ** 2)
            count += 1
            if count == stop:
                return epochs
    return epochs


def flat(lists):
    return [inner for outer in lists for inner in outer]


@pytest.mark.parametrize(
    ("share", "drop_last", "length", "sizes"),
    [
        (0.7, False, 5, [8, 8, 8, 8, 3]),
        (0.7, True, 4, [8] * 4),
        (0.1, False, 1, [5]),
        (1.3, False, 9, [8] * 8 + [1]),
    ],
)
def test_the_length_of_an_epoch_shrinks_and_grows(share, drop_last, length, sizes):
    loader = make(share, drop_last=drop_last)
    assert len(loader) == length
    for epoch in train(loader):
        assert [len(batch) for batch in epoch] == sizes
    assert isinstance(loader.sampler, tombola.EpochVRB)
    assert len(loader) == length


def test_no_item_comes_twice_in_an_epoch_and_heavy_ones_in_each():
    epochs = train(make())
    for epoch in epochs:
        items = flat(epoch)
        assert len(set(items)) == len(items) == 35
    assert flat(epochs[-1]).count(N - 1) == 1
    assert set(range(N - 10, N)) <= set(flat(epochs[-1]))  # random pruning: once in 50 runs


def test_an_epoch_with_share_one_and_equal_losses_is_a_shuffled_one():
    loader = make(1.0)
    for _ in range(3):
        drawn = []
        for (items,), draw in loader:
            drawn += items.tolist()
            loader.update(draw, torch.ones(len(items)))
        assert sorted(drawn) == list(range(N))


def test_batches_are_those_of_the_sampler_with_feedback_at_the_lag():
    sampler, lag, late, expected = tombola.EpochVRB(N, share=0.7, seed=5), 4, [], []
    for number in range(EPOCHS * 5):
        if number > lag:
            draw = late.pop(0)
            sampler.update(draw, 1.0 + draw.indices.astype(float) ** 2)
        late.append(sampler.draw(3 if number % 5 == 4 else 8))
        expected.append(late[-1].indices.tolist())
    assert flat(train(make())) == expected
    assert flat(train(make(workers=2))) == expected
    assert flat(train(make(lag=3))) != expected


@pytest.mark.parametrize("maker", [make, lambda: make(1.3), info_batch], ids=["0.7", "1.3", "info"])
def test_resumed_at_every_batch(maker):
    loader = maker()
    undisturbed, end = train(loader), digest(loader.state_dict())
    for cut in range(1, len(flat(undisturbed)), 3):
        first, stopped = maker(), maker()
        drawn = flat(train(first, stop=cut))
        stopped.load_state_dict(through_a_file(first.state_dict()))
        assert drawn + flat(train(stopped)) == flat(undisturbed)
        assert digest(stopped.state_dict()) == end


def test_a_state_with_more_left_than_an_epoch_has_is_refused():
    loader = make(1.3)
    train(loader, stop=3)
    state = loader.state_dict()
    position = state["position"]
    assert position["left"] == 65 - 24
    loader.load_state_dict({**state, "position": {**position, "left": 65}})
    with pytest.raises(CheckpointError, match="left must be an integer from 0 to 65, got 66"):
        loader.load_state_dict({**state, "position": {**position, "left": 66}})
    with pytest.raises(CheckpointError, match="saved with another share"):
        make(1.2).load_state_dict(state)


def test_ranks_draw_what_one_process_draws(monkeypatch):
    alone = train(make(batch_size=8))
    crowd = Crowd(2, monkeypatch)
    ranks = crowd.run(lambda rank: train(make(batch_size=4)))
    sizes = [len(batch) for batch in flat(ranks[0])]
    assert sizes == [4, 4, 4, 4, 2] * EPOCHS  # 36 draws: the last batch is divided equally
    together = [a + b for a, b in zip(flat(ranks[0]), flat(ranks[1]), strict=True)]
    assert together[:4] == flat(alone)[:4]
    with pytest.raises(ValueError, match=r"same number of draws in an epoch: rank 0 has 35"):
        crowd.run(lambda rank: make(0.7 + 0.1 * rank))


def test_sharded_epochs_are_as_long(monkeypatch):
    crowd = Crowd(3, monkeypatch)
    ranks = crowd.run(lambda rank: train(make(batch_size=4, distributed="sharded")))
    for rank, epochs in enumerate(ranks):
        assert [len(batch) for batch in flat(epochs)] == [4, 4, 4] * EPOCHS
        start, stop = rank * N // 3, (rank + 1) * N // 3
        assert all(start <= item < stop for item in flat(flat(epochs)))


def test_info_batch_in_a_loader_has_epochs_of_its_own_length():
    loader = info_batch(lag=0)
    assert len(loader) == 7
    lengths = []
    for _ in range(EPOCHS):
        epoch = []
        for (items,), draw in loader:
            epoch += items.tolist()
            loader.update(draw, 1.0 + items.double() ** 2)
        lengths.append(len(epoch))
        assert len(set(epoch)) == len(epoch) == loader.sampler.epoch_length
    # of 50 losses 1 + k^2, 29 are below their mean
    assert lengths == [50, 36, 36, 36]


def test_info_batch_ends_with_full_epochs():
    loader = info_batch(lag=0, until=0.7)
    assert [len(flat(epoch)) for epoch in train(loader)] == [50, 36, 36, 50]
    assert len(loader) == 7


def test_the_bare_sampler_takes_a_share_too():
    sampler = ImportanceSampler(N, 8, share=0.7, seed=5, lag=4)
    numbered = Numbered(DATA)
    loader = DataLoader(numbered, batch_sampler=sampler, collate_fn=numbered.collate)
    drawn = []
    for _ in range(EPOCHS):
        for (items,), draw in sampler.batches(loader):
            drawn.append(items.tolist())
            sampler.update(draw, 1.0 + items.double() ** 2)
    assert drawn == flat(train(make()))
    assert len(loader) == 5


def test_estimates_over_an_epoch_are_unbiased_while_it_adapts():
    values, errors = torch.arange(N).double() ** 2, []
    for seed in range(150):
        loader = ImportanceLoader(DATA, 5, share=0.5, lag=0, seed=seed)
        for _ in range(3):
            estimates = []
            for (items,), draw in loader:
                estimates.append(draw.mean(values[items]).item() * len(items))
                loader.update(draw, 1.0 + values[items])
        errors.append(sum(estimates) / 25 - values.mean().item())
    # the last epoch: six standard errors; without importances the bias is about +500
    assert abs(np.mean(errors)) < 6 * np.std(errors) / np.sqrt(len(errors)) < 60


def test_what_cannot_be_combined_is_refused():
    with pytest.raises(ValueError, match=r"share=0\.7 is for sampler='epoch-vrb'"):
        make(sampler="vrb")
    with pytest.raises(ValueError, match=r"share=0\.7 is for sampler='epoch-vrb'"):
        make(sampler=tombola.VRB(N))
    with pytest.raises(ValueError, match="cannot be combined with groups"):
        make(groups=np.arange(N) % 2)
    for share in (0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="share must be positive"):
            make(share)
    with pytest.raises(TypeError, match="share must be a number"):
        make("all")
