"""Dual coordinate ascent with adaptive draws."""

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.checkpoint import CheckpointError
from tombola.compiling import kernel, new_record, prefetch
from tombola.compiling.records import Record
from tombola.problems.linear import LinearProblem, conjugate, curve, inside, slope, slopes
from tombola.problems.rows import add_row, dot, prefetch_row
from tombola.samplers import Sampler
from tombola.samplers.compiled import update_all
from tombola.solvers.base import Solver
from tombola.solvers.certificate import evaluate, pull_for, survey
from tombola.solvers.dual_step import Centring, Scratch, fill_residuals, rebuild, visit
from tombola.solvers.latest import Latest
from tombola.solvers.loop import Batch, new_batch
from tombola.solvers.result import Result
from tombola.solvers.run import Limits, Run
from tombola.validation import number, whole

__all__ = ["SDCA"]

DRIFT = 1e-9  # how far a saved u may be from that of its dual variables, relative to its terms


class _Parts(NamedTuple):
    batch: Batch
    progress: Record  # rounds, item_gradients: rows visited; draws; since: since the last pass;
    # due: the draws at which the next pass is; passes
    model: Any
    options: Record  # smooth; roundness: 1/c; length: mean |x|^2; mean_squared: |mean|^2;
    # tolerance: of the gap; aim: the same, above 0
    centring: Centring
    w: NDArray[np.float64]  # (1, d): u
    centre: NDArray[np.float64]  # (1, d): y
    previous: NDArray[np.float64]  # (1, d): w at the last pass
    duals: NDArray[np.float64]  # (n,)
    level: Record  # scale: strength n; share: l2 / strength; threshold: l1 / strength; total;
    # intercept; pull
    bounds: Record  # on the minimum: primal, dual; gap
    best: NDArray[np.float64]  # (1, width): the solution that has the value bounds.primal
    scratch: Scratch


class DualRun(_Parts, Run):
    """Steps on the rows drawn, one after the other, and a pass over all rows now and then."""

    __slots__ = ()

    derived = ("batch", "model", "options", "centring", "scratch")
    limits: ClassVar[Limits] = {
        "progress.draws": (0, "progress.item_gradients"),
        "progress.since": (0, "progress.draws"),
        "progress.due": (0, math.inf),
        "progress.passes": (0, "progress.item_gradients"),
        "level.scale": (0.0, math.inf),
        "level.share": (0.0, 1.0),
        "level.threshold": (0.0, math.inf),
        "level.pull": (0.0, math.inf),
        "bounds.dual": (-math.inf, "bounds.primal"),
        "bounds.gap": (0.0, math.inf),
    }

    @staticmethod
    def step(run: Any) -> Any:
        """Take one step on each row drawn; return the position of the first bad loss, or -1."""
        progress, batch = run.progress[0], run.batch
        size = batch.items.size
        progress.rounds += 1
        progress.draws += size
        progress.since += size
        progress.item_gradients += size
        for b in range(size):
            batch.losses[b] = visit(run, batch.items[b])
            if not batch.losses[b] < math.inf:
                return b
        return -1

    @staticmethod
    def prefetch_item(run: Any, item: Any) -> None:
        """Prefetch what a step reads of a row."""
        prefetch(run.duals, item)
        prefetch(run.model.targets, item)
        prefetch(run.model.weights, item)
        prefetch(run.centring.lengths, item)
        prefetch(run.centring.products, item)
        prefetch_row(run.model.rows, item)

    @staticmethod
    def look(run: Any) -> Any:
        """Pass over all rows, where that is due; return whether it was."""
        if run.progress[0].draws < run.progress[0].due:
            return False
        survey(run)
        return True

    @staticmethod
    def tell(run: Any, state: Any) -> None:
        """Tell the sampler the residuals of all rows."""
        update_all(state, run.scratch.residuals)

    @staticmethod
    def ended(run: Any) -> Any:
        """Return whether the gap is within the tolerance."""
        return run.bounds[0].gap <= run.options[0].tolerance

    def seen(self) -> NDArray[np.float64]:
        """Return the residuals of all rows at the last pass."""
        return self.scratch.residuals

    def check(self, saved: Any) -> None:
        """Raise a CheckpointError that names the first thing in `saved` that cannot be loaded."""
        super().check(saved)
        duals = saved["duals"]
        place = int(first_outside(self.model, duals))
        if place >= 0:
            raise CheckpointError(
                f"cannot resume: duals[{place}] is {duals[place]}, which the loss does not allow"
            )
        v = np.empty(self.w.size)
        level, settings = saved["level"], self.model.settings[0]
        for name, right in (("share", settings.l2), ("threshold", settings.l1)):
            if not np.isclose(level[name] * level["scale"], right * duals.size):
                raise CheckpointError(f"cannot resume: level.{name} is not that of the scale")
        parts = {"duals": duals, "centre": saved["centre"], "level": new_record(**level)}
        total = rebuild(self._replace(**parts), v)
        shares = self.model.weights / level["scale"] * np.abs(duals)
        most = float(shares @ np.maximum(self.model.norms, 1.0)) + np.abs(saved["centre"]).max()
        for name, given, right in (
            ("w", saved["w"][0], v),
            ("level.total", level["total"], total),
        ):
            if not np.abs(given - right).max() <= DRIFT * most:
                raise CheckpointError(f"cannot resume: {name} is not that of the duals")
        bounds = saved["bounds"]
        if not bounds["gap"] >= (bounds["primal"] - bounds["dual"]) * (1.0 - 1e-9):
            raise CheckpointError("cannot resume: bounds.gap is less than primal - dual")


