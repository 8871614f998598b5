"""A neural field fitted to a photograph: how many steps do adaptive draws save?

    python examples/fit_image.py                     # small, on a CPU: less than two minutes
    python examples/fit_image.py --full              # for a CUDA device: 4 x 256 network, 5 seeds
    python examples/fit_image.py --image FILE        # a photograph of yours

The field maps a place in the picture to its colour. Items are pixels, the loss of a pixel is its
squared error, and samplers that learn are told the error, which its gradient is proportional to.

    shuffled   epochs in random order
    uniform    any pixel, with replacement
    vrb        tombola.torch.VRB over pixels
    cells      tombola.torch.VRB over cells of 8 x 8 pixels, and any pixel of the cell
    both       tombola.torch.GroupVRB: a bandit over cells, and one over the pixels of each

Importances make the gradients of all of them unbiased for the mean squared error over the picture,
and PSNR = -10 log10 of that error is what is compared, under two schedules of Adam's rate:

    one cycle  up and down again, as one would train: PSNR after the last step
    constant   all steps alike: steps and seconds until the PSNR that shuffled epochs have at the
               end, on the same seed. PSNR is the mean of three consecutive looks, of 30 per run.

The highest rate of a schedule is the same for all samplers: of three, the best one for shuffled
epochs, on a seed that is used for nothing else.

Seeds are summed up by medians with the smallest and the largest (with 5 seeds, a 94% interval for
the median). Seconds are those of training, without looks and without the first three steps, which
compile kernels. On a CUDA device all other steps are replays of one CUDA graph.
"""

import argparse
import csv
import time
import warnings
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from fit_image_summary import Rows, Shown, draw_picture, levels, print_summary
from PIL import Image, ImageOps
from torch import Tensor, nn

from tombola.cli.progress import Progress
from tombola.torch import VRB, DeviceDraw, GroupVRB

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CELL = 8  # pixels, the side of a cell
SCHEDULES = ("one cycle", "constant")
RATES = (1e-3, 3e-3, 1e-2)  # to choose from
TUNING_SEED = 1000
LOOKS = 30
WARM = 3  # first steps, which are not timed
SAMPLERS = ("shuffled", "uniform", "vrb", "cells", "both")


class Settings(NamedTuple):
    """How large everything is."""

    pixels: float  # a picture with more is reduced
    frequencies: int
    layers: int
    width: int
    batch: int
    steps: int
    seeds: int


SMALL = Settings(16_000, frequencies=64, layers=3, width=64, batch=512, steps=1900, seeds=2)
FULL = Settings(np.inf, frequencies=128, layers=4, width=256, batch=4096, steps=4000, seeds=5)


# ---- the picture and the field


class Picture(NamedTuple):
    """Pixels, row by row: where they are, their colours from 0 to 1, and their cells."""

    places: Tensor
    colours: Tensor
    cells: Tensor
    height: int
    width: int


def load_picture(file: Path | None, most: float) -> Picture:
    """Read a picture, with at most `most` pixels; by default one that scikit-learn has."""
    if file is None:
        from sklearn.datasets import load_sample_image

        image = Image.fromarray(load_sample_image("china.jpg"))
    else:
        with Image.open(file) as opened:
            image = ImageOps.exif_transpose(opened).convert("RGB")
    shrink = min(1.0, (most / (image.width * image.height)) ** 0.5)
    size = (max(1, int(image.width * shrink)), max(1, int(image.height * shrink)))
    values = np.asarray(image.resize(size, Image.Resampling.LANCZOS), dtype=np.float32) / 255
    return picture_of(torch.from_numpy(values).to(DEVICE))


def picture_of(values: Tensor) -> Picture:
    """Return the pixels of an array of colours, of shape (height, width, 3)."""
    height, width, _ = values.shape
    rows = torch.arange(height, device=values.device).repeat_interleave(width)
    columns = torch.arange(width, device=values.device).repeat(height)
    places = (torch.stack([rows, columns], 1) + 0.5) / max(height, width)
    cells = rows // CELL * -(-width // CELL) + columns // CELL
    return Picture(places, values.reshape(-1, 3), cells, height, width)


