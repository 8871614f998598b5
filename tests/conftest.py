import os
import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))  # for `naive` and `budget`

settings.register_profile("default", max_examples=500, stateful_step_count=100, deadline=None)
settings.register_profile("uncompiled", max_examples=20, stateful_step_count=30, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
