"""`tombola reproduce` and `report`: what they write, and what they refuse."""

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

import tombola
from experiments import coordinates, sweep
from tombola.cli import reproduce
from tombola.cli.main import main


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What one run of one problem writes."""
    out = tmp_path_factory.mktemp("shown") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coordinates, "PROBLEMS", ("lasso-small-l1",))
        patch.setattr(coordinates, "MARKS", (1, 5, 200))
        command = ["reproduce", "coordinates", "--runs", "1", "--jobs", "1", "--out", str(out)]
        assert main(command) == 0
    return out


def refused(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert code == 2
    assert captured.err.startswith("tombola: ")
    assert "Traceback" not in captured.err
    assert captured.err.count("\n") == 1
    return captured.err


def test_an_experiment_writes_rows_a_picture_and_a_page(shown):
    assert (shown / "coordinates" / "rows.csv").exists()
    assert (shown / "coordinates" / "coordinates.png").stat().st_size > 10_000
    page = (shown / "report.html").read_text()
    assert "Coordinate and block descent" in page
    assert "<svg" in page
    assert not re.findall(r"""(?:src|href)=["'](?!#)|url\((?!#)|https?://""", page)


def test_a_report_is_made_of_the_rows_alone(shown, tmp_path, capsys):
    copy = tmp_path / "kept"
    (copy / "coordinates").mkdir(parents=True)
    for name in ("about.json", "rows.csv"):
        shutil.copy(shown / "coordinates" / name, copy / "coordinates" / name)
    assert main(["report", str(copy)]) == 0
    again = (copy / "report.html").read_text()
    assert again == (shown / "report.html").read_text()
    page = tmp_path / "page.html"
    assert main(["report", str(copy / "coordinates"), "--out", str(page)]) == 0
    capsys.readouterr()
    assert "exists already" in refused(capsys, "report", copy / "coordinates", "--out", page)


def test_a_report_of_several_counts_what_was_confirmed(shown, tmp_path):
    page = tmp_path / "page.html"
    assert main(["report", str(shown), str(shown / "coordinates"), "--out", str(page)]) == 0
    assert "were confirmed" in page.read_text()
    assert page.read_text().count("<svg") == 2


def test_reports_of_nothing_are_refused(tmp_path, capsys):
    assert "there is no folder" in refused(capsys, "report", tmp_path / "none", "--out", "p.html")
    assert "holds no results" in refused(capsys, "report", tmp_path)
    for other in ("{}", "[]", "{", '{"command": "demo"}'):  # of other programs
        (tmp_path / "about.json").write_text(other)
        assert "holds no results of `tombola train`" in refused(capsys, "report", tmp_path)
    (tmp_path / "about.json").write_text('{"experiment": "coordinates"}')
    assert "about.json cannot be read: the state is" in refused(capsys, "report", tmp_path)
    about = {"experiment": "coordinates", "settings": {}, "data": {}}
    (tmp_path / "about.json").write_text(json.dumps(about))
    assert "holds no results" in refused(capsys, "report", tmp_path)
    (tmp_path / "rows.csv").write_text("problem,run\nlasso,0\n")
    assert "cannot be read" in refused(capsys, "report", tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["about.json", "rows.csv"]


@pytest.mark.parametrize("name", ["voc", "kmeans", "hyper", "all"])
def test_missing_data_are_named_before_anything_runs(name, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("TOMBOLA_DATA", raising=False)
    (tmp_path / "empty").mkdir()
    message = refused(
        capsys, "reproduce", name, "--data", tmp_path / "empty", "--out", tmp_path / "out"
    )
    assert ".npz" in message
    assert not (tmp_path / "out").exists()


def test_bad_arguments_are_refused(tmp_path, capsys):
    assert "'vocc'" in refused(capsys, "reproduce", "vocc")
    assert "integer of at least 1" in refused(capsys, "reproduce", "voc", "--runs", "0")
    assert "integer of at least 1" in refused(capsys, "reproduce", "voc", "--jobs", "two")
    (tmp_path / "file").write_text("")
    assert "is a file" in refused(capsys, "reproduce", "regret", "--out", tmp_path / "file")


def test_a_folder_of_other_settings_is_refused(tmp_path, capsys):
    folder = tmp_path / "coordinates"
    folder.mkdir()
    (folder / "runs").mkdir()
    other = {"experiment": "coordinates", "settings": {}, "data": {}}
    (folder / "about.json").write_text(json.dumps(other))
    message = refused(capsys, "reproduce", "coordinates", "--out", tmp_path)
    assert "holds runs with different settings" in message
    assert not list((folder / "runs").iterdir())


# --- where there is no clone --------------------------------------------------------------------


@pytest.fixture
def no_clone(monkeypatch):
    monkeypatch.setattr(reproduce, "clone", lambda: None)


@pytest.mark.parametrize("arguments", [["voc"], ["all", "--runs", "3"]])
def test_without_a_clone_reproduce_says_what_to_do(arguments, no_clone, capsys):
    said = refused(capsys, "reproduce", *arguments)
    assert "not part of the installed package: `git clone`" in said
    assert "`pip install -e .`" in said


def test_help_needs_no_clone(no_clone, capsys):
    assert main(["reproduce", "--help"]) == 0
    assert "{regret,voc,hyper,kmeans,coordinates,all}" in capsys.readouterr().out


def test_the_names_are_those_of_the_experiments():
    assert sweep.NAMES == reproduce.NAMES
    for name in reproduce.NAMES:
        assert callable(sweep.experiment(name).show)


def test_without_a_clone_results_are_not_shown_but_bad_folders_are_named(
    shown, no_clone, tmp_path, capsys
):
    page = tmp_path / "page.html"
    assert "`git clone`" in refused(capsys, "report", shown, "--out", page)
    assert "holds no results" in refused(capsys, "report", tmp_path, "--out", page)
    assert "there is no folder" in refused(capsys, "report", tmp_path / "none", "--out", page)
    assert not page.exists()


def test_a_clone_is_that_of_the_package_not_the_current_folder(tmp_path, monkeypatch):
    root = Path(tombola.__file__).parents[2]
    monkeypatch.chdir(tmp_path)
    assert reproduce.clone() == root
    wheel = SimpleNamespace(__file__=str(tmp_path / "lib" / "site-packages" / "tombola" / "x.py"))
    monkeypatch.setattr(reproduce, "tombola", wheel)
    assert reproduce.clone() is None
    monkeypatch.chdir(root)  # what runs would be the other code
    assert reproduce.clone() is None
