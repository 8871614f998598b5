"""One file a suite.

`MODULES` are the modules of tests. `REPLACE` gives what stands for a name, by the path that the
tests import it from. `EXPECTED` gives each failing test (`file::test[parameters]` in a suite of
several modules, else `test[parameters]`; * is any text) its reason:

- "private", or "private: what": it uses what is not public;
- "message": an error or a warning has another text;
- "by design: why", in a sentence that a user would accept;
- "open: what is missing": a fault of ours.

A suite may have `LEFT_OUT`, tests or classes of them that are not run, and `DURING_TESTS`, whether
names stay replaced while tests run, for tests that import as they run.
"""
