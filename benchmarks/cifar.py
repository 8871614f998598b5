"""CIFAR-10 on a GPU: shuffled epochs, pruned ones and adaptive draws at equal numbers of examples.

    python benchmarks/cifar.py --data FOLDER                # 108 runs, 20 minutes on an H200
    python benchmarks/cifar.py --sets full --seeds 0        # a part of it; runs that are there stay
    python benchmarks/cifar.py --summary                    # the table and the picture of the rows

A ResNet-9, batches of 512, SGD with momentum, one cycle of the rate, crops and flips. All methods
have the same rate, schedule and number of examples; the schedule is stretched to that number. The
long-tailed set keeps 5,000 images of the first class, 50 of the last, and a geometric number of
those between. FOLDER holds cifar10_jpeg.npz: `blob` and `off` (image i is blob[off[i]:off[i+1]], a
JPEG), `y`, and `tr`, true for the training images.
"""

import argparse
import collections
import csv
import io
import itertools
import os
import time
from pathlib import Path

import numpy as np
import timing
import torch
from torch import nn
from torch.nn import functional

import tombola
from tombola.cli.progress import Progress
from tombola.torch import last_layer_norms

BATCH = 512
RATE = 0.4
DECAY = 5e-4
RISE = 0.2  # of the run, while the rate rises
LAG = 2  # batches until losses are fed back: the device is not waited for
BUDGETS = {"full": (5, 9, 20), "long-tailed": (10, 30, 60)}  # examples drawn over n
METHODS = ("shuffled", "random pruning", "InfoBatch", "EpochVRB 0.7", "EpochVRB 1.0", "VRB")
FIELDS = (
    "set",
    "method",
    "budget",
    "seed",
    "accuracy",
    "loss",
    "train_loss",
    "examples",
    "seconds",
)


# ---- data


def read(folder, device):
    """Training and test images as bytes on the device, with their labels."""
    from PIL import Image

    arrays = np.load(Path(folder) / "cifar10_jpeg.npz")
    blob, ends = arrays["blob"].tobytes(), arrays["off"]
    pictures = [
        np.asarray(Image.open(io.BytesIO(blob[start:end])).convert("RGB"))
        for start, end in itertools.pairwise(ends)
    ]
    images = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2)
    labels = torch.from_numpy(arrays["y"].astype(np.int64))
    train = torch.from_numpy(arrays["tr"].astype(bool))
    return [t.to(device) for t in (images[train], labels[train], images[~train], labels[~train])]


def long_tail(labels, ratio=100):
    """Numbers of the items of a long-tailed set: class c keeps 5,000 / ratio^(c/9) of them."""
    kept = []
    for c in range(10):
        items = torch.nonzero(labels == c).ravel()
        kept.append(items[: round(len(items) * ratio ** (-c / 9))])
    return torch.cat(kept)


class Pictures:
    """Training images, padded for random crops."""

    def __init__(self, images, labels):
        self.padded = functional.pad(images.float(), (4, 4, 4, 4), mode="reflect").to(torch.uint8)
        self.labels = labels
        self.steps = torch.arange(32, device=images.device)
        self.channels = torch.arange(3, device=images.device)[None, :, None, None]

    def batch(self, items, corners, flips):
        """Crops at `corners`, mirrored where `flips`."""
        rows = (corners[:, :1] + self.steps)[:, None, :, None]
        columns = corners[:, 1:] + torch.where(flips[:, None], self.steps.flip(0), self.steps)
        found = self.padded[items[:, None, None, None], self.channels, rows, columns[:, None, None]]
        return normal(found), self.labels[items]


def normal(images):
    """Bytes as numbers of mean about 0 and spread about 1, channels last."""
    return ((images.float() - 121.0) / 64.0).contiguous(memory_format=torch.channels_last)


# ---- model


def convolution(inputs, outputs, *after):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
        *after,
    )  # fmt: skip


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Sequential(convolution(width, width), convolution(width, width))

    def forward(self, x):
        return x + self.inner(x)


class ResNet9(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            convolution(3, 64),
            convolution(64, 128, nn.MaxPool2d(2)), Residual(128),
            convolution(128, 256, nn.MaxPool2d(2)),
            convolution(256, 512, nn.MaxPool2d(2)), Residual(512),
            nn.AdaptiveMaxPool2d(1), nn.Flatten(),
        )  # fmt: skip
        self.head = nn.Linear(512, 10)

    def forward(self, x):
        return 0.125 * self.head(self.body(x))


