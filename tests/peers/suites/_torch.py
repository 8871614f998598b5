"""What the suites of PyTorch's tests of loaders share.

These tests are not installed with PyTorch: a folder with its file test/test_dataloader.py alone, of
the same release, must be on PYTHONPATH, and expecttest must be installed.
"""

import expecttest  # noqa: F401, which their tests import

__all__ = ["DURING_TESTS", "LEFT_OUT", "MODULES"]

MODULES = ["test_dataloader"]
DURING_TESTS = True
LEFT_OUT = ["IntegrationTestDataLoaderDataPipe"]  # iterable data only, for a minute and a half
