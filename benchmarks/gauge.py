"""How often the gauge is right, and how wide it is: 1,000 replications of each kind of losses.

    python benchmarks/gauge.py                     # about three minutes
    python benchmarks/gauge.py --replications 50   # ten seconds

1,000 items (starved: 100,000). "fixed" draws by the roots of the losses, "adaptive" is `VRB(n)`,
whose every distribution depends on the past. A replication counts as covered if the bound holds at
*all* of the times from n to 20 n losses at which it is read, sixteen of them ("covered_late": from
4 n on); the starved case, after 5,000 losses. The truth is the ratio of the summed second moments
under the distributions that were played. "once" is the central limit theorem's interval, which
holds at one time only.
"""

import argparse
import csv
import math
from pathlib import Path

import numpy as np

import tombola
from tombola.gauge import BETS, LOG_PRIOR, LOG_SHARES, RATIOS, Gauge, new_tally, record

N, BATCH, ROUNDS = 1_000, 50, 400
TIMES = np.unique(np.round(np.geomspace(N, BATCH * ROUNDS, 16) / BATCH).astype(int))
FILE = Path(__file__).parent / "results" / "gauge.csv"

LOSSES = {
    "light: uniform from 0.5 to 1.5": lambda rng: rng.uniform(0.5, 1.5, N),
    "heavy: lognormal, sigma 1.5": lambda rng: rng.lognormal(0, 1.5, N),
    "heavier: Pareto, exponent 1.5": lambda rng: rng.pareto(1.5, N) + 1,
}


def once(gauge):
    """The central limit theorem's interval for the ratio, as if it were read at one time only."""
    sums, ratio = gauge.tally[0], gauge.second_moment_ratio
    spread = sums.ours_spread - 2 * ratio * sums.cross_spread + ratio**2 * sums.uniform_spread
    half = 1.96 * math.sqrt(max(0.0, spread)) / sums.uniform
    return ratio - half, ratio + half


BOUNDS = {
    "interval": lambda gauge: gauge.interval(),
    "worst": lambda gauge: (0.0, gauge.worst()),
    "once": once,
}


def moments(losses, chances):
    """The second moments of our estimate and of uniform sampling."""
    return np.array([(losses**2 / chances).sum() / len(losses) ** 2, (losses**2).mean()])


def fixed(losses, seed):
    """Yield truth and gauge at each time, for draws by the roots of the losses."""
    rng = np.random.default_rng(seed)
    chances = 0.9 * np.sqrt(losses) / np.sqrt(losses).sum() + 0.1 / N
    ours, uniform = moments(losses, chances)
    tally, limit = new_tally(), float(1 / (N * chances.min()))
    items = rng.choice(N, BATCH * ROUNDS, p=chances)
    for part in np.split(items, TIMES * BATCH)[:-1]:
        record(tally, N, chances[part], losses[part])
        yield ours / uniform, Gauge(tally, N, limit)


def adaptive(losses, seed):
    """Yield truth and gauge at each time, for the draws of `VRB(n)`."""
    sampler, total = tombola.VRB(N, shuffle=False, seed=seed), np.zeros(2)
    for played in range(1, ROUNDS + 1):
        draw = sampler.draw(BATCH)
        total += moments(losses, sampler.probabilities())
        sampler.update(draw, losses[draw.indices])
        if played in TIMES:
            yield total[0] / total[1], sampler.gauge


def starved(seed, start=1.0):
    """Yield truth and gauge once: 50 of 100,000 items hold nearly all of the second moment.

    They are drawn with mixing alone, and seldom seen: the largest loss was that of another item,
    at the start, when all were as large. With `start` = 0.01, not even that was seen.
    """
    n, few, mixing = 100_000, 50, 0.1
    chances = np.full(n, mixing / n)
    chances[few:] += (1 - mixing) / (n - few)
    losses = np.full(n, 0.01)
    losses[:few] = 1.0
    ours, uniform = moments(losses, chances)
    edges = np.cumsum(chances)[:-1]
    items = np.searchsorted(edges, np.random.default_rng(seed).random(5_000), side="right")
    tally = new_tally()
    record(tally, n, chances[[n - 1]], np.full(1, start))
    record(tally, n, chances[items], losses[items])
    yield ours / uniform, Gauge(tally, n, 1 / mixing)


