"""Draws, changes of weights and samplers on a GPU, next to what else there is; needs Triton.

    python benchmarks/device.py                  # about 5 minutes, 46 GB of the GPU's memory
    python benchmarks/device.py --sizes 4 6      # n = 10^4 and 10^6 only
    python benchmarks/device.py --tune           # how to cut kernels into programs; keeps no rows
    python benchmarks/device.py --out FOLDER     # rows are appended there

A turn is `draw(B)` and `set` of new weights for the items drawn; for a sampler, `draw(B)` and
`update` with losses. In a graph: a CUDA graph of 20 turns is replayed, and its time on the device
is divided by 20. Eager: calls from Python, by the clock of the host. All figures are medians of 7,
in microseconds.

Peers draw with replacement from the same weights: `torch.multinomial` (float32, at most 2^24
items), a cumulative sum of all weights and a binary search in it, and TorchRL's tree on the device
(float32) if it is installed.
"""

import argparse
import contextlib
import functools
import itertools
import pathlib
import time

import numpy as np
import timing
import torch

import tombola
from tombola.torch import VRB, GroupVRB, WeightIndex
from tombola.torch.device import board

SIZES = (4, 6, 7, 8, 9)
BATCHES = (128, 4096, 65_536)
TURNS = 20
REPEATS = 7
SPREAD = 2**20  # weights are below it


# ---- clocks


def in_graph(turn):
    """Microseconds of a turn that is replayed in a CUDA graph."""
    turn()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(TURNS):
            turn()
    return on_device(graph.replay, group=5) / TURNS


def on_device(call, group=1):
    """Microseconds of a call, by the clock of the device, which is never idle meanwhile."""
    took = []
    for _ in range(REPEATS + 1):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(group):
            call()
        end.record()
        torch.cuda.synchronize()
        took.append(start.elapsed_time(end) * 1e3 / group)
    return float(np.median(took[1:]))


def from_host(call, group=100):
    """Microseconds of a call from Python, by the clock of the host, with the device's work."""
    took = []
    for _ in range(REPEATS + 1):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(group):
            call()
        torch.cuda.synchronize()
        took.append((time.perf_counter() - start) * 1e6 / group)
    return float(np.median(took[1:]))


# ---- the comparison


def new_weights(n):
    generator = torch.Generator("cuda").manual_seed(n)
    return torch.randint(1, SPREAD, (n,), generator=generator, device="cuda")


def turns_of(index, size):
    """A turn of the index, its draw, and its set; the set alone alternates between two batches."""
    pair = new_weights(2 * size).view(2, size)
    fresh, items = itertools.cycle(pair), index.draw(size).indices

    def turn():
        index.set(index.draw(size).indices, pair[0])

    return turn, lambda: index.draw(size), lambda: index.set(items, next(fresh))


def row(n, size, what, how, microseconds, note=""):
    return {
        "device": torch.cuda.get_device_name(), "torch": torch.__version__,
        "triton": timing.version("triton"), "version": tombola.__version__, "n": n, "B": size,
        "what": what, "how": how, "microseconds": round(microseconds, 2), "note": note,
    }  # fmt: skip


def index_rows(n):
    """The index at all batch sizes, with its memory, and a check for synchronisation."""
    torch.cuda.empty_cache()
    weights = new_weights(n)
    before = torch.cuda.memory_allocated()
    index = WeightIndex(weights)
    bytes_each = (torch.cuda.memory_allocated() - before) / n
    del weights
    for size in BATCHES:
        turn, draw, put = turns_of(index, size)
        turn()
        with no_waiting():
            turn()
        yield row(n, size, "draw + set", "graph", in_graph(turn), f"{bytes_each:.3f} bytes an item")
        yield row(n, size, "draw", "graph", in_graph(draw))
        yield row(n, size, "set", "graph", in_graph(put))
        yield row(n, size, "draw + set", "eager", from_host(turn))
    index.check()
    index.verify()


def vrb_rows(n):
    """`VRB` at all batch sizes, with its memory."""
    yield from sampler_rows("VRB", lambda: VRB(n, device="cuda"), n)


