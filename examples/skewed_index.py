"""Draw from a million items of very unequal weight, and compare frequencies with weights.

python examples/skewed_index.py --out out
"""

import argparse
import time
from pathlib import Path

import matplotlib
import numpy as np

import tombola

matplotlib.use("Agg")
from matplotlib import pyplot as plt

BATCH = 4096


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture")
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--draws", type=int, default=20_000_000, help="at least 4,096")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.items < 100 or options.draws < BATCH:
        parser.error(f"--items must be at least 100 and --draws at least {BATCH}")

    print(f"{options.items:,} items, log-normal(1.5) weights as integers")
    normal = np.random.default_rng(options.seed).normal(0, 1.5, options.items)
    weights = np.maximum(1, np.exp(normal) * 2**16).astype(np.int64)
    index = tombola.WeightIndex(weights, options.seed)
    index.draw(BATCH)  # the first call loads or compiles the kernel

    counts = np.zeros(options.items, dtype=np.int64)
    batches, seconds = options.draws // BATCH, 0.0
    for batch in range(batches):
        start = time.perf_counter()
        items = index.draw(BATCH).indices
        seconds += time.perf_counter() - start
        np.add.at(counts, items, 1)
        if batch % 200 == 199 or batch + 1 == batches:
            print(f"\rdrawing {(batch + 1) / batches:4.0%}", end="", flush=True)
    draws = batches * BATCH
    print(f"\r{draws:,} draws, {seconds / draws * 1e9:.0f} ns each in batches of {BATCH}")

    # Ten groups of items, from the lightest to the heaviest tenth.
    groups = np.array_split(np.argsort(weights, kind="stable"), 10)
    total = index.total
    expected = np.array([int(weights[group].sum()) / total for group in groups])
    observed = np.array([counts[group].sum() / draws for group in groups])
    deviations = (observed - expected) / np.sqrt(expected * (1 - expected) / draws)
    print("\n items by weight   expected   observed   deviation (standard errors)")
    for k in range(10):
        print(
            f"  tenth {k + 1:2}        {expected[k]:8.4%}   {observed[k]:8.4%}   "
            f"{deviations[k]:+10.2f}"
        )

    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "skewed_index.png"
    draw_picture(weights, counts, draws, total, path)
    print(f"\npicture: {path}")


def draw_picture(
    weights: np.ndarray, counts: np.ndarray, draws: int, total: int, path: Path
) -> None:
    """Plot observed against expected frequencies, and the share of draws of the heaviest items."""
    classes = np.array_split(np.argsort(-weights, kind="stable"), 40)
    expected = np.array([weights[members].mean() for members in classes]) / total
    observed = np.array([counts[members].mean() for members in classes]) / draws
    spread = 2 * np.sqrt(expected / draws / len(classes[0]))

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    left.errorbar(
        expected, observed, yerr=spread, fmt="o", ms=4, label="items in 40 classes by weight"
    )
    ends = np.array([expected.min(), expected.max()])
    left.plot(ends, ends, color="black", lw=1, label="exact")
    left.set(xscale="log", yscale="log", xlabel="weight / total", ylabel="observed frequency")
    left.set_title("Observed frequencies match the weights")
    left.legend()
    share = np.cumsum(np.sort(weights)[::-1]) / total
    drawn = np.cumsum(counts[np.argsort(-weights, kind="stable")]) / draws
    at = np.linspace(0, len(weights) - 1, 400).astype(int)
    right.plot(at / len(weights), share[at], color="black", lw=1, label="share of the weight")
    right.plot(at / len(weights), drawn[at], "--", lw=2.5, label="share of the draws")
    right.set(xlabel="share of the items, heaviest first", ylabel="share")
    tenth = drawn[len(weights) // 10 - 1]
    right.set_title(f"The heaviest tenth takes {tenth:.0%} of the draws")
    right.legend(loc="lower right")
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
