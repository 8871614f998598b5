"""The cost of per-example gradient norms: a step with them, over plain forward and backward.

    python benchmarks/torch_norms.py              # about two minutes
    python benchmarks/torch_norms.py --quick      # does it run? its figures mean nothing

All methods take turns in one process; a ratio is the median over the turns of ratios within a
turn, with its quartiles. A step is forward, weighted mean of the losses, backward; no optimiser,
no data loading, both of which would bring the ratios closer to 1.

Then the value of cheaper feedback: the correlation, over the training set of scikit-learn's
digits, of the true gradient norms with the last layer's and with the loss, while an MLP learns.
"""

import argparse
import itertools
import time

import numpy as np
import timing
import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional

import tombola
from tombola.torch import gradient_norms, last_layer_norms

BATCH = 128


def mlp(*widths):
    layers = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 10),
    )  # fmt: skip


def tiny_cnn():
    return nn.Sequential(
        nn.Conv2d(1, 8, 5, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(16 * 5 * 5, 32), nn.ReLU(), nn.Linear(32, 10),
    )  # fmt: skip


class Transformer(nn.Module):
    """Two blocks of width 128 over 32 tokens, of layers that are called."""

    def __init__(self, width=128):
        super().__init__()
        self.tokens, self.head = nn.Embedding(1000, width), nn.Linear(width, 10)
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(4)])
        self.threes = nn.ModuleList([nn.Linear(width, 3 * width) for _ in range(2)])
        self.outs = nn.ModuleList([nn.Linear(width, width) for _ in range(2)])
        self.feeds = nn.ModuleList([mlp(width, 4 * width, width) for _ in range(2)])

    def forward(self, x):
        h = self.tokens(x)
        for k in range(2):
            q, key, v = self.threes[k](self.norms[2 * k](h)).chunk(3, dim=-1)
            h = h + self.outs[k](functional.scaled_dot_product_attention(q, key, v))
            h = h + self.feeds[k](self.norms[2 * k + 1](h))
        return self.head(h.mean(1))


TASKS = {
    "MLP 784-512-512-10": (lambda: mlp(784, 512, 512, 10), lambda: torch.randn(BATCH, 784)),
    "MLP 64-64-10": (lambda: mlp(64, 64, 10), lambda: torch.randn(BATCH, 64)),
    "CNN 8-16, strides of 2": (tiny_cnn, lambda: torch.randn(BATCH, 1, 28, 28)),
    "CNN 16-32": (cnn, lambda: torch.randn(BATCH, 1, 28, 28)),
    "transformer, 32 tokens": (Transformer, lambda: torch.randint(0, 1000, (BATCH, 32))),
}


def methods(model, x, y, draw):
    """Functions that make one step each."""
    importances = torch.tensor(draw.importances, dtype=torch.float32)

    def losses():
        logits = model(x)
        return logits, functional.cross_entropy(logits, y, reduction="none")

    def plain():
        model.zero_grad()
        (importances * losses()[1]).mean().backward()

    def hooks():
        model.zero_grad()
        with gradient_norms(model) as norms:
            (importances * losses()[1]).mean().backward()
        norms.of(importances)

    def last_layer():
        model.zero_grad()
        logits, values = losses()
        (importances * values).mean().backward()
        last_layer_norms(logits, y)

    def one_loss(parameters, x, y):
        logits = functional_call(model, parameters, x[None])
        return functional.cross_entropy(logits, y[None])

    def by_vmap():
        parameters = {name: p.detach() for name, p in model.named_parameters()}
        gradients = vmap(grad(one_loss), in_dims=(None, 0, 0))(parameters, x, y)
        sum(g.flatten(1).square().sum(1) for g in gradients.values()).sqrt()
        plain()

    return {"plain": plain, "hooks": hooks, "last layer": last_layer, "vmap(grad)": by_vmap}


def compare(name, steps, turns, seconds):
    """Time all in turns; return rows with the ratio of each to the plain step."""
    groups, took = {}, {label: [] for label in steps}
    for label, step in steps.items():
        step()
        start = time.perf_counter()
        step()
        groups[label] = max(1, round(seconds / (time.perf_counter() - start)))
    for _ in range(turns):
        for label, step in steps.items():
            start = time.perf_counter()
            for _ in range(groups[label]):
                step()
            took[label].append((time.perf_counter() - start) / groups[label] * 1e3)
    rows = []
    for label, times in took.items():
        low, ratio, high = np.quantile(np.array(times) / took["plain"], [0.25, 0.5, 0.75])
        rows.append({
            "task": name, "what": label, "version": timing.version("tombola"),
            "torch": torch.__version__, "threads": torch.get_num_threads(),
            "milliseconds": round(float(np.median(times)), 3), "ratio": round(ratio, 3),
            "quartile_1": round(low, 3), "quartile_3": round(high, 3),
        })  # fmt: skip
    return rows


def correlations(marks):
    """How cheaper feedback goes along with the true norms, epoch by epoch."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels)
    model, everything = mlp(64, 64, 10), torch.ones(len(x))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    sampler = tombola.Shuffle(len(x))
    lines = []
    for epoch in range(max(marks) + 1):
        if epoch in marks:
            with gradient_norms(model) as norms:
                logits = model(x)
                losses = functional.cross_entropy(logits, y, reduction="none")
                losses.mean().backward()
            true = norms.of(everything)
            values = torch.stack([true, last_layer_norms(logits, y), losses.detach()])
            table = torch.corrcoef(values)
            lines.append([str(epoch), f"{table[0, 1]:.2f}", f"{table[0, 2]:.2f}"])
        for _ in range(len(x) // BATCH):
            rows = torch.tensor(sampler.draw(BATCH).indices)
            optimiser.zero_grad()
            functional.cross_entropy(model(x[rows]), y[rows]).backward()
            optimiser.step()
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few turns, and no rows are kept")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    draw = tombola.Draw(np.arange(BATCH), np.full(BATCH, 1 / BATCH), n=BATCH)
    turns, seconds = (3, 0.05) if options.quick else (15, 0.4)
    rows = []
    for name, (make, inputs) in TASKS.items():
        steps = methods(make(), inputs(), torch.randint(0, 10, (BATCH,)), draw)
        rows += compare(name, steps, turns, seconds)
    timing.table(
        ["task", "what", "ms", "ratio", "quartiles"],
        [[row["task"], row["what"], f"{row['milliseconds']:.2f}", f"{row['ratio']:.2f}",
          f"{row['quartile_1']:.2f} to {row['quartile_3']:.2f}"] for row in rows],
    )  # fmt: skip
    print("\ncorrelation with the gradient norm, MLP 64-64-10 on digits")
    timing.table(["epoch", "last layer", "loss"], correlations([0, 1, 3, 10, 30]))
    if not options.quick:
        timing.append("torch_norms", rows)


if __name__ == "__main__":
    main()
