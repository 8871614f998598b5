"""The results of the race: draws and seconds to the goal, relative to the baseline."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tombola.advice.data import Data
from tombola.advice.entrants import Entrant
from tombola.advice.parts import Method, Race
from tombola.advice.race import MEASURED, Curve
from tombola.advice.text import GOAL

__all__ = ["arrival", "results"]


def arrival(curve: Curve, goal: float) -> tuple[float, float]:
    """Return draws and seconds to the goal, linear between evaluations; inf if never reached."""
    below = np.flatnonzero(curve.objective <= goal)
    if not len(below):
        return math.inf, math.inf
    k = int(below[0])
    if k == 0:
        return 0.0, 0.0
    high, low = curve.objective[k - 1], curve.objective[k]
    share = (high - goal) / (high - low)
    draws = curve.draws[k - 1] + share * (curve.draws[k] - curve.draws[k - 1])
    seconds = curve.seconds[k - 1] + share * (curve.seconds[k] - curve.seconds[k - 1])
    return float(draws), float(seconds)


def results(
    data: Data,
    entrants: Sequence[Entrant],
    curves: Sequence[dict[str, list[Curve]]],
) -> tuple[list[Method], list[Race]]:
    """Return the result of each method, and the curves."""
    base = entrants[0].label
    races = []
    arrivals: dict[str, list[Any]] = {entrant.label: [] for entrant in entrants}
    ends: dict[str, list[Any]] = {entrant.label: [] for entrant in entrants}
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
                epochs=(runs[base][0].draws / data.n).tolist(),
                objective={label: [c.objective.tolist() for c in runs[label]] for label in runs},
                seconds={label: [c.seconds.tolist() for c in runs[label]] for label in runs},
                goals=goals,
            )
        )
    totals = {label: np.array(found).sum(axis=0) for label, found in arrivals.items()}
    paces = {label: float(np.median([c.pace for runs in curves for c in runs[label]]))
             for label in totals}  # fmt: skip
    methods = []
    for entrant in entrants:
        label = entrant.label
        draws, seconds = totals[label].T
        with np.errstate(invalid="ignore", divide="ignore"):
            fewer, sooner = totals[base].T / np.array([draws, seconds])
        overhead = paces[label] / paces[base]
        ratio = None
        if entrant.kind in MEASURED:
            ratio = float(np.median([c.ratio for runs in curves for c in runs[label]]))
        predicted = None
        if entrant.kind == "adaptive" and ratio is not None:
            predicted = 1.0 / (ratio * overhead)
        methods.append(
            Method(
                label=label,
                solver=entrant.solver,
                kind=entrant.kind,
                ratio=ratio,
                overhead=overhead,
                predicted=predicted,
                draws=draws.tolist(),
                seconds=seconds.tolist(),
                reached=np.mean(ends[label], axis=0).tolist(),
                fewer_draws=np.nan_to_num(fewer, nan=0.0).tolist(),
                sooner=np.nan_to_num(sooner, nan=0.0).tolist(),
            )
        )
    return methods, races
