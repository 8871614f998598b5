"""What the two mirror descents share: a step, given or from a horizon, and a floor."""

import math
from collections.abc import Callable
from typing import Any

from tombola.compiling import kernel
from tombola.samplers.bounds import bound_unit
from tombola.samplers.weighted import Rule, Weighted
from tombola.state import derived
from tombola.validation import positive_count

__all__ = ["SteppedRule", "checked_step", "current_step", "importance_above"]


class SteppedRule(Rule):
    """The unit of the losses, and the step."""

    unit: float = bound_unit()
    step: float = derived("the size of a step; times sqrt(t) if it falls")
    falling: int = derived("1 if steps fall as 1 / sqrt(t), for an unknown horizon")


def checked_step(
    step: float | None, horizon: int | None, by_theory: Callable[[int], float]
) -> tuple[float, int]:
    """Return the step, by theory if only a horizon is given, and 1 if it falls."""
    if step is not None and horizon is not None:
        raise ValueError("give at most one of step and horizon")
    if step is not None:
        return float(step), 0
    draws = 1 if horizon is None else positive_count("horizon", horizon, "draws")
    return by_theory(draws), int(horizon is None)


@kernel(inline=True)
def current_step(rule: SteppedRule, n: int) -> Any:
    """Return the step at the next loss; without a horizon, as if that were the last one."""
    return rule.step / math.sqrt(max(n, rule.fed + 1)) if rule.falling else rule.step


def importance_above(state: Weighted, floor: float) -> float:
    """Return the largest importance with p >= floor / n: more while weights change their scale."""
    resting = state.sweep[0].pending == 0
    return (1.0 if resting else 2.0) * (1 + 2**-8) / floor  # one part in 250 for rounding