def group_rows(n):
    """`GroupVRB` with a thousand groups."""
    if n <= 10**7:  # the host sorts items by group, once
        groups = np.arange(n) % 1000
        yield from sampler_rows("GroupVRB", lambda: GroupVRB(groups, device="cuda"), n)


def sampler_rows(name, make, n):
    """A sampler at all batch sizes: a turn is draw and update."""
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    sampler = make()
    note = f"{(torch.cuda.memory_allocated() - before) / n:.3f} bytes an item"
    for size in BATCHES:
        losses = torch.rand(size, device="cuda") ** 4
        draw = sampler.draw(size)

        def turn(size=size, losses=losses):
            sampler.update(sampler.draw(size), losses)

        turn()
        with no_waiting():
            turn()
        yield row(n, size, f"{name}: draw + update", "graph", in_graph(turn), note)
        yield row(n, size, f"{name}: draw", "graph", in_graph(lambda size=size: sampler.draw(size)))
        update = functools.partial(sampler.update, draw, losses)
        yield row(n, size, f"{name}: update", "graph", in_graph(update))
        yield row(n, size, f"{name}: draw + update", "eager", from_host(turn))
    sampler.check()


@contextlib.contextmanager
def no_waiting():
    """Raise an error if the host would wait for the device."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def multinomial(weights, size):
    if len(weights) > 2**24:
        return None, "refuses more than 2^24 items"
    weights = weights.float()
    return lambda: torch.multinomial(weights, size, replacement=True), "draw alone"


def cumulative(weights, size):
    ends = torch.empty_like(weights)

    def draw():
        torch.cumsum(weights, 0, out=ends)
        mass = torch.rand(size, dtype=torch.float64, device="cuda") * ends[-1]
        return torch.searchsorted(ends, mass.long(), right=True)

    return draw, "draw alone; random masses rounded to 53 bits"


def torchrl_tree(weights, size):
    n = len(weights)
    if n > 10**8:
        return None, "not tried beyond 10^8 items"
    try:
        from torchrl._torchrl import CudaSumSegmentTreeFp32

        tree = CudaSumSegmentTreeFp32(n, torch.device("cuda"))
        for first in range(0, n, 10**6):
            items = torch.arange(first, min(first + 10**6, n), device="cuda")
            tree.update(items, weights[items].float())
        total, fresh = weights.double().sum(), new_weights(size).float()

        def turn():
            mass = torch.rand(size, device="cuda") * total.float()
            tree.update(tree.scan_lower_bound(mass).clamp(max=n - 1), fresh)

        turn()
    except Exception as error:  # whatever it is: a peer that is not here is reported as absent
        return None, f"does not load: {type(error).__name__}"
    return turn, "draw + update"


PEERS = {
    "torch.multinomial": multinomial,
    "cumsum + searchsorted": cumulative,
    "TorchRL's tree": torchrl_tree,
}


def peer_rows(n):
    """The peers at B = 4096, called from Python."""
    size, weights = 4096, new_weights(n)
    for name, make in PEERS.items():
        call, note = make(weights, size)
        if call is None:
            print(f"  {name} at n = {n:,}: {note}")
            continue
        once = on_device(call)
        yield row(n, size, name, "eager", from_host(call, group=max(1, int(2e4 / once))), note)


# ---- a training step


def step_rows(n=10**6, size=4096, features=256, width=1024):
    """A step of about a millisecond in a graph: with the same items, with draws, with `VRB`."""
    torch.manual_seed(0)
    data = torch.randn(n, features, device="cuda")
    labels = torch.randint(0, 10, (n,), device="cuda")
    index = WeightIndex(torch.full((n,), 2**16, device="cuda"))
    sampler = VRB(n, device="cuda")
    fixed = index.draw(size).indices

    def losses_of(model, items):
        logits = model(data[items])
        return torch.nn.functional.cross_entropy(logits, labels[items], reduction="none")

    def without(model):
        losses_of(model, fixed).mean().backward()

    def by_weight(model):
        draw = index.draw(size)
        losses = losses_of(model, draw.indices)
        (losses / (n * draw.probabilities).float()).mean().backward()
        index.set(draw.indices, (losses.detach() * 2**16).long() + 1)

    def by_vrb(model):
        draw = sampler.draw(size)
        losses = losses_of(model, draw.indices)
        draw.mean(losses).backward()
        sampler.update(draw, losses)

    def timed(depth, backward):
        widths = [features, *[width] * depth, 10]
        pairs = itertools.pairwise(widths)
        layers = [torch.nn.Linear(a, b, device="cuda") for a, b in pairs]
        model = torch.nn.Sequential(*[part for la in layers for part in (la, torch.nn.ReLU())][:-1])
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

        def step():
            backward(model)
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)

        side = torch.cuda.Stream()  # as PyTorch's notes on CUDA graphs have it
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        return on_device(graph.replay, group=50)

    depth = 1
    while timed(depth, without) < 1000 and depth < 32:
        depth += 1
    plain, drawn, learnt, again = (
        timed(depth, backward) for backward in (without, by_weight, by_vrb, without)
    )
    plain = (plain + again) / 2
    yield row(n, size, "step without draws", "graph", plain, f"{depth} hidden layers")
    for what, took in {"draw + set": drawn, "VRB": learnt}.items():
        note = f"{100 * (took / plain - 1):.1f}% more than the same step without"
        yield row(n, size, f"step with {what}", "graph", took, note)
    index.check()
    sampler.check()


# ---- tuning

DRAWS = [
    (1, 1, 1), (2, 1, 1), (4, 1, 1), (4, 4, 1), (8, 4, 1), (4, 1, 8), (4, 1, 16), (8, 1, 8),
    (8, 1, 16), (16, 1, 8), (16, 1, 16), (32, 1, 16), (16, 4, 16), (32, 4, 8), (32, 4, 16),
    (64, 4, 16), (64, 8, 16), (128, 4, 16),
]  # fmt: skip
SETS = [(8, 4, 128), (16, 4, 128), (16, 4, 256), (16, 8, 512), (32, 8, 512), (32, 16, 1024)]
TABLES = [1, 2, 4, 8]


def tune(n):
    """Print microseconds of draws and sets for all ways to cut them into programs."""
    index = WeightIndex(new_weights(n))

    def took_now(call):
        """Microseconds with the cuts of now: those of earlier calls are forgotten."""
        for plans in (index._engine._draw, index._engine._set, index._engine._changes):
            plans.clear()
        return in_graph(call)

    for size in BATCHES:
        _, draw, put = turns_of(index, size)
        for launch in DRAWS:
            board.draw_launch = lambda size, launch=launch: launch
            took = took_now(draw)
            print(f"n={n:,} B={size:,} draw, {launch} tile, warps, groups: {took:.2f}", flush=True)
        for warps, gathered in itertools.product(TABLES, (0, 2**30)):
            board.SMALL, board.GATHERED = 0, gathered
            board.table_warps = lambda size, warps=warps: warps
            how = f"{warps} warps{'' if gathered else ', gathered'}"
            print(f"n={n:,} B={size:,} set by table, {how}: {took_now(put):.2f}", flush=True)
        board.SMALL = 4096
        for launch in SETS if size <= board.SMALL else ():
            for gathered in (0, 2**30):
                board.set_launch = lambda size, launch=launch: launch
                board.GATHERED = gathered
                how = f"{launch} tile, warps, chunk{'' if gathered else ', gathered'}"
                print(f"n={n:,} B={size:,} set at once, {how}: {took_now(put):.2f}", flush=True)
    index.check()
    index.verify()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES, help="powers of ten")
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, default=timing.RESULTS)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("no CUDA device: nothing to measure")
        return
    if arguments.tune:
        for power in arguments.sizes if arguments.sizes != SIZES else (8,):
            tune(10**power)
        return
    rows = []
    kinds = (index_rows, vrb_rows, group_rows, peer_rows)
    parts = [part(10**power) for power in arguments.sizes for part in kinds]
    for part in [*parts, step_rows()]:
        for found in part:
            rows.append(found)
            print(
                f"n={found['n']:<13,} B={found['B']:<7,} {found['what']:<22} {found['how']:<6}"
                f"{found['microseconds']:>12,.2f} us  {found['note']}",
                flush=True,
            )
    timing.RESULTS = arguments.out
    timing.append("device", rows)


if __name__ == "__main__":
    main()
