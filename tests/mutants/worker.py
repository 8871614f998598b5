"""Run tests in a child process, with one file of the package changed: see `run.py`.

Requests and answers are lines of JSON. Each one is a fork of a process that has imported the
libraries but not the package, so that a child needs no more than a fraction of a second to begin.
The changed file is never written: the import of its module compiles the changed text.
"""

import abc
import contextlib
import importlib.machinery
import json
import linecache
import os
import random
import resource
import select
import shutil
import signal
import sys
import tempfile
import time

import coverage
import hypothesis
import numba  # noqa: F401
import numpy  # noqa: F401
import pytest
import scipy.sparse
import scipy.stats  # noqa: F401

MEMORY = 8 << 30  # bytes of address space of a child
COVERAGE = os.path.dirname(coverage.__file__) + os.sep


def change(path, text):
    """Make the import of a file read another text; inspection reads it too, as Triton does."""
    loader = importlib.machinery.SourceFileLoader
    usual = loader.get_code

    def get_code(self, name):
        if self.path != path:
            return usual(self, name)
        return compile(text, path, "exec", dont_inherit=True)

    loader.get_code = get_code
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)


class TooLong(BaseException):
    """A test has reached its time limit."""


class Plugin(abc.ABC):
    """The same examples in each run, and a time limit for each test."""

    failed = ""

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self):
        """Begin with the profile of the tests, and do not simplify examples that fail."""
        hypothesis.settings.register_profile(
            "same",
            hypothesis.settings(),
            derandomize=True,
            database=None,
            phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
        )
        hypothesis.settings.load_profile("same")
        signal.signal(signal.SIGALRM, self.interrupt)

    def interrupt(self, _, frame):
        """End the test, but not while coverage holds its lock, which it would hold for good."""
        while frame is not None:
            if frame.f_code.co_filename.startswith(COVERAGE):
                signal.setitimer(signal.ITIMER_REAL, 0.01)
                return
            frame = frame.f_back
        raise TooLong

    @abc.abstractmethod
    def limit_of(self, item):
        """Return the seconds that a test may take."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        try:
            signal.setitimer(signal.ITIMER_REAL, self.limit_of(item))
            return (yield)
        except TooLong:
            pytest.fail("too long", pytrace=False)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


class Selected(Plugin):
    """Some tests, in a given order."""

    def __init__(self, limits):
        self.limits = limits

    def limit_of(self, item):
        return self.limits[item.nodeid]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        rank = {name: place for place, name in enumerate(self.limits)}
        items[:] = sorted(
            (item for item in items if item.nodeid in rank), key=lambda item: rank[item.nodeid]
        )

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.failed = report.nodeid


class Measured(Plugin):
    """How long each test takes, and which lines of some files it reaches."""

    def __init__(self, files, limit, enough):
        self.files, self.limit, self.enough = files, limit, enough
        self.seconds, self.dropped = {}, set()
        self.coverage = coverage.Coverage(data_file=None, config_file=False, include=files)
        self.coverage.start()

    def limit_of(self, item):
        return self.limit

    def pytest_collection_modifyitems(self, items):
        """Choose a fixed random order: if there is not enough time for all, any may be missing."""
        random.Random(0).shuffle(items)

    def pytest_runtest_setup(self, item):
        if sum(self.seconds.values()) > self.enough:
            pytest.skip("enough of this file")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        self.coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self.coverage.switch_context("")

    def pytest_runtest_logreport(self, report):
        name = report.nodeid
        self.seconds[name] = self.seconds.get(name, 0.0) + report.duration
        if report.outcome != "passed":
            self.dropped.add(name)

    def result(self):
        """Return the seconds of tests that pass, and those that reach each line (-1: imports)."""
        self.coverage.stop()
        data = self.coverage.get_data()
        seconds = {name: s for name, s in self.seconds.items() if name not in self.dropped}
        numbers = {name: number for number, name in enumerate(seconds)} | {"": -1}
        reached = {}
        for file in self.files:
            reached[file] = {
                line: [numbers[name] for name in names if name in numbers]
                for line, names in data.contexts_by_lineno(file).items()
            }
        return {"seconds": seconds, "reached": reached, "left_out": sorted(self.dropped)}


def act(request, scratch):
    """Answer a request, in a child process."""
    options = [
        "-q", "-p", "no:cacheprovider", f"--basetemp={scratch}/tests", "-m", request["marks"],
        "--assert=plain", "--tb=no", "--show-capture=no",  # plain: files are imported as usual
        "--timeout=0",  # pytest-timeout would take the alarm for its own
    ]  # fmt: skip
    if "measure" in request:
        plugin = Measured(request["measure"], request["limit"], request["enough"])
        code = pytest.main([*options, *request["paths"]], plugins=[plugin])
        return {"code": code, **plugin.result()}
    if request["file"]:
        change(request["file"], request["text"])
    plugin = Selected(request["tests"])
    code = pytest.main([*options, "-x", *request["paths"]], plugins=[plugin])
    return {"code": code, "by": plugin.failed}


def answer(request):
    """Answer a request: what the child says, nothing if it dies, or that it took too long."""
    reader, writer = os.pipe()
    scratch = tempfile.mkdtemp(prefix="mutant-")
    start = time.perf_counter()
    child = os.fork()
    if not child:
        os.setsid()
        os.chdir(request["root"])
        log = os.open(f"{scratch}/log", os.O_WRONLY | os.O_CREAT)
        for stream, number in ((log, 1), (log, 2), (os.open(os.devnull, os.O_RDONLY), 0)):
            os.dup2(stream, number)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        try:
            said = act(request, scratch)
        except BaseException as error:
            said = {"code": 3, "by": repr(error)}
        with os.fdopen(writer, "w") as stream:
            json.dump(said, stream)
        os._exit(0)
    os.close(writer)
    said = b""
    try:
        while True:
            left = start + request["seconds"] - time.perf_counter()
            if left <= 0 or not select.select([reader], [], [], left)[0]:
                said = b'{"code": -1, "by": "time limit"}'
                break
            part = os.read(reader, 1 << 20)
            said += part
            if not part:
                break
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
        with open(f"{scratch}/log", errors="replace") as file:
            log = file.read()[-3000:]
        shutil.rmtree(scratch, ignore_errors=True)
    fate = json.loads(said) if said else {"code": -2, "by": "the process died"}
    return {**fate, "took": time.perf_counter() - start, "log": log}


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    for line in sys.stdin:
        request = json.loads(line)
        if request.pop("torch"):
            import torch  # noqa: F401
            import triton  # noqa: F401
        print(json.dumps(answer(request)), flush=True)


if __name__ == "__main__":
    main()
