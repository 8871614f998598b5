"""MNIST with rare digits and a small CNN: which loader reaches a given loss first?

    python examples/torch_mnist.py --data FOLDER     # with mnist_full_uint8.npz; 15 minutes,
                                                     # on a CUDA device if available
    python examples/torch_mnist.py --digits          # scikit-learn's digits instead; 5 minutes

The training set keeps all images of 0 to 4, and one in a hundred of 5 to 9 (one in ten for the
smaller digits data). Which loader is best depends on the objective. There are two:

    as is      the mean loss over this training set: what shuffling minimises
    balanced   the mean over the classes of the mean loss within a class

Each method minimises one of them, and is evaluated by both, on test images that were not used for
training: "as is" weights them such that each class has the same share as in training.

    shuffle                    DataLoader(shuffle=True)                               as is
    balanced, corrected        WeightedRandomSampler by class, losses multiplied
                               by n_c K / n, so that the objective stays              as is
    tombola, losses            ImportanceLoader(groups=labels), feedback: losses      as is
    tombola, norms             the same, feedback: gradient norms                     as is
    WeightedRandomSampler      by class, as it is commonly used                       balanced
    tombola, balanced          losses multiplied by n / (K n_c), also as feedback     balanced

The learning rate of each method is chosen from the same grid, on a seed and on images that are used
for nothing else, by the lowest loss of the kind that it minimises (here and below: the mean of five
consecutive evaluations, of 50 per run). The goals are the lowest test losses, on that seed, of
shuffling (as is) and of WeightedRandomSampler (balanced). Then follow 5 seeds: steps and seconds to
the goals, medians with the smallest and the largest (a 94% interval for the median). Seconds are
those of training, on one core or on the device, without the evaluations. All loaders fetch a batch
by one index into the tensors.
"""

import argparse
import csv
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from tombola.torch import ImportanceLoader, gradient_norms

BATCH, MOMENTUM, CLASSES = 64, 0.9, 10
RATES = (0.001, 0.003, 0.01, 0.03, 0.1)
LOOKS = 5  # consecutive evaluations to average: a single one may be low by chance
TUNING_SEED = 1000
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
OBJECTIVES = {
    "shuffle": "as is",
    "balanced, corrected": "as is",
    "tombola, losses": "as is",
    "tombola, norms": "as is",
    "WeightedRandomSampler": "balanced",
    "tombola, balanced": "balanced",
}
SETTERS = {"as is": "shuffle", "balanced": "WeightedRandomSampler"}  # the method that sets a goal


Runs = list[list[dict[str, Any]]]  # for each seed, one row per evaluation


class Images(NamedTuple):
    """Pixels of shape (n, 1, side, side), and digits."""

    x: Tensor
    y: Tensor


class Task(NamedTuple):
    """Images for training, for the choice of the rate, and for the test."""

    train: Images
    chosen_by: Images
    test: Images

    def shares(self) -> Tensor:
        """The share of each class in the training set."""
        return self.train.y.bincount(minlength=CLASSES) / len(self.train.y)


def prepared(x: np.ndarray, y: np.ndarray, train: int, held: int, one_in: int) -> Task:
    """Standardise, split, and make the digits 5 to 9 rare."""
    pixels = torch.tensor(x, dtype=torch.float32)
    pixels = ((pixels - pixels.mean()) / pixels.std()).unsqueeze(1)
    digits = torch.tensor(y, dtype=torch.int64)
    rare = torch.where(digits[:train] >= 5)[0]
    kept = torch.cat([torch.where(digits[:train] < 5)[0], rare[::one_in]])
    parts = (kept, torch.arange(train, train + held), torch.arange(train + held, len(digits)))
    return Task(*(Images(pixels[part], digits[part]) for part in parts))


def mnist(folder: Path) -> Task:
    data = np.load(folder / "mnist_full_uint8.npz")
    return prepared(data["X"].reshape(-1, 28, 28), data["y"], 55_000, 5_000, 100)


