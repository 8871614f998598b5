"""The theory, measured: regret under the paper's bounds, and wrong players that break them.

python -m tombola.experiments.regret [--quick] [--out DIR]

(a) FTRL with full information, under Theorem 3. (b) Algorithm 1, under Theorem 7. (c) Algorithm 1
against an adversary that sees the player's distribution: growth as Theorem 8 says. (d) How regret
grows with T on stationary losses, for the paper's constants and for the parameter-free rule.

Constants such as 74 make the bounds easy to satisfy: below T = 2.6e7 n, uniform draws do (see
`tombola.theory.uniform_crossing`). So n is small, T large, and each panel has wrong players.
"""

import argparse
import csv
import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola import theory
from tombola.ledger import Estimate, Ledger, mean_estimate, pseudo_regret
from tombola.samplers import FTRL, VRB, Uniform
from tombola.simulate import Adversary, Neglect, Stationary, Switching, log_normal, play

__all__ = ["main"]

DRAWS = 10  # a frozen player learns from so many
GREEDY: dict[str, Any] = {"bound": 1e-20, "mixing": 0.001}  # no prior to speak of, little mixing

Row = dict[str, Any]


class Progress:
    """One line on stderr that says what runs, for how long, and how far it is."""

    def __init__(self) -> None:
        self.what = ""
        self._start = time.perf_counter()
        self._shown = 0.0

    def __call__(self, done: int, rounds: int) -> None:
        """Show the line, at most twice a second."""
        now = time.perf_counter()
        if now - self._shown > 0.5:
            self._shown = now
            line = f"{now - self._start:5.0f} s  {self.what}  {done / rounds:4.0%}"
            print(f"\r{line[:99]:<99}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Wipe the line."""
        print(f"\r{'':<99}\r", end="", file=sys.stderr, flush=True)


progress = Progress()


def game(
    sampler: Any, adversary: Adversary, rounds: int, frozen: bool = False, **options: Any
) -> Ledger:
    """Play; a frozen player is fed in its first ten rounds only."""
    options = {"progress": progress, **options}
    ledger: Ledger = options.pop("ledger", None) or Ledger(sampler.n, marks=[])
    if not frozen:
        return play(sampler, adversary, rounds, ledger=ledger, **options)
    play(sampler, adversary, DRAWS, ledger=ledger, **options)
    return play(sampler, adversary, rounds - DRAWS, ledger=ledger, feed=False, **options)


def powers(first: float, last: float, in_a_decade: int = 1) -> list[int]:
    """Powers of ten, and what lies between: 10^4, 10^4.5, ...

    >>> powers(3, 4, in_a_decade=2)
    [1000, 3162, 10000]
    """
    return [
        int(10 ** (first + k / in_a_decade) + 0.5)
        for k in range(round((last - first) * in_a_decade) + 1)
    ]


def exponent(rounds: Sequence[int], regrets: NDArray[np.float64]) -> Estimate:
    """Fit regret ~ T^a for each repetition (a row of regrets); return the mean of a.

    >>> round(exponent([10, 100], np.array([[1.0, 10.0], [1.0, 10.0]])).value, 6)
    1.0
    """
    if (regrets <= 0).any():
        return Estimate(math.nan, math.nan, math.nan)
    slopes = np.polyfit(np.log(rounds), np.log(regrets).T, 1)[0]
    return mean_estimate(slopes)


def row(panel: str, player: str, n: int, rounds: int, regret: Estimate, **more: Any) -> Row:
    """One line of the table and of the CSV file."""
    return {
        "panel": panel, "player": player, "n": n, "rounds": rounds, "regret": regret.value,
        "low": regret.low, "high": regret.high, "bound": math.nan, "bound_from_losses": math.nan,
        "seeds": 1, **more,
    }  # fmt: skip


# --- (a) full information -------------------------------------------------------------------


def full_information(quick: bool) -> tuple[list[Row], list[Row]]:
    """FTRL under Theorem 3; the losses move from one item to the other after ten rounds."""
    marks = powers(1, 4.5 if quick else 6, in_a_decade=2)
    rows, fits = [], []
    players: list[tuple[str, Callable[[], Any], bool]] = [
        ("FTRL", lambda: FTRL(2, bound=1.0), False),
        ("FTRL, frozen after 10 rounds", lambda: FTRL(2, bound=1.0), True),
        ("uniform", lambda: Uniform(2), False),
    ]
    for name, make, frozen in players:
        progress.what = f"a: {name}"
        ledger = Ledger(2, marks=marks)
        adversary = Switching([1.0, 0.0], [0.0, 1.0], at=DRAWS)
        game(make(), adversary, marks[-1], frozen, ledger=ledger)
        late = np.array(marks) >= 100  # by then the switch is past
        fits.append(
            _fit("a", name, 2, np.array(marks)[late], ledger.history()["regret"][None, late])
        )
        for line in ledger.table():
            squares = [min(DRAWS, line["rounds"]), max(0, line["rounds"] - DRAWS)]
            regret = Estimate(line["regret"], line["regret"], line["regret"])  # nothing is random
            rows.append(
                row("a", name, 2, line["rounds"], regret,
                    bound=theory.full_information(1.0, rounds=line["rounds"]),
                    bound_from_losses=theory.full_information(1.0, squares=squares))
            )  # fmt: skip
    return rows, fits


# --- (b) and (c) bandit feedback ------------------------------------------------------------

Player = tuple[str, Callable[[int, int, int], Any], bool]  # name, from (n, T, seed), frozen?

RIGHT: Player = ("VRB", lambda n, T, seed: VRB(n, bound=1.0, horizon=T, seed=seed), False)
FROZEN: Player = ("VRB, frozen after 10 draws", RIGHT[1], True)
LITTLE_MIXING: Player = (
    "VRB, mixing 0.001 for theta",
    lambda n, T, seed: VRB(n, bound=1.0, mixing=0.001, seed=seed),
    False,
)
LEADER: Player = (
    "mixing 0.001, no prior",
    lambda n, T, seed: VRB(n, **GREEDY, seed=seed),
    False,
)
FROZEN_LEADER: Player = ("the same, frozen after 10 draws", LEADER[1], True)


def bandit(
    panel: str,
    losses: Sequence[float],
    horizons: Sequence[int],
    seeds: int,
    players: Sequence[Player],
    adversary: type[Adversary] = Stationary,
) -> tuple[list[Row], list[Row]]:
    """Each player, at each horizon, over some seeds: regret, expected or pseudo, and its growth.

    Losses that do not depend on the player make them the same. From T = 10^7 on, the cost of
    stationary games is looked at every T / 10^6 rounds: p moves little in so few rounds.
    """
    n, rows, fits = len(losses), [], []
    for name, make, frozen in players:
        regrets = np.empty((seeds, len(horizons)))
        for k, T in enumerate(horizons):
            every = max(1, T // 10**6) if adversary.steady else 1
            ledgers = []
            for seed in range(seeds):
                progress.what = f"{panel}: {name}, n = {n}, T = {T:.0e}, seed {seed}"
                opponent = adversary(losses)  # type: ignore[call-arg, arg-type]
                ledgers.append(game(make(n, T, seed), opponent, T, frozen, every=every))
                regrets[seed, k] = ledgers[-1].regret
            expected = mean_estimate(regrets[:, k])
            estimate = pseudo_regret(ledgers) if adversary is Stationary else expected
            squares = np.mean([ledger.squares for ledger in ledgers], axis=0)
            bounds = {
                "bound": theory.bandit(1.0, n, T),
                "bound_from_losses": theory.bandit_with_mixing(
                    1.0, n, T, min(1.0, (n / T) ** (1 / 3)), squares
                ),
            }
            if adversary is not Stationary:
                bounds = {"rate": theory.non_oblivious_rate(1.0, n, T)}
            rows.append(row(panel, name, n, T, estimate, seeds=seeds, **bounds))
        if len(horizons) > 1:
            fits.append(_fit(panel, name, n, horizons, regrets))
    return rows, fits


# --- (d) growth -----------------------------------------------------------------------------


def growth(n: int, horizons: Sequence[int], seeds: int) -> tuple[list[Row], list[Row]]:
    """Regret on stationary log-normal(1.5) losses, redrawn for each seed, and its exponent.

    Regret is in units of the largest squared loss, and averaged on a logarithmic scale.
    """
    players: dict[str, NDArray[np.float64]] = {
        "VRB, the paper's constants": np.empty((seeds, len(horizons))),
        "VRB, parameter-free": np.empty((seeds, len(horizons))),
        "uniform": np.empty((seeds, len(horizons))),
    }
    printed, free, uniform = players.values()
    for seed in range(seeds):
        losses = log_normal(n, 1.5, seed)
        scale = float(losses.max() ** 2)
        for k, T in enumerate(horizons):
            progress.what = f"d: paper's constants, n = {n}, T = {T:.0e}, seed {seed}"
            sampler = VRB(n, bound=scale, horizon=T, seed=seed)
            ledger = game(sampler, Stationary(losses), T, every=max(1, T // 10**6))
            printed[seed, k] = ledger.regret / scale
            uniform[seed, k] = (ledger.uniform_cost - ledger.best_cost()) / n**2 / scale
        progress.what = f"d: parameter-free, n = {n}, seed {seed}"
        ledger = Ledger(n, marks=horizons)
        every = max(1, horizons[-1] // 10**6)
        game(VRB(n, seed=seed), Stationary(losses), horizons[-1], ledger=ledger, every=every)
        free[seed] = ledger.history()["regret"] / scale
    rows, fits = [], []
    for name, regrets in players.items():
        for k, T in enumerate(horizons):
            logs = mean_estimate(np.log(regrets[:, k]))  # losses differ: the geometric mean
            estimate = Estimate(*(math.exp(min(number, 700.0)) for number in logs))
            rows.append(row("d", name, n, T, estimate, seeds=seeds,
                            bound=theory.bandit(1.0, n, T)))  # fmt: skip
        fits += [
            _fit("d", name, n, horizons, regrets),
            _fit("d", name, n, horizons[-3:], regrets[:, -3:]),
        ]
    return rows, fits


def _fit(panel: str, player: str, n: int, rounds: Any, regrets: NDArray[np.float64]) -> Row:
    fitted = exponent(rounds, regrets)
    return {
        "panel": panel, "player": player, "n": n, "from": int(rounds[0]), "to": int(rounds[-1]),
        "exponent": fitted.value, "low": fitted.low, "high": fitted.high, "seeds": len(regrets),
    }  # fmt: skip


# --- output ---------------------------------------------------------------------------------


def print_table(rows: list[Row]) -> None:
    """Print regrets with their intervals, and over the bound: above 1, it is broken."""
    header = ("player", "n", "T", "regret", "95% interval", "over the bound", "over the rate")
    lines = [header]
    for line in rows:
        over = line["regret"] / line["bound"]
        verdict = "" if math.isnan(over) else f"{over:.3g}" + ("  BROKEN" if over > 1 else "")
        rate = f"{line['regret'] / line['rate']:.3g}" if "rate" in line else ""
        interval = f"{line['low']:.3g} to {line['high']:.3g}" if line["seeds"] > 1 else ""
        lines.append((line["player"], str(line["n"]), f"{line['rounds']:.0e}",
                      f"{line['regret']:.4g}", interval, verdict, rate))  # fmt: skip
    _print_columns(lines)


def print_fits(fits: list[Row]) -> None:
    """Print the exponents."""
    lines = [("panel", "player", "n", "T", "exponent", "95% interval")]
    for fit in fits:
        interval = f"{fit['low']:.3f} to {fit['high']:.3f}" if fit["seeds"] > 1 else ""
        lines.append((fit["panel"], fit["player"], str(fit["n"]),
                      f"{fit['from']:.0e} to {fit['to']:.0e}",
                      f"{fit['exponent']:.3f}", interval))  # fmt: skip
    _print_columns(lines)


def _print_columns(lines: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip())
    print()


def write_csv(path: Path, rows: list[Row]) -> None:
    """Write rows, with every column that any of them has."""
    names = list(dict.fromkeys(name for line in rows for name in line))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def draw_figure(path: Path, rows: list[Row], fits: list[Row]) -> None:
    """Six panels, log-log: regret against T, with bounds and 95% intervals."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(16, 9.5), layout="constrained")
    panels = [
        ("a", 2, "Full information, n = 2", "Theorem 3: 27 L sqrt(T) + 44 L"),
        ("b", 2, "Bandit, n = 2, losses 1 and 0", "Theorem 7: 74 L n^(1/3) T^(2/3)"),
        ("b", 10, "Bandit, n = 10, seven ones and three zeros", "Theorem 7"),
        ("c", 10, "Adversary that sees p, n = 10", "Theorem 8, without its constant"),
        ("d", 10, "Stationary log-normal(1.5), n = 10, L = 1", "Theorem 7"),
        ("d", 200, "Stationary log-normal(1.5), n = 200, L = 1", "Theorem 7"),
    ]
    right = {"FTRL", "VRB", "VRB, the paper's constants", "VRB, parameter-free"}
    for axis, (panel, n, title, bound) in zip(axes.flat, panels, strict=True):
        chosen = [r for r in rows if r["panel"] == panel and r["n"] == n]
        wrong = iter(["tab:red", "tab:orange", "tab:brown", "tab:pink"])
        good = iter(["tab:blue", "tab:green"])
        for player in dict.fromkeys(r["player"] for r in chosen):
            points = [r for r in chosen if r["player"] == player and r["regret"] > 0]
            x = np.array([r["rounds"] for r in points])
            y, low, high = (np.array([r[k] for r in points]) for k in ("regret", "low", "high"))
            colour = next(good if player in right else wrong)
            style = "o-" if player in right else "s--"
            slopes = [f for f in fits if (f["panel"], f["player"], f["n"]) == (panel, player, n)]
            label = player
            if slopes and math.isfinite(slopes[0]["exponent"]):
                label += f"  (T^{slopes[0]['exponent']:.2f})"
            axis.plot(x, y, style, ms=4, color=colour, label=label)
            if np.isfinite(low).all():
                axis.fill_between(x, np.maximum(low, y / 10), high, color=colour, alpha=0.2)
        x = np.array(sorted({r["rounds"] for r in chosen}))
        first = {r["rounds"]: r for r in chosen}
        key = "rate" if panel == "c" else "bound"
        axis.plot(x, [first[t][key] for t in x], color="black", lw=2, label=bound)
        axis.set(xscale="log", yscale="log", title=f"({panel}) {title}", xlabel="rounds T")
        bottom, top = axis.get_ylim()
        axis.set_ylim(bottom, top * (top / bottom) ** 0.45)  # room for the legend
        axis.legend(loc="upper left", fontsize=8.5, framealpha=1)
    for line in axes:
        line[0].set_ylabel("regret, divided by n^2")
    figure.savefig(path, dpi=110)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run everything; print the tables, write rows and figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="half a minute; shorter games")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for rows and figure")
    options = parser.parse_args(arguments)
    quick = options.quick
    options.out.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()

    two = [1.0, 0.0]
    ten = [1.0] * 7 + [0.0] * 3
    wide = [1.0] * 7 + [0.01] * 3
    seeds = 3 if quick else 10
    horizons = powers(3, 5 if quick else 7)
    wrong = [LITTLE_MIXING, LEADER, FROZEN_LEADER]
    results = [full_information(quick), bandit("b", two, horizons, seeds, [RIGHT, FROZEN])]
    if not quick:  # where even a player near uniform breaks the bound
        results.append(bandit("b", two, [10**8], 3, [RIGHT, FROZEN]))
    results += [
        bandit("b", ten, horizons, seeds, [RIGHT, *wrong]),
        bandit("c", wide, horizons, seeds, [RIGHT, *wrong[1:]], adversary=Neglect),
    ]
    for n in (10, 200):
        results.append(growth(n, powers(4, 5.5 if quick else 7, in_a_decade=2), seeds))
    rows = [line for found, _ in results for line in found]
    fits = [line for _, found in results for line in found]
    progress.clear()

    titles = {
        "a": "(a) full information, under Theorem 3",
        "b": "(b) bandit feedback, under Theorem 7",
        "c": "(c) an adversary that sees the player's distribution; rate of Theorem 8",
        "d": "(d) stationary log-normal(1.5) losses, in units of the largest squared loss",
    }
    for panel, title in titles.items():
        print(title)
        print_table([r for r in rows if r["panel"] == panel])
    print("growth: regret ~ T^exponent, fitted for each seed")
    print_fits(fits)
    write_csv(options.out / "regret.csv", rows)
    write_csv(options.out / "regret_exponents.csv", fits)
    draw_figure(options.out / "regret.png", rows, fits)
    print(f"{time.perf_counter() - start:.0f} s; regret.csv, regret_exponents.csv and regret.png "
          f"are in {options.out}")  # fmt: skip


if __name__ == "__main__":
    main()
