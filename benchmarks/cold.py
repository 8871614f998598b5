"""What a new user waits for: the first draw, the first fit, and what each further kind adds.

    python benchmarks/cold.py             # about two minutes; run it with nothing else running
    python benchmarks/cold.py --only Lasso                # the lines whose name contains this

Each line is a process of its own. The first ones begin with an empty cache of machine code; "and
then" lines keep the cache of the line before them. Seconds include everything but starting Python
and importing.
"""

import argparse
import os
import subprocess
import sys
import tempfile

import timing

SETUP = """
import time, warnings
warnings.simplefilter("ignore")
import numpy as np, scipy.sparse as sp
import tombola
from tombola import estimators
rng = np.random.default_rng(0)
X = rng.normal(size=(2000, 20))
y = X[:, 0] + rng.normal(size=2000) > 1
def play(sampler):
    draw = sampler.draw(32)
    {update}
start = time.perf_counter()
{use}
print("seconds", time.perf_counter() - start)
"""
DRAW, UPDATE = (
    "pass",
    "sampler.update(draw, np.ones(32)); sampler.update(sampler.draw(32), np.ones(32))",
)
PRINTED = "tombola.VRB(300, bound=1.0)"
GROUPS = "tombola.GroupVRB(np.arange(300) % 3)"
FIT = "estimators.LinearClassifier(max_iter=3)"
SDCA = 'estimators.LinearClassifier(solver="sdca", max_iter=3)'
HINGE = 'estimators.LinearClassifier(loss="hinge", max_iter=3)'
REGRESSION = "estimators.LinearRegressor(max_iter=3)"
# what, the goal in seconds, whether the cache begins empty, what to do
LINES = [
    ("VRB(n), first draw", 3, True, "play(tombola.VRB(300))", DRAW),
    ("and then its first update", 5, False, "play(tombola.VRB(300))", UPDATE),
    ("and then GroupVRB, first draw", 5, False, f"play({GROUPS})", DRAW),
    ("and then its first update", 5, False, f"play({GROUPS})", UPDATE),
    ("and then VRB as printed, draw and update", 5, False, f"play({PRINTED})", UPDATE),
    ("GroupVRB, first draw", 4, True, f"play({GROUPS})", DRAW),
    ("linear classifier, first fit", 3, True, f"{FIT}.fit(X, y)", DRAW),
    ("and then sparse rows", 5, False, f"{FIT}.fit(sp.csr_matrix(X), y)", DRAW),
    ("and then float32 rows", 5, False, f"{FIT}.fit(X.astype(np.float32), y)", DRAW),
    ("and then three classes", 5, False, f"{FIT}.fit(X, np.arange(2000) % 3)", DRAW),
    ("and then regression", 5, False, f"{REGRESSION}.fit(X, X[:, 0])", DRAW),
    ("SDCA, first fit", 5, True, f"{SDCA}.fit(X, y)", DRAW),
    ("and then hinge", 5, False, f"{HINGE}.fit(X, y)", DRAW),
    ("Lasso, first fit", 2, True, "estimators.Lasso(alpha=0.1).fit(X, X[:, 0])", DRAW),
    ("k-means, first fit", 3, True, "estimators.KMeans(5).fit(X)", DRAW),
    ("mini-batch k-means, first fit", 3, True, "estimators.MiniBatchKMeans(5).fit(X)", DRAW),
]  # fmt: skip


def seconds(use, update, folder):
    """Run one line in a process of its own; return its seconds, and what it wrote to stderr."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
    done = subprocess.run(
        [sys.executable, "-c", SETUP.format(use=use, update=update)],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return float(done.stdout.split()[-1]), done.stderr.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="part of the names of lines; no rows are kept")
    only = parser.parse_args().only
    rows, folder, said = [], None, ""
    for what, goal, empty, use, update in LINES:
        if only not in what:
            continue
        if empty or folder is None:
            folder = tempfile.mkdtemp()
        took, line = seconds(use, update, folder)
        said = said or line
        print(
            f"  {'met   ' if took <= goal else 'MISSED'}  {took:6.2f} <= {goal}  {what}", flush=True
        )
        rows.append({"what": what, "goal": goal, "seconds": round(took, 2)})
    print(f"\non stderr, in the first of them: {said or 'nothing'}")
    if not only:
        timing.append("cold", rows)


if __name__ == "__main__":
    main()
