"""The cost of the loader: a training step with it, over the same step with plain shuffling.

    python benchmarks/torch_loader.py              # about two minutes
    python benchmarks/torch_loader.py --quick      # does it run? its figures mean nothing

A step is loading, forward, mean of the losses, backward, SGD; with ours also draw, importances
and feedback. 60,000 items of 784 numbers, one in fifty of a rare class so that draws adapt (what a
sampler does at the end is printed), batches of 128. Loaders take turns in one process, some steps
each; a ratio is the median over the turns of ratios within a turn, with its quartiles.

Three kinds of data: a `TensorDataset`, which ours reads in bulk and a plain `DataLoader` item by
item (so there is also one that shuffles and reads in bulk, the most that can be asked of plain
shuffling); a dataset without `__getitems__`, read item by item by all, as most are; and the same
with two workers. "draws and feedback alone": the time of steps that load and train nothing, so that
its ratio is the share of a training step that tombola takes. Then loading alone, without training.
"""

import argparse
import itertools
import time
import warnings

import numpy as np
import timing
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, TensorDataset

from tombola.torch import ImportanceLoader, ImportanceSampler
from tombola.torch.loader.dataset import NumberedBatch

ITEMS, BATCH = 60_000, 128


class ItemByItem(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, item):
        return self.x[item], self.y[item]


class Numbers:
    """Loads nothing, so that only draws and feedback remain."""

    def __init__(self, sampler):
        self.batch_sampler = sampler

    def __iter__(self):
        return (NumberedBatch(indices.number, None) for indices in self.batch_sampler)


def plain(dataset, workers):
    """Plain shuffling: a function that returns the next batch."""
    options = {"num_workers": workers, "persistent_workers": workers > 0}
    batches = endless(DataLoader(dataset, BATCH, shuffle=True, drop_last=True, **options))
    return lambda: next(batches)


def in_bulk(dataset):
    """Plain shuffling of a TensorDataset, whose rows are taken by one index."""
    sampler = BatchSampler(RandomSampler(dataset), BATCH, drop_last=True)
    batches = endless(DataLoader(dataset, sampler=sampler, batch_size=None))
    return lambda: next(batches)


def endless(loader):
    while True:
        yield from loader


def plain_step(take, train):
    """A function that makes one step with plain shuffling, and no loader of ours."""

    def step():
        x, y = take()
        train(cross_entropy(train.model(x), y))

    return step, None


def our_step(loader, train):
    """The same with our loader, which is returned too."""
    batches = endless(loader)

    def step():
        (x, y), draw = next(batches)
        losses = cross_entropy(train.model(x), y, reduction="none")
        train(draw.mean(losses))
        loader.update(draw, losses)

    return step, loader


def alone(**options):
    """Draw, mean and feedback of given losses."""
    sampler = ImportanceSampler(ITEMS, BATCH, drop_last=True, **options)
    batches = itertools.chain.from_iterable(
        sampler.batches(Numbers(sampler)) for _ in itertools.count()
    )
    values = torch.randn(ITEMS).mul(1.5).exp()

    def step():
        _, draw = next(batches)
        losses = values[draw.indices]
        draw.mean(losses)
        sampler.update(draw, losses)

    return step, sampler


class Training:
    """The MLP and its optimiser; all loaders train the same one."""

    def __init__(self):
        torch.manual_seed(0)
        self.model = nn.Sequential(
            nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def __call__(self, loss):
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


def training(data, dataset, labels, workers):
    """The steps to be compared, by name, each with its loader if it is ours."""
    options = {"drop_last": True, "num_workers": workers, "persistent_workers": workers > 0}
    train = Training()
    steps = {"shuffled": plain_step(plain(dataset, workers), train)}
    if data == "TensorDataset":
        steps["shuffled in bulk"] = plain_step(in_bulk(dataset), train)
    ours = {"VRB": {}, "GroupVRB": {"groups": labels}, "tombola's shuffle": {"sampler": "shuffle"}}
    for name, choice in ours.items():
        loader = ImportanceLoader(dataset, BATCH, **choice, **options)
        steps[name] = our_step(loader, train)
    if not workers:
        steps["VRB, draws and feedback alone"] = alone()
        steps["GroupVRB, draws and feedback alone"] = alone(groups=labels)
    return steps


def loading(dataset, labels):
    """The same without training: batches are taken, ours with their draws, and dropped."""
    steps = {"shuffled": (plain(dataset, 0), None)}
    if isinstance(dataset, TensorDataset):
        steps["shuffled in bulk"] = in_bulk(dataset), None
    for name, choice in {"VRB": {}, "GroupVRB": {"groups": labels}}.items():
        loader = ImportanceLoader(dataset, BATCH, drop_last=True, **choice)
        steps[name] = answered(loader)
    return steps


def answered(loader):
    batches, values = endless(loader), torch.randn(ITEMS).mul(1.5).exp()

    def step():
        _, draw = next(batches)
        loader.update(draw, values[draw.indices])

    return step, loader


def compare(what, data, steps, turns, size):
    """Time all in turns; return rows with the ratio of each to plain shuffling."""
    took = {name: [] for name in steps}
    for turn, (name, (step, _)) in itertools.product(range(turns + 1), steps.items()):
        start = time.perf_counter()
        for _ in range(size):
            step()
        if turn:  # the first one compiles
            took[name].append((time.perf_counter() - start) / size * 1e6)
    rows, base = [], np.array(took["shuffled"])
    for name, times in took.items():
        low, ratio, high = np.quantile(np.array(times) / base, [0.25, 0.5, 0.75])
        rows.append({
            "what": what, "data": data, "loader": name,
            "mode": steps[name][1].sampler.mode if steps[name][1] else "",
            "version": timing.version("tombola"), "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "microseconds": round(float(np.median(times)), 1), "ratio": round(ratio, 4),
            "quartile_1": round(low, 4), "quartile_3": round(high, 4),
        })  # fmt: skip
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few steps, and no rows are kept")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    warnings.filterwarnings("ignore", "This DataLoader will create")  # more workers than cores
    turns, size = (2, 3) if options.quick else (100, 10)
    torch.manual_seed(0)
    y = torch.where(torch.arange(ITEMS) % 50 == 0, torch.randint(1, 10, (ITEMS,)), 0)
    x = torch.randn(ITEMS, 784) + 0.1 * y[:, None]
    kinds = {
        "TensorDataset": (TensorDataset(x, y), 0),
        "item by item": (ItemByItem(x, y), 0),
        "item by item, 2 workers": (ItemByItem(x, y), 2),
    }
    rows = []
    for data, (dataset, workers) in kinds.items():
        rows += compare("step", data, training(data, dataset, y, workers), turns, size)
        if not workers:
            rows += compare("loading", data, loading(dataset, y), turns, size)
    timing.table(
        ["what", "data", "loader", "mode", "microseconds", "over shuffled", "quartiles"],
        [[row["what"], row["data"], row["loader"], row["mode"], f"{row['microseconds']:,.0f}",
          f"{row['ratio']:.3f}", f"{row['quartile_1']:.3f} to {row['quartile_3']:.3f}"]
         for row in rows],
    )  # fmt: skip
    if not options.quick:
        timing.append("torch_loader", rows)


if __name__ == "__main__":
    main()
