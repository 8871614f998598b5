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
