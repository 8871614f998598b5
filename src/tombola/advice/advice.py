"""What `advise` returns."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from tombola.advice.parts import Group, Item, Method, Possible, Race, Verdict
from tombola.advice.text import (
    GOAL_IN_WORDS,
    LEGEND,
    aligned,
    group_table,
    indented,
    item_table,
    possible_lines,
    race_table,
)

__all__ = ["Advice"]


@dataclass
class Advice:
    """All measurements and the verdict; `print` it, or use `as_dict`.

    Attributes
    ----------
    verdict : Verdict
    task : str
    rows, columns : int
    raced : int
        The number of rows in the race.
    seeds, epochs : int
    possible : list of Possible
        One for each problem.
    methods : list of Method
        The first is the baseline.
    items, groups : list of Item and of Group
        Those that ideal draws favour most, relative to uniform draws.
    losses : list of float
        The share of all losses that the smallest 0%, 1%, ..., 100% of them hold (Lorenz curve).
    races : list of Race
    code : str
        Lines of Python that carry out the plan of the method in the verdict, scaling included.
    notes : list of str
        What was done to the data and left out, and the time it took.
    seconds : dict
        The time spent: "compiling" (and loading), "in all".
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
        """Return everything as dicts, lists, strings and numbers; None where one is not finite."""
        plain: dict[str, Any] = _finite(asdict(self))
        return plain

    def __str__(self) -> str:
        found = [self.verdict.headline, *indented(self.verdict.reasons), ""]
        found += possible_lines(self.possible)
        found += ["", GOAL_IN_WORDS, *aligned(*race_table(self.methods)), *indented([LEGEND])]
        if self.groups:
            found += ["", "Groups that matter most", *aligned(*group_table(self.groups))]
        found += ["", "Rows that matter most (numbered from 0)", *aligned(*item_table(self.items))]
        found += ["", "To use it", *(f"    {line}".rstrip() for line in self.code.split("\n"))]
        found += ["", "Notes", *indented(self.notes)]
        return "\n".join(found)


def _finite(value: Any) -> Any:
    """Return nested dicts and lists with None for numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
