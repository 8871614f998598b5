"""The crash campaign: runs are killed at random instants, and disks fail.

    make crash

What is killed is in `*_runs.py`, who kills it in `killing.py`, where it was in `places.py`; disks
fail in `faults.py` and `small_disk.py`.
"""
