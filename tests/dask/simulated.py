"""Partitions in this process, without Dask: a runner, and fits by it."""

import itertools

import numpy as np

from tombola.dask.local import take_part
from tombola.dask.overview import begin, look_at, make_setting, merge
from tombola.dask.partition import assemble
from tombola.dask.refinement import Refinement
from tombola.dask.rounds import Ascent

NUMERIC = ("LeastSquares", "Huber", "EpsilonInsensitive")


class Simulated:
    """Carries out rounds one partition after the other; dual variables can be lost."""

    def __init__(self, parts):
        self.parts, self.duals = parts, [None] * len(parts)

    def map(self, task, *more):
        return [task(part, k, *more) for k, part in enumerate(self.parts)]

    def run(self, setting, plan):
        reports = []
        for k, part in enumerate(self.parts):
            report, self.duals[k] = take_part(part, k, self.duals[k], setting, plan)
            reports.append(report)
        return reports

    def state(self):
        return self.duals

    def load(self, duals):
        self.duals = list(duals)

    def close(self):
        self.duals = [None] * len(self.parts)


def cuts_of(n, count, uneven=False):
    """Where rows are cut; uneven: sizes grow, and one partition is empty."""
    places = np.linspace(0, 1, count + 1)
    cuts = (n * (places**2 if uneven else places)).astype(int)
    if uneven and count > 2:
        cuts[2] = cuts[1]
    return cuts


def split(X, y, count, weights=None, uneven=False):
    cuts = cuts_of(X.shape[0], count, uneven)
    return [
        assemble(k, X[a:b], y[a:b], None if weights is None else weights[a:b])
        for k, (a, b) in enumerate(itertools.pairwise(cuts))
    ]


def started(parts, kind, *, tol=1e-6, epochs=5.0, rows=256, seed=0, sampler="auto", **options):
    """A fit over simulated partitions, before its first round; `rows` are those of a model."""
    options = {"alpha": 1e-3, "l1_ratio": 0.0, "fit_intercept": True, **options}
    numeric = kind.__name__ in NUMERIC
    centre = options["fit_intercept"] and options["l1_ratio"] == 0
    overview = merge([look_at(part, k, numeric, centre) for k, part in enumerate(parts)])
    classes = None if numeric else overview.labels
    outputs = 1 if classes is None or len(classes) == 2 else len(classes)
    some = sum(part.X.shape[0] > 0 for part in parts)
    setting = make_setting(
        overview, some, kind, options, classes=classes, outputs=outputs, seed=seed, sampler=sampler
    )
    beginnings, runner = begin(overview, setting), Simulated(parts)
    if np.isfinite(kind.curvature):
        return Ascent(setting, beginnings, len(parts), runner, tol, epochs)
    return Refinement(setting, beginnings, runner, tol, rows)


def finished(fit, rounds=100, lose=()):
    """Carry out rounds to the end; `lose` are pairs of a round and a partition."""
    for number in range(rounds):
        for when, k in lose:
            if when == number:
                fit.runner.duals[k] = None
        if fit.step():
            return fit
    fit.step(last=True)
    return fit
