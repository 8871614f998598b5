"""pytest, with our names also in the processes that a test spawns: they import this file, too."""

import sys

if __name__ == "__main__":
    import pytest

    sys.exit(pytest.main())
elif __name__ == "__mp_main__":
    from peers.substitution import in_a_spawned_process

    in_a_spawned_process()
