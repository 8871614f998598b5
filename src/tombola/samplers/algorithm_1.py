"""Algorithm 1 of Borsos, Krause, Levy (2018) as printed: what `VRB` runs when it has a bound.

The lines of the algorithm, counted from "Input", and where each of them is:

    1  Input: theta, L, n                                 `PrintedRule`
    2  Initialize w(i) = 0                                `parts_of`
    3  for t = 1 to T
    4      p_t(i) ~ sqrt(w(i) + L n / theta)              `Printed.value`
    5      p~_t(i) = (1 - theta) p_t(i) + theta / n       `probability_of` in `weighted`
    6      draw I_t ~ p~_t                                `draw_from_index` in `weighted`
    7      w(I_t) <- w(I_t) + l_t(I_t)^2 / p~_t(I_t)      `Printed.absorb`

The paper sets theta = (n / T)^(1/3) for a known horizon T (Theorem 7): `checked_theta`. For an
unknown one it names the doubling trick, starting from T = n (end of the proof of Theorem 7):
`next_phase`. A bound L_i for each item takes the place of L (Section 2; no theorem covers it). A
theta that falls gradually (`lower_mixing`) and fading scores are not in the paper.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import kernel, prefetch
from tombola.samplers.arithmetic import cube_root, normalised
from tombola.samplers.bounds import bound_unit, unit_for
from tombola.samplers.weighted import Rule, Scored, put
from tombola.state import Cell, cell, count, derived, real
from tombola.validation import positive_count, share

__all__ = ["Printed", "PrintedRule", "checked_theta", "parts_of"]

FIXED, ANYTIME, DOUBLING = 0, 1, 2  # schedules of theta
CUBE_ROOT_OF_HALF = 0.7937005259840998  # a literal, because pow differs between machines


class PrintedRule(Rule):
    """The numbers of Algorithm 1."""

    mixing: float = real("theta, the share of uniform draws", 2.0**-60, 1.0)
    unit: float = bound_unit()
    fade: float = derived("the factor of the scores at each pass of the sweep")
    bound: float = derived("L, if one bound holds for all items")
    factor: float = real("n / theta")
    schedule: int = derived("how theta changes: not, gradually, or in phases")
    due: int = count("the number of draws at which theta changes next")


class Printed(Scored):
    """The state of Algorithm 1 as printed: the scores are w."""

    rule: Cell[PrintedRule]
    bounds: NDArray[np.float32] = derived("L of each item; empty if one bound holds for all")

    def value(self, item: int) -> float:
        """Line 4: p_t(i) is proportional to sqrt(w(i) + L n / theta)."""
        bound = self.bounds[item] if self.bounds.size else self.rule[0].bound
        return math.sqrt(self.scores[item] + bound * self.rule[0].factor)

    def absorb(self, item: int, probability: float, loss: float) -> None:
        """Line 7: w(I_t) <- w(I_t) + l_t^2(I_t) / p~_t(I_t)."""
        loss = normalised(loss, self.rule[0].unit)
        self.scores[item] += loss * loss / probability

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


@kernel
def lower_mixing(state: Printed) -> None:
    """Set theta_t = min(1, (n/t)^(1/3)); recomputed when t has grown by a sixteenth."""
    rule, n = state.rule[0], state.scores.size
    drawn = max(1, rule.drawn)
    rule.mixing = min(1.0, cube_root(n / drawn))
    rule.factor = n / rule.mixing
    rule.due = max(n, drawn + drawn // 16 + 1)


@kernel
def next_phase(state: Printed) -> None:
    """Begin phase k: T_k = n 2^k draws with theta_k = 2^(-k/3), starting from w = 0."""
    rule, n = state.rule[0], state.scores.size
    rule.mixing *= CUBE_ROOT_OF_HALF
    rule.factor = n / rule.mixing
    rule.due = 2 * rule.due + n  # phases end after n, 3n, 7n, ... draws
    for item in range(n):
        state.scores[item] = 0.0
        put(state, item, state.value(item))


def parts_of(
    n: int,
    bounds: NDArray[np.float64],
    *,
    mixing: float | None,
    horizon: int | None,
    schedule: str | None,
    fade: float,
) -> dict[str, Any]:
    """Return what `WeightedSampler._begin` takes for a new sampler."""
    theta, kind = checked_theta(n, mixing, horizon, schedule)
    unit = unit_for(bounds)
    bounds = bounds * unit * unit
    rule = PrintedRule(
        mixing=theta,
        unit=unit,
        fade=fade,
        bound=float(bounds[0]),
        factor=n / theta,
        schedule=kind,
        due=n,
    )
    return {
        "stale": kind != FIXED or fade < 1,
        "rule": cell(rule),
        "scores": np.full(n, 0.0),  # line 2: w(i) = 0
        "bounds": (bounds if bounds.size > 1 else bounds[:0]).astype(np.float32),
    }


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
