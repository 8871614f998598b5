"""All samplers against the same losses: total cost over that of the best fixed distribution.

python -m experiments.suite [--quick] [--out DIR]

There are n = 200 and 2,000 items with log-normal(1.5) losses, 50 epochs of single draws and 20
seeds; results are means with 95% intervals. In the scenes, losses are constant (stationary), are
redrawn half-way (switching), move from one sample to another as 1/sqrt(1 + t/n) (drifting), have
a log-normal(1) factor in each round (noisy), are non-zero with probability 0.2 (sparse), are all
equal, or are equal up to noise.

Costs are expectations given p, sums of E[l^2] / p, computed once in n/40 rounds. Each sampler
plays with its authors' defaults and, if it has a parameter, also with the best of six values on
five other seeds, so that all have the same tuning budget. The two rows agree if the best value
is the default. The cost is that of one draw, so it does not show what draws without replacement
gain over an epoch (`EpochVRB`, `InfoBatch`, `KVib`). The suite takes over an hour on one core,
mostly for the samplers without a compiled loop; ``--only VRB`` takes two minutes.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import tombola
from tombola.compiling import kernel
from tombola.ledger import Sheet, account, mean_estimate, new_sheet
from tombola.random import Stream
from tombola.report.rows import as_csv
from tombola.samplers.compiled import Compiled, CompiledSampler
from tombola.simulate import log_normal
from tombola.simulate.randomness import next_normals, next_unit
from tombola.state.files import write_text

__all__ = ["main"]

SCENES = ("stationary", "switching", "drifting", "noisy", "sparse", "equal", "equal + noise")
STATIONARY, SWITCHING, DRIFTING, NOISY, SPARSE, EQUAL, EQUAL_NOISE = range(7)
DENSITY = 0.2
LOOKS = 40  # at the cost, in an epoch
NOISE = 2**63 + 2  # child of a seed's stream for the noise
GOALS = {
    "stationary": 1.35, "switching": 1.45, "drifting": 1.35, "noisy": 1.6, "sparse": 2.1,
    "equal": 1.02,
}  # fmt: skip


@kernel
def clean(scene: Any, t: Any, rounds: Any, first: Any, second: Any, out: Any) -> None:
    """Write the losses of round t, without noise."""
    share = 1.0  # of the first losses; the rest is that of the second ones
    if scene == SWITCHING and t >= rounds // 2:
        share = 0.0
    elif scene == DRIFTING:
        share = 1.0 / math.sqrt(1.0 + t / out.size)
    for item in range(out.size):
        out[item] = second[item] + (first[item] - second[item]) * share


@kernel
def noise(scene: Any, words: Any) -> Any:
    """Return the random factor of one loss."""
    if scene in (NOISY, EQUAL_NOISE):
        return math.exp(next_normals(words)[0])
    if scene == SPARSE:
        return 1.0 if next_unit(words) < DENSITY else 0.0
    return 1.0


@kernel(allocates=True)
def game(
    state: Compiled, scene: Any, rounds: Any, first: Any, second: Any, words: Any, sheet: Any
) -> Any:
    """Play all rounds, one draw each; add the costs to the sheet."""
    stride = max(1, first.size // LOOKS)
    for t in range(rounds):
        item, probability = state.draw_one()
        if t % stride == 0:
            clean(scene, t, rounds, first, second, sheet.losses)
            state.fill_probabilities(sheet.probabilities)
            account(sheet, float(min(stride, rounds - t)))
        state.update_one(item, probability, sheet.losses[item] * noise(scene, words))


def slow_game(
    sampler: Any, scene: int, rounds: int, first: Any, second: Any, words: Any, sheet: Sheet
) -> None:
    """Do the same as `game`, for any sampler."""
    stride = max(1, len(first) // LOOKS)
    for t in range(rounds):
        draw = sampler.draw(1)
        if t % stride == 0:
            held = min(stride, rounds - t)
            clean(scene, t, rounds, first, second, sheet.losses)
            sheet.probabilities[:] = sampler.probabilities()
            account(sheet, float(held))
            if sampler.feedback == "all":  # the losses of all rounds of this stride at once
                sampler.update_all(sheet.losses * math.sqrt(held))
        if sampler.feedback == "drawn":
            sampler.update(draw, sheet.losses[draw.indices] * noise(scene, words))


class Situation(NamedTuple):
    """What a sampler may know before the game."""

    n: int
    bound: float  # the largest squared loss without noise
    horizon: int
    seed: int
    losses: NDArray[np.float64]  # for samplers that may know them, or groups made from them

    @property
    def groups(self) -> NDArray[np.int64]:
        """The decile of each item's first loss, in the role of a label."""
        ranks = np.argsort(np.argsort(self.losses, kind="stable"), kind="stable")
        return ranks * 10 // self.n


