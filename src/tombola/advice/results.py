"""The results of the race of draws: draws to the goal, and the cost of one."""

import math
from collections.abc import Sequence

import numpy as np

from tombola.advice.data import Data
from tombola.advice.entrants import Entrant
from tombola.advice.parts import Method, Race
from tombola.advice.race import MEASURED, Curve
from tombola.advice.text import GOAL

__all__ = ["arrival", "results"]


def arrival(curve: Curve, goal: float) -> float:
    """Return the draws to the goal, linear between evaluations; infinity if never reached."""
    below = np.flatnonzero(curve.objective <= goal)
    if not len(below):
        return math.inf
    k = int(below[0])
    if k == 0:
        return 0.0
    high, low = curve.objective[k - 1], curve.objective[k]
    share = (high - goal) / (high - low)
    return float(curve.draws[k - 1] + share * (curve.draws[k] - curve.draws[k - 1]))


def results(
    data: Data,
    entrants: Sequence[Entrant],
    curves: Sequence[dict[str, list[Curve]]],
    costs: dict[str, float],
) -> tuple[list[Method], list[Race]]:
    """Return the result of each way to draw, and the curves.

    `costs` has the seconds for a draw of each.
    """
    base = entrants[0].label
    races = []
    arrivals: dict[str, list[list[float]]] = {entrant.label: [] for entrant in entrants}
    ends: dict[str, list[np.ndarray]] = {entrant.label: [] for entrant in entrants}
    for contest, runs in zip(data.contests, curves, strict=True):
        starts = np.array([curve.objective[0] for curve in runs[base]])
        lowest = np.array([curve.objective.min() for curve in runs[base]])
        goals = (lowest + GOAL * (starts - lowest)).tolist()
        for label, mine in runs.items():
            last = np.array([curve.objective[-1] for curve in mine])
            with np.errstate(invalid="ignore", divide="ignore"):
                ends[label].append((starts - last) / (starts - lowest))
            arrivals[label].append([arrival(*pair) for pair in zip(mine, goals, strict=True)])
        races.append(
            Race(
                name=contest.name,
                rows=data.n,
                epochs=(runs[base][0].draws / data.n).tolist(),
                objective={label: [c.objective.tolist() for c in runs[label]] for label in runs},
                goals=goals,
            )
        )
    totals = {label: np.array(found).sum(axis=0) for label, found in arrivals.items()}
    methods = []
    for entrant in entrants:
        label = entrant.label
        ratio = None
        if entrant.kind in MEASURED:
            ratio = float(np.median([c.ratio for runs in curves for c in runs[label]]))
        with np.errstate(invalid="ignore", divide="ignore"):
            fewer = np.nan_to_num(totals[label] / totals[base], nan=1.0, posinf=math.inf)
        methods.append(
            Method(
                label=label,
                solver=entrant.solver,
                kind=entrant.kind,
                ratio=ratio,
                cost=costs[label],
                draws=totals[label].tolist(),
                draws_ratio=fewer.tolist(),
                time_ratio=(fewer * costs[label] / costs[base]).tolist(),
                reached=np.mean(ends[label], axis=0).tolist(),
            )
        )
    return methods, races
