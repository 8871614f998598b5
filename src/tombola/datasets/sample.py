"""A sample of the rows of a file that memory cannot hold, drawn in one pass."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["Sample", "rows_in_memory"]

CELL = 64  # bytes that a cell takes: read, prepared, parted, and in the tables of a solver
SEED = 0


class Sample:
    """Rows drawn without replacement, with the same probability for all.

    Each row gets a random key, and those with the smallest keys are kept, so that at most twice as
    many are held at a time as are wanted. `rows` are their numbers, in order, of `seen` rows.
    """

    def __init__(self, most: int) -> None:
        self.most, self.seen = most, 0
        self.rows = np.zeros(0, np.int64)
        self._keys = np.zeros(0)
        self._limit = np.inf
        self._kept: list[Any] = []

    def draw(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield what is drawn of batches, which have `num_rows` and `take`."""
        rng = np.random.default_rng(SEED)
        for batch in batches:
            keys = rng.random(batch.num_rows)
            chosen = np.flatnonzero(keys < self._limit)
            if chosen.size:
                self.rows = np.append(self.rows, self.seen + chosen)
                self._keys = np.append(self._keys, keys[chosen])
                self._kept.append(batch.take(pa.array(chosen)))
            self.seen += batch.num_rows
            if self.rows.size > 2 * self.most:
                self._reduce()
        self._reduce()
        yield from self._kept
        self._kept.clear()

    def _reduce(self) -> None:
        """Keep as many rows as are wanted."""
        if self.rows.size <= self.most:
            return
        self._limit = np.partition(self._keys, self.most)[self.most]
        chosen = self._keys < self._limit
        ends = np.cumsum([batch.num_rows for batch in self._kept])
        marks = np.split(chosen, ends[:-1])
        self._kept = [
            batch.take(pa.array(np.flatnonzero(mark)))
            for batch, mark in zip(self._kept, marks, strict=True)
            if mark.any()
        ]
        self.rows, self._keys = self.rows[chosen], self._keys[chosen]


def rows_in_memory(columns: int) -> int | None:
    """Return how many rows of a table memory can hold, to two digits; None if it is not known."""
    available = _available()
    if available is None:
        return None
    most = max(1, available // (CELL * columns))
    digits = int(10 ** max(0, len(str(most)) - 2))
    return most // digits * digits


def _available() -> int | None:
    """Return the bytes of memory that are available, to the machine or to its container."""
    found = []
    with suppress(OSError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        found += [1024 * int(it.split()[1]) for it in lines if it.startswith("MemAvailable")]
    with suppress(OSError, ValueError):  # "max"
        limit, used = (
            int(Path(f"/sys/fs/cgroup/memory.{name}").read_text()) for name in ("max", "current")
        )
        found.append(limit - used)
    return min(found, default=None)
