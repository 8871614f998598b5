"""Cost of a draw and of a draw followed by a change of the drawn weights, next to peers.

    python benchmarks/index.py                 # everything, about 10 minutes, 6 GB
    python benchmarks/index.py --sizes 4 6     # n = 10^4 and 10^6 only

Every library gets the same log-normal(1.5) weights and, after each draw, new ones from the
same distribution for the items drawn: most of them change their height in our index, which
is the dear case. A peer that is not installed, or cannot hold n items, is reported as absent.
"""

import argparse
import subprocess
import sys
import time

import numpy as np
import timing

import tombola

BATCHES = (1, 128, 4096)
POOL = 1 << 16  # new weights are taken from a pool, so that making them is not timed


class Tombola:
    package = "tombola"

    def __init__(self, weights):
        self.index = tombola.WeightIndex(weights)

    def draw(self, size):
        return self.index.draw(size).indices

    def set(self, items, weights):
        self.index.set(items, weights)


class Tianshou:
    """The segment tree of tianshou's prioritised buffer."""

    package = "tianshou"

    def __init__(self, weights):
        from tianshou.data import SegmentTree

        self.tree = SegmentTree(len(weights))
        self.tree[np.arange(len(weights))] = weights.astype(float)
        self.generator = np.random.default_rng(0)

    def draw(self, size):
        return self.tree.get_prefix_sum_idx(self.generator.random(size) * self.tree.reduce())

    def set(self, items, weights):
        self.tree[items] = weights


class Cpprb:
    """cpprb's prioritised buffer with an empty payload; it also computes its own weights."""

    package = "cpprb"

    def __init__(self, weights):
        from cpprb import PrioritizedReplayBuffer

        if len(weights) > 10**7:
            raise MemoryError("its trees and payload would not fit beside the others")
        self.buffer = PrioritizedReplayBuffer(len(weights), {"x": {"dtype": np.int8}}, alpha=1.0)
        for start in range(0, len(weights), 10**6):
            part = weights[start : start + 10**6].astype(np.float32)
            self.buffer.add(x=np.zeros(len(part), np.int8), priorities=part)

    def draw(self, size):
        return self.buffer.sample(size, beta=1.0)["indexes"]

    def set(self, items, weights):
        self.buffer.update_priorities(items, weights)


class NumpyChoice:
    """`Generator.choice` with p: rebuilds its cumulative sum in every call."""

    package = "numpy"

    def __init__(self, weights):
        self.weights = weights.astype(float)
        self.generator = np.random.default_rng(0)

    def draw(self, size):
        p = self.weights / self.weights.sum()
        return self.generator.choice(len(p), size, p=p)

    def set(self, items, weights):
        self.weights[items] = weights


class TorchMultinomial:
    """`torch.multinomial`: reads all weights in every call; at most 2^24 items."""

    package = "torch"

    def __init__(self, weights):
        import torch

        if len(weights) > 2**24:
            raise MemoryError("torch.multinomial takes at most 2^24 categories")
        torch.manual_seed(0)
        self.torch = torch
        self.weights = torch.tensor(weights, dtype=torch.float32)

    def draw(self, size):
        return self.torch.multinomial(self.weights, size, replacement=True)

    def set(self, items, weights):
        self.weights[items] = self.torch.as_tensor(weights, dtype=self.torch.float32)


class Gather:
    """Not a sampler: reading as many items at random places, the floor that memory sets."""

    package = "numpy"

    def __init__(self, weights):
        self.weights = weights
        self.places = np.random.default_rng(0).integers(0, len(weights), 1 << 20)
        self.at = 0

    def draw(self, size):
        self.at = (self.at + size) % (len(self.places) - size)
        return self.weights[self.places[self.at : self.at + size]]

    set = None


LIBRARIES = {
    "tombola": Tombola,
    "cpprb": Cpprb,
    "tianshou": Tianshou,
    "numpy choice": NumpyChoice,
    "torch multinomial": TorchMultinomial,
    "gather": Gather,
}


def weights_of(n, seed=0):
    normal = np.random.default_rng(seed).normal(0, 1.5, n)
    return np.maximum(1, np.exp(normal) * 2**16).astype(np.int64)


