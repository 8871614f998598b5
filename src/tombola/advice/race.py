"""The race: the same problems, solvers and seeds, with other draws."""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.advice.base import Method, Possible, Race
from tombola.advice.data import START, Contest, Data
from tombola.estimators.base import ADAGRAD_RATE
from tombola.problems import KMeans
from tombola.samplers import VRB, GroupVRB, Sampler, Shuffle, Static, Uniform
from tombola.solvers import SAGA, AdaGrad, DivergenceError, MiniBatchKMeans, Solver
from tombola.solvers.variance_reduced import by_curvature

__all__ = ["GOAL", "Account", "Curve", "Entrant", "line_up", "marks", "plan", "results", "run"]

GOAL = 0.001  # arrived: at 99.9% of the way down that shuffling makes
BATCH = 100  # of k-means
PLANS = ((5, 20), (5, 10), (5, 5))  # seeds and epochs; the first that time allows
STEPS = 40_000  # at least, of the solver, where there are few rows
MEASURED = ("baseline", "adaptive")  # SAGA's estimates are of differences, not of gradients
LOOKS = 8  # in an epoch, at most; they become rarer
MOMENTS = 200  # at which there may be a look, at most

# Processor time, so that other programs do not count; where that is coarse, the time of day.
clock = time.thread_time
if time.get_clock_info("thread_time").resolution > 1e-5:
    clock = time.perf_counter


class Entrant(NamedTuple):
    """A solver and a sampler that take part."""

    label: str
    kind: str
    name: str  # of the solver
    solver: Callable[[int], Solver]  # of the seed
    sampler: Callable[[Any, Any, int], Sampler]  # of problem, groups, seed
    batch: int = 1


def line_up(data: Data) -> list[Entrant]:
    """Return who takes part; the baseline is the first."""
    grouped = data.contests[0].groups is not None
    learning: dict[str, Callable[[Any, Any, int], Sampler]] = {
        "VRB": lambda problem, groups, seed: VRB(problem.n, seed=seed)
    }
    if grouped:
        learning["GroupVRB"] = lambda problem, groups, seed: GroupVRB(groups, seed=seed)
    if data.task == "clustering":
        learning["VRB with bounds"] = lambda problem, groups, seed: k_means(seed)._default_sampler(
            problem
        )
        name, solver, batch = "k-means", k_means, BATCH
    else:
        name, solver, batch = "AdaGrad", adagrad, 1
    found = [Entrant("shuffle", "baseline", name, solver, shuffle, batch)]
    found += [Entrant(k, "adaptive", name, solver, make, batch) for k, make in learning.items()]
    if data.task == "clustering":
        return found
    if isinstance(by_curvature(data.contests[0].problem), Static):
        found.append(Entrant("default", "default", "SAGA, draws by curvature", saga, curved))
        found.append(Entrant("uniform", "plain", "SAGA, draws uniformly", saga, uniform))
    else:
        found.append(Entrant("default", "default", "SAGA, draws uniformly", saga, uniform))
    return found


def k_means(seed: int) -> Solver:
    """Return the solver of `MiniBatchKMeans`, the estimator."""
    return MiniBatchKMeans(BATCH, subsample=START, seed=seed)


def adagrad(seed: int) -> Solver:
    """Return the solver of the linear estimators with solver="adagrad"."""
    return AdaGrad(ADAGRAD_RATE)


def saga(seed: int) -> Solver:
    """Return the default solver of the linear estimators."""
    return SAGA()


def shuffle(problem: Any, groups: Any, seed: int) -> Sampler:
    """Return shuffled epochs."""
    return Shuffle(problem.n, seed=seed)


def curved(problem: Any, groups: Any, seed: int) -> Sampler:
    """Return the default draws of the linear estimators."""
    return by_curvature(problem, seed)


def uniform(problem: Any, groups: Any, seed: int) -> Sampler:
    """Return uniform draws, with replacement."""
    return Uniform(problem.n, seed=seed)


# --- one run ------------------------------------------------------------------------------------


class Curve(NamedTuple):
    """A run, at the start and at each look."""

    draws: NDArray[np.float64]
    seconds: NDArray[np.float64]
    objective: NDArray[np.float64]
    ratio: float  # of second moments, over the whole way
    pace: float  # seconds a draw, setting up included


