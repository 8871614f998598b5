"""Timesteps of a diffusion model trained for likelihood: how many steps do adaptive draws save?

    python examples/diffusion.py --quick             # digits on a CPU, less than two minutes
    python examples/diffusion.py                     # tuned rates, three seeds
    python examples/diffusion.py --full --data FILE  # CIFAR-10 and text on a CUDA device

--setting does one of the settings: "v" and "noise" are trained for likelihood, so the error at
timestep t counts with its weight in the variational bound, which is steep in t. "unweighted" is
noise with a weight of 1 for all t. "text" is a masked diffusion language model (MDLM): each
character is masked with probability (t + 1) / T, and the bound has the cross entropies of masked
characters over that probability. All ways to draw t have importances, so all minimise the same
objective:

    uniform        any timestep
    stratified     one from each of as many strata as the batch has examples
    second moment  in proportion to the root mean square of the last ten losses of t, once all have
                   ten (loss second moment of improved-diffusion; every loss of a batch counts)
    fixed w        in proportion to the weight of the noise's error, the usual guess
    fixed output   in proportion to the weight of the output's error; if noise is predicted, that
                   is the same; of text, to T / (t + 1), at most the length of a sequence
    vrb            tombola.torch.TimestepSampler, fed with losses
    vrb gradient   the same, fed with the norm of the loss gradient at the output

The score is the objective on unseen data, of averaged parameters: the variational bound in bits per
dimension without its decoder term (t = 0) and its prior term, the whole bound in bits per character
of text, or the unweighted error. A setting in which one timestep has more than a fifth of the score
says little about training, so it is marked.

On digits, samples (DDIM) of the last averaged parameters are judged, too. The inception score is
that of a logistic regression on real digits, between 1 and 10: is each sample surely one of the
digits, and are all digits there? The Frechet distance is that of pixels to unseen digits.

What is compared is the step at which a run passes the last score that uniform timesteps have on the
same seed. Rates are constant after a warm-up. Each way has the one of three with which it is there
first (uniform: with the best last score) on a seed that is used for nothing else; with --quick and
--full all have the same one.

FILE is an .npz with CIFAR-10 as JPEG images: image i is ``blob[off[i]:off[i+1]]``, and ``tr`` says
which are for training. The text is the source of the standard library's modules that are one file
of the running Python, about three million characters: comments, docstrings and code.
"""

import argparse
import csv
import io
import math
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import (
    avg_pool2d,
    cross_entropy,
    interpolate,
    scaled_dot_product_attention,
    silu,
)

from tombola.torch import TimestepSampler

T = 1000
LENGTH, LETTERS = 128, 64  # of a sequence of text; a mask is one letter more
LAYERS, WIDTH, HEADS = 6, 256, 8  # of the network for text
SAMPLES, DENOISINGS = 500, 100  # to judge samples of digits
WAYS = (
    "uniform", "stratified", "second moment", "fixed w", "fixed output", "vrb", "vrb gradient",
)  # fmt: skip
FEW = ("uniform", "stratified", "second moment", "fixed output", "vrb")  # with --quick and --full
RATES = (1e-3, 3e-3, 6e-3)
TUNING_SEED = 1000
MARKS = 20
ROUNDS = 6  # losses of each timestep in a score
TURNS, TIMED = 12, 25  # to time a step: turns of so many steps
COLUMNS = ("setting", "way", "rate", "seed", "step", "score", "seconds", "inception", "frechet")

Rows = list[dict[str, Any]]


class Setting(NamedTuple):
    """What is trained, and for how long."""

    data: str  # "digits", or a file of prepared images or text
    prediction: str  # "v", "noise", or "letters" of text
    schedule: str  # "cosine" or "linear"
    steps: int
    batch: int
    weighted: bool = True

    @property
    def name(self) -> str:
        """The name in tables."""
        name = f"{Path(self.data).stem}, {self.prediction}, {self.schedule}"
        return name if self.weighted else f"{name}, unweighted"


class Job(NamedTuple):
    """One run."""

    setting: Setting
    way: str
    rate: float
    seed: int
    device: str


# ---- the objective


