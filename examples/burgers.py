"""A shock by a physics-informed network: which collocation points should a step use?

    python examples/burgers.py             # small: 2 seeds, under two minutes on a CPU
    python examples/burgers.py --full      # 15 seeds, for a CUDA device

Needs `pip install tombola[torch,cli]`. Burgers' equation, u_t + u u_x = nu u_xx with nu = 0.01/pi,
u(0, x) = -sin(pi x) and u(t, -1) = u(t, 1) = 0, has a front at x = 0 that steepens to a slope of
-152 at t = 0.51. A network N(t, x) is trained such that

    u(t, x) = -sin(pi x) + t (1 - x^2) N(t, x),      which has the initial and boundary values,

makes the mean squared residual of the equation small over points that are drawn once. Few points
lie near the front, and most of the residual does. What differs is how a batch is drawn:

    shuffled         shuffled epochs, as a DataLoader deals them
    uniform          any point, with replacement
    VRB              tombola.torch.VRB over points, fed with |residual|
    cells            tombola.torch.VRB over the cells of a grid, then any point of the cell
    cells x points   tombola.torch.GroupVRB: cells as groups, and points within them
    RAD              residual-based adaptive distribution (Wu et al. 2023, k = c = 1): every 100
                     steps the residuals of all points are computed, and points are drawn in
                     proportion to |residual| / mean + 1 from then on, without importances

All but the last are unbiased estimates of the same objective. RAD minimises another one on purpose,
with more weight on the front; what is compared is the error of u, which none of them minimises.

The goal is the median over seeds of the error of "shuffled" after its last step. A run arrives at
the first evaluation from which on its error stays at or below the goal. All have the same network,
points, Adam and cosine schedule on the same seed. Errors are relative to the exact solution, in the
L2 norm over a grid. Seconds are those of training, without evaluations and without the first three
steps, and with RAD's passes. On a CUDA device all later steps are replays of one CUDA graph.

Writes burgers.csv, burgers.txt and burgers.png.
"""

import argparse
import csv
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import comb
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

import tombola.torch
from tombola.cli.progress import Progress

NU = 0.01 / np.pi
REFRESH = 100  # steps between two passes of RAD over all points
WARM = 3  # first steps, which are not timed


@dataclass(frozen=True)
class Task:
    """Sizes of the problem, of the network and of the run."""

    cells: tuple[int, int]  # along t and x
    per_cell: int  # collocation points
    layers: int
    width: int
    batch: int
    steps: int
    every: int  # steps between two evaluations
    rate: float
    seeds: int
    grid: tuple[int, int]  # times and places at which errors are computed


SMALL = Task((16, 32), 16, 4, 32, 256, 2000, 50, 5e-3, 2, (50, 128))
FULL = Task((20, 50), 50, 5, 64, 2048, 3000, 50, 2e-3, 15, (100, 256))


# --- the equation -----------------------------------------------------------------------------


def exact(t: np.ndarray, x: np.ndarray, nodes: int = 100) -> np.ndarray:
    """Return the solution by the Cole-Hopf transformation and Gauss-Hermite quadrature.

    With y = x - z sqrt(4 nu t), u is the mean of -sin(pi y) under weights proportional to
    exp(-z^2 - cos(pi y) / (2 pi nu)).
    """
    z, weights = np.polynomial.hermite.hermgauss(nodes)
    y = x[..., None] - z * np.sqrt(4 * NU * t)[..., None]
    exponents = -np.cos(np.pi * y) / (2 * np.pi * NU)
    weights = weights * np.exp(exponents - exponents.max(axis=-1, keepdims=True))
    return -(weights * np.sin(np.pi * y)).sum(axis=-1) / weights.sum(axis=-1)


