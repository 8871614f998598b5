"""The loader: what is drawn, when feedback counts, and that workers and timing change nothing."""

import collections
import inspect
import pickle
import time

import numpy as np
import pytest
import torch
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    get_worker_info,
)

import tombola
from tombola.compiling import RuleError
from tombola.samplers.weighted import Rule, Scored, WeightedSampler
from tombola.state import Cell, cell
from tombola.torch import DeviceLoader, ImportanceLoader, ImportanceSampler, Numbered
from tombola.torch.loader.base import MOST_UNANSWERED

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),  # it forks
]

N = 70
DATA = TensorDataset(torch.arange(N))
COPY_LOSSES = "tombola.torch.loader.feedback.copy_losses"


def loss_of(items, number):
    """A loss that depends on the item, and on the batch."""
    return (1.0 + torch.tensor(items.tolist(), dtype=torch.float64)) * (1 + number % 3)


def play(loader, epochs=3, answered=lambda number: True):
    """Train; return the items of each batch."""
    drawn = []
    for _ in range(epochs):
        for (items,), draw in loader:
            assert items.tolist() == draw.indices.tolist()
            drawn.append(items.tolist())
            if answered(draw.number):
                loader.update(draw, loss_of(items, draw.number))
    return drawn


def oracle(plan, sizes, lag, seed=5):
    """The rule, spelt out: batch t knows what was given before batch t - lag was handed out.

    ``plan[t]`` are the batches answered between the hand-outs of t and t + 1.
    """
    sampler, draws, told = tombola.VRB(N, seed=seed), [], 0
    for t, size in enumerate(sizes):
        while told < t - lag:
            for number in sorted(plan[told]):
                losses = loss_of(draws[number].indices, number).numpy()
                sampler.update(draws[number], losses)
            told += 1
        draws.append(sampler.draw(size))
    return [draw.indices.tolist() for draw in draws]


SIZES = [16, 16, 16, 16, 6] * 3


# --- lag -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("workers", "lag"), [(0, 0), (0, 1), (0, 3), (1, 2), (2, 4)])
def test_batches_are_those_of_the_rule(workers, lag):
    loader = ImportanceLoader(DATA, 16, seed=5, lag=lag, num_workers=workers)
    plan = {t: [t] for t in range(len(SIZES))}
    assert play(loader) == oracle(plan, SIZES, lag)


def test_other_lags_give_other_draws():
    """Else the comparison with the rule would prove nothing."""
    plan = {t: [t] for t in range(len(SIZES))}
    draws = [str(oracle(plan, SIZES, lag)) for lag in range(5)]
    assert len(set(draws)) == 5


def test_the_number_of_workers_changes_nothing_at_the_same_lag():
    runs = [
        play(ImportanceLoader(DATA, 16, seed=5, lag=5, num_workers=workers, **options))
        for workers, options in [
            (0, {}),
            (1, {"prefetch_factor": 3}),
            (2, {}),
            (2, {"persistent_workers": True}),
        ]
    ]
    assert all(run == runs[0] for run in runs)


def test_batches_without_an_answer_are_not_missed():
    plan = {t: [t] if t % 3 else [] for t in range(len(SIZES))}
    for workers in (0, 2):
        loader = ImportanceLoader(DATA, 16, seed=5, lag=4, num_workers=workers)
        assert play(loader, answered=lambda t: t % 3) == oracle(plan, SIZES, 4)


@pytest.mark.parametrize("workers", [0, 2])
def test_late_feedback_counts_from_when_it_came(workers):
    """Answers come in fours, newest first, as after steps of accumulation."""
    plan = {t: list(range(t - 3, t + 1)) if t % 4 == 3 else [] for t in range(len(SIZES))}
    loader = ImportanceLoader(DATA, 16, seed=5, lag=4, num_workers=workers)
    drawn, kept = [], []
    for _ in range(3):
        for (items,), draw in loader:
            drawn.append(items.tolist())
            kept.append((draw, loss_of(items, draw.number)))
            if len(kept) == 4:
                while kept:
                    loader.update(*kept.pop())
    assert drawn == oracle(plan, SIZES, 4)


@pytest.mark.parametrize("lag", [2, 3])
def test_an_epoch_that_is_broken_off_leaves_the_same_draws_to_any_number_of_workers(lag):
    def run(workers):
        loader = ImportanceLoader(DATA, 16, seed=5, lag=lag, num_workers=workers)
        drawn = []
        for stop in (1, 3, 4, 100):
            for k, ((items,), draw) in enumerate(loader):
                drawn.append(items.tolist())
                loader.update(draw, loss_of(items, draw.number))
                if k == stop:
                    break
        return drawn

    first = run(0)
    assert [len(batch) for batch in first] == [16] * 2 + [16] * 4 + SIZES[:5] + SIZES[:5]
    assert run(1) == first


def test_the_default_lag_is_what_is_drawn_ahead_and_one_more():
    assert ImportanceLoader(DATA, 16).lag == 1
    assert ImportanceLoader(DATA, 16, num_workers=2).lag == 5
    assert ImportanceLoader(DATA, 16, num_workers=1, prefetch_factor=4).lag == 5


