"""Third part of the demo: a diffusion model of digits, adaptive timesteps against uniform ones.

A small network in numpy learns to remove noise from scikit-learn's digits, 8 x 8 pixels: 1,000
timesteps, cosine schedule, v-prediction, two layers of 128, Adam at a constant rate. It is trained
for likelihood: the error at timestep t counts with its weight in the variational bound, which is
steep in t. Timesteps are drawn uniformly, as usual, or by `VRB`, which gets the weighted loss of
each example; importances keep the objective the same. The rate is, of three, the best one for
uniform timesteps, on a seed that is used for nothing else. The score is the bound on unseen digits
in bits per dimension, of averaged weights and without its decoder term; lower is better.
"""

import functools
import math
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import tombola
from tombola.demo.parts import LOOKS, Pictures, Section, Size, panel, ratio, spread, times
from tombola.ledger import mean_estimate
from tombola.report.rows import Curves, Row, collect, column, select, shown, speed

__all__ = ["draw_panel", "play", "show", "units"]

METHODS = ("uniform", "adaptive")
RATES = (1e-3, 3e-3, 1e-2)
TUNING_SEED = 1000
TIMESTEPS, WAVES, WIDTH, BATCH, TRAIN = 1000, 32, 128, 128, 1500
TENTH = TIMESTEPS // 10
MARKS, FIRST = 32, 50  # scores on the way, and the step of the first one
ROUNDS = 2  # losses of each timestep in a score
DECAYS = 0.9, 0.999  # of Adam's averages
SLOW = 0.998  # of the averaged weights, once as many steps are done

Array = NDArray[np.float32]


class Noise(NamedTuple):
    """What each timestep does to an example, and what its error counts."""

    signal: Array
    spread: Array
    weights: NDArray[np.float64]  # their mean over timesteps gives the bound in bits
    codes: Array  # sines and cosines of the timestep

    def add(self, x: Array, t: NDArray[np.int64], noise: Array) -> tuple[Array, Array]:
        """Return noisy examples with the codes of their timesteps, and the v to predict."""
        signal, spread = self.signal[t, None], self.spread[t, None]
        seen = np.concatenate([signal * x + spread * noise, self.codes[t]], axis=1)
        return seen, signal * noise - spread * x


def units(size: Size) -> int:
    """Return the number of times that `play` yields."""
    return len(RATES) + size.seeds * len(METHODS)


def play(size: Size, pictures: Pictures) -> Iterator[list[Row]]:
    """Yield the rows of one training at a time; there are no pictures."""
    from threadpoolctl import threadpool_limits

    tuned: dict[float, float] = {}
    with threadpool_limits(1):  # steps are too small for more
        _train("adaptive", TUNING_SEED, RATES[0], 2)  # compiles
        for rate in RATES:
            tuned[rate] = float(_train("uniform", TUNING_SEED, rate, size.steps)[-1]["bits"])
            yield []
        best = min(tuned, key=lambda rate: tuned[rate])
        for seed in range(size.seeds):
            for method in METHODS if seed % 2 else METHODS[::-1]:
                common = {"part": "timesteps", "data": "digits", "rows": TRAIN,
                          "rate": best, "seed": seed, "method": method}  # fmt: skip
                yield [common | row for row in _train(method, seed, best, size.steps)]


@functools.lru_cache(maxsize=1)
def _digits() -> tuple[Array, Array]:
    """Return digits to train on, and others to score on, from -1 to 1."""
    from sklearn.datasets import load_digits

    x = (load_digits().data / 8 - 1).astype(np.float32)
    return x[:TRAIN], x[TRAIN:]


@functools.lru_cache(maxsize=1)
def _noise() -> Noise:
    """Return the cosine schedule of Nichol and Dhariwal (2021)."""
    angles = (np.arange(TIMESTEPS + 1) / TIMESTEPS + 0.008) / 1.008 * (np.pi / 2)
    kept = np.cos(angles) ** 2
    beta = np.minimum(1 - kept[1:] / kept[:-1], 0.999)
    bar = np.cumprod(1 - beta)
    before = bar[:-1]
    weights = np.zeros(TIMESTEPS)  # of the error of v; t = 0, the decoder term, is left out
    weights[1:] = beta[1:] / (2 * (1 - beta[1:]) * (1 - before)) * bar[1:]
    waves = np.exp(np.linspace(0, -math.log(1e4), WAVES, endpoint=False))
    phases = np.arange(TIMESTEPS)[:, None] * waves
    codes = np.concatenate([np.sin(phases), np.cos(phases)], axis=1)
    return Noise(
        np.sqrt(bar).astype(np.float32), np.sqrt(1 - bar).astype(np.float32),
        weights * TIMESTEPS / math.log(2), codes.astype(np.float32),
    )  # fmt: skip


