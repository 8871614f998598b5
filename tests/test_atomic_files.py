"""Files are written whole or not at all."""

import os

import pytest

from tombola.files import write_text


def test_a_text_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "t.txt"
    write_text(path, "before")

    def fail(*others):
        raise OSError("no room")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no room"):
        write_text(path, "after")
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["t.txt"]


def test_a_name_as_long_as_the_file_system_takes(tmp_path):
    path = tmp_path / ("n" * 250)
    write_text(path, "long")
    assert path.read_text() == "long"
    assert os.listdir(tmp_path) == [path.name]


def test_a_symbolic_link_stays_and_its_file_is_replaced(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "state", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert sorted(os.listdir(tmp_path)) == ["elsewhere", "link"]


def test_a_link_to_nowhere_makes_the_file(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "absent")
    write_text(link, "new")
    assert (tmp_path / "absent").read_text() == "new"
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        write_text(tmp_path / "no" / "file", "x")