@kernel
def first_outside(model: Any, duals: NDArray[np.float64]) -> Any:
    """Return the first dual variable outside of its domain, or -1."""
    for item in range(duals.size):
        if not inside(model, item, duals[item]):
            return item
    return -1


class SDCA(Solver):
    """Stochastic dual coordinate ascent: no rate, and a certificate of how close it is.

    For a problem with l2 > 0 (lambda below) and a loss with a dual: one dual variable a_i for each
    row, from which v = (1/(lambda n)) sum_i s_i a_i x_i and w = soft(v, l1 / lambda). A step
    maximises the dual over the variable of one row,

        a_i <- argmax_b  -phi*(-b) - b x_i w - q/2 (b - a_i)^2,     q = s_i |x_i|^2 / (lambda n)

    in closed form, or by two to four Newton iterations for the logistic loss. Each step is exact,
    whatever p the row was drawn with, so a sampler is free to be greedy.

    The items are rows. By default they are drawn by `Latest`: half in shuffled order, half by
    their latest dual residual. Every two epochs, or sooner where the end is near, a pass over all
    rows tells it all residuals, moves the intercept, and bounds the distance to the optimum.

    Parameters
    ----------
    tol : float, default=0.0
        The run ends when the duality gap is at most `tol` times the objective at w = 0 with the
        best intercept. 0: after all rounds.
    batch_size : int, default=16
        Rows drawn at a time, with feedback after the last. Their steps are taken one after the
        other, each from the result of the one before.
    seed : int, default=0
        For the sampler where none is given.

    Notes
    -----
    Fed back is AdaSDCA's weight, s_i |kappa_i| sqrt(|x_i|^2 + lambda n / (c s_i)), with the dual
    residual kappa_i = a_i + phi'(x_i w) and phi c-smooth; for `Hinge` and `EpsilonInsensitive` it
    is the change of a_i in place of kappa_i. docs/decisions/sdca_draws.md compares other rules.

    `item_gradients` counts rows visited, passes included. A step takes O(entries of the row). Rows
    of weight 0 are never drawn. With `start`, the dual variables are -phi'(x_i w) at that point,
    scaled down as far as that improves the dual.

    An intercept has no penalty and is no variable of this dual. It is the multiplier of the
    constraint sum_i s_i a_i = 0, moved at every pass (an augmented Lagrangian; see
    `tombola.solvers.dual_step`). The certificate is that of a copy that satisfies the constraint.

    After a pass the solution is the best of all passes, between two passes the present point.

    Examples
    --------
    >>> import numpy as np
    >>> from tombola.problems import Logistic
    >>> X, y = np.array([[1.0], [2.0], [-1.0], [0.5]]), [1, 1, 0, 0]
    >>> problem = Logistic(X, y, alpha=0.1, fit_intercept=True)
    >>> solver = SDCA(tol=1e-8)
    >>> result = solver.minimize(problem, rounds=10_000)
    >>> result.solution.round(3), result.rounds < 10_000
    (array([ 1.364, -0.922]), True)
    >>> solver.gap(problem, result) <= 1e-8
    True

    References
    ----------
    Shalev-Shwartz, Zhang (2013). Stochastic Dual Coordinate Ascent Methods for Regularized Loss
    Minimization.
    Shalev-Shwartz, Zhang (2014). Accelerated Proximal Stochastic Dual Coordinate Ascent for
    Regularized Loss Minimization.
    Csiba, Qu, Richtarik (2015). Stochastic Dual Coordinate Ascent with Adaptive Probabilities.
    """

    quantity = "dual residual"

    def __init__(self, *, tol: float = 0.0, batch_size: int = 16, seed: int = 0) -> None:
        if not 0 <= number("tol", tol) < math.inf:
            raise ValueError(f"tol must be finite and not negative, got {tol!r}")
        self.tol = float(tol)
        self.batch_size = whole("batch_size", batch_size, 1)
        self.seed = whole("seed", seed, 0, 2**128)

    def gap(self, problem: Any, result: Result) -> float:
        """Return the duality gap of a result, relative to the objective at w = 0.

        The objective of `result.solution` is at most this far from the minimum, in units of the
        objective at w = 0 with the best intercept. It takes a pass over all rows.
        """
        run = self._resumed(problem, None, result, result.rounds).run
        primal, dual, _, _ = evaluate(run)
        if at_best(run):
            primal = run.bounds[0].primal
        gap = max(primal - max(dual, run.bounds[0].dual), 0.0)
        return float(gap / self._at_zero(problem)[1])

    def _check(self, problem: Any) -> None:
        if not (isinstance(problem, LinearProblem) and problem.has_dual):
            raise TypeError(
                "SDCA minimises linear models with a dual (Logistic, LeastSquares, Hinge, "
                "SquaredHinge, Huber, EpsilonInsensitive), got " + type(problem).__name__
            )
        if not problem.l2 > 0:
            raise ValueError(
                "SDCA needs a problem with l2 > 0: alpha above 0 and l1_ratio below 1, got "
                f"alpha={problem.alpha:g} and l1_ratio={problem.l1_ratio:g}"
            )

    def _default_sampler(self, problem: Any) -> Sampler:
        weights = problem.model.weights
        among = None if weights.all() else np.flatnonzero(weights)
        return Latest(problem.n, among=among, seed=self.seed)

    def _begin(self, problem: Any, start: ArrayLike | None, sampler: Sampler) -> DualRun:
        model, n, d = problem.model, problem.n, problem.d
        centring = centred(problem)
        intercept, value = self._at_zero(problem)
        length = float((model.weights * centring.lengths).sum() / n)
        best = problem.as_matrix(None)
        if problem.fit_intercept:
            best[0, d] = intercept
        smooth = math.isfinite(problem.curvature)
        run = DualRun(
            batch=new_batch(self.batch_size),
            progress=new_record(
                rounds=0, item_gradients=0, draws=0, since=0, due=-(-n // 2), passes=0
            ),
            model=model,
            options=new_record(
                smooth=int(smooth),
                roundness=1.0 / problem.curvature,
                length=length,
                mean_squared=float(centring.mean @ centring.mean),
                tolerance=self.tol * value,
                aim=max(self.tol, AIM) * value,
            ),
            centring=centring,
            w=np.zeros((1, d)),
            centre=np.zeros((1, d)),
            previous=np.zeros((1, d)),
            duals=np.zeros(n),
            level=new_record(
                scale=problem.l2 * n,
                share=1.0,
                threshold=problem.l1 / problem.l2,
                total=0.0,
                intercept=intercept,
                pull=0.0,
            ),
            bounds=new_record(primal=value, dual=0.0, gap=value),
            best=best,
            scratch=Scratch(np.zeros(1), np.zeros(1), np.zeros(d), np.zeros(n)),
        )
        if start is not None:
            begin_at(problem, run, problem.as_matrix(start))
        if problem.fit_intercept:
            run.level[0].pull = pull_for(run, mean_curvature(run))
        return run

    def _at_zero(self, problem: Any) -> tuple[float, float]:
        """Return the best intercept for w = 0, 0 without one, and the objective there."""
        if not problem.fit_intercept:
            return 0.0, value_of_constant(problem.model, 0.0)[0] / problem.n
        # classes have two targets; where there are many, slopes are cheap
        targets, places = np.unique(problem.model.targets, return_inverse=True)
        weights = np.bincount(places, problem.model.weights)
        model = problem.model._replace(targets=targets, weights=weights)
        low, high = min(-WIDE, targets[0]), max(WIDE, targets[-1])
        while True:  # bisection: the sum of slopes rises
            middle = 0.5 * (low + high)
            if not low < middle < high:
                break
            if value_of_constant(model, middle)[1] < 0.0:
                low = middle
            else:
                high = middle
        ends = [(value_of_constant(model, end)[0] / problem.n, end) for end in (low, high)]
        value, intercept = min(ends)
        return float(intercept), float(value)

    def _solution(self, problem: Any, run: Any) -> NDArray[np.float64]:
        if at_best(run):
            return np.array(run.best).reshape(problem.shape)
        return np.asarray(present(problem, run).reshape(problem.shape))

    def _all_losses(self, problem: Any, run: Any) -> NDArray[np.float64]:
        losses = np.empty(problem.n)
        fill_residuals(run, losses)
        return losses

    def _advice(self, problem: Any) -> str:
        return "numbers overflow: scale the data"


AIM = 1e-6  # the tolerance that progress is measured against where none is given
WIDE = 40.0  # no intercept of a classifier is larger: exp(-40) is below the rounding of 1


def at_best(run: DualRun) -> bool:
    """Return whether the solution is the best point of all passes."""
    return bool(run.progress[0].since == 0)


def present(problem: Any, run: DualRun) -> NDArray[np.float64]:
    """Return the present point, of shape (1, width)."""
    w: NDArray[np.float64] = problem.as_matrix(None)
    v = run.w[0] - run.level[0].total * run.centring.mean
    w[0, : problem.d] = np.sign(v) * np.maximum(np.abs(v) - run.level[0].threshold, 0.0)
    if problem.fit_intercept:
        w[0, -1] = run.level[0].intercept
    return w


def centred(problem: Any) -> Centring:
    """Return the mean of the rows and their distances from it; 0 where rows are not centred."""
    mean, products = np.zeros(problem.d), np.zeros(problem.n)
    lengths = np.maximum(problem.model.norms**2 - problem.fit_intercept, 0.0)
    if problem.fit_intercept and problem.l1 == 0:
        fill_mean(problem.model, mean)
        fill_products(problem.model, mean, products)
        lengths = np.maximum(lengths - 2.0 * products + mean @ mean, 0.0)
    return Centring(mean, products, lengths)


def begin_at(problem: Any, run: DualRun, start: NDArray[np.float64]) -> None:
    """Set the dual variables to -phi' at a point, times the power of 1/2 with the best dual."""
    fill_duals(run, start[0])
    total = rebuild(run, run.w[0])
    v, best, factor = run.w[0] / run.level[0].share, 0.0, 0.0
    for power in range(12):
        shrunk = np.maximum(np.abs(0.5**power * v) - problem.l1 / problem.l2, 0.0)
        conjugates = conjugate_sum(run.model, run.duals, 0.5**power) / problem.n
        dual = -conjugates - problem.l2 / 2 * float(shrunk @ shrunk)
        if dual > best:
            best, factor = dual, 0.5**power
    run.duals[:] *= factor
    run.centre[0] = run.previous[0] = start[0, : problem.d]
    run.w[:] = factor * run.w + (1.0 - run.level[0].share) * run.centre
    run.level[0].total = factor * total
    value = problem.value(start.reshape(problem.shape))
    if value < run.bounds[0].primal:
        run.best[:] = start
        run.bounds[0].primal = run.bounds[0].gap = value
    if problem.fit_intercept:
        run.level[0].intercept = start[0, -1]


@kernel
def fill_mean(model: Any, out: NDArray[np.float64]) -> None:
    """Write the mean of s_i x_i, over the mean of s_i."""
    total = 0.0
    for item in range(model.weights.size):
        total += model.weights[item]
    for item in range(model.weights.size):
        add_row(model.rows, item, model.weights[item] / total, out)


@kernel
def fill_products(model: Any, mean: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Write x_i mean."""
    for item in range(out.size):
        out[item] = dot(model.rows, item, mean)


@kernel(allocates=True)
def value_of_constant(model: Any, b: Any) -> Any:
    """Return the sums of s_i phi and of s_i phi' where all inner products are b."""
    z, out = np.full(1, b), np.zeros(1)
    losses = sums = 0.0
    for item in range(model.targets.size):
        losses += model.weights[item] * slopes(model, item, z, out)
        sums += model.weights[item] * out[0]
    return losses, sums


@kernel
def fill_duals(run: Any, start: NDArray[np.float64]) -> None:
    """Write a_i = -phi' at a point."""
    intercept = start[start.size - 1] if run.model.settings[0].intercept else 0.0
    for item in range(run.duals.size):
        z = dot(run.model.rows, item, start) + intercept
        run.duals[item] = -slope(run.model, item, z)


@kernel
def conjugate_sum(model: Any, duals: NDArray[np.float64], factor: Any) -> Any:
    """Return the sum of s_i phi*(-factor a_i)."""
    total = 0.0
    for item in range(duals.size):
        total += model.weights[item] * conjugate(model, item, factor * duals[item])
    return total


@kernel
def mean_curvature(run: Any) -> Any:
    """Return the mean of s_i phi'' at w = 0; 1 where phi is not smooth."""
    if not run.options[0].smooth:
        return 1.0
    total = 0.0
    for item in range(run.duals.size):
        total += run.model.weights[item] * curve(run.model, item, run.level[0].intercept)
    return total / run.duals.size