def test_a_lag_below_what_is_drawn_ahead_is_refused():
    with pytest.raises(ValueError, match="lag=3 is too small: the workers draw 4 batches"):
        ImportanceLoader(DATA, 16, num_workers=2, lag=3)


def test_workers_that_take_their_time_change_nothing_in_order():
    options = {"seed": 5, "lag": 4, "drop_last": True}
    plain = play(ImportanceLoader(DATA, 16, **options), epochs=1)
    assert play(ImportanceLoader(Uneven(), 16, num_workers=2, **options), epochs=1) == plain


class Uneven(Dataset):
    """The first worker is slow."""

    def __len__(self):
        return N

    def __getitem__(self, item):
        if get_worker_info().id == 0:
            time.sleep(0.006)
        return (torch.tensor(item),)


def test_out_of_order_batches_keep_their_draws():
    loader = ImportanceLoader(Uneven(), 8, seed=5, num_workers=2, in_order=False)
    numbers = []
    for (items,), draw in loader:
        assert items.tolist() == draw.indices.tolist()
        numbers.append(draw.number)
        loader.update(draw, loss_of(items, draw.number))
    assert sorted(numbers) == list(range(9))
    assert numbers != sorted(numbers)
    assert len(loader.unanswered) == 0


# --- data ------------------------------------------------------------------------------------


class Dicts(Dataset):
    def __len__(self):
        return N

    def __getitem__(self, item):
        return {"index": item, "x": np.full(3, item, dtype=np.float32), "name": str(item)}


class Bulk:
    """As datasets of Hugging Face: many items at once; no Dataset of torch."""

    def __len__(self):
        return N

    def __getitem__(self, item):
        raise AssertionError("items are fetched in bulk")

    def __getitems__(self, items):
        assert type(items) is list
        return [{"index": item, "length": 2 * item} for item in items]


class Doubled(TensorDataset):
    def __getitem__(self, item):
        return tuple(2 * t for t in super().__getitem__(item))


X = torch.arange(2.0 * N).reshape(N, 2)
KINDS = {
    "tensors": TensorDataset(X, torch.arange(N)),
    "subset": Subset(TensorDataset(torch.cat([X, X]), torch.arange(2 * N)), range(5, 5 + N)),
    "concat": ConcatDataset([TensorDataset(X[:30]), TensorDataset(X[30:])]),
    "dicts": Dicts(),
    "bulk": Bulk(),
    "subclass": Doubled(X),
    "list": [(float(k), k) for k in range(N)],
}


def equal(one, other):
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return type(one) is type(other) and all(map(equal, one, other))
    return one == other


@pytest.mark.parametrize("kind", KINDS)
def test_batches_are_collated_as_a_plain_loader_does_it(kind):
    loader = ImportanceLoader(KINDS[kind], 16, seed=5)
    batches = [(batch, draw.indices.tolist()) for batch, draw in loader]
    stock = DataLoader(KINDS[kind], batch_sampler=[items for _, items in batches])
    assert equal([batch for batch, _ in batches], list(stock))


def test_workers_collate_the_same():
    kinds = ConcatDataset([KINDS["tensors"], KINDS["tensors"]])
    for dataset in (KINDS["tensors"], kinds, KINDS["dicts"]):
        runs = [
            [batch for batch, _ in ImportanceLoader(dataset, 16, lag=2, num_workers=workers)]
            for workers in (0, 1)
        ]
        assert equal(*runs)


def test_a_collate_function_of_ones_own():
    def collate(items):
        return {"items": [int(item) for (item,) in items], "count": len(items)}

    for workers in (0, 1):
        for batch, draw in ImportanceLoader(DATA, 16, collate_fn=collate, num_workers=workers):
            assert batch == {"items": draw.indices.tolist(), "count": len(draw)}


def test_named_tuples_and_collate_of_torch():
    Pair = collections.namedtuple("Pair", "x y")
    data = [Pair(k, float(k)) for k in range(N)]
    batch, draw = next(iter(ImportanceLoader(data, 16, collate_fn=default_collate)))
    assert type(batch) is Pair
    assert batch.x.tolist() == draw.indices.tolist()


class Opened(Dataset):
    """Its workers open something first, through get_worker_info()."""

    source = None

    def __len__(self):
        return N

    def __getitem__(self, item):
        return self.source[item]


def open_source(worker):
    info = get_worker_info()
    assert type(info.dataset) is Opened
    info.dataset.source = [len(info.dataset) + item for item in range(N)]


def test_workers_find_the_dataset_as_usual():
    loader = ImportanceLoader(Opened(), 16, num_workers=1, worker_init_fn=open_source)
    for batch, draw in loader:
        assert batch.tolist() == (N + draw.indices).tolist()


def test_workers_that_are_spawned_get_the_dataset():
    loader = ImportanceLoader(DATA, 35, num_workers=1, multiprocessing_context="spawn", timeout=60)
    for (items,), draw in loader:
        assert items.tolist() == draw.indices.tolist()


def test_an_error_in_a_dataset_comes_through():
    with pytest.raises(RuntimeError, match="items are fetched"):
        next(iter(ImportanceLoader(Broken(), 4)))


