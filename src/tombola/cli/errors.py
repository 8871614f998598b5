"""The error that commands report without a traceback."""

__all__ = ["CommandError"]


class CommandError(Exception):
    """A command cannot do what was asked: one sentence, printed instead of a traceback."""
