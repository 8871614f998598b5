"""The loader for data on a device: batches, epochs, feedback and checkpoints.

On the CPU the same class gathers from tensors there; what only a GPU can show needs one.
"""

import io
import math

import pytest
import torch
from device_case import CUDA, changed, cuda_tests, refuse
from torch.utils.data import DataLoader, TensorDataset

import tombola
from tombola.checkpoint import CheckpointError
from tombola.torch import VRB, DeviceLoader, GroupVRB, ImportanceLoader

DEVICE = "cuda" if CUDA else "cpu"
N = 23
if CUDA:
    pytest.importorskip("triton")


def data(n=N):
    x = torch.arange(float(n), device=DEVICE)
    return x, 2 * x


def new(batch_size=5, **more):
    return DeviceLoader(TensorDataset(*data()), batch_size, **more)


@pytest.mark.parametrize("batch_size", [1, 5, 22, 23, 24, 100])
@pytest.mark.parametrize("drop_last", [False, True])
def test_an_epoch_has_the_batches_of_a_dataloader(batch_size, drop_last):
    loader = new(batch_size, drop_last=drop_last)
    sizes = DataLoader(range(N), batch_size, drop_last=drop_last)
    expected = [len(batch) for batch in sizes]
    for epoch in range(3):
        assert loader.epoch == epoch
        batches = list(loader)
        assert [len(draw) for _, draw in batches] == expected
        assert len(loader) == len(expected)
        for (x, y), draw in batches:
            assert torch.equal(x, draw.indices.to(x.dtype))
            assert torch.equal(y, 2 * x)
    assert loader.epoch == 3


def test_it_learns():
    loader = new(8, seed=3)
    for _ in range(60):
        for (x, _), draw in loader:
            losses = torch.where(x == 7, 5.0, 0.1)
            loader.update(draw, losses)
    loader.check()
    assert loader.sampler.probabilities().argmax() == 7
    assert loader.sampler.gauge.second_moment_ratio < 0.8
    assert loader.most_drawn(1)[0][0] == 7
    assert sum(count for _, count in loader.most_drawn(N)) == 60 * N
    logged = {}
    loader.log(lambda name, value, step: logged.update({name: value}), 3)
    assert logged["tombola/adaptive"] == 1.0
    assert logged["tombola/lag"] == 0.0
    assert 0 < loader.time_share < 1
    assert loader.samplers == [loader.sampler]


def test_groups_choose_the_sampler():
    groups = torch.arange(N) % 3
    assert isinstance(new().sampler, VRB)
    assert isinstance(new(groups=groups).sampler, GroupVRB)
    assert isinstance(new(groups=groups, sampler="vrb").sampler, VRB)
    own = VRB(N, device=DEVICE, seed=9)
    assert new(sampler=own, quantity="gradient norm").sampler is own
    assert own.quantity == "gradient norm"


def test_one_tensor_and_several():
    x, y = data()
    (batch,), draw = next(iter(DeviceLoader(x, 4)))
    assert torch.equal(batch, x[draw.indices])
    batch, draw = next(iter(DeviceLoader([x, y, x], 4)))
    assert len(batch) == 3


def test_feedback_may_be_missing_partial_or_late():
    loader = new(10)
    (_, first), (_, second), _ = list(loader)
    assert [draw.number for draw in loader.unanswered] == [0, 1, 2]
    loader.update(second, torch.ones(10, device=DEVICE))
    loader.update(first[:4], torch.ones(4, device=DEVICE))
    assert [draw.number for draw in loader.unanswered] == [2]
    assert loader.sampler.gauge.count == 14
    for _ in range(100):
        list(loader)
    assert len(loader.unanswered) == 256


def test_losses_that_are_not_finite_may_be_skipped():
    loader = new(4)
    (_, draw), *_ = list(loader)
    losses = torch.tensor([1.0, math.nan, math.inf, 2.0], device=DEVICE)
    loader.update(draw, losses, skip_nonfinite=True)
    assert (loader.skipped, loader.sampler.gauge.count) == (2, 2)
    with pytest.raises(ValueError, match=r"losses\[1\] is nan"):
        refuse(loader, draw, losses.tolist())


def test_refused_losses_change_nothing():
    loader = new(4)
    (_, draw), *_ = list(loader)
    other = DeviceLoader(torch.arange(5.0, device=DEVICE), 4)
    nans = torch.full((4,), math.nan, device=DEVICE)
    for wrong, losses, error, message in [
        (draw, nans[0], ValueError, "use reduction='none'"),
        (draw, nans[:3], ValueError, r"each of the 4 items drawn, got shape \(3,\)"),
        (draw, nans[:, None], ValueError, r"got shape \(4, 1\)"),
        (draw, nans.to(torch.complex64), TypeError, "losses must hold numbers"),
        (draw, [1.0] * 4, TypeError, "losses must be a tensor, got list"),
        (next(iter(other))[1], nans, ValueError, "the draw is over 5 items"),
    ]:
        with pytest.raises(error, match=message):
            loader.update(wrong, losses, skip_nonfinite=True)
    assert (loader.skipped, len(loader.unanswered)) == (0, 6)
    loader.update(draw, nans, skip_nonfinite=True)
    assert (loader.skipped, len(loader.unanswered)) == (4, 5)


