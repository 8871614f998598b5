"""The state of `SDCA`: a step on each row drawn, and a pass over all rows now and then."""

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.checkpoint import CheckpointError
from tombola.compiling import kernel, new_record, prefetch
from tombola.compiling.records import Record
from tombola.problems.linear import inside
from tombola.problems.rows import prefetch_row
from tombola.samplers.compiled import update_all
from tombola.solvers.certificate import survey
from tombola.solvers.dual_step import Centring, Scratch, rebuild, visit
from tombola.solvers.loop import Batch
from tombola.solvers.run import Limits, Run

__all__ = ["DualRun", "at_best", "present"]

DRIFT = 1e-9  # how far a saved u may be from that of its dual variables, relative to its terms


class _Parts(NamedTuple):
    batch: Batch
    progress: Record  # rounds, item_gradients: rows visited; draws; since: since the last pass;
    # due: the draws at which the next pass is; passes
    model: Any
    tilt: NDArray[np.float64]  # (d + 1,): of a linear term; zeros, but for a part of a problem
    options: Record  # smooth; roundness: 1/c; length, longest: mean and largest |x|^2 of
    # usual rows; mean_squared: |mean|^2; tolerance: of the gap; aim: the same, above 0
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

    derived = ("batch", "model", "tilt", "options", "centring", "scratch")
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
