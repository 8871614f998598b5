"""`VRB`, the Variance Reducer Bandit: the default rule, or Algorithm 1 as printed."""

from typing import Any

from numpy.typing import ArrayLike

from tombola.samplers import algorithm_1, default_rule
from tombola.samplers.algorithm_1 import Printed
from tombola.samplers.bounds import as_argument, checked_bounds
from tombola.samplers.default_batch import Staged
from tombola.samplers.weighted import SWEEP, WeightedSampler
from tombola.validation import number

__all__ = ["VRB"]


class VRB(WeightedSampler):
    """The Variance Reducer Bandit: learns from bandit feedback which items cause the noise.

    Which rule runs depends on `bound`:

    ``VRB(n)``
        The default rule (`tombola.samplers.default_rule`). It needs no bound, no horizon and no
        unit, and deals shuffled epochs while adaptive draws do not pay (``gauge.mode`` shows the
        current mode). It has no regret bound; its floor is p >= theta_t / n with
        theta_t = min(1, sqrt(n / (4 u))) after u losses.
    ``VRB(n, bound=L)``
        Algorithm 1 as printed (`tombola.samplers.algorithm_1`), with mixing theta:

            p_t(i)  ~ sqrt(w(i) + L n / theta)
            p~_t(i) = (1 - theta) p_t(i) + theta / n
            draw I_t ~ p~_t;  w(I_t) += l_t(I_t)^2 / p~_t(I_t)

        With ``horizon=T >= n`` and squared losses of at most L, the pseudo-regret is at most
        74 L n^(1/3) T^(2/3) (Theorem 7); against an adversary that sees the draws, the expected
        regret is of the same order up to logarithms (Theorem 8).

    Parameters
    ----------
    n : int
        The number of items.
    bound : float or array-like of shape (n,), optional
        L: an upper bound on the squared losses, one for all items or one for each. If the bound is
        too large, the sampler adapts slowly; if it is too small, the guarantee does not hold.
        Estimates are unbiased in both cases.
    mixing : float in (0, 1], optional
        theta, the share of uniform draws.
    horizon : int, optional
        T, the number of draws planned (batch size times steps): theta = min(1, (n/T)^(1/3)).
    schedule : {"anytime", "doubling"}, optional
        For an unknown horizon: theta_t = min(1, (n/t)^(1/3)), with L n / theta_t growing
        accordingly ("anytime", the default if only `bound` is given), or the paper's restarts after
        n, 3n, 7n, ... draws ("doubling"; each restart takes O(n)).
    memory : float, optional
        The number of draws (at least n) over which evidence fades, for losses that change over
        time. Each item fades when the sweep passes it, every n/2 losses, so there is no pause.
    shuffle : bool, default=True
        Whether the parameter-free sampler deals shuffled epochs while adaptive draws do not pay.
        Use False with SAGA and SVRG, which need independent draws.
    seed : int, default=0

    Notes
    -----
    Cost: a draw and an update take O(1); memory is 32 bytes per item without a bound, 24 with one,
    28 with one for each item. ``docs/decisions/vrb_default.md`` has the measurements behind the
    default rule.

    Deviations from Algorithm 1 as printed: theta is rounded up to a multiple of 2^-32, and the
    uniform share exceeds it by less than one part in the average integer weight. In a batch of b,
    every draw adds l^2/p with the same p, like b rounds with late feedback (as in the paper's
    k-means section), so `horizon` counts draws, not batches.

    Examples
    --------
    >>> import numpy as np
    >>> losses = np.array([0.1] * 99 + [5.0])            # one item causes the noise
    >>> sampler = VRB(100, bound=25.0, mixing=0.2)
    >>> for _ in range(200):
    ...     draw = sampler.draw(32)
    ...     sampler.update(draw, losses[draw.indices])
    >>> bool(sampler.probabilities().argmax() == 99)
    True
    >>> sampler.gauge.second_moment_ratio < 0.7
    True

    References
    ----------
    Borsos, Krause, Levy (2018). Online Variance Reduction for Stochastic Optimization.
    """

    state: Printed | Staged

    def __init__(
        self,
        n: int,
        *,
        bound: ArrayLike | None = None,
        mixing: float | None = None,
        horizon: int | None = None,
        schedule: str | None = None,
        memory: float | None = None,
        shuffle: bool = True,
        quantity: str = "loss",
        seed: int = 0,
    ) -> None:
        given: dict[str, Any] = {"mixing": mixing, "horizon": horizon, "schedule": schedule}
        chosen = [name for name, parameter in given.items() if parameter is not None]
        parameters: dict[str, Any] = {
            "bound": None,
            **given,
            "memory": memory,
            "shuffle": bool(shuffle),
        }
        if len(chosen) > 1:
            raise ValueError(f"give at most one of mixing, horizon and schedule, got {chosen}")
        fade = 1.0 if memory is None else _fade(n, memory)
        if bound is None and chosen:
            raise ValueError(
                f"{chosen[0]} needs a bound (Algorithm 1 plays L n / theta); "
                "leave both out for the parameter-free sampler"
            )
        if bound is not None:
            bounds = checked_bounds(bound, n)
            parameters["bound"] = as_argument(bounds)
        super().__init__(n, seed, parameters, quantity=quantity)
        if bound is None:
            free = default_rule.parts_of(self.n, fade=fade, shuffle=shuffle)
            self._begin(Staged, **free)
        else:
            self._begin(Printed, **algorithm_1.parts_of(self.n, bounds, fade=fade, **given))

    @property
    def mode(self) -> str:
        """The current mode: "adaptive", or "shuffle" while the sampler deals shuffled epochs."""
        state = self.state
        shuffling = isinstance(state, Staged) and state.fallback[0].shuffling
        return "shuffle" if shuffling else "adaptive"

    @property
    def independent(self) -> bool:
        """False if the sampler may deal shuffled epochs."""
        return self.parameters["bound"] is not None or not self.parameters["shuffle"]

    def _largest_importance(self) -> float:
        # also in shuffled epochs: the gauge covers earlier draws, and mixing only decreases
        return 1.0 / float(self.state.rule[0].mixing)


def _fade(n: int, memory: float) -> float:
    if not number("memory", memory) >= n:
        raise ValueError(f"memory must be at least n = {n} draws, got {memory}")
    return 1.0 / (1.0 + n / (SWEEP * float(memory)))
