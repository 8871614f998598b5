"""What `advise` returns: everything that was measured, and what follows from it."""

import math
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Advice", "Group", "Item", "Method", "Possible", "Race", "Verdict"]


@dataclass
class Possible:
    """What other distributions would have cost on the way that shuffled epochs took.

    All are second moments over that of uniform draws. ideal <= best_fixed <= best_group <= 1.

    Attributes
    ----------
    name : str
        Of the problem.
    ideal : float
        Draws in proportion to the losses of each moment.
    best_fixed : float
        The best of all distributions that never change, in hindsight.
    best_group : float or None
        The best of those that draw all items of a group alike; None without groups.
    epochs, ideals : list of float
        The moments, and the ideal at each of them.
    """

    name: str
    ideal: float
    best_fixed: float
    best_group: float | None
    epochs: list[float]
    ideals: list[float]


@dataclass
class Method:
    """How a solver and a sampler did in the race; one number for each seed.

    Attributes
    ----------
    label, solver : str
    kind : {"baseline", "adaptive", "default", "plain"}
        Shuffled epochs; draws that learn; what the estimator does by default; uniform draws.
    ratio : float or None
        Second moment over uniform's, exact, on the way that this method took; None for SAGA,
        whose estimates are of differences.
    overhead : float
        Seconds a draw (with step, update and setting up) over those of the baseline.
    predicted : float or None
        Times sooner if the steps needed fell with the second moment, as in AdaGrad's bound.
    draws, seconds : list of float
        Until the goal; infinite where it was not reached.
    reached : list of float
        How far down it was in the end, over the lowest that the baseline came to.
    fewer_draws, sooner : list of float
        Those of the baseline over these: above 1 is better; 0 where the goal was not reached.
    """

    label: str
    solver: str
    kind: str
    ratio: float | None
    overhead: float
    predicted: float | None
    draws: list[float]
    seconds: list[float]
    reached: list[float]
    fewer_draws: list[float]
    sooner: list[float]


@dataclass
class Verdict:
    """What to do, and why.

    Attributes
    ----------
    pays : bool
        Whether draws that learn arrive sooner than shuffled epochs with the same solver.
    use : {"adaptive", "default", "try", "shuffle"}
        What to do; "try" where seeds disagree, "shuffle" also where nothing can be said.
    method : str
        The label of the method to use, or to try.
    headline : str
    reasons : list of str
        Sentences.
    """

    pays: bool
    use: str
    method: str
    headline: str
    reasons: list[str]


@dataclass
class Item:
    """A row that matters: its number, its share of ideal draws, that over 1/n, and its label."""

    row: int
    probability: float
    times_uniform: float
    label: str | None


@dataclass
class Group:
    """A group of rows, and its share of the rows and of ideal draws."""

    group: str
    rows: int
    share_of_rows: float
    share_of_draws: float


@dataclass
class Race:
    """The curves of one problem: for each method, a row a seed and a column a look."""

    name: str
    epochs: list[float]
    objective: dict[str, list[list[float]]]
    seconds: dict[str, list[list[float]]]
    goals: list[float]  # one for each seed


@dataclass
class Advice:
    """Everything that was measured, and what follows; `print` it, or take `as_dict`.

    Attributes
    ----------
    verdict : Verdict
    task : str
    rows, columns : int
    raced : int
        Rows that the race was over.
    seeds, epochs : int
    possible : list of Possible
        One for each problem.
    methods : list of Method
        The first is the baseline.
    items, groups : list of Item and of Group
        Those that ideal draws favour most, relative to uniform ones.
    losses : list of float
        Share of all losses that the smallest 0%, 1%, ..., 100% of them hold (Lorenz curve).
    races : list of Race
    code : str
        Lines to use it.
    notes : list of str
        What was done to the data, and left out.
    seconds : dict
        Time that was spent: "compiling" (and loading), "in all".
    """

    verdict: Verdict
    task: str
    rows: int
    columns: int
    raced: int
    seeds: int
    epochs: int
    possible: list[Possible]
    methods: list[Method]
    items: list[Item]
    groups: list[Group]
    losses: list[float]
    races: list[Race]
    code: str
    notes: list[str]
    seconds: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        """Return everything as dicts, lists, strings and numbers, None where one is not finite."""
        plain: dict[str, Any] = _finite(asdict(self))
        return plain

    def __str__(self) -> str:
        from tombola.advice.text import lines  # which looks at what is defined here

        return "\n".join(lines(self))


def _finite(value: Any) -> Any:
    """Return nested dicts and lists with None for numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