class Broken(Dataset):
    def __len__(self):
        return N

    def __getitem__(self, item):
        raise RuntimeError("items are fetched here")


@pytest.mark.parametrize(
    ("drop_last", "sizes"), [(False, [16, 16, 16, 16, 6]), (True, [16, 16, 16, 16])]
)
def test_an_epoch_is_as_long_as_with_a_plain_loader(drop_last, sizes):
    loader = ImportanceLoader(DATA, 16, drop_last=drop_last)
    assert len(loader) == len(DataLoader(DATA, 16, drop_last=drop_last)) == len(sizes)
    loader.set_epoch(7)
    for _ in range(2):
        assert [len(draw) for _, draw in loader] == sizes


@pytest.mark.parametrize(
    ("kind", "options"),
    [(ImportanceLoader, {}), (ImportanceLoader, {"num_workers": 1}), (DeviceLoader, {})],
)
def test_an_epoch_without_a_batch_counts(kind, options):
    """Too few items for one; or for another one, after a resume with larger batches."""

    def make(batch_size):
        return kind(TensorDataset(torch.arange(20)), batch_size, drop_last=True, **options)

    loader = make(32)
    for epoch in range(3):
        assert loader.epoch == epoch
        assert list(loader) == []
    make(32).load_state_dict(loader.state_dict())
    loader, larger = make(4), make(8)
    batches = iter(loader)
    for _ in range(4):
        next(batches)
    state = loader.state_dict()
    waiting = len(state.get("waiting", []))  # with a worker, the last one was drawn ahead
    assert waiting == len(options)
    larger.load_state_dict(state)
    assert (larger.epoch, len(list(larger)), larger.epoch) == (0, waiting, 1)
    assert [len(draw) for _, draw in larger] == [8, 8]
    assert larger.epoch == 2


def test_shuffled_epochs_deal_every_item_once():
    for workers in (0, 2):
        loader = ImportanceLoader(DATA, 16, sampler="shuffle", num_workers=workers)
        for _ in range(2):
            epoch = [item for (items,), _ in loader for item in items.tolist()]
            assert sorted(epoch) == list(range(N))


def test_pinned_memory_is_asked_for_as_usual():
    with pytest.warns(UserWarning, match="pin_memory"):  # no accelerator here
        batches = [draw for _, draw in ImportanceLoader(DATA, 16, pin_memory=True)]
    assert len(batches) == 5


# --- samplers --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "groups", "kind"),
    [
        ("vrb", None, tombola.VRB),
        ("vrb", True, tombola.VRB),
        ("group-vrb", True, tombola.GroupVRB),
        ("auto", True, tombola.GroupVRB),
        ("auto", None, tombola.VRB),
        ("shuffle", None, tombola.Shuffle),
        ("uniform", True, tombola.Uniform),
        ("balanced", True, tombola.Static),
        (lambda n, seed, groups: tombola.Avare(n, seed=seed), None, tombola.Avare),
    ],
)
def test_samplers_by_name(choice, groups, kind):
    labels = torch.arange(N) % 2 if groups else None
    loader = ImportanceLoader(DATA, 16, choice, groups=labels, seed=9)
    assert type(loader.sampler) is kind
    assert loader.sampler.parameters["seed"] == 9
    assert len(play(loader, epochs=1)) == 5


@pytest.mark.parametrize("groups", [None, torch.arange(N) % 2])
def test_the_default_sampler_is_auto(groups):
    kind = tombola.VRB if groups is None else tombola.GroupVRB
    assert type(ImportanceLoader(DATA, 16, groups=groups).sampler) is kind
    assert type(ImportanceSampler(N, 16, groups=groups).sampler) is kind


def test_the_quantity_is_put_on_the_samplers():
    assert ImportanceLoader(DATA, 16).sampler.quantity == "loss"
    for made in (
        ImportanceLoader(DATA, 16, quantity="gradient norm"),
        ImportanceLoader(DATA, 16, tombola.VRB(N), quantity="gradient norm"),
        ImportanceLoader(DATA, 16, quantity="gradient norm", distributed="sharded", shards=3),
        ImportanceSampler(N, 16, quantity="gradient norm"),
    ):
        assert {sampler.quantity for sampler in made.samplers} == {"gradient norm"}
        assert made.sampler.gauge.quantity == "gradient norm"
    own = tombola.VRB(N)
    own.quantity = "gradient norm"
    assert ImportanceLoader(DATA, 16, own).sampler.quantity == "gradient norm"
    with pytest.raises(TypeError, match="quantity must be a string, got 3"):
        ImportanceLoader(DATA, 16, quantity=3)


def test_a_sampler_of_ones_own_is_used_itself():
    sampler = tombola.SRG(N, seed=2)
    loader = ImportanceLoader(DATA, 16, sampler)
    play(loader)
    assert loader.sampler is sampler
    assert sampler.gauge.count == 3 * N - 6 - 16  # all but what is not due yet


def test_it_adapts_within_the_first_epoch():
    labels = (torch.arange(2000) < 40).long()
    loader = ImportanceLoader(TensorDataset(labels), 20, groups=labels)
    rare = []
    for (y,), draw in loader:
        rare.append(int(y.sum()))
        loader.update(draw, torch.where(y == 1, 2.0, 0.05))
    assert sum(rare[-50:]) > 5 * 50 * 20 * 0.02  # 2% of the items