class Account:
    """The losses of all items on the way: what fixed distributions would have cost."""

    def __init__(self, contest: Contest) -> None:
        self.contest, self.n = contest, contest.problem.n
        self.squares = np.zeros(self.n)  # sum over draws of l^2
        self.ideal = 0.0  # sum over draws of (sum_i l)^2
        self.epochs: list[float] = []
        self.ideals: list[float] = []
        self.last = np.zeros(self.n)

    def add(self, norms: NDArray[np.float64], draws: float, since: float) -> None:
        """Take in the losses after so many draws; they stand for the draws since the last look."""
        squares = norms * norms
        self.squares += since * squares
        self.ideal += since * float(norms.sum()) ** 2
        self.epochs.append(draws / self.n)
        self.ideals.append(ratio_of(float(norms.sum()) ** 2, self.n * float(squares.sum())))
        self.last = norms

    def possible(self) -> Possible:
        """Return what other distributions would have been worth, over uniform draws."""
        uniform = self.n * float(self.squares.sum())
        best_group = None
        groups = self.contest.groups
        if groups is not None:
            sizes = np.bincount(groups)
            sums = np.bincount(groups, weights=self.squares)
            # p(i) = q_c / n_c costs sum_c n_c S_c / q_c: least at q_c ~ sqrt(n_c S_c)
            best_group = ratio_of(float(np.sqrt(sizes * sums).sum()) ** 2, uniform)
        return Possible(
            name=self.contest.name,
            ideal=ratio_of(self.ideal, uniform),
            best_fixed=ratio_of(float(np.sqrt(self.squares).sum()) ** 2, uniform),
            best_group=best_group,
            epochs=self.epochs,
            ideals=self.ideals,
        )


def ratio_of(cost: float, uniform: float) -> float:
    """Return a ratio of second moments; without losses all distributions are as good."""
    return min(cost / uniform, 1.0) if uniform > 0 else 1.0


def run(
    contest: Contest,
    entrant: Entrant,
    seed: int,
    rounds: int,
    looks: set[int],
    every: int = 1,
    account: Account | None = None,
) -> Curve:
    """Run a method; looking at the objective, and at all losses, does not count."""
    problem, batch = contest.problem, entrant.batch
    start = contest.centres(seed)
    losses, _, _ = problem.survey(start)
    objective = [float(losses.mean()) + penalty(problem, start)]
    draws, seconds = [0.0], [0.0]
    ours = uniform = away = 0.0
    began = clock()
    sampler = entrant.sampler(problem, contest.groups, seed)

    def look(done: int, solution: NDArray[np.float64], loss: float) -> bool:
        nonlocal away, ours, uniform
        now = clock()
        if done // every in looks:
            losses, slopes, _ = problem.survey(solution)
            norms = problem.norms_of(losses if isinstance(problem, KMeans) else slopes)
            objective.append(float(losses.mean()) + penalty(problem, solution))
            seconds.append(now - began - away)
            draws.append(float(done * batch))
            since = draws[-1] - draws[-2]
            if entrant.kind in MEASURED:
                squares = norms * norms
                ours += since * float((squares / sampler.probabilities()).sum())
                uniform += since * problem.n * float(squares.sum())
            if account is not None:
                account.add(norms, draws[-1], since)
            away += clock() - now
        return False

    solver = entrant.solver(seed)
    try:
        result = solver.minimize(
            problem, sampler=sampler, rounds=rounds, start=start, until=look, every=every
        )
    except DivergenceError:
        missed = sorted(looks)[len(draws) - 1 :]
        objective += [math.inf] * len(missed)
        draws += [float(k * every * batch) for k in missed]
        seconds += [math.nan] * len(missed)
        return Curve(np.array(draws), np.array(seconds), np.array(objective), math.nan, math.nan)
    if result.interrupted:
        raise KeyboardInterrupt
    spent = clock() - began - away
    ratio = ours / uniform if uniform > 0 else 1.0
    return Curve(
        np.array(draws), np.array(seconds), np.array(objective), ratio, spent / (rounds * batch)
    )


def penalty(problem: Any, solution: Any) -> float:
    """Return what the regulariser adds to the objective."""
    return 0.0 if isinstance(problem, KMeans) else float(problem.penalty(solution))


