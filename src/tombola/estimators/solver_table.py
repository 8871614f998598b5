"""The solvers of linear models by name, and which of them `solver="auto"` is."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from tombola.problems.linear import LinearProblem
from tombola.problems.rows import mean_entries
from tombola.samplers import Sampler
from tombola.solvers import SAGA, SDCA, SGD, SVRG, AdaGrad, Newton, Solver
from tombola.solvers.descent.variance_reduced import by_curvature

__all__ = [
    "CERTIFIED",
    "DESCENTS",
    "REDUCED",
    "SOLVERS",
    "check_solver",
    "choose_solver",
    "own_sampler",
]

ROWS_PER_COLUMN = 30  # newton needs these: its samples have so many
ROWS_PER_PAIR = 0.3  # and these for each pair of columns: else Hessians take too long
ADAGRAD_RATE = 0.3  # where none is given; see docs/decisions/estimator_defaults.md

CERTIFIED = ("newton", "sdca")  # they end within tol by themselves
REDUCED = ("saga", "svrg")  # variance-reduced: their losses go to zero
DESCENTS = ("adagrad", "sgd")  # they have a rate, and can go on with new rows


def first_rate(problem: LinearProblem) -> float:
    """Return SGD's first rate: 1 over the largest curvature, or squared norm where there is none.

    Hinge and epsilon-insensitive losses have kinks in place of a curvature.
    """
    curvature = problem.curvature if math.isfinite(problem.curvature) else 1.0
    squares = problem.model.weights * problem.model.norms**2
    smooth = curvature * float(squares.max()) + problem.l2
    return 1.0 / smooth if smooth > 0 else 1.0


def descent_options(model: Any) -> dict[str, Any]:
    """Return the options that SGD and AdaGrad share."""
    return {"batch_size": model.batch_size, "average": model.average}


# each makes a solver from the estimator, the problem and a seed
SOLVERS: dict[str, Callable[[Any, LinearProblem, int], Solver]] = {
    "newton": lambda model, problem, seed: Newton(tol=model.tol or 0.0, seed=seed),
    "sdca": lambda model, problem, seed: SDCA(tol=model.tol or 0.0, seed=seed),
    "saga": lambda model, problem, seed: SAGA(),
    "svrg": lambda model, problem, seed: SVRG(),
    "adagrad": lambda model, problem, seed: AdaGrad(
        ADAGRAD_RATE if model.rate is None else model.rate, **descent_options(model)
    ),
    "sgd": lambda model, problem, seed: SGD(
        first_rate(problem) if model.rate is None else model.rate,
        schedule="root",
        **descent_options(model),
    ),
}


def choose_solver(problem: LinearProblem) -> str:
    """Return the name of the solver that "auto" stands for.

    newton where rows are many and short, the loss is smooth and there is no l1; else sdca where the
    problem has a dual; else saga, or adagrad where the loss has kinks.

    Examples
    --------
    >>> import numpy as np
    >>> from tombola.problems import Hinge, Logistic
    >>> choose_solver(Logistic(np.ones((1000, 2)), np.arange(1000) % 2, alpha=0.1))
    'newton'
    >>> X, y = [[1.0], [-1.0]], [1, 0]
    >>> choose_solver(Logistic(X, y, alpha=0.1)), choose_solver(Logistic(X, y))
    ('sdca', 'saga')
    >>> choose_solver(Hinge(X, y, alpha=0.1, l1_ratio=1.0))
    'adagrad'
    """
    smooth = math.isfinite(problem.curvature)
    if problem.has_dual and problem.l2 > 0:
        width = problem.d + problem.fit_intercept
        needed = width * max(ROWS_PER_COLUMN, ROWS_PER_PAIR * mean_entries(problem.model.rows))
        return "newton" if smooth and problem.l1 == 0 and problem.n >= needed else "sdca"
    return "saga" if smooth else "adagrad"


def check_solver(name: str, problem: LinearProblem) -> None:
    """Raise a ValueError that names solvers for a problem, where this one is not for it."""
    kind, kinks = type(problem).__name__, not math.isfinite(problem.curvature)
    if name in CERTIFIED and not problem.has_dual:
        raise ValueError(f'solver="{name}" needs a loss with a dual, {kind} has none: use "saga"')
    if name == "newton" and (kinks or problem.l1 > 0):
        lack = f"a smooth loss, {kind} has kinks" if kinks else "l1_ratio=0"
        raise ValueError(f'solver="newton" needs {lack}: use "sdca"')
    if name in CERTIFIED and not problem.l2 > 0:
        other = "adagrad" if kinks else "saga"
        raise ValueError(
            f'solver="{name}" needs alpha above 0 and l1_ratio below 1, got '
            f'alpha={problem.alpha:g} and l1_ratio={problem.l1_ratio:g}: use "{other}"'
        )
    if name in REDUCED and kinks:
        raise ValueError(
            f'solver="{name}" needs a smooth loss, {kind} has kinks: use "sdca" or "adagrad"'
        )


def own_sampler(name: str, problem: LinearProblem, seed: int) -> Callable[[], Sampler] | None:
    """Return what makes a solver's own sampler; None where it has none."""
    if name in CERTIFIED:
        solver: Solver = Newton(seed=seed) if name == "newton" else SDCA(seed=seed)
        return partial(solver._default_sampler, problem)
    return partial(by_curvature, problem, seed) if name in REDUCED else None
