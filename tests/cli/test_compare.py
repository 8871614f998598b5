"""`tombola report` of runs of `tombola train`: one again, several side by side."""

import csv
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from tombola.cli import report
from tombola.cli.main import main
from tombola.report import Page


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Five runs, made once; tests copy what they change."""
    folder = tmp_path_factory.mktemp("runs")
    for name, arguments in {
        "default": ["iris", "--solver", "sdca"],
        "short": ["iris", "--solver", "sdca", "--epochs", "1"],
        "other-seed": ["iris", "--solver", "sdca", "--seed", "1"],
        "strong": ["iris", "--solver", "sdca", "--alpha", "0.1"],
        "cancer": ["breast_cancer"],
    }.items():
        assert main(["train", *arguments, "--out", str(folder / name)]) == 0
    return folder


@pytest.fixture
def here(runs, tmp_path, monkeypatch):
    shutil.copytree(runs, tmp_path / "runs")
    monkeypatch.chdir(tmp_path / "runs")


def page_of(*folders):
    assert main(["report", *folders, "--out", "page.html"]) == 0
    return Path("page.html").read_text()


def tables(page):
    """Every table of a page, as rows of text."""
    found = []
    for body in re.findall(r"<table.*?</table>", page, re.DOTALL):
        rows = re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
        cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
        found.append([[re.sub(r"<.*?>", "", cell) for cell in row] for row in cells])
    return found


def test_one_run_alone_is_its_page_again(here):
    before = Path("default/report.html").read_bytes()
    Path("default/report.html").unlink()
    assert main(["report", "default"]) == 0
    assert Path("default/report.html").read_bytes() == before


def test_what_differs_and_how_they_ended(here):
    page = page_of("default", "short")
    differs, ended, scores = tables(page)
    assert differs == [["setting", "default", "short"], ["epochs", "100", "1"]]
    records = [json.loads(Path(name, "run.json").read_text()) for name in ("default", "short")]
    values = [np.mean([p["objective"] for p in record["parts"]]) for record in records]
    assert [row[3] for row in ended[1:]] == [f"{value:.4g}" for value in values]
    assert [row[-1] for row in ended[1:]] == ["settled", "not settled"]
    assert ended[1][4] == ended[2][4]  # the better bound holds for both
    least = float(ended[1][4])
    assert least <= values[0] <= values[1]
    assert float(ended[2][5].rstrip("%")) == pytest.approx(100 * (values[1] / least - 1), rel=0.1)
    assert scores[0] == ["score", "default", "short", "best"]
    assert "<strong>default</strong> has the least objective" in page
    assert "Not settled: short." in page
    assert page.count("<svg") == 2


def test_the_best_score_is_marked_in_its_direction(here):
    record = json.loads(Path("short/run.json").read_text())
    record["scores"] = {"accuracy": 0.5, "root mean squared error": 0.1, "R squared": 0.3}
    Path("short/run.json").write_text(json.dumps(record))
    record["scores"] = {"accuracy": 0.5, "root mean squared error": 0.2, "R squared": 0.4}
    Path("default/run.json").write_text(json.dumps(record))
    rows = {row[0]: row[-1] for row in tables(page_of("default", "short"))[-1]}
    assert rows["accuracy"] == "default, short"
    assert rows["root mean squared error"] == "short"
    assert rows["R squared"] == "default"


def test_runs_on_other_rows_have_no_best(here):
    page = page_of("default", "other-seed")
    assert "default and other-seed are trained on different rows" in page
    assert "The rows held out are not the same in all runs" in page
    assert {row[-1] for row in tables(page)[-1][1:]} == {"&ndash;"}
    assert "has the least objective" not in page


def test_rows_that_are_scaled_or_not_are_the_same(here):
    assert main(["train", "iris", "--solver", "sdca", "--no-scale", "--out", "raw"]) == 0
    page = page_of("default", "raw")
    assert "the best accuracy" in page
    assert "default has scale = True, raw has scale = False" in page


def test_other_problems_are_not_compared_by_their_objective(here):
    page = page_of("default", "strong")
    assert "default has alpha = 0.008333333333333333, strong has alpha = 0.1" in page
    assert "has the least objective" not in page
    assert "the best accuracy" in page  # the rows held out are the same


def test_any_runs_go_side_by_side(here):
    page = page_of("default", "cancer", "strong")
    assert "default and cancer are of different data" in page
    assert "different problems: there is no best one" in page


def test_runs_of_the_same_name_are_told_apart(here):
    shutil.copytree("short", "elsewhere/default")
    assert main(["report", "default", "elsewhere/default"]) == 0
    page = Path("default/comparison.html").read_text()
    assert tables(page)[0][0] == ["setting", "runs/default", "elsewhere/default"]
    assert str(Path.cwd()) not in page


def unfinished():
    record = json.loads(Path("short/run.json").read_text())
    Path("short/run.json").write_text(json.dumps({**record, "finished": False}))


def older():
    record = json.loads(Path("short/run.json").read_text())
    del record["parts"]
    Path("short/run.json").write_text(json.dumps(record))


def empty_trace():
    lines = Path("short/trace.csv").read_text().splitlines()
    Path("short/trace.csv").write_text(lines[0] + "\n")


def experiment():
    Path("short/run.json").rename("short/about.json")


WRONG = {
    "there is no folder short": lambda: shutil.rmtree("short"),
    "short holds no run of `tombola train`, default does": experiment,
    "short holds a run that has not ended": unfinished,
    "the state is incomplete: it has no parts": older,
    "short has no trace.csv": lambda: Path("short/trace.csv").unlink(),
    "short/run.json is not the record of a run": lambda: Path("short/run.json").write_text("{"),
    "a sound run of `tombola train` (trace.csv lacks rows)": empty_trace,
    "`tombola train`: it holds a list, not an": lambda: Path("short/run.json").write_text("[1]"),
}


@pytest.mark.parametrize("said", WRONG)
def test_a_wrong_folder_is_named(said, here, capsys):
    WRONG[said]()
    assert main(["report", "default", "short"]) == 2
    assert said in capsys.readouterr().err
    assert not Path("default/comparison.html").exists()


def entries(record, way=()):
    """The ways to all entries of a record."""
    for key, inner in record.items() if isinstance(record, dict) else enumerate(record):
        yield (*way, key)
        if isinstance(inner, (dict, list)):
            yield from entries(inner, (*way, key))


def with_entry(record, way, value):
    record = json.loads(json.dumps(record))
    holder = record
    for key in way[:-1]:
        holder = holder[key]
    holder[way[-1]] = value
    return record


@pytest.mark.parametrize("value", [[[1]], None, -1e308])
def test_a_record_with_one_entry_of_another_type(value, here, capsys, monkeypatch):
    """It is refused with a sentence, or harmless."""
    monkeypatch.setattr(Page, "save", lambda page, path: None)
    monkeypatch.setattr(Page, "figure", lambda page, *drawn: None)
    path = Path("short/run.json")
    record = json.loads(path.read_text())
    refused = set()
    for way in entries(record):
        path.write_text(json.dumps(with_entry(record, way, value)))
        for folders in (["short"], ["default", "short"]):
            capsys.readouterr()
            code = main(["report", *folders])
            said = capsys.readouterr().err
            assert code in (0, 2), way
            assert code == 0 or len(said.splitlines()) == 1, (way, said)
            if code == 2:
                refused.add(way[0])
    assert {"data", "parts"} <= refused


TRACES = {
    "line 2: objective is inf": ("objective", "inf"),
    "could not convert string to float": ("gap", "much"),
    "does not say how": ("seconds", "nan"),
    "field larger than field limit": ("epoch", "7" * 140_000),
}


@pytest.mark.parametrize("said", TRACES)
def test_a_trace_that_is_not_sound_is_refused(said, here, capsys, usual_field_limit):
    name, value = TRACES[said]
    with Path("short/trace.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    rows[0][name] = value
    with Path("short/trace.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    assert main(["report", "short"]) == 2
    assert said in capsys.readouterr().err


def test_a_run_given_twice(here, capsys):
    assert main(["report", "default", "../runs/default"]) == 2
    assert "../runs/default is given twice" in capsys.readouterr().err


def test_the_labels_are_the_shortest_that_differ():
    places = [Path("/x/a/r"), Path("/x/b/r"), Path("/y/b/q")]
    assert report._labels(places) == ["a/r", "b/r", "b/q"]
