"""Prioritised replay: sample a batch and update its priorities, ours next to others.

    python benchmarks/replay.py                # n = 10^6, B = 256, about a minute
    python benchmarks/replay.py --dry-run      # do not append to the CSV

Three comparisons, each with methods that take turns in one process; a ratio is the median over the
turns of ratios within a turn, with its quartiles. Priorities are log-normal(1.5).

"index": draw, then set the weights of what was drawn, by the bare structures, which are
`tombola.WeightIndex`, tianshou's `SegmentTree`, and cpprb's prioritised buffer with an empty
payload (its trees are not to be had alone; it also computes importances).

"buffer": the whole round of a prioritised buffer of numbers, as a training loop has it. Sample,
importances with beta = 0.4, gather the items, then raise absolute errors to alpha = 0.6 and store
them as priorities. Errors come as tensors, and batches and importances go as tensors, as training
with PyTorch needs them. `tombola.torch.replay.PrioritizedSampler` beside a tensor, and the
prioritised buffers of tianshou and cpprb by their own methods.

"TorchRL's buffer": the same round by TorchRL's `ReplayBuffer`, with its own sampler and with ours,
where its compiled trees load.
"""

import argparse
import time

import numpy as np
import timing
import torch

import index as bare
from tombola.torch.replay import PrioritizedSampler

N, BATCH, TURNS, CALLS = 10**6, 256, 41, 100
ALPHA, BETA, GOAL = 0.6, 0.4, 1.5
POOL = 1 << 16  # errors are taken from a pool, so that making them is not timed


def errors(size, seed):
    return np.random.default_rng(seed).lognormal(0, 1.5, size)


def pool():
    return torch.tensor(errors(POOL, 1), dtype=torch.float32)


class Ours:
    """Our sampler, and a tensor for what TorchRL calls the storage."""

    package = "tombola"

    def __init__(self, priorities):
        n = len(priorities)
        self.data = torch.arange(n, dtype=torch.float32)
        self.sampler = PrioritizedSampler(n, ALPHA, BETA)
        self.sampler.extend(range(n))
        self.sampler.update_priority(range(n), priorities)
        self.pool = pool()

    def round(self, at):
        slots, info = self.sampler.sample(self.data, BATCH)
        batch, weights = self.data[slots], info["priority_weight"]
        self.sampler.update_priority(slots, self.pool[at : at + BATCH])
        return batch, weights


class Tianshou:
    """tianshou's buffer; transitions beyond its trees are a plain array, to spare its `Batch`."""

    package = "tianshou"

    def __init__(self, priorities):
        from tianshou.data import PrioritizedReplayBuffer

        n = len(priorities)
        self.data = np.arange(n, dtype=np.float32)
        self.buffer = PrioritizedReplayBuffer(n, ALPHA, BETA)
        self.buffer._size = n
        self.buffer.update_weight(np.arange(n), priorities)
        self.pool = pool()

    def round(self, at):
        slots = self.buffer.sample_indices(BATCH)
        batch, weights = self.data[slots], self.buffer.get_weight(slots)
        self.buffer.update_weight(slots, self.pool[at : at + BATCH])
        return torch.from_numpy(batch), torch.from_numpy(weights / weights.max())


class Cpprb:
    """cpprb's buffer of one number an item."""

    package = "cpprb"

    def __init__(self, priorities):
        from cpprb import PrioritizedReplayBuffer

        n = len(priorities)
        self.buffer = PrioritizedReplayBuffer(n, {"x": {"dtype": np.float32}}, alpha=ALPHA)
        self.buffer.add(x=np.arange(n, dtype=np.float32), priorities=priorities.astype(np.float32))
        self.pool = pool()

    def round(self, at):
        sample = self.buffer.sample(BATCH, beta=BETA)
        self.buffer.update_priorities(sample["indexes"], self.pool[at : at + BATCH].numpy())
        return torch.from_numpy(sample["x"]), torch.from_numpy(sample["weights"])