def cases():
    """Yield the name of each case, its draws, and a function that plays a replication."""
    for name, made in LOSSES.items():
        losses = made(np.random.default_rng(0))
        for play in (fixed, adaptive):
            yield name, play.__name__, lambda seed, play=play, losses=losses: play(losses, seed)
    yield "starved", "fixed", starved
    yield "starved, the largest unseen", "fixed", lambda seed: starved(seed, 0.01)


def measured(play, replications):
    """The coverage of each bound, its median ends, and how often it says "harmless" wrongly."""
    held, held_late = dict.fromkeys(BOUNDS, 0), dict.fromkeys(BOUNDS, 0)
    wrong = dict.fromkeys(BOUNDS, 0)
    ends = {name: [] for name in BOUNDS}
    truths = []
    for seed in range(replications):
        inside, inside_late = dict.fromkeys(BOUNDS, True), dict.fromkeys(BOUNDS, True)
        harmless = dict.fromkeys(BOUNDS, False)
        for truth, gauge in play(seed):
            for name, bound in BOUNDS.items():
                low, high = bound(gauge)
                inside[name] &= low <= truth <= high
                inside_late[name] &= low <= truth <= high or gauge.count < 4 * gauge.n
                harmless[name] |= high < 1 < truth
        truths.append(truth)
        for name, bound in BOUNDS.items():
            held[name] += inside[name]
            held_late[name] += inside_late[name]
            wrong[name] += harmless[name]
            ends[name].append(bound(gauge))
    for name in BOUNDS:
        low, high = np.median(ends[name], axis=0)
        yield {
            "bound": name,
            "replications": replications,
            "covered": int(held[name]) / replications,
            "covered_late": int(held_late[name]) / replications if gauge.n == N else "",
            "wrongly_harmless": int(wrong[name]) / replications,
            "ratio": round(float(np.median(truths)), 4),
            "low": round(float(low), 4),
            "high": round(float(high), 4),
        }


def by_betting(probabilities, losses, n, limit, confidence=0.95):
    """`Gauge.worst`, with the gambler's true wealth: from all losses instead of their sums."""
    u = 1 / (n * probabilities)
    square = (losses / losses.max()) ** 2 * u
    above = ((square * u).sum() / square.sum() < RATIOS) & (limit > RATIOS)
    wealth = []
    for ratio in RATIOS[above]:
        z = square * (u - ratio)
        bets = BETS.ravel() * (BETS.ravel() * limit * (limit - ratio) < 1)
        logs = [np.log1p(-bet * z).sum() if bet else -np.inf for bet in bets]
        wealth.append(np.logaddexp.reduce(np.array(logs) + LOG_SHARES.ravel()))
    wealth = np.logaddexp.accumulate(np.array(wealth) + LOG_PRIOR[above])
    excluded = RATIOS[above][wealth >= -math.log(1 - confidence)]
    return float(excluded[0]) if len(excluded) else limit


def readme():
    """Yield the README's first example: both bounds after each number of losses."""
    losses = np.random.default_rng(0).lognormal(0, 1.5, 10_000)
    sampler = tombola.VRB(len(losses), seed=0)
    chances, seen = [], []
    for step in range(1, 4_001):
        draw = sampler.draw(128)
        sampler.update(draw, losses[draw.indices])
        chances.append(draw.probabilities)
        seen.append(losses[draw.indices])
        if step in (100, 400, 4_000):
            gauge = sampler.gauge
            bounds = {name: bound(gauge) for name, bound in BOUNDS.items()}
            if step < 4_000:
                everything = np.concatenate(chances), np.concatenate(seen)
                bounds["betting"] = 0.0, by_betting(*everything, gauge.n, gauge.importance_limit)
            for name, (low, high) in bounds.items():
                yield {
                    "losses": f"README, {gauge.count}",
                    "draws": "adaptive",
                    "bound": name,
                    "ratio": round(gauge.second_moment_ratio, 4),
                    "low": round(float(low), 4),
                    "high": round(float(high), 4),
                }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=1_000)
    arguments = parser.parse_args()
    rows = list(readme())
    for name, draws, play in cases():
        for row in measured(play, arguments.replications):
            rows.append({"losses": name, "draws": draws, **row})
            print(rows[-1], flush=True)
    for row in rows:
        if "replications" not in row:
            print(row)
    names = ["losses", "draws", "bound", "replications", "covered", "covered_late",
             "wrongly_harmless", "ratio", "low", "high"]  # fmt: skip
    with FILE.open("w", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