class Objective:
    """Losses by timestep, in bits per dimension: their mean over timesteps is the bound.

    Those without weights are squared errors.
    """

    def __init__(self, setting: Setting, device: str) -> None:
        if setting.schedule == "cosine":
            s = torch.arange(T + 1, dtype=torch.float64) / T
            bar = torch.cos((s + 0.008) / 1.008 * math.pi / 2) ** 2
            beta = (1 - bar[1:] / bar[:-1]).clamp(max=0.999)
        else:
            beta = torch.linspace(1e-4, 0.02, T, dtype=torch.float64)
        bar = torch.cumprod(1 - beta, 0)
        before = torch.cat([torch.ones(1, dtype=torch.float64), bar[:-1]])
        weight = beta / (2 * (1 - beta) * (1 - before)) * T / math.log(2)
        weight[0] = 0.0  # the decoder term is left out
        self.predicts_v = setting.prediction == "v"
        self.of_noise = weight.float().to(device)
        of_output = weight * bar if self.predicts_v else weight
        self.of_output = of_output.float().to(device)
        if not setting.weighted:
            self.of_output = torch.ones_like(self.of_output)
        self.bar = bar.float().to(device)

    def losses(self, model: nn.Module, x: Tensor, t: Tensor, noise: Tensor) -> Tensor:
        """Return the weighted loss of each example."""
        bar = self.bar[t].reshape(-1, *[1] * (x.ndim - 1))
        signal, spread = bar.sqrt(), (1 - bar).sqrt()
        with torch.autocast(x.device.type, torch.bfloat16, enabled=x.ndim == 4):
            output = model(signal * x + spread * noise, t)
        target = signal * noise - spread * x if self.predicts_v else noise
        return self.of_output[t] * (output.float() - target).square().flatten(1).mean(1)

    @torch.no_grad()
    def sampled(self, model: nn.Module, x: Tensor) -> Tensor:
        """Return examples made from noise, by DDIM."""
        path = torch.linspace(T - 1, 1, min(DENOISINGS, T - 1), device=x.device).long()
        levels = torch.cat([self.bar[path], torch.ones(1, device=x.device)])
        for t, bar, after in zip(path, levels, levels[1:], strict=False):
            signal, spread = bar.sqrt(), (1 - bar).sqrt()
            error = spread * model(x, t.expand(len(x)))
            clean = signal * x - error if self.predicts_v else (x - error) / signal
            clean = clean.clamp(-1, 1)
            noise = (x - signal * clean) / spread
            x = after.sqrt() * clean + (1 - after).sqrt() * noise
        return x


class Masked:
    """Losses of text by timestep, in bits per character: their mean is the bound."""

    def __init__(self, device: str) -> None:
        self.share = torch.arange(1, T + 1, device=device) / T
        # below one masked letter in a sequence, losses are rarer and not smaller
        self.of_noise = self.of_output = 1 / self.share.clamp(min=1 / LENGTH)

    def losses(self, model: nn.Module, x: Tensor, t: Tensor, noise: Tensor) -> Tensor:
        """Return the loss of each sequence; the masked letters are those with the least noise."""
        masked = torch.special.ndtr(noise) < self.share[t][:, None]
        with torch.autocast(x.device.type, torch.bfloat16):
            output = model(x.masked_fill(masked, LETTERS), t)
        surprise = cross_entropy(output.float().transpose(1, 2), x, reduction="none")
        return (surprise * masked).mean(1) / (self.share[t] * math.log(2))


# ---- ways to draw timesteps


class Weighted:
    """Timesteps in proportion to weights."""

    def __init__(self, weights: Tensor) -> None:
        self.weights = weights

    def chances(self) -> Tensor:
        """Return the distribution, with a thousandth uniform."""
        return 0.999 * self.weights / self.weights.sum() + 0.001 / T

    def sample(self, size: int, device: str) -> tuple[Tensor, Tensor]:
        """Return timesteps and their importances."""
        chances = self.chances().double()
        ends = chances.cumsum(0)
        places = torch.rand(size, dtype=torch.float64, device=device) * ends[-1]
        t = torch.searchsorted(ends, places, right=True).clamp_(max=T - 1)
        return t, (1 / (T * chances[t])).float()

    def update_with_local_losses(self, t: Tensor, losses: Tensor) -> None:
        """Learn nothing."""


class Uniform(Weighted):
    """Any timestep, or one from each stratum."""

    def __init__(self, stratified: bool) -> None:
        self.stratified = stratified

    def sample(self, size: int, device: str) -> tuple[Tensor, Tensor]:
        """Return timesteps and their importances."""
        if not self.stratified:
            return torch.randint(T, (size,), device=device), torch.ones(size, device=device)
        places = (torch.arange(size, device=device) + torch.rand(size, device=device)) / size
        return (places * T).long().clamp_(max=T - 1), torch.ones(size, device=device)


