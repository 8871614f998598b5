"""The solvers of linear models by name, and which of them `solver="auto"` is."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from tombola.problems.linear import LinearProblem
from tombola.samplers import Sampler
from tombola.solvers import SAGA, SDCA, SGD, SVRG, AdaGrad, Solver
from tombola.solvers.variance_reduced import by_curvature

__all__ = [
    "CERTIFIED",
    "DESCENTS",
    "REDUCED",
    "SOLVERS",
    "check_solver",
    "choose_solver",
    "own_sampler",
]

ADAGRAD_RATE = 0.3  # where none is given; see docs/decisions/estimator_defaults.md

CERTIFIED = ("sdca",)  # they end within tol by themselves
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

    sdca where the problem has a dual; else saga, or adagrad where the loss has kinks.

    Examples
    --------
    >>> from tombola.problems import Hinge, Logistic
    >>> X, y = [[1.0], [-1.0]], [1, 0]
    >>> choose_solver(Logistic(X, y, alpha=0.1)), choose_solver(Logistic(X, y))
    ('sdca', 'saga')
    >>> choose_solver(Hinge(X, y, alpha=0.1, l1_ratio=1.0))
    'adagrad'
    """
    if problem.has_dual and problem.l2 > 0:
        return "sdca"
    return "saga" if math.isfinite(problem.curvature) else "adagrad"


def check_solver(name: str, problem: LinearProblem) -> None:
    """Raise a ValueError that names solvers for a problem, where this one is not for it."""
    kind, kinks = type(problem).__name__, not math.isfinite(problem.curvature)
    if name == "sdca" and not problem.has_dual:
        raise ValueError(f'solver="sdca" needs a loss with a dual, {kind} has none: use "saga"')
    if name == "sdca" and not problem.l2 > 0:
        other = "adagrad" if kinks else "saga"
        raise ValueError(
            f'solver="sdca" needs alpha above 0 and l1_ratio below 1, got alpha={problem.alpha:g} '
            f'and l1_ratio={problem.l1_ratio:g}: use "{other}"'
        )
    if name in REDUCED and kinks:
        raise ValueError(
            f'solver="{name}" needs a smooth loss, {kind} has kinks: use "sdca" or "adagrad"'
        )


def own_sampler(name: str, problem: LinearProblem, seed: int) -> Callable[[], Sampler] | None:
    """Return what makes a solver's own sampler; None where it has none."""
    if name == "sdca":
        return partial(SDCA(seed=seed)._default_sampler, problem)
    return partial(by_curvature, problem, seed) if name in REDUCED else None
