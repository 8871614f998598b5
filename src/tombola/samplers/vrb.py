"""The Variance Reducer Bandit: Algorithm 1 of Borsos, Krause, Levy (2018)."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.compiling import kernel, prefetch
from tombola.compiling.records import Record
from tombola.index.layout import Index
from tombola.samplers import parameter_free
from tombola.samplers.arithmetic import cube_root, normalised, power_of_two_near
from tombola.samplers.bounds import checked_bounds
from tombola.samplers.weighted import SWEEP, Weighted, WeightedSampler, new_rule, put, value
from tombola.validation import number, positive_count, share

__all__ = ["VRB", "checked_theta"]

FIXED, ANYTIME, DOUBLING = 0, 1, 2  # schedules
CUBE_ROOT_OF_HALF = 0.7937005259840998  # a literal, because pow differs between machines


class _Parts(NamedTuple):
    stream: Record
    index: Index  # type: ignore[assignment]
    sweep: Record
    rule: Record
    scores: NDArray[np.float64]  # w
    bounds: NDArray[np.float32]  # L of each item; empty if one bound holds for all


class PrintedState(Weighted, _Parts):
    """The state of Algorithm 1 as printed."""

    __slots__ = ()
    derived = ("bounds",)

    @classmethod
    def limits(cls, state: Any) -> dict[str, tuple[float, float]]:
        """Return the valid range of the rule's numbers and arrays."""
        schedule = state.rule[0].schedule
        own = {"rule.mixing": (2.0**-60, 1.0), "rule.schedule": (schedule, schedule)}
        return {**super().limits(state), **own}

    @staticmethod
    def absorb(state: Any, item: Any, probability: Any, loss: Any) -> None:
        """Algorithm 1: w(I_t) <- w(I_t) + l_t^2(I_t) / p~_t(I_t)."""
        loss = normalised(loss, state.rule[0].unit)
        state.scores[item] += loss * loss / probability

    @staticmethod
    def value(state: Any, item: Any) -> Any:
        """Algorithm 1: p_t(i) is proportional to sqrt(w(i) + L n / theta)."""
        bound = state.bounds[item] if state.bounds.size else state.rule[0].bound
        return math.sqrt(state.scores[item] + bound * state.rule[0].factor)

    @staticmethod
    def prepare(state: Any, size: Any) -> Any:
        """Decrease theta if the horizon is unknown, gradually or in phases."""
        rule = state.rule[0]
        while rule.schedule != FIXED and rule.drawn >= rule.due:
            if rule.schedule == ANYTIME:
                lower_mixing(state)
            else:
                next_phase(state)
        return size

    @staticmethod
    def fade(state: Any, item: Any) -> None:
        """Discount the score."""
        if state.rule[0].fade < 1.0:
            state.scores[item] *= state.rule[0].fade

    @staticmethod
    def fetch(state: Any, item: Any) -> None:
        """Prefetch score and bound."""
        prefetch(state.scores, item)
        if state.bounds.size:
            prefetch(state.bounds, item)


@kernel(inner=True)
def lower_mixing(state: PrintedState) -> None:
    """Set theta_t = min(1, (n/t)^(1/3)); recomputed when t has grown by a sixteenth."""
    rule, n = state.rule[0], state.scores.size
    drawn = max(1, rule.drawn)
    rule.mixing = min(1.0, cube_root(n / drawn))
    rule.factor = n / rule.mixing
    rule.due = max(n, drawn + drawn // 16 + 1)


@kernel(inner=True)
def next_phase(state: PrintedState) -> None:
    """Begin phase k: T_k = n 2^k draws with theta_k = 2^(-k/3), starting from w = 0."""
    rule, n = state.rule[0], state.scores.size
    rule.mixing *= CUBE_ROOT_OF_HALF
    rule.factor = n / rule.mixing
    rule.due = 2 * rule.due + n  # phases end after n, 3n, 7n, ... draws
    for item in range(n):
        state.scores[item] = 0.0
        put(state, item, value(state, item))


class VRB(WeightedSampler):
    """The Variance Reducer Bandit: learns from bandit feedback which items cause the noise.

    As printed (Algorithm 1), with a bound L on the *squared* losses and mixing theta:

        p_t(i)  ~ sqrt(w(i) + L n / theta)
        p~_t(i) = (1 - theta) p_t(i) + theta / n
        draw I_t ~ p~_t;  w(I_t) += l_t(I_t)^2 / p~_t(I_t)

    Without parameters, ``VRB(n)`` needs no bound, no horizon and no unit: it follows the rule of
    `tombola.samplers.parameter_free`, and deals shuffled epochs while adaptive draws do not pay
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
            self.state_class = parameter_free.ParameterFreeState
            super().__init__(n, seed, parameters, quantity=quantity)
            self._begin(stale=True, **parameter_free.start(self.n, fade=fade, shuffle=shuffle))
        else:
            self.state_class = PrintedState
            bounds = checked_bounds(bound, n)
            parameters["bound"] = bounds if bounds.size > 1 else float(bounds[0])
            super().__init__(n, seed, parameters, quantity=quantity)
            theta, kind = checked_theta(self.n, mixing, horizon, schedule)
            unit = 1.0 / power_of_two_near(math.sqrt(float(bounds.max())))
            bounds = bounds * unit * unit
            rule = new_rule(
                mixing=theta,
                unit=unit,
                fade=fade,  # factor of the scores at each pass of the sweep
                bound=float(bounds[0]),  # L, if one bound holds for all items
                factor=self.n / theta,  # n / theta
                schedule=kind,
                due=self.n,  # the number of draws at which theta changes next
            )
            self._begin(
                stale=kind != FIXED or fade < 1,
                rule=rule,
                scores=np.full(self.n, 0.0),
                bounds=(bounds if bounds.size > 1 else bounds[:0]).astype(np.float32),
            )

    @property
    def mode(self) -> str:
        """The current mode: "adaptive", or "shuffle" while the sampler deals shuffled epochs."""
        parameter_free = self.parameters["bound"] is None
        return "shuffle" if parameter_free and self.state.fallback[0].shuffling else "adaptive"

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
