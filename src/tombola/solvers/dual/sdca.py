"""Dual coordinate ascent with adaptive draws."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.samplers import Sampler
from tombola.solvers.certified import CertifiedSolver, check_dual, checked_tolerance
from tombola.solvers.dual.level import pull_for, write_solution
from tombola.solvers.dual.run import DualRun, evaluate, fill_residuals
from tombola.solvers.dual.start import begin_at, mean_curvature, new_run
from tombola.solvers.result import Result
from tombola.validation import whole

__all__ = ["SDCA"]


class SDCA(CertifiedSolver):
    """Stochastic dual coordinate ascent: no rate, and a certificate of how close it is.

    For a problem with l2 > 0 (lambda below) and a loss with a dual: one dual variable a_i for each
    row, from which v = (1/(lambda n)) sum_i s_i a_i x_i and w = soft(v, l1 / lambda). A step
    maximises the dual over the variable of one row,

        a_i <- argmax_b  -phi*(-b) - b x_i w - q/2 (b - a_i)^2,     q = s_i |x_i|^2 / (lambda n)

    in closed form, or by one to three iterations for the logistic loss. Each step is exact,
    whatever p the row was drawn with, so a sampler is free to be greedy.

    The items are rows. By default they are drawn by `Latest`: half in shuffled order, half by
    their latest dual residual. Every two epochs, or sooner if the end is near, a pass over all
    rows updates all residuals, moves the intercept, and bounds the distance to the optimum.

    Parameters
    ----------
    tol : float, default=0.0
        The run ends when the duality gap is at most `tol` times the objective at w = 0 with the
        best intercept. 0: after all rounds.
    batch_size : int, default=16
        Rows drawn at a time, with feedback after the last. Their steps are taken one after the
        other, each from the result of the one before.
    seed : int, default=0
        For the sampler if none is given.

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
    `tombola.solvers.dual.run`). The certificate is that of a copy that satisfies the constraint.

    If lambda is small for the curvature of the losses and the length of the rows, kappa/2
    |w - y|^2 is added to the objective, and every pass moves the centre y (Catalyst); certificates
    are those of the objective itself.

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
    Lin, Mairal, Harchaoui (2015). A Universal Catalyst for First-Order Optimization.
    Csiba, Qu, Richtarik (2015). Stochastic Dual Coordinate Ascent with Adaptive Probabilities.
    """

    quantity = "dual residual"

    def __init__(self, *, tol: float = 0.0, batch_size: int = 16, seed: int = 0) -> None:
        self.tol = checked_tolerance(tol)
        self.batch_size = whole("batch_size", batch_size, 1)
        self.seed = whole("seed", seed, 0, 2**128)

    def _gap(self, problem: Any, result: Result) -> float:
        parts = result.state["parts"]
        if parts["progress"]["since"] == 0:
            return float(parts["bounds"]["gap"])
        run: Any = self._resumed(problem, None, result, result.rounds).run
        primal, dual, _, _ = evaluate(run)
        return float(primal - max(dual, run.bounds[0].dual))

    def _check(self, problem: Any) -> None:
        check_dual(problem, "SDCA", smooth=False)
        if not problem.l2 > 0:
            raise ValueError(
                "SDCA needs a problem with l2 > 0: alpha above 0 and l1_ratio below 1, got "
                f"alpha={problem.alpha:g} and l1_ratio={problem.l1_ratio:g}"
            )

    def _begin(self, problem: Any, start: ArrayLike | None, sampler: Sampler) -> DualRun:
        run = new_run(problem, self.batch_size, self.tol)
        if start is not None:
            begin_at(problem, run, problem.as_matrix(start))
        if problem.fit_intercept:
            length = run.options[0].length
            run.level[0].pull = pull_for(run.level, length, problem.n, mean_curvature(run))
        return run

    def _solution(self, problem: Any, run: DualRun) -> NDArray[np.float64]:
        if run.progress[0].since == 0:  # at a pass
            return np.array(run.best).reshape(problem.shape)
        w = problem.as_matrix(None)
        write_solution(run.level, run.centring.mean, run.w[0], w[0])
        return w.reshape(problem.shape)

    def _all_losses(self, problem: Any, run: DualRun) -> NDArray[np.float64]:
        losses = np.empty(problem.n)
        fill_residuals(run, losses)
        return losses