def test_estimates_are_unbiased_while_it_adapts():
    """Over many seeds, the mean of all estimates is within 6 of its standard errors."""
    values = torch.linspace(0.1, 3.0, 40) ** 3
    means = []
    for seed in range(300):
        loader = ImportanceLoader(TensorDataset(values), 8, seed=seed, lag=0)
        estimates = []
        for _ in range(2):
            for (x,), draw in loader:
                estimates.append(float(draw.mean(x)))
                loader.update(draw, x)
        means.append(np.mean(estimates))
    error = np.std(means) / np.sqrt(len(means))
    assert abs(np.mean(means) - float(values.mean())) < 6 * error
    assert abs(np.mean(means) * 1.1 - float(values.mean())) > 6 * error  # it would be noticed


def test_global_generators_are_left_alone_by_draws():
    loader = ImportanceLoader(DATA, 16, generator=torch.Generator())
    torch.manual_seed(0)
    before = torch.get_rng_state(), str(np.random.get_state())
    play(loader)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert str(np.random.get_state()) == before[1]


# --- feedback --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "convert",
    [
        lambda losses: losses.float(),
        lambda losses: losses.half(),
        lambda losses: losses.bfloat16(),
        lambda losses: losses.int(),
        lambda losses: losses.numpy(),
        lambda losses: losses.tolist(),
        lambda losses: losses.clone().requires_grad_() * 1.0,
    ],
)
def test_feedback_of_any_kind(convert):
    loader = ImportanceLoader(DATA, 16, seed=5, lag=1)
    for (items,), draw in loader:
        loader.update(draw, convert(loss_of(items, 0)))
    assert loader.sampler.gauge.count == 48


def test_losses_are_copied_at_once():
    runs = []
    for spoil in (False, True):
        loader = ImportanceLoader(DATA, 16, seed=5, lag=3)
        drawn = []
        for _ in range(3):
            for (items,), draw in loader:
                drawn.append(items.tolist())
                losses = loss_of(items, 0)
                loader.update(draw, losses)
                if spoil:
                    losses.zero_()
        runs.append(drawn)
    assert runs[0] == runs[1]


def test_feedback_for_a_part():
    loader = ImportanceLoader(DATA, 16, seed=5, lag=0)
    for (items,), draw in loader:
        mask = items % 2 == 0
        loader.update(draw[mask], loss_of(items, 0)[mask])
    assert 0 < loader.sampler.gauge.count < 64


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_bad_losses_name_batch_item_and_value(value):
    loader = ImportanceLoader(DATA, 16, seed=5)
    batches = iter(loader)
    next(batches)
    (items,), draw = next(batches)
    losses = loss_of(items, 0)
    losses[3] = value
    with pytest.raises(ValueError, match=rf"losses\[3\] of batch 1 is {value} \(item {items[3]}\)"):
        loader.update(draw, losses)
    loader.update(draw, loss_of(items, 0))  # nothing has changed


def test_losses_of_a_device_are_checked_when_they_are_due(monkeypatch):
    """Stands in for CUDA: losses that arrive later. The good ones are not lost."""
    monkeypatch.setattr(COPY_LOSSES, lambda draw, losses, skip: losses.numpy)
    loader = ImportanceLoader(DATA, 16, seed=5, lag=0)
    batches = iter(loader)
    draws = [next(batches)[1] for _ in range(3)]
    for draw in draws:
        losses = loss_of(draw.indices, 0)
        losses[0] = float("nan") if draw.number == 1 else losses[0]
        loader.update(draw, losses)
    with pytest.raises(ValueError, match=r"losses\[0\] of batch 1 is nan"):
        next(batches)
    assert loader.sampler.gauge.count == 0
    (_, draw), *rest = list(loader)  # which continues the epoch
    assert loader.sampler.gauge.count == 32
    assert [draw.number, *(later.number for _, later in rest)] == [3, 4]
    assert loader.epoch == 1


@pytest.mark.parametrize(("workers", "persist"), [(0, False), (2, False), (2, True)])
def test_after_a_bad_loss_the_epoch_goes_on_as_if_it_had_not_been_fed(
    workers, persist, monkeypatch
):
    monkeypatch.setattr(COPY_LOSSES, lambda draw, losses, skip: losses.numpy)

    def lived(bad, **options):
        loader, drawn, errors = ImportanceLoader(DATA, 16, lag=4, **options), [], []
        while loader.epoch < 3:
            try:
                for (items,), draw in loader:
                    drawn.append((draw.number, items.tolist()))
                    losses = loss_of(items, 0)
                    if draw.number == 2:
                        losses[0] = float("nan")
                    if draw.number != 2 or bad:
                        loader.update(draw, losses)
            except ValueError as error:
                errors.append(str(error))
        return drawn, errors

    drawn, (error,) = lived(True, num_workers=workers, persistent_workers=persist)
    assert "A new iteration continues this epoch" in error
    assert drawn == lived(False)[0]


