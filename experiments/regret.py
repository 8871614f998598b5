"""The theory, measured: regret below the paper's bounds, and wrong players that break them.

(a) FTRL with full information, against Theorem 3. (b) Algorithm 1, against Theorem 7. (c)
Algorithm 1 against an adversary that sees the player's distribution: the growth of Theorem 8. (d)
The growth of regret with T on stationary losses, for the paper's constants and for the
parameter-free rule.

Constants such as 74 make the bounds loose: below T = 2.6e7 n, even uniform draws satisfy them (see
`tombola.theory.uniform_crossing`). So n is small, T is large, and each panel has wrong players.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.sweep import Setting
from tombola import simulate, theory
from tombola.ledger import Estimate, Ledger, mean_estimate
from tombola.report import figures
from tombola.report.exhibit import Exhibit
from tombola.report.rows import Row, select, shown
from tombola.samplers import FTRL, VRB, Uniform
from tombola.simulate import Adversary, Neglect, Stationary, Switching, log_normal

__all__ = ["SETTINGS", "TITLE", "play", "show", "stages"]

TITLE = "Regret, and the paper's bounds"
DRAWS = 10  # after which a frozen player stops learning
LONGEST = 10**8  # where even a player near uniform breaks the bound; only in three runs
GREEDY: dict[str, Any] = {"bound": 1e-20, "mixing": 0.001}  # almost no prior, little mixing


def powers(first: float, last: float, in_a_decade: int = 1) -> list[int]:
    """Return powers of ten, with steps between them: 10^4, 10^4.5, ...

    >>> powers(3, 4, in_a_decade=2)
    [1000, 3162, 10000]
    """
    return [
        int(10 ** (first + k / in_a_decade) + 0.5)
        for k in range(round((last - first) * in_a_decade) + 1)
    ]


HORIZONS = {"a": powers(1, 6, 2), "b": powers(3, 7), "c": powers(3, 7), "d": powers(4, 7, 2)}
SETTINGS = {"horizons": HORIZONS, "longest": LONGEST, "frozen after": DRAWS}


class Player(NamedTuple):
    """A sampler, right or wrong."""

    name: str
    make: Callable[[int, int, int], Any]  # from n, T and a seed
    frozen: bool = False


RIGHT = Player("VRB", lambda n, T, seed: VRB(n, bound=1.0, horizon=T, seed=seed))
FROZEN = Player("VRB, frozen after 10 draws", RIGHT.make, True)
LITTLE_MIXING = Player(
    "VRB, mixing 0.001 for theta", lambda n, T, seed: VRB(n, bound=1.0, mixing=0.001, seed=seed)
)
LEADER = Player("mixing 0.001, no prior", lambda n, T, seed: VRB(n, **GREEDY, seed=seed))
FROZEN_LEADER = Player("the same, frozen after 10 draws", LEADER.make, True)

PRINTED, FREE = "VRB, the paper's constants", "VRB, parameter-free"
GOOD = ("FTRL", "VRB", PRINTED, FREE)


class Panel(NamedTuple):
    """One panel of the figure."""

    kind: str
    n: int
    title: str
    bound: str


PANELS = {
    "a": Panel("a", 2, "Full information, n = 2", "Theorem 3: 27 L sqrt(T) + 44 L"),
    "b2": Panel("b", 2, "Bandit, n = 2, losses 1 and 0", "Theorem 7: 74 L n^(1/3) T^(2/3)"),
    "b10": Panel("b", 10, "Bandit, n = 10, seven ones, three zeros", "Theorem 7"),
    "c10": Panel("c", 10, "Adversary that sees p, n = 10", "Theorem 8, without its constant"),
    "d10": Panel("d", 10, "Log-normal(1.5) losses, n = 10, L = 1", "Theorem 7"),
    "d200": Panel("d", 200, "Log-normal(1.5) losses, n = 200, L = 1", "Theorem 7"),
}


def stages(runs: int) -> list[list[Setting]]:
    """Return one run of each panel for each repetition; the first panel is deterministic."""
    return [
        [
            {"panel": name, "run": run}
            for run in range(runs)
            for name, panel in PANELS.items()
            if run == 0 or panel.kind != "a"
        ]
    ]


def play(setting: Setting, data: Path | None, earlier: Sequence[Row]) -> Iterator[Row]:
    """Play all games of a panel with one seed."""
    name, seed = str(setting["panel"]), int(setting["run"])
    if name == "a":
        yield from full_information()
    elif name == "b2":
        yield from bandit([1.0, 0.0], HORIZONS["b"], seed, [RIGHT, FROZEN])
        if seed < 3:
            yield from bandit([1.0, 0.0], [LONGEST], seed, [RIGHT, FROZEN])
    elif name == "b10":
        players = [RIGHT, LITTLE_MIXING, LEADER, FROZEN_LEADER]
        yield from bandit([1.0] * 7 + [0.0] * 3, HORIZONS["b"], seed, players)
    elif name == "c10":
        players = [RIGHT, LEADER, FROZEN_LEADER]
        yield from bandit([1.0] * 7 + [0.01] * 3, HORIZONS["c"], seed, players, Neglect)
    else:
        yield from growth(PANELS[name].n, HORIZONS["d"], seed)


def game(
    sampler: Any, adversary: Adversary, rounds: int, frozen: bool = False, **options: Any
) -> Ledger:
    """Play a game; a frozen player is fed only in the first ten rounds."""
    ledger: Ledger = options.pop("ledger", None) or Ledger(sampler.n, marks=[])
    if not frozen:
        return simulate.play(sampler, adversary, rounds, ledger=ledger, **options)
    simulate.play(sampler, adversary, DRAWS, ledger=ledger, **options)
    return simulate.play(sampler, adversary, rounds - DRAWS, ledger=ledger, feed=False, **options)


def full_information() -> Iterator[Row]:
    """Play FTRL against Theorem 3; the losses switch to the other item after ten rounds."""
    players: list[tuple[str, Any, bool]] = [
        ("FTRL", FTRL(2, bound=1.0), False),
        ("FTRL, frozen after 10 rounds", FTRL(2, bound=1.0), True),
        ("uniform", Uniform(2), False),
    ]
    for name, sampler, frozen in players:
        ledger = Ledger(2, marks=HORIZONS["a"])
        adversary = Switching([1.0, 0.0], [0.0, 1.0], at=DRAWS)
        game(sampler, adversary, HORIZONS["a"][-1], frozen, ledger=ledger)
        for line in ledger.table():
            yield {"player": name, "rounds": line["rounds"], "regret": float(line["regret"]),
                   "bound": theory.full_information(1.0, rounds=line["rounds"])}  # fmt: skip


def bandit(
    losses: Sequence[float],
    horizons: Sequence[int],
    seed: int,
    players: Sequence[Player],
    adversary: type[Adversary] = Stationary,
) -> Iterator[Row]:
    """Play each player at each horizon; yield regrets and bounds (against Neglect, the rate).

    For T >= 10^7, stationary games compute the cost once in T / 10^6 rounds, since p hardly
    changes in between.
    """
    n = len(losses)
    limit = theory.bandit if adversary is Stationary else theory.non_oblivious_rate
    for player in players:
        for T in horizons:
            stride = max(1, T // 10**6) if adversary.steady else 1
            opponent = adversary(losses)  # type: ignore[call-arg]
            ledger = game(player.make(n, T, seed), opponent, T, player.frozen, stride=stride)
            yield {"player": player.name, "rounds": T, "regret": float(ledger.regret),
                   "bound": limit(1.0, n, T)}  # fmt: skip


def growth(n: int, horizons: Sequence[int], seed: int) -> Iterator[Row]:
    """Yield regrets on stationary log-normal(1.5) losses, in units of the largest squared loss."""
    losses = log_normal(n, 1.5, seed)
    scale = float(losses.max() ** 2)
    for T in horizons:
        sampler = VRB(n, bound=scale, horizon=T, seed=seed)
        ledger = game(sampler, Stationary(losses), T, stride=max(1, T // 10**6))
        uniform = (ledger.uniform_cost - ledger.best_cost()) / n**2
        for name, regret in ((PRINTED, ledger.regret), ("uniform", uniform)):
            yield {"player": name, "rounds": T, "regret": float(regret) / scale,
                   "bound": theory.bandit(1.0, n, T)}  # fmt: skip
    ledger = Ledger(n, marks=horizons)
    stride = max(1, horizons[-1] // 10**6)
    game(VRB(n, seed=seed), Stationary(losses), horizons[-1], ledger=ledger, stride=stride)
    for T, regret in zip(horizons, ledger.history()["regret"], strict=True):
        yield {"player": FREE, "rounds": T, "regret": float(regret) / scale,
               "bound": theory.bandit(1.0, n, T)}  # fmt: skip


# --- results ------------------------------------------------------------------------------------


def estimate(panel: Panel, regrets: Sequence[float]) -> Estimate:
    """Return the mean regret with its 95% interval; geometric if losses differ by seed."""
    if panel.kind == "d" and len(regrets) > 1:
        logs = mean_estimate(np.log(regrets))
        return Estimate(*(math.exp(min(number, 700.0)) for number in logs))
    return mean_estimate(regrets)


def exponent(rounds: Sequence[int], regrets: NDArray[np.float64]) -> Estimate:
    """Fit regret ~ T^a for each repetition, a row of regrets; return the mean of a.

    >>> round(exponent([10, 100], np.array([[1.0, 10.0], [1.0, 10.0]])).value, 6)
    1.0
    """
    if (regrets <= 0).any() or len(rounds) < 2:
        return Estimate(math.nan, math.nan, math.nan)
    return mean_estimate(np.polyfit(np.log(rounds), np.log(regrets).T, 1)[0])


class _Curve:
    """The regrets of one player in one panel."""

    def __init__(self, panel: Panel, rows: list[Row]) -> None:
        by: dict[int, list[Row]] = {}
        for row in rows:
            by.setdefault(row["rounds"], []).append(row)
        self.rounds = sorted(by)
        self.regrets = [[row["regret"] for row in by[T]] for T in self.rounds]
        self.bounds = [by[T][0]["bound"] for T in self.rounds]
        self.means = [estimate(panel, regrets) for regrets in self.regrets]
        # fitted to the horizons of all runs and, if the losses switch, only after the switch
        most = max(len(regrets) for regrets in self.regrets)
        late = [
            k
            for k, T in enumerate(self.rounds)
            if len(self.regrets[k]) == most and (panel.kind != "a" or T >= 100)
        ]
        table = np.array([self.regrets[k] for k in late]).T
        self.growth = exponent([self.rounds[k] for k in late], table)

    @property
    def worst(self) -> float:
        """The largest regret over its bound."""
        return float(max(m.value / b for m, b in zip(self.means, self.bounds, strict=True)))


def show(rows: list[Row]) -> Exhibit:
    """Show regret against T in six panels, and which bounds hold."""
    exhibit = Exhibit(
        TITLE,
        "Regret, divided by n^2, of right and wrong players, with 95% intervals. Above the black "
        "line a theorem is violated: the wrong players show that this is possible.",
    )
    names = [name for name in PANELS if select(rows, panel=name)]
    figure, axes = figures.new_figure(math.ceil(len(names) / 2), 2, height=4.2)
    lines = []
    for axis, name in zip(axes, names, strict=False):
        panel = PANELS[name]
        own = select(rows, panel=name)
        players = dict.fromkeys(row["player"] for row in own)
        curves = {player: _Curve(panel, select(own, player=player)) for player in players}
        _draw(axis, panel, curves)
        for player, curve in curves.items():
            fitted = curve.growth
            lines.append([
                panel.title, player, f"{curve.means[-1].value:.4g}", f"{curve.rounds[-1]:.0e}",
                f"{curve.worst:.3g}" + (" (broken)" if curve.worst > 1 and name[0] in "ab" else ""),
                "" if math.isnan(fitted.value) else shown(fitted, digits=3),
            ])  # fmt: skip
        _add_findings(exhibit, panel, curves)
    exhibit.figure(
        figure,
        "Regret against T. Black: the bound. Solid lines: right "
        "players; dashed: wrong ones and uniform draws.",
    )
    exhibit.table(
        "Regrets and their growth, T^exponent",
        ["panel", "player", "regret", "at T", "largest over the black line", "exponent"],
        lines,
    )
    return exhibit


def _draw(axis: Any, panel: Panel, curves: dict[str, _Curve]) -> None:
    good, wrong = iter(["#0072B2", "#009E73"]), iter(["#D55E00", "#E69F00", "#CC79A7", "#777777"])
    for player, curve in curves.items():
        colour = next(good if player in GOOD else wrong)
        style = "o-" if player in GOOD else "s--"
        label = player
        if math.isfinite(curve.growth.value):
            label += f"  (T^{curve.growth.value:.2f})"
        means = np.array(curve.means, dtype=np.float64)
        means = np.where(means > 0, means, np.nan)
        axis.plot(curve.rounds, means[:, 0], style, ms=3, lw=1.3, color=colour, label=label)
        if np.isfinite(means[:, 2]).all():
            low = np.fmax(means[:, 1], means[:, 0] / 10)
            axis.fill_between(curve.rounds, low, means[:, 2], color=colour, alpha=0.2, lw=0)
    longest = max(curves.values(), key=lambda curve: curve.rounds[-1])
    axis.plot(longest.rounds, longest.bounds, color="black", lw=1.6, label=panel.bound)
    axis.set(xscale="log", yscale="log", xlabel="rounds T", ylabel="regret")
    axis.set_title(f"({panel.kind}) {panel.title}", fontsize=10)
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), fontsize=8, frameon=False)


def _decided(fitted: Estimate, holds: bool) -> bool | None:
    """Return the verdict, or None if nothing could be fitted."""
    return None if math.isnan(fitted.value) else holds


def _add_findings(exhibit: Exhibit, panel: Panel, curves: dict[str, _Curve]) -> None:
    if panel.kind in "ab":
        right = curves["FTRL" if panel.kind == "a" else "VRB"]
        wrong = {name: curve.worst for name, curve in curves.items() if name not in GOOD}
        theorem = panel.bound.split(":")[0]
        exhibit.finding(
            f"{theorem} holds ({panel.title}).",
            right.worst <= 1,
            f"The largest regret is {right.worst:.3g} times the bound; that of wrong players: "
            + ", ".join(f"{name} {worst:.3g}" for name, worst in wrong.items())
            + ".",
        )
        exhibit.finding(
            f"A wrong player breaks {theorem}, so this could have failed ({panel.title}).",
            max(wrong.values()) > 1,
            f"The largest regret is {max(wrong.values()):.3g} times the bound.",
        )
    if panel.kind == "c":
        right = curves["VRB"]
        others = [curve.worst for name, curve in curves.items() if name not in GOOD]
        fitted = right.growth
        exhibit.finding(
            "Against an adversary that sees p, regret is at most of order n^(1/3) T^(2/3) "
            "(Theorem 8).",
            _decided(fitted, fitted.value <= 2 / 3 + 0.01 and right.worst <= 1),
            f"Exponent {shown(fitted, digits=3)}, and at most {right.worst:.3g} times that "
            f"rate; wrong players reach {max(others, default=math.nan):.3g} times it.",
        )
    if panel.kind == "d":
        fitted = curves[FREE].growth
        exhibit.finding(
            f"Our goal: without parameters, regret grows at most as T^0.5 (n = {panel.n}).",
            _decided(fitted, fitted.value <= 0.5),
            f"Exponent {shown(fitted, digits=3)}; the paper's constants: "
            f"{shown(curves[PRINTED].growth, digits=3)}.",
        )
