"""Does the advice of a short race hold in one ten times as long? For docs/decisions/advise.md.

    python benchmarks/verdicts.py [--seeds 10] [--cases NAME ...] [--rows FILE] [--only short]

Six networks and a number of tables; each with ten seeds, briefly and for ten times as long. Each
run appends a row to the file, and a run whose row is there is not repeated, so that the whole can
be stopped and continued. Public tables are files in $TOMBOLA_DATA; those that are missing are named
and left out.
"""

import argparse
import csv
import functools
import itertools
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.preprocessing import StandardScaler

from tombola.advice import advise
from tombola.datasets import DataError, load

LONG = 10  # times as many steps, or as much time
FIELDS = ["case", "seed", "length", "pays", "ratio", "low", "high", "use", "how", "seconds",
          "lines"]  # fmt: skip
WORDS = {True: "pays", False: "does not pay", None: "too close"}


def mlp(*widths):
    import torch

    layers = []
    for k, (a, b) in enumerate(itertools.pairwise(widths)):
        layers += [torch.nn.Linear(a, b), *([torch.nn.ReLU()] if k < len(widths) - 2 else [])]
    return torch.nn.Sequential(*layers)


def tensors(*arrays):
    import torch
    from torch.utils.data import TensorDataset

    kinds = [np.int64 if np.asarray(a).dtype.kind in "iub" else np.float32 for a in arrays]
    return TensorDataset(*(torch.as_tensor(np.asarray(a).astype(k))
                           for a, k in zip(arrays, kinds, strict=True)))  # fmt: skip


def squared(outputs, targets):
    """Half the mean squared distance; a last column of targets beyond the outputs weights it."""
    width = outputs.shape[1]
    weights = targets[:, width] if targets.shape[1] > width else 1.0
    return weights * ((outputs - targets[:, :width]) ** 2).mean(dim=1) / 2


def classes():
    import torch

    return functools.partial(torch.nn.functional.cross_entropy, reduction="none")


def rare_classes():
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    kept = np.concatenate([order[y[order] != 8], order[y[order] == 8][:32]])
    return mlp(64, 32, 2), tensors(x[kept] / 16, y[kept] == 8), classes(), {"lr": 0.3}


def equal_losses():
    """A linear target, and noise of one size: all losses approach the same value."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4000, 20))
    x /= np.linalg.norm(x, axis=1)[:, None] / 4
    y = x @ rng.normal(size=20) + rng.choice([-1.0, 1.0], 4000)
    return mlp(20, 1), tensors(x, y[:, None]), squared, {"lr": 0.01}


def over_fitting():
    """Few items of many columns, a tenth of the labels wrong."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(600, 50))
    y = x[:, :5].sum(axis=1) + rng.normal(size=600) > 0
    return mlp(50, 128, 2), tensors(x, y ^ (rng.random(600) < 0.1)), classes(), {"lr": 0.1}


def neural_field():
    """An image with a smooth part and a patch of fine stripes, from coordinates."""
    grid = np.stack(np.meshgrid(*2 * [np.linspace(-1, 1, 72)]), axis=-1).reshape(-1, 2)
    waves = grid @ (np.random.default_rng(3).normal(size=(2, 32)) * 4)
    value = np.sin(2 * grid[:, 0]) / 4
    patch = (abs(grid) < 0.3).all(axis=1)
    value[patch] += np.sign(np.sin(40 * grid[patch, 0]))
    data = tensors(np.hstack([np.sin(waves), np.cos(waves)]), value[:, None])
    return mlp(64, 64, 1), data, squared, {"lr": 0.1, "validation": data}


def timesteps():
    """Digits and noise: the noise is to be found, with the weights of the variational bound."""
    rng = np.random.default_rng(4)
    digits = load_digits().data / 8 - 1
    t = rng.uniform(size=6000)
    noise = rng.normal(size=(6000, 64))
    angle = t[:, None] * np.pi / 2
    x = np.cos(angle) * digits[rng.integers(0, len(digits), 6000)] + np.sin(angle) * noise
    x = np.hstack([x, np.cos(angle * np.arange(8))])
    weights = np.minimum(1.0 / np.tan(0.02 + 0.96 * angle[:, 0]) ** 2, 100.0) / 5
    data = tensors(x, np.column_stack([noise, weights]))
    return mlp(72, 128, 64), data, squared, {"lr": 0.02, "groups": (32 * t).astype(int)}


def noisy_labels():
    x, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(5)
    y = np.where(rng.random(len(y)) < 0.3, rng.integers(0, 10, len(y)), y)
    return mlp(64, 64, 10), tensors(x / 16, y), classes(), {"lr": 0.1}


NETWORKS = {"rare classes": rare_classes, "equal losses": equal_losses,
            "over-fitting": over_fitting, "neural field": neural_field, "timesteps": timesteps,
            "noisy labels": noisy_labels}  # fmt: skip