@pytest.mark.parametrize("late", [False, True])
def test_losses_that_are_not_finite_are_left_out_if_asked(late, monkeypatch):
    if late:
        monkeypatch.setattr(COPY_LOSSES, lambda draw, losses, skip: losses.numpy)
    loader = ImportanceLoader(DATA, 16, seed=5, lag=0)
    for (items,), draw in loader:
        losses = loss_of(items, 0)
        losses[:2] = torch.tensor([float("nan"), float("inf")])
        if draw.number == 2:
            losses[:] = float("inf")
        loader.update(draw, losses, skip_nonfinite=True)
    assert loader.skipped == 2 + 2 + 16 + 2  # the last batch is not due yet
    assert loader.sampler.gauge.count == 4 * 16 - loader.skipped


def test_negative_losses_are_refused_all_the_same():
    loader = ImportanceLoader(DATA, 3, seed=5, lag=0)
    _, draw = next(iter(loader))
    losses = torch.tensor([float("nan"), -float("inf"), -1.0])
    with pytest.raises(ValueError, match=r"losses\[2\] of batch 0 is -1.0"):
        loader.update(draw, losses, skip_nonfinite=True)


def test_losses_on_another_device_are_copied_too():
    """Stands in for devices without pinned copies."""
    from tombola.torch.loader.feedback import _copy_from_device

    losses = torch.ones(3)
    copied = _copy_from_device(losses)
    losses.zero_()
    assert copied().tolist() == [1.0, 1.0, 1.0]


def test_a_loader_with_losses_on_their_way_is_pickled(monkeypatch):
    monkeypatch.setattr(
        COPY_LOSSES, lambda draw, losses, skip: lambda: losses.to(torch.float64).numpy()
    )
    loader = ImportanceLoader(DATA, 16, seed=5, lag=0)
    batches = iter(loader)
    draws = [next(batches)[1] for _ in range(3)]
    for draw in draws:
        loader.update(draw, loss_of(draw.indices, 0))
    copied = pickle.loads(pickle.dumps(loader))
    assert [draw.indices.tolist() for _, draw in copied] == [
        draw.indices.tolist() for _, draw in pickle.loads(pickle.dumps(loader))
    ]
    losses = torch.full((16,), float("nan"))
    loader.update(draws[0], losses)
    copied = pickle.loads(pickle.dumps(loader))
    for one in (loader, copied):  # the copy checks them when they are due, too
        with pytest.raises(ValueError, match=r"losses\[0\] of batch 0 is nan"):
            one.state_dict()
        assert [given["number"] for given in one.state_dict()["given"]] == [0, 1, 2]


def test_wrong_feedback_is_refused():
    loader = ImportanceLoader(DATA, 16)
    _, draw = next(iter(loader))
    for losses, error, message in [
        (torch.tensor(1.0), ValueError, "use reduction='none'"),
        (torch.ones(15), ValueError, r"each of the 16 items drawn, got shape \(15,\)"),
        (torch.ones(16, 1), ValueError, r"got shape \(16, 1\)"),
        (torch.ones(16, dtype=torch.complex64), TypeError, "numbers, got dtype torch.complex64"),
        (["a"] * 16, TypeError, "losses must hold numbers"),
    ]:
        with pytest.raises(error, match=message):
            loader.update(draw, losses)
    with pytest.raises(TypeError, match="draw must be the draw of a batch, got list"):
        loader.update([1, 2], torch.ones(2))
    other = ImportanceLoader(TensorDataset(torch.arange(50)), 16)
    with pytest.raises(ValueError, match="the draw is over 70 items, this is over 50"):
        other.update(draw, torch.ones(16))


def test_unanswered_batches_are_listed_and_forgotten_in_the_end():
    loader = ImportanceLoader(DATA, 1)
    for _ in range(5):
        for k, (_, draw) in enumerate(loader):
            if k == 2:
                loader.update(draw, torch.ones(1))
    numbers = [draw.number for draw in loader.unanswered]
    assert len(numbers) == MOST_UNANSWERED
    assert numbers[-1] == 5 * N - 1
    assert 4 * N + 2 not in numbers


# --- refusals --------------------------------------------------------------------------------


class Endless(IterableDataset):
    def __iter__(self):
        return iter(range(10))