def new_network(task: Task, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    sizes = [2] + [task.width] * task.layers
    parts: list[nn.Module] = []
    for before, after in pairwise(sizes):
        parts += [nn.Linear(before, after), nn.Tanh()]
    return nn.Sequential(*parts, nn.Linear(task.width, 1))


def solution(network: nn.Module, t: Tensor, x: Tensor) -> Tensor:
    """Return u, with the initial and boundary values built in."""
    free = network(torch.stack([t, x], dim=1)).squeeze(1)
    return -torch.sin(torch.pi * x) + t * (1 - x) * (1 + x) * free


def residual(network: nn.Module, points: Tensor, training: bool = True) -> Tensor:
    """Return u_t + u u_x - nu u_xx at points (t, x)."""
    t, x = (column.clone().requires_grad_() for column in points.T)
    u = solution(network, t, x)
    u_t, u_x = torch.autograd.grad(u.sum(), (t, x), create_graph=True)
    (u_xx,) = torch.autograd.grad(u_x.sum(), x, create_graph=training)
    r = u_t + u * u_x - NU * u_xx
    return r if training else r.detach()


def new_points(task: Task, seed: int) -> Tensor:
    """Return equally many random points (t, x) in each cell, cell after cell."""
    random = np.random.default_rng(seed)
    corner = np.stack(np.indices(task.cells), axis=-1).reshape(-1, 1, 2)
    points = (corner + random.random((len(corner), task.per_cell, 2))) / task.cells
    points = points.reshape(-1, 2) * (1, 2) - (0, 1)
    return torch.tensor(points, dtype=torch.float32)


# --- draws --------------------------------------------------------------------------------------


class Uniform:
    """Any point, with replacement; base of the others."""

    def __init__(self, task: Task, points: Tensor, seed: int) -> None:
        self.task, self.points, self.n = task, points, len(points)
        self.random = torch.Generator(points.device).manual_seed(seed)

    def before(self, step: int, network: nn.Module) -> None:
        """Do what is due before a step."""

    def draw(self) -> Tensor:
        """Return the indices of a batch."""
        return self.any_below(self.n)

    def mean(self, values: Tensor) -> Tensor:
        """Return the estimate of the mean over all points from the values of a batch."""
        return values.mean()

    def update(self, residuals: Tensor) -> None:
        """Learn from the residuals of a batch."""

    def any_below(self, end: int) -> Tensor:
        """Return random numbers from 0 to end - 1."""
        size, device = (self.task.batch,), self.points.device
        return torch.randint(end, size, device=device, generator=self.random)


class Shuffled(Uniform):
    """Shuffled epochs; points that do not fill a batch are left out."""

    def __init__(self, task: Task, points: Tensor, seed: int) -> None:
        super().__init__(task, points, seed)
        self.batches = self.n // task.batch  # of an epoch
        self.order = torch.empty(self.n, dtype=torch.int64, device=points.device)
        self.at = torch.arange(task.batch, device=points.device)

    def before(self, step: int, network: nn.Module) -> None:
        """Shuffle, if an epoch begins with this step."""
        if step % self.batches == 0:
            torch.randperm(self.n, generator=self.random, out=self.order)
            self.at -= self.at[0].clone()

    def draw(self) -> Tensor:
        """Return the next batch of the epoch."""
        chosen = self.order[self.at]
        self.at += self.task.batch
        return chosen


class Points(Uniform):
    """VRB over points."""

    def __init__(self, task: Task, points: Tensor, seed: int) -> None:
        super().__init__(task, points, seed)
        self.sampler = self.new_sampler(seed)

    def new_sampler(self, seed: int) -> Any:
        """Return the sampler."""
        return tombola.torch.VRB(self.n, device=self.points.device, seed=seed)

    def draw(self) -> Tensor:
        """Return the indices of a batch, and keep their probabilities."""
        self.drawn = self.sampler.draw(self.task.batch)
        return self.drawn.indices

    def mean(self, values: Tensor) -> Tensor:
        """Return the unbiased estimate."""
        return self.drawn.mean(values)

    def update(self, residuals: Tensor) -> None:
        """Learn from |residual|."""
        self.sampler.update(self.drawn, residuals.abs())


class CellsPoints(Points):
    """GroupVRB over cells, and points within them."""

    def new_sampler(self, seed: int) -> Any:
        """Return the sampler."""
        cell = torch.arange(self.n) // self.task.per_cell
        return tombola.torch.GroupVRB(cell, device=self.points.device, seed=seed)


class Cells(Points):
    """VRB over cells, then any point of the cell; unbiased, since all have equally many."""

    def new_sampler(self, seed: int) -> Any:
        """Return the sampler."""
        count = self.n // self.task.per_cell
        return tombola.torch.VRB(count, device=self.points.device, seed=seed)

    def draw(self) -> Tensor:
        """Return the indices of a batch, and keep the probabilities of their cells."""
        return super().draw() * self.task.per_cell + self.any_below(self.task.per_cell)


class RAD(Uniform):
    """Residual-based adaptive distribution; uniform before the first pass."""

    def __init__(self, task: Task, points: Tensor, seed: int) -> None:
        super().__init__(task, points, seed)
        self.sums = torch.arange(1.0, self.n + 1, dtype=torch.float64, device=points.device)

    def before(self, step: int, network: nn.Module) -> None:
        """Compute all residuals from time to time."""
        if step and step % REFRESH == 0:
            size = residual(network, self.points, training=False).abs()
            torch.cumsum(size.double() / size.mean() + 1, 0, out=self.sums)

    def draw(self) -> Tensor:
        """Return the indices of a batch."""
        size, device = (self.task.batch,), self.points.device
        uniform = torch.rand(size, dtype=torch.float64, device=device, generator=self.random)
        return torch.searchsorted(self.sums, uniform * self.sums[-1], right=True)


SAMPLERS: dict[str, type[Uniform]] = {
    "shuffled": Shuffled,
    "uniform": Uniform,
    "VRB": Points,
    "cells": Cells,
    "cells x points": CellsPoints,
    "RAD": RAD,
}


# --- one run ------------------------------------------------------------------------------------


class Reference:
    """The exact solution on the grid on which errors are computed."""

    def __init__(self, task: Task, device: str) -> None:
        ends = (0, 1), (-1, 1)
        axes = (np.linspace(*end, size) for end, size in zip(ends, task.grid, strict=True))
        t, x = np.meshgrid(*axes, indexing="ij")
        self.exact = exact(t, x)
        self.t, self.x, self.u = (
            torch.tensor(part.ravel(), dtype=torch.float32, device=device)
            for part in (t, x, self.exact)
        )

    def deviations(self, network: nn.Module) -> Tensor:
        """Return u less the exact solution."""
        with torch.no_grad():
            return solution(network, self.t, self.x) - self.u

    def error(self, network: nn.Module) -> float:
        """Return the relative error."""
        return float(self.deviations(network).norm() / self.u.norm())


class Run(NamedTuple):
    """One run: its evaluations, how often each cell was drawn, and |u - exact| on the grid."""

    rows: list[dict[str, Any]]
    counts: np.ndarray
    errors: np.ndarray

    def column(self, name: str) -> list[float]:
        """Return one number of each evaluation."""
        return [row[name] for row in self.rows]


class Training:
    """A network, its optimiser and a sampler, trained step by step."""

    def __init__(self, name: str, task: Task, device: torch.device, seed: int) -> None:
        self.task = task
        self.points = new_points(task, seed).to(device)
        self.network = new_network(task, seed).to(device)
        self.sampler = SAMPLERS[name](task, self.points, seed)
        self.optimizer = torch.optim.Adam(
            self.network.parameters(),
            lr=torch.tensor(task.rate, device=device),
            capturable=device.type == "cuda",
        )
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, task.steps)
        self.counts = torch.zeros(len(self.points), device=device)
        self.ones = torch.ones(task.batch, device=device)
        self.stream = torch.cuda.Stream() if device.type == "cuda" else None
        self.graph: torch.cuda.CUDAGraph | None = None
        self.done = 0

    def step(self) -> None:
        """Draw a batch, train on it and learn from it; all of it may be captured in a graph."""
        chosen = self.sampler.draw()
        r = residual(self.network, self.points[chosen])
        self.optimizer.zero_grad()
        self.sampler.mean(r.square()).backward()
        self.optimizer.step()
        self.sampler.update(r.detach())
        self.counts.index_add_(0, chosen, self.ones)

    def advance(self, until: int) -> float:
        """Train up to a step; return the seconds that it took, without the first steps."""
        with torch.cuda.stream(self.stream):
            self.take(min(WARM, until))
            if self.stream is not None and self.graph is None and self.done == WARM:
                self.capture()
            self.wait()
            start = time.perf_counter()
            self.take(until)
            self.wait()
            return time.perf_counter() - start

    def take(self, until: int) -> None:
        """Take all steps up to one, as replays of the graph if there is one."""
        step = self.step if self.graph is None else self.graph.replay
        while self.done < until:
            self.sampler.before(self.done, self.network)
            step()
            self.schedule.step()
            self.done += 1

    def capture(self) -> None:
        """Record a step as a graph; it is not taken."""
        self.graph = torch.cuda.CUDAGraph()
        self.graph.register_generator_state(self.sampler.random)
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.step()

    def wait(self) -> None:
        """Wait for the device."""
        if self.stream is not None:
            torch.cuda.synchronize()


