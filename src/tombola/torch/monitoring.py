"""What sampling costs and what it does: time, counts, and values for loggers."""

import time
from collections.abc import Sequence

import numpy as np

from tombola.samplers import Sampler
from tombola.torch.shards import Shard
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


def most_drawn(shards: Sequence[Shard], k: int) -> list[tuple[int, int]]:
    """Return the k items of consecutive shards that were drawn most often, with their counts."""
    counts = np.concatenate([shard.counts for shard in shards])
    top = np.argsort(-counts, kind="stable")[: whole("k", k, 0)]
    return [(shards[0].start + int(item), int(counts[item])) for item in top]


def logged_values(
    sampler: Sampler, shards: Sequence[Shard], time_share: float, lag: int
) -> dict[str, float]:
    """Return the values for a logger by name, without those that are not known yet."""
    gauge = sampler.gauge
    low, high = gauge.interval()
    counts = np.concatenate([shard.counts for shard in shards])
    top = -(-len(counts) // 100)
    values = {
        "second_moment_ratio": gauge.second_moment_ratio,
        "ratio_low": low,
        "ratio_high": high,
        "adaptive": float(gauge.mode == "adaptive"),
        "time_share": time_share,
        "lag": float(lag),
        "most_drawn_share": float(np.partition(counts, -top)[-top:].sum() / max(1, counts.sum())),
    }
    return {name: value for name, value in values.items() if np.isfinite(value)}
