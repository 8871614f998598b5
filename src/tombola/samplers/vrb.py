"""The Variance Reducer Bandit: Algorithm 1 of Borsos, Krause, Levy (2018)."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.compiling import kernel, prefetch
from tombola.samplers import default_rule
from tombola.samplers.arithmetic import cube_root, normalised, power_of_two_near
from tombola.samplers.bounds import checked_bounds
from tombola.samplers.default_rule import ParameterFree
from tombola.samplers.weighted import SWEEP, Rule, Scored, WeightedSampler, put
from tombola.state import Cell, cell, count, derived, real
from tombola.validation import number, positive_count, share

__all__ = ["VRB", "checked_theta"]

FIXED, ANYTIME, DOUBLING = 0, 1, 2  # schedules
CUBE_ROOT_OF_HALF = 0.7937005259840998  # a literal, because pow differs between machines


class PrintedRule(Rule):
    """The numbers of Algorithm 1."""

    mixing: float = real("theta, the share of uniform draws", 2.0**-60, 1.0)
    unit: float = derived("what losses are multiplied by: a power of two near 1 / sqrt(L)")
    fade: float = derived("the factor of the scores at each pass of the sweep")
    bound: float = derived("L, if one bound holds for all items")
    factor: float = real("n / theta")
    schedule: int = derived("how theta changes: not, gradually, or in phases")
    due: int = count("the number of draws at which theta changes next")


class Printed(Scored):
    """The state of Algorithm 1 as printed: the scores are w."""

    rule: Cell[PrintedRule]
    bounds: NDArray[np.float32] = derived("L of each item; empty if one bound holds for all")

    def absorb(self, item: int, probability: float, loss: float) -> None:
        """Algorithm 1: w(I_t) <- w(I_t) + l_t^2(I_t) / p~_t(I_t)."""
        loss = normalised(loss, self.rule[0].unit)
        self.scores[item] += loss * loss / probability

    def value(self, item: int) -> float:
        """Algorithm 1: p_t(i) is proportional to sqrt(w(i) + L n / theta)."""
        bound = self.bounds[item] if self.bounds.size else self.rule[0].bound
        return math.sqrt(self.scores[item] + bound * self.rule[0].factor)

    def prepare(self, size: int) -> int:
        """Decrease theta if the horizon is unknown, gradually or in phases."""
        rule = self.rule[0]
        while rule.schedule != FIXED and rule.drawn >= rule.due:
            if rule.schedule == ANYTIME:
                lower_mixing(self)
            else:
                next_phase(self)
        return size

    def fade(self, item: int) -> None:
        """Discount the score."""
        if self.rule[0].fade < 1.0:
            self.scores[item] *= self.rule[0].fade

    def fetch(self, item: int) -> None:
        """Prefetch score and bound."""
        prefetch(self.scores, item)
        if self.bounds.size:
            prefetch(self.bounds, item)


@kernel(inner=True)
def lower_mixing(state: Printed) -> None:
    """Set theta_t = min(1, (n/t)^(1/3)); recomputed when t has grown by a sixteenth."""
    rule, n = state.rule[0], state.scores.size
    drawn = max(1, rule.drawn)
    rule.mixing = min(1.0, cube_root(n / drawn))
    rule.factor = n / rule.mixing
    rule.due = max(n, drawn + drawn // 16 + 1)


@kernel(inner=True)
def next_phase(state: Printed) -> None:
    """Begin phase k: T_k = n 2^k draws with theta_k = 2^(-k/3), starting from w = 0."""
    rule, n = state.rule[0], state.scores.size
    rule.mixing *= CUBE_ROOT_OF_HALF
    rule.factor = n / rule.mixing
    rule.due = 2 * rule.due + n  # phases end after n, 3n, 7n, ... draws
    for item in range(n):
        state.scores[item] = 0.0
        put(state, item, state.value(item))


class VRB(WeightedSampler):
    """The Variance Reducer Bandit: learns from bandit feedback which items cause the noise.

    As printed (Algorithm 1), with a bound L on the *squared* losses and mixing theta:

        p_t(i)  ~ sqrt(w(i) + L n / theta)
        p~_t(i) = (1 - theta) p_t(i) + theta / n
        draw I_t ~ p~_t;  w(I_t) += l_t(I_t)^2 / p~_t(I_t)

    Without parameters, ``VRB(n)`` needs no bound, no horizon and no unit: it follows the rule of
    `tombola.samplers.default_rule`, and deals shuffled epochs while adaptive draws do not pay
    (``gauge.mode`` shows the current mode).

    Parameters
    ----------
    n : int
        The number of items.
    bound : float or array-like of shape (n,), optional
        L: an upper bound on the squared losses, one for all items or one for each. If the bound is
        too large, the sampler adapts slowly; if it is too small, the guarantee does not hold.
        Estimates are unbiased in both cases. Without a bound, the sampler is parameter-free.
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
    Guarantee (Theorem 7): with ``horizon=T >= n`` and losses within the bound, the
    pseudo-regret is at most 74 L n^(1/3) T^(2/3); against an adversary that sees the draws, the
    expected regret is of the same order up to logarithms (Theorem 8). The parameter-free rule
    has no such guarantee; its floor is p >= theta_t / n with theta_t = min(1, sqrt(n / (4 u)))
    after u losses. ``docs/decisions/vrb_default.md`` has the measurements behind it.

    Cost: a draw and an update take O(1); memory is 24 bytes per item (28 with per-item bounds, 32
    parameter-free).

    Deviations: theta is rounded up to a multiple of 2^-32, and the uniform share exceeds it by less
    than one part in the average integer weight. In a batch of b, every draw adds l^2/p with the
    same p, like b rounds with late feedback (as in the paper's k-means section), so `horizon`
    counts draws, not batches.

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

    state: Printed | ParameterFree

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
        given = {"mixing": mixing, "horizon": horizon, "schedule": schedule}
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
        if bound is None:
            if chosen:
                raise ValueError(
                    f"{chosen[0]} needs a bound (Algorithm 1 plays L n / theta); "
                    "leave both out for the parameter-free sampler"
                )
            super().__init__(n, seed, parameters, quantity=quantity)
            self._begin(
                ParameterFree,
                stale=True,
                **default_rule.start(self.n, fade=fade, shuffle=shuffle),
            )
        else:
            bounds = checked_bounds(bound, n)
            parameters["bound"] = bounds if bounds.size > 1 else float(bounds[0])
            super().__init__(n, seed, parameters, quantity=quantity)
            theta, kind = checked_theta(self.n, mixing, horizon, schedule)
            unit = 1.0 / power_of_two_near(math.sqrt(float(bounds.max())))
            bounds = bounds * unit * unit
            rule = PrintedRule(
                mixing=theta,
                unit=unit,
                fade=fade,
                bound=float(bounds[0]),
                factor=self.n / theta,
                schedule=kind,
                due=self.n,
            )
            self._begin(
                Printed,
                stale=kind != FIXED or fade < 1,
                rule=cell(rule),
                scores=np.full(self.n, 0.0),
                bounds=(bounds if bounds.size > 1 else bounds[:0]).astype(np.float32),
            )

    @property
    def mode(self) -> str:
        """The current mode: "adaptive", or "shuffle" while the sampler deals shuffled epochs."""
        state = self.state
        shuffling = isinstance(state, ParameterFree) and state.fallback[0].shuffling
        return "shuffle" if shuffling else "adaptive"

    @property
    def independent(self) -> bool:
        """False if the sampler may deal shuffled epochs."""
        return self.parameters["bound"] is not None or not self.parameters["shuffle"]

    def _largest_importance(self) -> float:
        # also in shuffled epochs: the gauge covers earlier draws, and mixing only decreases
        return 1.0 / float(self.state.rule[0].mixing)


def checked_theta(
    n: int, mixing: float | None, horizon: int | None, schedule: str | None
) -> tuple[float, int]:
    """Return the initial theta, a multiple of 2^-32, and its schedule."""
    theta, kind = 1.0, FIXED
    if mixing is not None:
        theta = share("mixing", mixing, zero=False)
    elif horizon is not None:
        theta = min(1.0, cube_root(n / positive_count("horizon", horizon, "draws")))
    elif schedule in (None, "anytime", "doubling"):
        kind = DOUBLING if schedule == "doubling" else ANYTIME
    else:
        raise ValueError(f'schedule must be "anytime" or "doubling", got {schedule!r}')
    return math.ceil(theta * 2**32) / 2**32, kind


def _fade(n: int, memory: float) -> float:
    if not number("memory", memory) >= n:
        raise ValueError(f"memory must be at least n = {n} draws, got {memory}")
    return 1.0 / (1.0 + n / (SWEEP * float(memory)))
