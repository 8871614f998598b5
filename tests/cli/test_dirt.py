"""Bad input to `tombola train`: exit code 2, one sentence, no traceback, nothing written.

And what lets it in: each case of tests/cli/dirt.py, which is the table of docs/command_line.md.
"""

import argparse

import pytest
from dirt import DIRT, GOOD, MARK, PAGE, summary, table

from tombola.cli import train
from tombola.cli.data import open_data
from tombola.cli.main import COMMANDS, main

REFUSED = [name for name, case in DIRT.items() if case.then is not None]
LET_IN = [name for name, case in DIRT.items() if not isinstance(case.then, str)]


def everything(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("kind", REFUSED)
def test_bad_input_gets_one_sentence(kind, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    case = DIRT[kind]
    case.write(tmp_path)
    before = everything(tmp_path)
    assert main(["train", case.file, *case.arguments]) == 2
    output = capsys.readouterr()
    assert case.said in output.err
    assert output.err.startswith("tombola: ")
    assert output.err.count("\n") == 1
    assert output.out == ""
    assert everything(tmp_path) == before
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", LET_IN)
def test_what_a_person_could_read_is_let_in(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    case = DIRT[kind]
    case.write(tmp_path)
    parser = argparse.ArgumentParser()
    train.add_arguments(parser)
    options = parser.parse_args([case.file, *(case.arguments if case.then is None else case.then)])
    data = open_data(options, hold_out=True)
    train._plan(options, data).estimator.parts(data.X, data.y)[0].make()
    if case.then is None:
        assert any(case.said in note for note in data.notes)


def test_the_table_in_the_docs_is_that_of_the_tests():
    assert len(DIRT) >= 60
    assert PAGE.read_text(encoding="utf-8").split(MARK)[1] == f"\n{summary()}\n{table()}"


def test_a_folder_is_not_a_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").mkdir()
    assert main(["train", "t.csv"]) == 2
    assert "t.csv is a folder, not a file" in capsys.readouterr().err


def test_a_used_folder_is_left_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(GOOD)
    out = tmp_path / "out" / "train-t"
    out.mkdir(parents=True)
    (out / "mine.txt").write_text("keep")
    before = everything(tmp_path)
    for resume in ([], ["--resume"]):
        assert main(["train", "t.csv", "--target", "y", *resume]) == 2
        error = capsys.readouterr().err
        assert str(out.relative_to(tmp_path)) in error
        assert ("--resume" in error) == (not resume)
        assert everything(tmp_path) == before
    (tmp_path / "file").write_text("")
    assert main(["train", "t.csv", "--target", "y", "--out", "file"]) == 2
    assert "file is a file, not a folder" in capsys.readouterr().err


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "datasets"])
def test_every_command_refuses_arguments_that_it_does_not_know(command, capsys):
    what = {"reproduce": ["regret"], "predict": ["run", "new.csv"]}.get(command, ["iris"])
    assert main([command, *what, "--colour", "red"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "--colour" in error
