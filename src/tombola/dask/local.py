"""What one partition does in a round of CoCoA+: evaluates the present point, then improves its duals.

Rows are split over K partitions, each with the dual variables of its rows. In a round each takes
steps of `tombola.solvers.SDCA` on its own rows as if the others stood still, with q' = K q in place
of q: a step adds K times its change to the partition's copy of u, and the changes of all partitions
are added up (sigma' = K, for which adding is safe). In the step of `SDCA`, that is the scale over K.

Everything here is a function of its arguments: draws are keyed by (seed, partition, round, output).

References
----------
Ma, Konecny, Jaggi, Smith, Jordan, Richtarik, Takac (2017). Distributed Optimization with Arbitrary
Local Solvers.
Smith, Forte, Ma, Takac, Jordan, Jaggi (2018). CoCoA: A General Framework for Communication-Efficient
Distributed Optimization.
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
from tombola.solvers.closed_form import soft
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
    w : ndarray of shape (A, d)
        u, of which w is a part: see `tombola.solvers.dual_step`.
    levels : record array of shape (A,)
        Scale, share, threshold, total, intercept and pull of each.
    signs, ratios : ndarray of shape (A,)
        The side of the dual variables to be scaled down for the certificate, and the factor.
    epochs : float
        Draws, in units of the partition's rows; 0: evaluate only.
    renew : bool
        Whether to compute contributions anew, without the rounding errors of steps.
    """

    round: int
    outputs: NDArray[np.int64]
    w: NDArray[np.float64]
    levels: Record
    signs: NDArray[np.float64]
    ratios: NDArray[np.float64]
    epochs: float
    renew: bool

    @property
    def nbytes(self) -> int:
        """The size of what is sent."""
        arrays = (self.outputs, self.w, self.levels, self.signs, self.ratios)
        return sum(array.nbytes for array in arrays)


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
    contribution : ndarray of shape (A, d)
        The change of (1/n) sum_i s_i a_i x_i; all of it if `whole`.
    total : ndarray of shape (A,)
        The same of (1/n) sum_i s_i a_i.
    positive, negative : ndarray of shape (A,)
        sum_i s_i a_i over each sign, after the steps.
    whole : bool
    restarted : bool
        Whether dual variables were lost and began anew: `sums.conjugates` are then not those of the
        contribution that the plan was made with.
    visits : int
        Rows visited, over outputs.
    """

    sums: Sums
    side: NDArray[np.float64]
    contribution: NDArray[np.float64]
    total: NDArray[np.float64]
    positive: NDArray[np.float64]
    negative: NDArray[np.float64]
    whole: bool
    restarted: bool
    visits: int

    @property
    def nbytes(self) -> int:
        """The size of what is returned."""
        arrays = (*self.sums, self.side, self.contribution, self.total, self.positive)
        return sum(array.nbytes for array in arrays) + self.negative.nbytes


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
        slopes of the losses, scaled down as far as that improves the dual; no steps are taken then.
    setting : Setting
    plan : Plan
    number : int
        The number of the partition.
    others : ndarray of shape (A, d), optional
        (1/n) sum of s_i a_i x_i over the rows of all other partitions.
    """
    n, A, d = partition.X.shape[0], plan.outputs.size, setting.mean.size
    restarted = duals is None and others is not None
    duals = np.zeros((setting.outputs, n)) if duals is None else np.array(duals)
    report = Report(
        sums=Sums(*np.zeros((5, A))),
        side=np.zeros((A if setting.options["fit_intercept"] else 0, d)),
        contribution=np.zeros((A, d)),
        total=np.zeros(A),
        positive=np.zeros(A),
        negative=np.zeros(A),
        whole=plan.renew or restarted,
        restarted=restarted,
        visits=0,
    )
    if n == 0 or not (partition.weights is None or partition.weights.any()):
        return report, duals
    visits = 0
    for at, run in enumerate(runs(partition, duals, setting, plan)):
        scale = run.level[0].scale / setting.n  # (1/n) sum s_i a_i x_i is this times u
        sums = pass_over(run, plan.signs[at], plan.ratios[at])
        for total, value in zip(report.sums, sums, strict=True):
            total[at] = value
        if report.side.size:
            report.side[at] = scale * run.scratch.side
        visits += n
        if restarted:
            assert others is not None
            visits += restart(run, setting, others[at])
        elif plan.epochs > 0:
            key = draw_key(setting.seed, number, plan.round, int(plan.outputs[at]))
            visits += ascend(run, setting.draws, key, plan.epochs)
        if report.whole:
            moved, total_now = renewed(run)
            visits += n
        else:
            moved, total_now = run.w[0] - plan.w[at], run.level[0].total - plan.levels[at].total
        report.contribution[at], report.total[at] = scale * moved, scale * total_now
        report.positive[at], report.negative[at] = sides(run)
    return report._replace(visits=visits), duals


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
    for at, output in enumerate(plan.outputs):
        level = plan.levels[at : at + 1].copy()
        level[0].scale /= setting.parts  # q' = K q
        yield DualRun(
            batch=new_batch(BATCH),
            progress=new_record(
                rounds=0, item_gradients=0, draws=0, since=0, due=NEVER, passes=0
            ),
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


def ascend(run: DualRun, draws: str, seed: int, epochs: float) -> int:
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


def restart(run: DualRun, setting: Setting, others: NDArray[np.float64]) -> int:
    """Begin anew where dual variables were lost: at -phi', times the power of 1/2 that suits best.

    The dual that is compared has the contributions of the other partitions besides.
    """
    d, l1, l2, n = setting.mean.size, setting.l1, setting.l2, setting.n
    level = run.level[0]
    start = np.append(run.w[0] - level.total * setting.mean, level.intercept)
    start[:d] = np.vectorize(soft)(start[:d], level.threshold) if l1 else start[:d]
    fill_duals(run, start)
    run.duals[run.model.weights == 0.0] = 0.0
    own = level.scale / n * renewed(run)[0]
    best, factor = -math.inf, 0.0
    for power in (*(0.5**k for k in range(POWERS)), 0.0):
        shrunk = np.maximum(np.abs(others + power * own) - l1, 0.0)
        dual = -conjugate_sum(run.model, run.duals, power) / n - float(shrunk @ shrunk) / (2.0 * l2)
        if dual > best:
            best, factor = dual, power
    run.duals[:] *= factor
    return 2 * run.duals.size


def renewed(run: DualRun) -> tuple[NDArray[np.float64], float]:
    """Return the sums of s_i a_i x_i / scale and of s_i a_i / scale, as the dual variables are."""
    level = run.level.copy()
    level[0].share = 1.0
    out = np.empty(run.w.shape[1])
    total = rebuild(run._replace(level=level), out)
    return out, float(total)
