"""The settings of a loader, checked once."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from tombola.samplers import Sampler
from tombola.validation import number, whole

__all__ = ["Settings"]


@dataclass(frozen=True, eq=False)
class Settings:
    """What a loader is asked for; see `ImportanceLoader`.

    Attributes
    ----------
    n : int
        The number of items.
    lag : int or None
        None: one more than what is drawn ahead, or that of a state that is loaded.
    ahead : int
        The number of batches that workers draw ahead, if it is known.
    """

    n: int
    batch_size: int = 1
    sampler: str | Sampler | Callable[..., Sampler] = "auto"
    groups: Any = None
    seed: int = 0
    quantity: str = "loss"
    lag: int | None = None
    drop_last: bool = False
    distributed: str | None = "auto"
    shards: int | None = None
    process_group: Any = None
    share: float | None = None
    ahead: int = 0

    def __post_init__(self) -> None:
        """Check all that does not depend on the other processes."""
        object.__setattr__(self, "batch_size", whole("batch_size", self.batch_size, 1))
        object.__setattr__(self, "drop_last", bool(self.drop_last))
        if self.lag is not None:
            object.__setattr__(self, "lag", whole("lag", self.lag, 0))
        if not isinstance(self.quantity, str):
            raise TypeError(f"quantity must be a string, got {self.quantity!r}")
        if isinstance(self.groups, Tensor):
            object.__setattr__(self, "groups", self.groups.numpy(force=True))
        if isinstance(self.groups, str):
            raise ValueError(
                f"groups must have the group of each item, got {self.groups!r}: labels are found "
                "by an ImportanceLoader, which has the dataset"
            )
        if self.groups is not None and len(self.groups) != self.n:
            raise ValueError(f"groups has {len(self.groups)} labels for {self.n} items")
        if self.share is not None:
            self._check_share(self.share)

    def _check_share(self, share: float) -> None:
        """Raise a ValueError if a share is given together with what it does not apply to."""
        if not 0 < number("share", share) < math.inf:
            raise ValueError(f"share must be positive, got {share}")
        if self.sampler not in ("auto", "epoch-vrb"):
            raise ValueError(
                f"share={share} is for sampler='epoch-vrb', which it stands for, "
                f"got {self.sampler!r}"
            )
        if self.groups is not None:
            raise ValueError(f"share={share} draws by items: it cannot be combined with groups")

    def fit(self, sampler: Any) -> None:
        """Set the quantity of a sampler; raise a ValueError if it is over other items."""
        if sampler.n != self.n:
            raise ValueError(
                f"the sampler is over {sampler.n} items, the dataset has {self.n} items"
            )
        if self.quantity != "loss":  # the default leaves a sampler as its maker has set it up
            sampler.quantity = self.quantity

    @property
    def first_lag(self) -> int:
        """The lag of a loader that has loaded no state."""
        return self.ahead + 1 if self.lag is None else self.lag