def marks(n: int, epochs: int, batch: int) -> tuple[int, set[int]]:
    """Return rounds between two possible looks, and which of them are taken: ever rarer ones."""
    rounds = epochs * n / batch
    every = max(1, n // (LOOKS * batch), int(rounds / MOMENTS))
    last = max(1, round(rounds / every))
    looks, k = set(), 1.0
    while k < last:
        looks.add(round(k))
        k = max(k + 1, k * 1.25)
    return every, looks | {last}


# --- all of them --------------------------------------------------------------------------------


def plan(data: Data, entrants: Sequence[Entrant], budget: float, seed: int) -> tuple[int, int]:
    """Return seeds and epochs that fit the budget; where none do, keep fewer of the rows."""
    contest, batch = data.contests[0], entrants[0].batch
    step = max(1, min(data.n, 20_000) // (10 * batch))
    pace = 0.0  # seconds for a draw by each of them
    for entrant in entrants:
        curve = run(contest, entrant, seed, 10 * step, {1, 10}, step)
        pace += (curve.seconds[2] - curve.seconds[1]) / (9 * step * batch)
    began = clock()
    contest.problem.survey(contest.centres(seed))
    look = 1.5 * (clock() - began)  # with the norms, and the probabilities of all items

    def cost(seeds: int, epochs: int) -> float:
        count = len(marks(data.n, epochs, batch)[1]) + 1
        looking = count * look * len(entrants)
        return seeds * len(data.contests) * (epochs * data.n * pace + looking)

    for seeds, epochs in PLANS:
        longer = max(epochs, -(-STEPS // data.n)) if batch == 1 else epochs
        if cost(seeds, longer) <= budget:
            return seeds, longer
    share = budget / cost(*PLANS[-1])
    least = max(data.clusters, 1000)
    if least < int(share * data.n):
        data.keep(int(share * data.n), seed)
        data.make_contests()
    return PLANS[-1]


def arrival(curve: Curve, goal: float) -> tuple[float, float]:
    """Return draws and seconds until the goal, straight lines between looks; inf if never."""
    below = np.flatnonzero(curve.objective <= goal)
    if not len(below):
        return math.inf, math.inf
    k = int(below[0])
    if k == 0:
        return 0.0, 0.0
    high, low = curve.objective[k - 1], curve.objective[k]
    share = (high - goal) / (high - low)
    draws = curve.draws[k - 1] + share * (curve.draws[k] - curve.draws[k - 1])
    seconds = curve.seconds[k - 1] + share * (curve.seconds[k] - curve.seconds[k - 1])
    return float(draws), float(seconds)


def results(
    data: Data,
    entrants: Sequence[Entrant],
    curves: Sequence[dict[str, list[Curve]]],
) -> tuple[list[Method], list[Race]]:
    """Return how each method did, and the curves."""
    base = entrants[0].label
    races = []
    arrivals: dict[str, list[Any]] = {entrant.label: [] for entrant in entrants}
    ends: dict[str, list[Any]] = {entrant.label: [] for entrant in entrants}
    for contest, runs in zip(data.contests, curves, strict=True):
        starts = np.array([curve.objective[0] for curve in runs[base]])
        lowest = np.array([curve.objective.min() for curve in runs[base]])
        goals = (lowest + GOAL * (starts - lowest)).tolist()
        for label, mine in runs.items():
            last = np.array([curve.objective[-1] for curve in mine])
            with np.errstate(invalid="ignore", divide="ignore"):
                ends[label].append((starts - last) / (starts - lowest))
            arrivals[label].append([arrival(*pair) for pair in zip(mine, goals, strict=True)])
        races.append(
            Race(
                name=contest.name,
                epochs=(runs[base][0].draws / data.n).tolist(),
                objective={label: [c.objective.tolist() for c in runs[label]] for label in runs},
                seconds={label: [c.seconds.tolist() for c in runs[label]] for label in runs},
                goals=goals,
            )
        )
    totals = {label: np.array(found).sum(axis=0) for label, found in arrivals.items()}
    paces = {label: float(np.median([c.pace for runs in curves for c in runs[label]]))
             for label in totals}  # fmt: skip
    methods = []
    for entrant in entrants:
        label = entrant.label
        draws, seconds = totals[label].T
        with np.errstate(invalid="ignore", divide="ignore"):
            fewer, sooner = totals[base].T / np.array([draws, seconds])
        overhead = paces[label] / paces[base]
        ratio = None
        if entrant.kind in MEASURED:
            ratio = float(np.median([c.ratio for runs in curves for c in runs[label]]))
        predicted = None
        if entrant.kind == "adaptive" and ratio is not None:
            predicted = 1.0 / (ratio * overhead)
        methods.append(
            Method(
                label=label,
                solver=entrant.name,
                kind=entrant.kind,
                ratio=ratio,
                overhead=overhead,
                predicted=predicted,
                draws=draws.tolist(),
                seconds=seconds.tolist(),
                reached=np.mean(ends[label], axis=0).tolist(),
                fewer_draws=np.nan_to_num(fewer, nan=0.0).tolist(),
                sooner=np.nan_to_num(sooner, nan=0.0).tolist(),
            )
        )
    return methods, races
