"""Linear models on Dask: loads of the data, rows visited and bytes moved; kills; memory.

    python benchmarks/dask.py loads --data FOLDER     # next to L-BFGS and to shuffled draws
    python benchmarks/dask.py parts --data FOLDER     # 2 to 64 partitions, with a picture
    python benchmarks/dask.py kills                   # kill -9 of a worker, at 20 random instants
    python benchmarks/dask.py memory --scratch FOLDER # 6 GB of parquet, workers of 1 GB each
    python benchmarks/dask.py summary                 # tables and picture, from rows on disk

Counts, not seconds: they are the same on every machine. A load is a read of all rows from wherever
they are; a fit by rounds reads them once for the overview, once in each round, and once for the
last certificate, all of which are counted. L-BFGS is scipy's, with a gradient that is summed over
partitions of the same collection (as dask-glm's is), from w = 0 and the intercept 0, and from
the best intercept, which takes a load to find; it gets the true distance to the minimum for
nothing, where ours is the certified one. A partition moves what it is sent and what it returns.
Gaps are relative to the objective at w = 0 with the best intercept. Columns of cover are
standardised. FOLDER holds libsvm_a9a.npz and adbench_10_cover.npz.
"""

import argparse
import contextlib
import csv
import itertools
import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path

HERE = str(Path(__file__).resolve().parent)
sys.path.insert(0, HERE)  # also in processes that a cluster starts
import timing  # noqa: E402

sys.path[:] = [it for it in sys.path if str(Path(it or ".").resolve()) != HERE]  # not this dask.py

import dask  # noqa: E402
import dask.array as da  # noqa: E402
import dask.dataframe as dd  # noqa: E402
import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from scipy import optimize, sparse  # noqa: E402

from tombola.dask import LinearClassifier  # noqa: E402
from tombola.dask.refinement import Refinement  # noqa: E402
from tombola.dask.rounds import Ascent  # noqa: E402

TARGETS = (1e-2, 1e-3, 1e-4, 1e-6)
NAMES = {"adaptive": "auto", "shuffled": "shuffle"}
PEERS = {"L-BFGS": False, "L-BFGS, best intercept": True}
ROWS, COLUMNS = 10_000_000, 20


# --- data -----------------------------------------------------------------------------------------


def a9a(folder):
    it = np.load(folder / "libsvm_a9a.npz")
    n = int(it["n_train"])
    parts = (
        np.ones(len(it["indices"])),
        it["indices"].astype(np.int32),
        it["indptr"].astype(np.int32),
    )
    return sparse.csr_matrix(parts, shape=tuple(it["shape"]))[:n], (it["y"][:n] > 0).astype(int)


def cover(folder):
    it = np.load(folder / "adbench_10_cover.npz")
    order = np.random.default_rng(0).permutation(len(it["y"]))
    X = it["X"].astype(float)[order]
    return (X - X.mean(axis=0)) / X.std(axis=0), it["y"][order].astype(int)


def cut(X, y, count):
    """Rows in memory as collections of `count` partitions."""
    cuts = np.linspace(0, X.shape[0], count + 1).astype(int)
    blocks = [
        da.from_delayed(dask.delayed(X[a:b], pure=False), (b - a, X.shape[1]), meta=X[:0])
        for a, b in itertools.pairwise(cuts)
    ]
    return da.concatenate(blocks), da.from_array(y, chunks=(tuple(np.diff(cuts)),))


