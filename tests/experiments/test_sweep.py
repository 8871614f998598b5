import os
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from experiments.sweep import gather, minimize, read

from experiments import sweep

sys.path.insert(0, str(Path(__file__).parent))
import toy

PATHS = [str(Path(__file__).parents[k]) for k in (0, 2)]  # of `toy`, and of `experiments`
CHILD = """
import sys
from pathlib import Path
sys.path[:0] = {paths!r}
import toy
from experiments import sweep
sweep.NAMES = (*sweep.NAMES, "toy")
sys.modules["experiments.toy"] = toy
toy.PAUSE = 0.01
print("ready", flush=True)
sweep.sweep("toy", Path({out!r}), runs=8)
"""


@pytest.fixture
def toys(monkeypatch):
    toy.install(monkeypatch)


def files(folder):
    return {path.name: path.read_text() for path in sorted((folder / "runs").iterdir())}


def test_each_run_has_a_file_and_rows_carry_their_setting(toys, tmp_path):
    seen = []
    folder = sweep.sweep("toy", tmp_path, runs=2, progress=lambda *now: seen.append(now))
    assert list(files(folder)) == ["part=choose.csv", "part=race,run=0.csv", "part=race,run=1.csv"]
    rows = read(folder)
    assert len(rows) == 1 + 2 * 3
    assert {"part": "choose", "best": 7} in rows
    assert all(row["best"] == 7 for row in rows)
    assert seen[-1] == (3, 3)


def test_finished_runs_are_kept_and_more_can_be_added(toys, tmp_path, monkeypatch):
    folder = sweep.sweep("toy", tmp_path, runs=2)
    before = files(folder)
    played = []
    play = toy.play
    monkeypatch.setattr(toy, "play", lambda s, *rest: played.append(s) or play(s, *rest))
    sweep.sweep("toy", tmp_path, runs=4)
    assert [setting["run"] for setting in played] == [2, 3]
    after = files(folder)
    assert len(after) == 5
    assert {name: after[name] for name in before} == before


def test_a_run_that_was_cut_off_is_done_again(toys, tmp_path):
    folder = sweep.sweep("toy", tmp_path, runs=2)
    whole = files(folder)
    run = folder / "runs" / "part=race,run=1.csv"
    run.unlink()
    run.with_suffix(".1.part").write_text("part,run,mark,value,best\nrace,1,1,0.5")
    sweep.sweep("toy", tmp_path, runs=2)
    after = files(folder)
    after.pop("part=race,run=1.1.part")
    assert after == whole


def test_a_run_that_fails_leaves_no_file_of_its_name(toys, tmp_path, monkeypatch):
    def broken(setting, data, earlier):
        yield {"mark": 1}
        raise RuntimeError("on purpose")

    monkeypatch.setattr(toy, "play", broken)
    with pytest.raises(RuntimeError, match="on purpose"):
        sweep.sweep("toy", tmp_path, runs=1)
    assert not list((tmp_path / "toy" / "runs").glob("*.csv"))


def test_runs_without_rows_are_an_error(toys, tmp_path, monkeypatch):
    monkeypatch.setattr(toy, "play", lambda *_: iter(()))
    with pytest.raises(sweep.SweepError, match="produced no rows"):
        sweep.sweep("toy", tmp_path, runs=1)


def test_other_settings_are_refused_and_nothing_changes(toys, tmp_path, monkeypatch):
    folder = sweep.sweep("toy", tmp_path, runs=1)
    before = files(folder), (folder / "about.json").read_text()
    monkeypatch.setattr(toy, "SETTINGS", {"marks": [1, 2]})
    with pytest.raises(sweep.SweepError, match="holds runs with different settings"):
        sweep.sweep("toy", tmp_path, runs=2)
    assert (files(folder), (folder / "about.json").read_text()) == before


def test_a_folder_of_something_else_is_refused(toys, tmp_path):
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "diary.txt").write_text("mine")
    with pytest.raises(sweep.SweepError, match="does not hold runs of toy"):
        sweep.sweep("toy", tmp_path, runs=1)
    assert [path.name for path in (tmp_path / "toy").iterdir()] == ["diary.txt"]


def test_gathered_rows_are_the_rows(toys, tmp_path):
    folder = sweep.sweep("toy", tmp_path, runs=3)
    rows = read(folder)
    gather(folder)
    for path in (folder / "runs").iterdir():
        path.unlink()
    assert read(folder) == rows


def test_a_folder_without_results_is_refused(tmp_path):
    with pytest.raises(sweep.SweepError, match="holds no results"):
        read(tmp_path)


def test_unknown_experiments_are_named(tmp_path):
    with pytest.raises(sweep.SweepError, match="there is no experiment 'vocc'"):
        sweep.sweep("vocc", tmp_path)


