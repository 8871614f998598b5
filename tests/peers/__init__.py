"""The test suites of other libraries, run with our classes in place of theirs.

    make test-peers

A suite is a file in `suites/`: whose tests, what stands for which name, and which tests are
expected to fail, and why. `command.py` runs suites and compares, `substitution.py` is the pytest
plugin that puts our names into their test modules, `session.py` does so in processes that tests
spawn, and `adapter.py` helps where parameters have other names. Their tests are read where they
are installed; nothing of them is copied.
"""