def generated_block(seed, size, target):
    """Rows of a generated set: correlated columns of unlike scale, one row in ten positive."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(size, COLUMNS))
    X[:, 1:] += 0.7 * X[:, :-1]
    X *= np.geomspace(1.0, 0.1, COLUMNS)
    w = np.random.default_rng(0).normal(size=COLUMNS) / np.geomspace(1.0, 0.1, COLUMNS)
    y = (X @ w - 6.0 + 2.0 * rng.logistic(size=size) > 0).astype(int)
    return y if target else X


def generated(count, rows=ROWS):
    """The same rows for every number of partitions up to 16: 16 blocks, several to a partition."""
    size = rows // 16
    make = dask.delayed(generated_block)
    X = [da.from_delayed(make(k, size, False), (size, COLUMNS), float) for k in range(16)]
    y = [da.from_delayed(make(k, size, True), (size,), int) for k in range(16)]
    X, y = da.concatenate(X), da.concatenate(y)
    return X.rechunk((rows // count, COLUMNS)), y.rechunk(rows // count)


# --- methods --------------------------------------------------------------------------------------


def ours(X, y, alpha, draws, tol, rounds=60, **options):
    """The progress of each round, and the model."""
    seen = []
    kind = Refinement if options.get("loss") == "hinge" else Ascent
    step = kind.step

    def watched(self, **others):
        done = step(self, **others)
        seen.append(
            (self.progress, self.outputs[0].bounds[0].primal, self.outputs[0].bounds[0].unit)
        )
        return done

    kind.step = watched
    try:
        model = LinearClassifier(
            alpha=alpha, tol=tol, sampler=NAMES[draws], max_iter=rounds, random_state=0, **options
        ).fit(X, y)
    finally:
        kind.step = step
    return seen, model


def gradient_of(X, y, w):
    """Sums of the logistic losses of a block and of their gradient."""
    sign = 2.0 * y - 1.0
    margin = sign * (X @ w[:-1] + w[-1])
    slope = -sign / (1.0 + np.exp(np.minimum(margin, 700.0)))
    return np.logaddexp(0.0, -margin).sum(), np.append(X.T @ slope, slope.sum())


def lbfgs(X, y, alpha, lowest, unit, until, best_start=False, loads=150):
    """The distance to the minimum after each load of the data."""
    blocks = list(zip(np.ravel(X.to_delayed()), np.ravel(y.to_delayed()), strict=True))
    n, task, seen = X.shape[0], dask.delayed(gradient_of), []

    class Near(Exception):  # noqa: N818
        pass

    def value(w):
        parts = dask.compute(*(task(a, b, w) for a, b in blocks))
        loss = sum(p[0] for p in parts) / n + alpha / 2 * w[:-1] @ w[:-1]
        gradient = sum(p[1] for p in parts) / n + alpha * np.append(w[:-1], 0.0)
        seen.append((loss - lowest) / unit)
        if seen[-1] <= until or len(seen) >= loads:
            raise Near
        return loss, gradient

    start = np.zeros(X.shape[1] + 1)
    if best_start:
        share = float(y.mean().compute())
        start[-1] = np.log(share / (1.0 - share))
        seen.append(np.inf)
    options = {"maxiter": loads, "ftol": 0, "gtol": 0}
    with contextlib.suppress(Near):
        optimize.minimize(value, start, jac=True, method="L-BFGS-B", options=options)
    return seen


def dask_glm(X, y, alpha, unit):
    """The same by dask-glm, which penalises the intercept: distance to its own minimum.

    Its columns are not normalised, since that is another objective; nothing where it is missing.
    """
    try:
        from dask_glm import algorithms
    except ImportError:
        return []
    dense = X.map_blocks(lambda it: it.toarray() if sparse.issparse(it) else it, dtype=float)
    (dense,) = dask.persist(da.hstack([dense, da.ones((len(y), 1), chunks=(dense.chunks[0], 1))]))
    dense = dense.rechunk((dense.chunks[0], -1))
    seen, solve = [], algorithms.fmin_l_bfgs_b

    def watched(function, *others, **options):
        def value(w, *data):
            found = function(w, *data)
            seen.append(float(found[0]) / len(y))
            return found

        return solve(value, *others, **{**options, "factr": 0.0})

    algorithms.fmin_l_bfgs_b = watched
    try:
        algorithms.lbfgs(
            dense, y, regularizer="l2", lamduh=alpha * len(y), tol=0.0, max_iter=400,
            normalize=False,
        )  # fmt: skip
    finally:
        algorithms.fmin_l_bfgs_b = solve
    return [(value - min(seen)) / unit for value in seen]


# --- loads ----------------------------------------------------------------------------------------


def cases(folder, sets, quick):
    for name, load in (("a9a", a9a), ("cover", cover)):
        if name not in sets:
            continue
        X, y = load(folder)
        for alpha in (1e-4, 1.0 / len(y)):
            yield name, alpha, lambda count, X=X, y=y: cut(X, y, count)
    if "generated" in sets:
        rows = ROWS // 20 if quick else ROWS
        yield "generated", 1e-6, lambda count: dask.persist(*generated(count, rows))


def reached(trace, target):
    return next((row for row in trace if row["gap"] <= target), None)


def measure_loads(folder, sets, quick, counts=(4, 16), name="dask_loads"):
    for set_name, alpha, make in cases(folder, sets, quick):
        tol = 1e-4 if set_name == "generated" else min(TARGETS)
        lowest, unit = np.inf, 1.0
        for count in counts:
            X, y = make(count)
            n, d = X.shape
            for method in NAMES:
                seen, _ = ours(X, y, alpha, method, tol)
                lowest, unit = min(lowest, seen[-1][1]), seen[0][2]
                trace = [
                    {"gap": p.gap, "loads": p.loads, "passes": float(p.passes), "bytes": p.bytes}
                    for p, _, _ in seen
                ]
                timing.append(name, rows_of(set_name, n, d, alpha, count, method, trace))
        X, y = make(counts[0])
        moved = counts[0] * 8 * (2 * d + 3)
        traces = {
            peer: lbfgs(X, y, alpha, lowest, unit, tol, start) for peer, start in PEERS.items()
        }
        if set_name != "generated":  # which would be twice in memory
            traces["dask-glm's L-BFGS"] = dask_glm(X, y, alpha, unit)
        for method, seen in traces.items():
            trace = [
                {"gap": gap, "loads": k + 1, "passes": k + 1.0, "bytes": (k + 1) * moved}
                for k, gap in enumerate(seen)
            ]
            timing.append(name, rows_of(set_name, n, d, alpha, counts[0], method, trace))


def rows_of(set_name, n, d, alpha, count, method, trace):
    rows = []
    for target in TARGETS:
        found = reached(trace, target) or {"loads": "", "passes": "", "bytes": ""}
        rows.append(
            {"set": set_name, "n": n, "d": d, "alpha": f"{alpha:.2g}", "partitions": count,
             "method": method, "target": target, "loads": found["loads"],
             "passes": found["passes"] and round(found["passes"], 2), "bytes": found["bytes"]}
        )  # fmt: skip
    return rows


# --- kills ----------------------------------------------------------------------------------------


def cluster_of(**options):
    from distributed import LocalCluster

    return LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL,
        **options,
    )  # fmt: skip


def measure_kills(times=20, losses=(("log_loss", 1e-9), ("hinge", 1e-6))):
    """Each fit loses a worker at a random instant of the time that one without loss takes.

    Each has a cluster of its own, so that every one begins with two workers. Where a fit has ended
    before the instant, another one is drawn.
    """
    from distributed import Client

    rng, count = np.random.default_rng(0), 8
    for loss, tol in losses:
        options = {"alpha": 1e-4, "draws": "adaptive", "tol": tol, "rounds": 200, "loss": loss}
        plain, took, k = None, 0.0, 0
        while k < times // len(losses):
            with cluster_of() as cluster, Client(cluster) as client:
                X, y = generated(count, 400_000)
                ours(X, y, **{**options, "rounds": 2, "tol": 0.0})  # compiled code is loaded
                if plain is None:
                    began = time.monotonic()
                    plain, _ = ours(X, y, **options)
                    took = time.monotonic() - began
                pids = sorted(client.run(os.getpid).values())
                wait = rng.uniform(0.0, took)
                victim, dead = int(rng.choice(pids)), threading.Event()

                def kill(pid=victim, dead=dead):
                    os.kill(pid, signal.SIGKILL)
                    dead.set()

                timer = threading.Timer(wait, kill)
                timer.start()
                hurt, _ = ours(X, y, **options)
                timer.cancel()
                if not dead.is_set():
                    continue
                k += 1
                progress, primal, unit = hurt[-1]
                row = {
                    "loss": loss, "tol": tol, "kill": k, "at": round(wait / took, 3),
                    "rounds": progress.rounds,
                    "rounds_without": plain[-1][0].rounds, "restarts": progress.restarts,
                    "gap": f"{progress.gap:.2e}",
                    "difference": f"{(primal - plain[-1][1]) / unit:.2e}",
                }  # fmt: skip
                timing.append("dask_kills", [row])
                print(row, flush=True)


# --- memory ---------------------------------------------------------------------------------------


def write_parquet(folder, gigabytes, megabytes=64):
    """Write a generated set as files of some megabytes, and return its size in bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    size = megabytes * 2**20 // (8 * (COLUMNS + 1))
    for k in range(int(gigabytes * 1e9 / (size * 8 * (COLUMNS + 1))) + 1):
        path = folder / f"{k:04d}.parquet"
        if not path.exists():
            X = generated_block(k, size, False)
            table = pd.DataFrame(X, columns=[f"x{j}" for j in range(COLUMNS)])
            table["y"] = generated_block(k, size, True)
            table.to_parquet(path.with_suffix(".part"), compression=None)
            path.with_suffix(".part").rename(path)
    return sum(path.stat().st_size for path in folder.glob("*.parquet"))


