import itertools
import sys
from pathlib import Path

import pytest

from tombola.advice import race

sys.path.insert(0, str(Path(__file__).parent.parent / "report"))  # for `test_page.Reader`


@pytest.fixture
def even_clock(monkeypatch):
    """A short race, on a clock that advances by one each time it is read.

    All steps then take the same time, on any machine.
    """
    ticks = itertools.count()
    monkeypatch.setattr(race, "clock", lambda: float(next(ticks)))
    monkeypatch.setattr(race, "SCHEDULES", ((3, 8),))
    monkeypatch.setattr(race, "STEPS", 4000)
