"""What a release says about itself, and the checks that `make release-check` makes."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from oldest import oldest
from release_check import faults_of_checker, faults_of_sdist, faults_of_wheel, source_files

import tombola

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SDIST = [
    "CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "experiments/reproduce.py",
    "pyproject.toml", "src/tombola/py.typed", "tests/conftest.py",
]  # fmt: skip


# --- what it says --------------------------------------------------------------------------------


def released(changelog):
    """Version and date of the first release in a changelog."""
    return re.search(r"^## (\d\S*) \((\d{4}-\d\d-\d\d)\)$", changelog, flags=re.MULTILINE).groups()


def test_the_changelog_and_the_citation_have_the_version():
    version, date = released((ROOT / "CHANGELOG.md").read_text())
    citation = (ROOT / "CITATION.cff").read_text()
    assert version == tombola.__version__
    assert re.findall(r"^version: (.*)$", citation, flags=re.MULTILINE) == [version]
    assert re.findall(r"^date-released: (.*)$", citation, flags=re.MULTILINE) == [date]


def test_what_is_not_released_does_not_count():
    assert released("## Unreleased\n\n## 0.3.0 (2027-01-02)\n\n## 0.2.0 (2026-11-16)") == (
        "0.3.0",
        "2027-01-02",
    )


def test_breaking_changes_come_first():
    newest = (ROOT / "CHANGELOG.md").read_text().split("\n## ")[1]
    for section in re.split(r"\n(?:###|\w[\w ,`()\[\]-]*\n\n-)", newest):
        marked = [entry.startswith("**Breaking**") for entry in re.findall(r"- (.*)", section)]
        assert marked == sorted(marked, reverse=True), section


def test_the_oldest_python_is_named():
    pythons = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if ":: Python :: 3." in c]
    assert f">={pythons[0]}" == PROJECT["requires-python"]


# --- the oldest versions -------------------------------------------------------------------------


def test_every_dependency_has_an_oldest_version():
    pins = dict(pin.split("==") for pin in oldest(PROJECT))
    assert {"numpy", "numba", "scikit-learn", "torch", "dask", "pyarrow"} <= pins.keys()


@pytest.mark.parametrize("requirement", ["numpy", "numpy<3", "numpy>=1.26,<3"])
def test_a_dependency_without_a_plain_lower_bound_is_refused(requirement):
    with pytest.raises(ValueError, match=re.escape(f"'{requirement}' is not of the form")):
        oldest({"name": "us", "dependencies": [requirement]})


def test_two_lower_bounds_are_refused():
    with pytest.raises(ValueError, match=r"dask has two lower bounds, 1 and 2"):
        oldest({"name": "us", "dependencies": ["dask>=1", "dask[array]>=2"]})


# --- contents ------------------------------------------------------------------------------------


def test_a_good_wheel_has_no_faults():
    sources = source_files(ROOT / "src")
    assert "tombola/py.typed" in sources
    assert not any("__pycache__" in name for name in sources)
    assert faults_of_wheel([*sources, "tombola-1.dist-info/licenses/LICENSE"], sources) == []


@pytest.mark.parametrize(
    ("more", "less", "fault"),
    [
        ({"tests/test_a.py"}, set(), "tests/test_a.py does not belong in the wheel"),
        ({"experiments/a.py"}, set(), "experiments/a.py does not belong in the wheel"),
        ({"us/__pycache__/a.pyc"}, set(), "us/__pycache__/a.pyc does not belong in the wheel"),
        (set(), {"us/py.typed"}, "the wheel has no us/py.typed"),
        (set(), {"us-1.dist-info/licenses/LICENSE"}, "the wheel has no licenses/LICENSE"),
    ],
)
def test_a_bad_wheel_is_refused(more, less, fault):
    names = {"us/a.py", "us/py.typed", "us-1.dist-info/licenses/LICENSE"}
    assert faults_of_wheel((names | more) - less, ["us/a.py", "us/py.typed"]) == [fault]


def test_a_bad_sdist_is_refused():
    assert faults_of_sdist(SDIST) == []
    assert faults_of_sdist(SDIST[1:]) == ["the sdist has no CHANGELOG.md"]
    for cache in (".venv-old/lib/a.py", "tests/__pycache__/a.pyc", "src/tombola/a.nbi"):
        assert faults_of_sdist([*SDIST, cache]) == [f"{cache} is a cache"]


# --- types ---------------------------------------------------------------------------------------

MYPY = "misuse.py:1: error: {}  [arg-type]"
PYRIGHT = "  /a/misuse.py:1:5 - error: {} (reportArgumentType)"


@pytest.mark.parametrize("form", [MYPY, PYRIGHT])
def test_errors_elsewhere_and_missed_mistakes_are_faults(form):
    misuse = "VRB('many')  # wrong\nVRB(3)\n"
    report = form.format("no")
    assert faults_of_checker("it", report, misuse) == []
    assert faults_of_checker("it", "", misuse) == [
        "it does not report misuse.py:1: VRB('many')  # wrong"
    ]
    for other in (report.replace(":1:", ":2:"), report.replace("misuse", "consumer")):
        faults = faults_of_checker("it", f"{report}\n{other}", misuse)
        assert faults == [f"it: {other.strip()}"]


def test_the_consumer_runs(tmp_path):
    """What type checkers read is also true."""
    torch = pytest.importorskip("torch")
    import consumer

    generator = np.random.default_rng(0)
    X = generator.normal(size=(200, 3))
    y = (X[:, 0] > 0).astype(np.int64)
    losses = generator.lognormal(size=200)
    assert consumer.draw_and_learn(losses, tmp_path / "sampler.npz").rounds > 0
    assert consumer.draw_by_weight().tolist() == [2, 1, 1, 1, 2, 2]
    assert consumer.minimize(X, y, tmp_path / "result.npz").shape == (4,)
    assert ((consumer.fit(X, y) > 0) == (y == 1)).mean() > 0.9
    assert consumer.train(torch.from_numpy(X).float(), torch.from_numpy(y)) == 7
