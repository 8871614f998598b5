"""Two versions of tombola side by side, turn by turn: did a change make anything slower?

    git worktree add ../before COMMIT
    python benchmarks/compare.py ../before            # about 15 minutes
    python benchmarks/compare.py ../before --points index "VRB(n)"

Two processes of the same version differ by up to 5%, by where their memory lies. So there are five
processes of each version, in pairs that time a point in alternation. The ratio of a pair is the
median over its turns of new over old (below 1 is faster). Printed are the median of the five pairs
and their range, which contains the true median with a probability of 94%. A point is slower if
the whole range is above 1.03.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from functools import partial
from inspect import signature
from pathlib import Path

import numpy as np

PAIRS = 5
TURNS = 3
SECONDS = 0.2  # of one timing
SLOWER = 1.03


# --- what is timed: functions that return a call and the number of items it handles -------------


def index_point(batch):
    import tombola

    n = 10**6
    index = tombola.WeightIndex(1 + np.arange(n) % 977)
    pool = np.random.default_rng(1).integers(1, 2**16, size=10**5)
    at = 0
    if "stream" in signature(index.draw).parameters:  # before draws of an index were a Draw
        draw = partial(index.draw, stream=tombola.Stream(0))
    else:
        draw = lambda size: index.draw(size).indices  # noqa: E731

    def call():
        nonlocal at
        at = (at + batch) % (pool.size - batch)
        index.set(draw(batch), pool[at : at + batch])

    return call, batch


def sampler_point(make, batch):
    import tombola

    n = 10**6
    sampler = {
        "printed": lambda: tombola.VRB(n, bound=100.0, mixing=0.1),
        "free": lambda: tombola.VRB(n, shuffle=False),
        "groups": lambda: tombola.GroupVRB(np.arange(n) % 10, shuffle=False),
    }[make]()
    losses = np.random.default_rng(2).lognormal(0, 1.5, 10**5)
    for _ in range(100):
        sampler.update(sampler.draw(10_000), losses[:10_000])
    at = 0

    def call():
        nonlocal at
        at = (at + batch) % (losses.size - batch)
        sampler.update(sampler.draw(batch), losses[at : at + batch])

    return call, batch


def linear_problem(d):
    from tombola.problems import Logistic

    rng = np.random.default_rng(3)
    X = rng.normal(size=(20_000, d)) * rng.exponential(size=(20_000, 1))
    y = X[:, 0] + rng.normal(size=20_000) > 1.0
    try:
        return Logistic(X, y, alpha=1e-4, fit_intercept=True), y
    except TypeError:  # as it was spelled before
        return Logistic(X, y, l2=1e-4, intercept=True), y


def solver_point(solver, sampler, d):
    import tombola
    from tombola import solvers

    problem, y = linear_problem(d)
    n, rounds = problem.n, 20_000
    make = {
        "uniform": lambda: tombola.Uniform(n),
        "printed": lambda: tombola.VRB(n, bound=100.0, mixing=0.1),
        "free": lambda: tombola.VRB(n, shuffle=False),
        "groups": lambda: tombola.GroupVRB(y, shuffle=False),
    }[sampler]
    method = getattr(solvers, solver)(1e-3)

    def call():
        method.minimize(problem, sampler=make(), rounds=rounds)

    return call, rounds


def certified_point(solver):
    from tombola import solvers

    problem, _ = linear_problem(30)
    method = getattr(solvers, solver)(tol=1e-6)

    def call():
        method.minimize(problem, rounds=50 * method.rounds_per_epoch(problem))

    return call, problem.n


def kmeans_point():
    from tombola.problems import KMeans
    from tombola.solvers import MiniBatchKMeans

    X = np.random.default_rng(4).normal(size=(20_000, 30))
    problem = KMeans(X, 20)

    def call():
        MiniBatchKMeans(100).minimize(problem, start=X[:20], rounds=500)

    return call, 500


SAMPLERS = {"VRB as printed": "printed", "VRB(n)": "free", "GroupVRB": "groups"}
POINTS = {
    **{f"index draw + set, B = {b}": (index_point, b) for b in (1, 128, 4096)},
    **{
        f"{name} draw + update, B = {b}": (sampler_point, make, b)
        for name, make in SAMPLERS.items()
        for b in (1, 128, 4096)
    },
    **{
        f"{solver}, {sampler}, d = {d}": (solver_point, solver, sampler, d)
        for solver, samplers in (
            ("SGD", ("uniform", "printed", "free", "groups")),
            ("AdaGrad", ("uniform", "free")),
            ("SAGA", ("uniform", "free")),
        )
        for sampler in samplers
        for d in (100, 1000)
    },
    "SDCA": (certified_point, "SDCA"),
    "Newton": (certified_point, "Newton"),
    "mini-batch k-means": (kmeans_point,),
}


# --- the two processes --------------------------------------------------------------------------


def serve():
    """Answer each name on standard input with nanoseconds an item."""
    ready = {}
    for line in sys.stdin:
        name = json.loads(line)
        if name not in ready:
            make, *arguments = POINTS[name]
            ready.clear()  # one point in memory at a time
            call, items = make(*arguments)
            call()
            start = time.perf_counter()
            call()
            once = time.perf_counter() - start
            ready[name] = call, items, max(1, round(SECONDS / max(once, 1e-7)))
        call, items, repeats = ready[name]
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        print(json.dumps((time.perf_counter() - start) / repeats / items * 1e9), flush=True)


def start(root):
    environment = {**os.environ, "PYTHONPATH": str(Path(root) / "src")}
    return subprocess.Popen(
        [sys.executable, __file__, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, env=environment,
    )  # fmt: skip


def ask(process, name):
    process.stdin.write(json.dumps(name) + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("before", nargs="?", help="a checkout of the version to compare with")
    parser.add_argument("--points", nargs="*", help="parts of the names of points; all by default")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    if options.before is None:
        parser.error("name the checkout of the version to compare with")
    wanted = [n for n in POINTS if not options.points or any(p in n for p in options.points)]
    roots = options.before, Path(__file__).parents[1]
    pairs = [tuple(map(start, roots)) for _ in range(PAIRS)]
    print(f"{'point':38} {'old ns':>9} {'new ns':>9}  new / old, median [range] of {PAIRS} pairs")
    slower = 0
    for name in wanted:
        times = np.array([timed(*pair, name) for pair in pairs])  # (pairs, turns, versions)
        before, after = np.median(times, axis=(0, 1))
        ratios = np.median(times[:, :, 1] / times[:, :, 0], axis=1)
        worse = bool(ratios.min() > SLOWER)
        slower += worse
        print(
            f"{name:38} {before:9.1f} {after:9.1f}  {np.median(ratios):.3f} "
            f"[{ratios.min():.3f}, {ratios.max():.3f}]{'  SLOWER' * worse}",
            flush=True,
        )
    print(f"{slower} of {len(wanted)} slower by more than {SLOWER - 1:.0%} beyond the interval")


def timed(old, new, name):
    """Return nanoseconds of each turn, old and new, after one turn to warm up."""
    ask(old, name), ask(new, name)
    return [(ask(old, name), ask(new, name)) for _ in range(TURNS)]


if __name__ == "__main__":
    main()
