"""What one partition does in a round: evaluates a point, then takes steps of dual ascent.

Rows are split over K partitions, each with the dual variables of its rows. In a round each solves

    min_u  K F_k(u) + <anchor_k, u> + strength/2 |u|^2,    F_k(u) = (1/n) sum_i s_i phi(x_i u)

over its own rows, by steps of `tombola.solvers.SDCA`, with q' = K q in place of q: a step adds K
times its change to the partition's copy of u. In the step of `SDCA`, that is the scale over K. K is
1 over the partition's share of the rows, by weight. The anchor makes up for the other partitions.
There are two:

- CoCoA+: the dual variables as they are, and u as all dual variables together have it. Changes of
  all partitions add up to an increase of the dual, whatever the rows are (sigma' = K).
- Slopes: the dual variables are set to -phi' at the point first, so that u moves away from it only
  as far as the gradient of all rows says (DANE). Where partitions are alike that converges in few
  rounds; a driver can step back where they are not. Losses must be smooth.

Everything here is a function of its arguments: draws are keyed by (seed, partition, round, output).

References
----------
Ma, Konecny, Jaggi, Smith, Jordan, Richtarik, Takac (2017). Distributed Optimization with Arbitrary
Local Solvers.
Shamir, Srebro, Zhang (2014). Communication-Efficient Distributed Optimization using an Approximate
Newton-type Method.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import name_by_source, new_record
from tombola.compiling.records import Record
from tombola.dask.partition import Partition
from tombola.dask.setting import Setting
from tombola.samplers import Sampler, Shuffle
from tombola.solvers.base import DivergenceError
from tombola.solvers.certificate import pass_over, sides
from tombola.solvers.dual_run import DualRun
from tombola.solvers.dual_start import conjugate_sum, fill_duals, fill_products
from tombola.solvers.dual_step import Centring, Scratch, rebuild
from tombola.solvers.latest import Latest
from tombola.solvers.loop import advance, new_batch

__all__ = ["Plan", "Report", "Sums", "take_part"]

BATCH = 16  # rows drawn at a time, as in `SDCA`
NEVER = 2**62  # draws until the next pass of the run's own
POWERS = 12  # of 1/2, that dual variables are scaled by where they begin at slopes


class Plan(NamedTuple):
    """What the driver sends to every partition for a round; A outputs are not done yet.

    Attributes
    ----------
    round : int
    outputs : ndarray of shape (A,)
        Their numbers.
    points : ndarray of shape (A, width)
        The solutions to be evaluated.
    w : ndarray of shape (A, d)
        u, where steps begin: see `tombola.solvers.dual_step`.
    levels : record array of shape (A,)
        Scale, share, threshold, total, intercept and pull of each.
    signs, ratios : ndarray of shape (A,)
        The side of the dual variables to be scaled down for the certificate, and the factor.
    slopes : bool
        Whether dual variables are set to the slopes at the points before the steps.
    epochs : float
        Draws, in units of the partition's rows; 0: evaluate only.
    renew : bool
        Whether to compute contributions anew, without the rounding errors of steps.
    """

    round: int
    outputs: NDArray[np.int64]
    points: NDArray[np.float64]
    w: NDArray[np.float64]
    levels: Record
    signs: NDArray[np.float64]
    ratios: NDArray[np.float64]
    slopes: bool
    epochs: float
    renew: bool

    @property
    def nbytes(self) -> int:
        """The size of what is sent."""
        return sum(part.nbytes for part in self if isinstance(part, np.ndarray))


class Sums(NamedTuple):
    """Sums over the rows of a partition, at the point of the plan; by output."""

    losses: NDArray[np.float64]  # s_i phi
    conjugates: NDArray[np.float64]  # s_i phi*, with the heavier side scaled down
    terms: NDArray[np.float64]  # their absolute values
    curvature: NDArray[np.float64]  # s_i phi''
    trace: NDArray[np.float64]  # s_i phi'' |x|^2


class Report(NamedTuple):
    """What a partition returns from a round; A outputs.

    Attributes
    ----------
    sums : Sums
    side : ndarray of shape (A, d)
        (1/n) sum of s_i a_i x_i over the heavier side, before the steps; empty without intercept.
    start : ndarray of shape (A, d + 1)
        (1/n) sum_i s_i a_i x_i and (1/n) sum_i s_i a_i, where steps began; empty where the driver
        knows them.
    change : ndarray of shape (A, d + 1)
        The change of the same by the steps.
    positive, negative : ndarray of shape (A,)
        sum_i s_i a_i over each sign, after the steps.
    restarted : bool
        Whether dual variables were lost: `sums` then prove no bound on the minimum.
    visits : int
        Rows visited, over outputs.
    """

    sums: Sums
    side: NDArray[np.float64]
    start: NDArray[np.float64]
    change: NDArray[np.float64]
    positive: NDArray[np.float64]
    negative: NDArray[np.float64]
    restarted: bool
    visits: int

    @property
    def nbytes(self) -> int:
        """The size of what is returned."""
        arrays = (*self.sums, *(part for part in self[1:] if isinstance(part, np.ndarray)))
        return sum(array.nbytes for array in arrays)


def take_part(
    partition: Partition,
    duals: NDArray[np.float64] | None,
    setting: Setting,
    plan: Plan,
    number: int,
    others: NDArray[np.float64] | None = None,
) -> tuple[Report, NDArray[np.float64]]:
    """Carry out a round on a partition; return a report and the new dual variables.

    Parameters
    ----------
    partition : Partition
    duals : ndarray of shape (outputs, n) or None
        The dual variables. None: they begin at 0, or where they were lost, with `others`, at the
        slopes of the losses, scaled down as far as that improves the dual.
    setting : Setting
    plan : Plan
    number : int
        The number of the partition.
    others : ndarray of shape (A, d), optional
        (1/n) sum of s_i a_i x_i over the rows of all other partitions.
    """
    n, A, d = partition.X.shape[0], plan.outputs.size, setting.mean.size
    restarted = duals is None and others is not None
    anew = plan.slopes and plan.epochs > 0
    known = not (anew or plan.renew or restarted)
    duals = np.zeros((setting.outputs, n)) if duals is None else np.array(duals)
    report = Report(
        sums=Sums(*np.zeros((5, A))),
        side=np.zeros((A if setting.options["fit_intercept"] else 0, d)),
        start=np.zeros((0 if known else A, d + 1)),
        change=np.zeros((A, d + 1)),
        positive=np.zeros(A),
        negative=np.zeros(A),
        restarted=restarted,
        visits=0,
    )
    if n == 0 or not (partition.weights is None or partition.weights.any()):
        return report, duals
    visits = 0
    for at, run in enumerate(runs(partition, duals, setting, plan)):
        there, unit = at_point(run, plan.points[at]), run.level[0].scale / setting.n
        sums = pass_over(there, plan.signs[at], plan.ratios[at])
        for total, value in zip(report.sums, sums, strict=True):
            total[at] = value
        if report.side.size:
            report.side[at] = unit * run.scratch.side
        visits += n
        if anew:
            fill_duals(there, plan.points[at])
            visits += n
        elif restarted:
            assert others is not None
            restart(there, setting, plan.points[at], others[at])
            visits += 2 * n
        if not known:
            report.start[at] = unit * renewed(run)
            visits += n
        if plan.epochs > 0 and (anew or not restarted):
            key = draw_key(setting.seed, number, plan.round, int(plan.outputs[at]))
            visits += take_steps(run, setting.draws, key, plan.epochs)
        report.change[at, :d] = unit * (run.w[0] - plan.w[at])
        report.change[at, d] = unit * (run.level[0].total - plan.levels[at].total)
        report.positive[at], report.negative[at] = sides(run)
    return report._replace(visits=visits), duals


def at_point(run: DualRun, point: NDArray[np.float64]) -> DualRun:
    """Return a run at a given solution, with the same dual variables."""
    level, d = run.level.copy(), run.w.shape[1]
    level[0].total = level[0].threshold = 0.0
    level[0].intercept = point[d] if point.size > d else 0.0
    return run._replace(w=point[None, :d].copy(), level=level)


def runs(
    partition: Partition, duals: NDArray[np.float64], setting: Setting, plan: Plan
) -> Iterator[DualRun]:
    """Yield the run of each output of a plan, on the rows of a partition; duals change in place."""
    targets, weights = targets_of(partition, setting)
    first = setting.kind(
        partition.X, targets(int(plan.outputs[0])), sample_weight=weights, normalise=False,
        **setting.options,
    )  # fmt: skip
    n, d, mean = first.n, first.d, setting.mean
    products = np.zeros(n)
    if mean.any():
        fill_products(first.model, mean, products)
    plain = np.maximum(first.model.norms**2 - first.fit_intercept, 0.0)
    squared = float(mean @ mean)
    centring = Centring(mean, products, np.maximum(plain - 2.0 * products + squared, 0.0))
    scratch = Scratch(np.zeros(1), np.zeros(1), np.zeros(d), np.zeros(n))
    unused = np.zeros((1, d))
    share = float(weights.sum()) / setting.n  # 1/K, where all partitions are of the same size
    for at, output in enumerate(plan.outputs):
        level = plan.levels[at : at + 1].copy()
        level[0].scale *= share  # q' = K q
        yield DualRun(
            batch=new_batch(BATCH),
            progress=new_record(rounds=0, item_gradients=0, draws=0, since=0, due=NEVER, passes=0),
            model=first.model._replace(targets=signed(first, targets(int(output)))),
            options=new_record(
                smooth=int(math.isfinite(first.curvature)),
                roundness=1.0 / first.curvature,
                length=setting.length,
                longest=setting.longest,
                mean_squared=squared,
                tolerance=0.0,
                aim=0.0,
            ),
            centring=centring,
            w=plan.w[at : at + 1].copy(),
            centre=unused,
            previous=unused,
            duals=duals[output],
            level=level,
            bounds=new_record(primal=math.inf, dual=0.0, gap=math.inf),
            best=unused,
            scratch=scratch,
        )


def targets_of(partition: Partition, setting: Setting) -> tuple[Any, NDArray[np.float64]]:
    """Return what gives the targets of an output, and the weights of all rows."""
    y, n = np.asarray(partition.y), partition.X.shape[0]
    weights = np.ones(n) if partition.weights is None else partition.weights
    if y.ndim == 2:
        return lambda output: y[:, output] > 0, setting.factor * weights
    if setting.classes is None:
        return lambda output: y, setting.factor * weights
    numbers = np.searchsorted(setting.classes, y)
    if setting.class_weights is not None:
        weights = weights * setting.class_weights[numbers]
    one = len(setting.classes) == 2
    return lambda output: numbers == (1 if one else output), setting.factor * weights


def signed(problem: Any, targets: NDArray[Any]) -> NDArray[np.float64]:
    """Return targets as the problem keeps them."""
    return np.asarray(problem._checked_targets(targets))


def draw_key(seed: int, partition: int, round_number: int, output: int) -> int:
    """Return the seed of the draws of an output in a round, in a partition."""
    return seed | partition << 32 | round_number << 64 | output << 96


def take_steps(run: DualRun, draws: str, seed: int, epochs: float) -> int:
    """Take steps on rows drawn, from the residuals of the pass before; return how many."""
    n = run.duals.size
    weights = run.model.weights
    among = None if weights.all() else np.flatnonzero(weights)
    sampler: Sampler
    if draws == "shuffled":
        sampler = Shuffle(n, seed=seed)
    else:
        sampler = Latest(n, among=among, seed=seed)
        sampler.update_all(run.scratch.residuals)
    name_by_source(type(sampler.state))
    rounds = math.ceil(epochs * n / BATCH)
    with np.errstate(over="ignore", invalid="ignore"):
        wrong = advance(run, sampler.state, sampler.tally, n, rounds)
    if wrong >= 0 or not run.finite():
        raise DivergenceError("numbers overflow: scale the data")
    return rounds * BATCH


def restart(
    run: DualRun, setting: Setting, point: NDArray[np.float64], others: NDArray[np.float64]
) -> None:
    """Begin anew where dual variables were lost: at -phi', times the power of 1/2 that suits best.

    The dual that is compared has the contributions of the other partitions besides.
    """
    l1, l2, n = setting.l1, setting.l2, setting.n
    fill_duals(run, point)
    own = run.level[0].scale / n * renewed(run)[:-1]
    best, factor = -math.inf, 0.0
    for power in (*(0.5**k for k in range(POWERS)), 0.0):
        shrunk = np.maximum(np.abs(others + power * own) - l1, 0.0)
        dual = -conjugate_sum(run.model, run.duals, power) / n - float(shrunk @ shrunk) / (2.0 * l2)
        if dual > best:
            best, factor = dual, power
    run.duals[:] *= factor


def renewed(run: DualRun) -> NDArray[np.float64]:
    """Return the sums of s_i a_i x_i / scale, and of s_i a_i / scale, as the dual variables are."""
    level = run.level.copy()
    level[0].share = 1.0
    out = np.empty(run.w.shape[1] + 1)
    out[-1] = rebuild(run._replace(level=level), out[:-1])
    return out