class SecondMoment(Weighted):
    """In proportion to the root mean square of the last ten losses."""

    KEPT = 10

    def __init__(self, device: str) -> None:
        self.last = torch.zeros(T, self.KEPT, device=device)
        self.counts = torch.zeros(T, dtype=torch.int64, device=device)

    def chances(self) -> Tensor:
        """Return the distribution: uniform until all timesteps have ten losses."""
        self.weights = self.last.square().mean(1).sqrt() + 1e-30
        return torch.where(self.counts.min() >= self.KEPT, super().chances(), 1 / T)

    def update_with_local_losses(self, t: Tensor, losses: Tensor) -> None:
        """Keep every loss, also those of a timestep that occurs several times."""
        t, order = t.sort(stable=True)
        added = torch.zeros_like(self.counts).scatter_add_(0, t, torch.ones_like(t))
        first = added.cumsum(0) - added
        turn = torch.arange(len(t), device=t.device) - first[t]
        slots = (self.counts[t] + turn) % self.KEPT
        current = turn >= added[t] - self.KEPT
        kept = torch.where(current, losses[order], self.last[t, slots])
        # of the same slot, only the latest loss may be written: the others repeat it
        latest = turn + (added[t] - 1 - turn) // self.KEPT * self.KEPT + first[t]
        self.last[t, slots] = kept[latest]
        self.counts += added


def make(way: str, objective: Objective | Masked, seed: int, device: str) -> Any:
    """Return a way to draw timesteps."""
    if way.startswith("vrb"):
        return TimestepSampler(T, device=device, seed=seed)
    if way == "second moment":
        return SecondMoment(device)
    if way.startswith("fixed"):
        return Weighted(objective.of_noise if way == "fixed w" else objective.of_output)
    return Uniform(way == "stratified")


# ---- networks


def embedding(t: Tensor, size: int) -> Tensor:
    """Return sines and cosines of timesteps."""
    frequencies = torch.exp(torch.arange(size // 2, device=t.device) * (-math.log(1e4) * 2 / size))
    angles = t[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], 1)


class Dense(nn.Module):
    """A network for 8 x 8 digits."""

    def __init__(self, pixels: int = 64, width: int = 256) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Linear(2 * pixels, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(),
            nn.Linear(width, width), nn.SiLU(), nn.Linear(width, pixels),
        )  # fmt: skip

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        """Return noise or v."""
        output: Tensor = self.inner(torch.cat([x, embedding(t, x.shape[1])], 1))
        return output


class Block(nn.Module):
    """Two convolutions with the timestep between them, and perhaps attention."""

    def __init__(self, inputs: int, outputs: int, width: int, attends: bool = False) -> None:
        super().__init__()
        self.before, self.after = nn.GroupNorm(8, inputs), nn.GroupNorm(8, outputs)
        self.first = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.second = zeroed(nn.Conv2d(outputs, outputs, 3, padding=1))
        self.timestep = nn.Linear(width, 2 * outputs)
        self.skip = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)
        self.attention = Attention(outputs) if attends else nn.Identity()

    def forward(self, x: Tensor, code: Tensor) -> Tensor:
        """Return features."""
        scale, shift = self.timestep(code)[:, :, None, None].chunk(2, 1)
        h = self.after(self.first(silu(self.before(x)))) * (1 + scale) + shift
        output: Tensor = self.attention(self.skip(x) + self.second(silu(h)))
        return output


class Attention(nn.Module):
    """Four heads over all pixels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(8, channels)
        self.inner = nn.Conv2d(channels, 3 * channels, 1)
        self.outer = zeroed(nn.Conv2d(channels, channels, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Return features."""
        parts = self.inner(self.norm(x)).flatten(2).unflatten(1, (3, 4, -1)).transpose(-1, -2)
        mixed = scaled_dot_product_attention(*parts.unbind(1))
        output: Tensor = x + self.outer(mixed.transpose(-1, -2).reshape(x.shape))
        return output


def zeroed(layer: nn.Conv2d) -> nn.Conv2d:
    """Return a layer whose output is 0 at first."""
    for part in layer.parameters():
        nn.init.zeros_(part)
    return layer


