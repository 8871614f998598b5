"""Versions and machine, for the record of a run."""

import os
import platform
from importlib import metadata
from pathlib import Path

import tombola

__all__ = ["processor", "versions"]


def versions() -> dict[str, str]:
    """Return the versions of packages, and a description of the machine without its name."""
    found = {"tombola": tombola.__version__, "python": platform.python_version()}
    for package in ("numpy", "numba", "scipy", "scikit-learn"):
        found[package] = metadata.version(package)
    able = getattr(os, "sched_getaffinity", None)
    cores = len(able(0)) if able else os.cpu_count() or 1
    found["machine"] = f"{cores} cores, {processor()}, {platform.system()}, {platform.machine()}"
    return found


def processor() -> str:
    """Return the name of the processor, if the system reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown processor"
