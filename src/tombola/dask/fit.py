"""What fits in rounds share: the outputs, what was counted, and how far they are."""

from collections.abc import Sequence
from typing import Any

from tombola.compiling import new_record
from tombola.dask.progress import Progress
from tombola.dask.runners import Runner
from tombola.dask.setting import Setting

__all__ = ["Fit"]


class Fit:
    """A fit in rounds.

    Parameters
    ----------
    setting : Setting
    outputs : sequence
        Each has a `relative_gap`.
    runner : Runner
    tol : float
        Of the relative duality gap.
    pace : float
        How much is done in a round, for the fingerprint of checkpoints.
    """

    def __init__(
        self, setting: Setting, outputs: Sequence[Any], runner: Runner, tol: float, pace: float
    ) -> None:
        self.setting, self.outputs, self.runner = setting, outputs, runner
        self.tol, self.pace = tol, pace
        self.counts = new_record(rounds=0, loads=0, visits=0, bytes=0, restarts=0)

    @property
    def progress(self) -> Progress:
        """How far it is."""
        return Progress.of(self.counts, self.outputs, self.setting.n)

    @property
    def active(self) -> list[int]:
        """The outputs that are not within the tolerance."""
        return [c for c, it in enumerate(self.outputs) if not it.relative_gap <= self.tol]