def test_it_says_where_it_is_and_what_it_lacks():
    loader = new()
    assert (loader.device, loader.num_workers) == (loader.sampler.device, 0)
    assert not hasattr(loader, "batch_sampler")
    with pytest.raises(AttributeError, match="DeviceLoader has no batch_sampler: a framework"):
        loader.batch_sampler  # noqa: B018


def test_two_iterations_take_turns():
    loader = new(10)
    first = iter(loader)
    next(first)
    assert loader.epoch == 0
    second = iter(loader)
    assert loader.epoch == 1  # the first one was abandoned, and goes on
    sizes = [[len(next(batches)[1]) for batches in (first, second)] for _ in range(2)]
    assert sizes == [[10, 10], [3, 10]]
    assert next(first, None) is None
    with pytest.raises(RuntimeError, match="two iterations take turns"):
        loader.state_dict()
    assert [len(draw) for _, draw in second] == [3]
    state = loader.state_dict()
    assert (state["epoch"], state["left"], state["open"]) == (2, 0, False)


def test_what_was_given_to_the_constructor_cannot_be_set_later():
    loader = new(10)
    for name in ("batch_size", "dataset", "device", "drop_last", "sampler", "lag"):
        with pytest.raises(ValueError, match=f"{name} attribute should not be set after DeviceL"):
            setattr(loader, name, getattr(loader, name))


def test_a_dataset_that_has_changed_its_length_is_noticed():
    dataset = TensorDataset(*data())
    loader = DeviceLoader(dataset, 5)
    dataset.tensors = data(N + 1)
    with pytest.raises(RuntimeError, match="has 24 items now, 23 when the loader was made"):
        iter(loader)


def test_states_continue_in_the_middle_of_an_epoch():
    def train(loader, batches):
        seen = []
        while len(seen) < batches:
            for (x, _), draw in loader:
                loader.update(draw, x + 1)
                seen.append(draw.indices.tolist())
                if len(seen) == batches:
                    break
        return seen

    whole = train(new(5, seed=1), 38)
    loader, second = new(5, seed=1), new(5, seed=1)
    before = train(loader, 18)
    file = io.BytesIO()
    torch.save(loader.state_dict(), file)
    file.seek(0)
    second.load_state_dict(torch.load(file, weights_only=True))
    assert second.epoch == loader.epoch == 3
    assert before + train(second, 20) == whole
    assert second.most_drawn(N) != loader.most_drawn(N)
    batches = iter(second)
    next(batches)
    second.load_state_dict(loader.state_dict())
    with pytest.raises(RuntimeError, match="a state was loaded"):
        next(batches)


# of a sampler: the host's on the CPU, with another form of state
ARGUMENTS = ["sampler"] if CUDA else ["sampler", "parameters"]
BAD_STATES = [
    (["epoch"], -1, "epoch must be an integer from 0"),
    (["left"], N + 1, "left must be an integer from 0"),
    (["left"], 0, "the epoch is open but has no items left"),
    (["open"], 1, "open must be a bool, got 1 of type int"),
    (["skipped"], 0.5, "skipped must be"),
    (["counts"], torch.zeros(3, dtype=torch.int32), f"an array of {N} int32"),
    (["counts"], torch.zeros(N, dtype=torch.int32, device="meta"), "counts .* numpy cannot hold"),
    (["counts"], torch.zeros(N, dtype=torch.int32).to_sparse(), "counts .* numpy cannot hold"),
    (["counts"], -torch.arange(N, dtype=torch.int32), r"counts\[1\] must be .* got -1"),
    ([*ARGUMENTS, "n"], 3, "saved with n=3, here it is 23|saved with another n"),
    pytest.param(
        [*ARGUMENTS, "seed"],
        10**5000,
        "seed=one too long to show|saved with another seed",
        id="huge seed",
    ),
]


@pytest.mark.parametrize(("path", "value", "message"), BAD_STATES)
def test_bad_states_change_nothing(path, value, message):
    loader = new(5)
    list(zip(range(2), loader, strict=False))
    loader.sampler.draw(3)
    state = loader.state_dict()
    other = changed(new(5).state_dict() | {"open": True, "left": 3}, path, value)
    with pytest.raises(CheckpointError, match=message):
        loader.load_state_dict(other)
    assert repr(loader.state_dict()) == repr(state)
    with pytest.raises(CheckpointError, match=message):
        loader.load_state_dict(changed(state, path, value))
    assert repr(loader.state_dict()) == repr(state)


