"""What `tombola train --resume` finds in its folder may be anything: one sentence, no traceback."""

import itertools
import json
import shutil
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from states import assert_same, same
from tombola.checkpoint import CheckpointError, read, write
from tombola.cli import scores, train_fit
from tombola.cli.main import main
from tombola.estimators.stopping import Watch
from tombola.state.files import read_json

ROWS = ["breast_cancer", "--epochs", "3", "--solver", "adagrad"]
COLUMNS = ["breast_cancer", "--l1-ratio", "1", "--alpha", "0.01"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs, one by rows and one by columns; tests copy them."""
    folder = tmp_path_factory.mktemp("runs")
    for name, arguments in {"rows": ROWS, "columns": COLUMNS}.items():
        assert main(["train", *arguments, "--out", str(folder / name)]) == 0
        record = json.loads((folder / name / "run.json").read_text())
        (folder / name / "run.json").write_text(json.dumps({**record, "finished": False}))
    return folder


@pytest.fixture
def here(runs, tmp_path, monkeypatch):
    shutil.copytree(runs, tmp_path / "runs")
    monkeypatch.chdir(tmp_path / "runs")


def files(folder):
    return {path: path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def refused(folder, arguments, capsys):
    """What a run that cannot be continued says; the folder stays as it is, but for run.json."""
    before = files(folder)
    assert main(["train", *arguments, "--out", folder, "--resume"]) == 2
    record = Path(folder, "run.json")
    assert {**files(folder), record: b""} == {**before, record: b""}
    return capsys.readouterr().err


def changed(path, at, value):
    """Change an entry of a checkpoint, or remove it where the value is REMOVED."""
    state = read(path)
    *way, last = at
    holder = state
    for key in way:
        holder = holder[key]
    if value is REMOVED:
        del holder[last]
    else:
        holder[last] = value
    write(path, state)


REMOVED = object()
SHAPE = SimpleNamespace(shape=(31,), value=lambda w: w @ w)  # of the problem


def loaded_columns(path):
    return train_fit.ColumnsState.load(path, problem=SHAPE, most=100)


COLUMN_NAMES = ("rounds", "gaps", "seconds")
WRONG_COLUMNS = [
    *((name, REMOVED) for name in ("class", "solution", "gap", *COLUMN_NAMES)),
    *((name, 5) for name in ("class", "solution", *COLUMN_NAMES)),
    ("class", "Result"),
    ("class", np.array(["Columns", "Columns"])),
    ("gap", float("nan")),
    ("gap", float("inf")),
    ("gap", -5.0),
    ("gap", 1),
    ("gap", "x"),
    ("gap", 0.25),
    ("solution", np.zeros(3)),
    ("solution", np.zeros(31, dtype=np.float32)),
    ("solution", np.full(31, np.nan)),
    ("solution", np.full(31, 1e300)),
    ("rounds", np.zeros(0)),
    ("rounds", np.zeros((2, 2))),
    ("rounds", np.array([0, 1, 2])),
]


@pytest.mark.parametrize("at", range(len(WRONG_COLUMNS)))
def test_a_crafted_state_by_columns_is_refused(at, here, capsys):
    name, value = WRONG_COLUMNS[at]
    changed("columns/state/0.npz", [name], value)
    said = {"class": "the state is of", "rounds": "(rounds|gaps)"}.get(name, name)
    missing = "the state is incomplete: it has no " if value is REMOVED and name != "class" else ""
    with pytest.raises(CheckpointError, match=rf"^columns/state/0.npz: {missing}{said}"):
        loaded_columns("columns/state/0.npz")
    if at == 0:
        said = refused("columns", COLUMNS, capsys)
        assert "cannot be continued: columns/state/0.npz: the state is of None" in said


@pytest.mark.parametrize(
    ("name", "value"),
    [*itertools.product(COLUMN_NAMES, [np.nan, np.inf, -1.0]), ("rounds", 0.5), ("rounds", 101.0)],
)
@pytest.mark.parametrize("at", [0, -1])
def test_a_crafted_trace_by_columns_is_refused(name, value, at, here):
    path = "columns/state/0.npz"
    column = getattr(loaded_columns(path), name).copy()
    column[at] = value
    changed(path, [name], column)
    with pytest.raises(CheckpointError, match=rf"^columns/state/0.npz: {name}"):
        loaded_columns(path)


@pytest.mark.parametrize("name", ["rounds", "seconds"])
def test_a_trace_by_columns_rises(name, here):
    path = Path("columns/state/0.npz")
    changed(path, [name], read(path)[name][::-1].copy())
    with pytest.raises(CheckpointError, match=rf"{name} must be .* rising order"):
        loaded_columns(path)


def test_scores_that_are_not_finite_are_said_plainly(here, capsys, monkeypatch):
    monkeypatch.setattr(scores, "scores_of", lambda fit: {"R squared": float("inf")})
    assert "a score is not a finite number" in refused("columns", COLUMNS, capsys)


def test_an_honest_state_by_columns_is_taken(here):
    assert main(["train", *COLUMNS, "--out", "columns", "--resume"]) == 0


WRONG_ROWS = [
    (["class"], "Result"),
    (["class"], REMOVED),
    (["result"], REMOVED),
    (["result"], np.zeros(3)),
    (["result", "rounds"], "x"),
    (["result", "rounds"], 0),
    (["result", "state", "asked"], 5),
    (["rule"], None),
    (["rule", "epoch"], "x"),
    (["rule", "epoch"], REMOVED),
    (["rule", "epoch"], 2**59),
    (["rule", "idle"], -1),
    (["rule", "best"], None),
    (["rule", "best"], float("nan")),
    (["rule", "converged"], np.zeros(2)),
    (["rule", "solution"], np.zeros(3)),
    (["rule", "solution"], np.full(31, np.inf)),
    (["gaps"], REMOVED),
    (["gaps"], [1]),
    (["gaps", "4"], np.arange(2)),
    (["gaps", "4"], "x"),
    (["gaps", "4"], None),
    (["losses"], np.zeros((4, 2))),
    (["losses", "4"], float("nan")),
]


@pytest.mark.parametrize("at", range(len(WRONG_ROWS)))
def test_a_crafted_state_by_rows_is_refused(at, here, capsys):
    way, value = WRONG_ROWS[at]
    changed("rows/state/0.npz", way, value)
    recorder = recorder_of("rows/state/0.npz", 30, range(2000))
    before = recorder.rule.state().to_dict()
    with pytest.raises(CheckpointError, match=rf"^rows/state/0.npz.*({way[-1]}|fit|is of)"):
        recorder.loaded_rows()
    assert same(recorder.rule.state().to_dict(), before)
    assert recorder.gaps == {}
    if at == 0:
        said = refused("rows", ROWS, capsys)
        assert "the saved run cannot be continued: rows/state/0.npz: the state is of" in said


def test_an_honest_state_by_rows_is_taken(here):
    saved, recorder = read("rows/state/0.npz"), recorder_of("rows/state/0.npz", 30, range(2000))
    assert recorder.loaded_rows().rounds == saved["result"]["rounds"]
    assert_same(recorder.rule.state().to_dict(), saved["rule"])


@pytest.mark.parametrize("rounds", ["2001", "04", "", "x"])
def test_rounds_that_were_noted_are_marks(rounds, here):
    changed("rows/state/0.npz", ["gaps"], {"0": 0.5, "8": 0.25})
    recorder = recorder_of("rows/state/0.npz", 30, range(2000))
    recorder.loaded_rows()
    assert recorder.gaps == {0: 0.5, 8: 0.25}
    changed("rows/state/0.npz", ["gaps", rounds], 0.25)
    with pytest.raises(CheckpointError, match=r"gaps and losses must be those at marks"):
        recorder.loaded_rows()


def recorder_of(path, d, marks):
    """An observer that has begun a part of d columns."""
    recorder = train_fit.Recorder("a", Path(path), True, None, lambda share: None)
    problem = SimpleNamespace(shape=(d + 1,))
    recorder.rule, recorder.marks = Watch(problem, None, True, 0.1, None, None), marks
    return recorder


# --- run.json -----------------------------------------------------------------------------------

RECORDS = {
    "nested too deeply": "[" * 100_000,
    "nested more than 50": '{"a":' * 60 + "{}" + "}" * 60,
    "not an object": "[1]",
    "it has no command": "{}",
    "'utf-8' codec can't decode": b"\xff\xfe",
    "surrogates not allowed": '{"a": "\\ud800"}',
}


@pytest.mark.parametrize("said", RECORDS)
def test_a_file_that_is_no_record_is_refused(said, here, capsys):
    text = RECORDS[said]
    Path("rows/run.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=said) if said != "it has no command" else nullcontext():
        read_json("rows/run.json")
    for command in (
        ["train", *ROWS, "--out", "rows", "--resume"],
        ["predict", "rows", "no.csv"],
        ["report", "rows"],
    ):
        assert main(command) == 2
        words = capsys.readouterr().err
        assert said in words
        assert len(words.splitlines()) == 1


@pytest.mark.parametrize("name", ["settings", "data", "finished", "command"])
@pytest.mark.parametrize("value", [[1], "x", None])
def test_a_record_of_other_types_is_refused(name, value, here, capsys):
    record = json.loads(Path("rows/run.json").read_text())
    Path("rows/run.json").write_text(json.dumps({**record, name: value}))
    assert main(["train", *ROWS, "--out", "rows", "--resume"]) == 2
    said = capsys.readouterr().err
    assert f"rows/run.json is not the record of a run of `tombola train`: {name} must be" in said


def test_a_long_setting_is_not_shown_whole(here, capsys):
    record = json.loads(Path("rows/run.json").read_text())
    record["settings"]["sampler"] = "x" * 10**6
    Path("rows/run.json").write_text(json.dumps(record))
    assert "was begun with sampler = xxx" in refused("rows", ROWS, capsys)[:200]


def test_messages_do_not_repeat_what_a_record_holds(here, capsys):
    folder = next(path.parent for path in sorted(Path().glob("*/run.json")))
    record = json.loads((folder / "run.json").read_text())
    record["finished"], record["versions"] = True, {"\x1b[2J\n" + "k" * 10**5: 1}
    (folder / "run.json").write_text(json.dumps(record))
    assert main(["report", str(folder)]) == 2
    message = capsys.readouterr().err
    assert len(message) < 6000
    assert message.removesuffix("\n").isprintable()
