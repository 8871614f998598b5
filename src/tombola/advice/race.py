"""The race of draws: the same problems and seeds, with other solvers and samplers."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.advice.account import Account
from tombola.advice.data import Contest, Data
from tombola.advice.entrants import Entrant
from tombola.advice.fits import clock
from tombola.problems import KMeans
from tombola.solvers import DivergenceError
from tombola.solvers.choice import Choice

__all__ = ["MEASURED", "SCHEDULES", "Curve", "marks", "run", "schedule"]

SCHEDULES = ((5, 20), (5, 10), (5, 5))  # seeds and epochs; the first that the budget allows
DRAW, ENTRY, SPARSE = 2e-7, 3e-9, 3e-8  # nominal seconds of a draw, and of an entry of its row
STEPS = 40_000  # the least number of steps of a linear solver, where there are few rows
MEASURED = ("baseline", "adaptive")  # SDCA draws without importances: it has no estimates
EVALUATIONS = 8  # of the objective in an epoch, at most; they become rarer
MOMENTS = 200  # at which the objective may be evaluated, at most


class Curve(NamedTuple):
    """A run, at the start and at each evaluation of the objective."""

    draws: NDArray[np.float64]
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

    `every` is a multiple of the solver's batch. Where a round is more than that, such as a pass
    over all rows, the last round counts. Evaluations are off the clock. A solver that ends sooner
    stays where it is.
    """
    problem = contest.problem
    start = contest.start(seed)
    clustering = isinstance(problem, KMeans)
    seen = {0: problem.value(start)}  # objective, by rounds
    ours = uniform = away = 0.0
    began = clock()
    choice = choice_of(contest, entrant, seed)
    solver, sampler = choice.solver, choice.sampler
    batch = draws_per_round(solver, problem)
    due = {k: k * every // batch for k in looks}  # rounds
    step = max(1, every // batch)

    def look(done: int, solution: NDArray[np.float64], loss: float) -> bool:
        nonlocal away, ours, uniform
        now = clock()
        if done in due.values():
            losses, slopes, _ = problem.evaluate(solution)
            norms = problem.norms_of(losses if clustering else slopes)
            penalty = 0.0 if clustering else problem.penalty(solution)
            since = float((done - max(seen)) * batch)
            seen[done] = float(losses.mean()) + penalty
            if entrant.kind in MEASURED:
                squares = norms * norms
                ours += since * float((squares / sampler.probabilities()).sum())
                uniform += since * problem.n * float(squares.sum())
            if account is not None:
                account.add(norms, float(done * batch), since)
            away += clock() - now
        return False

    last, ratio, pace = math.inf, math.nan, math.inf
    try:
        result = solver.minimize(
            problem, sampler=sampler, rounds=max(1, *due.values()), start=start, until=look,
            every=step,
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
    draws = np.array([0, *sorted(looks)], dtype=float) * every
    path = np.array([seen[0], *(seen.get(due[k], last) for k in sorted(looks))])
    return Curve(draws, path, ratio, pace)


def choice_of(contest: Contest, entrant: Entrant, seed: int = 0) -> Choice:
    """Return how an entrant solves a problem, without a stopping rule: all make as many draws.

    A number of epochs leaves out the tolerance; `run` counts the rounds itself.
    """
    choice: Choice = entrant.estimator.choose(contest.problem, seed, contest.groups, epochs=1)
    return choice


def draws_per_round(solver: Any, problem: Any) -> int:
    """Return the number of draws in a round, n where it passes over all rows."""
    rounds = solver.rounds_per_epoch(problem)
    return int(problem.n) if rounds == 1 else int(solver.batch_size)


def largest_batch(contest: Contest, entrants: Sequence[Entrant]) -> int:
    """Return the largest batch of all solvers that draw in batches; a multiple of the others."""
    return max(int(choice_of(contest, each).solver.batch_size) for each in entrants)


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


def schedule(data: Data, entrants: Sequence[Entrant], budget: float) -> tuple[int, int]:
    """Return seeds and epochs for a budget in seconds, at a nominal pace: the clock has no say."""
    X = data.X
    width = (X.nnz if hasattr(X, "tocsr") else X.size) / X.shape[0]
    if data.task == "clustering":
        width *= data.n_clusters
    pace = (
        (DRAW + (SPARSE if hasattr(X, "tocsr") else ENTRY) * width)
        * len(entrants)
        * len(data.contests)
    )
    fewest = 1 if data.task == "clustering" else -(-STEPS // data.n)
    candidates = [(seeds, max(epochs, fewest)) for seeds, epochs in SCHEDULES]
    for seeds, epochs in candidates:
        if seeds * epochs * data.n * pace <= budget:
            break
    return seeds, epochs