def train(name: str, task: Task, reference: Reference, seed: int) -> Run:
    """Train with a sampler, and evaluate from time to time."""
    training = Training(name, task, reference.u.device, seed)
    rows, seconds = [], 0.0
    for step in range(0, task.steps + 1, task.every):
        seconds += training.advance(step)
        squares = residual(training.network, training.points, training=False).square()
        rows.append({
            "sampler": name, "seed": seed, "step": step, "seconds": round(seconds, 4),
            "error": reference.error(training.network), "residual": float(squares.mean()),
        })  # fmt: skip
    by_cell = training.counts.reshape(*task.cells, task.per_cell).sum(dim=2)
    errors = reference.deviations(training.network).abs().reshape(task.grid)
    return Run(rows, by_cell.numpy(force=True), errors.numpy(force=True))


# --- what comes of it ---------------------------------------------------------------------------


def arrival(run: Run, goal: float) -> tuple[float, float]:
    """Return steps and seconds from which on the error stays at or below the goal."""
    arrived = np.inf, np.inf
    for row in reversed(run.rows):
        if not row["error"] <= goal:
            break
        arrived = row["step"], row["seconds"]
    return arrived


def goal_of(runs: dict[str, list[Run]]) -> float:
    """Return the median error of shuffled epochs at the end."""
    return float(np.median([run.column("error")[-1] for run in runs["shuffled"]]))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the closest pair of order statistics that has the median between it 9 times of 10.

    Below 5 values no pair does: then the smallest and the largest.
    """
    n, ordered = len(values), sorted(values)
    beyond = np.cumsum([comb(n, k) for k in range(n)]) / 2.0**n  # P(at most k values are below it)
    cut = max(int((beyond <= 0.05).sum()) - 1, 0)
    return ordered[cut], ordered[n - 1 - cut]


def shown(values: Sequence[float], form: str) -> str:
    """Format the median with its interval."""
    three = (np.median(values), *interval(values))
    middle, *ends = (form.format(value) if np.isfinite(value) else "never" for value in three)
    return f"{middle} [{', '.join(ends)}]"


def times(whole: float, parts: Sequence[float]) -> str:
    """Format how many times the median goes into the whole, if it is finite."""
    middle = np.median(parts)
    return f"{whole / middle:.2f}" if np.isfinite(middle) else "-"


def summary(runs: dict[str, list[Run]]) -> str:
    """Return a table: when the goal is reached, the state at the end, and the cost of a step."""
    goal = goal_of(runs)
    last = {
        name: {unit: [run.column(unit)[-1] for run in same] for unit in runs[name][0].rows[-1]}
        for name, same in runs.items()
    }
    ends = "smallest, largest" if len(runs["shuffled"]) < 5 else "90% intervals"
    steps_of_all, usual = last["shuffled"]["step"][0], np.median(last["shuffled"]["seconds"])
    table = [["", "steps", "times fewer", "seconds", "times fewer", "error at the end",
              "squared residual", "ms a step"]]  # fmt: skip
    for name, same in runs.items():
        steps, seconds = zip(*(arrival(run, goal) for run in same), strict=True)
        table.append([
            name, shown(steps, "{:.0f}"), times(steps_of_all, steps),
            shown(seconds, "{:.1f}"), times(usual, seconds),
            shown(last[name]["error"], "{:.4f}"), shown(last[name]["residual"], "{:.2g}"),
            shown([1e3 * value / steps_of_all for value in last[name]["seconds"]], "{:.2f}"),
        ])  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        f"Until the error stays at or below {goal:.4f}, that of shuffled after {steps_of_all} "
        f"steps; medians of {len(same)} seeds [{ends}]"
    ]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"


COLOURS = {
    "shuffled": "#333333",
    "uniform": "#8a8f94",
    "VRB": "#0072B2",
    "cells": "#E69F00",
    "cells x points": "#D55E00",
    "RAD": "#009E73",
}


def draw_picture(runs: dict[str, list[Run]], reference: Reference, path: Path) -> None:
    """Draw the solution, where points were drawn, where errors are, and errors over time."""
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    figure = Figure(figsize=(17, 10.5), layout="constrained")
    places = figure.add_gridspec(3, 1, height_ratios=[1, 1, 1.2])
    solved, erring = (places[k].subgridspec(1, 5).subplots(sharey=True) for k in range(2))
    domain = {"extent": (0, 1, -1, 1), "origin": "lower", "aspect": "auto"}
    adaptive = [name for name in runs if name not in ("shuffled", "uniform")]

    image = solved[0].imshow(reference.exact.T, cmap="RdBu_r", vmin=-1, vmax=1, **domain)
    figure.colorbar(image, ax=solved[0], pad=0.02, ticks=[-1, 0, 1])
    solved[0].set_title("the solution u(t, x)")
    counts = np.array([sum(run.counts for run in runs[name]) for name in adaptive])
    rates = counts / counts.mean(axis=(1, 2), keepdims=True)
    scale = LogNorm(*np.quantile(rates, [0.001, 0.999]))
    for axis, name, rate in zip(solved[1:], adaptive, rates, strict=True):
        image = axis.imshow(rate.T, cmap="magma", norm=scale, **domain)
        axis.set_title(f"where {name} drew")
    bar = figure.colorbar(image, ax=solved[1:], pad=0.01, extend="both", label="draws / uniform")
    plain_ticks(bar.ax.yaxis)

    scale = LogNorm(1e-3, 1, clip=True)
    for axis, name in zip(erring, ["shuffled", *adaptive], strict=True):
        errors = np.median([run.errors for run in runs[name]], axis=0)
        image = axis.imshow(errors.T, cmap="viridis", norm=scale, **domain)
        error = np.median([run.column("error")[-1] for run in runs[name]])
        axis.set_title(f"error of {name}: {error:.3f}")
    bar = figure.colorbar(image, ax=erring, pad=0.01, extend="min", label="|u - exact| at the end")
    plain_ticks(bar.ax.yaxis)
    for axis in (*solved, *erring):
        axis.set(xlabel="t", xticks=[0, 0.5, 1], yticks=[-1, 0, 1])
    solved[0].set_ylabel("x")
    erring[0].set_ylabel("x")

    curves = places[2].subgridspec(1, 2).subplots(sharey=True)
    for axis, unit in zip(curves, ("step", "seconds"), strict=True):
        for name, same in runs.items():
            at = np.median([run.column(unit) for run in same], axis=0)
            errors = np.array([run.column("error") for run in same])
            axis.plot(at, np.median(errors, axis=0), color=COLOURS[name], label=name, lw=2)
            ends = np.array([interval(column) for column in errors.T])
            axis.fill_between(at, *ends.T, color=COLOURS[name], alpha=0.1, lw=0)
        axis.axhline(goal_of(runs), color="black", lw=0.9, ls=":")
        axis.set(yscale="log", xlim=(0, None))
        axis.set_xlabel("step" if unit == "step" else "seconds of training")
        axis.spines[["top", "right"]].set_visible(False)
    curves[0].set_ylabel("relative error of u, medians and intervals")
    plain_ticks(curves[0].yaxis)
    curves[1].legend(frameon=False, ncols=3, loc="upper right")
    figure.savefig(path, dpi=120)


def plain_ticks(axis: Any) -> None:
    """Label a logarithmic axis by 1, 2, 5 and their multiples, without exponents."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--full", action="store_true", help="in full, on a CUDA device if any")
    parser.add_argument("--seeds", type=int, help="2, or 15 in full, unless given")
    parser.add_argument("--out", type=Path, default=Path("out/burgers"), help="folder for results")
    options = parser.parse_args(arguments)
    if options.seeds is not None and options.seeds < 1:
        parser.error(f"--seeds must be at least 1, got {options.seeds}")
    task = FULL if options.full else SMALL
    task = replace(task, seeds=options.seeds or task.seeds)
    device = "cuda" if options.full and torch.cuda.is_available() else "cpu"
    if not options.full:
        torch.set_num_threads(1)  # faster than several for a network this small
    print(
        f"{task.cells[0] * task.cells[1] * task.per_cell:,} points, {task.layers} x {task.width} "
        f"network, {task.steps} steps of {task.batch}, {task.seeds} seeds, on {device}"
    )
    options.out.mkdir(parents=True, exist_ok=True)
    reference = Reference(task, device)
    for name in SAMPLERS:  # compiles what is compiled on first use
        train(name, replace(task, steps=2, every=1), reference, 0)
    runs: dict[str, list[Run]] = {name: [] for name in SAMPLERS}
    with Progress("training") as progress:
        for seed in range(task.seeds):
            for k, name in enumerate(SAMPLERS):
                runs[name].append(train(name, task, reference, seed))
                progress(seed * len(SAMPLERS) + k + 1, task.seeds * len(SAMPLERS))

    rows = [row for same in runs.values() for run in same for row in run.rows]
    with (options.out / "burgers.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    (options.out / "burgers.txt").write_text(summary(runs))
    draw_picture(runs, reference, options.out / "burgers.png")
    print(f"\n{summary(runs)}\nrows, summary and picture: {options.out}/burgers.csv, .txt, .png")


if __name__ == "__main__":
    main()
