"""The race: contenders at several rates, of which the better ones run for longer.

Successive halving: all contenders at all rates run for a sixth of the steps; shuffled epochs and
the two best others go on to half of them, each at its two best rates (if the best is the first or
the last of the grid, at that one and the next beyond); shuffled epochs and the best other one, each
at its best rate, finish, and are repeated with further seeds. Curves are smoothed
over looks. What decides who goes on is counted in steps, never timed.
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tombola.advice.verdict import Verdict, decide, interval, judge

__all__ = ["LOOKS", "RATES", "Contender", "Curve", "Look", "Pair", "Raced", "Runner", "race",
           "speed", "total_steps"]  # fmt: skip

LOOKS = 24  # at a run, evenly spaced
RUNGS = (LOOKS // 6, LOOKS // 2)  # looks until the first and the second choice
SMOOTH = 3  # looks that are averaged
MORE = 3  # times the seeds, at most, while it is too close to call
KEPT = 2  # contenders besides shuffling, and rates of each, after the first choice
RATES = (1 / 3, 1.0, 3.0)  # times the rate that the user gives
LEVELS, LATE = 5, 0.8  # losses at which two curves are compared, and from which share of the way
MOST = 50.0  # times as long, at most


class Contender(NamedTuple):
    """A way to draw, and what it learns from."""

    sampler: str
    feed: str = ""

    def __str__(self) -> str:
        return f"{self.sampler} fed with {self.feed}" if self.feed else self.sampler


class Look(NamedTuple):
    """A run at a moment: steps so far, the loss, and the user's score if there is one."""

    step: int
    loss: float
    score: float = math.nan


class Runner(Protocol):
    """A run in progress."""

    looks: list[Look]
    seconds: list[float]  # of each step

    def advance(self, steps: int) -> None:
        """Go on until this many steps are done, and look."""


@dataclass
class Curve:
    """A run: who, at which rate and seed, what was seen, and the median milliseconds of a step."""

    name: str
    rate: float
    seed: int
    looks: list[Look]
    step_ms: float

    @property
    def level(self) -> float:
        """The lowest smoothed loss; infinite if any loss was not a number."""
        return float(smoothed(self.looks)[-1])


@dataclass
class Pair:
    """Shuffled epochs and the best other way to draw, with one seed.

    `time_ratio` is steps_ratio * step_ms / shuffle_ms: below 1 is better.
    """

    seed: int
    steps_ratio: float
    step_ms: float
    shuffle_ms: float
    time_ratio: float
    loss: float
    shuffle_loss: float
    score: float
    shuffle_score: float


@dataclass
class Raced:
    """All curves, the pair that finished, and the verdict on it."""

    verdict: Verdict
    best: Contender
    rate: float  # of the best one, times that of the user
    shuffle_rate: float
    pairs: list[Pair]
    curves: list[Curve]
    steps: int
    shuffled: Any  # the first of its runs


class OutOfTimeError(Exception):
    """The budget is spent."""


def smoothed(looks: Sequence[Look]) -> NDArray[np.float64]:
    """Return the lowest mean of successive losses so far: a curve that does not rise."""
    losses = np.array([look.loss for look in looks])
    if not np.isfinite(losses).all():
        return np.full(len(losses), np.inf)
    return np.minimum.accumulate(means(losses))


def means(values: Any) -> NDArray[np.float64]:
    """Return the first value, and the means of up to `SMOOTH` successive others."""
    ends = range(1, len(values))
    return np.array([values[0], *(np.mean(values[max(1, k - SMOOTH + 1) : k + 1]) for k in ends)])


def arrival(steps: NDArray[np.float64], path: NDArray[np.float64], level: float) -> float:
    """Return the steps until a falling path reaches a level, linear between looks."""
    k = int(np.argmax(path <= level))
    if k == 0:
        return float(steps[1]) / MOST
    share = (path[k - 1] - level) / (path[k - 1] - path[k])
    return float(steps[k - 1] + share * (steps[k] - steps[k - 1]))


def speed(mine: Sequence[Look], other: Sequence[Look]) -> float:
    """Return the steps of one run over those of another to the same losses, both smoothed.

    Compared are `LEVELS` losses on the last fifth of the way of the run that ends higher, until it
    is at its lowest: the geometric mean of the ratios. Both reach all of these.

    Examples
    --------
    >>> def run(pace):
    ...     return [Look(step, 1.0 / (1.0 + pace * step)) for step in range(0, 250, 10)]
    >>> 0.45 < speed(run(0.02), run(0.01)) < 0.55
    True
    """
    paths = smoothed(mine), smoothed(other)
    if not all(np.isfinite(path).all() for path in paths):
        return MOST if np.isfinite(paths[1]).all() else math.nan
    steps = [means([look.step for look in looks]) for looks in (mine, other)]
    worse = int(paths[1][-1] > paths[0][-1])
    path, when = paths[worse], steps[worse]
    end = arrival(when, path, float(path[-1]))
    levels = np.maximum(np.interp(np.linspace(LATE, 1.0, LEVELS) * end, when, path), path[-1])
    logs = [
        math.log(arrival(steps[0], paths[0], level)) - math.log(arrival(steps[1], paths[1], level))
        for level in levels
    ]
    return float(np.clip(math.exp(np.mean(logs)), 1 / MOST, MOST))


def total_steps(contenders: int, rates: int, seeds: int, looks: int = LOOKS) -> float:
    """Return the steps of a race over those of one run."""
    kept = (1 + min(KEPT, contenders - 1)) * min(KEPT, rates)
    first, second = (rung / looks for rung in RUNGS)
    return contenders * rates * first + kept * second - kept * first / 2 + 2 * seeds


