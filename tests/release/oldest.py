"""Print the oldest versions that pyproject.toml declares, as constraints for pip.

python tests/release/oldest.py > constraints-oldest.txt
"""

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
BOUND = re.compile(r"(?P<name>[\w.-]+)(\[[\w,]*\])?\s*>=\s*(?P<version>[\w.]+)\s*(;.*)?")


def oldest(project: dict[str, Any]) -> list[str]:
    """Return ``name==version`` for each lower bound of a ``[project]`` table.

    >>> oldest({"name": "us", "dependencies": ["numpy>=1.26"],
    ...         "optional-dependencies": {"all": ["us[plot]", "dask[array]>=2025.1"]}})
    ['dask==2025.1', 'numpy==1.26']
    """
    requirements = list(project["dependencies"])
    for extra in project.get("optional-dependencies", {}).values():
        requirements += extra
    pins = {}
    for requirement in requirements:
        if requirement.startswith(f"{project['name']}["):  # an extra made of other extras
            continue
        bound = BOUND.fullmatch(requirement)
        if bound is None:
            raise ValueError(f"{requirement!r} is not of the form name>=version")
        name, version = bound["name"].lower(), bound["version"]
        if pins.setdefault(name, version) != version:
            raise ValueError(f"{name} has two lower bounds, {pins[name]} and {version}")
    return [f"{name}=={version}" for name, version in sorted(pins.items())]


if __name__ == "__main__":
    sys.stdout.write("\n".join(oldest(tomllib.loads(PYPROJECT.read_text())["project"])) + "\n")
