"""A small sample of `fuzz_files.py`: damaged files are answered or refused, in a sentence."""

from fuzz_files import campaign
from tombola.cli.progress import Progress
from tombola.report import Page


def test_damaged_files_are_answered_or_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(Page, "figure", Page.figure)  # put back what the campaign replaces
    monkeypatch.setattr(Progress, "FIRST", Progress.FIRST)
    seen, faults = campaign(0, 60, 7, tmp_path)
    assert not faults, "\n\n".join(faults)
    assert {"predict: answer", "predict: refused", "train: refused"} <= set(seen)
