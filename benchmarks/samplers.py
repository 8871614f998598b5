"""Cost of draw and update: the index and the samplers, next to prioritised replay buffers.

    python benchmarks/samplers.py                 # everything, about 15 minutes, 9 GB
    python benchmarks/samplers.py --sizes 4 6     # n = 10^4 and 10^6 only
    python benchmarks/samplers.py --sizes         # the first epoch only

`VRB` with the paper's parameters and without any, and `GroupVRB` with ten groups. In the steady
state, the last two are first fed an epoch and kept in their adaptive mode, which is the more
expensive one. In the first epoch, all start fresh, and n items are drawn and fed back: most of them
have no loss before, and their memory has not been touched. Peers: sample, then update the
priorities of what was sampled.

"gathers" is the floor: the time to read, at random and independently, the memory that each draw and
each update must read, one cache line for what lies side by side.
"""

import argparse
import time

import numpy as np
import timing
from numba import njit

import tombola
from index import BATCHES, POOL, Cpprb, Tianshou, weights_of


def fed(sampler):
    """Feed an epoch of losses, and keep the sampler in its adaptive mode."""
    losses, fallback = np.random.default_rng(2).lognormal(0, 1.5, 10_000), sampler.state.fallback[0]
    for _ in range(sampler.n // 10_000 + 2):
        fallback.shuffling, fallback.left = 0, 2**62
        sampler.update(sampler.draw(10_000), losses)
    return sampler


SAMPLERS = {
    "VRB, as printed": lambda n: tombola.VRB(n, bound=100.0, mixing=0.1),
    "VRB(n)": lambda n: fed(tombola.VRB(n)),
    "GroupVRB": lambda n: fed(tombola.GroupVRB(np.arange(n) % 10)),
}
# bytes from one item to the next in each array that a draw and an update read at random
GATHERS = {
    "index": (4, 8, 8, 4),  # order, weight; weight, position
    "VRB, as printed": (4, 8, 8, 8, 4),  # order, weight; score, weight, position
    "VRB(n)": (4, 24, 24),  # order, item; item
    "GroupVRB": (4, 32, 4, 32),  # order, member; place, member
}
FRESH = {
    "VRB(n)": tombola.VRB,
    "GroupVRB": lambda n: tombola.GroupVRB(np.arange(n) % 10),
}
PEERS = {"cpprb": Cpprb, "tianshou": Tianshou}
GOALS = {"index": (3, 2), "VRB(n)": (2, 1.5), "GroupVRB": (1.5, 1.2)}  # times tianshou
FIRST_EPOCH_GOALS = {"VRB(n)": (2, 1.5), "GroupVRB": (2, 1.5)}  # the same, from a fresh sampler
UPDATE = "draw + update, ns an item"
FIRST_EPOCH = "draw + update, first epoch"
QUARTILES = (0.25, 0.5, 0.75)


class Index:
    """Our index by itself: draw, then set the weights of what was drawn."""

    def __init__(self, n):
        self.index = tombola.WeightIndex(weights_of(n))

    def draw(self, size):
        return self.index.draw(size).indices

    def set(self, items, weights):
        self.index.set(items, weights)


@njit
def gather(array, places):
    total = 0
    for place in places:
        total += array[place]
    return total


def floor(n, strides):
    """Nanoseconds to read one random element of each array, all reads independent."""
    generator, total = np.random.default_rng(3), 0.0
    for stride in strides:
        array = np.full(n * stride // 4, 1, dtype=np.int32)[:: stride // 4]
        pools = [generator.integers(0, n, 2**17) for _ in range(4)]
        gather(array, pools[0])
        took = []
        for turn in range(12):
            start = time.perf_counter()
            gather(array, pools[turn % 4])
            took.append((time.perf_counter() - start) / 2**17 * 1e9)
        total += float(np.median(took))
    return total


def race(n=10**6, turns=15):
    """Yield, for each goal, the ratio to tianshou: the median of turns, and its quartiles."""
    pool = weights_of(POOL, seed=1)
    try:
        peer = Tianshou(weights_of(n))
    except ImportError:
        return
    index, samplers = Index(n), {name: SAMPLERS[name](n) for name in GOALS if name in SAMPLERS}
    for k, batch in enumerate((128, 4096)):
        calls = {name: draws_and_updates(sampler, pool) for name, sampler in samplers.items()}
        calls |= {"index": draws_and_sets(index, pool), "tianshou": draws_and_sets(peer, pool)}
        took = {name: [] for name in calls}
        for _ in range(turns):
            for name, call in calls.items():
                start = time.perf_counter()
                for at in range(0, POOL - batch, POOL // 16):
                    for _ in range(4096 // batch):
                        call(at, batch)
                took[name].append(time.perf_counter() - start)
        for name, goals in GOALS.items():
            ratios = np.array(took["tianshou"]) / np.array(took[name])
            yield name, batch, goals[k], np.quantile(ratios, QUARTILES)


def first_epoch(n, turns=5):
    """Return nanoseconds an item over the first n draws of a fresh sampler, by batch and name.

    All take turns, so that a change of the machine's speed meets all of them; tianshou's tree is
    fresh, too. The first turn compiles, and is not counted.
    """
    pool = weights_of(POOL, seed=1)
    makers = {name: lambda make=make: draws_and_updates(make(n), pool)
              for name, make in FRESH.items()}  # fmt: skip
    try:
        Tianshou(weights_of(2))
        makers["tianshou"] = lambda: draws_and_sets(Tianshou(weights_of(n)), pool)
    except ImportError:
        print("tianshou is absent: not installed")
    took = {batch: {name: [] for name in makers} for batch in (128, 4096)}
    for batch, times in took.items():
        for turn in range(turns + 1):
            for name, make in makers.items():
                call, rounds = make(), max(1, n // batch)
                start = time.perf_counter()
                for k in range(rounds):
                    call(k * batch % (POOL - batch), batch)
                if turn > 0:
                    times[name].append((time.perf_counter() - start) / (rounds * batch) * 1e9)
    return took


def first_epoch_rows(n, took):
    """Yield a row for each sampler or peer and batch size."""
    for batch, times in took.items():
        for name, nanoseconds in times.items():
            base = ours(name, n) if name in FRESH else peer_base(name, n)
            yield base | quartiles(batch, FIRST_EPOCH, np.quantile(nanoseconds, QUARTILES))


def report_first_epoch(n, took):
    """Print whether the targets of the first epoch were met in this run."""
    print(f"\ntargets of the first epoch, n = {n:,}")
    for k, (batch, times) in enumerate(took.items()):
        for name, goals in FIRST_EPOCH_GOALS.items() if "tianshou" in times else ():
            ratios = np.array(times["tianshou"]) / np.array(times[name])
            low, middle, high = np.quantile(ratios, QUARTILES)
            text = f"{name}: times faster than tianshou, B = {batch}"
            verdict(middle, ">=", goals[k], f"{text}, in turns [{low:.2f}, {high:.2f}]")


def draws_and_updates(sampler, pool):
    """A function of (at, batch): draw, and feed back numbers of the pool."""
    losses = pool / 2.0**16
    return lambda at, batch: sampler.update(sampler.draw(batch), losses[at : at + batch])


def draws_and_sets(index, pool):
    """The same for an index."""
    return lambda at, batch: index.set(index.draw(batch), pool[at : at + batch])


def bytes_of(state):
    """The memory of a state: of each block that its arrays lie in, counted once."""
    blocks, parts = {}, [state]
    while parts:
        part = parts.pop()
        if isinstance(part, tuple):
            parts += part
            continue
        while isinstance(part.base, np.ndarray):
            part = part.base
        blocks[id(part)] = part.nbytes
    return sum(blocks.values())


def measure(n):
    """Yield a row for each sampler or peer and batch size."""
    pool = weights_of(POOL, seed=1)
    for name, strides in GATHERS.items():
        yield ours(name, n) | {
            "operation": "gathers, ns an item",
            "value": round(floor(n, strides), 2),
        }
    index = Index(n)
    size = round(index.index.nbytes / n, 2)
    yield ours("index", n) | {"operation": "bytes an item", "value": size}
    yield from costs(ours("index", n), draws_and_sets(index, pool))
    del index
    for name, make in SAMPLERS.items():
        sampler = make(n)
        size = round(bytes_of(sampler.state) / n, 2)
        yield ours(name, n) | {"operation": "bytes an item", "value": size}
        draw_and_update = draws_and_updates(sampler, pool)
        yield from costs(ours(name, n), draw_and_update)
        longest = 0.0
        for _ in range(3_000):  # of the largest batch, draw and update together
            start = time.perf_counter()
            draw_and_update(0, BATCHES[-1])
            longest = max(longest, time.perf_counter() - start)
        yield ours(name, n) | {"operation": "longest call, ms", "value": round(longest * 1000, 3)}
        del sampler, draw_and_update
    for name, make in PEERS.items():
        base = peer_base(name, n)
        try:
            peer = make(weights_of(n))
        except (ImportError, MemoryError) as error:
            reason = "not installed" if isinstance(error, ImportError) else str(error)
            yield base | {"version": None, "operation": f"absent: {reason}"}
            continue
        yield from costs(base, draws_and_sets(peer, pool))
        del peer


def ours(name, n):
    return {"library": name, "version": timing.version("tombola"), "n": n}


def peer_base(name, n):
    return {"library": name, "version": timing.version(PEERS[name].package), "n": n}


def costs(base, call):
    """Yield the cost of `call(at, batch)` for each batch size, `at` moving through the pool."""
    for batch in BATCHES:
        at = 0

        def move_on(batch=batch):
            nonlocal at
            at = (at + batch) % (POOL - batch)
            call(at, batch)

        yield base | cost(move_on, batch)


def cost(call, batch):
    return quartiles(batch, UPDATE, timing.nanoseconds(call, batch))


def quartiles(batch, operation, found):
    low, middle, high = found
    return {
        "batch": batch,
        "operation": operation,
        "value": round(middle, 2),
        "quartile_1": round(low, 2),
        "quartile_3": round(high, 2),
    }


def report(rows):
    """Print the table, then the targets and whether they were met in this run."""
    value = {(r["library"], r["n"], r.get("batch"), r["operation"]): r.get("value") for r in rows}
    sizes = sorted({row["n"] for row in rows})
    names = [*GATHERS, *PEERS]
    lines = []
    for n in sizes:
        for batch in BATCHES:
            cells = [value.get((name, n, batch, UPDATE)) for name in names]
            shown = ["absent" if cell is None else f"{cell:,.0f}" for cell in cells]
            lines.append([f"{n:,}", str(batch), *shown])
        floors = [value.get((name, n, None, "gathers, ns an item")) for name in names]
        lines.append([f"{n:,}", "gathers", *("" if f is None else f"{f:,.0f}" for f in floors)])
    print("\nnanoseconds per item, draw + update")
    timing.table(["n", "batch", *names], lines)
    print("\ntargets")
    for name, batch, goal, (low, middle, high) in race():
        text = f"{name}: times faster than tianshou, n = 10^6, B = {batch}"
        verdict(middle, ">=", goal, f"{text}, in turns [{low:.2f}, {high:.2f}]")
    for name in GATHERS:
        small, big = value.get((name, 10**4, 4096, UPDATE)), value.get((name, 10**8, 4096, UPDATE))
        if small and big:
            verdict(big / small, "<=", 4, f"{name}: n = 10^8 over n = 10^4, B = 4096")
    largest = sizes[-1]
    for name in SAMPLERS:
        single = [value[name, n, 1, UPDATE] for n in sizes]
        verdict(max(single) / 1000, "<=", 8, f"{name}: microseconds, B = 1, worst n")
        bytes_each = value[name, largest, None, "bytes an item"]
        limit = 44 if name == "GroupVRB" else 32
        verdict(bytes_each, "<=", limit, f"{name}: bytes an item at n = {largest:,}")
        stall = value[name, largest, None, "longest call, ms"]
        verdict(stall, "<=", 50, f"{name}: longest call in milliseconds at n = {largest:,}")


def verdict(value, sign, goal, text):
    met = value >= goal if sign == ">=" else value <= goal
    print(f"  {'met   ' if met else 'MISSED'}  {value:7.2f} {sign} {goal}  {text}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--sizes", type=int, nargs="*", default=[4, 6, 8], help="powers of ten for n"
    )
    parser.add_argument(
        "--first-epoch", type=int, default=10**6, metavar="N", help="items of the first epoch"
    )
    parser.add_argument("--dry-run", action="store_true", help="do not append to the CSV")
    options = parser.parse_args()
    rows = []

    def keep(row):
        rows.append(row)
        print(
            f"n = {row['n']:<11,} {row['library']:20} {row['operation']:26}"
            f" {row.get('batch', ''):>5} {row.get('value', ''):>12}",
            flush=True,
        )

    took = first_epoch(options.first_epoch)
    for row in first_epoch_rows(options.first_epoch, took):
        keep(row)
    report_first_epoch(options.first_epoch, took)
    for exponent in options.sizes:
        for row in measure(10**exponent):
            keep(row)
    if options.sizes:
        report([row for row in rows if row["operation"] != FIRST_EPOCH])
    if not options.dry_run:
        columns = ("library", "version", "n", "batch", "operation", "value",
                   "quartile_1", "quartile_3")  # fmt: skip
        timing.append("samplers", [{name: row.get(name) for name in columns} for row in rows])


if __name__ == "__main__":
    main()
