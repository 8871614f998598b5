"""Third part of the demo: a photograph fitted by a small network, adaptive against shuffled.

The network maps a place in china.jpg, each block of 3 x 3 pixels made one, to its colour: 64 random
Fourier features, two layers of 64, Adam at a constant rate, 1,000 steps of 512 pixels. Pixels come
in shuffled order, or from `GroupVRB` over cells of 8 x 8, which gets the error of each pixel;
importances keep its gradients unbiased. The rate is, of three, the best one for shuffled order, on
a seed that is used for nothing else. PSNR = -10 log10(mean squared error), higher is better.
"""

import functools
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import tombola
from tombola.demo.parts import LOOKS, Pictures, Section, Size, gallery, panel, ratio, spread
from tombola.ledger import Estimate, mean_estimate
from tombola.report.rows import Curves, Row, collect, column, select, shown, speed

__all__ = ["draw_panel", "play", "show", "units"]

METHODS = ("shuffled", "adaptive")
TITLES = ("the photograph, reduced", "where adaptive draws go", *METHODS)
RATES = (3e-3, 1e-2, 3e-2)
TUNING_SEED = 1000
WAVES, WIDTH, BATCH, CELL = 64, 64, 512, 8
LOOKS_TAKEN, LAST = 20, 3  # times that PSNR is measured; how many of the last make the result
DECAYS = 0.9, 0.999  # of Adam's averages

Array = NDArray[np.float32]


class Scene(NamedTuple):
    """Pixels, row by row."""

    places: Array
    colours: Array
    cells: NDArray[np.int64]
    shape: tuple[int, int]


def units(size: Size) -> int:
    """Return the number of times that `play` yields."""
    return len(RATES) + size.seeds * len(METHODS)


def play(size: Size, pictures: Pictures) -> Iterator[list[Row]]:
    """Yield the rows of one fit at a time; put the photograph and both fits into `pictures`."""
    from threadpoolctl import threadpool_limits

    scene = _scene(size.shrink)
    pictures[TITLES[0]] = _as_image(scene, scene.colours)
    tuned: dict[float, float] = {}
    with threadpool_limits(1):  # steps are too small for more
        for rate in RATES:
            rows, _, _ = _fit(scene, "shuffled", TUNING_SEED, rate, size.steps)
            tuned[rate] = float(np.mean([row["psnr"] for row in rows[-LAST:]]))
            yield []
        best = max(tuned, key=lambda rate: tuned[rate])
        for seed in range(size.seeds):
            for method in METHODS if seed % 2 else METHODS[::-1]:
                rows, fitted, chances = _fit(scene, method, seed, best, size.steps)
                if seed == 0:
                    pictures[method] = _as_image(scene, fitted)
                    if method == "adaptive":
                        pictures[TITLES[1]] = chances.reshape(scene.shape)
                common = {"part": "photograph", "data": "china.jpg", "rows": len(scene.places),
                          "rate": best, "seed": seed, "method": method}  # fmt: skip
                yield [common | row for row in rows]