def peak():
    """The largest resident memory of this process so far, in megabytes."""
    text = Path("/proc/self/status").read_text()
    return int(text.split("VmHWM:")[1].split()[0]) // 1024


def measure_memory(scratch, gigabytes=6.2):
    from distributed import Client

    size = write_parquet(scratch, gigabytes)
    with cluster_of(memory_limit="1GB") as cluster, Client(cluster) as client:
        table = dd.read_parquet(scratch)
        X, y = table[[f"x{j}" for j in range(COLUMNS)]], table["y"]
        began = time.monotonic()
        seen, _ = ours(X, y, 1e-6, "adaptive", 1e-3, verbose=1)
        seconds = round(time.monotonic() - began)
        peaks = {f"worker {k}": it for k, it in enumerate(client.run(peak).values())}
        peaks["driver and scheduler"] = peak()
    progress = seen[-1][0]
    timing.append(
        "dask_memory",
        [
            {"gigabytes": round(size / 1e9, 2), "partitions": table.npartitions, "limit_mb": 1000,
             "process": name, "peak_mb": megabytes, "rounds": progress.rounds,
             "loads": progress.loads, "gap": f"{progress.gap:.2e}", "seconds": seconds,
             "restarts": progress.restarts}
            for name, megabytes in peaks.items()
        ],
    )  # fmt: skip


