"""The cache of machine code: functions that are asked for twice, files of other versions."""

import pickle
import subprocess
import sys

import numba
import pytest
from numba.core.caching import IndexDataCacheFile

import tombola
from tombola.compiling import caching
from tombola.compiling.caching import IndexFile

MODULE = """
from tombola.compiling import kernel


@kernel
def broken(x):
    return x.nothing


@kernel
def outer(x):  # numba infers types twice where it finds isinstance
    return broken(x) if isinstance(x, float) else 0.0
"""
SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
from numba import TypingError
from own import outer

print("begin", flush=True)
try:
    outer(1.0)
except TypingError as error:
    print("nothing" in str(error))
"""


def run(folder, timeout):
    (folder / "own.py").write_text(MODULE)
    command = [sys.executable, "-c", SCRIPT, str(folder)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=timeout
    ).stdout


def test_an_error_is_raised_in_time(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    assert run(tmp_path, 120).split() == ["begin", "True"]


def test_an_index_that_another_version_wrote_is_empty(tmp_path):
    file = IndexFile(cache_path=str(tmp_path), filename_base="kernel", source_stamp="now")
    file.save("key", {"code": 1})
    assert file.load("key") == {"code": 1}
    index = tmp_path / "kernel.nbi"
    version = pickle.dumps(numba.__version__)
    index.write_bytes(version + b"ctombola.state.fields\n_NoSuchName\n.")
    with pytest.raises(AttributeError):
        IndexDataCacheFile.load(IndexDataCacheFile(str(tmp_path), "kernel", "now"), "key")
    assert file.load("key") is None
    file.save("key", {"code": 2})
    assert file.load("key") == {"code": 2}


@pytest.mark.parametrize(
    ("path", "counts"),
    [("solvers/run.py", True), ("solvers/descent/scaled.py", True), ("cli/main.py", False)],
)
def test_a_change_of_a_compiled_method_invalidates_machine_code(
    path, counts, tmp_path, monkeypatch
):
    """In folders below those of compiled methods, too, without a word of kernels in the file."""
    monkeypatch.setattr(caching, "__file__", str(tmp_path / "compiling" / "caching.py"))
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    found = []
    for text in ("x = 1", "x = 2"):
        file.write_text(text)
        found.append(caching._source_hash())
    assert (found[0] != found[1]) == counts


HELPED = """
from tombola.compiling import kernel

FACTOR = {factor}


@kernel
def helper(x):
    return x {sign} 1.0


@kernel
def outer(x):
    return FACTOR * helper(x)
"""
LISTENING = """
import sys
sys.path.insert(0, sys.argv[1])
from helped import outer

print(outer(3.0), len(outer.outer.stats.cache_hits))
"""


def test_a_change_of_a_file_outside_the_package_invalidates_its_kernels(tmp_path, monkeypatch):
    """Of a helper or a constant, though the kernel that Python calls is as it was."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    found = []
    for factor, sign in ((2.0, "+"), (2.0, "+"), (2.0, "-"), (4.0, "-")):
        (tmp_path / "helped.py").write_text(HELPED.format(factor=factor, sign=sign))
        command = [sys.executable, "-B", "-c", LISTENING, str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        found.append(done.stdout.split())
    assert found == [["8.0", "0"], ["8.0", "1"], ["4.0", "0"], ["8.0", "0"]]


PRINTING = """
import sys
sys.path.insert(0, sys.argv[1])
from printing import outer

outer(1.0)
try:
    outer(3.0)
except ValueError as error:
    print(error, len(outer.outer.stats.cache_hits))
"""
PRINTS = """
from tombola.compiling import kernel


@kernel
def inner(x):
    if x > 2.0:
        raise ValueError("too large")
    print("x is", x)


@kernel
def outer(x):
    inner(x)
"""


def test_a_rule_may_print_and_raise_inside_a_kernel(tmp_path, monkeypatch):
    """What it prints is found, whether the kernel was compiled or loaded."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "printing.py").write_text(PRINTS)
    for hits in ("0", "1"):
        command = [sys.executable, "-c", PRINTING, str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        assert done.stdout.splitlines() == ["x is 1.0", f"too large {hits}"]


LATER = """
import numba

numba.version_info = numba.version_info._replace(short=(9, 0))
import sys
import tombola

print("tombola.compiling.inner" in sys.modules, tombola.VRB(10, seed=3).draw(5).indices.tolist())
"""


def test_a_later_numba_compiles_as_usual(tmp_path, monkeypatch):
    """The same draws, without numba's internals."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", LATER], capture_output=True, text=True, check=True, timeout=300
    )
    draws = tombola.VRB(10, seed=3).draw(5).indices.tolist()
    assert done.stdout.split(maxsplit=1) == ["False", f"{draws}\n"]
