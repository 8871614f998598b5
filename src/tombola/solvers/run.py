"""The state of a solver while it runs, and how it is saved, checked and loaded."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tombola.checkpoint import CheckpointError
from tombola.compiling import check_fit, leaves, load_parts, name_by_source, saved_parts
from tombola.compiling.records import Record
from tombola.entries import LARGEST_COUNT
from tombola.solvers.loop import Batch

__all__ = ["Limits", "Run"]

Limit = float | str  # a number, or the dotted name of one among the parts
Limits = dict[str, tuple[Limit, Limit]]


class Run:
    """A mixin for the named tuple that holds the state of a solver: one argument for kernels.

    Attributes
    ----------
    batch : Batch
        The items drawn in the present round.
    progress : Record
        `rounds` taken and `item_gradients` computed; a solver may count more.
    w : ndarray
        The iterate, possibly in another form than the solution has.
    derived : tuple of str
        Parts that the solver makes from its parameters and the problem, and scratch space. They
        are not saved.
    limits : dict
        The least and the largest value of saved parts, by dotted name. Everything saved must be
        finite besides.
    """

    __slots__ = ()

    batch: Batch
    progress: Record
    w: NDArray[np.float64]
    derived: ClassVar[tuple[str, ...]] = ("batch", "model")
    limits: ClassVar[Limits] = {}

    @staticmethod
    def step(run: Any) -> Any:
        """Compute the losses of the batch; return the position of the first bad one, or -1."""
        raise NotImplementedError

    @staticmethod
    def move(run: Any) -> None:
        """Complete the step; the default does nothing: all is done in `step`."""

    @staticmethod
    def prefetch_item(run: Any, item: Any) -> None:
        """Prefetch what the step reads of an item; the default prefetches nothing."""

    @staticmethod
    def look(run: Any) -> Any:
        """Look at all items, where the run does so now; return whether it did."""
        return False

    @staticmethod
    def tell(run: Any, state: Any) -> None:
        """Tell a compiled sampler what the run saw of all items."""

    @staticmethod
    def ended(run: Any) -> Any:
        """Return whether the run is as close to the optimum as it was asked to be."""
        return False

    def seen(self) -> NDArray[np.float64] | None:
        """Return what `look` saw of all items, for samplers that are called from Python."""
        return None

    def __init_subclass__(cls) -> None:
        name_by_source(cls)  # machine code is filed by the name of the class

    @property
    def rounds(self) -> int:
        """The number of rounds taken."""
        return int(self.progress["rounds"][0])

    @property
    def item_gradients(self) -> int:
        """The number of item gradients computed."""
        return int(self.progress["item_gradients"][0])

    def finite(self) -> bool:
        """Return whether the iterate is finite."""
        return bool(np.isfinite(self.w).all())

    def saved(self) -> dict[str, Any]:
        """Return a copy of the parts that change, as nested dicts of arrays and numbers."""
        saved: dict[str, Any] = saved_parts(self._parts())
        return saved

    def check(self, saved: Any) -> None:
        """Raise a CheckpointError that names the first thing in `saved` that cannot be loaded."""
        try:
            check_fit(self._parts(), saved)
        except ValueError as error:
            raise CheckpointError(f"cannot resume: {error}") from None
        found = leaves(saved)
        for name, leaf in found.items():
            if not np.isfinite(leaf).all():
                raise CheckpointError(f"cannot resume: {name} holds a value that is not finite")
            whole = np.asarray(leaf).dtype.kind in "iu"
            if whole and np.size(leaf) and np.max(leaf) > LARGEST_COUNT:  # it could not grow
                raise CheckpointError(f"cannot resume: {name} is above {LARGEST_COUNT}")
        counts: Limits = {
            "progress.rounds": (0, np.inf),
            "progress.item_gradients": (0, np.inf),
        }
        for name, limits in {**counts, **self.limits}.items():
            low, high = (found[limit] if isinstance(limit, str) else limit for limit in limits)
            leaf = np.asarray(found[name])
            if leaf.size and not low <= leaf.min() <= leaf.max() <= high:
                raise CheckpointError(f"cannot resume: {name} is not from {low} to {high}")

    def load(self, saved: dict[str, Any]) -> None:
        """Write saved parts into this run, in place; `check` comes first."""
        load_parts(self._parts(), saved)

    def _parts(self) -> dict[str, Any]:
        parts: dict[str, Any] = self._asdict()  # type: ignore[attr-defined]
        return {name: part for name, part in parts.items() if name not in self.derived}