def test_what_cannot_work_is_refused_with_the_reason():
    with pytest.raises(TypeError, match="Endless hands out items in its own order"):
        ImportanceLoader(Endless(), 16)
    with pytest.raises(TypeError, match="generator hands out items in its own order"):
        ImportanceLoader((k for k in range(3)), 16)
    with pytest.raises(TypeError, match=r"Unsized has no len\(\)"):
        ImportanceLoader(Unsized(), 16)
    with pytest.raises(TypeError, match="shuffle cannot be given: the sampler decides"):
        ImportanceLoader(DATA, 16, shuffle=True)
    with pytest.raises(TypeError, match="batch_sampler cannot be given: batches are drawn here"):
        ImportanceLoader(DATA, batch_sampler=[[1]])
    with pytest.raises(TypeError, match=r"sampler must be a name.*got a WeightedRandomSampler"):
        ImportanceLoader(DATA, 16, WeightedRandomSampler([1.0] * N, N))
    with pytest.raises(ValueError, match="sampler='best' is not a sampler; the names are"):
        ImportanceLoader(DATA, 16, "best")
    with pytest.raises(ValueError, match="sampler='group-vrb' needs class labels"):
        ImportanceLoader(DATA, 16, "group-vrb")
    with pytest.raises(ValueError, match="over 5 items, the dataset has 70 items"):
        ImportanceLoader(DATA, 16, tombola.VRB(5))
    with pytest.raises(ValueError, match="groups has 3 labels for 70 items"):
        ImportanceLoader(DATA, 16, groups=[1, 2, 3])
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        ImportanceLoader(DATA, 0)
    with pytest.raises(TypeError, match="batch_size must be an integer, got None"):
        ImportanceLoader(DATA, None)
    with pytest.raises(TypeError, match="unexpected keyword argument 'wrokers'"):
        ImportanceLoader(DATA, 16, wrokers=2)
    for name in ("wrokers", "num_workers", "ahead"):
        with pytest.raises(TypeError, match=f"keyword argument '{name}'"):
            ImportanceSampler(N, 16, **{name: 2})
    with pytest.raises(ValueError, match="num_workers option should be non-negative"):
        ImportanceLoader(DATA, 16, num_workers=-1)


class Unsized:
    def __getitem__(self, item):
        return item


# --- as the DataLoader that it replaces ------------------------------------------------------


class Fails(Dataset):
    """Some items cannot be read."""

    def __init__(self, bad):
        self.bad = bad

    def __len__(self):
        return N

    def __getitem__(self, item):
        if item in self.bad:
            raise KeyError(f"item {item}")
        return (torch.tensor(item),)


def outcomes(loader, batches):
    """The items of each batch, or whether its error is of a worker, until the iterator ends."""
    seen = []
    while True:
        try:
            (items,), draw = next(batches)
            seen.append(items.tolist())
            loader.update(draw, loss_of(items, draw.number))
        except StopIteration:
            return seen
        except KeyError as error:
            seen.append("in DataLoader worker process" in str(error))


@pytest.mark.parametrize(("workers", "options"), [(0, {}), (2, {}), (2, {"in_order": False})])
def test_an_iterator_goes_on_after_an_error_of_the_dataset(workers, options):
    loader = ImportanceLoader(Fails({5, 6}), 8, seed=5, lag=4, num_workers=workers, **options)
    seen = outcomes(loader, iter(loader))
    failed = [items for items in seen if isinstance(items, bool)]
    assert len(seen) == len(loader) == 9
    assert 0 < len(failed) < 9
    assert set(failed) == {workers > 0}
    assert loader.epoch == 1
    assert loader.unanswered == []
    state = loader.state_dict()
    assert state["position"]["drawn"] == state["position"]["handed"] == 9
    loader.load_state_dict(state)


def test_batches_that_fail_change_nothing_for_other_numbers_of_workers():
    runs = []
    for workers in (0, 1, 2):
        loader = ImportanceLoader(Fails({5, 6}), 8, seed=5, lag=4, num_workers=workers)
        kept = [outcomes(loader, iter(loader)) for _ in range(2)]
        runs.append([[items for items in epoch if isinstance(items, list)] for epoch in kept])
    assert runs[0] == runs[1] == runs[2]


def test_a_run_resumes_after_a_batch_that_failed():
    def run(stop):
        loader = ImportanceLoader(Fails({5, 6}), 8, seed=5, lag=2)
        batches, seen = iter(loader), []
        while len(seen) < 9:
            if len(seen) == stop:
                other = ImportanceLoader(Fails({5, 6}), 8, seed=5, lag=2)
                other.load_state_dict(loader.state_dict())
                loader, batches = other, iter(other)
            try:
                (items,), draw = next(batches)
                seen.append(items.tolist())
                loader.update(draw, loss_of(items, draw.number))
            except KeyError:
                seen.append(None)
        return seen

    whole = run(None)
    assert None in whole[:-1]
    for stop in range(1, 9):
        assert run(stop) == whole


@pytest.mark.parametrize(("workers", "lag"), [(0, 0), (0, 3), (2, 4), (2, 5)])
def test_two_iterations_take_turns(workers, lag):
    """Each has an epoch of its own; every draw is another, and feedback for all of them counts."""
    loader = ImportanceLoader(DATA, 16, seed=5, lag=lag, num_workers=workers)
    seen, numbers = ([], []), []
    for pair in zip(loader, loader, strict=True):
        for k, ((items,), draw) in enumerate(pair):
            assert items.tolist() == draw.indices.tolist()
            seen[k].append(len(draw))
            numbers.append(draw.number)
            loader.update(draw, loss_of(items, draw.number))
    assert seen[0] == seen[1] == SIZES[:5]
    assert len(set(numbers)) == 10
    assert loader.epoch == 2
    assert loader.unanswered == []
    state = loader.state_dict()
    assert sum(len(given["losses"]) for given in state["given"]) + loader.sampler.gauge.count == 140
    assert len(play(loader, epochs=1)) == 5