def measure(n):
    """Yield a row for each library, batch size and operation."""
    weights, pool = weights_of(n), weights_of(POOL, seed=1)
    for name, library in LIBRARIES.items():
        base = {"library": name, "version": timing.version(library.package), "n": n}
        try:
            peer = library(weights)
        except (ImportError, MemoryError) as error:
            reason = "not installed" if isinstance(error, ImportError) else str(error)
            yield base | {"version": None, "operation": "absent", "note": reason}
            continue
        for batch in BATCHES:
            at = 0

            def draw(peer=peer, batch=batch):
                peer.draw(batch)

            def draw_and_set(peer=peer, batch=batch):
                nonlocal at
                at = (at + batch) % (POOL - batch)
                peer.set(peer.draw(batch), pool[at : at + batch])

            for operation, call in (("draw", draw), ("draw + set", draw_and_set)):
                if operation == "draw + set" and peer.set is None:
                    continue
                low, middle, high = timing.nanoseconds(call, batch)
                yield base | {
                    "batch": batch,
                    "operation": operation,
                    "ns_per_item": round(middle, 2),
                    "quartile_1": round(low, 2),
                    "quartile_3": round(high, 2),
                }
        del peer


def report(rows):
    """Print the table, then the targets and whether they were met in this run."""
    cost = {
        (row["library"], row["n"], row.get("batch"), row["operation"]): row.get("ns_per_item")
        for row in rows
    }
    sizes = sorted({row["n"] for row in rows})
    for operation in ("draw", "draw + set"):
        print(f"\nnanoseconds per item, {operation}")
        header = ["n", "batch", *LIBRARIES]
        lines = []
        for n in sizes:
            for batch in BATCHES:
                cells = [cost.get((name, n, batch, operation)) for name in LIBRARIES]
                shown = ["absent" if cell is None else f"{cell:,.0f}" for cell in cells]
                lines.append([f"{n:,}", str(batch), *shown])
        timing.table(header, lines)
    for row in rows:
        if row["operation"] == "absent":
            print(f"{row['library']} at n = {row['n']:,}: absent ({row['note']})")

    def ratio(top, bottom):
        top, bottom = cost.get(top), cost.get(bottom)
        return None if top is None or bottom is None else top / bottom

    both, big = "draw + set", 10**8
    peers = [ratio((p, 10**6, 128, both), ("tombola", 10**6, 128, both)) for p in PEERS]
    peers = [value for value in peers if value is not None]
    single = [cost.get(("tombola", n, 1, both)) for n in sizes]
    targets = [
        ("times faster than the best of cpprb and tianshou (n = 10^6, batch 128)",
         min(peers) if peers else None, ">=", 8),
        ("draw at n = 10^8 over draw at n = 10^4 (batch 4096)",
         ratio(("tombola", big, 4096, "draw"), ("tombola", 10**4, 4096, "draw")), "<=", 2),
        ("draw over a random gather (n = 10^8, batch 4096)",
         ratio(("tombola", big, 4096, "draw"), ("gather", big, 4096, "draw")), "<=", 6),
        ("microseconds for draw + set of one item from Python, worst n",
         max(single) / 1000, "<=", 5),
    ]  # fmt: skip
    print("\ntargets")
    for text, value, sign, goal in targets:
        if value is None:
            print(f"  not measured  {text}")
        else:
            met = value >= goal if sign == ">=" else value <= goal
            print(f"  {'met   ' if met else 'MISSED'}  {value:6.2f} {sign} {goal}  {text}")


PEERS = ("cpprb", "tianshou")


def memory_and_start():
    """Bytes an item of the index itself, and seconds to import and to a first draw."""
    n = 10**6
    print(f"\nmemory: {tombola.WeightIndex.uniform(n).nbytes / n:.3f} bytes an item")
    script = "import tombola; tombola.WeightIndex([1, 2]).draw(1)"
    for text, code in (("import tombola", "import tombola"), ("import and first draw", script)):
        took = []
        for _ in range(5):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            took.append(time.perf_counter() - start)
        print(f"{text}, new process, warm cache: {np.median(took):.2f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[4, 6, 7, 8], help="powers of ten for n"
    )
    parser.add_argument("--dry-run", action="store_true", help="do not append to the CSV")
    options = parser.parse_args()
    rows = []
    for exponent in options.sizes:
        for row in measure(10**exponent):
            rows.append(row)
            took = f"{row['ns_per_item']:12,.1f} ns" if "ns_per_item" in row else ""
            print(
                f"n = 10^{exponent}  {row['library']:18} {row['operation']:11}"
                f" {row.get('batch', ''):>5} {took}",
                flush=True,
            )
    report(rows)
    memory_and_start()
    if not options.dry_run:
        columns = ("library", "version", "n", "batch", "operation", "ns_per_item",
                   "quartile_1", "quartile_3", "note")  # fmt: skip
        timing.append("index", [{name: row.get(name) for name in columns} for row in rows])


if __name__ == "__main__":
    main()