class Network:
    """Two hidden layers with x sigmoid(x), Adam, and an average of all weights."""

    def __init__(self, random: np.random.Generator, rate: float, sizes: tuple[int, ...]) -> None:
        matrices = [
            random.uniform(-1, 1, size=shape).astype(np.float32) / np.float32(np.sqrt(shape[0]))
            for shape in pairwise(sizes)
        ]
        self.depth = len(matrices)
        self.weights = [*matrices, *(np.zeros(it.shape[1], np.float32) for it in matrices)]
        self.averages = [it.copy() for it in self.weights]
        self.means, self.squares = ([np.zeros_like(it) for it in self.weights] for _ in range(2))
        self.rate, self.steps = rate, 0

    def layers(self, inputs: Array, weights: list[Array]) -> tuple[list[Array], list[Array]]:
        """Return the inputs of all layers and the output, and the slopes of the activations."""
        values, slopes = [inputs], []
        for k in range(self.depth):
            out = values[-1] @ weights[k] + weights[self.depth + k]
            if k < self.depth - 1:
                gate = 1 / (1 + np.exp(-out))
                slopes.append(gate * (1 + out * (1 - gate)))
                out = out * gate
            values.append(out)
        return values, slopes

    def step(self, values: list[Array], slopes: list[Array], errors: Array) -> None:
        """Take a step of Adam, given all layers and the gradient at the output."""
        gradients = list(self.weights)
        for k in reversed(range(self.depth)):
            gradients[k], gradients[self.depth + k] = values[k].T @ errors, errors.sum(axis=0)
            if k > 0:
                errors = (errors @ self.weights[k].T) * slopes[k - 1]
        self.steps += 1
        fade, slow = DECAYS
        scale = self.rate * np.sqrt(1 - slow**self.steps) / (1 - fade**self.steps)
        share = 1 - min(SLOW, 1 - 10 / (self.steps + 10))
        for it, gradient, mean, square, average in zip(
            self.weights, gradients, self.means, self.squares, self.averages, strict=True
        ):
            mean += (1 - fade) * (gradient - mean)
            square += (1 - slow) * (gradient**2 - square)
            it -= scale * mean / (np.sqrt(square) + 1e-8)
            average += share * (it - average)


def _train(method: str, seed: int, rate: float, steps: int) -> list[Row]:
    """Return a row for each score on the way."""
    random, noise, (digits, _) = np.random.default_rng(seed), _noise(), _digits()
    pixels = digits.shape[1]
    network = Network(random, rate, (pixels + 2 * WAVES, WIDTH, WIDTH, pixels))
    kind = tombola.VRB if method == "adaptive" else tombola.Uniform
    sampler = kind(TIMESTEPS, seed=seed)
    marks = set(np.geomspace(min(FIRST, steps), steps, MARKS).round().astype(int).tolist())
    rows: list[Row] = []
    seconds = 0.0
    for step in range(1, steps + 1):
        start = time.perf_counter()
        x = digits[random.integers(TRAIN, size=BATCH)]
        draw = sampler.draw(BATCH)
        weights = noise.weights[draw.indices]
        seen, v = noise.add(x, draw.indices, random.standard_normal(x.shape, dtype=np.float32))
        values, slopes = network.layers(seen, network.weights)
        errors = values[-1] - v
        share = 2 / errors.size * weights * draw.importances
        network.step(values, slopes, errors * share.astype(np.float32)[:, None])
        if method == "adaptive":
            sampler.update(draw, weights * np.square(errors, dtype=np.float64).mean(axis=1))
        seconds += time.perf_counter() - start
        if step in marks:
            bits = _bits(network)
            tenths = sampler.probabilities().reshape(10, TENTH).sum(axis=1)
            rows.append({
                "step": step, "bits": float(bits.mean()), "seconds": seconds,
                "largest": float(bits.max() / bits.sum()), "first_tenth": float(tenths[0]),
            })  # fmt: skip
    return rows


