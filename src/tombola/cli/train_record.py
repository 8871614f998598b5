"""The record of a run of `tombola train`, run.json, as it is read from a folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tombola.cli.errors import CommandError
from tombola.state import (
    Document,
    count,
    exactly,
    flag,
    listed,
    mapping,
    nested,
    number,
    optional,
    text,
)
from tombola.state.files import read_json

__all__ = ["Finished", "read_record"]


class Entries(Document):
    """Entries of a record, which may have others."""

    open_ended = True


class BegunData(Entries):
    """The data of a run that was begun."""

    checksum: str = text("the SHA-256 of the file")


class Begun(Entries):
    """The record of a run that was begun."""

    command: str = exactly("train", "what made the folder")
    finished: bool = flag("whether it has ended")
    settings: Mapping[str, Any] = mapping("what a resumed run must have in common")
    data: BegunData = nested("the rows", BegunData)


class Settings(Entries):
    """The settings that a page shows."""

    task: str = text("what the model does")
    target: str | None = optional(text("the column that is predicted"))
    epochs: int = count("at most")
    test: float | None = optional(number("the share of rows held out"))
    seed: int = count("of all draws")


class Data(BegunData):
    """The data of a run that has ended."""

    name: str = text("of the data set")
    source: str = text("where it is from")
    rows: int = count("to train on")
    columns: int = count("of the prepared rows")
    notes: list[str] = listed("what was done to the rows", text("a sentence"))
    held_out: Mapping[str, Any] | None = optional(mapping("how rows were held out"))


class PartRecord(Entries):
    """How a part of the fit ended."""

    problem: str = text("its name")
    solver: str = text("the class")
    sampler: str = text("the class")
    epochs: float = number("that it took")
    seconds: float = number("that it took")
    objective: float = number("at the end")
    rule: str = text("what ends it")
    ended: bool = flag("whether that happened")
    gap: float | None = optional(number("the relative duality gap"))
    objective_at_0: float | None = optional(number("what the gap is relative to"))
    second_moment_ratio: float | None = optional(number("of the draws, over uniform ones"))


class Code(Entries):
    """Lines of Python."""

    predict: str = text("that predict")
    fit: str = text("that fit the same model")


class Finished(Entries):
    """The record of a run that has ended."""

    settings: Settings = nested("of the run", Settings)
    data: Data = nested("the rows", Data)
    versions: Mapping[str, str] = mapping("of the packages", text("a version"))
    parts: list[PartRecord] = listed("how each part ended", PartRecord)
    scores: Mapping[str, float] = mapping("on the rows held out", number("a score"))
    seconds: float = number("of all parts")
    verdict: str = text("whether it converged, in words")
    code: Code = nested("that does the same", Code)


def read_record(folder: Path) -> dict[str, Any]:
    """Return the record of a run that was begun, or raise a CommandError."""
    path = folder / "run.json"
    try:
        record = read_json(path)
        Begun.read(record)
    except ValueError as error:
        raise CommandError(
            f"{path} is not the record of a run of `tombola train`: {error}"
        ) from None
    return record
