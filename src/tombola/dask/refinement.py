"""The driver of a fit of a loss with kinks: a model of the objective that is refined near kinks.

A round evaluates the objective along the last step, and returns the slopes of all rows and a few
rows near kinks (`tombola.dask.near_kinks`), in one load of the data. The driver minimises the model
that they make (`tombola.dask.kink_model`): that is the next step, and a bound on the minimum. Where
all rows that it takes across a kink were certain to be drawn, the model is exact, and so is the
step: the last rounds of a fit take the gap from 1e-2 to nothing. Where a round gains nothing and
leaves the gap, with many rows at a kink that were not certain, Newton's method takes over (without
l1, and for at most 4,096 columns).

The number of rounds does not depend on the number of partitions, and no partition keeps anything.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tombola.dask.fit import Counts, Driver, Fit, Output, added
from tombola.dask.kink_model import KinkModel
from tombola.dask.local import draw_key
from tombola.dask.near_kinks import REACHES, Extract, Request, extract
from tombola.dask.overview import Beginning, Setting
from tombola.dask.runners import LocalRunner
from tombola.state import Cell, Record, cell, count, real

__all__ = ["Refinement"]

ROWS = 2**13  # that are drawn in the first round; twice as many where a round gains little
NUMBERS = 2**24  # in the rows of a round, at most
LITTLE = 0.5  # a round that leaves more of the gap than this gains little
FIRMER, SOFTER = 8.0, 8.0  # by how much kappa rises where a step was too long, and falls
SOFT = 1e-3  # of the curvature along the last step: a smaller kappa is left out
FINE = 0.001  # of the gap: how well a model is minimised that leaves out rows
LOWEST = 1e-9  # tolerance
NOTHING, TIED = 1e-6, 0.05  # a round that gains no more, of the gap, with more rows at a kink
COLUMNS = 2**12  # at most, for Newton's method
PATIENCE = 6  # of Newton's steps with the same width
WIDE, NARROWER = 2.0, 0.1  # where the gap is at most WIDE widths, the width becomes narrower
DRIVER = 2**32 - 1  # stands for a partition in the key of the driver's own draws


class KinkTrust(Record):
    """How far steps may go, and how rows are drawn."""

    kappa: float = real("of kappa/2 |w - point|^2", default=0.0)
    firm: float = real("the curvature of the model along the last step")
    slack: float = real("how well it was minimised", default=0.0)
    rows: int = count("to be drawn in the next round", least=1)
    gain: float = real("by the last step", default=0.0)
    width: float = real("that kinks are rounded over", default=0.0)
    tries: int = count("Newton's steps with that width", default=0)


class KinkOutput(Output):
    """One output of the fit."""

    trust: Cell[KinkTrust]

    def settle(self, setting: Setting, losses: NDArray[np.float64]) -> bool:
        """Set the best point, by the losses along the step; return whether all of it was taken.

        A step that is too long is taken as far as is best, and the next ones are kept shorter.
        """
        bounds, trust, d = self.bounds[0], self.trust[0], setting.mean.size
        step = self.point - self.best
        ends = self.best + REACHES[:, None] * step
        ends[0] = self.point
        squares, sizes = (ends[:, :d] ** 2).sum(axis=1), np.abs(ends[:, :d]).sum(axis=1)
        values = losses / setting.n + setting.l2 / 2 * squares + setting.l1 * sizes
        self.measure(values[0])
        at = int(np.argmin(values))
        if step.any():
            trust.gain = max(bounds.primal - values[at], 0.0)
        if values[at] < bounds.primal:
            bounds.primal = values[at]
            self.best[:] = ends[at]
        self.point[:] = self.best
        self.tighten(bounds.dual)
        if not step.any() or trust.width > 0.0:
            return True
        if values[0] <= bounds.primal + trust.slack:
            trust.kappa = trust.kappa / SOFTER if trust.kappa > SOFT * trust.firm else 0.0
            return True
        trust.gain = bounds.unit  # no sign of rows at a kink
        trust.kappa = max(FIRMER * trust.kappa, trust.firm)
        trust.rows = min(2 * trust.rows, setting.n)
        return False

    def learn(self, setting: Setting, model: KinkModel, tol: float, key: int) -> None:
        """Minimise a model: the next point, and a bound on the minimum."""
        bounds, trust, before = self.bounds[0], self.trust[0], self.bounds[0].gap
        if trust.width > 0.0:
            self._untie(model, tol)
            return
        trust.slack = 0.1 * max(tol, LOWEST) * bounds.unit
        if model.sure.all():  # it is the objective itself
            trust.kappa = 0.0
        else:
            trust.slack = max(FINE * before, trust.slack)
        least = model.minimise(float(trust.kappa), float(trust.slack), key)
        self.tighten(max(bounds.dual, least.bound))
        if model.tilted and bounds.gap > LITTLE * before:
            trust.rows = min(2 * trust.rows, setting.n)
            small = setting.mean.size <= COLUMNS and setting.l1 == 0.0
            if small and trust.gain <= NOTHING * before and least.tied > TIED:
                trust.width, trust.tries = before, 0
                self.point[:] = self.best
                return
        self.point[:] = model.point
        if least.fall > 0.0:
            self.point[:] = least.point
            moved = float(((least.point - model.point)[: setting.mean.size] ** 2).sum())
            trust.firm = max(setting.softness, 2.0 * least.fall / moved if moved > 0.0 else 0.0)

    def _untie(self, model: KinkModel, tol: float) -> None:
        """Take a Newton step; narrow the width where the bound is as good as it allows.

        The rows at a kink are there at the best point, and the point is away from it in proportion
        to the width. Where the bound does not become good in a few steps, models go on.
        """
        bounds, trust = self.bounds[0], self.trust[0]
        point, bound = model.untie(float(trust.width))
        self.tighten(max(bounds.dual, bound))
        ratio = 1.0
        trust.tries += 1
        if bounds.gap <= WIDE * trust.width:
            ratio = max(NARROWER, 0.1 * max(tol, LOWEST) * bounds.unit / trust.width)
            trust.tries = 0
        elif trust.tries == PATIENCE:
            ratio, trust.gain = 0.0, bounds.unit
        self.point[:] = self.best + ratio * (point - self.best)
        trust.width *= ratio


class Refinement(Fit):
    """A fit in rounds, of a loss with kinks; `rows` are drawn for an output in the first round."""

    def __init__(
        self,
        setting: Setting,
        beginnings: Sequence[Beginning],
        runner: LocalRunner,
        tol: float,
        rows: int = ROWS,
    ) -> None:
        outputs = [
            KinkOutput.at_zero(
                setting, intercept, trust=cell(KinkTrust(firm=setting.softness, rows=rows))
            )
            for intercept, _ in beginnings
        ]
        super().__init__(setting, outputs, runner, tol, rows, Driver(counts=cell(Counts())))

    def step(self, *, last: bool = False) -> bool:
        """Carry out a round; return whether all outputs are within the tolerance.

        The last round evaluates the present point, and takes no step.
        """
        active, setting = self.active, self.setting
        if not active:
            return True
        outputs = [self.outputs[c] for c in active]
        request = Request(
            round=int(self.counts[0].rounds),
            outputs=np.array(active),
            starts=np.array([it.best for it in outputs]),
            points=np.array([it.point for it in outputs]),
            widths=np.array([it.trust[0].width for it in outputs]),
            rows=np.array([0 if last else int(it.trust[0].rows) for it in outputs]),
            most=float(NUMBERS),
        )
        found: list[Extract] = self.runner.map(extract, setting, request)
        self.count(request, found, last)
        for at, c in enumerate(active):
            output = outputs[at]
            whole = output.settle(setting, added(found, "losses", at))
            if last or not whole or output.relative_gap <= self.tol:
                continue
            near = [rows for part in found if (rows := part.near[at]) is not None]
            model = KinkModel(
                setting, request.points[at], near, added(found, "duals", at),
                added(found, "conjugates", at), added(found, "terms", at), request.round > 0,
            )  # fmt: skip
            key = draw_key(setting.seed, DRIVER, request.round, c)
            output.learn(setting, model, self.tol, key)
        return not self.active