def _bits(network: Network) -> NDArray[np.float64]:
    """Return the weighted loss of each timestep on unseen digits: their mean is the score."""
    random, noise, (_, digits) = np.random.default_rng(0), _noise(), _digits()
    total = np.zeros(TIMESTEPS)
    for _ in range(ROUNDS):
        x = digits[random.integers(len(digits), size=TIMESTEPS)]
        drawn = random.standard_normal(x.shape, dtype=np.float32)
        seen, v = noise.add(x, np.arange(TIMESTEPS), drawn)
        found = network.layers(seen, network.averages)[0][-1]
        total += noise.weights * np.square(found - v, dtype=np.float64).mean(axis=1)
    return total / ROUNDS


# --- results ------------------------------------------------------------------------------------


def show(rows: list[Row], pictures: Pictures) -> Section:
    """Return the section: steps and seconds to the same score."""
    steps = max(column(rows, "step"))
    marks, uniform = _curves(rows, "uniform")
    _, adaptive = _curves(rows, "adaptive")
    seconds = {method: column(rows, "seconds", method=method, step=steps) for method in METHODS}
    last = {method: column(rows, "bits", method=method, step=steps) for method in METHODS}
    came, fewer = speed(marks, adaptive, uniform, upwards=False)
    longer = ratio(seconds["adaptive"], seconds["uniform"])
    gained = fewer.low > 1
    what = f"{fewer.value:.1f} times fewer steps" if gained else "no fewer steps"
    section = Section(
        "A diffusion model of digits, trained for likelihood",
        f"trained a diffusion model for likelihood with {what} than uniform timesteps",
        gained=gained,
    )
    caption = (
        "The variational bound on unseen digits on the way: the mean over seeds, and each seed; "
        "lower is better."
    )
    section.figure(panel(draw_panel, rows), caption)
    largest = max(column(rows, "largest", step=steps))
    first = np.mean(column(rows, "first_tenth", method="adaptive", step=steps))
    section.notes = (
        f"A small network in numpy, {TIMESTEPS:,} timesteps (cosine schedule, v-prediction), "
        f"batches of {BATCH}, on {rows[0]['rows']:,} of scikit-learn's digits. The error of each "
        "timestep counts with its weight in the variational bound, so a few timesteps cause most "
        "of the noise. The rival is the same network, start and rate (the best of three for the "
        "rival) with uniform timesteps; ours draws by `VRB(1000)`, at the end "
        f"{first:.0%} from the first tenth of the timesteps. {len(uniform)} seeds. No timestep has "
        f"more than {largest:.0%} of the score. For the unweighted loss that most image models "
        "use, nothing is gained."
    )
    section.table(
        f"Score after {steps:,} steps, and seconds: means over seeds, 95% intervals",
        ["timesteps", "bits per dimension", "seconds"],
        [
            [method, shown(mean_estimate(last[method]), 2), spread(seconds[method], 2)]
            for method in METHODS
        ],
    )
    section.judge(
        "Adaptive timesteps need fewer steps to the last score of uniform ones.",
        fewer,
        f"Times fewer: {shown(fewer, 2, zero='not reached')}; each step takes {times(longer)} "
        "times as long."
        if np.isfinite(came)
        else "They do not get there.",
    )
    return section


def draw_panel(axis: Any, rows: list[Row]) -> None:
    """Draw the score against steps."""
    for method in METHODS:
        marks, curves = _curves(rows, method)
        colour, line, _ = LOOKS[method]
        for curve in curves.values():
            axis.plot(marks, curve, line, color=colour, linewidth=0.7, alpha=0.4)
        mean = np.mean(list(curves.values()), axis=0)
        axis.plot(marks, mean, line, color=colour, linewidth=1.7, label=method)
    axis.set(xlabel="steps", ylabel="bits per dimension", title="a diffusion model", xscale="log")


def _curves(rows: list[Row], method: str) -> tuple[NDArray[np.float64], Curves]:
    """Return the steps, and the score at each of them by seed."""
    return collect(select(rows, method=method), "step", "bits", ["seed"])
