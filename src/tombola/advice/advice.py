"""What `advise` returns."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from tombola.advice.parts import Group, Item, Method, Model, Possible, Race, Verdict
from tombola.advice.text import (
    GOAL_IN_WORDS,
    MODELS_IN_WORDS,
    aligned,
    group_table,
    indented,
    item_table,
    legend_of_draws,
    legend_of_models,
    model_table,
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
        Of what is fitted, without the rows that are held out.
    raced : int
        The number of rows in the race.
    score_name : str
        What the scores are; higher is better, but for clustering.
    score : float or None
        That of the code, on the rows held out; None without code.
    models : list of Model
        In order of preference.
    seeds, epochs : int
        Of the race of draws.
    possible : list of Possible
        One for each problem of the race of draws.
    methods : list of Method
        Of the race of draws; the first is the baseline.
    items, groups : list of Item and of Group
        Those that ideal draws favour most, relative to uniform draws.
    losses : list of float
        The share of all losses that the smallest 0%, 1%, ..., 100% of them hold (Lorenz curve).
    races : list of Race
    code : str
        A script that fits the model of the verdict, just as it was raced, and prints its score;
        empty if undecided.
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
    score_name: str
    score: float | None
    models: list[Model]
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
        found = [self.verdict.headline, *indented(self.verdict.reasons)]
        if self.code:
            found += ["", "To use it (this script was raced, and prints the score below)"]
            found += [f"    {line}".rstrip() for line in self.code.split("\n")]
            found += ["", f"{self.score_name}, of the script: {self.score:.6g}"]
        if self.models:
            table = model_table(self.models, self.verdict.method)
            found += ["", MODELS_IN_WORDS, *aligned(*table)]
            found += indented(legend_of_models(self))
        if self.methods:
            found += ["", GOAL_IN_WORDS, *aligned(*race_table(self.methods))]
            found += indented(legend_of_draws(self))
            found += ["", *possible_lines(self.possible)]
        if self.groups:
            found += ["", "Groups that matter most", *aligned(*group_table(self.groups))]
        if self.items:
            found += ["", "Rows that matter most (numbered from 0)"]
            found += aligned(*item_table(self.items))
        found += ["", "Notes", *indented(self.notes)]
        return "\n".join(found)


def _finite(value: Any) -> Any:
    """Return nested dicts and lists with None for numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
