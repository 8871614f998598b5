"""The race: the same problems and seeds, with other solvers and samplers."""

import copy
import math
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.advice.account import Account
from tombola.advice.data import Contest, Data
from tombola.advice.entrants import Entrant
from tombola.problems import KMeans
from tombola.solvers import DivergenceError

__all__ = ["MEASURED", "SCHEDULES", "Curve", "marks", "run", "schedule"]

SCHEDULES = ((5, 20), (5, 10), (5, 5))  # seeds and epochs; the first that the budget allows
LEAST = 1000  # rows that are always kept
STEPS = 40_000  # the least number of steps of a linear solver, where there are few rows
MEASURED = ("baseline", "adaptive")  # SDCA draws without importances: it has no estimates
EVALUATIONS = 8  # of the objective in an epoch, at most; they become rarer
MOMENTS = 200  # at which the objective may be evaluated, at most

# Processor time, so that other programs do not count; the time of day where that is coarse.
clock = time.thread_time
if time.get_clock_info("thread_time").resolution > 1e-5:
    clock = time.perf_counter


class Curve(NamedTuple):
    """A run, at the start and at each evaluation of the objective."""

    draws: NDArray[np.float64]
    seconds: NDArray[np.float64]
    objective: NDArray[np.float64]
    ratio: float  # of second moments, over the whole run
    pace: float  # seconds per draw, set-up included


def run(
    contest: Contest,
    entrant: Entrant,
    seed: int,
    looks: set[int],
    every: int = 1,
    account: Account | None = None,
) -> Curve:
    """Run a plan, evaluating objective and losses after `looks` times `every` draws.

    `every` is a multiple of the solver's batch, or becomes one batch. Evaluations are off the
    clock. A solver that ends sooner stays where it is.
    """
    problem, estimator = contest.problem, copy.copy(entrant.plan.estimator)
    estimator.set_params(tol=None)  # all run for the same number of draws
    start = contest.start(seed)
    clustering = isinstance(problem, KMeans)
    objective = [problem.value(start)]
    draws, seconds = [0.0], [0.0]
    ours = uniform = away = 0.0
    began = clock()
    sampler = estimator.make_sampler(problem, seed, contest.groups)
    solver = estimator.make_solver(problem, seed)
    batch = solver.batch_size
    every = max(1, every // batch)  # rounds

    def look(done: int, solution: NDArray[np.float64], loss: float) -> bool:
        nonlocal away, ours, uniform
        now = clock()
        if done // every in looks:
            losses, slopes, _ = problem.evaluate(solution)
            norms = problem.norms_of(losses if clustering else slopes)
            penalty = 0.0 if clustering else problem.penalty(solution)
            objective.append(float(losses.mean()) + penalty)
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

    last, end, ratio, pace = math.inf, math.nan, math.nan, math.nan
    try:
        result = solver.minimize(
            problem, sampler=sampler, rounds=max(looks) * every, start=start, until=look,
            every=every,
        )  # fmt: skip
    except DivergenceError:
        pass
    else:
        if result.interrupted:
            raise KeyboardInterrupt
        end = clock() - began - away
        last = problem.value(result.solution)
        ratio = ours / uniform if uniform > 0 else 1.0
        pace = end / (max(result.rounds, 1) * batch)
    missed = sorted(looks)[len(draws) - 1 :]
    objective += [last] * len(missed)
    draws += [float(k * every * batch) for k in missed]
    seconds += [end] * len(missed)
    return Curve(np.array(draws), np.array(seconds), np.array(objective), ratio, pace)


def largest_batch(contest: Contest, entrants: Sequence[Entrant]) -> int:
    """Return the largest batch of all solvers; it is a multiple of the others."""
    solvers = (each.plan.estimator.make_solver(contest.problem) for each in entrants)
    return max(int(solver.batch_size) for solver in solvers)


def marks(n: int, epochs: int, batch: int) -> tuple[int, set[int]]:
    """Return the draws between two moments, and the moments to evaluate at, ever rarer."""
    rounds = epochs * n / batch
    every = max(1, n // (EVALUATIONS * batch), int(rounds / MOMENTS))
    last = max(1, round(rounds / every))
    looks, k = set(), 1.0
    while k < last:
        looks.add(round(k))
        k = max(k + 1, k * 1.25)
    return every * batch, looks | {last}


def schedule(data: Data, entrants: Sequence[Entrant], budget: float, seed: int) -> tuple[int, int]:
    """Return seeds and epochs that fit the budget; if none do, keep fewer of the rows."""
    contest, batch = data.contests[0], largest_batch(data.contests[0], entrants)
    step = max(1, min(data.n, 20_000) // (10 * batch)) * batch
    pace = 0.0  # seconds per draw, summed over entrants
    for entrant in entrants:
        curve = run(contest, entrant, seed, {1, 10}, step)
        pace += (curve.seconds[2] - curve.seconds[1]) / (9 * step)
    began = clock()
    contest.problem.evaluate(contest.start(seed))
    look = 1.5 * (clock() - began)  # with the norms, and the probabilities of all items

    fewest = 1 if data.task == "clustering" else -(-STEPS // data.n)
    candidates = [(seeds, max(epochs, fewest)) for seeds, epochs in SCHEDULES]
    for seeds, epochs in [*candidates, SCHEDULES[-1]]:
        looking = (len(marks(data.n, epochs, batch)[1]) + 1) * look * len(entrants)
        cost = seeds * len(data.contests) * (epochs * data.n * pace + looking)
        if cost <= budget:
            return seeds, epochs
    size = max(data.n_clusters, LEAST, int(data.n * budget / cost))
    if size < data.n:
        data.keep(size, seed)
        data.make_contests()
    return seeds, epochs
