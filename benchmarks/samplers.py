"""Cost of a sampler's draw and update, next to prioritised replay buffers.

    python benchmarks/samplers.py                 # everything, about 8 minutes, 6 GB
    python benchmarks/samplers.py --sizes 4 6     # n = 10^4 and 10^6 only

`VRB` with the paper's parameters and without any; a parameter-free sampler is first fed an epoch
(at n = 10^8: a million losses, and then told that it was an epoch), and kept in its adaptive
mode, which is the dear one. Peers: sample, then update the priorities of what was sampled.
"""

import argparse
import time

import numpy as np
import timing

import tombola
from index import BATCHES, POOL, Cpprb, Tianshou, weights_of


def printed(n):
    return tombola.VRB(n, bound=100.0, mixing=0.1)


def parameter_free(n):
    sampler = tombola.VRB(n)
    generator = np.random.default_rng(2)
    for _ in range(min(n, 10**6) // 10_000 + 2):
        sampler.update(sampler.draw(10_000), generator.lognormal(0, 1.5, 10_000))
    fallback, rule = sampler.state.fallback[0], sampler.state.rule[0]
    fallback.shuffling, fallback.left, rule.fed = 0, 2**62, max(rule.fed, n)
    return sampler


SAMPLERS = {"VRB, as printed": printed, "VRB, parameter-free": parameter_free}
PEERS = {"cpprb": Cpprb, "tianshou": Tianshou}


def bytes_of(part):
    """The memory of a state: an array, or a tuple of parts."""
    return sum(map(bytes_of, part)) if isinstance(part, tuple) else part.nbytes


def measure(n):
    """Yield a row for each sampler or peer and batch size."""
    pool = weights_of(POOL, seed=1)
    losses = pool / 2.0**16
    for name, make in SAMPLERS.items():
        base = {"library": name, "version": timing.version("tombola"), "n": n}
        sampler = make(n)
        yield base | {
            "operation": "bytes an item",
            "value": round(bytes_of(sampler.state) / n, 2),
        }
        at = 0
        for batch in BATCHES:

            def draw_and_update(sampler=sampler, batch=batch):
                nonlocal at
                at = (at + batch) % (POOL - batch)
                draw = sampler.draw(batch)
                sampler.update(draw, losses[at : at + batch])

            yield base | cost(draw_and_update, batch)
        longest = 0.0
        for _ in range(3_000):  # of the largest batch, draw and update together
            start = time.perf_counter()
            draw_and_update()
            longest = max(longest, time.perf_counter() - start)
        yield base | {"operation": "longest call, ms", "value": round(longest * 1000, 3)}
        del sampler
    for name, make in PEERS.items():
        base = {"library": name, "version": timing.version(make.package), "n": n}
        try:
            peer = make(weights_of(n))
        except (ImportError, MemoryError) as error:
            reason = "not installed" if isinstance(error, ImportError) else str(error)
            yield base | {"version": None, "operation": f"absent: {reason}"}
            continue
        for batch in BATCHES:
            place = 0

            def sample_and_update(peer=peer, batch=batch):
                nonlocal place
                place = (place + batch) % (POOL - batch)
                peer.set(peer.draw(batch), pool[place : place + batch])

            yield base | cost(sample_and_update, batch)
        del peer


def cost(call, batch):
    low, middle, high = timing.nanoseconds(call, batch)
    return {
        "batch": batch,
        "operation": "draw + update, ns an item",
        "value": round(middle, 2),
        "quartile_1": round(low, 2),
        "quartile_3": round(high, 2),
    }


def report(rows):
    """Print the table, then the targets and whether they were met in this run."""
    update = "draw + update, ns an item"
    value = {(r["library"], r["n"], r.get("batch"), r["operation"]): r.get("value") for r in rows}
    sizes = sorted({row["n"] for row in rows})
    names = [*SAMPLERS, *PEERS]
    lines = []
    for n in sizes:
        for batch in BATCHES:
            cells = [value.get((name, n, batch, update)) for name in names]
            shown = ["absent" if cell is None else f"{cell:,.0f}" for cell in cells]
            lines.append([f"{n:,}", str(batch), *shown])
    print("\nnanoseconds per item, draw + update")
    timing.table(["n", "batch", *names], lines)
    print("\ntargets")
    for name in SAMPLERS:
        ours = value.get((name, 10**6, 128, update))
        for peer in PEERS:
            theirs = value.get((peer, 10**6, 128, update))
            if ours and theirs:
                verdict(
                    theirs / ours, ">=", 8, f"{name}: times faster than {peer}, n = 10^6, B = 128"
                )
        single = [value[name, n, 1, update] for n in sizes]
        verdict(max(single) / 1000, "<=", 8, f"{name}: microseconds, B = 1, worst n")
        small, big = value.get((name, 10**4, 4096, update)), value.get((name, 10**8, 4096, update))
        if small and big:
            verdict(big / small, "<=", 4, f"{name}: n = 10^8 over n = 10^4, B = 4096")
        largest = sizes[-1]
        bytes_each = value[name, largest, None, "bytes an item"]
        verdict(bytes_each, "<=", 32, f"{name}: bytes an item at n = {largest:,}")
        stall = value[name, largest, None, "longest call, ms"]
        verdict(stall, "<=", 50, f"{name}: longest call in milliseconds at n = {largest:,}")


def verdict(value, sign, goal, text):
    met = value >= goal if sign == ">=" else value <= goal
    print(f"  {'met   ' if met else 'MISSED'}  {value:7.2f} {sign} {goal}  {text}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[4, 6, 8], help="powers of ten for n"
    )
    parser.add_argument("--dry-run", action="store_true", help="do not append to the CSV")
    options = parser.parse_args()
    rows = []
    for exponent in options.sizes:
        for row in measure(10**exponent):
            rows.append(row)
            print(
                f"n = 10^{exponent}  {row['library']:20} {row['operation']:26}"
                f" {row.get('batch', ''):>5} {row.get('value', ''):>12}",
                flush=True,
            )
    report(rows)
    if not options.dry_run:
        columns = ("library", "version", "n", "batch", "operation", "value",
                   "quartile_1", "quartile_3")  # fmt: skip
        timing.append("samplers", [{name: row.get(name) for name in columns} for row in rows])


if __name__ == "__main__":
    main()
