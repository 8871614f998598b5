"""Run the suites of other libraries with our classes, and compare with what is expected.

    PYTHONPATH=tests python -m peers [SUITE ...] [-k EXPRESSION] [--show]

Exit code 1 if a test fails that no list expects and that passes with theirs, or if one passes that
a list expects to fail. The lists are for the versions in `constraints.txt`. A library that is not
installed is skipped, and the table says so; one in another folder is found through PYTHONPATH.
"""

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
REASONS = ("private", "message", "by design", "open")
COLUMNS = ("tried", "passed", *REASONS, "unexpected", "fails with theirs", "skipped", "not ours")
LONGEST = 150  # characters of a message that are printed


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = sorted(file.stem for file in (HERE / "suites").glob("*.py") if file.stem[0] != "_")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(names))
    parser.add_argument("-k", metavar="EXPRESSION", help="only these tests, as pytest's -k")
    parser.add_argument("--show", action="store_true", help="what pytest prints of failures")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.suites) - set(names))
    if unknown:
        parser.error(f"no suite {', '.join(unknown)}: they are {', '.join(names)}")
    wrong, rows = False, []
    for name in options.suites or names:
        try:
            suite = importlib.import_module(f"peers.suites.{name}")  # may import its library
            missing = [each for each in suite.MODULES if importlib.util.find_spec(each) is None]
        except ModuleNotFoundError as error:
            missing = [error.name]
        if missing:
            rows.append([name, f"not installed: {missing[0]}"])
            continue
        began = time.monotonic()
        ends = compared(suite, options, run(suite, options))
        tally, lines = judged(suite.EXPECTED, ends, partial=options.k)
        for line in lines:
            print(f"{name}: {line}")
        wrong |= bool(lines)
        seconds = f"{time.monotonic() - began:.0f} s"
        rows.append([name, *(str(tally[column]) for column in COLUMNS), seconds])
    print(table([["suite", *COLUMNS, "time"], *rows]))
    return int(wrong)


def run(suite, options, nodes=(), theirs=False):
    """Run the tests of a suite in a process of its own; return how each one ended.

    `nodes` are some of them, as pytest names them; with `theirs`, nothing is replaced.
    """
    files = [importlib.util.find_spec(each).origin for each in suite.MODULES]
    library = importlib.util.find_spec(suite.MODULES[0].split(".")[0])
    top = str(Path(library.origin).parent)  # their conftest.py is there
    left_out = [f"{Path(file).relative_to(top)}::{test}"
                for file in files for test in getattr(suite, "LEFT_OUT", ())]  # fmt: skip
    paths = filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")])
    with tempfile.TemporaryDirectory(prefix="tombola-peers-") as folder:
        results = Path(folder, "results.json")
        done = subprocess.run(
            [
                sys.executable, "-m", "peers.session", "-q", "-p", "peers.substitution",
                "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", top, "--confcutdir", top,
                "--timeout", "300", *(["-k", options.k] if options.k else []),
                *(f"--deselect={each}" for each in left_out), *(nodes or files),
            ],
            env={
                **os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1",
                "PEERS_SUITE": suite.__name__, "PEERS_RESULTS": str(results), "TOMBOLA_QUIET": "1",
                "PEERS_THEIRS": "1" if theirs else "",
            },
            cwd=folder, capture_output=not options.show, text=True, check=False,
        )  # fmt: skip
        if done.returncode > 1 or not results.exists():
            print(done.stdout, done.stderr)
            raise SystemExit(f"{suite.__name__}: pytest ended with {done.returncode}")
        return json.loads(results.read_text())


def compared(suite, options, ends):
    """Return ends in which a failure that nobody expects is none of ours if it is theirs, too."""
    open_ones = {
        test: found for test, found in ends.items()
        if found["end"] == "failed" and not any(covers(entry, test) for entry in suite.EXPECTED)
    }  # fmt: skip
    if not open_ones:
        return ends
    again = run(suite, options, [found["node"] for found in open_ones.values()], theirs=True)
    same = {test for test in open_ones if again.get(test, {}).get("end") == "failed"}
    return {**ends, **{test: {**ends[test], "end": "fails with theirs"} for test in same}}


def judged(expected, ends, partial=False):
    """Return the tally, and a line for each end that differs from what is expected.

    An entry is a test with its parameters, in which * is any text; one without parameters is for
    all of them. Tests that are skipped differ from nothing.
    """
    tally, lines, met = Counter(dict.fromkeys(COLUMNS, 0)), [], set()
    for entry, reason in expected.items():
        kind = reason.split(":")[0]
        if kind not in REASONS or (kind in REASONS[2:] and not reason[len(kind) + 1 :].strip()):
            lines.append(f"the reason of {entry} is {reason!r}: begin with one of {REASONS}")
    for test, found in ends.items():
        end = found["end"]
        entry = next((entry for entry in expected if covers(entry, test)), None)
        if end in ("passed", "failed"):
            tally["tried"] += 1
        if entry is not None and end != "skipped":
            met.add(entry)
        if end == "failed" and entry is not None:
            tally[expected[entry].split(":")[0]] += 1
        elif end == "failed":
            tally["unexpected"] += 1
            lines.append(f'"{test}",  # {" ".join(found["message"].split())[:LONGEST]}')
        else:
            tally[end] += 1
            if entry is not None and end != "skipped":
                lines.append(f"{test} {end}, although expected to fail ({entry})")
    if not partial:
        lines += [f"{entry} is expected to fail, and there is no such test"
                  for entry in expected if entry not in met]  # fmt: skip
    return tally, lines


def covers(entry, test):
    """Say if an entry of a list is for a test."""
    if "*" in entry:
        return re.fullmatch(".*".join(map(re.escape, entry.split("*"))), test) is not None
    return test == entry or test.startswith(f"{entry}[")


def table(rows):
    """Return rows as columns of equal width."""
    widths = [
        max(map(len, column)) for column in zip(*(r for r in rows if len(r) > 2), strict=True)
    ]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if k == 0 or len(row) == 2 else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=False))
        ).rstrip()
        for row in rows
    )
