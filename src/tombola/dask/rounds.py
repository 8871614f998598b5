"""The driver of CoCoA+: sends plans, adds up reports, and knows how far the optimum can be.

The driver has no rows. It keeps u and its companions for each output (`tombola.solvers.dual_level`),
and the contribution of each partition to u. A round evaluates the present point at all rows and
takes steps from it, in one load of the data, so a certificate is that of the point before the steps.

Where the dual variables of a partition are lost, its contribution is taken out and replaced by that
of new ones. Bounds on the minimum that were proved before stay proved.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import new_record
from tombola.compiling.records import Record
from tombola.dask.local import Plan, Report
from tombola.dask.setting import Beginning, Setting
from tombola.solvers.certificate import FIRM, REFRESH, ROUNDING, SLOW, heavier_side
from tombola.solvers.dual_level import (
    move_centre,
    new_level,
    penalties,
    pull_for,
    set_strength,
    write_solution,
)

__all__ = ["Ascent", "Progress", "Runner"]


class Runner(Protocol):
    """What carries out rounds on partitions, and keeps their dual variables between them."""

    def run(
        self, setting: Setting, plan: Plan, others: Callable[[int], NDArray[np.float64]]
    ) -> list[Report]:
        """Carry out a round on all partitions; return their reports, in order."""
        ...


class Progress(NamedTuple):
    """How far a fit is.

    Attributes
    ----------
    rounds : int
        Rounds of steps.
    gap : float
        The largest relative duality gap of an output.
    loads : int
        How often all rows were loaded.
    passes : float
        Rows visited, in units of rows times outputs.
    bytes : int
        What was sent to partitions and returned.
    restarts : int
        How often dual variables of a partition were lost.
    """

    rounds: int
    gap: float
    loads: int
    passes: float
    bytes: int
    restarts: int


class Output:
    """The present point of one output, and bounds on its minimum."""

    def __init__(self, setting: Setting, beginning: Beginning) -> None:
        d, n = setting.mean.size, setting.n
        self.w, self.centre, self.previous = np.zeros((3, d))
        self.level = new_level(setting.l1, setting.l2, n, beginning.intercept)
        self.bounds = new_record(primal=math.inf, dual=0.0, gap=math.inf, unit=math.nan)
        self.best = np.zeros(setting.width)
        self._set_levels(setting, beginning.curvature, beginning.curvature * setting.length)

    @property
    def relative_gap(self) -> float:
        """The duality gap over the objective at w = 0 with the best intercept."""
        bounds = self.bounds[0]
        if math.isnan(bounds.unit):
            return math.inf
        return float(bounds.gap / bounds.unit) if bounds.unit > 0.0 else 0.0

    def bound(self, setting: Setting, sums: Any, side: Any, ratio: float, proves: bool) -> None:
        """Tighten the bounds by sums over all rows at the present point."""
        n, bounds = setting.n, self.bounds[0]
        side = np.zeros_like(self.w) if side is None else side * (n / self.level[0].scale)
        penalty, dual_penalty = penalties(
            self.level, setting.mean, self.w, self.centre, side, ratio, setting.l1, setting.l2
        )
        primal = sums.losses / n + penalty
        if not math.isfinite(primal):
            raise ArithmeticError("the objective is not finite: scale the data")
        if math.isnan(bounds.unit):  # the first point is w = 0 with the best intercept
            bounds.unit = primal
        if primal < bounds.primal:
            bounds.primal = primal
            write_solution(self.level, setting.mean, self.w, self.best)
        if proves:
            allowance = ROUNDING * (sums.terms / n + dual_penalty)
            dual = -sums.conjugates / n - dual_penalty - allowance
            bounds.dual = max(bounds.dual, dual)
        bounds.dual = min(bounds.dual, bounds.primal)
        bounds.gap = bounds.primal - bounds.dual

    def shift(self, setting: Setting, contribution: Any, total: float) -> None:
        """Add a change of (1/n) sum s_i a_i x_i and (1/n) sum s_i a_i to the present point."""
        level, mean = self.level[0], setting.mean
        strength = level.scale / setting.n
        self.w += contribution / strength
        level.total += total / strength
        if setting.options["fit_intercept"]:
            pull = level.pull + float(mean @ mean)
            level.intercept += (pull * total - float(mean @ contribution)) / strength

    def turn(self, setting: Setting, sums: Any, before: float) -> None:
        """Between two rounds: set strength and pull, move the intercept and the centre."""
        n, level = setting.n, self.level[0]
        self._set_levels(setting, sums.curvature / n, sums.trace / n)
        level.intercept += level.pull * level.total
        slow = self.bounds[0].gap > SLOW * before
        move_centre(self.level, setting.mean, self.w, self.centre, self.previous, slow)

    def _set_levels(self, setting: Setting, curvature: float, trace: float) -> None:
        n, mean = setting.n, setting.mean
        firm = strength_for(setting, trace)
        set_strength(
            self.level, mean, self.w, self.centre, max(setting.l2, firm), n, setting.l1, setting.l2
        )
        if setting.options["fit_intercept"]:
            self.level[0].pull = pull_for(self.level, setting.length, n, curvature)


def strength_for(setting: Setting, trace: float) -> float:
    """Return the least strength, lambda + kappa."""
    return FIRM * KFACTOR(setting.parts) * trace / setting.n

KFACTOR = lambda K: 1.0


class Ascent:
    """A fit in rounds.

    Parameters
    ----------
    setting : Setting
    beginnings : sequence of Beginning
    partitions : int
    runner : Runner
    tol : float
        Of the relative duality gap.
    epochs : float
        Local epochs of a round.
    """

    def __init__(
        self,
        setting: Setting,
        beginnings: Sequence[Beginning],
        partitions: int,
        runner: Runner,
        tol: float,
        epochs: float,
    ) -> None:
        self.setting, self.runner, self.tol, self.epochs = setting, runner, tol, epochs
        self.outputs = [Output(setting, beginning) for beginning in beginnings]
        C, d = len(self.outputs), setting.mean.size
        self.contributions = np.zeros((partitions, C, d))
        self.totals, self.positive, self.negative = np.zeros((3, partitions, C))
        self.counts = new_record(rounds=0, loads=0, visits=0, bytes=0, restarts=0)

    @property
    def progress(self) -> Progress:
        """How far it is."""
        counts = self.counts[0]
        return Progress(
            rounds=int(counts.rounds),
            gap=max(output.relative_gap for output in self.outputs),
            loads=int(counts.loads),
            passes=counts.visits / (self.setting.n * len(self.outputs)),
            bytes=int(counts.bytes),
            restarts=int(counts.restarts),
        )

    @property
    def active(self) -> list[int]:
        """The outputs that are not within the tolerance."""
        return [c for c, it in enumerate(self.outputs) if not it.relative_gap <= self.tol]

    def step(self, *, last: bool = False) -> bool:
        """Carry out a round; return whether all outputs are within the tolerance.

        The last round evaluates the present point, and takes no steps.
        """
        active, setting = self.active, self.setting
        plan = self._plan(active, 0.0 if last else self.epochs)
        own = self.contributions.sum(axis=0)
        reports = self.runner.run(
            setting, plan, lambda k: own[active] - self.contributions[k, active]
        )
        counts = self.counts[0]
        counts.loads += 1
        counts.rounds += not last
        counts.visits += sum(report.visits for report in reports)
        counts.bytes += sum(plan.nbytes + report.nbytes for report in reports)
        counts.restarts += sum(report.restarted for report in reports)
        proves = not any(report.restarted for report in reports)
        sums = type(reports[0].sums)(
            *(sum(column) for column in zip(*(report.sums for report in reports), strict=True))
        )
        for at, c in enumerate(active):
            output, before = self.outputs[c], self.outputs[c].bounds[0].gap
            own_sums = type(sums)(*(float(column[at]) for column in sums))
            side = None
            if reports[0].side.size:
                side = np.sum([report.side[at] for report in reports], axis=0)
            output.bound(setting, own_sums, side, float(plan.ratios[at]), proves)
            if last or output.relative_gap <= self.tol:
                continue
            self._absorb(c, at, reports)
            output.turn(setting, own_sums, before)
        return not self.active

    def _plan(self, active: list[int], epochs: float) -> Plan:
        signs, ratios = np.zeros(len(active)), np.ones(len(active))
        if self.setting.options["fit_intercept"]:
            for at, c in enumerate(active):
                signs[at], ratios[at] = heavier_side(
                    self.positive[:, c].sum(), self.negative[:, c].sum()
                )
        rounds = int(self.counts[0].rounds)
        return Plan(
            round=rounds,
            outputs=np.array(active),
            w=np.array([self.outputs[c].w for c in active]),
            levels=np.concatenate([self.outputs[c].level for c in active]),
            signs=signs,
            ratios=ratios,
            epochs=epochs,
            renew=rounds % REFRESH == REFRESH - 1,
        )

    def _absorb(self, c: int, at: int, reports: list[Report]) -> None:
        """Add what partitions changed to the point of an output."""
        before, total = self.contributions[:, c].sum(axis=0), self.totals[:, c].sum()
        for k, report in enumerate(reports):
            if report.whole:
                self.contributions[k, c] = self.totals[k, c] = 0.0
            self.contributions[k, c] += report.contribution[at]
            self.totals[k, c] += report.total[at]
            self.positive[k, c] = report.positive[at]
            self.negative[k, c] = report.negative[at]
        self.outputs[c].shift(
            self.setting,
            self.contributions[:, c].sum(axis=0) - before,
            float(self.totals[:, c].sum() - total),
        )