Make = Callable[[Situation, float], Any]
BOUNDS = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5)  # times the largest squared loss
MIXINGS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.8)

# For each sampler: its constructor, its authors' setting, and six candidates.
PLAYERS: dict[str, tuple[Make, float, tuple[float, ...]]] = {
    "uniform": (lambda s, _: tombola.Uniform(s.n, seed=s.seed), 0, ()),
    "VRB(n)": (lambda s, _: tombola.VRB(s.n, seed=s.seed), 0, ()),
    "EpochVRB": (lambda s, _: tombola.EpochVRB(s.n, seed=s.seed), 0, ()),
    "EpochVRB, share 0.5": (lambda s, _: tombola.EpochVRB(s.n, share=0.5, seed=s.seed), 0, ()),
    "InfoBatch": (
        lambda s, x: tombola.InfoBatch(s.n, s.horizon // s.n, prune=x, seed=s.seed),
        0.5,
        (0.1, 0.25, 0.5, 0.75, 0.9, 0.95),
    ),
    "KVib": (
        lambda s, x: tombola.KVib(s.n, bound=s.bound * x, horizon=s.horizon, seed=s.seed),
        1.0,
        BOUNDS,
    ),
    "VRB, bound L, horizon T": (
        lambda s, x: tombola.VRB(s.n, bound=s.bound * x, horizon=s.horizon, seed=s.seed),
        1.0,
        BOUNDS,
    ),
    "MABS": (
        lambda s, x: tombola.MABS(
            s.n, step=x * tombola.MABS(s.n, horizon=s.horizon, bound=s.bound).step, seed=s.seed
        ),
        1.0,
        (1.0, 1e1, 1e2, 1e3, 1e4, 1e5),
    ),
    "MirrorDescent": (
        lambda s, x: tombola.MirrorDescent(s.n, bound=s.bound, step=x or None, seed=s.seed),
        0.0,  # the step of the theory
        (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2),
    ),
    "Avare": (lambda s, x: tombola.Avare(s.n, floor=x, seed=s.seed), 0.2, MIXINGS),
    "SRG": (lambda s, x: tombola.SRG(s.n, mixing=x, seed=s.seed), 0.5, MIXINGS),
    "Stale": (lambda s, x: tombola.Stale(s.n, mixing=x, seed=s.seed), 0.1, MIXINGS),
    "OSMD": (
        lambda s, x: tombola.OSMD(
            s.n, bound=s.bound, step=x or None, horizon=None if x else s.horizon, seed=s.seed
        ),
        0.0,  # the step of the theory
        (0.0, 1.0, 3.0, 10.0, 30.0, 100.0),
    ),
    "Safe, told that nothing moves": (
        lambda s, _: tombola.Safe(s.n, smoothness=np.ones(s.n), seed=s.seed),
        0,
        (),
    ),
    "AdaptiveWeighted, told tenths": (
        lambda s, x: tombola.AdaptiveWeighted(s.groups, step=x, seed=s.seed),
        0.05,
        (0.005, 0.015, 0.05, 0.15, 0.5, 1.5),
    ),
    "VRM, told tenths": (
        lambda s, x: tombola.VRM(np.arange(10)[:, np.newaxis] == s.groups, step=x, seed=s.seed),
        0.1,
        (0.01, 0.03, 0.1, 0.3, 1.0, 3.0),
    ),
    "GroupVRB, told tenths": (lambda s, _: tombola.GroupVRB(s.groups, seed=s.seed), 0, ()),
    "FTRL, told all losses": (lambda s, _: tombola.FTRL(s.n, bound=s.bound, seed=s.seed), 0, ()),
    "static, told the first losses": (
        lambda s, _: tombola.Static(s.losses, mixing=0.1, seed=s.seed),
        0,
        (),
    ),
}


def ratio(make: Make, setting: float, scene: int, n: int, epochs: int, seed: int) -> float:
    """Play one game; return its cost over that of the best fixed distribution."""
    equal = scene in (EQUAL, EQUAL_NOISE)
    first = np.ones(n) if equal else log_normal(n, seed=2 * seed)
    second = np.ones(n) if equal else log_normal(n, seed=2 * seed + 1)
    both = scene in (SWITCHING, DRIFTING)
    bound = float(max(first.max(), second.max() if both else 0.0) ** 2)
    sampler = make(Situation(n, bound, epochs * n, seed, first), setting)
    words, sheet = Stream(seed).child(NOISE).state, new_sheet(n)
    arguments = (scene, epochs * n, first, second, words, sheet)
    if isinstance(sampler, CompiledSampler) and sampler.feedback == "drawn":
        game(sampler.state, *arguments)
    else:
        slow_game(sampler, *arguments)
    return float(sheet.totals[0].cost / np.sqrt(sheet.squares).sum() ** 2)


def main() -> None:
    """Run the suite from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.suite", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--out", type=Path, default=Path("out/suite"), help="folder for the rows")
    parser.add_argument("--quick", action="store_true", help="n = 200, 5 seeds, no tuning")
    parser.add_argument("--seeds", type=int, help="number of seeds (default 20; with --quick 5)")
    parser.add_argument(
        "--first-seed", type=int, default=0, help="the first seed; the others follow it"
    )
    parser.add_argument("--only", nargs="+", help="samplers to play, by the start of their name")
    options = parser.parse_args()
    sizes, seeds = ((200,), 5) if options.quick else ((200, 2000), 20)
    seeds = seeds if options.seeds is None else options.seeds
    if seeds < 2:
        parser.error(f"--seeds must be at least 2 for an interval, got {seeds}")
    played = range(options.first_seed, options.first_seed + seeds)
    players = {
        name: player
        for name, player in PLAYERS.items()
        if not options.only or any(name.startswith(start) for start in options.only)
    }
    options.out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    start = time.perf_counter()
    for n in sizes:
        for name, (make, default, candidates) in players.items():
            for scene, label in enumerate(SCENES):
                print(
                    f"\r{time.perf_counter() - start:5.0f} s  n = {n}  {name}, {label:60.60}",
                    end="", file=sys.stderr, flush=True,
                )  # fmt: skip
                best = default
                if candidates and not options.quick:
                    best = min(
                        candidates,
                        key=lambda x: np.mean(
                            [ratio(make, x, scene, n, 50, seed) for seed in range(1000, 1005)]
                        ),
                    )
                for setting, kind in ((default, "default"), (best, "best of six")):
                    if kind == "best of six" and (not candidates or options.quick):
                        continue
                    values = [ratio(make, setting, scene, n, 50, seed) for seed in played]
                    estimate = mean_estimate(values)
                    rows.append({
                        "n": n, "sampler": name, "kind": kind, "scene": label,
                        "setting": setting, "mean": estimate.value,
                        "half_width": estimate.high - estimate.value,
                        "worst": max(values), "seeds": seeds,
                    })  # fmt: skip
            write_text(options.out / "suite.csv", as_csv(rows))
    print("\r" + " " * 100 + "\r", end="", file=sys.stderr)
    show(rows)
    print(f"\nrows: {options.out / 'suite.csv'}  ({time.perf_counter() - start:.0f} s)")


def show(rows: list[dict[str, Any]]) -> None:
    """Print the table, and whether `VRB(n)` meets its goals."""
    for n in sorted({row["n"] for row in rows}):
        print(f"\nn = {n:,}, cost over that of the best fixed distribution\n")
        print("| sampler | setting | " + " | ".join(SCENES) + " |")
        print("|---|---|" + "---|" * len(SCENES))
        for name, kind in dict.fromkeys((row["sampler"], row["kind"]) for row in rows):
            cells = [
                f"{row['mean']:.2f} ± {row['half_width']:.2f}"
                for scene in SCENES
                for row in rows
                if (row["n"], row["sampler"], row["kind"], row["scene"]) == (n, name, kind, scene)
            ]
            print(f"| {name} | {kind} | " + " | ".join(cells) + " |")
        for row in rows:
            goal = GOALS.get(row["scene"])
            if row["n"] == n and row["sampler"] == "VRB(n)" and goal:
                met = "met" if row["mean"] <= goal else "MISSED"
                print(f"  {met:6} VRB(n), {row['scene']}: {row['mean']:.3f} <= {goal}")


if __name__ == "__main__":
    main()