class UNet(nn.Module):
    """A small U-Net for images of 32 x 32."""

    def __init__(self, channels: int = 32, width: int = 128) -> None:
        super().__init__()
        c = self.channels = channels
        self.code = nn.Sequential(
            nn.Linear(c, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU()
        )
        self.enter = nn.Conv2d(3, c, 3, padding=1)
        self.down = nn.ModuleList(
            [Block(c, c, width), Block(c, 2 * c, width, True), Block(2 * c, 2 * c, width)]
        )
        self.middle = Block(2 * c, 2 * c, width, True)
        self.up = nn.ModuleList(
            [Block(4 * c, 2 * c, width), Block(4 * c, c, width, True), Block(2 * c, c, width)]
        )
        self.leave = nn.Sequential(
            nn.GroupNorm(8, c), nn.SiLU(), zeroed(nn.Conv2d(c, 3, 3, padding=1))
        )

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        """Return noise or v."""
        code = self.code(embedding(t, self.channels))
        first = self.down[0](self.enter(x), code)
        second = self.down[1](avg_pool2d(first, 2), code)
        third = self.down[2](avg_pool2d(second, 2), code)
        h = self.up[0](torch.cat([self.middle(third, code), third], 1), code)
        h = self.up[1](torch.cat([interpolate(h, scale_factor=2.0), second], 1), code)
        h = self.up[2](torch.cat([interpolate(h, scale_factor=2.0), first], 1), code)
        output: Tensor = self.leave(h)
        return output


class Transformer(nn.Module):
    """A small encoder of text; how much is masked says the timestep."""

    def __init__(self) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(LETTERS + 1, WIDTH), nn.Embedding(LENGTH, WIDTH)
        layers = [
            nn.TransformerEncoderLayer(
                WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True
            )
            for _ in range(LAYERS)
        ]
        self.inner = nn.Sequential(*layers, nn.LayerNorm(WIDTH), nn.Linear(WIDTH, LETTERS))

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        """Return the logits of all letters, at each place."""
        output: Tensor = self.inner(self.letters(x) + self.places.weight)
        return output


# ---- data


def load(data: str, device: str) -> tuple[Tensor, Tensor]:
    """Return training and test examples: digits from -1 to 1, images as bytes, text as numbers."""
    if data == "digits":
        from sklearn.datasets import load_digits

        x = torch.tensor(load_digits().data / 8 - 1, dtype=torch.float32, device=device)
        return x[:1500], x[1500:]
    with np.load(data) as arrays:
        return tuple(torch.from_numpy(arrays[name]).to(device) for name in ("train", "test"))


def prepare(file: Path, most: int, folder: str) -> str:
    """Decode CIFAR-10 once, into a file that all runs read."""
    with np.load(file) as arrays:
        blob, ends, train = arrays["blob"], arrays["off"], arrays["tr"].astype(bool)
    parts = {}
    for name, which, count in (("train", train, most), ("test", ~train, min(5000, most))):
        chosen = np.random.default_rng(0).permutation(np.flatnonzero(which))[:count]
        pixels = np.stack([decoded(blob[ends[i] : ends[i + 1]]) for i in chosen])
        parts[name] = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
    path = f"{folder}/cifar-10.npz"
    np.savez(path, **parts)
    return path


def decoded(jpeg: np.ndarray) -> np.ndarray:
    """Return an image of shape (32, 32, 3)."""
    try:
        from PIL import Image
    except ImportError:
        from torchvision.io import ImageReadMode, decode_jpeg

        image = decode_jpeg(torch.from_numpy(jpeg.copy()), ImageReadMode.RGB)
        return image.permute(1, 2, 0).numpy()
    return np.asarray(Image.open(io.BytesIO(jpeg.tobytes())).convert("RGB"))


def prepare_text(most: int, folder: str) -> str:
    """Cut the source of the standard library into sequences, once."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("[!_]*.py"))
    words = " ".join(file.read_text("utf-8", "ignore") for file in files).split()
    codes = np.frombuffer(" ".join(words).encode("ascii", "ignore"), dtype=np.uint8)
    letters = np.where(codes < 96, codes, codes - 32) % LETTERS  # without case
    cut = letters[: len(letters) // LENGTH * LENGTH].reshape(-1, LENGTH).astype(np.int64)
    cut = np.random.default_rng(0).permutation(cut)
    path = f"{folder}/text.npz"
    np.savez(path, train=cut[5000:][:most], test=cut[: min(5000, most)])
    return path


def scaled(x: Tensor) -> Tensor:
    """Return examples from -1 to 1."""
    if x.dtype == torch.uint8:
        return (x.float() / 127.5 - 1).contiguous(memory_format=torch.channels_last)
    return x


# ---- training


class Training:
    """A run, step by step."""

    def __init__(self, job: Job) -> None:
        self.job, device = job, job.device
        torch.backends.cudnn.benchmark = True
        torch.manual_seed(job.seed)
        self.train, self.test = load(job.setting.data, device)
        letters = job.setting.prediction == "letters"
        self.objective = Masked(device) if letters else Objective(job.setting, device)
        self.timesteps = make(job.way, self.objective, job.seed, device)
        network = Transformer if letters else UNet if self.train.ndim == 4 else Dense
        self.model, self.average = network().to(device), network().to(device)
        self.average.load_state_dict(self.model.state_dict())
        if self.train.ndim == 4:
            self.model.to(memory_format=torch.channels_last)
            self.average.to(memory_format=torch.channels_last)
        self.pairs = list(self.average.parameters()), list(self.model.parameters())
        self.optimizer = torch.optim.Adam(self.pairs[1], job.rate, fused=True)
        self.done = 0

    def step(self) -> None:
        """Take one step."""
        job, device = self.job, self.job.device
        size, self.done = job.setting.batch, self.done + 1
        x = scaled(self.train[torch.randint(len(self.train), (size,), device=device)])
        t, importances = self.timesteps.sample(size, device)
        losses = self.objective.losses(self.model, x, t, torch.randn_like(x, dtype=torch.float32))
        self.optimizer.param_groups[0]["lr"] = job.rate * min(1, self.done / 200)
        self.optimizer.zero_grad()
        (importances * losses).mean().backward()
        nn.utils.clip_grad_norm_(self.pairs[1], 1.0)
        self.optimizer.step()
        feedback = losses.detach()
        if job.way == "vrb gradient":
            feedback = (self.objective.of_output[t] * feedback).sqrt()
        self.timesteps.update_with_local_losses(t, feedback)
        with torch.no_grad():
            decay = min(0.998, 1 - 10 / (self.done + 10))
            torch._foreach_lerp_(*self.pairs, 1 - decay)

    @torch.no_grad()
    def scores(self) -> Tensor:
        """Return the mean test loss of each timestep; their mean is the score."""
        generator = torch.Generator(self.job.device).manual_seed(0)
        t = torch.arange(ROUNDS * T, device=self.job.device) % T
        x = self.test[t * 7919 % len(self.test)]
        found = []
        for part, which in zip(x.split(T), t.split(T), strict=True):
            part = scaled(part)
            noise = torch.randn(part.shape, generator=generator, device=part.device)
            found.append(self.objective.losses(self.average, part, which, noise))
        return torch.stack(found).mean(0)


@cache
def classifier() -> Any:
    """Return a model of the digits for training."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    seen, _ = load("digits", "cpu")
    return LogisticRegression(max_iter=1000).fit(seen.numpy(), load_digits().target[: len(seen)])


def quality(x: Tensor) -> dict[str, float]:
    """Judge samples of digits: the inception score, and the Frechet distance to test digits."""
    made, unseen = x.cpu().double().numpy(), load("digits", "cpu")[1].double().numpy()
    p = classifier().predict_proba(made) + 1e-12
    inception = np.exp((p * np.log(p / p.mean(0))).sum(1).mean())
    a, b = np.cov(made.T), np.cov(unseen.T)
    shift = np.square(made.mean(0) - unseen.mean(0)).sum()
    common = np.sqrt(np.linalg.eigvals(a @ b).real.clip(0)).sum()  # the trace of the root
    return {"inception": float(inception), "frechet": float(shift + np.trace(a + b) - 2 * common)}


def clock(device: str) -> float:
    """Return the time, once the device is done."""
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def run(job: Job) -> tuple[Rows, list[float]]:
    """Train; return the scores on the way, and the shares of the last one by timestep."""
    torch.set_num_threads(1)
    training, rows, seconds = Training(job), [], 0.0
    steps = job.setting.steps
    marks = np.unique(np.round(np.geomspace(min(100, steps // 4), steps, MARKS)).astype(int))
    for mark in marks:
        start = clock(job.device)
        while training.done < mark:
            training.step()
        seconds += clock(job.device) - start
        scores = training.scores()
        about = (job.setting.name, job.way, job.rate, job.seed)
        values = (*about, int(mark), float(scores.mean()), seconds)
        rows.append(dict(zip(COLUMNS[:-2], values, strict=True)))
    if job.setting.data == "digits" and isinstance(training.objective, Objective):
        generator = torch.Generator(job.device).manual_seed(0)
        noise = torch.randn(SAMPLES, 64, generator=generator, device=job.device)
        samples = training.objective.sampled(training.average, noise)
        rows[-1] |= quality(samples)
    return rows, (scores / scores.sum()).tolist()


def times(setting: Setting, ways: list[str], device: str) -> dict[str, float]:
    """Return the milliseconds of a step, alone on the machine, by the median of several turns."""
    torch.set_num_threads(1)
    trainings = {way: Training(Job(setting, way, 1e-4, 0, device)) for way in ways}
    found: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(TURNS):
        for way, training in trainings.items():
            start = clock(device)
            for _ in range(TIMED):
                training.step()
            if turn:
                found[way].append((clock(device) - start) / TIMED * 1e3)
    return {way: float(np.median(values)) for way, values in found.items()}


def run_all(jobs: list[Job], processes: int) -> Iterator[tuple[Rows, list[float]]]:
    """Do all runs, some at once; yield what each returns, in order."""
    if processes == 1:
        yield from map(run, jobs)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield from pool.map(run, jobs)


# ---- results


def curve(rows: Rows, way: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return steps and scores of a run."""
    mine = [row for row in rows if (row["way"], row["seed"]) == (way, seed)]
    return np.array([row["step"] for row in mine]), np.array([row["score"] for row in mine])


def arrival(steps: np.ndarray, scores: np.ndarray, goal: float) -> float:
    """Return the first step with a score, on straight lines between marks of log(step)."""
    below = np.flatnonzero(scores <= goal)
    if not len(below):
        return math.inf
    k = below[0]
    if k == 0:
        return float(steps[0])
    share = (scores[k - 1] - goal) / (scores[k - 1] - scores[k])
    return float(steps[k - 1] * (steps[k] / steps[k - 1]) ** share)


def spread(values: list[float], digits: int = 2) -> str:
    """Return the median, with the smallest and the largest."""
    low, high = min(values), max(values)
    shown = f"{np.median(values):.{digits}f}"
    return shown if len(values) == 1 else f"{shown} [{low:.{digits}f}, {high:.{digits}f}]"


def show(setting: Setting, rows: Rows, shares: list[float], cost: dict[str, float]) -> None:
    """Print the results of a setting."""
    tenths = np.array(shares).reshape(10, -1).sum(1)
    largest = int(np.argmax(shares))
    print(f"\n{setting.name}: {setting.steps:,} steps of {setting.batch}")
    print("share of each tenth of timesteps in the score:", " ".join(f"{s:.3f}" for s in tenths))
    verdict = "" if shares[largest] <= 0.2 else ": THIS SETTING DOES NOT COUNT"
    print(f"largest share of one timestep: {shares[largest]:.3f} (t = {largest}){verdict}")
    ways = list(dict.fromkeys(row["way"] for row in rows))
    seeds = sorted({row["seed"] for row in rows})
    uniform = {seed: curve(rows, "uniform", seed) for seed in seeds}
    steps = uniform[seeds[0]][0]
    shown = [steps[k] for k in (len(steps) // 3, 2 * len(steps) // 3)]
    header = ["timesteps", "rate", *(f"score at {s}" for s in shown), "last score"]
    header += ["times fewer steps", "ms a step", "times fewer seconds"]
    judged = [name for name in COLUMNS[-2:] if name in rows[-1]]
    header += judged
    if judged:
        real = quality(load(setting.data, "cpu")[0][:SAMPLES])
        print("digits of training:", ", ".join(f"{name} {real[name]:.2f}" for name in judged))
    print("\n| " + " | ".join(header) + " |\n|" + "---|" * len(header))
    for way in ways:
        curves = {seed: curve(rows, way, seed) for seed in seeds}
        at = [[float(s[list(m).index(k)]) for m, s in curves.values()] for k in (*shown, steps[-1])]
        gains = [
            uniform[seed][0][-1] / arrival(*curves[seed], uniform[seed][1][-1]) for seed in seeds
        ]
        rate = next(row["rate"] for row in rows if row["way"] == way)
        cells = [way, f"{rate:g}", *(spread(values, 3) for values in at)]
        if way == "uniform":
            cells += ["", f"{cost[way]:.2f}", ""]
        else:
            faster = [gain * cost["uniform"] / cost[way] for gain in gains]
            cells += [spread(gains), f"{cost[way]:.2f}", spread(faster)]
        for name in judged:
            cells.append(spread([r[name] for r in rows if r["way"] == way and name in r]))
        print("| " + " | ".join(cells) + " |")
    print("times fewer steps: to uniform's last score; 0: not reached", flush=True)


def tuned(setting: Setting, ways: list[str], device: str, processes: int) -> dict[str, float]:
    """Return the rate of each way with which it is first at uniform's best last score.

    One that never gets there has the rate of its best last score. Seeds are others than those that
    are shown.
    """
    jobs = [Job(setting, way, rate, TUNING_SEED, device) for way in ways for rate in RATES]
    runs = [rows for rows, _ in run_all(jobs, processes)]
    goal = min(rows[-1]["score"] for rows in runs if rows[0]["way"] == "uniform")
    best: dict[str, tuple[float, float, float]] = {}
    for job, rows in zip(jobs, runs, strict=True):
        reached, last = arrival(*curve(rows, job.way, job.seed), goal), rows[-1]["score"]
        print(f"{setting.name}: {job.way}, {job.rate:g}: {last:.3f}, there at {reached:.0f}")
        found = (math.inf if job.way == "uniform" else reached, last, job.rate)
        best[job.way] = min(found, best.get(job.way, found))
    return {way: rate for way, (_, _, rate) in best.items()}


def main(arguments: list[str] | None = None) -> None:
    """Run, print tables, and write rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--data", type=Path, help="CIFAR-10, for --full")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--rate", type=float, help="the rate of all, not tuned")
    parser.add_argument("--images", type=int, default=50_000, help="images or sequences, at most")
    parser.add_argument("--setting", choices=("v", "noise", "unweighted", "text"), help="only this")
    parser.add_argument("--processes", type=int, help="runs at once")
    parser.add_argument("--rows", type=Path, help="a CSV file for the scores on the way")
    given = parser.parse_args(arguments)
    if given.setting == ("v" if given.full else "text"):
        parser.error(f"--setting {given.setting} is one with{'out' if given.full else ''} --full")
    if given.full and given.setting != "text" and given.data is None:
        parser.error("--full needs --data: CIFAR-10")
    with tempfile.TemporaryDirectory() as folder:
        measure(given, folder)


def measure(given: argparse.Namespace, folder: str) -> None:
    """Do as the command line says."""
    device = "cuda" if given.full and torch.cuda.is_available() else "cpu"
    few = given.quick or given.full
    processes = given.processes or (len(FEW) if device == "cuda" else 1)
    seeds, rate = given.seeds or (2 if few else 3), given.rate
    steps = given.steps or (1500 if given.quick else 2000)
    settings, data = {}, "digits"
    if given.full:
        rate = rate or 8e-4
        if given.setting in (None, "text"):
            text = prepare_text(given.images, folder)
            settings["text"] = Setting(text, "letters", "linear", steps, given.batch)
        if given.setting != "text":
            data = prepare(given.data, given.images, folder)
    else:
        rate = rate or (3e-3 if given.quick else None)
        settings["v"] = Setting(data, "v", "cosine", steps, given.batch)
    settings["noise"] = Setting(data, "noise", "linear", steps, given.batch)
    settings["unweighted"] = settings["noise"]._replace(weighted=False)
    if given.setting:
        settings = {given.setting: settings[given.setting]}
    every: Rows = []
    for setting in settings.values():
        ways = list(FEW if few else WAYS)
        if setting.prediction == "noise" and not few:
            ways.remove("fixed w")  # it is the same
        if not setting.weighted:
            ways.remove("fixed output")  # it is uniform
        rates = dict.fromkeys(ways, rate) if rate else tuned(setting, ways, device, processes)
        cost = times(setting, ways, device)
        jobs = [
            Job(setting, way, rates[way], seed, device) for seed in range(seeds) for way in ways
        ]
        start, shares = len(every), []
        for rows, of_timesteps in run_all(jobs, processes):
            every += rows
            shares.append(of_timesteps)
            if given.rows is not None:
                with given.rows.open("w", newline="") as file:
                    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                    writer.writeheader()
                    writer.writerows(every)
        show(setting, every[start:], shares[0], cost)


if __name__ == "__main__":
    main()
