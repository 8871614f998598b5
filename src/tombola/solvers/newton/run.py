"""A run of `Newton`: a pass over all rows, then the minimum over the rows drawn.

The pass at w has, with slopes phi'_i and curvatures phi''_i at the inner products,

    P(w),    its gradient g,    and the dual point a_i = -phi'_i

which bounds the minimum from below. The sample then stands for all rows
(`tombola.solvers.newton.sample`). A sample of n rows is all rows, once each: the next w is then the
minimum of P.
"""

import math
from typing import Any, ClassVar

import numpy as np

from tombola.problems.rows import blocks
from tombola.solvers.certified import CertifiedRun
from tombola.solvers.gap import ROUNDING
from tombola.solvers.newton.sample import Sample, bowl_over
from tombola.solvers.run import Progress
from tombola.state import Cell, Floats, State, derived, integer

__all__ = ["NewtonProgress", "NewtonRun", "Survey"]

TWICE = 2  # after this many steps in succession that were cut, all rows take the place of samples
BACK, CUTS = 0.25, 30  # a step that raises P is cut to this share, at most this many times
MEMORY = 0.5  # of the scores at the point before a cut
SAME = 1e-12  # values this close, relatively, are equal up to rounding
WORTH = 2**15  # entries of all rows and classes, from which on an eighth of all leads, too
NESTED = 16  # rows in a sample for each column, at least, for which its first eighth leads the way
FAR = 10.0  # times the tolerance: a lower bound further from P than that is not looked for
CHUNK = 2**14  # rows at a time, without their entries


class NewtonProgress(Progress):
    """How far a run is; item gradients are rows visited."""

    passes: int = integer("passes over all rows", 0, "item_gradients", default=0)
    direct: int = integer("1 if conjugate gradients took too many turns", 0, 1, default=0)
    ahead: int = integer("1 if w is beyond the last pass, or a start that no pass has seen", 0, 1)
    cut: int = integer(
        "how many steps in succession were cut, TWICE from there on", 0, TWICE, default=0
    )


class Survey(State):
    """What a pass saw of each row, (n,) each, and the gradient."""

    slopes: Floats = derived("s_i phi'; with several classes, its norm")
    curves: Floats = derived("s_i phi''; with several classes, its trace")
    reaches: Floats = derived("sqrt(|x_i|^2 + mean |x|^2), the same for all passes")
    scores: Floats = derived("how much the row matters")
    gradient: Floats = derived("of P, in the shape of a solution")


