"""The entry point: one command a file, each with `add_arguments(parser)` and `run(options)`."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

import tombola
from tombola.cli.common import CommandError
from tombola.datasets import DataError

__all__ = ["main"]

# Each is a module of its name beside this one; a line here is all that a new one needs.
COMMANDS = {
    "advise": "does adaptive sampling pay on my data, by how much, and how do I use it?",
    "train": "fit a model; save it with its trace and a report",
    "demo": "see it work: two small races on generated data, in a minute",
    "reproduce": "do the paper's experiments again, on real data",
    "report": "write one page on experiments, from their rows alone",
    "datasets": "list the data sets that have a name",
}
BAD_INPUT, INTERRUPTED = 2, 130
EXTRA = {"matplotlib", "pyarrow", "rich", "scipy", "sklearn"}  # what tombola[cli] installs


class Parser(argparse.ArgumentParser):
    """Says what is wrong in a sentence, and leaves exiting to `main`."""

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print."""
        raise CommandError(f"{message} ({self.prog} --help says more)")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code.

    0 where all went well; 2 for bad input, with one sentence on stderr; 130 after Ctrl-C.

    Examples
    --------
    >>> main(["--version"])
    tombola 0.1.0.dev0
    0
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(arguments)
    except SystemExit as stop:  # --help and --version
        return int(stop.code or 0)
    except KeyboardInterrupt as interruption:
        message = str(interruption) or "interrupted"
        print(f"\ntombola: {message}", file=sys.stderr)
        return INTERRUPTED
    except ImportError as error:
        missing = _missing_extra(error)
        if missing is None:
            raise
        message = f"this needs {missing}, which is not installed: pip install tombola[cli]"
    except MemoryError as error:
        message = f"there is not enough memory: {error}"
    except BrokenPipeError:  # whoever read the output has gone: `tombola datasets | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # no room, no permission
        message = f"{error.filename or ''}: {error.strerror or error}".lstrip(": ")
    except (CommandError, DataError) as error:
        message = str(error)
    print(f"tombola: {message}", file=sys.stderr)
    return BAD_INPUT


def _run(arguments: Sequence[str]) -> int:
    parser = Parser(prog="tombola", description="Draws the training examples that matter.")
    parser.add_argument("--version", action="version", version=f"tombola {tombola.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    chosen = next((word for word in arguments if not word.startswith("-")), None)
    for name, what in COMMANDS.items():
        sub = commands.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}")
        if name == chosen:  # the others are not loaded
            import_module(f"tombola.cli.{name}").add_arguments(sub)
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    code: int = import_module(f"tombola.cli.{options.command}").run(options)
    return code


def _missing_extra(error: BaseException | None) -> str | None:
    """Return which package of the extra is missing, if that is why an import has failed."""
    while error is not None:
        name = str(getattr(error, "name", None)).split(".")[0]
        if isinstance(error, ModuleNotFoundError) and name in EXTRA:
            return "scikit-learn" if name == "sklearn" else name
        error = error.__cause__
    return None


if __name__ == "__main__":
    sys.exit(main())