def test_an_iteration_that_is_abandoned_may_go_on():
    """It draws from the one sampler, after what was drawn when it was abandoned."""
    runs = []
    for goes_on in (False, True):
        loader = ImportanceLoader(DATA, 16, seed=5, lag=2)
        first = iter(loader)
        next(first)
        runs.append(play(loader, epochs=1))
        if goes_on:
            assert [draw.number for _, draw in first] == [1, 2, 8, 9]
            runs.append(play(loader, epochs=1))
    assert runs[0] == runs[1]


def test_a_state_holds_one_iteration():
    """While two take turns, it would lose the progress of one."""
    loader, other = (ImportanceLoader(DATA, 16, seed=5, lag=2) for _ in range(2))
    first, second = iter(loader), iter(loader)
    assert [draw.number for _, draw in (next(first), next(second))] == [0, 3]
    other.load_state_dict(loader.state_dict())  # the first one was abandoned
    assert [draw.indices.tolist() for _, draw in other] == [
        draw.indices.tolist() for _, draw in second
    ]
    third = iter(loader)
    next(third)
    next(first)
    with pytest.raises(RuntimeError, match="two iterations take turns"):
        loader.state_dict()
    for _ in third:
        pass
    other.load_state_dict(loader.state_dict())
    assert play(other, epochs=1) == play(loader, epochs=1)


def test_workers_that_persist_serve_one_iteration_at_a_time():
    loader = ImportanceLoader(DATA, 16, num_workers=1, persistent_workers=True)
    first = iter(loader)
    next(first)
    second = iter(loader)
    next(second)
    with pytest.raises(RuntimeError, match="persistent workers serve a newer one"):
        next(first)
    assert len(list(second)) == 4


def test_workers_end_with_the_iterator():
    batches = iter(ImportanceLoader(DATA, 16, num_workers=1))
    next(batches)
    workers = batches._coming._workers
    del batches
    for worker in workers:
        worker.join(60)
        assert not worker.is_alive()


def test_what_was_given_to_the_constructor_cannot_be_set_later():
    """The same error as that of a DataLoader."""
    loader, plain = ImportanceLoader(DATA, 16), DataLoader(DATA, 16)
    for name in ("batch_size", "batch_sampler", "dataset", "drop_last", "sampler"):
        for one in (loader, plain):
            with pytest.raises(ValueError, match=f"^{name} attribute should not be set after"):
                setattr(one, name, None)
    with pytest.raises(ValueError, match="lag attribute should not be set after ImportanceSampler"):
        ImportanceSampler(N, 16).lag = 3
    names = {
        name
        for kind in (ImportanceLoader, ImportanceSampler, DeviceLoader, DataLoader)
        for name, one in inspect.signature(kind).parameters.items()
        if one.kind != one.VAR_KEYWORD
    }
    assert {"collate_fn", "pin_memory", "seed", "share", "quantity"} < names
    for name in names:
        with pytest.raises(ValueError, match=f"^{name} attribute should not be set after"):
            setattr(loader, name, None)


def test_a_dataset_that_has_changed_its_length_is_noticed():
    items = list(range(N))
    loader = ImportanceLoader(items, 16)
    list(loader)
    items.append(N)
    for ask in (iter, len):
        with pytest.raises(RuntimeError, match="has 71 items now, 70 when the loader was made"):
            ask(loader)
    items.pop()
    assert len(list(loader)) == 5


@pytest.mark.parametrize("workers", [0, 1])
def test_a_state_loaded_in_the_midst_of_an_iteration_ends_it(workers):
    """The numbers of its batches may be those of other draws."""

    def begun(scale):
        loader = ImportanceLoader(DATA, 10, lag=2, num_workers=workers)
        for _ in range(3):
            for (items,), draw in loader:
                loader.update(draw, (1.0 + items) ** scale)
        batches = iter(loader)
        for _ in range(2):
            (items,), draw = next(batches)
            loader.update(draw, (1.0 + items) ** scale)
        return loader, batches

    other, _ = begun(3)
    loader, batches = begun(0)
    loader.load_state_dict(other.state_dict())
    with pytest.raises(RuntimeError, match="iteration has ended: a state was loaded"):
        next(batches)
    assert next(iter(loader))[1].number == 23


def test_a_loader_that_fails_at_once_leaves_no_leave_to_draw():
    class Failing:
        def __iter__(self):
            raise OSError("no data")

    sampler = ImportanceSampler(N, 16)
    with pytest.raises(OSError, match="no data"):
        next(sampler.batches(Failing()))
    with pytest.raises(RuntimeError, match="batches are asked for without their draws"):
        next(iter(sampler))


class Misspelt(Scored):
    """A rule that numba cannot compile."""

    rule: Cell[Rule]

    def absorb(self, item, probability, loss):
        self.scores[item] = los  # noqa: F821  # the line

    def value(self, item):
        return 1.0 + self.scores[item]


class Own(WeightedSampler):
    def __init__(self, n, seed=0):
        super().__init__(n, seed, {})
        self._begin(Misspelt, rule=cell(Rule(mixing=0.1)), scores=np.zeros(n), stale=False)


