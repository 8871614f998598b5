"""Rare classes: adaptive draws against what people do today, with a small network on tables.

    python benchmarks/rare_classes.py --data FOLDER            # rows; about two hours on two cores
    python benchmarks/rare_classes.py --data FOLDER --quick    # two sets, one seed
    python benchmarks/rare_classes.py --summary                # table and picture, from the rows

Ten tables with a rare class, columns standardised, 60% of the rows for training and 20% each for
validation and test, in two of them labels flipped at random, in all parts. A network of two hidden
layers of 64 is trained by SGD with momentum on batches of 128, for at most 20 epochs' worth of
draws (2,000 to 12,000 steps), and looked at ten times in the first tenth of them, then 30 times.
The parameters with the least validation loss count, and training stops after eight of these 30
without a lower one, as people do it.

Every arm has the rate of three with the least validation loss on seed 1000; then five other seeds.
What is compared: test loss, average precision and balanced accuracy, and the steps and seconds
(validation counted) to the least validation loss that shuffled epochs reach on the same seed.

    shuffled            epochs in shuffled order
    weighted            WeightedRandomSampler: both classes equally often
    weighted, prior     the same, and logits moved by the logarithm of the prior afterwards
    class weights       shuffled, losses times the inverse frequency of the class
    focal               shuffled, focal loss with gamma = 2
    logit adjustment    shuffled, the logarithm of the prior added to logits from the start
    balanced            both classes equally often, with importances
    vrb, group-vrb, epoch-vrb          fed with losses
    vrb norms, group-vrb norms         fed with the norm of the last layer's gradient
    group-vrb gradients                fed with the norm of the whole gradient

Losses are cross entropies of the probabilities that an arm ends with. Those of "weighted", "class
weights" and "focal" are of another distribution of classes, so their losses say that and no more.
"""

import argparse
import csv
import math
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import nullcontext
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from tombola import VRB, EpochVRB, GroupVRB, Shuffle, Static
from tombola.torch import gradient_norms, last_layer_norms

HERE = Path(__file__).parent
FILE, PICTURE = HERE / "results" / "rare_classes.csv", HERE / "results" / "rare_classes.png"
SETS = {  # the number of the file, and the share of labels that are flipped
    "cover": ("10_cover", 0.0), "http": ("16_http", 0.0), "smtp": ("34_smtp", 0.0),
    "skin": ("33_skin", 0.0), "shuttle": ("32_shuttle", 0.0),
    "mammography": ("23_mammography", 0.0), "campaign": ("5_campaign", 0.0),
    "ALOI": ("1_ALOI", 0.0), "shuttle, 1% flipped": ("32_shuttle", 0.01),
    "cover, 5% flipped": ("10_cover", 0.05),
}  # fmt: skip
ARMS = (
    "shuffled", "weighted", "weighted, prior", "class weights", "focal", "logit adjustment",
    "balanced", "vrb", "group-vrb", "epoch-vrb", "vrb norms", "group-vrb norms",
    "group-vrb gradients",
)  # fmt: skip
RIVALS, BIASED = ARMS[:7], ("weighted", "class weights", "focal")
RATES = (0.01, 0.03, 0.1)
TUNING_SEED, SEEDS = 1000, 5
BATCH, EPOCHS, LEAST, MOST = 128, 20, 2000, 12_000
EARLY, LOOKS, PATIENCE = 10, 30, 8
FIELDS = (
    "set",
    "arm",
    "rate",
    "seed",
    "steps",
    "seconds",
    "loss",
    "precision",
    "accuracy",
    "curve",
)


class Parts(NamedTuple):
    """A table in three parts: rows and labels of each."""

    train: tuple
    validation: tuple
    test: tuple


class Job(NamedTuple):
    """One run."""

    set: str
    arm: str
    rate: float
    seed: int


@cache
def parts(name, folder):
    """Return a table, split at random, the same for all runs."""
    file, flipped = SETS[name]
    with np.load(Path(folder) / f"adbench_{file}.npz") as data:
        x, y = data["X"].astype(np.float32), (data["y"] > 0).astype(np.int64)
    rng = np.random.default_rng(0)
    y = np.where(rng.random(y.size) < flipped, 1 - y, y)
    spread = x.std(axis=0)
    x = (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1)
    order, cuts = rng.permutation(y.size), (int(0.6 * y.size), int(0.8 * y.size))
    return Parts(*(
        (torch.from_numpy(x[rows]), torch.from_numpy(y[rows])) for rows in np.split(order, cuts)
    ))  # fmt: skip