class TorchRL:
    """TorchRL's `ReplayBuffer` with its own sampler."""

    package = "torchrl"

    def __init__(self, priorities):
        from torchrl.data import LazyTensorStorage, ReplayBuffer

        n = len(priorities)
        self.buffer = ReplayBuffer(
            storage=LazyTensorStorage(n), sampler=self.new_sampler(n), batch_size=BATCH
        )
        self.buffer.extend(torch.arange(n, dtype=torch.float32))
        self.buffer.update_priority(torch.arange(n), torch.tensor(priorities, dtype=torch.float32))
        self.pool = pool()

    def new_sampler(self, n):
        from torchrl.data import PrioritizedSampler as Theirs

        return Theirs(n, ALPHA, BETA)

    def round(self, at):
        batch, info = self.buffer.sample(return_info=True)
        self.buffer.update_priority(info["index"], self.pool[at : at + BATCH])
        return batch, info["priority_weight"]


class OursInTorchRL(TorchRL):
    """The same buffer with our sampler."""

    package = "tombola"

    def new_sampler(self, n):
        return PrioritizedSampler(n, ALPHA, BETA)


class Bare:
    """One of the structures of benchmarks/index.py, and a pool of weights for it."""

    def __init__(self, make, weights):
        self.peer = make(weights)
        self.pool = bare.weights_of(POOL, seed=1)

    def round(self, at):
        self.peer.set(self.peer.draw(BATCH), self.pool[at : at + BATCH])


COMPARISONS = {
    "index": {"tombola": bare.Tombola, "tianshou": bare.Tianshou, "cpprb": bare.Cpprb},
    "buffer": {"tombola": Ours, "tianshou": Tianshou, "cpprb": Cpprb},
    "TorchRL's buffer": {"tombola": OursInTorchRL, "torchrl": TorchRL},
}


def methods(what):
    """Make the methods of a comparison; return them, and why others are absent."""
    made, absent = {}, {}
    for name, make in COMPARISONS[what].items():
        try:
            if what == "index":
                made[name] = Bare(make, bare.weights_of(N))
            else:
                made[name] = make(errors(N, 0))
        except (ImportError, OSError, RuntimeError) as error:  # RuntimeError: trees did not load
            absent[name] = str(error).split("\n")[0]
    return made, absent


def compare(what):
    """Yield a row for each method."""
    made, absent = methods(what)
    base = {"what": what, "n": N, "B": BATCH}
    for name, reason in absent.items():
        print(f"{what}: {name} is absent: {reason}")
        yield base | {"method": name, "note": f"absent: {reason}"}
    if "tombola" not in made or len(made) == 1:
        return
    took = {name: [] for name in made}
    for turn in range(TURNS + 1):
        for name, method in made.items():
            start = time.perf_counter()
            for call in range(CALLS):
                method.round((turn * CALLS + call) * BATCH % (POOL - BATCH))
            if turn:  # the first may compile
                took[name].append((time.perf_counter() - start) / CALLS * 1e6)
    own = np.array(took["tombola"])
    for name, times in took.items():
        low, ratio, high = np.quantile(np.array(times) / own, [0.25, 0.5, 0.75])
        package = COMPARISONS[what][name].package
        yield base | {
            "method": name,
            "version": timing.version(package),
            "microseconds": round(float(np.median(times)), 1),
            "ratio": round(float(ratio), 3),
            "quartile_1": round(float(low), 3),
            "quartile_3": round(float(high), 3),
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dry-run", action="store_true", help="do not append to the CSV")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = [row for what in COMPARISONS for row in compare(what)]
    lines = [
        [r["what"], r["method"], f"{r['microseconds']}", f"{r['ratio']:.2f}",
         f"[{r['quartile_1']:.2f}, {r['quartile_3']:.2f}]"]
        for r in rows if "ratio" in r
    ]  # fmt: skip
    print(f"\nsample and update {BATCH} of {N:,} items; times slower than tombola")
    timing.table(["comparison", "method", "microseconds", "ratio", "quartiles"], lines)
    for row in rows:
        if row.get("ratio", GOAL) < GOAL and row["method"] != "tombola":
            print(f"MISSED: {row['method']}, {row['what']}: {row['ratio']} < {GOAL}")
    if not options.dry_run:
        columns = ("what", "n", "B", "method", "version", "torch", "microseconds", "ratio",
                   "quartile_1", "quartile_3", "note")  # fmt: skip
        rows = [row | {"torch": torch.__version__} for row in rows]
        timing.append("replay", [{name: row.get(name) for name in columns} for row in rows])


if __name__ == "__main__":
    main()
