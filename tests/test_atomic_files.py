"""Files are written whole or not at all."""

import os
import stat
from pathlib import Path

import pytest

from tombola.state.files import _is_ours, read_json, replaced_file, write_text


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


def test_content_and_name_are_on_disk_in_this_order(tmp_path, monkeypatch):
    """The whole content is flushed before the rename, the folder after it; nothing stays open."""
    events, handles, fsync, replace = [], [], os.fsync, os.replace

    def watched_fsync(handle):
        handles.append(handle)
        folder = stat.S_ISDIR(os.fstat(handle).st_mode)
        events.append("folder" if folder else os.fstat(handle).st_size)
        fsync(handle)

    def watched_replace(old, new):
        events.append("rename")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "replace", watched_replace)
    write_text(tmp_path / "t", "five!")
    assert events == [5, "rename", "folder"]
    for handle in handles:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(handle)


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o026, 0o077])
def test_files_have_the_usual_permissions(tmp_path, mask):
    before = os.umask(mask)
    try:
        write_text(tmp_path / "ours", "x")
        (tmp_path / "usual").write_text("x")
        assert os.umask(mask) == mask  # left as it was
    finally:
        os.umask(before)
    ours, usual = ((tmp_path / name).stat().st_mode for name in ("ours", "usual"))
    assert ours == usual


def test_the_error_is_the_first_one_if_the_temporary_file_is_gone(tmp_path):
    def lose_it():
        with replaced_file(tmp_path / "t"):
            for path in tmp_path.iterdir():
                path.unlink()
            raise KeyError("first")

    with pytest.raises(KeyError, match="first"):
        lose_it()


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        (None, True),
        ("folder", True),
        ("folder/.tombola-1.part", True),
        ("folder/other", False),
        ("elsewhere", False),
        (5, False),
    ],
)
def test_errors_about_other_files_are_left_alone(name, ours):
    assert _is_ours(name, Path("folder")) == ours


@pytest.mark.parametrize(("name", "renamed"), [(None, True), ("elsewhere", False)])
def test_an_error_names_the_file_unless_it_is_about_another(name, renamed, tmp_path):
    error = OSError(28, "No space left on device", *([name] if name else []))
    with pytest.raises(OSError, match="No space") as raised, replaced_file(tmp_path / "it"):
        raise error
    assert raised.value.filename == (str(tmp_path / "it") if renamed else name)
    assert list(tmp_path.iterdir()) == []


def test_permissions_are_kept(tmp_path):
    """What only its owner may read stays so; a new file has the usual permissions."""
    path = tmp_path / "file"
    for mode in (0o600, 0o640, 0o666):
        path.touch()
        path.chmod(mode)
        write_text(path, "again")
        assert path.stat().st_mode & 0o777 == mode
    write_text(tmp_path / "new", "")
    (tmp_path / "usual").touch()
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "it holds a list, not an object"),
        ('{"a": ' * 60_000, "nested too deeply"),
        ('{"a": ' * 50 + "{}" + "}" * 50, "nested more than 50 levels deep"),
        (r'{"a": "\ud800"}', "surrogates not allowed"),
        ("{", "Expecting property name"),
    ],
)
def test_json_that_is_no_object_is_refused(text, message, tmp_path):
    (tmp_path / "it").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_json(tmp_path / "it")


def test_json_is_read(tmp_path):
    text = '{"a": ' * 48 + '{"b": ["\u00e4", 1]}' + "}" * 48
    (tmp_path / "it").write_text(text, encoding="utf-8")
    found = read_json(tmp_path / "it")
    for _ in range(48):
        found = found["a"]
    assert found == {"b": ["\u00e4", 1]}
