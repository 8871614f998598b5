"""What a run of `tombola train` leaves: its declared record, its trace, and how its parts went."""

import csv
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tombola.cli.errors import CommandError
from tombola.state import (
    Document,
    Floats,
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

__all__ = ["Begun", "Code", "Course", "Data", "Finished", "HeldOut", "PartRecord", "Run",
           "Settings", "courses", "read_record", "read_run"]  # fmt: skip

NUMBERS = ("epoch", "seconds", "objective", "variance_ratio", "gap", "held_out_loss")


class Entries(Document):
    """Entries of a record, which may have others."""

    open_ended = True

    def shown(self) -> dict[str, Any]:
        """Return the entries that have a value."""
        return {name: value for name, value in vars(self).items() if value is not None}


class Settings(Entries):
    """All settings, besides the data, that decide the outcome: those of the command line."""

    target: str | None = optional(text("the column that is predicted"))
    task: str = text("what the model does")
    impute: str | None = optional(text("what replaces missing values"))
    encode: str = text("what becomes of text with many values")
    reading: Mapping[str, Any] = mapping("how the file was read, if that is not the default")
    scale: bool = flag("whether columns are scaled")
    solver: str | None = optional(text("of a linear model"))
    alpha: float | None = optional(number("the strength of its penalty"))
    l1_ratio: float | None = optional(number("the share of l1 in it"))
    n_clusters: int | None = optional(count("clusters"))
    sampler: str = text("how rows are drawn")
    epochs: int = count("at most")
    tol: float | None = optional(number("the tolerance that ends it"))
    test: float | None = optional(number("the share of rows held out"))
    seed: int = count("of all draws")


class HeldOut(Entries):
    """The rows held out."""

    rows: int = count("their number")
    checksum: str = text("of the rows, as prepared")


class Data(Entries):
    """The rows."""

    name: str = text("of the data set")
    source: str = text("where it is from")
    rows: int = count("to train on")
    columns: int = count("of the prepared rows")
    notes: list[str] = listed("what was done to the rows", text("a sentence"))
    checksum: str = text("the SHA-256 of the file")
    held_out: HeldOut | None = optional(nested("rows to test on", HeldOut))


class PartRecord(Entries):
    """How a part of the fit ended."""

    problem: str = text("its name")
    solver: str = text("the class")
    sampler: str = text("the class")
    epochs: float = number("that it took")
    seconds: float = number("that it took")
    objective: float = number("at the end")
    rule: str = text("what ends it", ("gap", "change", "objective", "batches"))
    ended: bool = flag("whether that happened")
    gap: float | None = optional(number("the relative duality gap"))
    objective_at_0: float | None = optional(number("what the gap is relative to"))
    second_moment_ratio: float | None = optional(number("of the draws, over uniform ones"))


class Code(Entries):
    """Lines of Python."""

    predict: str = text("that predict")
    fit: str = text("that fit the same model")


class Begun(Entries):
    """The record of a run that was begun."""

    command: str = exactly("train", "what made the folder")
    finished: bool = flag("whether it has ended")
    settings: Settings = nested("what a resumed run must have in common", Settings)
    data: Data = nested("the rows", Data)
    versions: Mapping[str, str] = mapping("of the packages", text("a version"))

    def json(self) -> str:
        """Return the text of run.json; raise a ValueError if a number is not finite."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"


class Finished(Begun):
    """The record of a run that has ended."""

    parts: list[PartRecord] = listed("how each part ended", PartRecord)
    scores: Mapping[str, float] = mapping("on the rows held out", number("a score"))
    seconds: float = number("of all parts")
    verdict: str = text("whether it converged, in words")
    code: Code = nested("that does the same", Code)


def read_record(folder: Path, kind: type[Begun] = Begun) -> Any:
    """Return the record of a run, of a kind, or raise a CommandError."""
    path = folder / "run.json"
    try:
        return kind.read(read_json(path))
    except ValueError as error:
        raise CommandError(
            f"{path} is not the record of a run of `tombola train`: {error}"
        ) from None


@dataclass(frozen=True, eq=False)
class Course:
    """How a part of a fit went: each row of its trace, NaN if a value is not known."""

    name: str
    epochs: Floats
    seconds: Floats
    objective: Floats
    ratios: Floats  # of variances, over those of uniform draws
    gaps: Floats  # relative duality gaps
    held: Floats  # the loss on the rows held out
    unit: float  # the objective at w = 0, which gaps are relative to; NaN for clusters
    rule: str  # what ends the part, as in `PartRecord`
    ended: bool  # whether that has happened

    @property
    def gap(self) -> float:
        """The relative gap at the end."""
        return float(self.gaps[-1])

    @property
    def floor(self) -> float:
        """What the minimum is proved not to be below; NaN where nothing is proved."""
        return float(self.objective[-1]) - self.gap * self.unit


def courses(parts: Sequence[PartRecord], trace: Sequence[dict[str, Any]]) -> list[Course]:
    """Return how the parts went, from the record of a run and the rows of its trace."""
    found = []
    for part in parts:
        rows = [row for row in trace if row["problem"] == part.problem]
        columns: Any = [np.array([float(row[name]) for row in rows]) for name in NUMBERS]
        unit = math.nan if part.objective_at_0 is None else float(part.objective_at_0)
        how: Any = {"unit": unit, "rule": part.rule, "ended": bool(part.ended)}
        found.append(Course(part.problem, *columns, **how))
    return found


@dataclass(frozen=True, eq=False)
class Run:
    """A run of `tombola train`, with a label among others: its record, and how its parts went."""

    label: str
    record: Finished
    parts: list[Course]


def read_run(folder: Path, label: str) -> Run:
    """Return a run that has ended, or raise an error that says what is wrong with its folder."""
    try:
        if not read_record(folder).finished:
            raise CommandError(
                f"{folder} holds a run that has not ended: the same command with --resume "
                "continues it"
            )
        record = read_record(folder, Finished)
        with (folder / "trace.csv").open(encoding="utf-8", newline="") as file:
            trace: list[dict[str, Any]] = list(csv.DictReader(file))
        for line, row in enumerate(trace, 2):
            for name in NUMBERS:
                if math.isinf(float(row[name])):
                    raise ValueError(f"trace.csv, line {line}: {name} is {row[name]}")
        parts = courses(record.parts, trace)
        if not parts or not all(len(part.epochs) for part in parts):
            raise ValueError("trace.csv lacks rows")
        for part in parts:
            if not np.isfinite([*part.epochs, *part.seconds, part.objective[-1]]).all():
                raise ValueError(f"trace.csv does not say how {part.name!r} went")
    except FileNotFoundError as error:
        raise CommandError(f"{folder} has no {Path(error.filename).name}: train again") from None
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        raise CommandError(
            f"{folder} does not hold a sound run of `tombola train` ({error}): train again"
        ) from None
    return Run(label, record, parts)
