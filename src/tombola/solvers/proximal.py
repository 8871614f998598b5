"""Many proximal steps with a constant gradient, in closed form: for lazy updates."""

import math
from typing import Any

import numpy as np

from tombola.compiling import kernel

__all__ = ["repeated_prox", "soft"]


@kernel(inline=True)
def soft(v: Any, threshold: Any) -> Any:
    """Return v moved towards zero by the threshold, or 0: the prox of l1."""
    return math.copysign(max(abs(v) - threshold, 0.0), v)


@kernel
def repeated_prox(v: Any, rounds: Any, step: Any, threshold: Any, shrink: Any) -> Any:
    """Repeat v -> shrink * soft(v - step, threshold), in closed form; shrink is in (0, 1].

    While v keeps its sign this is linear; v stays at 0, or crosses it, at most once.
    """
    if threshold == 0.0:
        return math.pow(shrink, float(rounds)) * v - step * sum_of_powers(shrink, rounds)
    while rounds > 0 and (v != 0.0 or abs(step) > threshold):
        sign = 1.0 if v > 0.0 or (v == 0.0 and step < 0.0) else -1.0
        decrease = sign * step + threshold  # |v| -> shrink (|v| - decrease), while that is above 0
        linear = rounds
        if decrease > 0.0:
            linear = min(rounds, rounds_above_zero(abs(v), decrease, shrink))
        power = math.pow(shrink, float(linear))
        v = sign * max(power * abs(v) - decrease * sum_of_powers(shrink, linear), 0.0)
        rounds -= linear
        if rounds > 0:  # the round that reaches 0 or crosses it
            v = shrink * soft(v - step, threshold)
            rounds -= 1
    return v


@kernel
def sum_of_powers(shrink: Any, count: Any) -> Any:
    """Return shrink + shrink^2 + ... + shrink^count.

    1 - shrink^count would lose its digits if shrink is close to 1; a loop would lose them one
    by one.
    """
    if shrink == 1.0:
        return float(count)
    return -shrink * math.expm1(count * math.log(shrink)) / (1.0 - shrink)


@kernel
def rounds_above_zero(v: Any, decrease: Any, shrink: Any) -> Any:
    """Return how often v -> shrink (v - decrease) stays above 0, for v, decrease > 0."""
    if shrink == 1.0:
        rounds = v / decrease
    else:
        # v_s = shrink^s (v + rest) - rest, with rest = decrease shrink / (1 - shrink)
        rest = decrease * shrink / (1.0 - shrink)
        ratio = v / rest if rest > 0.0 else 0.0
        rise = math.log1p(ratio) if ratio < math.inf else math.log(v) - math.log(rest)
        rounds = rise / -math.log(shrink)
    return np.int64(min(rounds, 2.0**62))