def sampler_of(arm, y, seed):
    """Return what draws."""
    n, kind = y.size, arm.split()[0].rstrip(",")
    if kind in ("weighted", "balanced"):
        return Static.balanced(y, seed=seed)
    if kind == "vrb":
        return VRB(n, seed=seed)
    if kind == "group-vrb":
        return GroupVRB(y, seed=seed)
    return EpochVRB(n, seed=seed) if kind == "epoch-vrb" else Shuffle(n, seed=seed)


class Run:
    """A network in training."""

    def __init__(self, job, data):
        self.job, self.data = job, data
        x, y = data.train
        torch.manual_seed(job.seed)
        layers = [torch.nn.Linear(x.shape[1], 64), torch.nn.ReLU(), torch.nn.Linear(64, 64),
                  torch.nn.ReLU(), torch.nn.Linear(64, 2)]  # fmt: skip
        self.model = torch.nn.Sequential(*layers)
        self.optimizer = torch.optim.SGD(self.model.parameters(), job.rate, momentum=0.9)
        self.sampler = sampler_of(job.arm, y.numpy(), job.seed)
        prior = torch.bincount(y, minlength=2) / len(y)
        self.weights, self.shift = 0.5 / prior, torch.zeros(2)
        if job.arm in ("logit adjustment", "weighted, prior"):
            self.shift = prior.log()
        adapts = job.arm.split()[0] in ("vrb", "group-vrb", "epoch-vrb")
        self.adapts, self.norms = adapts, job.arm.split()[-1]
        self.gradients = gradient_norms(self.model) if self.norms == "gradients" else None

    def step(self):
        """Take a step."""
        arm, (x, y) = self.job.arm, self.data.train
        draw = self.sampler.draw(BATCH)
        items = torch.from_numpy(draw.indices)
        x, y = x[items], y[items]
        importances = torch.from_numpy(draw.importances).float()
        self.optimizer.zero_grad()
        with self.gradients or nullcontext():
            logits = self.model(x)
            if arm == "logit adjustment":
                logits = logits + self.shift
            losses = cross_entropy(logits, y, reduction="none")
            if arm == "class weights":
                objective = (self.weights[y] * losses).mean()
            elif arm == "focal":
                objective = ((1 - (-losses).exp()) ** 2 * losses).mean()
            elif self.adapts or arm == "balanced":
                objective = (importances * losses).mean()
            else:
                objective = losses.mean()
            objective.backward()
        if self.adapts:
            feedback = losses.detach()
            if self.norms == "norms":
                feedback = last_layer_norms(logits, y)
            elif self.gradients is not None:
                feedback = self.gradients.of(draw)
            self.sampler.update(draw, feedback.double().numpy())
        self.optimizer.step()

    @torch.no_grad()
    def logits(self, part):
        """Return the logits that the arm predicts by."""
        return self.model(part[0]) + self.shift

    def whole(self):
        """Train until validation says stop; return a row."""
        n, begun = len(self.data.train[1]), time.perf_counter()
        steps = min(max(EPOCHS * n // BATCH, LEAST), MOST)
        early = np.geomspace(max(10, steps // 200), steps / 10, EARLY)
        marks = np.unique([*early, *np.linspace(steps / 10, steps, LOOKS + 1)]).astype(int)
        best, kept, since, curve, done = math.inf, None, 0, [], 0
        for mark in marks:
            for _ in range(mark - done):
                self.step()
            done = int(mark)
            validation = self.data.validation
            loss = float(cross_entropy(self.logits(validation), validation[1]))
            curve.append(f"{done}:{loss:.6g}:{time.perf_counter() - begun:.4g}")
            since = 0 if loss < best else since + (10 * done > steps)
            if loss < best:
                best, kept = loss, [p.detach().clone() for p in self.model.parameters()]
            if since >= PATIENCE:
                break
        seconds = time.perf_counter() - begun
        with torch.no_grad():
            for p, value in zip(self.model.parameters(), kept or [], strict=True):
                p.copy_(value)
        logits, y = self.logits(self.data.test), self.data.test[1]
        margins = (logits[:, 1] - logits[:, 0]).numpy()
        predicted, labels = margins > 0, y.numpy() > 0
        accuracy = ((predicted[labels]).mean() + (~predicted[~labels]).mean()) / 2
        return {
            **self.job._asdict(), "steps": done, "seconds": f"{seconds:.4g}",
            "loss": f"{float(cross_entropy(logits, y)):.6g}",
            "precision": f"{average_precision(margins, labels):.6g}",
            "accuracy": f"{accuracy:.6g}", "curve": " ".join(curve),
        }  # fmt: skip


def average_precision(scores, labels):
    """Return the mean precision at each positive, ties counted together."""
    order = np.argsort(-scores, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(scores[order])), scores.size - 1)
    hits = np.cumsum(labels[order])[ends]
    rise = np.diff(hits, prepend=0) / max(hits[-1], 1)
    return float((rise * hits / (ends + 1)).sum())


def run(job, folder):
    """Do one run, on one thread."""
    torch.set_num_threads(1)
    return Run(job, parts(job.set, folder)).whole()


def best_validation(row):
    """Return the least validation loss of a row."""
    return min(float(look.split(":")[1]) for look in row["curve"].split())


def read():
    """Return the rows on disk."""
    if not FILE.exists():
        return []
    with FILE.open() as file:
        return list(csv.DictReader(file))


def measure(jobs, folder, processes):
    """Do those runs that have no row yet, and append theirs."""
    known = {(r["set"], r["arm"], float(r["rate"]), int(r["seed"])) for r in read()}
    left = [job for job in jobs if tuple(job) not in known]
    new = not FILE.exists()
    with (
        FILE.open("a", newline="") as file,
        ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool,
    ):
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if new:
            writer.writeheader()
        for k, done in enumerate(as_completed(pool.submit(run, job, folder) for job in left)):
            writer.writerow(done.result())
            file.flush()
            print(f"\r{k + 1} of {len(left)} runs", end="", flush=True)
    print()


def tuned(names):
    """Return the rate of each set and arm: of the least validation loss on the tuning seed."""
    found = {}
    for row in read():
        if int(row["seed"]) == TUNING_SEED and row["set"] in names:
            key = row["set"], row["arm"]
            found[key] = min(
                found.get(key, (math.inf, 0.0)), (best_validation(row), float(row["rate"]))
            )
    return {key: rate for key, (_, rate) in found.items()}


# ---- the summary


def arrival(row, goal):
    """Return steps and seconds to a validation loss; infinite if it is not reached."""
    for look in row["curve"].split():
        step, loss, seconds = map(float, look.split(":"))
        if loss <= goal:
            return step, seconds
    return math.inf, math.inf


def races():
    """Return the rows of the race: by set, arm and seed."""
    return {
        (r["set"], r["arm"], int(r["seed"])): r for r in read() if int(r["seed"]) != TUNING_SEED
    }


def ratios(rows, name, arm, which):
    """Return shuffled's steps (0) or seconds (1) over those of an arm, for each seed."""
    found = []
    for seed in sorted({seed for _, _, seed in rows}):
        ours, base = rows.get((name, arm, seed)), rows.get((name, "shuffled", seed))
        if ours is not None and base is not None:
            goal = best_validation(base)
            found.append(arrival(base, goal)[which] / arrival(ours, goal)[which])
    return np.array(found)


def spread(values, digits=3):
    """Return the median and the range."""
    return f"{np.median(values):.{digits}g} [{min(values):.{digits}g}, {max(values):.{digits}g}]"


def summary():
    """Print the tables; draw the picture."""
    rows = races()
    names = [name for name in SETS if any(key[0] == name for key in rows)]
    print(
        "\nMedians of the seeds [smallest, largest]; steps and seconds: shuffled's over the arm's,"
    )
    print("to the least validation loss of shuffled epochs; 0: not reached.")
    for name in names:
        print(f"\n### {name}\n\n| arm | rate | test loss | average precision | balanced accuracy "
              "| steps | seconds |\n|---|---|---|---|---|---|---|")  # fmt: skip
        for arm in ARMS:
            own = [row for key, row in rows.items() if key[:2] == (name, arm)]
            if own:
                columns = [spread([float(r[key]) for r in own], 4)
                           for key in ("loss", "precision", "accuracy")]  # fmt: skip
                times = [spread(ratios(rows, name, arm, which)) for which in (0, 1)]
                print(f"| {arm} | {own[0]['rate']} | {' | '.join(columns + times)} |")
    print(
        "\n### All sets: geometric means of medians (not reached counts as 0.1), and the number of"
    )
    print("### sets with the lowest median test loss and the highest average precision\n")
    print("| arm | steps | seconds | lowest loss | highest precision |\n|---|---|---|---|---|")
    winners = {key: [best_arm(rows, name, key) for name in names] for key in ("loss", "precision")}
    for arm in ARMS:
        means = [
            math.exp(np.mean([
                math.log(max(0.1, float(np.median(ratios(rows, name, arm, which)))))
                for name in names if len(ratios(rows, name, arm, which))
            ]))
            for which in (0, 1)
        ]  # fmt: skip
        first, top = (winners[key].count(arm) for key in ("loss", "precision"))
        print(f"| {arm} | {means[0]:.2f} | {means[1]:.2f} | {first} | {top} |")
    draw(rows, names)


def best_arm(rows, name, key):
    """Return the arm with the lowest median test loss, or the highest average precision."""
    sign = -1 if key == "loss" else 1
    own = {arm: [float(r[key]) for k, r in rows.items() if k[:2] == (name, arm)] for arm in ARMS}
    return max((arm for arm in ARMS if own[arm]), key=lambda arm: sign * np.median(own[arm]))


def draw(rows, names):
    """Draw the validation loss over steps, relative to shuffled's least one: five arms."""
    import matplotlib.pyplot as plt

    arms = ("shuffled", "weighted, prior", "balanced", "vrb", "group-vrb")
    across = min(5, len(names))
    figure, axes = plt.subplots(
        -(-len(names) // across), across, figsize=(3 * across, 5.4), squeeze=False
    )
    for axis, name in zip(axes.flat, names, strict=False):
        goal = np.median(
            [best_validation(r) for k, r in rows.items() if k[:2] == (name, "shuffled")]
        )
        for arm in arms:
            own = [r["curve"].split() for k, r in rows.items() if k[:2] == (name, arm)]
            if not own:
                continue
            longest = max(own, key=len)
            steps = [float(look.split(":")[0]) for look in longest]
            losses = np.full((len(own), len(longest)), np.inf)  # after its end a run keeps its best
            for line, looks in zip(losses, own, strict=True):
                line[: len(looks)] = [float(look.split(":")[1]) for look in looks]
            least = np.median(np.minimum.accumulate(losses, axis=1), axis=0)
            axis.loglog(steps, least / goal, label=arm)
        axis.axhline(1, color="0.7", linewidth=0.8)
        axis.set_title(name, fontsize=9)
        axis.set_ylim(0.7, 5)
    axes[0, 0].legend(fontsize=7)
    figure.supxlabel("steps", fontsize=9)
    figure.supylabel("least validation loss so far, over that of shuffled epochs", fontsize=9)
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=110)


def main():
    """Measure, and summarise."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("TOMBOLA_DATA"))
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--quick", action="store_true", help="two sets, one seed")
    parser.add_argument("--summary", action="store_true", help="only from the rows on disk")
    given = parser.parse_args()
    if not given.summary:
        if given.data is None:
            parser.error("--data: the folder of the public sets")
        names = ["mammography", "shuttle"] if given.quick else given.sets
        names = sorted(
            names, key=lambda name: -os.path.getsize(given.data / f"adbench_{SETS[name][0]}.npz")
        )
        tuning = [
            Job(name, arm, rate, TUNING_SEED) for name in names for arm in ARMS for rate in RATES
        ]
        measure(tuning, str(given.data), given.processes)
        seeds = range(1 if given.quick else given.seeds)
        race = [Job(*key, rate, seed) for key, rate in tuned(names).items() for seed in seeds]
        measure(race, str(given.data), given.processes)
    summary()


if __name__ == "__main__":
    main()
