"""The choice of a fit: solver, sampler and rounds, made once from what a user asks for."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from tombola.problems import Softmax
from tombola.problems.linear import LinearProblem
from tombola.problems.metric import standardised
from tombola.problems.rows import Sparse, mean_entries
from tombola.samplers.registry import make_sampler
from tombola.solvers.base import Solver
from tombola.solvers.descent.adagrad import AdaGrad
from tombola.solvers.descent.saga import SAGA
from tombola.solvers.descent.sgd import SGD
from tombola.solvers.descent.svrg import SVRG
from tombola.solvers.descent.variance_reduced import by_curvature
from tombola.solvers.dual.sdca import SDCA
from tombola.solvers.lasso.working_sets import WorkingSets
from tombola.solvers.newton.newton import Newton, usual_size
from tombola.solvers.newton.sample import WIDEST

__all__ = ["DESCENTS", "STOPS", "Choice", "choose", "has_kinks"]

ROWS_PER_COLUMN = 30  # newton needs these: its samples have that many ...
SPARSE_PER_COLUMN = 250  # ... and these where rows are sparse: an epoch of sdca is then cheap
SMALL = 2**23  # products in the Hessian of all rows, up to which newton is used with fewer rows
ROWS_PER_PAIR = 0.3  # and these for each pair of columns: else Hessians take too long
SLOW_EPOCHS = 100.0  # c |x|^2 / (l2 n) from which on sdca is slow
COLUMNS_PER_ROW = 4  # at most, for a Hessian
ADAGRAD_RATE = 0.3  # the default; see docs/decisions/estimator_defaults.md

# the solvers of linear models by name, and how each of them stops
STOPS = {
    "newton": "certified",
    "sdca": "certified",
    "saga": "reduced",
    "svrg": "reduced",
    "adagrad": "descent",
    "sgd": "descent",
}
DESCENTS = tuple(name for name, stop in STOPS.items() if stop == "descent")


@dataclass(frozen=True)
class Choice:
    """How a problem is solved.

    Attributes
    ----------
    name : str
        The name of the solver: a key of `STOPS`, "working_sets" or "kmeans".
    stop : {"certified", "reduced", "descent", "columns", "batches"}
        "certified": the solver ends by itself, within `tol`. "reduced": it converges, and a rule
        looks at the duality gap after each epoch. "descent": it has a rate, can continue with new
        rows, and a rule looks at the objective. "columns": it goes by columns, and ends by itself.
        "batches": the solver counts mini-batches without progress.
    solver : Solver or WorkingSets
    make_sampler : callable or None
        Makes the sampler; None if the solver goes by columns.
    tol : float or None
        None: no tolerance ends it ("batches" may still end by itself).
    epoch : int
        The rounds of an epoch.
    rounds : int
        In total, at most.
    """

    name: str
    stop: str
    solver: Any
    make_sampler: Callable[[], Any] | None
    tol: float | None
    epoch: int
    rounds: int

    @cached_property
    def sampler(self) -> Any:
        """The sampler over the rows, made when it is first asked for; None for columns."""
        return None if self.make_sampler is None else self.make_sampler()


def has_kinks(problem: Any) -> bool:
    """Return whether the loss of a problem, or of a class of problems, has kinks."""
    return not math.isfinite(problem.curvature)


def choose(
    problem: LinearProblem,
    *,
    solver: str = "auto",
    sampler: Any = "auto",
    tol: float | None = 1e-4,
    epochs: int = 100,
    seed: int = 0,
    groups: Any = None,
    rate: float | None = None,
    batch_size: int = 1,
    average: bool = False,
) -> Choice:
    """Return how a linear problem is solved.

    The solver "auto" is newton for a smooth loss without l1 if rows are many and short, or few, if
    there is no penalty, or if sdca would be slow; else sdca if the problem has a dual; else saga,
    or adagrad if the loss has kinks. With l1 alone and a smooth loss it goes by columns, if the
    sampler is "auto", too, and there is a tolerance: row by row takes longer (scikit-learn's saga 4
    to 36 times as long, if it arrived at all).

    Parameters
    ----------
    problem : LinearProblem
    solver, sampler, tol, rate, batch_size, average
        As in `tombola.estimators.LinearClassifier`.
    epochs : int, default=100
        At most; all are run if tol is None or 0.
    seed, groups
        Of the sampler: see `tombola.samplers.registry.make_sampler`.

    Raises
    ------
    ValueError
        If there is no such solver, or it is not for this problem: the message names one that is.

    Examples
    --------
    >>> import numpy as np
    >>> from tombola.problems import Hinge, Logistic
    >>> choose(Logistic(np.ones((1000, 2)), np.arange(1000) % 2, alpha=0.1)).name
    'newton'
    >>> X, y = [[1.0], [-1.0]], [1, 0]
    >>> choose(Logistic(X, y, alpha=0.1)).name, choose(Logistic(X, y)).name
    ('newton', 'newton')
    >>> choose(Hinge(X, y, alpha=0.1)).name
    'sdca'
    >>> choose(Logistic(X, y, alpha=0.1, l1_ratio=1.0)).name
    'working_sets'
    >>> choose(Hinge(X, y, alpha=0.1, l1_ratio=1.0)).name
    'adagrad'
    """
    tol, name = tol or None, solver
    drawn = not (isinstance(sampler, str) and sampler == "auto")  # by a rule that was asked for
    if solver != "auto":
        check_solver(solver, problem)
    elif not drawn and tol and needs_columns(problem):
        columns = WorkingSets(tol=tol, seed=seed)
        return Choice("working_sets", "columns", columns, None, tol, 1, epochs)
    else:
        name = default_solver(problem, drawn)
    made: Solver
    if name == "newton":
        size = max(2, min(usual_size(problem), problem.n // 2)) if drawn else None
        made = Newton(tol=tol or 0.0, seed=seed, sample_size=size)
    elif name == "sdca":
        made = SDCA(tol=tol or 0.0, seed=seed)
    elif STOPS[name] == "reduced":
        made = SAGA(standardise=True) if name == "saga" else SVRG(standardise=True)
    elif name == "adagrad":
        rate = ADAGRAD_RATE if rate is None else rate
        made = AdaGrad(rate, batch_size=batch_size, average=average, standardise=True)
    else:
        rate = first_rate(standardised(problem)) if rate is None else rate
        made = SGD(rate, schedule="root", batch_size=batch_size, average=average, standardise=True)
    own: Any = {
        "certified": partial(made._default_sampler, problem),
        "reduced": lambda: by_curvature(standardised(problem), seed),
        "descent": None,
    }[STOPS[name]]
    draws = partial(
        make_sampler, sampler, problem.n, seed, groups, own=own,
        forget=name not in DESCENTS,  # losses go to zero
    )  # fmt: skip
    epoch = made.rounds_per_epoch(problem)
    return Choice(name, STOPS[name], made, draws, tol, epoch, epochs * epoch)


def needs_columns(problem: LinearProblem) -> bool:
    """Return whether a problem has l1 alone and a smooth loss."""
    dual = problem.has_dual and not has_kinks(problem)
    return bool(dual and problem.l1 > 0 and problem.l2 == 0)


def default_solver(problem: LinearProblem, drawn: bool) -> str:
    """Return the name of the solver that "auto" stands for, if it goes by rows.

    `drawn` says that rows are to be drawn by a rule that was asked for.
    """
    kinks = has_kinks(problem)
    plain = problem.alpha == 0.0 and not kinks and not drawn
    if plain and problem.d <= WIDEST and (problem.has_dual or isinstance(problem, Softmax)):
        return "newton"
    if problem.has_dual and problem.l2 > 0:
        return "sdca" if kinks or problem.l1 > 0 or not suits_newton(problem, drawn) else "newton"
    if isinstance(problem, Softmax) and not drawn and problem.l2 > 0 and problem.l1 == 0:
        return "newton"
    return "adagrad" if kinks else "saga"


def suits_newton(problem: LinearProblem, drawn: bool) -> bool:
    """Return whether a smooth problem with l2 is for newton rather than for sdca.

    It is if rows are many and short, or few, and where sdca would be slow: the number of its epochs
    grows with c |x|^2 / (l2 n), which is large for columns in large units. The Hessian limits the
    columns of such a problem, and few rows make it singular. docs/decisions/newton_blas.md has the
    figures for sparse rows.
    """
    n, width, model = problem.n, problem.d + problem.fit_intercept, problem.model
    sparse = isinstance(model.rows, Sparse) and not drawn
    least = SPARSE_PER_COLUMN if sparse else ROWS_PER_COLUMN
    needed = width * max(least, ROWS_PER_PAIR * mean_entries(model.rows))
    if n >= needed or drawn:
        return n >= needed
    if n * width**2 <= SMALL:
        return True
    with np.errstate(over="ignore"):
        square = float(np.mean(model.weights * model.norms**2))
    slow = problem.curvature * square > SLOW_EPOCHS * problem.l2 * n
    return slow and width <= min(WIDEST, COLUMNS_PER_ROW * n)


def check_solver(name: str, problem: LinearProblem) -> None:
    """Raise a ValueError that names the solvers if this one is unknown, or not for the problem."""
    if name not in STOPS:
        known = ", ".join(f'"{known}"' for known in ("auto", *STOPS))
        raise ValueError(f"solver must be one of {known}, got {name!r}")
    kind, kinks = type(problem).__name__, has_kinks(problem)
    certified = STOPS[name] == "certified"
    softmax = name == "newton" and isinstance(problem, Softmax)
    if certified and isinstance(problem, Softmax) and not softmax:
        raise ValueError(
            f'solver="{name}" needs one output, {kind} has {problem.outputs}: use "newton" or '
            '"saga", or multi_class="ovr"'
        )
    if certified and not problem.has_dual and not softmax:
        raise ValueError(f'solver="{name}" needs a loss with a dual, {kind} has none: use "saga"')
    if name == "newton" and (kinks or problem.l1 > 0):
        lack = f"a smooth loss, {kind} has kinks" if kinks else "l1_ratio=0"
        raise ValueError(f'solver="newton" needs {lack}: use "{"saga" if softmax else "sdca"}"')
    if certified and not problem.l2 > 0 and (name == "sdca" or problem.l1 > 0):
        other = "adagrad" if kinks else "saga"
        raise ValueError(
            f'solver="{name}" needs alpha above 0 and l1_ratio below 1, got '
            f'alpha={problem.alpha:g} and l1_ratio={problem.l1_ratio:g}: use "{other}"'
        )
    if STOPS[name] == "reduced" and kinks:
        raise ValueError(
            f'solver="{name}" needs a smooth loss, {kind} has kinks: use "sdca" or "adagrad"'
        )


def first_rate(problem: LinearProblem) -> float:
    """Return SGD's first rate: 1 over the largest curvature, or squared norm if there is none.

    Hinge and epsilon-insensitive losses have kinks in place of a curvature.
    """
    curvature = 1.0 if has_kinks(problem) else problem.curvature
    squares = problem.model.weights * problem.model.norms**2
    smooth = curvature * float(squares.max()) + problem.l2
    return 1.0 / smooth if smooth > 0 else 1.0