def test_a_rule_that_does_not_compile_is_an_error_of_the_loader_too():
    """With the line of the user, whatever the loader has put around the rule."""
    lines, first = inspect.getsourcelines(Misspelt.absorb)
    where = first + next(k for k, line in enumerate(lines) if "the line" in line)
    loader = ImportanceLoader(DATA, 16, Own(N), lag=0)
    with pytest.raises(RuleError, match=r"Misspelt.absorb cannot be compiled: .*'los'") as told:
        play(loader)
    assert f'File "{__file__}", line {where}: ' in str(told.value)


# --- the bare sampler ------------------------------------------------------------------------


def own_loader(sampler, dataset=DATA, **options):
    numbered = Numbered(dataset)
    return DataLoader(numbered, batch_sampler=sampler, collate_fn=numbered.collate, **options)


@pytest.mark.parametrize("workers", [0, 2])
def test_the_bare_sampler_draws_what_the_loader_draws(workers):
    sampler = ImportanceSampler(N, 16, seed=5, lag=4)
    loader = own_loader(sampler, num_workers=workers)
    drawn = []
    for _ in range(2):
        for (items,), draw in sampler.batches(loader):
            drawn.append(items.tolist())
            sampler.update(draw, loss_of(items, draw.number))
    assert drawn == play(ImportanceLoader(DATA, 16, seed=5, lag=4), epochs=2)
    assert len(loader) == len(sampler) == 5


def test_something_that_draws_further_ahead_than_the_lag_is_told():
    sampler = ImportanceSampler(N, 16, lag=1)

    class Ahead:
        """As a loader with workers, which would take long to end after the error."""

        batch_sampler = sampler

        def __iter__(self):
            return iter(list(sampler))

    with pytest.raises(RuntimeError, match="batch 2 is asked for while only 0 batches") as told:
        next(sampler.batches(Ahead()))
    assert "Declare a larger lag, 2 or more" in str(told.value)


@pytest.mark.parametrize("lag", [1, 100])
def test_batches_that_are_not_paired_with_their_draws_are_refused(lag):
    """As when a framework iterates over the loader itself, or draws an epoch in advance."""
    sampler = ImportanceSampler(N, 16, lag=lag)
    for iterate in (
        lambda: list(sampler),
        lambda: next(iter(own_loader(sampler))),
        lambda: next(iter(DataLoader(DATA, sampler=sampler, batch_size=2))),
    ):
        with pytest.raises(RuntimeError, match=r"iterate over sampler.batches\(loader\)"):
            iterate()
    for _, draw in sampler.batches(own_loader(sampler)):  # nothing has changed
        sampler.update(draw, torch.ones(len(draw)))
    with pytest.raises(RuntimeError, match="needs an ImportanceLoader"):
        list(sampler)


def test_a_sampler_that_was_wrapped_or_replaced_is_refused():
    sampler = ImportanceSampler(N, 16)
    with pytest.raises(TypeError, match="the loader draws by a list, not by this sampler"):
        sampler.batches(own_loader(list(range(5))))
    with pytest.raises(TypeError, match="n is a RandomSampler: a framework tries to draw"):
        ImportanceSampler(RandomSampler(DATA), batch_size=16, drop_last=False)
    with pytest.raises(TypeError, match="n must be an integer, got None"):
        ImportanceSampler(None)
    loader = ImportanceLoader(DATA, 16)
    assert not hasattr(loader, "batch_sampler")
    with pytest.raises(AttributeError, match="ImportanceLoader has no batch_sampler"):
        loader.batch_sampler  # noqa: B018


def test_a_loader_without_numbers_is_refused():
    sampler = ImportanceSampler(N, 16)
    with pytest.raises(TypeError, match="the batches of the loader have no number"):
        next(sampler.batches(DataLoader(DATA, batch_sampler=sampler)))
    with pytest.raises(TypeError, match="not a batch of an ImportanceSampler"):
        next(iter(own_loader([[0, 1]])))
    loader = own_loader(sampler)
    batches = sampler.batches(loader)
    next(batches)
    with pytest.raises(RuntimeError, match="batch 0 is not waiting"):
        sampler._batches.hand_out(sampler._batches.current, 0)


# --- seeing it work --------------------------------------------------------------------------


def test_most_drawn_counts_all_draws():
    loader = ImportanceLoader(DATA, 16, seed=5)
    drawn = collections.Counter(item for batch in play(loader) for item in batch)
    most = loader.most_drawn(5)
    assert [count for _, count in most] == [count for _, count in drawn.most_common(5)]
    assert all(drawn[item] == count for item, count in most)
    assert sum(count for _, count in loader.most_drawn(N)) == 3 * N


def test_the_gauge_says_that_there_is_no_feedback_yet():
    loader = ImportanceLoader(DATA, 16, lag=0)
    batches = iter(loader)
    _, draw = next(batches)
    assert repr(loader.sampler.gauge).startswith("Gauge(no feedback yet, ")
    loader.update(draw, torch.ones(16))
    next(batches)
    assert "no feedback" not in repr(loader.sampler.gauge)


def test_the_share_of_time_is_a_share():
    loader = ImportanceLoader(DATA, 16)
    assert loader.time_share == 0.0
    play(loader, epochs=1)
    assert 0.0 < loader.time_share < 1.0
