"""Kill runs 3,000 times and let their disks fail; every one must end in the same bytes.

    PYTHONPATH=tests python -m crash.run [--kills 3000] [--jobs 2] [--only FAMILY ...]

Exit code 1 if any run ends otherwise than an undisturbed one. What kill -9 cannot show is a loss of
power: what was written and not flushed survives the process.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from crash import small_disk
from crash.places import IN_WORDS

PATHS = [str(Path(__file__).parents[k]) for k in (1, 2)]  # of the tests, and of `experiments`
SHARES = {"command": 400, "sampler": 1000, "solver": 720, "loader": 480, "sweep": 400}
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Kill runs, and let their disks fail.")
    parser.add_argument("--kills", type=int, default=3000, help="in all; default: 3000")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--seed", type=int, default=0, help="of the instants")
    parser.add_argument("--only", nargs="+", choices=SHARES, default=list(SHARES))
    parser.add_argument(
        "--disks", nargs="+", choices=[*small_disk.RUNS, "none"], default=list(small_disk.RUNS),
        help="what is saved on a disk that is full and read-only; default: all",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    began = time.monotonic()
    print(f"{options.kills:,} kills at random instants, seed {options.seed}")
    with tempfile.TemporaryDirectory(prefix="tombola-crash-", ignore_cleanup_errors=True) as folder:
        tallies, failures = campaign(options, folder)
    print(table(tallies))
    wrong = failures + [line for tally in tallies for line in tally["wrong"]]
    if options.disks != ["none"]:
        wrong += fill_disks(options.disks)
    for line in wrong:
        print(f"WRONG: {line}")
    print(f"{time.monotonic() - began:.0f} s")
    kills, same = (sum(tally[name] for tally in tallies) for name in ("kills", "same"))
    print(f"{same:,} of {kills:,} resumed to the same bytes")
    return int(bool(wrong) or same < kills or kills < options.kills)


def campaign(options, folder):
    """Torment all families; return the tallies, and what failed."""
    total = sum(SHARES[family] for family in options.only)
    done, tallies, failures = Counter(), {family: [] for family in options.only}, []

    def torment(family, kills):
        command = [sys.executable, "-m", "crash.server", family, str(kills), str(options.seed)]
        with subprocess.Popen(
            [*command, folder], stdout=subprocess.PIPE, text=True, env=environment()
        ) as server:
            for line in server.stdout:
                said = json.loads(line)
                if isinstance(said, dict):
                    tallies[family].append({"family": family, **said})
                else:
                    done[family] += said
                    show(sum(done.values()), options.kills)
        if server.returncode:
            failures.append(f"{family}: the server ended with exit code {server.returncode}")

    left, threads = options.kills, []
    with ThreadPoolExecutor(options.jobs) as pool:
        for number, family in enumerate(options.only, 1):
            share = round(options.kills * SHARES[family] / total)
            share = left if number == len(options.only) else min(left, share)
            left -= share
            threads.append(pool.submit(torment, family, share))
    for thread in threads:
        thread.result()
    return [tally for family in options.only for tally in tallies[family]], failures


def environment():
    """Return the environment of servers: one thread, and our modules."""
    paths = [*PATHS, *filter(None, [os.environ.get("PYTHONPATH")])]
    quiet = {"TOMBOLA_QUIET": "1", "MPLBACKEND": "agg", "PYTHONPATH": os.pathsep.join(paths)}
    return {**os.environ, **ONE_THREAD, **quiet}


def fill_disks(names):
    """Print what happens on a disk that is full and read-only; return what is wrong."""
    if not small_disk.possible():
        print("SKIPPED: full and read-only disks, since no file system can be mounted here\n")
        return []
    tested = disks(names)
    lines = [("faults of a disk of 1 MB", "full", "read-only", "resumed to the same bytes")]
    for line in tested:
        good = "no" if line["wrong"] else "yes"
        lines.append((line["name"], f"{line['full']}", f"{line['read-only']}", good))
    print(f"{aligned(lines)}\n")
    return [f"{line['name']}, {words}" for line in tested for words in line["wrong"]]


def disks(names):
    """Play runs on a small disk, in a process that alone sees it; return its faults."""
    with tempfile.TemporaryDirectory(prefix="tombola-disk-") as folder:
        place = Path(folder) / "disk"
        place.mkdir()
        command = [*small_disk.UNSHARE, sys.executable, "-m", "crash.small_disk", str(place)]
        done = subprocess.run(
            [*command, *names], stdout=subprocess.PIPE, text=True, env=environment()
        )
    tested = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode:
        fault = f"the process ended with exit code {done.returncode}"
        tested.append({"name": "disk", "full": 0, "read-only": 0, "wrong": [fault]})
    return tested


def show(done, kills):
    """Show progress on stderr: in place in a terminal, sometimes a line otherwise."""
    if sys.stderr.isatty():
        print(f"\r{done:,} of {kills:,} kills", end="" if done < kills else "\n", file=sys.stderr)
    elif done % max(20, kills // 20) == 0:
        print(f"{done:,} of {kills:,} kills", file=sys.stderr, flush=True)


def table(tallies):
    """Return two tables: by what was run, and by where it was killed."""
    lines = [("what was run", "kills", "runs", "left a .part", "same bytes", "seconds")]
    for tally in tallies:
        numbers = (tally[name] for name in ("kills", "ends", "left", "same"))
        lines.append((tally["name"], *(f"{n:,}" for n in numbers), f"{tally['seconds']:.0f}"))
    sums = (sum(tally[name] for tally in tallies) for name in ("kills", "ends", "left", "same"))
    lines.append(("all", *(f"{number:,}" for number in sums), ""))
    families = list(dict.fromkeys(tally["family"] for tally in tallies))
    places = [("where it was killed", *families, "all")]
    for place in IN_WORDS.values():
        counts = [
            sum(tally["places"].get(place, 0) for tally in tallies if tally["family"] == family)
            for family in families
        ]
        places.append((place, *(f"{number:,}" for number in (*counts, sum(counts)))))
    note = "(of a sweep in two processes: where the first was, which does not save)"
    return f"\n{aligned(lines)}\n\n{aligned(places)}\n{note}\n"


def aligned(lines):
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])])
        for line in lines
    )


if __name__ == "__main__":
    sys.exit(main())
