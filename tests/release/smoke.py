"""What must work where nothing but the wheel, numpy and numba is installed.

`make release-check` runs it there, from an empty folder: ``python -I smoke.py``.
"""

import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

import numpy as np

NEEDS = {"advice": "sklearn", "dask": "dask", "estimators": "sklearn", "torch": "torch"}
INSTALLED = {"llvmlite", "numba", "numpy", "pip", "setuptools", "tombola"}


def main() -> None:
    """Try each thing, and say so in a line."""
    installed = {str(found.metadata["Name"]).lower() for found in metadata.distributions()}
    assert installed <= INSTALLED, f"not an empty environment: {sorted(installed - INSTALLED)}"
    import tombola

    place = Path(tombola.__file__)
    assert place.is_relative_to(sysconfig.get_path("purelib")), f"tombola is imported from {place}"
    assert tombola.__version__ == metadata.version("tombola")
    say(f"import tombola {tombola.__version__}, numpy {np.__version__}")

    index = tombola.WeightIndex([1, 0, 3])
    index.set([1], [4])
    assert index.draw(6).indices.tolist() == [2, 1, 1, 1, 2, 2]
    say("a draw by weight")

    losses = np.random.default_rng(0).lognormal(0, 1.5, 1000)
    sampler = tombola.VRB(len(losses), seed=0)
    for _ in range(200):
        draw = sampler.draw(32)
        sampler.update(draw, losses[draw.indices])
    assert abs(sampler.probabilities().sum() - 1) < 1e-9
    assert sampler.gauge.second_moment_ratio < 0.8, sampler.gauge
    say(f"draws and updates; {sampler.gauge}")

    sampler.save("sampler.npz")
    loaded = tombola.load("sampler.npz")
    assert loaded.draw(100) == sampler.draw(100)
    say("save and load: the same draws")

    for part, extra in NEEDS.items():
        said = run(sys.executable, "-I", "-c", f"import tombola.{part}", code=1).stderr
        last = said.splitlines()[-1]
        assert f"ImportError: tombola.{part} needs" in last, said
        assert last.endswith(f"pip install tombola[{extra}]"), said
    say("parts whose extra is not installed say what to install")

    command = Path(sysconfig.get_path("scripts")) / "tombola"
    assert "advise" in run(command, "--help").stdout
    refused = run(command, "train", "rows.csv", code=2)
    assert "pip install tombola[cli]" in refused.stderr, refused.stderr
    refused = run(command, "reproduce", "voc", code=2)
    assert "`git clone`" in refused.stderr, refused.stderr
    say("the command line: help, what to install, and what is in a clone only")


def run(*command: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command that must end with this exit code."""
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == code, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def say(what: str) -> None:
    """Print a line of progress."""
    print(f"   {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