def test_killed_at_any_time_it_continues_to_the_same_rows(toys, tmp_path):
    whole = files(sweep.sweep("toy", tmp_path / "whole", runs=8))
    code = CHILD.format(paths=PATHS, out=str(tmp_path / "killed"))
    rng, kills = random.Random(0), 0
    while True:
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        child.stdout.readline()  # it has started
        time.sleep(rng.uniform(0.0, 0.15 * (1 + kills / 10)))  # longer on a busy machine
        if child.poll() is None:
            os.kill(child.pid, signal.SIGKILL)
            kills += 1
        child.stdout.close()
        if child.wait() == 0:
            break
        assert kills < 50
    assert kills >= 2
    left = files(tmp_path / "killed" / "toy")
    assert {name: text for name, text in left.items() if name.endswith(".csv")} == whole


def test_jobs_make_the_same_rows(toys, tmp_path, monkeypatch):
    alone = files(sweep.sweep("toy", tmp_path / "one", runs=4))
    monkeypatch.setattr(sweep, "_run", toy.run_in_child)
    both = files(sweep.sweep("toy", tmp_path / "two", runs=4, jobs=2))
    assert alone == both
    assert len(both) == 5


WORKER = """
import os, sys, time
sys.path[:0] = {paths!r}
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from experiments.sweep import _end_with_parent
if __name__ == "__main__":
    context = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=_end_with_parent) as pool:
        print(pool.submit(os.getpid).result(), flush=True)
        time.sleep(600)
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux")
def test_workers_end_when_their_parent_is_killed(tmp_path):
    (tmp_path / "script.py").write_text(WORKER.format(paths=PATHS))
    with subprocess.Popen(
        [sys.executable, tmp_path / "script.py"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as parent:
        worker = os.pidfd_open(int(parent.stdout.readline()))
        assert not select.select([worker], [], [], 0.1)[0]
        parent.kill()
        assert select.select([worker], [], [], 60)[0], "it waits for ever"
    os.close(worker)


def test_interrupted_runs_get_no_file(toys, tmp_path, monkeypatch):
    """Solvers catch Ctrl-C and return early; such a run is not finished."""
    from tombola.problems import LeastSquares
    from tombola.solvers import SGD

    problem = LeastSquares([[1.0], [2.0]], [1.0, 2.0])

    def play(setting, data, earlier):
        yield {"mark": 0}
        result = minimize(
            SGD(0.01), problem, rounds=10**6,
            progress=lambda done, total: signal.raise_signal(signal.SIGINT),
        )  # fmt: skip
        yield {"mark": result.rounds}

    monkeypatch.setattr(toy, "play", play)
    with pytest.raises(KeyboardInterrupt):
        sweep.sweep("toy", tmp_path, runs=1)
    assert not list((tmp_path / "toy" / "runs").glob("*.csv"))


def test_a_folder_that_was_hardly_begun_is_continued(toys, tmp_path):
    (tmp_path / "toy" / "runs").mkdir(parents=True)
    (tmp_path / "toy" / ".tombola-1.part").write_text("{")  # left of about.json by a killed process
    assert len(read(sweep.sweep("toy", tmp_path, runs=1))) == 4


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"experiment": "toy"}',
        '{"experiment": "toy", "settings": [], "data": {}}',
        '{"experiment": "toy", "settings": {}, "data": 5}',
        '{"experiment": ["toy"], "settings": {}, "data": {}}',
        '{"a":' * 100_000,
        '{"a":' * 60 + "{}" + "}" * 60,
    ],
    ids=range(9),
)
def test_a_broken_record_is_named(toys, tmp_path, text):
    folder = sweep.sweep("toy", tmp_path, runs=1)
    (folder / "about.json").write_text(text)
    with pytest.raises(sweep.SweepError, match=r"about.json"):
        sweep.sweep("toy", tmp_path, runs=1)


@pytest.mark.parametrize(
    ("end", "words"), [("race,0,1", "line 5: 3 cells, not 5"), ("race,0,1,0.5,7", "truncated")]
)
def test_damaged_rows_are_named(toys, tmp_path, end, words):
    folder = sweep.sweep("toy", tmp_path, runs=1)
    path = folder / "runs" / "part=race,run=0.csv"
    path.write_text(path.read_text() + end + ("\n" if "line" in words else ""))
    with pytest.raises(sweep.SweepError, match=words):
        read(folder)


@pytest.mark.parametrize("cell", [b"\xff\xfe", b"7" * 140_000], ids=["no UTF-8", "too long"])
def test_rows_that_are_no_table_are_named(toys, tmp_path, cell, usual_field_limit):
    folder = sweep.sweep("toy", tmp_path, runs=1)
    path = folder / "runs" / "part=race,run=0.csv"
    path.write_bytes(path.read_bytes() + b"race,0,1,0.5," + cell + b"\n")
    with pytest.raises(sweep.SweepError, match=r"run=0\.csv cannot be read"):
        read(folder)


def test_gathered_rows_alone_are_not_continued(toys, tmp_path):
    folder = sweep.sweep("toy", tmp_path, runs=1)
    gather(folder)
    kept = (folder / "rows.csv").read_text()
    for path in (folder / "runs").iterdir():
        path.unlink()
    (folder / "runs").rmdir()
    with pytest.raises(sweep.SweepError, match="gathered rows"):
        sweep.sweep("toy", tmp_path, runs=2)
    assert (folder / "rows.csv").read_text() == kept
