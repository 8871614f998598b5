"""What the regulariser and a constant pull do to a number in many rounds, in closed form."""

import math
from typing import Any

import numpy as np

from tombola.compiling import kernel

__all__ = ["coast", "soft"]


@kernel(inline=True)
def soft(v: Any, threshold: Any) -> Any:
    """Return v, nearer to zero by the threshold, or 0: the prox of l1."""
    return math.copysign(max(abs(v) - threshold, 0.0), v)


@kernel
def coast(v: Any, rounds: Any, drift: Any, threshold: Any, shrink: Any) -> Any:
    """Repeat v -> shrink * soft(v - drift, threshold), in closed form; shrink is in (0, 1].

    While v keeps its sign this is linear; it comes to rest at 0, or crosses it, at most once.
    """
    if threshold == 0.0:
        return math.pow(shrink, float(rounds)) * v - drift * sum_of_powers(shrink, rounds)
    while rounds > 0 and (v != 0.0 or abs(drift) > threshold):
        sign = 1.0 if v > 0.0 or (v == 0.0 and drift < 0.0) else -1.0
        pull = sign * drift + threshold  # |v| -> shrink (|v| - pull), as long as that is above 0
        steps = rounds
        if pull > 0.0:
            steps = min(rounds, steps_above_zero(abs(v), pull, shrink))
        power = math.pow(shrink, float(steps))
        v = sign * max(power * abs(v) - pull * sum_of_powers(shrink, steps), 0.0)
        rounds -= steps
        if rounds > 0:  # the step that reaches 0 or crosses it
            v = shrink * soft(v - drift, threshold)
            rounds -= 1
    return v


@kernel
def sum_of_powers(shrink: Any, steps: Any) -> Any:
    """Return shrink + shrink^2 + ... + shrink^steps.

    1 - shrink^steps would lose its digits where shrink is next to 1; adding one by one would
    lose them bit by bit.
    """
    if shrink == 1.0:
        return float(steps)
    return -shrink * math.expm1(steps * math.log(shrink)) / (1.0 - shrink)


@kernel
def steps_above_zero(v: Any, pull: Any, shrink: Any) -> Any:
    """Return how often v -> shrink (v - pull) stays above 0, for v, pull > 0: rounded down."""
    if shrink == 1.0:
        steps = v / pull
    else:
        # v_s = shrink^s (v + rest) - rest, with rest = pull shrink / (1 - shrink)
        rest = pull * shrink / (1.0 - shrink)
        ratio = v / rest if rest > 0.0 else 0.0
        rise = math.log1p(ratio) if ratio < math.inf else math.log(v) - math.log(rest)
        steps = rise / -math.log(shrink)
    return np.int64(min(steps, 2.0**62))
