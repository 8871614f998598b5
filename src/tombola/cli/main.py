"""The entry point. Each command is a module with `add_arguments(parser)` and `run(options)`."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import NoReturn

import tombola
from tombola.cli.errors import CommandError
from tombola.cli.output import say
from tombola.datasets import DataError
from tombola_command import INTERRUPTED, interrupted

__all__ = ["main"]

# Each command is a module of this package with the same name (warm-up: warm_up).
COMMANDS = {
    "advise": "find out which model to use on your data, and whether adaptive draws pay",
    "train": "fit a model; save it with its trace and a report",
    "predict": "apply the model of a run to new rows",
    "demo": "compare with shuffling and scikit-learn on real data, in about a minute",
    "reproduce": "reproduce the experiments of the paper on real data, in a clone",
    "report": "write an HTML page about experiments, or about runs of train side by side",
    "datasets": "list the data sets that have a name",
    "warm-up": "compile the kernels that most users need, ahead of the first use",
}
BAD_INPUT = 2
EXTRA = {"jinja2", "matplotlib", "pyarrow", "rich", "scipy", "sklearn"}  # of tombola[cli]


class Parser(argparse.ArgumentParser):
    """A parser that raises its errors, so that `main` prints them in one line."""

    def error(self, message: str) -> NoReturn:
        """Raise the error that argparse would print."""
        raise CommandError(f"{message} (see {self.prog} --help)")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code.

    The exit code is 0 on success, 2 for bad input, with one sentence on stderr, and 130 after
    Ctrl-C.

    Examples
    --------
    >>> main(["--version"])
    tombola 0.2.0
    0
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(arguments)
    except SystemExit as stop:  # --help and --version
        return int(stop.code or 0)
    except KeyboardInterrupt as interruption:
        print(file=sys.stderr)
        say(interrupted(arguments, str(interruption)), error=True)
        return INTERRUPTED
    except ImportError as error:
        missing = _missing_extra(error)
        if missing is not None:
            message = f"this needs {missing}, which is not installed: pip install tombola[cli]"
        elif "failed to map segment" in str(error):  # of a compiled module
            message = "there is not enough memory"
        else:
            raise
    except MemoryError as error:
        message = f"there is not enough memory{f': {error}' if str(error) else ''}"
    except BrokenPipeError:  # the reader has closed the pipe: `tombola datasets | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # disk full, no permission
        message = f"{error.filename or ''}: {error.strerror or error}".lstrip(": ")
    except (CommandError, DataError) as error:
        message = str(error)
    say(f"tombola: {message}", error=True)
    return BAD_INPUT


def _run(arguments: Sequence[str]) -> int:
    parser = Parser(prog="tombola", description="Draws the training examples that matter.")
    parser.add_argument("--version", action="version", version=f"tombola {tombola.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    chosen = next((word for word in arguments if not word.startswith("-")), None)
    for name, what in COMMANDS.items():
        sub = commands.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}")
        if name == chosen:  # the other commands are not imported
            _module(name).add_arguments(sub)
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    code: int = _module(options.command).run(options)
    return code


def _module(command: str) -> ModuleType:
    return import_module(f"tombola.cli.{command.replace('-', '_')}")


def _missing_extra(error: BaseException | None) -> str | None:
    """Return the package of the extra that is missing, if this caused the import error."""
    while error is not None:
        name = str(getattr(error, "name", None)).split(".")[0]
        if isinstance(error, ModuleNotFoundError) and name in EXTRA:
            return "scikit-learn" if name == "sklearn" else name
        error = error.__cause__
    return None


if __name__ == "__main__":
    sys.exit(main())