class Field(nn.Module):
    """Random Fourier features and a network, from places to colours."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.register_buffer("waves", 20 * torch.pi * torch.randn(2, settings.frequencies))
        widths = [2 * settings.frequencies] + settings.layers * [settings.width]
        layers = [
            part
            for before, after in pairwise(widths)
            for part in (nn.Linear(before, after), nn.ReLU())
        ]
        self.network = nn.Sequential(*layers, nn.Linear(settings.width, 3))

    def forward(self, places: Tensor) -> Tensor:
        """Return the colours at some places."""
        phases = places @ self.waves
        return self.network(torch.cat([phases.cos(), phases.sin()], 1))


# ---- samplers


class PlainDraw(NamedTuple):
    """Pixels that are all drawn with the same probability."""

    indices: Tensor

    def mean(self, losses: Tensor) -> Tensor:
        """Return the unbiased estimate of the mean over all pixels."""
        return losses.mean()


class Uniform:
    """Any pixel, with replacement."""

    def __init__(self, n: int) -> None:
        self.n = n

    def draw(self, size: int) -> PlainDraw:
        """Draw pixels."""
        return PlainDraw(torch.randint(self.n, (size,), device=DEVICE))


class Shuffled:
    """Epochs in random order; what is left of one and fills no batch is dropped."""

    def __init__(self, n: int, size: int) -> None:
        self.batches = n // size  # of an epoch
        self.order = torch.empty(n, dtype=torch.int64, device=DEVICE)
        self.lanes = torch.arange(size, device=DEVICE)
        self.at = self.lanes.clone()

    def begin(self, step: int) -> None:
        """Shuffle, if an epoch begins with this step."""
        if step % self.batches == 0:
            torch.randperm(len(self.order), out=self.order)
            self.at.copy_(self.lanes)

    def draw(self, size: int) -> PlainDraw:
        """Deal the next pixels."""
        indices = self.order[self.at]
        self.at += size
        return PlainDraw(indices)


class CellDraw(DeviceDraw):
    """Pixels, with the draw of the cells that they are in."""

    __slots__ = ("of_cells",)


class Cells:
    """`VRB` over cells, and any pixel of the cell: p = p(cell) / (its number of pixels)."""

    def __init__(self, cells: Tensor, seed: int) -> None:
        self.n, self.cells = len(cells), cells
        self.members = cells.argsort(stable=True)
        self.sizes = cells.bincount()
        self.starts = self.sizes.cumsum(0) - self.sizes
        self.sampler = VRB(len(self.sizes), device=cells.device, seed=seed)

    def draw(self, size: int) -> CellDraw:
        """Draw cells, and a pixel of each."""
        of_cells = self.sampler.draw(size)
        cells, sizes = of_cells.indices, self.sizes[of_cells.indices]
        within = (torch.rand(size, dtype=torch.float64, device=sizes.device) * sizes).long()
        pixels = self.members[self.starts[cells] + within]
        chances = of_cells.probabilities / sizes
        importances = (1 / (self.n * chances)).float()
        draw = CellDraw(pixels, chances, importances, self.n, of_cells.number)
        draw.of_cells = of_cells
        return draw

    def update(self, draw: CellDraw, errors: Tensor) -> None:
        """Learn from the errors of pixels; a cell counts by the sum over its pixels."""
        self.sampler.update(draw.of_cells, errors * self.sizes[draw.of_cells.indices])

    def probabilities(self) -> Tensor:
        """Return the probability of every pixel."""
        return (self.sampler.probabilities() / self.sizes)[self.cells]

    def check(self) -> None:
        """Raise the error of the first update that was refused."""
        self.sampler.check()

    @property
    def gauge(self) -> Any:
        """Estimates of the benefit over uniform draws of cells."""
        return self.sampler.gauge


def new_sampler(name: str, picture: Picture, size: int, seed: int) -> Any:
    """Return a sampler by its name."""
    n = len(picture.cells)
    if name == "shuffled":
        return Shuffled(n, size)
    if name == "uniform":
        return Uniform(n)
    if name == "vrb":
        return VRB(n, device=DEVICE, seed=seed)
    if name == "cells":
        return Cells(picture.cells, seed)
    return GroupVRB(picture.cells, device=DEVICE, seed=seed)


# ---- training


def rates_of(schedule: str, highest: float, steps: int) -> Tensor:
    """Return the rate of each step."""
    if schedule == "constant":
        return torch.full((steps,), highest)
    done = torch.arange(steps) / steps
    rise, fall = (done / 0.3).clamp(max=1), ((done - 0.3) / 0.7).clamp(min=0)
    height = torch.where(done < 0.3, 1 - torch.cos(torch.pi * rise), 1 + torch.cos(torch.pi * fall))
    return highest * (0.02 + 0.98 * height / 2)


class Fit:
    """A field, its optimiser and a sampler, trained step by step."""

    def __init__(
        self, name: str, rates: Tensor, seed: int, picture: Picture, settings: Settings
    ) -> None:
        torch.manual_seed(seed)
        self.picture, self.size = picture, min(settings.batch, len(picture.cells))
        self.field = Field(settings).to(DEVICE)
        self.sampler = new_sampler(name, picture, self.size, seed)
        self.learns = hasattr(self.sampler, "update")
        self.rates = rates.to(DEVICE)
        self.rate, self.number = self.rates[0].clone(), torch.zeros_like(self.rates[:1]).long()
        self.optimiser = torch.optim.Adam(
            self.field.parameters(), lr=self.rate, fused=True, capturable=DEVICE == "cuda"
        )
        self.done, self.graph = 0, None
        self.main = torch.cuda.Stream() if DEVICE == "cuda" else None
        self.side = torch.cuda.Stream() if DEVICE == "cuda" and self.learns else None

    def step(self) -> None:
        """Draw, learn which pixels matter, and train; all of it may be captured in a graph."""
        self.rate.copy_(self.rates.index_select(0, self.number)[0])
        self.number += 1
        draw = self.sampler.draw(self.size)
        colours = self.field(self.picture.places[draw.indices])
        losses = (colours - self.picture.colours[draw.indices]).square().mean(1)
        if self.learns:
            self.learn(draw, losses.detach())
        self.optimiser.zero_grad()
        draw.mean(losses).backward()
        self.optimiser.step()
        if self.side is not None:
            torch.cuda.current_stream().wait_stream(self.side)

    def learn(self, draw: Any, losses: Tensor) -> None:
        """Tell the sampler the errors; on a CUDA device beside the backward pass."""
        if self.side is not None:
            self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            self.sampler.update(draw, losses.sqrt())

    def train(self, until: int) -> float:
        """Train up to a step; return the seconds that it took."""
        wait()
        with torch.cuda.stream(self.main):
            self.advance(min(WARM, until))
            if self.main is not None and self.graph is None and self.done == WARM:
                self.graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(self.graph, stream=self.main):
                    self.step()
            wait()
            start = time.perf_counter()
            self.advance(until)
            wait()
            return time.perf_counter() - start

    def advance(self, until: int) -> None:
        """Take all steps up to one, as replays of the graph if there is one."""
        step = self.step if self.graph is None else self.graph.replay
        while self.done < until:
            if isinstance(self.sampler, Shuffled):
                self.sampler.begin(self.done)
            step()
            self.done += 1

    @torch.no_grad()
    def errors(self) -> tuple[Tensor, Tensor]:
        """Return the colours of all pixels, and their mean squared errors."""
        parts = self.picture.places.split(2**16)
        colours = torch.cat([self.field(part) for part in parts])
        return colours, (colours - self.picture.colours).square().mean(1)


def wait() -> None:
    """Wait for the device."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def run(
    name: str, schedule: str, rate: float, seed: int, picture: Picture, settings: Settings
) -> tuple[Rows, Shown]:
    """Train with one sampler, and look at the PSNR 30 times; return a row for each look."""
    rates = rates_of(schedule, rate, settings.steps)
    fit = Fit(name, rates, seed, picture, settings)
    looks = np.unique(np.linspace(0, settings.steps, LOOKS + 1).round().astype(int))
    rows: Rows = []
    seconds = 0.0
    for step in looks.tolist():
        seconds += fit.train(step)
        colours, losses = fit.errors()
        psnr = -10 * float(losses.double().mean().log10())
        rows.append({
            "schedule": schedule, "sampler": name, "seed": seed, "step": step,
            "seconds": round(seconds, 4), "psnr": round(psnr, 4),
        })  # fmt: skip
    shape, chances, gauge = (picture.height, picture.width), None, None
    if fit.learns:
        fit.sampler.check()
        chances = fit.sampler.probabilities().numpy(force=True).reshape(shape)
        gauge = fit.sampler.gauge
    errors = losses.sqrt().numpy(force=True).reshape(shape)
    image = colours.clamp(0, 1).numpy(force=True).reshape(*shape, 3)
    return rows, Shown(image, errors, chances, gauge)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--full", action="store_true", help="as large as a CUDA device is fast")
    parser.add_argument(
        "--image", type=Path, help="a photograph; default: scikit-learn's china.jpg"
    )
    parser.add_argument("--steps", type=int, help=f"default: {SMALL.steps}, full: {FULL.steps}")
    parser.add_argument("--seeds", type=int, help=f"default: {SMALL.seeds}, full: {FULL.seeds}")
    parser.add_argument("--out", type=Path, default=Path("out/fit_image"), help="folder")
    options = parser.parse_args(arguments)
    settings = FULL if options.full else SMALL
    for name in ("steps", "seeds"):
        value = getattr(options, name)
        if value is not None and value < 1:
            parser.error(f"--{name} must be at least 1, got {value}")
        settings = settings._replace(**{name: value or getattr(settings, name)})
    try:
        picture = load_picture(options.image, settings.pixels)
    except OSError as error:
        parser.error(f"--image {options.image} cannot be read as a picture: {error}")
    torch.set_num_threads(1)  # steps are small on a CPU
    warnings.filterwarnings("ignore", "This instance was constructed with capturable")  # WARM steps
    n = len(picture.cells)
    print(
        f"{picture.width} x {picture.height} pixels; {settings.steps} steps of "
        f"{min(settings.batch, n)}, {settings.batch * settings.steps / n:.0f} epochs; "
        f"{settings.layers} x {settings.width} network on {DEVICE}",
        flush=True,
    )

    rows: Rows = []
    shown: dict[str, Shown] = {}
    best = {}
    done, total = 0, len(SCHEDULES) * (len(RATES) + settings.seeds * len(SAMPLERS))
    with Progress("fitting") as progress:
        for schedule in SCHEDULES:
            tried = {}
            for rate in RATES:
                looks, _ = run("shuffled", schedule, rate, TUNING_SEED, picture, settings)
                tried[rate] = levels(looks)[-1]
                progress(done := done + 1, total)
            best[schedule] = max(tried, key=lambda rate: tried[rate])
        for schedule, seed, name in product(SCHEDULES, range(settings.seeds), SAMPLERS):
            looks, last = run(name, schedule, best[schedule], seed, picture, settings)
            rows += looks
            if (schedule, seed) == ("one cycle", 0):
                shown[name] = last
            progress(done := done + 1, total)
    print("highest rates:", ", ".join(f"{schedule} {rate:g}" for schedule, rate in best.items()))
    for name, last in shown.items():
        if last.gauge is not None:
            print(f"{name}, one cycle: {last.gauge}")

    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / "fit_image.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print_summary(rows)
    photograph = picture.colours.numpy(force=True).reshape(picture.height, picture.width, 3)
    draw_picture(rows, photograph, shown, options.out / "fit_image.png")
    print(f"\nrows and picture: {options.out}/fit_image.csv and .png")


if __name__ == "__main__":
    main()