def digits() -> Task:
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    small = torch.tensor(x.reshape(-1, 1, 8, 8))
    large = functional.interpolate(small, size=28, mode="bilinear").squeeze(1).numpy()
    order = np.random.default_rng(0).permutation(len(y))
    return prepared(large[order], y[order], 1000, 300, 10)


def small_cnn(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 8, 5, stride=2), nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(16 * 5 * 5, 32), nn.ReLU(), nn.Linear(32, CLASSES),
    )  # fmt: skip


class Trainer:
    """One method: its loader, and its training step."""

    def __init__(self, method: str, task: Task, rate: float, seed: int) -> None:
        self.method, self.model = method, small_cnn(seed).to(DEVICE)
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=rate, momentum=MOMENTUM)
        images, shares = task.train, task.shares()
        dataset = TensorDataset(*images)
        self.factors = torch.ones(CLASSES)
        self.loader: Any
        if method.startswith("tombola"):
            fed = "gradient norm" if method == "tombola, norms" else "loss"
            self.loader = ImportanceLoader(dataset, BATCH, groups=images.y, seed=seed, quantity=fed)
            if method == "tombola, balanced":
                self.factors = 1 / (CLASSES * shares)
        else:
            generator = torch.Generator().manual_seed(seed)
            if method == "shuffle":
                order: Any = RandomSampler(dataset, generator=generator)
            else:
                weights = (1 / shares)[images.y].double()
                order = WeightedRandomSampler(weights, len(images.y), generator=generator)
            if method == "balanced, corrected":
                self.factors = CLASSES * shares
            batches = BatchSampler(order, BATCH, drop_last=False)
            self.loader = DataLoader(dataset, sampler=batches, batch_size=None)
        self.factors = self.factors.to(DEVICE)

    def steps(self) -> Iterator[None]:
        """Train one step at a time, indefinitely."""
        while True:
            for batch in self.loader:
                self.step(batch)
                yield

    def step(self, batch: Any) -> None:
        """Run forward and backward pass, feedback, and the optimiser's step."""
        self.optimiser.zero_grad()
        if self.method == "tombola, norms":
            (x, y), draw = batch
            with gradient_norms(self.model) as norms:
                draw.mean(self.losses(x, y)).backward()
            self.loader.update(draw, norms.of(draw))
        elif self.method.startswith("tombola"):
            (x, y), draw = batch
            losses = self.losses(x, y)
            draw.mean(losses).backward()
            self.loader.update(draw, losses)
        else:
            self.losses(*batch).mean().backward()
        self.optimiser.step()

    def losses(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the loss of each image, times the factor of its class."""
        x, y = x.to(DEVICE, non_blocking=True), y.to(DEVICE, non_blocking=True)
        losses = functional.cross_entropy(self.model(x), y, reduction="none")
        return self.factors[y] * losses


@torch.no_grad()
def judged(model: nn.Module, images: Images, shares: Tensor) -> dict[str, float]:
    """Return both losses, from the mean loss within each class, and the balanced accuracy."""
    logits = torch.cat([model(part.to(DEVICE)).cpu() for part in images.x.split(1000)])
    losses = functional.cross_entropy(logits, images.y, reduction="none")
    right = (logits.argmax(1) == images.y).float()
    counts = images.y.bincount(minlength=CLASSES)
    within = torch.zeros(CLASSES).index_add_(0, images.y, losses) / counts
    hits = torch.zeros(CLASSES).index_add_(0, images.y, right) / counts
    return {
        "as is": float((shares * within).sum()),
        "balanced": float(within.mean()),
        "accuracy": float(hits.mean()),
    }


def run(
    method: str, task: Task, images: Images, rate: float, seed: int, steps: int, every: int
) -> tuple[list[dict[str, Any]], Trainer]:
    """Train, and evaluate on `images` every `every` steps; return one row per evaluation."""
    trainer, shares = Trainer(method, task, rate, seed), task.shares()
    rows, seconds, going = [], 0.0, trainer.steps()
    for step in range(0, steps + 1, every):
        rows.append({
            "method": method, "minimises": OBJECTIVES[method], "rate": rate, "seed": seed,
            "step": step, "seconds": round(seconds, 3), **judged(trainer.model, images, shares),
        })  # fmt: skip
        start = time.perf_counter()
        for _ in range(every if step < steps else 0):
            next(going)
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        seconds += time.perf_counter() - start
    return rows, trainer


def levels(rows: list[dict[str, Any]], objective: str) -> np.ndarray:
    """Return the moving average of LOOKS consecutive losses; infinite if a run diverged."""
    losses = np.array([row[objective] for row in rows])
    losses = np.where(np.isfinite(losses), losses, np.inf)
    return np.lib.stride_tricks.sliding_window_view(losses, LOOKS).mean(axis=1)


def arrival(rows: list[dict[str, Any]], objective: str, goal: float) -> tuple[float, float]:
    """Return steps and seconds until the moving average first reaches the goal."""
    low = np.flatnonzero(levels(rows, objective) <= goal)
    if not len(low):
        return np.inf, np.inf
    row = rows[low[0] + LOOKS - 1]
    return row["step"], row["seconds"]


def shown(values: list[float], form: str = "{:.0f}") -> str:
    """Format the median with the smallest and the largest value."""
    texts = [
        form.format(value) if np.isfinite(value) else "never"
        for value in (np.median(values), min(values), max(values))
    ]
    return f"{texts[0]} [{texts[1]}, {texts[2]}]"


def table(header: list[str], lines: list[list[str]]) -> None:
    widths = [max(len(line[k]) for line in [header, *lines]) for k in range(len(header))]
    for line in [header, *lines]:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)))


def report(results: dict[str, Runs], goals: dict[str, float]) -> None:
    for objective, goal in goals.items():
        print(f'\nTest loss "{objective}": to {goal:.4f}, medians of the seeds [smallest, largest]')
        lines = []
        for method, runs in results.items():
            reached = [arrival(rows, objective, goal) for rows in runs]
            lines.append([
                method, OBJECTIVES[method], shown([steps for steps, _ in reached]),
                shown([seconds for _, seconds in reached], "{:.1f}"),
                shown([levels(rows, objective).min() for rows in runs], "{:.4f}"),
            ])  # fmt: skip
        table(["method", "minimises", "steps", "seconds", "lowest loss"], lines)
    print("\nBalanced accuracy at the end, and milliseconds a step")
    lines = []
    for method, runs in results.items():
        pace = [1e3 * rows[-1]["seconds"] / rows[-1]["step"] for rows in runs]
        accuracy = [rows[-1]["accuracy"] for rows in runs]
        lines.append([method, shown(accuracy, "{:.3f}"), shown(pace, "{:.2f}")])
    table(["method", "accuracy", "milliseconds"], lines)
    print()
    for method, objective in OBJECTIVES.items():
        setter, goal = SETTERS[objective], goals[objective]
        if method != setter:
            compare(method, setter, results, objective, goal)


def compare(
    method: str, setter: str, results: dict[str, Runs], objective: str, goal: float
) -> None:
    """Print how many times sooner a method arrives than the one that set the goal, by seed."""
    ours, theirs = (
        np.array([arrival(rows, objective, goal) for rows in results[name]])
        for name in (method, setter)
    )
    both = np.isfinite(ours[:, 0]) & np.isfinite(theirs[:, 0])
    text = f'{method}, to the loss "{objective}": '
    if both.any():
        steps, seconds = (theirs[both] / ours[both]).T
        text += f"{shown(list(steps), '{:.2f}')} times as soon as {setter} by steps, "
        text += f"{shown(list(seconds), '{:.2f}')} by seconds"
    else:
        text += f"no seed on which both it and {setter} arrive"
    if not both.all():
        text += f" ({setter} arrives on {np.isfinite(theirs[:, 0]).sum()} of {len(both)} seeds, "
        text += f"{method} on {np.isfinite(ours[:, 0]).sum()})"
    print(text)


def draw_picture(results: dict[str, Runs], goals: dict[str, float], path: Path) -> None:
    """Plot both losses against steps and against seconds."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(11, 8), layout="constrained", sharey="row")
    for row, (objective, goal) in zip(axes, goals.items(), strict=True):
        for axis, unit in zip(row, ("step", "seconds"), strict=True):
            for k, (method, runs) in enumerate(results.items()):
                at = np.median([[look[unit] for look in rows] for rows in runs], axis=0)
                losses = np.array([[look[objective] for look in rows] for rows in runs])
                line = "-" if OBJECTIVES[method] == objective else ":"
                axis.plot(at, np.median(losses, axis=0), line, color=f"C{k}", label=method)
                axis.fill_between(
                    at, losses.min(axis=0), losses.max(axis=0), color=f"C{k}", alpha=0.12, lw=0
                )
            axis.axhline(goal, color="black", lw=0.8)
            axis.set(xlabel=unit, yscale="log")
        row[0].set_ylabel(f'test loss, "{objective}"')
    axes[0, 1].legend(fontsize=8, title="dotted: minimises the other one", title_fontsize=8)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("TOMBOLA_DATA"))
    parser.add_argument("--digits", action="store_true", help="scikit-learn's digits, not MNIST")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for rows and picture")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=None, help="default: 2000, digits 500")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if not options.digits and (
        options.data is None or not (Path(options.data) / "mnist_full_uint8.npz").exists()
    ):
        parser.error(
            "--data (or TOMBOLA_DATA) must name a folder with mnist_full_uint8.npz; "
            "--digits does without"
        )
    task = digits() if options.digits else mnist(Path(options.data))
    steps = options.steps or (500 if options.digits else 2000)
    every = max(1, steps // 50)
    steps -= steps % every
    counts = task.train.y.bincount(minlength=CLASSES).tolist()
    print(
        f"{len(task.train.y):,} images to train on, of 0 to 9: {counts}; {steps} steps of {BATCH}"
    )

    rates, goals = {}, {}
    for method, objective in OBJECTIVES.items():
        tried = {}
        for rate in RATES:
            rows, _ = run(method, task, task.chosen_by, rate, TUNING_SEED, steps, every)
            tried[rate] = levels(rows, objective).min()
        rates[method] = min(tried, key=lambda rate: tried[rate])
        losses = ", ".join(f"{rate:g}: {loss:.4f}" for rate, loss in tried.items())
        print(f"{method}: rate {rates[method]:g} ({losses})", flush=True)
    for objective, setter in SETTERS.items():
        rows, _ = run(setter, task, task.test, rates[setter], TUNING_SEED, steps, every)
        goals[objective] = levels(rows, objective).min()

    results: dict[str, Runs] = {method: [] for method in OBJECTIVES}
    for seed in range(options.seeds):
        for method in OBJECTIVES:
            rows, trainer = run(method, task, task.test, rates[method], seed, steps, every)
            results[method].append(rows)
            if seed == 0 and isinstance(trainer.loader, ImportanceLoader):
                print(f"{method}: {trainer.loader.sampler.gauge}")
        print(f"seed {seed} done", flush=True)
    report(results, goals)

    options.out.mkdir(parents=True, exist_ok=True)
    name = "torch_digits" if options.digits else "torch_mnist"
    with (options.out / f"{name}.csv").open("w", newline="") as file:
        rows = [row for runs in results.values() for run_rows in runs for row in run_rows]
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    draw_picture(results, goals, options.out / f"{name}.png")
    print(f"\nrows and picture: {options.out / name}.csv and .png")


if __name__ == "__main__":
    main()