# ---- runs


def make_sampler(method, n, budget, seed):
    """The sampler of a method, and what it is fed with."""
    if method == "shuffled":
        return tombola.Shuffle(n, seed=seed), None
    if method == "random pruning":  # 70% of the items in each epoch, by scores that stay equal
        return tombola.EpochVRB(n, share=0.7, seed=seed), None
    if method == "InfoBatch":  # its epochs take about 0.7 of n each
        return tombola.InfoBatch(n, epochs=round(budget / 0.7), seed=seed), "loss"
    if method.startswith("EpochVRB"):
        return tombola.EpochVRB(n, share=float(method.split()[1]), seed=seed), "norm"
    return tombola.VRB(n, seed=seed), "norm"


def rate_at(done):
    """The rate after a part of the run: up to its peak, and down to 0."""
    return RATE * min(done / RISE, (1.0 - done) / (1.0 - RISE))


def train(pictures, method, budget, seed, progress):
    """Train on `budget` times as many examples as there are; return model and examples drawn."""
    device, n = pictures.labels.device, len(pictures.labels)
    sampler, feed = make_sampler(method, n, budget, seed)
    torch.manual_seed(seed)
    model = ResNet9().to(device, memory_format=torch.channels_last).train()
    optimiser = torch.optim.SGD(
        model.parameters(), lr=RATE, momentum=0.9, weight_decay=DECAY, nesterov=True
    )
    pending, examples, goal = collections.deque(), 0, budget * n
    while examples < goal:
        draw = sampler.draw(min(BATCH, goal - examples))
        items = torch.tensor(draw.indices).to(device, non_blocking=True)
        weights = torch.tensor(draw.importances, dtype=torch.float32).to(device, non_blocking=True)
        if method == "InfoBatch":  # as published: those that are never left out weigh 1
            weights *= n / sampler.epoch_length
        corners = torch.randint(0, 9, (len(draw), 2), device=device)
        x, y = pictures.batch(items, corners, torch.rand(len(draw), device=device) < 0.5)
        for group in optimiser.param_groups:
            group["lr"] = rate_at(examples / goal)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            logits = model(x)
        losses = functional.cross_entropy(logits.float(), y, reduction="none")
        optimiser.zero_grad(set_to_none=True)
        (losses * weights).mean().backward()
        optimiser.step()
        examples += len(draw)
        if feed is not None:
            fed = last_layer_norms(logits, y) if feed == "norm" else losses.detach()
            pending.append((draw, *to_host(fed)))
            if len(pending) > LAG:
                learn(sampler, *pending.popleft())
        progress(examples, goal)
    return model, examples


def to_host(values):
    """Begin to copy to the host; return the copy and the event of its end."""
    if values.device.type == "cpu":
        return values, None
    copy = torch.empty(values.shape, dtype=torch.float64, pin_memory=True)
    copy.copy_(values, non_blocking=True)
    event = torch.cuda.Event()
    event.record()
    return copy, event


def learn(sampler, draw, values, event):
    if event is not None:
        event.synchronize()
    sampler.update(draw, values.numpy())


@torch.no_grad()
def scores(model, images, labels):
    """Accuracy and mean loss, without crops."""
    model.eval()
    right = total = 0.0
    for x, y in zip(images.split(2000), labels.split(2000), strict=True):
        with torch.autocast(x.device.type, torch.bfloat16, enabled=x.device.type == "cuda"):
            logits = model(normal(x)).float()
        right += (logits.argmax(1) == y).sum().item()
        total += functional.cross_entropy(logits, y, reduction="sum").item()
    return right / len(labels), total / len(labels)


# ---- rows


def rows_of(path):
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def add(path, row):
    new = not path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(row)


