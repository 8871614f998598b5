"""What the samplers by last losses share: a table of them, in a unit learnt from the first one.

`Avare` keeps a floor under the table. `Stale` and `SRG` draw an item without a loss by the mean of
the losses, and differ in which losses enter the table, and in how the mean is estimated.
"""

from typing import Any

from tombola.compiling import kernel, prefetch
from tombola.samplers.arithmetic import learnt_unit, normalised, unit_after
from tombola.samplers.weighted import Rule, Weighted
from tombola.state import Cell, Floats, array, real

__all__ = ["TRACE", "UNSEEN", "LastLossRule", "LastLosses", "MeanLossRule", "OrMean", "remember"]

UNSEEN = -1.0  # the entry of an item without feedback
TRACE = 2.0**-200  # the value of an item whose last loss was 0, as a share of the mean


class LastLossRule(Rule):
    """The unit of the losses."""

    unit: float = learnt_unit()


class LastLosses(Weighted):
    """Base class of states with the last loss of each item."""

    rule: Cell[LastLossRule]
    losses: Floats = array("the last loss of each item, -1 before the first", UNSEEN, 2.0**250)

    def fetch(self, item: int) -> None:
        """Prefetch the last loss."""
        prefetch(self.losses, item)


@kernel(inline=True)
def remember(state: LastLosses, item: int, loss: float) -> Any:
    """Enter a loss into the table; return it in the unit of the table."""
    rule = state.rule[0]
    rule.unit = unit_after(rule.unit, loss)
    entry = normalised(loss, rule.unit)
    state.losses[item] = entry
    return entry


class MeanLossRule(LastLossRule):
    """The mean of the losses."""

    mean_loss: float = real("estimated mean of the losses of all items", default=0.0)


class OrMean(LastLosses):
    """Last losses, or their mean if an item has none; no weight vanishes."""

    rule: Cell[MeanLossRule]

    def value(self, item: int) -> float:
        """Return the last loss; for an item without feedback, the mean of the losses."""
        rule, loss = self.rule[0], self.losses[item]
        if rule.unit == 0.0:
            return 1.0
        return max(loss, TRACE * rule.mean_loss) if loss >= 0.0 else rule.mean_loss
