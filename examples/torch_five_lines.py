"""Recognise rare eights (one digit in 51), with importance sampling in five lines.

Needs `pip install tombola[torch,sklearn]`. Trains the same network with three samplers: shuffling,
PyTorch's WeightedRandomSampler with balanced classes, and tombola. Prints the number of steps until
the training loss and the test loss reach the final losses of shuffling. Unbiased draws reduce the
training loss sooner if noise is what slows it down; the test loss may behave differently, with only
24 eights to learn from.
"""

import time

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

import tombola.torch

ODDS, OTHERS, BATCH, RATE, EPOCHS, EVERY, SEEDS = 50, 1200, 16, 0.3, 16, 20, 5
METHODS = ("shuffling", "balanced classes", "tombola")


def data(seed):
    """Return training data with one eight per 50 others, and the rest, by class, as test data."""
    x, y = load_digits(return_X_y=True)
    x, y = torch.tensor(x / 16, dtype=torch.float32), torch.tensor(y == 8).long()
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(y)))
    others, eights = (order[y[order] == label] for label in (0, 1))
    train = torch.cat([others[:OTHERS], eights[: OTHERS // ODDS]])
    test = [others[OTHERS:], eights[OTHERS // ODDS :]]
    return TensorDataset(x[train], y[train]), [(x[part], y[part]) for part in test]


def losses_of(model, dataset, tests):
    """Return the training loss, and the test loss with the same class proportions."""
    with torch.no_grad():
        x, y = dataset.tensors
        train = float(cross_entropy(model(x), y))
        other, eight = (float(cross_entropy(model(x), y)) for x, y in tests)
    return train, (ODDS * other + eight) / (ODDS + 1)


def run(method, seed):
    """Train; return the losses every `EVERY` steps, the seconds per step, and the gauge."""
    dataset, tests = data(seed)
    labels = dataset.tensors[1]
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    if method == "tombola":
        loader = tombola.torch.ImportanceLoader(dataset, BATCH, groups=labels, seed=seed)
    elif method == "shuffling":
        loader = DataLoader(dataset, BATCH, shuffle=True)
    else:
        weights = 1.0 / torch.bincount(labels)[labels]
        loader = DataLoader(dataset, BATCH, sampler=WeightedRandomSampler(weights, len(labels)))
    curve, steps, seconds, begun = [], 0, 0.0, time.perf_counter()
    for _ in range(EPOCHS):
        for batch in loader:
            if method == "tombola":
                (x, y), draw = batch
                losses = cross_entropy(model(x), y, reduction="none")
                draw.mean(losses).backward()
                loader.update(draw, losses)
            else:
                x, y = batch
                cross_entropy(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
            steps += 1
            if steps % EVERY == 0:
                seconds += time.perf_counter() - begun
                curve.append(losses_of(model, dataset, tests))
                begun = time.perf_counter()
    gauge = loader.sampler.gauge if method == "tombola" else None
    return np.array(curve), seconds / len(curve) / EVERY, gauge


def main():
    torch.set_num_threads(1)
    run("tombola", 0)  # loads or compiles the kernels
    runs = {method: [run(method, seed) for seed in range(SEEDS)] for method in METHODS}
    print(f"steps (and seconds) to the final loss of shuffling: median of {SEEDS} seeds, and all")
    for k, name in enumerate(("training", "test")):
        goals = [curve[-1, k] for curve, _, _ in runs["shuffling"]]
        print(f"{name} loss of {np.median(goals):.4f}")
        for method, results in runs.items():
            first = sorted(
                next(
                    (EVERY * (j + 1) for j, loss in enumerate(curve[:, k]) if loss <= goal), np.inf
                )
                for (curve, _, _), goal in zip(results, goals, strict=True)
            )
            seconds = np.median(first) * np.median([pace for _, pace, _ in results])
            shown = ["never" if steps == np.inf else f"{steps:.0f}" for steps in first]
            print(f"  {method:17}{shown[SEEDS // 2]:>6} ({seconds:.2f} s)   {', '.join(shown)}")
    print(runs["tombola"][-1][2])


if __name__ == "__main__":
    main()
