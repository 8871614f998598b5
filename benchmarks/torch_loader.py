"""What the loader costs: a training step with it, over the same step with plain shuffling.

    python benchmarks/torch_loader.py              # about three minutes
    python benchmarks/torch_loader.py --quick      # does it run? its figures mean nothing

A step is loading, forward, mean of the losses, backward, SGD; with ours also draw, importances
and feedback. Loaders take turns in one process, some steps each; a ratio is the median over the
turns of ratios within a turn, with its quartiles. Two kinds of data, 784 numbers an item, batches
of 128: a `TensorDataset`, which ours reads in bulk, and a dataset that is read item by item, as
most are, where the difference is draws and feedback alone. "without data": the time of draws,
importances and feedback, from steps that load and train nothing, over a step of plain shuffling.
"""

import argparse
import itertools
import time

import numpy as np
import timing
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset, TensorDataset

from tombola.torch import ImportanceLoader, ImportanceSampler
from tombola.torch.desk import NumberedBatch

BATCH, ITEMS = 128, 20_000


class ItemByItem(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, item):
        return self.x[item], self.y[item]


class Alone:
    """Loads nothing: what remains is draws and feedback."""

    def __init__(self, **options):
        self.sampler = ImportanceSampler(ITEMS, BATCH, **options)
        self.update = self.sampler.update

    def __iter__(self):
        lists = _Numbers(self.sampler)
        return self.sampler.batches(lists)


class _Numbers:
    def __init__(self, sampler):
        self.batch_sampler = sampler

    def __iter__(self):
        return (NumberedBatch(indices.number, None) for indices in self.batch_sampler)


def endless(loader):
    while True:
        yield from loader


def make_loaders(dataset, labels):
    return {
        "shuffled": DataLoader(dataset, BATCH, shuffle=True, drop_last=True),
        "VRB": ImportanceLoader(dataset, BATCH, drop_last=True),
        "GroupVRB": ImportanceLoader(dataset, BATCH, groups=labels, drop_last=True),
        "shuffled by tombola": ImportanceLoader(dataset, BATCH, "shuffle", drop_last=True),
        "VRB without data": Alone(drop_last=True),
        "GroupVRB without data": Alone(groups=labels, drop_last=True),
    }


def step(name, loader, batches, model, optimizer, fixed):
    if name.endswith("without data"):
        _, draw = next(batches)
        draw.mean(fixed)
        loader.update(draw, fixed)
        return
    if name == "shuffled":
        x, y = next(batches)
        cross_entropy(model(x), y).backward()
    else:
        (x, y), draw = next(batches)
        losses = cross_entropy(model(x), y, reduction="none")
        draw.mean(losses).backward()
        loader.update(draw, losses)
    optimizer.step()
    optimizer.zero_grad()


def measure(kind, turns, steps):
    x = torch.randn(ITEMS, 784)
    y = torch.randint(0, 10, (ITEMS,))
    dataset = TensorDataset(x, y) if kind == "TensorDataset" else ItemByItem(x, y)
    model = nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loaders = make_loaders(dataset, y)
    batches = {name: endless(loader) for name, loader in loaders.items()}
    fixed = torch.rand(BATCH)
    took = {name: [] for name in loaders}
    for turn, name in itertools.product(range(turns + 1), loaders):
        start = time.perf_counter()
        for _ in range(steps):
            step(name, loaders[name], batches[name], model, optimizer, fixed)
        if turn:  # the first one compiles
            took[name].append((time.perf_counter() - start) / steps)
    rows = []
    for name, seconds in took.items():
        ratios = np.array(seconds) / np.array(took["shuffled"])
        low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
        rows.append(
            {
                "data": kind,
                "loader": name,
                "threads": torch.get_num_threads(),
                "microseconds": round(float(np.median(seconds)) * 1e6),
                "ratio": round(float(middle), 4),
                "ratio_low": round(float(low), 4),
                "ratio_high": round(float(high), 4),
                "torch": torch.__version__,
            }
        )
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a few steps, nothing is kept")
    options = parser.parse_args()
    turns, steps = (2, 3) if options.quick else (60, 20)
    rows = [
        row for kind in ("TensorDataset", "item by item") for row in measure(kind, turns, steps)
    ]
    header = ["data", "loader", "microseconds", "over shuffled", "quartiles"]
    timing.table(
        header,
        [
            [
                row["data"],
                row["loader"],
                f"{row['microseconds']:,}",
                f"{row['ratio']:.3f}",
                f"{row['ratio_low']:.3f} to {row['ratio_high']:.3f}",
            ]
            for row in rows
        ],
    )
    if not options.quick:
        timing.append("torch_loader", rows)


if __name__ == "__main__":
    main()
