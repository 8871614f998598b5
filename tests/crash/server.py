"""Torment the runs of one family, in a process of its own; tell the results as lines of JSON."""

import json
import sys
import warnings
from importlib import import_module
from pathlib import Path

from crash import sweep_runs
from crash.killing import torment

if __name__ in ("__main__", "__mp_main__"):  # in spawned processes, too
    sweep_runs.install()


def main(family, kills, seed, folder):
    warnings.simplefilter("ignore")
    runs = import_module(f"crash.{family}_runs").runs()
    total, sofar, given = sum(run.share for run in runs), 0.0, 0
    for number, run in enumerate(runs):
        sofar += run.share
        own = round(kills * sofar / total) - given
        given += own
        if own:
            tally = torment(run, own, seed, Path(folder) / f"{family}{number}", progress=tell)
            tell(vars(tally))


def tell(what):
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
