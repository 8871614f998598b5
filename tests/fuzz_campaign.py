"""Damage states by the thousand, and see that each is refused or harmless.

    python tests/fuzz_campaign.py --count 100000

Attempts run in child processes. One that crashes, hangs, takes too much memory or raises another
error than a `CheckpointError` is recorded with its number and what was damaged, and the campaign
goes on. The same seed makes the same attempts; `--only NAME --replay NUMBER` repeats one of them.
"""

import argparse
import collections
import json
import os
import resource
import selectors
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

FAULTS = ("error", "harm", "crashed", "hung", "memory")
OUTCOMES = ("refused", "harmless", "diverged", *FAULTS)
SECONDS = float(os.environ.get("FUZZ_SECONDS", "10"))  # an attempt takes at most this
SPARE = 16 * 2**20  # bytes: the memory that any attempt may take
CEILING = 6 * 2**30  # bytes: of address space that a child may add
STARTING = 900.0  # seconds: compiling, and the honest state


# ---- a child


def peak_memory(call):
    """Call a function; return the bytes by which memory grew at most, and what it returned."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = memory("VmRSS")
    result = call()
    return memory("VmHWM") - before, result


def memory(name):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return 1024 * int(line.split()[1])
    raise RuntimeError(f"/proc/self/status has no {name}")


def attempt(target, state):
    """One attempt: the outcome, and what happened if that is a fault."""
    import numpy as np

    from fuzz_targets import Harm

    try:
        with np.errstate(all="ignore"):
            return target.attempt(state), ""
    except MemoryError as error:
        return "memory", f"MemoryError: {error}"
    except Harm as error:
        return "harm", str(error)
    except Exception:
        return "error", traceback.format_exc(limit=-4)


def tried(target, state):
    """An attempt after putting the state in its place."""
    return attempt(target, state) if target.place(state) else ("refused", "")


def judged(target, state, allowed):
    """The outcome of an attempt, with its memory; that of a second one where the first took more.

    What is imported or compiled for the first time takes memory once.
    """
    for _ in range(2):
        if not target.place(state):
            return "refused", ""
        grown, (outcome, note) = peak_memory(lambda: attempt(target, state))
        if grown <= allowed:
            return outcome, note
    return "memory", f"{grown / 2**20:.0f} MiB, {allowed / 2**20:.0f} allowed; {outcome} {note}"


def size_of(state):
    """The bytes of all arrays in a state."""
    if isinstance(state, dict):
        return sum(map(size_of, state.values()))
    if isinstance(state, list):
        return sum(map(size_of, state))
    if getattr(state, "is_sparse", False):
        return 8 * state.numel()
    if hasattr(state, "nbytes"):
        return state.nbytes
    return len(state) if isinstance(state, (bytes, str)) else 8


def rng_of(seed, target, number):
    import numpy as np

    return np.random.default_rng([seed, *target.name.encode(), number])


def serve(name, seed, first, last):
    """Make the attempts first .. last - 1 on a target; a line before and after each."""
    import warnings

    from fuzz import deep
    from fuzz_targets import all_targets

    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    target = next(target for target in all_targets([name]) if target.name == name)
    try:
        honest = target.honest()
        for _ in range(3):
            outcome, note = tried(target, honest)
            if outcome != "harmless":
                raise RuntimeError(f"the honest state of {name} is {outcome}: {note}")
        grown = 0
        for _ in range(3):
            target.place(honest)
            grown = max(grown, peak_memory(lambda: attempt(target, honest))[0])
        space = memory("VmSize") + CEILING
        resource.setrlimit(resource.RLIMIT_AS, (space, space))
        print(json.dumps({"ready": True}), file=answers)
        for number in range(first, last):
            print(json.dumps({"begin": number}), file=answers)
            state, what = target.damage(honest, rng_of(seed, target, number))
            began = time.process_time()
            with deep():
                given = max(size_of(state), size_of(honest))  # what it was handed is not its doing
            outcome, note = judged(target, state, 2 * (grown + given) + SPARE)
            took = time.process_time() - began
            if took > SECONDS:
                outcome, note = "hung", f"{took:.0f} s, then {outcome}"
            found = {"end": number, "outcome": outcome}
            if outcome in FAULTS:
                found |= {"what": what, "note": note}
            print(json.dumps(found), file=answers)
    finally:
        getattr(target, "clean", lambda: None)()


# ---- the parent


class Child:
    """A child that makes attempts on a target, and its answers, line by line."""

    def __init__(self, name, seed, first, last):
        command = [sys.executable, __file__, "--serve", name, str(seed), str(first), str(last)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        self.waiting = selectors.DefaultSelector()
        self.waiting.register(self.process.stdout, selectors.EVENT_READ)
        self.rest = b""

    def answers(self):
        """Yield answers; None at the end, TimeoutError where the child is silent for too long."""
        limit = STARTING
        while True:
            # twice: after this process itself was stopped for a while, the first wait is over
            if not any(self.waiting.select(limit) for _ in range(2)):
                raise TimeoutError
            limit = 2 * SECONDS
            data = os.read(self.process.stdout.fileno(), 2**16)
            if not data:
                return
            *lines, self.rest = (self.rest + data).split(b"\n")
            yield from map(json.loads, lines)

    def end(self):
        """End the child and all that it started; return its status and its last words."""
        if self.process.poll() is None:
            try:
                self.process.wait(timeout=5 if self.rest == b"" else 0.1)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
        words = self.process.stderr.read().decode(errors="replace")
        self.process.stdout.close()
        self.process.stderr.close()
        return self.process.wait(), words[-600:]


def attack(name, seed, count, report=lambda done, counts: None):
    """Attack a target; return how often each outcome was, and the faults."""
    counts, faults, first = collections.Counter(), [], 0
    while first < count:
        child, at, ready, hung = Child(name, seed, first, count), None, False, False
        try:
            for answer in child.answers():
                ready = ready or "ready" in answer
                at = answer.get("begin", at)
                if "end" in answer:
                    counts[answer["outcome"]] += 1
                    if answer["outcome"] in FAULTS:
                        faults.append({"target": name, "seed": seed, **answer})
                    first, at = answer["end"] + 1, None
                    report(first, counts)
        except TimeoutError:
            hung = True
            os.killpg(child.process.pid, signal.SIGKILL)
        status, words = child.end()
        if at is None:
            if first < count:
                what = "hung" if hung else f"ended with status {status}"
                raise RuntimeError(f"{name}: a child {what} between attempts: {words}")
            break
        outcome = "hung" if hung else "crashed"
        counts[outcome] += 1
        note = f"status {status}: {words}"
        faults.append(
            {"target": name, "seed": seed, "end": at, "outcome": outcome, "note": note,
             "what": described(name, seed, at)}
        )  # fmt: skip
        first = at + 1
    return counts, faults


def described(name, seed, number):
    """What the damage of an attempt was, in words."""
    from fuzz_targets import all_targets

    target = next(target for target in all_targets([name]) if target.name == name)
    try:
        return target.damage(target.honest(), rng_of(seed, target, number))[1]
    finally:
        getattr(target, "clean", lambda: None)()


def divided(targets, count):
    """How many attempts each target gets: by its share, and one at least."""
    total = sum(target.share for target in targets)
    return {target.name: max(1, round(count * target.share / total)) for target in targets}


def table(rows):
    """The outcomes by target and by kind, as lines of a Markdown table."""
    kinds = collections.defaultdict(collections.Counter)
    for name, counts in rows.items():
        kinds[name.split(":")[0]] += counts
    kinds["all"] = sum(rows.values(), collections.Counter())
    wide = max(map(len, [*rows, *kinds]))
    yield f"| {'':{wide}} | attempts | " + " | ".join(OUTCOMES) + " |"
    yield "|---" * (len(OUTCOMES) + 2) + "|"
    for name, counts in [*rows.items(), *kinds.items()]:
        numbers = [f"{counts[outcome]:{len(outcome)}}" for outcome in OUTCOMES]
        yield f"| {name:{wide}} | {counts.total():8} | " + " | ".join(numbers) + " |"


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000, help="attempts in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[], help="targets whose name contains this")
    parser.add_argument("--replay", type=int, metavar="NUMBER", help="one attempt, in this process")
    parser.add_argument("--out", type=Path, help="a file for the faults, one JSON line each")
    parser.add_argument("--serve", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        name, *numbers = options.serve
        serve(name, *map(int, numbers))
        return 0

    from fuzz_targets import all_targets

    targets = all_targets(options.only)
    if options.replay is not None:
        for target in targets:
            honest = target.honest()
            state, what = target.damage(honest, rng_of(options.seed, target, options.replay))
            print(f"{target.name}, {what}:", *tried(target, state))
            getattr(target, "clean", lambda: None)()
        return 0
    began, rows, faults = time.monotonic(), {}, []
    shares = divided(targets, options.count)
    for number, (name, count) in enumerate(shares.items(), 1):
        shown = time.monotonic()

        def report(done, counts, name=name, count=count):
            nonlocal shown
            if time.monotonic() - shown > 10:
                shown = time.monotonic()
                print(f"  {name}: {done} of {count}", flush=True)

        rows[name], found = attack(name, options.seed, count, report)
        faults += found
        summary = ", ".join(f"{n} {outcome}" for outcome, n in rows[name].most_common())
        print(
            f"{time.monotonic() - began:6.0f} s  {number} of {len(shares)}  {name}: {summary}",
            flush=True,
        )
        for fault in found[:5]:
            print(f"    {fault['outcome']} at {fault['end']}, {fault['what']}\n      "
                  + fault["note"].strip().replace("\n", "\n      ")[-700:], flush=True)  # fmt: skip
        if options.out:
            options.out.write_text("".join(json.dumps(fault) + "\n" for fault in faults))
    print(*table(rows), sep="\n")
    print(f"{len(faults)} faults in {sum(map(collections.Counter.total, rows.values()))} attempts")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