# --- summary --------------------------------------------------------------------------------------


def read(name):
    path = timing.RESULTS / f"{name}.csv"
    if not path.exists():
        return []
    with path.open() as file:
        return list(csv.DictReader(file))


def summary():
    print("| set | alpha | partitions | method | loads to 1e-3, 1e-4 | passes | megabytes |")
    print("|---|---|---|---|---|---|---|")
    cells = {}
    for row in read("dask_loads"):
        key = (row["set"], row["alpha"], row["partitions"], row["method"])
        cells.setdefault(key, {})[float(row["target"])] = row
    for key, by_target in cells.items():
        chosen = [by_target[target] for target in (1e-3, 1e-4)]
        columns = [", ".join(row[name] or "-" for row in chosen) for name in ("loads", "passes")]
        moved = ", ".join(f"{int(r['bytes']) / 1e6:.2g}" if r["bytes"] else "-" for r in chosen)
        print("|", " | ".join([*key, *columns, moved]), "|")
    draw_parts()


def draw_parts():
    from tombola.report.figures import new_figure

    rows = [row for row in read("dask_parts") if float(row["target"]) == 1e-3 and row["loads"]]
    if not rows:
        return
    keys = sorted({(row["set"], row["alpha"]) for row in rows})
    figure, axes = new_figure(2, 2, height=2.4)
    styles = {"adaptive": ("C0", "o"), "shuffled": ("C1", "s")}
    for ax, key in zip(axes, keys, strict=False):
        here = [row for row in rows if (row["set"], row["alpha"]) == key]
        for method, (colour, mark) in styles.items():
            mine = [row for row in here if row["method"] == method]
            ax.plot(
                [int(row["partitions"]) for row in mine], [int(row["loads"]) for row in mine],
                color=colour, marker=mark, label=f"{method} draws",
            )  # fmt: skip
        for row in here:
            if row["method"] == "L-BFGS":
                ax.axhline(int(row["loads"]), color="0.4", linestyle="--", label="L-BFGS")
        ax.set_xscale("log", base=2)
        ax.set_ylim(bottom=0)
        ax.set_title(f"{key[0]}, alpha = {key[1]}", fontsize=9)
        ax.set_xlabel("partitions")
        ax.set_ylabel("loads to a gap of 1e-3")
    axes[0].legend(fontsize=7)
    figure.savefig(timing.RESULTS / "dask.png", dpi=130)
    print("wrote benchmarks/results/dask.png")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["loads", "parts", "kills", "memory", "summary"])
    parser.add_argument("--data", type=Path, default=os.environ.get("TOMBOLA_DATA"))
    parser.add_argument("--scratch", type=Path)
    parser.add_argument("--gigabytes", type=float, default=6.2)
    parser.add_argument("--sets", nargs="+", default=["a9a", "cover", "generated"])
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    if given.part in ("loads", "parts") and given.data is None:
        parser.error("--data FOLDER, or the environment variable TOMBOLA_DATA, is needed")
    if given.part == "memory" and given.scratch is None:
        parser.error("--scratch FOLDER is needed, with room for the files")
    if given.part == "loads":
        measure_loads(Path(given.data), given.sets, given.quick)
    elif given.part == "parts":
        sets = [name for name in given.sets if name != "generated"]
        measure_loads(Path(given.data), sets, given.quick, (2, 4, 8, 16, 32, 64), "dask_parts")
    elif given.part == "kills":
        measure_kills()
    elif given.part == "memory":
        measure_memory(given.scratch, given.gigabytes)
    else:
        summary()


if __name__ == "__main__":
    main()
