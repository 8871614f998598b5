"""What `network` measures: the parts of its advice."""

from dataclasses import asdict, dataclass
from typing import Any

from tombola.advice.network_text import lines_of

__all__ = ["NetworkAdvice", "NetworkMethod", "Signal"]


@dataclass
class Signal:
    """What draws by a quantity would have, in the second half of a run with shuffled epochs.

    Attributes
    ----------
    name : str
        The quantity that draws are in proportion to.
    second_moment : float
        Of gradient estimates, over that of uniform draws: below 1 is better. No draws can be
        better than those by gradient norms.
    """

    name: str
    second_moment: float


@dataclass
class NetworkMethod:
    """What a way to draw has reached; lists have one number for each seed.

    Attributes
    ----------
    sampler : {"shuffle", "vrb", "group-vrb"}
    feed : str
        What the sampler learns from; empty for shuffling.
    second_moment : float
        Of gradient estimates, over that of uniform draws, exact over the probe, in the second half
        of the run.
    ideal : float
        The least that any draws could have there.
    steps : list of float
        To the loss that shuffling ends with; infinite if not reached.
    step_ms, draw_ms : float
        Median milliseconds of a step, all included, and of its draw and update alone.
    time_ratio : float
        Median steps times the cost of one, over those of shuffling: below 1 is better.
    """

    sampler: str
    feed: str
    second_moment: float
    ideal: float
    steps: list[float]
    step_ms: float
    draw_ms: float
    time_ratio: float


@dataclass
class NetworkAdvice:
    """What `network` has measured, and what follows; `print` it, or use `as_dict`.

    Attributes
    ----------
    stay : bool
        Whether to stay with shuffled epochs.
    feed : str or None
        What to feed the sampler with; None if `stay`.
    labels_help : bool or None
        Whether groups make it sooner; None where none were given.
    headline : str
    reasons : list of str
    possible : list of Signal
    methods : list of NetworkMethod
        The first is shuffling.
    items, probe, batch_size, steps, seeds : int
        Items in all and in the probe, and of what the runs were.
    code : str
        The loop that follows the advice; empty if `stay`.
    """

    stay: bool
    feed: str | None
    labels_help: bool | None
    headline: str
    reasons: list[str]
    possible: list[Signal]
    methods: list[NetworkMethod]
    items: int
    probe: int
    batch_size: int
    steps: int
    seeds: int
    code: str

    def as_dict(self) -> dict[str, Any]:
        """Return everything as dicts, lists, strings and numbers."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(lines_of(self))
