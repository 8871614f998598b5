"""The harness itself, on a library of three estimators and a few tests made up here."""

import importlib
import re
import sys
from types import SimpleNamespace

import pytest
from sklearn.dummy import DummyRegressor

from peers import adapter, command

LIBRARY = """
from sklearn.dummy import DummyRegressor as Median
def path(): return "theirs"
"""
TESTS = """
import multiprocessing
import sys
import pytest
import theirs
from theirs import Median, path

@pytest.mark.parametrize("kind", [Median, Median()], ids=["class", "instance"])
def test_parametrised(kind):
    model = kind() if isinstance(kind, type) else kind
    assert model.fit([[0.0]], [1.0]).whose == "ours"

def test_function():
    assert path() == "ours"

def test_attribute_of_the_module():
    assert theirs.path() == "ours"
    assert sys.modules["theirs"].path() == "theirs"

def test_importing_as_it_runs():
    from theirs import path
    assert path() == "theirs"

def test_other():
    assert Median is not None

def test_failing():
    assert getattr(Median(), "whose", "theirs") == "theirs", "it is ours"

def test_failing_with_theirs_too():
    Median()
    assert 1 == 2

def answer(queue):
    queue.put(Median().whose)

def test_spawned_process():
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=answer, args=(queue,))
    process.start()
    assert queue.get(timeout=60) == "ours"
    process.join()

def test_left_out():
    assert False

def test_skipped():
    pytest.skip("today")
"""
SUITE = """
from sklearn.dummy import DummyRegressor
class Median(DummyRegressor):
    whose = "ours"
def path(): return "ours"
MODULES = ["theirs.tests.test_all"]
REPLACE = {"theirs.Median": Median, "theirs.path": path}
LEFT_OUT = ["test_left_out"]
EXPECTED = {}
"""


@pytest.fixture
def suite(tmp_path, monkeypatch):
    """The suite above, of the tests above."""
    for path, text in {
        "theirs/__init__.py": LIBRARY,
        "theirs/tests/test_all.py": TESTS,
        "peers_suite.py": SUITE,
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    yield importlib.import_module("peers_suite")
    for name in [
        name
        for name in sys.modules
        if name.split(".")[0] in ("peers_suite", "peers_suite_during", "theirs")
    ]:
        del sys.modules[name]


def ended(suite, tests=None):
    """Return how they end, or some of them."""
    options = SimpleNamespace(k=tests, show=False)
    return command.compared(suite, options, command.run(suite, options))


def test_names_are_replaced_while_tests_are_made_and_while_they_run(suite):
    ends = ended(suite)
    assert {name: found["end"] for name, found in ends.items()} == {
        "test_parametrised[class]": "passed",
        "test_parametrised[instance]": "passed",
        "test_function": "passed",
        "test_attribute_of_the_module": "passed",
        "test_importing_as_it_runs": "not ours",
        "test_other": "not ours",
        "test_failing": "failed",
        "test_failing_with_theirs_too": "fails with theirs",
        "test_spawned_process": "passed",
        "test_skipped": "skipped",
    }
    assert "it is ours" in ends["test_failing"]["message"]


def test_names_stay_replaced_for_tests_that_import_as_they_run(suite, tmp_path):
    text = SUITE + "DURING_TESTS = True"
    (tmp_path / "peers_suite_during.py").write_text(text)
    during = importlib.import_module("peers_suite_during")
    ends = ended(during, "importing")
    assert {name: found["end"] for name, found in ends.items()} == {
        "test_importing_as_it_runs": "failed"
    }


PASSED, FAILED = {"end": "passed", "message": ""}, {"end": "failed", "message": "E\n  1 != 2"}


def test_what_is_expected_fails_quietly():
    ends = {"test_a[1]": FAILED, "test_a[2]": FAILED, "test_b": FAILED, "test_c": PASSED}
    tally, lines = command.judged({"test_a": "private: `_x`", "test_b": "by design: so."}, ends)
    assert not lines
    assert (tally["tried"], tally["passed"]) == (4, 1)
    assert (tally["private"], tally["by design"], tally["unexpected"]) == (2, 1, 0)


@pytest.mark.parametrize(
    ("expected", "ends", "line"),
    [
        ({}, {"test_a[1]": FAILED}, r'"test_a\[1\]",  # E 1 != 2'),
        ({"test_a": "message"}, {"test_a[1]": FAILED, "test_a[2]": PASSED}, r"test_a\[2\] passed"),
        ({"test_a[1*": "message"}, {"test_a[12]": FAILED, "test_a[2]": FAILED}, r'"test_a\[2\]"'),
        ({"test_*[1-*-2]": "message"}, {"test_a[1-x-2]": FAILED, "test_a[1-x-3]": FAILED}, '"test'),
        ({"test_a": "message"}, {"test_a": {"end": "skipped"}}, "test_a is expected to fail"),
        ({"test_a": "message"}, {}, "test_a is expected to fail, and there is no such test"),
        ({"test_a": "by design"}, {"test_a": FAILED}, "the reason of test_a is 'by design'"),
        ({"test_a": "known"}, {"test_a": FAILED}, "the reason of test_a is 'known'"),
        ({"test_a": "message"}, {"test_a": {"end": "not ours"}}, "test_a not ours, although"),
    ],
)  # fmt: skip
def test_other_ends_are_reported(expected, ends, line):
    _, lines = command.judged(expected, ends)
    assert len(lines) == 1
    assert re.match(line, lines[0])


class Flipped(adapter.Adapter):
    __init__ = adapter.signature_of(DummyRegressor)
    ours = DummyRegressor

    def translated(self, X, y):
        return {"strategy": {"mean": "median", "median": "mean"}[self.strategy]}


def test_adapter_has_their_parameters_and_our_fit():
    from sklearn.base import clone, is_regressor

    model = clone(Flipped(strategy="mean"))
    assert model.get_params() == {"strategy": "mean", "constant": None, "quantile": None}
    assert is_regressor(model)
    with pytest.raises(TypeError, match="other"):
        Flipped(other=1)
    X, y = [[0.0], [0.0], [0.0]], [0.0, 0.0, 3.0]
    assert model.fit(X, y).predict(X)[0] == 0.0
    assert model.set_params(strategy="median").fit(X, y).constant_ == 1.0
