"""What sampling costs and what it does: time, counts, and values for loggers."""

import time

import numpy as np
from numpy.typing import NDArray

from tombola.gauge import Gauge
from tombola.validation import whole

__all__ = ["Stopwatch", "logged_values", "most_drawn"]


class Stopwatch:
    """The seconds spent on draws and feedback, as a share of the time since `begin`."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._begun: float | None = None

    def begin(self) -> None:
        """Start the time that the share refers to; only the first call counts."""
        if self._begun is None:
            self._begun = time.perf_counter()

    @property
    def share(self) -> float:
        """The share of time; 0 before `begin`."""
        if self._begun is None:
            return 0.0
        return self.seconds / (time.perf_counter() - self._begun)


def most_drawn(counts: NDArray[np.int32], k: int, first: int = 0) -> list[tuple[int, int]]:
    """Return the k items that were drawn most often, numbered from `first` on, with counts."""
    top = np.argsort(-counts, kind="stable")[: whole("k", k, 0)]
    return [(first + int(item), int(counts[item])) for item in top]


def logged_values(
    gauge: Gauge, counts: NDArray[np.int32], time_share: float, lag: int
) -> dict[str, float]:
    """Return the values for a logger by name, without those that are not known yet."""
    low, high = gauge.interval()
    top = -(-len(counts) // 100)
    values = {
        "second_moment_ratio": gauge.second_moment_ratio,
        "ratio_low": low,
        "ratio_high": high,
        "ratio_worst": gauge.worst(),
        "adaptive": float(gauge.mode == "adaptive"),
        "time_share": time_share,
        "lag": float(lag),
        "most_drawn_share": float(np.partition(counts, -top)[-top:].sum() / max(1, counts.sum())),
    }
    return {name: value for name, value in values.items() if np.isfinite(value)}
