import csv
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))  # for `naive` and `budget`
sys.path.insert(0, str(Path(__file__).parent / "report"))  # for `test_page.Reader`

os.environ["TOMBOLA_QUIET"] = "1"  # no line about compiling in what the tests read

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background by a shell
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("default", max_examples=500, stateful_step_count=100, deadline=None)
settings.register_profile("uncompiled", max_examples=20, stateful_step_count=30, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture
def usual_field_limit():
    """The longest field of a CSV file that Python reads by default; reading data raises it."""
    before = csv.field_size_limit(2**17)
    yield
    csv.field_size_limit(before)