def standardised(load):
    X, y = load(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def public(name):
    data = load(name)
    X = data.X if sparse.issparse(data.X) else StandardScaler().fit_transform(data.X)
    return X, data.y


def last_column(name):
    """Predict the last column of a set by the others."""
    X = StandardScaler().fit_transform(load(name).X)
    return X[:, :-1], X[:, -1]


def text_like(n=24_000, d=20_000, words=60):
    """Counts of words with frequencies as in texts, brought to norm 1, and a linear target."""
    rng = np.random.default_rng(0)
    chances = 1.0 / np.arange(1, d + 1)
    columns = rng.choice(d, (n, words), p=chances / chances.sum())
    rows = np.repeat(np.arange(n), words)
    X = sparse.csr_matrix((np.ones(n * words), (rows, columns.ravel())), shape=(n, d))
    X.sum_duplicates()
    X = sparse.csr_matrix(X.multiply(1.0 / sparse.linalg.norm(X, axis=1)[:, None]))
    margins = X @ rng.normal(size=d) + 0.1 * rng.normal(size=n)
    return X, (margins > np.quantile(margins, 0.7)).astype(int)


def rare(n=40_000, d=30):
    """One row in two hundred is to be found, in columns of uneven tails."""
    rng = np.random.default_rng(1)
    X = rng.standard_t(4, size=(n, d))
    margins = X @ rng.normal(size=d) + 2.0 * rng.normal(size=n)
    return StandardScaler().fit_transform(X), margins > np.quantile(margins, 0.995)


# The rule was chosen on these tables, and on the networks "rare classes" and "over-fitting".
CHOSEN_ON = {
    "breast cancer": (lambda: standardised(load_breast_cancer), "classification"),
    "text-like": (text_like, "classification"),
    "rare positives": (rare, "classification"),
    "digits": (lambda: standardised(load_digits), "classification"),
}
NAMES = ["a9a", "aloi", "campaign", "cover", "hapt", "mammography", "mushrooms", "shuttle", "skin",
         "smtp"]  # fmt: skip
TABLES = {
    **{name: (functools.partial(public, name), "classification") for name in NAMES},
    "kdd, last column": (lambda: last_column("kdd"), "regression"),
    "diabetes": (lambda: standardised(load_diabetes), "regression"),
    "wine": (lambda: standardised(load_wine), "classification"),
}


def ask_network(name, seed, long):
    import torch

    from tombola.advice import network

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    model, data, loss, options = NETWORKS[name]()
    optimizer = functools.partial(torch.optim.SGD, lr=options.pop("lr"))
    batch = 16
    steps = max(3 * len(data) // batch, 480) // 24 * 24 * (LONG if long else 1)
    advice = network(
        model, data, loss, optimizer=optimizer, batch_size=batch, steps=steps, seed=seed,
        budget=30.0 * (LONG if long else 1), **options,
    )  # fmt: skip
    return advice, advice.verdict, "", f"{advice.sampler} {advice.feed}"


def ask_table(name, seed, long):
    make, task = (TABLES | CHOSEN_ON)[name]
    advice = advise(*make(), task=task, seed=seed, budget=10.0 * (LONG if long else 1))
    return advice, advice.draws, advice.method, advice.curves[-1].name if advice.curves else ""


def measured(name, seed, length):
    """Return a row: what is said, and what it took."""
    began = time.perf_counter()
    ask = ask_network if name in NETWORKS else ask_table
    advice, verdict, use, how = ask(name, seed, length == "long")
    took = time.perf_counter() - began
    figures = [f"{it:.4g}" for it in (verdict.ratio, verdict.low, verdict.high)]
    lines = len(str(advice).split("\n"))
    cells = [name, seed, length, WORDS[verdict.pays], *figures, use, how, f"{took:.1f}", lines]
    return dict(zip(FIELDS, map(str, cells), strict=True))


def summary(name, rows):
    """Return a row of the table: what is said, contrary verdicts, decisions."""
    mine = {length: [r for r in rows if r["case"] == name and r["length"] == length]
            for length in ("short", "long")}  # fmt: skip
    counts = {length: Counter(r["pays"] for r in of) for length, of in mine.items()}
    known = counts["long"].most_common(1)[0][0] if mine["long"] else "?"
    contrary = {"pays": "does not pay", "does not pay": "pays"}.get(known)
    wrong = counts["short"][contrary] if mine["long"] else "?"
    decided = len(mine["short"]) - counts["short"]["too close"]
    said = [", ".join(f"{w} {c}" for w, c in counts[length].most_common()) for length in mine]
    models = [", ".join(f"{w} {c}" for w, c in Counter(r["use"] for r in of).most_common())
              for of in mine.values()]  # fmt: skip
    seconds = max((float(r["seconds"]) for r in mine["short"]), default=float("nan"))
    lines = max((int(r["lines"]) for r in mine["short"]), default=0)
    return [name, *said, wrong, f"{decided}/{len(mine['short'])}", *models, f"{seconds:.0f}", lines]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    everything = [*NETWORKS, *TABLES, *CHOSEN_ON]
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--cases", nargs="*", default=everything, choices=everything)
    parser.add_argument("--rows", type=Path, default=Path("benchmarks/results/verdicts.csv"))
    parser.add_argument("--only", choices=["short", "long"], help="only these lengths")
    options = parser.parse_args()
    rows = []
    if options.rows.exists():
        with open(options.rows, newline="") as file:
            rows = list(csv.DictReader(file))
    known = {(r["case"], r["seed"], r["length"]) for r in rows}
    lengths = [options.only] if options.only else ["short", "long"]
    missing = set()
    with open(options.rows, "a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if not rows:
            writer.writeheader()
        for length in lengths:
            for seed in range(options.seeds):
                for name in options.cases:
                    if (name, str(seed), length) in known or name in missing:
                        continue
                    try:
                        row = measured(name, seed, length)
                    except DataError as error:
                        missing.add(name)
                        print(f"{name} is left out: {error}", file=sys.stderr)
                        continue
                    rows.append(row)
                    writer.writerow(row)
                    file.flush()
                    print(*row.values(), sep=", ", file=sys.stderr)
    print("| case | short race | long race | contrary | decided | model, short | model, long "
          "| seconds | lines |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|")
    for name in options.cases:
        if name not in missing:
            print(f"| {' | '.join(map(str, summary(name, rows)))} |", flush=True)


if __name__ == "__main__":
    main()
