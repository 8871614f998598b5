"""CONTRIBUTING.md, SECURITY.md and the templates of a forge: all that they name exists."""

import re
import shlex
import subprocess
import sys
import tomllib

import pytest

import tombola
from pages import ROOT, links, spans, tables, wrong_command, wrong_name

yaml = pytest.importorskip("yaml")

TEMPLATES = ROOT / ".github"
FORMS = sorted((TEMPLATES / "ISSUE_TEMPLATE").glob("*.yml"))
PAGES = ["CONTRIBUTING.md", "SECURITY.md", ".github/PULL_REQUEST_TEMPLATE.md"]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()


def wrong_span(span):
    """What is wrong with something between backticks; None if it exists."""
    from tombola.cli.main import COMMANDS

    words = span.split()
    if len(words) == 2 and words[0] == "tombola" and words[1] in COMMANDS:
        return None  # a command without its arguments
    if len(words) > 1:
        return wrong_command(span)
    if re.search(r"/|\.(md|toml)$", span):
        return None if (ROOT / span).exists() else f"there is no file {span}"
    return wrong_name(re.sub(r"\(.*\)$", "", span))


def complaints(text):
    found = [message for message in map(wrong_span, spans(text)) if message]
    return found + [f"no file {link}" for link in links(text) if not (ROOT / link).exists()]


@pytest.mark.parametrize("page", PAGES)
def test_all_that_a_page_names_exists(page):
    text = (ROOT / page).read_text()
    assert spans(text)
    assert complaints(text) == []


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("`make fuzz`", "`make fuss`", "no such target"),
        ("`tests/naive.py`", "`tests/native.py`", "no file tests/native.py"),
        ("`CHANGELOG.md`", "`CHANGES.md`", "no file CHANGES.md"),
        ("testing.check_sampler`", "testing.check_sample`", "no name tombola.testing.check_sample"),
        ("`python benchmarks/compare.py`", "`python benchmarks/contrast.py`", "no such script"),
        ("(docs/write_your_own_sampler.md)", "(docs/write_a_sampler.md)", "no file docs/write_a"),
    ],
)
def test_a_wrong_name_is_noticed(right, wrong, message):
    assert right in CONTRIBUTING
    found = complaints(CONTRIBUTING.replace(right, wrong))
    assert any(message in complaint for complaint in found), found


def listed(text):
    """The layer of each part of the package, by the table."""
    rows = [row for row in tables(text) if "Layer" in row]
    found = {spans(row["Folder or file"])[0]: int(row["Layer"]) for row in rows}
    assert list(found.values()) == sorted(found.values(), reverse=True)
    return {re.sub(r"^src/tombola/|/$|\.py$", "", path): layer for path, layer in found.items()}


def enforced():
    """The same, by the contract of import-linter."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contract, _ = settings["tool"]["importlinter"]["contracts"]
    layers = enumerate(reversed(contract["layers"]), 1)
    return {part: layer for layer, names in layers for part in names.split(" | ")}


def test_layers_are_those_that_are_enforced():
    assert listed(CONTRIBUTING) == enforced()
    row = next(line for line in CONTRIBUTING.splitlines() if "`src/tombola/gauge.py`" in line)
    assert listed(CONTRIBUTING.replace(row + "\n", "")) != enforced()


@pytest.mark.parametrize("name", sorted({*tombola.samplers.__all__} - {"Sampler"}))
def test_each_sampler_took_the_steps_of_a_new_one(name):
    kind = getattr(tombola.samplers, name)
    room = ROOT / "src" / "tombola" / "samplers"
    path = ROOT / "src" / (kind.__module__.replace(".", "/") + ".py")
    assert path.parent in (room, room / "rivals")
    assert re.findall(r"^class (\w+)\(\w*Sampler\):", path.read_text(), re.MULTILINE) == [name]
    assert "Examples\n" in kind.__doc__
    assert getattr(tombola, name) is kind
    for page, entry in [
        ("docs/reference.md", f"   tombola.{name}\n"),
        ("docs/states.py", f'"`{name}'),
        ("docs/choose.md", f"| `{name}("),
        ("tests/test_testing.py", f"{name}("),
        ("tests/players.py", f"tombola.{name}("),
    ]:
        assert entry in (ROOT / page).read_text(), f"{page} does not have {name}"


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_forms_are_those_of_a_forge(path):
    """As GitHub's syntax for issue forms has it."""
    form = yaml.safe_load(path.read_text())
    assert set(form) == {"name", "description", "labels", "body"}
    fields = [part for part in form["body"] if part["type"] != "markdown"]
    assert {part["type"] for part in form["body"]} <= {"markdown", "textarea", "checkboxes"}
    assert len({part["id"] for part in fields}) == len(fields) > 2
    assert all(part["attributes"]["label"] for part in fields)
    assert any(part.get("validations", {}).get("required") for part in fields)
    for part in form["body"]:
        shown = part["attributes"].get("value", "") + part["attributes"].get("description", "")
        for name in re.findall(r"[\w/]+\.md", shown):
            assert (ROOT / name).exists(), name


def test_the_commands_of_the_forms_can_be_run():
    bug, question = (path.read_text() for path in FORMS)
    (line,) = re.findall(r"python (-c .*)", bug)
    run = subprocess.run(
        [sys.executable, *shlex.split(line)], capture_output=True, text=True, check=True
    )
    assert len(run.stdout.split()) == 5
    (command,) = re.findall(r"`(tombola advise [^`]*)`", question)
    assert wrong_command(command) is None
    assert wrong_name("tombola.advice.network") is None


def test_security_has_no_address_and_no_copy():
    """Reports go through the forge; figures stay where they are tested."""
    text = (ROOT / "SECURITY.md").read_text()
    assert not re.search(r"\S@\S|https?://", text)
    assert "private reporting form" in text
    assert "docs/reliability.md" in links(text)
    assert list(tables(text)) == []
    promised = (ROOT / "docs" / "reliability.md").read_text()
    assert "64 GiB" in text
    assert "64 GiB" in promised
