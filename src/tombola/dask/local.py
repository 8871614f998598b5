"""What one partition does in a round: evaluates a point, then takes steps of dual ascent.

Rows are split over K partitions, each with the dual variables of its rows. In a round each solves

    min_u  K F_k(u) + <anchor_k, u> + strength/2 |u|^2,    F_k(u) = (1/n) sum_i s_i phi(x_i u)

over its own rows, by steps of `tombola.solvers.SDCA`, with q' = K q in place of q: a step adds K
times its change to the partition's copy of u. In the step of `SDCA`, that is the scale over K. K is
1 over the partition's share of the rows, by weight. The anchor makes up for the other partitions:

- in the first round (CoCoA+) it is that of the dual variables as they are, and u as all of them
  together have it. Changes of all partitions add up to an increase of the dual (sigma' = K).
- From then on the dual variables are set to -phi' at the point first, so that u moves away from it
  only as far as the gradient of all rows says (DANE). If partitions are similar, that converges in
  few rounds; a driver can step back where they are not.

Losses must be smooth; `tombola.dask.near_kinks` is for the others.

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

from tombola.dask.overview import Setting
from tombola.dask.partition import Partition
from tombola.samplers.latest import Latest
from tombola.samplers.registry import make_sampler
from tombola.solvers.base import DivergenceError
from tombola.solvers.certified import Bounds
from tombola.solvers.dual.level import Level
from tombola.solvers.dual.run import (
    Centring,
    DualOptions,
    DualProgress,
    DualRun,
    Scratch,
    pass_over,
    rebuild,
    sides,
)
from tombola.solvers.dual.start import fill_duals, fill_products
from tombola.solvers.loop import advance
from tombola.solvers.run import new_batch
from tombola.state import Cell, Floats, Ints, cell

__all__ = ["Plan", "Report", "Sums", "take_part"]

BATCH = 16  # rows drawn at a time, as in `SDCA`
OVERFLOW = "numbers overflow: scale the data"
NEVER = 2**62  # draws until the next pass of the run's own


class Plan(NamedTuple):
    """What the driver sends to every partition for a round; A outputs are not done yet."""

    round: int
    outputs: Ints  # (A,): their numbers
    points: Floats  # (A, width): the solutions to be evaluated
    w: Floats  # (A, d): u, where steps begin: see `tombola.solvers.dual.run`
    levels: Cell[Level]  # (A,)
    signs: Floats  # (A,): the side of the dual variables to be scaled down for the certificate
    ratios: Floats  # (A,): the factor
    epochs: float  # draws, in units of the partition's rows; 0: evaluate only


class Sums(NamedTuple):
    """Sums over rows, at the point of the plan."""

    losses: float  # s_i phi
    conjugates: float  # s_i phi*, with the heavier side scaled down
    terms: float  # their absolute values
    curvature: float  # s_i phi''
    trace: float  # s_i phi'' |x|^2


class Report(NamedTuple):
    """What a partition returns from a round; A outputs.

    `side` is (1/n) sum s_i a_i x_i over the heavier side, before the steps; empty without an
    intercept. `start` is (1/n) sum s_i a_i (x_i, 1), if steps began at slopes; else empty.
    """

    sums: Floats  # (A, 5): `Sums`
    side: Floats  # (A, d)
    start: Floats  # (A, d + 1)
    change: Floats  # (A, d + 1): of the same by the steps
    sides: Floats  # (A, 2): sums of s_i a_i above 0, and of -s_i a_i of the others, after the steps
    restarted: bool  # whether dual variables were lost: `sums` then prove no bound on the minimum
    visits: int  # rows visited, over outputs


def take_part(
    partition: Partition, number: int, duals: Floats | None, setting: Setting, plan: Plan
) -> tuple[Report, Floats]:
    """Carry out a round on a partition; return a report and the new dual variables.

    The old ones have shape (outputs, n), or are None if there are none yet or they were lost.
    """
    n, A, d = partition.X.shape[0], plan.outputs.size, setting.mean.size
    at_slopes, restarted = plan.round > 0 and plan.epochs > 0, duals is None and plan.round > 0
    duals = np.zeros((setting.outputs, n)) if duals is None else np.array(duals)
    report = Report(
        sums=np.zeros((A, 5)),
        side=np.zeros((A if setting.options["fit_intercept"] else 0, d)),
        start=np.zeros((A if at_slopes else 0, d + 1)),
        change=np.zeros((A, d + 1)),
        sides=np.zeros((A, 2)),
        restarted=restarted,
        visits=0,
    )
    if n == 0 or not targets_of(partition, setting)[1].any():
        return report, duals
    visits = 0
    for at, run in enumerate(runs(partition, duals, setting, plan)):
        there, unit = at_point(run, plan.points[at]), run.level[0].scale / setting.n
        report.sums[at] = pass_over(there, plan.signs[at], plan.ratios[at])
        if report.side.size:
            report.side[at] = unit * run.scratch.side
        visits += n
        if at_slopes:
            fill_duals(there, plan.points[at])
            report.start[at] = unit * renewed(run)
            visits += 2 * n
        if plan.epochs > 0:
            key = draw_key(setting.seed, number, plan.round, int(plan.outputs[at]))
            visits += take_steps(run, setting.sampler, key, plan.epochs)
        report.change[at, :d] = unit * (run.w[0] - plan.w[at])
        report.change[at, d] = unit * (run.level[0].total - plan.levels[at].total)
        report.sides[at] = sides(run)
    return report._replace(visits=visits), duals


def at_point(run: DualRun, point: Floats) -> DualRun:
    """Return a run at a given solution, with the same dual variables."""
    level, d = run.level.copy(), run.w.shape[1]
    level[0].total = level[0].threshold = 0.0
    level[0].intercept = float(point[d]) if point.size > d else 0.0
    return run._replace(w=point[None, :d].copy(), level=level)


def runs(partition: Partition, duals: Floats, setting: Setting, plan: Plan) -> Iterator[DualRun]:
    """Yield the run of each output of a plan, on the rows of a partition; duals change in place."""
    first, models = models_of(partition, setting, plan.outputs)
    n, d = first.n, first.d
    centring = centring_of(first, setting)
    scratch = Scratch(np.zeros(1), np.zeros(1), np.zeros(d), np.zeros(n))
    unused = np.zeros((1, d))
    # 1/K, where all partitions are of the same size
    share = float(first.model.weights.sum()) / setting.n
    for at, (output, model) in enumerate(zip(plan.outputs, models, strict=True)):
        level = plan.levels[at : at + 1].copy()
        level[0].scale *= share  # q' = K q
        yield DualRun(
            batch=new_batch(BATCH),
            progress=cell(DualProgress(due=NEVER)),
            model=model,
            tilt=np.zeros(d + 1),
            options=cell(
                DualOptions(
                    smooth=1,
                    roundness=1.0 / first.curvature,
                    length=setting.length,
                    longest=setting.longest,
                    mean_squared=float(setting.mean @ setting.mean),
                    tolerance=0.0,
                    aim=0.0,
                )
            ),
            centring=centring,
            w=plan.w[at : at + 1].copy(),
            centre=unused,
            previous=unused,
            duals=duals[output],
            level=level,
            bounds=cell(Bounds(primal=math.inf, gap=math.inf)),
            best=unused,
            scratch=scratch,
        )


def models_of(partition: Partition, setting: Setting, outputs: Ints) -> tuple[Any, Iterator[Any]]:
    """Return the problem of the first output on the rows of a partition, and the models of all."""
    targets, weights = targets_of(partition, setting)
    first = setting.kind(
        partition.X, targets(int(outputs[0])), sample_weight=weights, normalise=False,
        **setting.options,
    )  # fmt: skip
    models = (first.model._replace(targets=signed(first, targets(int(c)))) for c in outputs)
    return first, models


def centring_of(problem: Any, setting: Setting) -> Centring:
    """Return how the rows of a problem lie around the mean of all rows."""
    mean, products = setting.mean, np.zeros(problem.n)
    if mean.any():
        fill_products(problem.model, mean, products)
    plain = np.maximum(problem.model.norms**2 - problem.fit_intercept, 0.0)
    lengths = np.maximum(plain - 2.0 * products + float(mean @ mean), 0.0)
    return Centring(mean, products, lengths)


def targets_of(partition: Partition, setting: Setting) -> tuple[Any, Floats]:
    """Return what gives the targets of an output, and the weights of all rows."""
    y, weights = np.asarray(partition.y), partition.weights
    if y.ndim == 2:
        return lambda output: y[:, output] > 0, setting.factor * weights
    if setting.classes is None:
        return lambda output: y, setting.factor * weights
    numbers = np.searchsorted(setting.classes, y)
    if setting.class_weights is not None:
        weights = weights * setting.class_weights[numbers]
    one = len(setting.classes) == 2
    return lambda output: numbers == (1 if one else output), setting.factor * weights


def signed(problem: Any, targets: NDArray[Any]) -> Floats:
    """Return targets as the problem keeps them."""
    return np.asarray(problem._checked_targets(targets))


def draw_key(seed: int, partition: int, round_number: int, output: int) -> int:
    """Return the seed of the draws of an output in a round, in a partition."""
    return seed | partition << 32 | round_number << 64 | output << 96


def take_steps(run: DualRun, sampler: str, seed: int, epochs: float) -> int:
    """Take steps on rows drawn; return how many at most.

    "auto" draws as `SDCA` does, half of the rows by the residuals of the last pass; "shuffle" draws
    all in shuffled order.
    """
    n, weights = run.duals.size, run.model.weights
    if not np.isfinite(run.scratch.residuals).all():
        raise DivergenceError(OVERFLOW)

    def by_residuals() -> Latest:
        among = None if weights.all() else np.flatnonzero(weights)
        latest = Latest(n, among=among, seed=seed)
        latest.update_all(run.scratch.residuals)
        return latest

    draws: Any = make_sampler(sampler, n, seed, own=by_residuals)
    rounds = math.ceil(epochs * n / BATCH)
    with np.errstate(over="ignore", invalid="ignore"):
        wrong = advance(run, draws.state, draws.tally, n, rounds)
    if wrong >= 0 or not run.finite():
        raise DivergenceError(OVERFLOW)
    return rounds * BATCH


def renewed(run: DualRun) -> Floats:
    """Return the sums of s_i a_i x_i / scale, and of s_i a_i / scale, as the dual variables are."""
    level = run.level.copy()
    level[0].share = 1.0
    out = np.empty(run.w.shape[1] + 1)
    out[-1] = rebuild(run._replace(level=level), out[:-1])
    return out
