"""Pages in docs/: their tables, what they name, and where their figures come from."""

import ast
import functools
import re
import shlex
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[1]
NUMBER = re.compile(r"\d[\d,_]*(?:\.\d+)?(?:e[-+]?\d+)?")
LINK = re.compile(r"\]\(([^)#]+)[^)]*\)")
REFERENCE = re.compile(
    r"(?:equation|lemma|theorem|figure|section)s? \d+(?:(?:, | and | to )\d+)*|VGG-\d+", re.I
)
BAR = re.compile(r"(?<!\\)\|")  # between cells; not one that is escaped
NO_TEXT = (".png", ".svg")


def tables(text):
    """Yield each row of each table as a dict from the table's header to the cells."""
    header = None
    for line in text.splitlines():
        if not line.startswith("|"):
            header = None
            continue
        cells = [cell.strip() for cell in BAR.split(line.strip().strip("|"))]
        if header is None:
            header = cells
        elif not set("".join(cells)) <= set("-:"):  # the line below the header
            yield dict(zip(header, cells, strict=True))


def spans(cell):
    """What a cell has between backticks."""
    return re.findall(r"`([^`]+)`", cell)


def numbers(text):
    """The numbers of more than one digit in a text, without commas."""
    found = (number.rstrip(",_") for number in NUMBER.findall(text))
    return {re.sub("[,_]", "", number) for number in found if len(number) > 1}


@functools.cache
def numbers_of_file(path):
    return numbers(path.read_text())


def links(text):
    """The files that a text links to, relative to docs/."""
    return [link for link in LINK.findall(text) if "://" not in link]


def missing_links(text):
    """Those of them that are not there."""
    return sorted({link for link in links(text) if not (ROOT / "docs" / link).exists()})


def sources(text):
    """The files that a text links to, or names, relative to the root."""
    named = [ROOT / span.split("::")[0] for span in spans(text) if "/" in span.split(" ")[0]]
    return [ROOT / "docs" / link for link in links(text)] + named


def unsupported(text, also=()):
    """The numbers of a text that are in none of its sources, nor among others."""
    files = [path for path in sources(text) if path.is_file() and path.suffix not in NO_TEXT]
    known = set(also).union(*map(numbers_of_file, files))
    shown = re.sub(r"`[^`]*`|\]\([^)]*\)", "", text)  # without names and addresses
    return sorted(numbers(REFERENCE.sub("", shown)) - known)


@functools.cache
def wrong_name(name):
    """What is wrong with a dotted name or a path; None if nothing is."""
    if "/" in name:
        return None if (ROOT / name).exists() else f"there is no file {name}"
    parts = name.split(".")
    for k in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:k]))
        except ModuleNotFoundError:
            continue
        for part in parts[k:]:
            if not hasattr(found, part):
                return f"there is no name {name}"
            found = getattr(found, part)
        return None
    return f"there is no name {name}"


@functools.cache
def tests_in(path):
    return {
        node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)
    }


@functools.cache
def wrong_test(name):
    """What is wrong with tests/file.py::test; None if nothing is."""
    file, _, test = name.partition("::")
    path = ROOT / file
    if not (file.startswith("tests/") and path.is_file() and test in tests_in(path)):
        return f"there is no test {name}"
    return None


@functools.cache
def wrong_command(command):
    """What is wrong with a command; None if it can be called like this."""
    program, *words = shlex.split(command)
    if program == "tombola":
        return _wrong_tombola(command, words)
    if program == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
        return None if set(words) <= set(targets) else f"no such target: {command}"
    if program == "pytest":
        there = bool(words) and all((ROOT / word).is_file() for word in words)
        return None if there else f"no such test file: {command}"
    if program == "python" and words[:1] == ["-m"]:
        module = find_spec(words[1])
        path = Path(module.origin) if module else None
    elif program == "python":
        path = ROOT / words[0]
    else:
        return f"no such program: {command}"
    if path is None or not path.is_file():
        return f"no such script: {command}"
    options = {word for word in words if word.startswith("--")}
    unknown = [option for option in options if f'"{option}"' not in path.read_text()]
    return f"no such option: {command}" if unknown else None


def _wrong_tombola(command, words):
    from tombola.cli import main
    from tombola.cli.errors import CommandError

    if not words or words[0] not in main.COMMANDS:
        return f"no such command: {command}"
    parser = main.Parser(prog="tombola")
    main._module(words[0]).add_arguments(parser)
    try:
        parser.parse_args(words[1:])
    except CommandError as error:
        return f"no such arguments: {command}: {error}"
    return None