def run(options):
    device = torch.device(options.device)
    images, labels, test_images, test_labels = read(options.data, device)
    done = {(r["set"], r["method"], int(r["budget"]), int(r["seed"])) for r in rows_of(options.out)}
    for name in options.sets:
        kept = long_tail(labels) if name == "long-tailed" else torch.arange(len(labels))
        kept = kept[: options.most].to(device)
        pictures = Pictures(images[kept], labels[kept])
        for seed in options.seeds:
            for budget in options.budgets or BUDGETS[name]:
                for method in options.methods:
                    if (name, method, budget, seed) in done:
                        continue
                    shown = f"{name}, {method}, {budget} x {len(kept):,} examples, seed {seed}"
                    with Progress(shown) as progress:
                        start = time.perf_counter()
                        model, examples = train(pictures, method, budget, seed, progress)
                        if device.type == "cuda":
                            torch.cuda.synchronize()
                        took = time.perf_counter() - start
                    accuracy, loss = scores(model, test_images, test_labels)
                    train_loss = scores(model, images[kept], labels[kept])[1]
                    row = (name, method, budget, seed, f"{accuracy:.4f}", f"{loss:.4f}",
                           f"{train_loss:.4f}", examples, f"{took:.1f}")  # fmt: skip
                    add(options.out, dict(zip(FIELDS, row, strict=True)))
                    print(f"{shown}: accuracy {accuracy:.4f}, loss {loss:.4f}, {took:.1f} s")


# ---- summary


def summary(rows, picture):
    """Print means and standard errors, and draw them."""
    found = collections.defaultdict(list)
    for row in rows:
        found[row["set"], int(row["budget"]), row["method"]].append(row)
    print("| set | examples over n | method | accuracy | test loss | training loss | seeds |")
    print("|---|---|---|---|---|---|---|")
    for (name, budget, method), group in found.items():
        cells = [
            shown([float(r[key]) for r in group]) for key in ("accuracy", "loss", "train_loss")
        ]
        print(f"| {name} | {budget} | {method} | {' | '.join(cells)} | {len(group)} |")
    draw_picture(found, picture)


def shown(values):
    mean, error = np.mean(values), np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{mean:.4f} ± {error:.4f}"


def draw_picture(found, path):
    """Accuracy and loss less those of shuffled epochs with the same number of examples."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    sets = [name for name in BUDGETS if any(key[0] == name for key in found)]
    figure, axes = pyplot.subplots(2, len(sets), figsize=(4.6 * len(sets), 6.4), squeeze=False)
    for column, name in enumerate(sets):
        budgets = sorted({key[1] for key in found if key[0] == name})
        for row, (key, label) in enumerate(
            [("accuracy", "accuracy, points more"), ("loss", "loss, more")]
        ):
            axis, factor = axes[row, column], 100.0 if key == "accuracy" else 1.0
            axis.axhline(0.0, color="0.4", linewidth=1.0)
            for place, method in enumerate(METHODS[1:]):
                differences = [
                    factor * (values(found, name, b, method, key)
                              - values(found, name, b, "shuffled", key))
                    for b in budgets
                ]  # fmt: skip
                axis.errorbar(
                    np.arange(len(budgets)) + 0.13 * (place - 2), [d.mean() for d in differences],
                    [d.std(ddof=1) / np.sqrt(len(d)) for d in differences],
                    fmt="o", markersize=5, capsize=3, label=method,
                )  # fmt: skip
            axis.set_xticks(range(len(budgets)), [f"{b}" for b in budgets])
            axis.set_xlabel("examples drawn over the number of items")
            axis.set_ylabel(f"{label} than shuffled")
            axis.set_title(f"CIFAR-10, {name}: test {key}")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(labels), fontsize=9)
    figure.tight_layout(rect=(0.0, 0.04, 1.0, 1.0))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    print(f"wrote {path}")


def values(found, name, budget, method, key):
    """The figures of a method by seed."""
    rows = sorted(found[name, budget, method], key=lambda r: int(r["seed"]))
    return np.array([float(r[key]) for r in rows])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("TOMBOLA_DATA"))
    parser.add_argument("--sets", nargs="*", default=list(BUDGETS), choices=list(BUDGETS))
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS)
    parser.add_argument("--budgets", nargs="*", type=int, default=None)
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--most", type=int, default=None, help="items to train on, for a trial")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=timing.RESULTS / "cifar.csv")
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--picture", type=Path, default=Path("docs/results/epochs/cifar.png"))
    options = parser.parse_args()
    if options.summary:
        summary(rows_of(options.out), options.picture)
        return
    if options.data is None or not (Path(options.data) / "cifar10_jpeg.npz").exists():
        parser.error("--data (or TOMBOLA_DATA) must name the folder with cifar10_jpeg.npz")
    run(options)


if __name__ == "__main__":
    main()
