"""What is said and done while numba compiles."""

import gc
import subprocess
import sys
from types import SimpleNamespace

import pytest
from numba import TypingError

from tombola.compiling import caching, kernel, watch
from tombola.compiling.watch import Watch
from tombola.index.layout import height_of


def event_of(module):
    function = SimpleNamespace(__module__=module)
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=function)})


OURS, THEIRS = event_of("tombola.index.layout"), event_of("somebody.else")


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(watch, "PATIENCE", 0.0)
    monkeypatch.delenv("TOMBOLA_QUIET", raising=False)


def compile_for(watcher, seconds, *events):
    for event in events:
        watcher.on_start(event)
    if watcher._timer is not None:
        watcher._timer.join(seconds)
    for event in reversed(events):
        watcher.on_end(event)


def test_one_line_once(impatient, capfd):
    watcher = Watch()
    for _ in range(3):
        compile_for(watcher, 5, OURS, OURS)
    assert capfd.readouterr().err == watch.TEXT + "\n"


def test_nothing_is_said_of_the_functions_of_others(impatient, capfd):
    compile_for(Watch(), 0.05, THEIRS, OURS)
    assert capfd.readouterr().err == ""


def test_a_variable_hides_the_line(impatient, capfd, monkeypatch):
    monkeypatch.setenv("TOMBOLA_QUIET", "1")
    compile_for(Watch(), 5, OURS)
    assert capfd.readouterr().err == ""


def test_short_times_add_up(impatient, capfd, monkeypatch):
    monkeypatch.setattr(watch, "PATIENCE", 0.2)
    watcher = Watch()
    compile_for(watcher, 0.12, OURS)
    assert capfd.readouterr().err == ""
    compile_for(watcher, 0.12, OURS)
    assert capfd.readouterr().err == watch.TEXT + "\n"


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_is_collected_again_afterwards(enabled):
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        watcher = Watch()
        watcher.on_start(OURS)
        assert not gc.isenabled()
        watcher.on_end(OURS)
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_inner_functions_can_be_called_from_python_all_the_same():
    assert [height_of(weight) for weight in (0, 1, 2, 3)] == [0, 1, 2, 3]


def test_a_function_that_cannot_be_compiled_holds_no_lock():
    @kernel
    def broken(x):
        return x.nothing

    @kernel
    def outer(x):
        return broken(x)

    with pytest.raises(TypingError, match="nothing"):
        outer(1.0)
    assert not caching.LOCKS  # no other process waits for it


SCRIPT = """
import os, sys, time
from concurrent.futures import ThreadPoolExecutor
import numba.core.compiler as compiler
import numpy as np
from tombola.random import fill_words, new_state

names = []
original = compiler.CompilerBase.compile_extra
def counted(self, function):
    names.append(function.__name__)
    return original(self, function)
compiler.CompilerBase.compile_extra = counted

mine, go, threads = sys.argv[1:]
open(mine, "w").close()
while not os.path.exists(go):
    time.sleep(0.001)

def fill():
    words = np.zeros(8, dtype=np.uint64)
    fill_words(new_state(1, ()), words)
    return words.sum() % 1000

with ThreadPoolExecutor(int(threads)) as pool:
    sums = {future.result() for future in [pool.submit(fill) for _ in range(int(threads))]}
print(names.count("philox") + names.count("block"), *sums)
"""


@pytest.mark.parametrize(("count", "threads"), [(2, 1), (1, 4), (2, 2)])
def test_processes_and_threads_do_not_compile_the_same(tmp_path, monkeypatch, count, threads):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    ready, go = [tmp_path / f"ready{k}" for k in range(count)], tmp_path / "go"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(mine), str(go), str(threads)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for mine in ready
    ]
    while not all(path.exists() for path in ready):
        assert all(process.poll() is None for process in processes)
    go.touch()
    results = [process.communicate(timeout=120)[0].split() for process in processes]
    assert len({tuple(sums) for _, *sums in results}) == 1
    assert sum(int(compiled) for compiled, *_ in results) == 2  # `philox` once, `block` once
