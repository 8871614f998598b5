"""A pytest plugin: test modules of others with our names in them, and what became of each test.

A test that makes and fits nothing of ours is not counted.
"""

import functools
import importlib.abc
import importlib.util
import inspect
import json
import os
import sys
import types
from pathlib import Path

import pytest


class Substituted(pytest.Module):
    """A module of tests that found our names where theirs are."""

    def _getobj(self):
        return self.substitution.loaded(self.name_there)


class Substitution:
    """Import the modules of a suite with our names, and note how its tests end."""

    def __init__(self, suite):
        self.suite, self.ends = suite, {}
        # a file, so that processes that a test starts can note it
        self.used = Path(os.environ["PEERS_RESULTS"]).with_suffix(".used")
        self.all_count = bool(os.environ["PEERS_THEIRS"])
        self.replace = {} if self.all_count else suite.REPLACE
        for ours in self.replace.values():
            self.watch(ours)

    def watch(self, ours):
        """Note when a class is constructed or fitted; functions are watched where they go."""
        if isinstance(ours, type):
            for name in ("__init__", "fit", "partial_fit"):
                if hasattr(ours, name):
                    setattr(ours, name, self.watched(getattr(ours, name)))

    def watched(self, function):
        @functools.wraps(function)
        def noting(*values, **given):
            self.used.touch()
            return function(*values, **given)

        return noting

    def pytest_pycollect_makemodule(self, module_path, parent):
        for name in self.suite.MODULES:
            if importlib.util.find_spec(name).origin == str(module_path):
                module = Substituted.from_parent(parent, path=module_path)
                module.name_there, module.substitution = name, self
                return module
        return None  # beside them

    def pytest_runtest_setup(self):
        self.used.unlink(missing_ok=True)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = (yield).get_result()
        name = report.nodeid.split("::", 1)[1]
        if len(self.suite.MODULES) > 1:
            name = f"{item.path.stem}::{name}"
        if report.when != "call" and report.passed:
            return
        end = "failed" if report.failed else "skipped" if report.skipped else "passed"
        if hasattr(report, "wasxfail"):
            end = "skipped"
        counts = self.all_count or self.used.exists()
        crash = getattr(report.longrepr, "reprcrash", None)
        self.ends[name] = {
            "end": end if counts or end == "skipped" else "not ours",
            "node": f"{item.path}::{report.nodeid.split('::', 1)[1]}",
            "message": crash.message if crash else "",
        }

    def loaded(self, name):
        """Import a module with our names in those it imports from, then put theirs back.

        A module that it uses as `module.Name` later is replaced by a view with our names. A suite
        whose tests import as they run says `DURING_TESTS = True`: theirs are not put back.
        """
        importlib.import_module(name)  # all that it needs, with theirs
        del sys.modules[name]
        pytest.register_assert_rewrite(name)
        replaced = {}
        for path, ours in self.replace.items():
            owner, attribute = path.rsplit(".", 1)
            if callable(ours) and not isinstance(ours, type):
                ours = self.watched(ours)
            replaced.setdefault(importlib.import_module(owner), {})[attribute] = ours
        theirs = {
            owner: {each: getattr(owner, each) for each in ours} for owner, ours in replaced.items()
        }
        try:
            for owner, ours in replaced.items():
                vars(owner).update(ours)
            module = importlib.import_module(name)
        finally:
            if not getattr(self.suite, "DURING_TESTS", False):
                for owner, before in theirs.items():
                    vars(owner).update(before)
        for attribute, value in list(vars(module).items()):
            if inspect.ismodule(value) and value in replaced:
                setattr(module, attribute, view(value, replaced[value]))
        return module

    def pytest_sessionfinish(self):
        with open(os.environ["PEERS_RESULTS"], "w") as file:
            json.dump(self.ends, file)


def view(owner, ours):
    """Return a module like another, with our names."""
    copy = types.ModuleType(owner.__name__)
    vars(copy).update(vars(owner), **ours)
    return copy


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import the modules of a suite with our names, when they are asked for."""

    def __init__(self, substitution):
        self.substitution, self.busy = substitution, False

    def find_spec(self, name, path, target=None):
        if self.busy or name not in self.substitution.suite.MODULES:
            return None
        return importlib.util.spec_from_loader(name, self)

    def create_module(self, spec):
        self.busy = True
        try:
            return self.substitution.loaded(spec.name)
        finally:
            self.busy = False

    def exec_module(self, module):
        pass


def in_a_spawned_process():
    """Import the modules of the suite with our names from now on."""
    suite = importlib.import_module(os.environ["PEERS_SUITE"])
    sys.meta_path.insert(0, Finder(Substitution(suite)))


def pytest_configure(config):
    suite = importlib.import_module(os.environ["PEERS_SUITE"])
    config.pluginmanager.register(Substitution(suite), "substitution")