@functools.lru_cache(maxsize=1)
def _scene(shrink: int) -> Scene:
    from sklearn.datasets import load_sample_image

    image = np.asarray(load_sample_image("china.jpg"), dtype=np.float32) / 255
    high, wide = (side // shrink for side in image.shape[:2])
    blocks = image[: high * shrink, : wide * shrink].reshape(high, shrink, wide, shrink, 3)
    down, across = np.divmod(np.arange(high * wide), wide)
    places = (np.stack([down, across], 1) + 0.5) / max(high, wide)
    cells = down // CELL * -(-wide // CELL) + across // CELL
    colours = blocks.mean(axis=(1, 3)).reshape(-1, 3)
    return Scene(places.astype(np.float32), colours, cells, (high, wide))


def _as_image(scene: Scene, colours: Array) -> NDArray[np.float64]:
    return colours.clip(0, 1).reshape(*scene.shape, 3).astype(np.float64)


class Network:
    """Two hidden layers on features of places, and Adam."""

    def __init__(self, random: np.random.Generator, rate: float) -> None:
        self.matrices: list[Array] = [
            (np.sqrt(2 / before) * random.normal(size=(before, after))).astype(np.float32)
            for before, after in pairwise([2 * WAVES, WIDTH, WIDTH, 3])
        ]
        self.biases = [np.zeros(matrix.shape[1], dtype=np.float32) for matrix in self.matrices]
        self.means, self.squares = (
            [np.zeros_like(it) for it in (*self.matrices, *self.biases)] for _ in range(2)
        )
        self.rate, self.steps = rate, 0

    def layers(self, features: Array) -> list[Array]:
        """Return the values of all layers; the last are the colours."""
        values = [features]
        for k, (matrix, bias) in enumerate(zip(self.matrices, self.biases, strict=True)):
            out = values[-1] @ matrix + bias
            values.append(np.maximum(out, 0) if k < len(self.biases) - 1 else out)
        return values

    def step(self, values: list[Array], slopes: Array) -> None:
        """Take a step of Adam, given all layers and the slopes of the loss in the colours."""
        by_matrix: list[Array] = []
        by_bias: list[Array] = []
        for k in reversed(range(len(self.matrices))):
            by_matrix.insert(0, values[k].T @ slopes)
            by_bias.insert(0, slopes.sum(axis=0))
            if k > 0:
                slopes = (slopes @ self.matrices[k].T) * (values[k] > 0)
        self.steps += 1
        fade, slow = DECAYS
        scale = self.rate * np.sqrt(1 - slow**self.steps) / (1 - fade**self.steps)
        for it, gradient, mean, square in zip(
            (*self.matrices, *self.biases), (*by_matrix, *by_bias), self.means, self.squares,
            strict=True,
        ):  # fmt: skip
            mean += (1 - fade) * (gradient - mean)
            square += (1 - slow) * (gradient**2 - square)
            it -= scale * mean / (np.sqrt(square) + 1e-8)


def _fit(
    scene: Scene, method: str, seed: int, rate: float, steps: int
) -> tuple[list[Row], Array, NDArray[np.float64]]:
    """Return a row for each look, and the colours and probabilities of pixels at the end."""
    random = np.random.default_rng(seed)
    phases = scene.places @ (20 * np.pi * random.normal(size=(2, WAVES))).astype(np.float32)
    features = np.concatenate([np.cos(phases), np.sin(phases)], axis=1)  # random Fourier features
    network = Network(random, rate)
    n = len(features)
    adapts = method == "adaptive"
    sampler = tombola.GroupVRB(scene.cells, seed=seed) if adapts else tombola.Shuffle(n, seed=seed)
    looks = set(np.linspace(0, steps, LOOKS_TAKEN + 1).round().astype(int).tolist()[1:])
    rows: list[Row] = []
    seconds = 0.0
    for step in range(1, steps + 1):
        start = time.perf_counter()
        draw = sampler.draw(min(BATCH, n))
        values = network.layers(features[draw.indices])
        errors = values[-1] - scene.colours[draw.indices]
        if adapts:
            sampler.update(draw, np.sqrt((errors**2).mean(axis=1), dtype=np.float64))
        share = (2 / errors.size * draw.importances).astype(np.float32)
        network.step(values, errors * share[:, None])
        seconds += time.perf_counter() - start
        if step in looks:
            colours = network.layers(features)[-1]
            psnr = -10 * np.log10(np.square(colours - scene.colours, dtype=np.float64).mean())
            rows.append({"step": step, "psnr": float(psnr), "seconds": seconds})
    return rows, colours, sampler.probabilities()


# --- results ------------------------------------------------------------------------------------


def show(rows: list[Row], pictures: Pictures) -> Section:
    """Return the section: PSNR after the same steps, and steps to the same PSNR."""
    steps = max(column(rows, "step"))
    seconds = {method: column(rows, "seconds", method=method, step=steps) for method in METHODS}
    marks, shuffled = _curves(rows, "shuffled")
    _, adaptive = _curves(rows, "adaptive")
    last = {
        method: [float(curve[-LAST:].mean()) for curve in curves.values()]
        for method, curves in (("shuffled", shuffled), ("adaptive", adaptive))
    }
    gain = mean_estimate(np.subtract(last["adaptive"], last["shuffled"]))
    longer = ratio(seconds["adaptive"], seconds["shuffled"])
    came, fewer = speed(marks, adaptive, shuffled, upwards=True)
    lead, gained = _lead(gain, fewer, longer)
    section = Section(f"A photograph, after the same {steps:,} steps", lead, gained=gained)
    if pictures:
        caption = (
            "The photograph, how often a pixel is drawn (brighter: more often), and two fits of "
            f"the same network after {steps:,} steps."
        )
        section.figure(gallery(pictures, TITLES), caption)
    caption = "PSNR on the way: the mean over seeds, and each seed; higher is better."
    section.figure(panel(draw_panel, rows), caption)
    section.notes = (
        f"A small network from places to colours, in numpy, on {rows[0]['rows']:,} pixels of "
        "scikit-learn's china.jpg. The rival is the same network, start and rate (the best of "
        f"three for the rival) with pixels in shuffled order; ours draws by `GroupVRB` over cells "
        f"of {CELL} x {CELL} pixels. {len(last['shuffled'])} seeds. "
        "The same on a GPU, with a larger network and all pixels: `examples/fit_image.py --full`."
    )
    section.table(
        f"PSNR (mean of the last {LAST} looks) and seconds: means over seeds, 95% intervals",
        ["pixels", "PSNR, dB", "seconds"],
        [
            [method, shown(mean_estimate(last[method]), 2), spread(seconds[method], 2)]
            for method in METHODS
        ],
    )
    section.judge(
        "Adaptive draws fit the photograph better than shuffled order in the same steps.",
        gain,
        f"Gain: {shown(gain, 2)} dB.",
        none=0.0,
    )
    section.judge(
        "Adaptive draws need fewer steps to the last PSNR of shuffled order.",
        fewer,
        f"Times fewer: {shown(fewer, 2, zero='not reached')}."
        if np.isfinite(came)
        else "They do not get there.",
    )
    return section


def draw_panel(axis: Any, rows: list[Row]) -> None:
    """Draw PSNR against steps."""
    for method in METHODS:
        marks, curves = _curves(rows, method)
        colour, line, _ = LOOKS[method]
        for curve in curves.values():
            axis.plot(marks, curve, line, color=colour, linewidth=0.7, alpha=0.4)
        mean = np.mean(list(curves.values()), axis=0)
        axis.plot(marks, mean, line, color=colour, linewidth=1.7, label=method)
    axis.set(xlabel="steps", ylabel="PSNR, dB", title="a photograph, fitted")


def _curves(rows: list[Row], method: str) -> tuple[NDArray[np.float64], Curves]:
    """Return the steps, and PSNR at each of them by seed."""
    return collect(select(rows, method=method), "step", "psnr", ["seed"])


def _lead(gain: Estimate, fewer: Estimate, longer: Estimate) -> tuple[str, bool]:
    """Return what happened in words, and whether something was gained: fewer steps."""
    each = f", each {longer.value:.1f} times as long" if longer.low > 1 else ""
    if fewer.low > 1:
        less = f"{fewer.value:.1f} times fewer steps"
        return f"fitted a photograph in {less} than shuffling{each}", True
    how = "no better than shuffling"
    if gain.low > 0:
        how = f"hardly better than shuffling ({gain.value:.2f} dB)"
    elif gain.high < 0:
        how = "worse than shuffling"
    return f"fitted a photograph {how} in as many steps{each}", False