def race(
    begin: Callable[[Contender, float, int], Runner],
    contenders: Sequence[Contender],
    rates: Sequence[float],
    *,
    steps: int,
    seeds: int,
    seed: int = 0,
    budget: float = math.inf,
    clock: Callable[[], float] = time.perf_counter,
    progress: Callable[[int, int], None] | None = None,
) -> Raced:
    """Race contenders, shuffled epochs first among them, and judge the best of the others.

    Parameters
    ----------
    begin : callable
        Makes a run of a contender at a rate with a seed.
    contenders : sequence of Contender
        The first is what users have already.
    rates : sequence of float
    steps : int
        Of a whole run: a multiple of `LOOKS`.
    seeds, seed : int
        The seeds of the last rung, which come after that of the first ones; up to `MORE` times as
        many while it is too close to call.
    budget : float
        Seconds of `clock`, after which it stops with what it has.
    clock : callable
    progress : callable, optional
        Called with looks done and in all.
    """
    runners: dict[tuple[Contender, float, int], Runner] = {}
    deadline = clock() + budget
    total, done = round(LOOKS * total_steps(len(contenders), len(rates), seeds)), 0

    def go(keys: Iterable[tuple[Contender, float, int]], looks: int) -> None:
        """Let runs continue until a look, taking turns, so that none has the quieter machine."""
        nonlocal done
        keys = list(keys)
        for key in keys:
            if key not in runners:
                runners[key] = begin(*key)
        for k in range(1, looks + 1):
            for key in keys:
                if len(runners[key].looks) > k:
                    continue
                if clock() > deadline:
                    raise OutOfTimeError
                runners[key].advance(k * steps // LOOKS)
                done += 1
                if progress is not None:
                    progress(min(done, total), total)

    def curve(key: tuple[Contender, float, int]) -> Curve:
        runner = runners[key]
        return Curve(str(key[0]), key[1], key[2], runner.looks, 1e3 * middle(runner.seconds))

    def ranked(contender: Contender) -> list[tuple[float, float]]:
        """Return levels and rates of a contender, the best first; the longest runs only."""
        mine = {k[1]: r for k, r in runners.items() if k[0] == contender and k[2] == seed}
        longest = max(len(runner.looks) for runner in mine.values())
        return sorted(
            (float(smoothed(runner.looks)[-1]), rate)
            for rate, runner in mine.items() if len(runner.looks) == longest
        )  # fmt: skip

    shuffle, *others = contenders
    settle = "more steps, or more seeds"
    pairs: list[Pair] = []
    try:
        go([(c, rate, seed) for c in contenders for rate in rates], RUNGS[0])
        others = sorted(others, key=lambda c: ranked(c)[0])[:KEPT]
        go([(c, r, seed) for c in (shuffle, *others) for r in beyond(ranked(c), rates)], RUNGS[1])
        best = min(others, key=lambda c: ranked(c)[0])
        finals = {c: ranked(c)[0][1] for c in (shuffle, best)}
        left = deadline - clock()
        pace = (budget - left) / (done * steps) if math.isfinite(budget) else 0.0  # of a look
        while steps > LOOKS and 2 * seeds * LOOKS * pace * steps > 0.9 * left:
            steps = max(steps // 2 // LOOKS, 1) * LOOKS  # a shorter race rather than none
        for turn in range(1, MORE * seeds + 1):
            if turn > seeds and judged(pairs, settle).pays is not None:
                break
            keys = [(c, rate, seed + turn) for c, rate in finals.items()]
            go(keys, LOOKS)
            pairs.append(paired(curve(keys[1]), curve(keys[0])))
    except OutOfTimeError:
        settle = "a larger budget: this one is spent"
    best = min(others, key=lambda c: ranked(c)[0])
    rate, own = ranked(best)[0][1], ranked(shuffle)[0][1]
    curves = [curve(key) for key in runners]
    shuffled = runners.get((shuffle, own, seed + 1), runners[shuffle, own, seed])
    return Raced(judged(pairs, settle), best, rate, own, pairs, curves, steps, shuffled)


def judged(pairs: Sequence[Pair], settle: str) -> Verdict:
    """Return the verdict on pairs: on their times, unless losses end higher."""
    verdict = decide([pair.time_ratio for pair in pairs], settle=settle)
    worse = interval([pair.loss - pair.shuffle_loss for pair in pairs])
    if judge(worse[1:], 0.0) is False:
        return replace(verdict, pays=False, veto="it ends at a higher loss")
    return verdict


def beyond(ranked: Sequence[tuple[float, float]], rates: Sequence[float]) -> list[float]:
    """Return the two best rates, or the best and the next beyond the grid if it is at an end."""
    grid, best = sorted(rates), ranked[0][1]
    if len(grid) > 1 and best in (grid[0], grid[-1]):
        inner = grid[1] if best == grid[0] else grid[-2]
        return [best, best * best / inner]
    return [rate for _, rate in ranked[:KEPT]]


def paired(mine: Curve, other: Curve) -> Pair:
    """Return how a run compares with shuffled epochs of the same seed."""
    steps = speed(mine.looks, other.looks)
    time_ratio = steps * mine.step_ms / other.step_ms
    scores = [float(np.mean([look.score for look in c.looks[-SMOOTH:]])) for c in (mine, other)]
    return Pair(
        mine.seed, steps, mine.step_ms, other.step_ms, time_ratio, mine.level, other.level, *scores
    )


def middle(values: Sequence[float]) -> float:
    """Return the median; NaN of none."""
    return float(np.median(values)) if len(values) else math.nan