class NewtonRun(CertifiedRun):
    """A pass over all rows, then the minimum over the rows drawn."""

    compiled: ClassVar[bool] = False

    progress: Cell[NewtonProgress]
    survey: Survey = derived("what the last pass saw, written before each draw")

    def step(self) -> Any:
        """Move w to the minimum over the rows drawn; return -1: no loss is bad."""
        progress, batch = self.progress[0], self.batch
        progress.rounds += 1
        progress.ahead = 1
        batch.losses[:] = self.survey.scores[batch.items]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if progress.cut == TWICE:
                self.step_over_all()
            elif batch.items.size == 0:
                self.minimise_all()
            else:
                self.minimise_sample()
        return -1

    def look(self) -> Any:
        """Look at all rows; at w = 0 without a pass, since all products are the intercept."""
        progress = self.progress[0]
        if self.ended():
            return False
        with np.errstate(over="ignore", invalid="ignore"):
            if progress.passes > 0 or progress.ahead > 0:
                self.settle()
            elif self.batch.items.size > 0:
                self.glance()
        return self.batch.items.size > 0  # else the sampler has nothing to draw

    def seen(self) -> Floats:
        """Return how much each row matters, as of the last pass."""
        return self.survey.scores

    # --- the pass ---------------------------------------------------------------------------------

    def glance(self) -> None:
        """Write slopes and curvatures at w = 0, where all inner products are the intercept."""
        model, w, n = self.model, self.point, self.survey.slopes.size
        constant = w[..., -1] if model.settings[0].intercept else np.zeros(w.shape[:-1])
        for begin in range(0, n, CHUNK):
            part = slice(begin, min(begin + CHUNK, n))
            z = np.broadcast_to(constant, (part.stop - begin, *constant.shape))
            _, slopes, curves = model.derivatives(part, z)
            self.note(part, (slopes.T * model.weights[part]).T, curves)
        self.fill_scores(0.0)

    def note(self, part: slice, slopes: Floats, curves: Floats) -> None:
        """Keep slopes, which have their weights, and curvatures: for several classes, their size.

        That is the norm of the slopes, and the trace of diag(p) - p p'.
        """
        if slopes.ndim == 2:
            slopes, curves = np.sqrt((slopes**2).sum(axis=1)), 1.0 - (curves**2).sum(axis=1)
        self.survey.slopes[part] = slopes
        np.multiply(self.model.weights[part], curves, out=self.survey.curves[part])

    @property
    def point(self) -> Floats:
        """W, a vector for one output."""
        return self.w[0] if self.w.shape[0] == 1 else self.w

    def settle(self) -> None:
        """Pass over all rows at w; if P has risen, go back towards the best point until it falls.

        Rows that mattered at the points left behind are drawn in the next sample, too: without them
        it would lead there again.
        """
        progress, bounds, w, best = self.progress[0], self.bounds[0], self.w, self.best
        for cuts in range(CUTS):
            primal, dual = self.pass_over(FAR * self.options[0].tolerance or math.inf)
            progress.passes += 1
            if math.isfinite(primal) and self.batch.items.size > 0:
                self.fill_scores(MEMORY if cuts > 0 else 0.0)
            if dual > bounds.dual:  # not if it is not a number
                bounds.dual = dual
            if primal <= bounds.primal:
                best[:] = w
                bounds.primal = primal
            if primal <= bounds.primal * (1.0 + SAME):
                break
            w[:] = best + BACK * (w - best)
        progress.ahead = 0
        if progress.cut < TWICE:
            progress.cut = progress.cut + 1 if cuts > 0 else 0
        bounds.dual = min(bounds.dual, bounds.primal)
        bounds.gap = bounds.primal - bounds.dual

    def pass_over(self, reach: float = math.inf) -> tuple[float, float]:
        """Pass over all rows at w; return P and a lower bound; write gradient, slopes, curvatures.

        The bound is -inf if it would be further than `reach` from P.
        """
        model, survey, w = self.model, self.survey, self.point
        intercept, l2 = model.settings[0].intercept, model.settings[0].l2
        n, d = survey.slopes.size, w.shape[-1] - intercept
        loss = conjugate = above = 0.0  # the last: of those with a_i > 0
        total, sums = np.zeros((*w.shape[:-1], d)), np.zeros(w.shape[:-1])
        for where, matrix in blocks(model.rows):
            weights = model.weights[where]
            z = matrix @ w[..., :d].T
            if intercept:
                z += w[..., d]
            if not weights.all():
                z[weights == 0.0] = 0.0  # it may have overflowed
            losses, slopes, curves = model.derivatives(where, z)
            losses, slopes = weights * losses, (slopes.T * weights).T
            self.note(where, slopes, curves)
            conjugates = product_of(slopes, z) - losses
            loss += float(losses.sum())
            conjugate += float(conjugates.sum())  # phi(z) + phi*(-a) = -a z
            if intercept and slopes.ndim == 1:
                above += float(conjugates[slopes < 0.0].sum())
            total += slopes.T @ matrix
            sums += slopes.sum(axis=0)
        self.progress[0].item_gradients += n
        survey.gradient[..., :d] = total / n + l2 * w[..., :d]
        if intercept:
            survey.gradient[..., d] = sums / n
        primal = loss / n + 0.5 * l2 * float(np.vdot(w[..., :d], w[..., :d]))
        if l2 == 0.0:  # what Newton's step would gain, twice, is an estimate of the distance
            gain = self.all_rows().gain(w)
            return primal, primal - gain if gain < reach else -math.inf
        square = float(np.vdot(survey.gradient[..., :d], survey.gradient[..., :d]))
        if not square <= 2.0 * l2 * reach:  # the distance, without an intercept
            return primal, -math.inf
        total, loss, conjugate = total / n, loss / n, conjugate / n
        if w.ndim == 2:
            return primal, self.bound_of_classes(total, loss, conjugate, sums / n)
        return primal, self.bound(total, loss, conjugate, above / n, survey.slopes)

    def bound_of_classes(self, total: Floats, loss: float, conjugate: float, sums: Floats) -> float:
        """Return a lower bound for softmax, from means as in `bound`, and those of the slopes.

        With intercepts, predictions p' have the means of the labels: p' = (1 - t) p + c with the
        least t for which there is such a c >= 0. By convexity, phi* is at most (1 - t) times that
        of p and t times that of c / t.
        """
        model, n = self.model, self.survey.slopes.size
        v = total
        if model.settings[0].intercept:
            labels = np.zeros((n, sums.size))
            labels[np.arange(n), model.targets.astype(np.int64)] = model.weights
            mean = float(model.weights.mean())
            wanted = labels.mean(axis=0)
            found = wanted + sums
            rising = found > wanted
            kept = float((wanted[rising] / found[rising]).min(initial=1.0))
            rest = np.maximum(wanted - kept * found, 0.0)
            moved = mean - kept * mean
            by_label = np.zeros_like(total)
            for where, matrix in blocks(model.rows):
                by_label += labels[where].T @ matrix
            by_label /= n
            v = kept * total + np.outer(rest / mean, by_label.sum(axis=0))
            v -= (1.0 - kept) * by_label
            shares = rest[rest > 0.0] / rest.sum()
            conjugate = kept * conjugate + moved * float((shares * np.log(shares)).sum())
        penalty = 0.5 * float(np.vdot(v, v)) / model.settings[0].l2
        return -conjugate - penalty - ROUNDING * (abs(conjugate) + loss + penalty)

    def bound(
        self, total: Floats, loss: float, conjugate: float, above: float, slopes: Floats
    ) -> float:
        """Return a lower bound, from the means of s_i phi' x_i, of losses and of conjugates.

        With an intercept, a dual point has sum_i s_i a_i = 0: the heavier sign is scaled down by a
        ratio r, which changes phi* by at most a factor of r, as phi*(0) = 0. `above` is the mean
        of the conjugates of those with a_i > 0.
        """
        v = total
        if self.model.settings[0].intercept:
            positive, part = 0.0, np.zeros_like(total)  # of those above 0
            for where, matrix in blocks(self.model.rows):
                falling = np.minimum(slopes[where], 0.0)
                positive -= float(falling.sum())
                part += falling @ matrix
            negative = float(slopes.sum()) + positive
            up = negative / positive if positive > negative else 1.0
            down = positive / negative if negative > positive else 1.0
            part /= slopes.size
            v = up * part + down * (total - part)
            conjugate = up * above + down * (conjugate - above)
        penalty = 0.5 * float(v @ v) / self.model.settings[0].l2
        return -conjugate - penalty - ROUNDING * (abs(conjugate) + loss + penalty)

    def fill_scores(self, memory: float) -> None:
        """Write how much each row matters: half by its curvature, half by its slope.

        The sample's Hessian has the least noise with p ~ phi'' |x|^2, its gradient with |phi'| |x|.
        A mean length is added to that of each row, so that short rows are drawn too. The earlier
        scores count with a factor `memory`.
        """
        survey, scores = self.survey, self.survey.scores
        slopes, curves, reaches = survey.slopes, survey.curves, survey.reaches
        chunks = [slice(begin, begin + CHUNK) for begin in range(0, scores.size, CHUNK)]
        by_curve = sum(float(curves[part] @ reaches[part] ** 2) for part in chunks)
        by_slope = sum(float(np.abs(slopes[part]) @ reaches[part]) for part in chunks)
        curve_unit = 1.0 / by_curve if by_curve > 0.0 else 0.0
        slope_unit = 1.0 / by_slope if by_slope > 0.0 else 0.0
        for part in chunks:
            reach = reaches[part]
            score = curves[part] * (curve_unit * reach) + slope_unit * np.abs(slopes[part])
            score *= reach
            scores[part] = score + memory * scores[part] if memory > 0.0 else score

    # --- the next point ---------------------------------------------------------------------------

    def all_rows(self) -> Sample:
        """Return all rows as a sample."""
        model = self.model
        factors, direct = model.weights / model.weights.size, bool(self.progress[0].direct)
        return Sample(model.rows, model, slice(None), factors, direct=direct)

    def minimise_all(self) -> None:
        """Move w to the minimum over all rows; if that is within the tolerance, say so."""
        sample, tolerance, bounds = self.all_rows(), self.options[0].tolerance, self.bounds[0]
        if sample.factors.size * self.w.size >= WORTH:
            self.lead(sample)
        reached = sample.descend(self.point, tolerance=tolerance)
        self.progress[0].direct = int(sample.direct)
        self.point[:] = reached.w
        self.progress[0].item_gradients += sample.visits
        if reached.duals is None or sample.l2 == 0.0 or not reached.value <= bounds.primal:
            return
        bounds.dual = max(bounds.dual, min(self.proved(sample, reached.duals), reached.value))
        if reached.value - bounds.dual <= tolerance:
            self.best[:] = self.w
            bounds.primal, bounds.gap = reached.value, reached.value - bounds.dual
            self.progress[0].ahead = 0

    def proved(self, sample: Sample, z: Floats) -> float:
        """Return the lower bound that the slopes at some inner products prove."""
        d = sample.d
        losses, slopes, curves = self.model.derivatives(slice(None), z)
        if z.ndim == 2 and sample.intercept:  # a step of the intercepts, towards slopes of mean 0
            means = sample.factors @ curves
            bend = np.diag(means) - curves.T @ (curves * sample.factors[:, None])
            z = z - np.linalg.lstsq(bend, slopes.T @ sample.factors)[0]
            losses, slopes, curves = self.model.derivatives(slice(None), z)
        conjugates = product_of(slopes, z) - losses
        conjugates *= sample.factors
        total = sample.combination(slopes.T * sample.factors)
        loss, conjugate = float(sample.factors @ losses), float(conjugates.sum())
        if z.ndim == 2:
            return self.bound_of_classes(total[:, :d], loss, conjugate, total[:, d:].reshape(-1))
        above = float(conjugates[slopes < 0.0].sum())
        return self.bound(total[:d], loss, conjugate, above, slopes * self.model.weights)

    def minimise_sample(self) -> None:
        """Move w to the minimum over the rows drawn, without a correction in the first round."""
        batch, progress = self.batch, self.progress[0]
        factors = self.model.weights[batch.items] * batch.importances / batch.items.size
        sample = Sample.of(self.model, batch.items, factors)
        sample.direct = bool(progress.direct)
        self.lead(sample)
        exact = self.survey.gradient if progress.passes > 0 else None
        self.point[:] = sample.descend(self.point, exact).w
        progress.direct = int(sample.direct)
        progress.item_gradients += sample.visits

    def lead(self, sample: Sample) -> None:
        """Let an eighth of a sample lead most of the way in the first round, if that helps."""
        w = self.point
        if self.progress[0].passes > 0 or sample.factors.size < NESTED * w.size:
            return
        eighth = sample.eighth()
        ahead = eighth.descend(w).w
        self.progress[0].item_gradients += eighth.visits
        sample.direct = eighth.direct
        if sample.value(ahead) <= sample.value(w):
            w[:] = ahead

    def step_over_all(self) -> None:
        """Take Newton's step with the Hessian of all rows, from what the last pass has seen."""
        model, survey, w = self.model, self.survey, self.point
        if w.ndim == 2:
            self.minimise_all()
            return
        settings, n = model.settings[0], survey.curves.size
        total = float(model.weights.mean())
        bowl = bowl_over(
            model.rows, survey.curves / n, total, settings.l2, bool(settings.intercept)
        )
        step, gain = bowl.step(survey.gradient)
        if 0.0 < gain < math.inf:
            w += step
        self.progress[0].item_gradients += n


def product_of(slopes: Floats, z: Floats) -> Floats:
    """Return the inner product of slopes and inner products of each row: one, or one a class."""
    return slopes * z if slopes.ndim == 1 else np.einsum("ik,ik->i", slopes, z)
