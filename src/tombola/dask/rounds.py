"""The driver of a fit of a smooth loss: sends plans, adds up reports, knows how far the optimum is.

The driver has no rows. It keeps u and its companions for each output, as `SDCA` does (see
`tombola.solvers.dual.level`), and the contribution of each partition to u. A round evaluates the
present point at all rows and takes steps from it, in one load of the data, so a certificate is that
of the point before the steps.

Where the dual variables of a partition are lost there is no certificate in that round, and the next
one begins at slopes, as always. Bounds on the minimum that were proved before stay proved.
"""

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tombola.dask.fit import Counts, Driver, Fit, Output, added
from tombola.dask.local import Plan, Report, Sums
from tombola.dask.overview import Beginning, Setting, lower_bound
from tombola.dask.runners import LocalRunner
from tombola.solvers.dual.level import (
    Level,
    intercept_at,
    new_level,
    pull_for,
    set_strength,
    write_solution,
)
from tombola.solvers.dual.run import FIRM, heavier_side
from tombola.state import Cell, Floats, Record, array, cell, flag, real

__all__ = ["Ascent"]

LEAST = 0.25  # the strength is this times K times that of one machine, at least
FIRMER, SOFTER = 8.0, 2.0  # by how much it rises where a point is worse than one before, and falls
SLACK = 1e-9  # of the objective at w = 0: what a point may be worse


class Trust(Record):
    """How far steps may go."""

    firm: float = real("the factor of the strength", 1.0)
    back: bool = flag(
        "whether this round begins at `best` again, since the point after it was worse",
        default=False,
    )


class SmoothOutput(Output):
    """The present point of one output, and where steps begin: see `tombola.solvers.dual.level`."""

    slopes: Floats = array("what the slopes at `best` contribute, of shape (d + 1,)")
    w: Floats = array("u")
    centre: Floats = array("y")
    previous: Floats = array("w before the last round")
    level: Cell[Level]
    trust: Cell[Trust]

    @classmethod
    def begun(cls, setting: Setting, beginning: Beginning) -> Self:
        """Return an output at w = 0."""
        d, intercept = setting.mean.size, beginning.intercept
        output = cls.at_zero(
            setting,
            intercept,
            slopes=np.zeros(d + 1),
            **dict(zip(("w", "centre", "previous"), np.zeros((3, d)), strict=True)),
            level=new_level(setting.l1, setting.softness, setting.n, intercept),
            trust=cell(Trust(firm=least_firm(setting))),
        )
        output._strengthen(setting, beginning.curvature, beginning.curvature * setting.length)
        return output

    def bound(self, setting: Setting, sums: Sums, own: Any, side: Any, ratio: float) -> bool:
        """Tighten the bounds by sums over all rows; return whether the point is not worse.

        `own` is (1/n) sum_i s_i a_i x_i, and `side` the same over the heavier side; None where
        dual variables were lost.
        """
        n, bounds, d, l1, l2 = setting.n, self.bounds[0], setting.mean.size, setting.l1, setting.l2
        w = self.point[:d]
        primal = float(sums.losses / n + l2 / 2 * (w @ w) + l1 * np.abs(w).sum())
        self.measure(primal)
        fine = primal <= bounds.primal + SLACK * bounds.unit
        if primal < bounds.primal:
            bounds.primal = primal
            self.best[:] = self.point
        if own is not None:
            balanced = own if side is None else own - (1.0 - ratio) * side
            dual = lower_bound(setting, balanced, sums.conjugates, sums.terms)
            bounds.dual = max(bounds.dual, dual)
        self.tighten(bounds.dual)
        return bool(fine)

    def shift(self, setting: Setting, change: NDArray[np.float64]) -> None:
        """Add a change of (1/n) sum s_i a_i x_i and (1/n) sum s_i a_i to u; set the point."""
        level, mean = self.level[0], setting.mean
        strength = level.scale / setting.n
        self.w[:] += change[:-1] / strength
        level.total += change[-1] / strength
        if setting.options["fit_intercept"]:
            pull = level.pull + float(mean @ mean)
            level.intercept += (pull * change[-1] - float(mean @ change[:-1])) / strength
        write_solution(self.level, mean, self.w, self.point)

    def anchor(self, setting: Setting, sums: Sums, own: NDArray[np.float64]) -> None:
        """Before a round from slopes: begin at where the contributions `own` have u.

        The centre is at the point, and beyond it where points before moved the same way.
        """
        n, d, mean, level = setting.n, setting.mean.size, setting.mean, self.level[0]
        w = self.point[:d]
        self._strengthen(setting, sums.curvature / n, sums.trace / n)
        root = math.sqrt(level.share)
        beta = 0.0 if self.trust[0].back else (1.0 - root) / (1.0 + root)
        self.centre[:] = w + beta * (w - self.previous)
        self.previous[:] = w
        strength = level.scale / n
        self.w[:] = own[:-1] / strength + (1.0 - level.share) * self.centre
        level.total = own[-1] / strength
        if setting.options["fit_intercept"]:
            level.intercept = intercept_at(self.level, mean, self.w, self.point)
            level.intercept += level.pull * level.total

    def _strengthen(self, setting: Setting, curvature: float, trace: float) -> None:
        """Set the strength and the pull for the curvature of the losses."""
        n, l1, l2 = setting.n, setting.l1, setting.softness
        strength = max(l2, FIRM * float(self.trust[0].firm) * trace / n)
        set_strength(self.level, setting.mean, self.w, self.centre, strength, n, l1, l2)
        if setting.options["fit_intercept"]:
            self.level[0].pull = pull_for(self.level, setting.length, n, curvature)


