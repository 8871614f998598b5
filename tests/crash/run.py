"""Kill runs 3,000 times and let their disks fail; every one must end in the same bytes.

    PYTHONPATH=tests python -m crash.run [--kills 3000] [--jobs 2] [--only FAMILY ...]

Exit code 1 if any run ends otherwise than an undisturbed one.
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

from crash.places import IN_WORDS

SHARES = {"command": 400, "sampler": 1000, "solver": 720, "loader": 480, "sweep": 400}
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Kill runs, and let their disks fail.")
    parser.add_argument("--kills", type=int, default=3000, help="in all; default: 3000")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the instants")
    parser.add_argument("--only", nargs="+", choices=SHARES, default=list(SHARES))
    options = parser.parse_args(arguments)
    began = time.monotonic()
    print(f"{options.kills:,} kills at random instants, seed {options.seed}")
    with tempfile.TemporaryDirectory(prefix="tombola-crash-", ignore_cleanup_errors=True) as folder:
        tallies, failures = campaign(options, folder)
    print(table(tallies))
    print(f"{time.monotonic() - began:.0f} s")
    wrong = failures + [line for tally in tallies for line in tally["wrong"]]
    for line in wrong:
        print(f"WRONG: {line}")
    kills, same = (sum(tally[name] for tally in tallies) for name in ("kills", "same"))
    print(f"{same:,} of {kills:,} resumed to the same bytes")
    return int(bool(wrong) or same < kills or kills < options.kills)


def campaign(options, folder):
    """Torment all families; return the tallies, and what failed."""
    total = sum(SHARES[family] for family in options.only)
    done, tallies, failures = Counter(), {family: [] for family in options.only}, []

    def torment(family, kills):
        command = [sys.executable, "-m", "crash.server", family, str(kills), str(options.seed)]
        environment = {**os.environ, **ONE_THREAD, "TOMBOLA_QUIET": "1", "MPLBACKEND": "agg"}
        with subprocess.Popen(
            [*command, folder], stdout=subprocess.PIPE, text=True, env=environment
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
    return f"\n{aligned(lines)}\n\n{aligned(places)}\n"


def aligned(lines):
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])])
        for line in lines
    )


if __name__ == "__main__":
    sys.exit(main())