@pytest.mark.parametrize("drop_last", [False, True])
def test_states_after_every_batch_are_taken(drop_last):
    """That of the last batch of an epoch has nothing left, and no epoch that is open."""
    loader, other = new(5, drop_last=drop_last), new(5, drop_last=drop_last)
    for _ in range(2):
        for _ in loader:
            other.load_state_dict(loader.state_dict())
            assert other.epoch == loader.epoch
    assert len(list(other)) == len(other)


def test_arguments_are_checked():
    x, _ = data()
    with pytest.raises(TypeError, match="dataset must be a TensorDataset"):
        DeviceLoader([1, 2])
    with pytest.raises(TypeError, match="dataset must be a TensorDataset"):
        DeviceLoader(torch.tensor(1.0))
    with pytest.raises(ValueError, match=r"dataset\[0\] has 23 rows, dataset\[1\] has 3"):
        DeviceLoader([x, x[:3]])
    with pytest.raises(ValueError, match="dataset is empty"):
        DeviceLoader(x[:0])
    with pytest.raises(ValueError, match=r"dataset\[1\] on meta"):
        DeviceLoader([x, torch.empty(N, device="meta")])
    with pytest.raises(TypeError, match="num_workers cannot be given if data are drawn"):
        new(num_workers=2)
    with pytest.raises(TypeError, match="DeviceLoader has no argument 'shufle'"):
        new(shufle=False)
    assert len(new(shuffle=False, num_workers=0, lag=0, distributed="auto")) == 5
    with pytest.raises(TypeError, match="sampler must be one of auto, vrb, group-vrb"):
        new(sampler="balanced")
    with pytest.raises(ValueError, match="group-vrb needs groups"):
        new(sampler="group-vrb")
    with pytest.raises(ValueError, match="groups has 2 labels for 23 items"):
        new(groups=[1, 2])
    with pytest.raises(ValueError, match="the sampler is over 3 items"):
        new(sampler=VRB(3, device=DEVICE))
    with pytest.raises(ValueError, match="batch_size must be"):
        new(0)


def test_several_processes_do_not_draw_the_same(monkeypatch):
    """The draws of an `ImportanceLoader` are shared; those on a device are not."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match="one of WORLD_SIZE=2 processes, but torch"):
        new()
    assert len(new(distributed=None)) == 5
    monkeypatch.setattr("tombola.torch.loader.device.world_size", lambda: 2)
    with pytest.raises(RuntimeError, match="all 2 would draw the same items: pass distributed=Non"):
        new()
    assert len(new(distributed=None)) == 5


def test_data_on_the_cpu_are_loaded_by_the_host():
    loader = ImportanceLoader(TensorDataset(torch.arange(5.0)))
    assert type(loader) is ImportanceLoader
    assert isinstance(loader.sampler, tombola.VRB)
    assert not hasattr(loader, "device")


def test_an_importance_loader_draws_on_the_device_what_a_device_loader_does(monkeypatch):
    """Where it may: on the CPU, it is told that it may."""
    monkeypatch.setattr("tombola.torch.loader.loader.serves", lambda *asked: True)
    dataset = TensorDataset(*data())
    loaders = [kind(dataset, 5, seed=3) for kind in (ImportanceLoader, DeviceLoader)]
    assert [type(loader.sampler) for loader in loaders] == [VRB, VRB]
    assert (loaders[0].lag, loaders[0].num_workers, len(loaders[0])) == (0, 0, 5)
    assert loaders[0].device == loaders[1].device
    seen = []
    for loader in loaders:
        for _ in range(3):
            for (x, _), draw in loader:
                loader.update(draw, x + 1)
                seen.append(draw.indices.tolist())
        loader.check()
    assert seen[:15] == seen[15:]
    loaders[1].load_state_dict(loaders[0].state_dict())
    assert [draw.indices.tolist() for _, draw in loaders[0]] == [
        draw.indices.tolist() for _, draw in loaders[1]
    ]


@cuda_tests
def test_data_on_a_gpu_are_loaded_there():
    dataset = TensorDataset(*data(1000))
    loader = ImportanceLoader(dataset, 50, groups=torch.arange(1000) % 7, seed=5)
    assert isinstance(loader.sampler, GroupVRB)
    assert loader.lag == 0
    for more in ({"num_workers": 1}, {"lag": 1}, {"sampler": "shuffle"}, {"collate_fn": list}):
        assert isinstance(ImportanceLoader(dataset, 50, **more).sampler, tombola.samplers.Sampler)


@cuda_tests
@pytest.mark.parametrize("groups", [None, torch.arange(1000) % 7])
def test_training_never_waits(groups):
    loader = ImportanceLoader(TensorDataset(*data(1000)), 50, groups=groups)
    weight = torch.zeros((), device="cuda", requires_grad=True)
    for mode in ("default", "error"):  # the first epoch compiles
        torch.cuda.set_sync_debug_mode(mode)
        try:
            for (x, y), draw in loader:
                losses = (weight * x - y).square()
                draw.mean(losses).backward()
                loader.update(draw, losses)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    loader.check()
    assert loader.sampler.gauge.count == 2000