def least_firm(setting: Setting) -> float:
    """Return the least factor of the strength."""
    return max(1.0, LEAST * setting.parts)


class AscentDriver(Driver):
    """What the driver keeps of each partition and output."""

    contributions: Floats = array("to u: (1/n) sum_i s_i a_i x_i and (1/n) sum_i s_i a_i")
    positive: Floats = array("the sum of the s_i a_i above 0")
    negative: Floats = array("the sum of those below 0")


class Ascent(Fit):
    """A fit in rounds, of a smooth loss, with a number of local epochs in each."""

    def __init__(
        self,
        setting: Setting,
        beginnings: Sequence[Beginning],
        partitions: int,
        runner: LocalRunner,
        tol: float,
        epochs: float,
    ) -> None:
        outputs = [SmoothOutput.begun(setting, beginning) for beginning in beginnings]
        C, d = len(outputs), setting.mean.size
        positive, negative = np.zeros((2, partitions, C))
        driver = AscentDriver(
            counts=cell(Counts()),
            contributions=np.zeros((partitions, C, d + 1)),
            positive=positive,
            negative=negative,
        )
        super().__init__(setting, outputs, runner, tol, epochs, driver)

    def step(self, *, last: bool = False) -> bool:
        """Carry out a round; return whether all outputs are within the tolerance.

        The last round evaluates the present point, and takes no steps.
        """
        active, setting = self.active, self.setting
        if not active:
            return True
        plan = self._plan(active, 0.0 if last else self.pace)
        own = self.driver.contributions.sum(axis=0)
        reports = self.runner.run(setting, plan)
        self.count(plan, reports, last)
        self.counts[0].restarts += sum(report.restarted for report in reports)
        lost = any(report.restarted for report in reports)
        for at, c in enumerate(active):
            output = self.outputs[c]
            sums = Sums(*added(reports, "sums", at).tolist())
            side = added(reports, "side", at) if reports[0].side.size else None
            fine = output.bound(
                setting, sums, None if lost else own[c, :-1], side, float(plan.ratios[at])
            )
            if last or output.relative_gap <= self.tol:
                continue
            change = self._absorb(c, at, reports)
            self._go_on(output, sums, change, self.driver.contributions[:, c].sum(axis=0), fine)
        return not self.active

    def _go_on(
        self,
        output: SmoothOutput,
        sums: Sums,
        change: NDArray[np.float64],
        own: NDArray[np.float64],
        fine: bool,
    ) -> None:
        """Set where the next round of an output begins: after the steps, or at the best point.

        A point that is worse than the best one was too far away: the strength rises, and the steps
        are taken again from the best point, whose slopes are known. Else it falls.
        """
        setting, trust = self.setting, output.trust[0]
        if not (fine or trust.back):
            trust.firm *= FIRMER
            trust.back = True
            output.point[:] = output.best
            output.anchor(setting, sums, output.slopes)
            return
        if not trust.back:
            output.slopes[:] = own - change
            trust.firm = max(trust.firm / SOFTER, least_firm(setting))
        trust.back = False
        output.shift(setting, change)
        output.anchor(setting, sums, own)

    def _plan(self, active: list[int], epochs: float) -> Plan:
        signs, ratios = np.zeros(len(active)), np.ones(len(active))
        if self.setting.options["fit_intercept"]:
            for at, c in enumerate(active):
                signs[at], ratios[at] = heavier_side(
                    self.driver.positive[:, c].sum(), self.driver.negative[:, c].sum(), 0.0
                )
        levels: Any = np.concatenate([self.outputs[c].level for c in active])
        return Plan(
            round=int(self.counts[0].rounds),
            outputs=np.array(active),
            points=np.array([self.outputs[c].point for c in active]),
            w=np.array([self.outputs[c].w for c in active]),
            levels=levels,
            signs=signs,
            ratios=ratios,
            epochs=epochs,
        )

    def _absorb(self, c: int, at: int, reports: list[Report]) -> NDArray[np.float64]:
        """Write what partitions contribute to an output; return the sum of their changes."""
        for k, report in enumerate(reports):
            if report.start.size:
                self.driver.contributions[k, c] = report.start[at]
            self.driver.contributions[k, c] += report.change[at]
            self.driver.positive[k, c], self.driver.negative[k, c] = report.sides[at]
        return np.asarray(added(reports, "change", at))
