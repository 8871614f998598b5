"""`tombola predict`: classes, numbers or clusters for new rows, by the model of a run."""

import argparse
import csv
import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from tombola.cli.errors import CommandError
from tombola.cli.output import as_cell, check_new_file, say
from tombola.cli.progress import Progress
from tombola.cli.runs import read_record
from tombola.datasets import DataError
from tombola.datasets.base import count
from tombola.datasets.sources import stem_of
from tombola.state import CheckpointError
from tombola.state.files import replaced_file

if TYPE_CHECKING:
    from tombola.models import SavedModel

__all__ = ["add_arguments", "run"]

ANSWER = 2**23  # bytes of predictions that are made at a time


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("run", metavar="RUN", type=Path, help="a folder of `tombola train`")
    parser.add_argument(
        "file", metavar="DATA",
        help="a file with the columns of the training file, in any format that `train` reads; - "
        "for standard input. The target may be there or not, other columns are ignored",
    )  # fmt: skip
    parser.add_argument(
        "--out", metavar="FILE", type=Path, default=Path("predictions.csv"),
        help="a .csv, .tsv, .parquet or .npz file; default: predictions.csv",
    )  # fmt: skip
    parser.add_argument(
        "--impute", choices=("median",),
        help="fill in missing values, though there were none in training; default: as in training",
    )  # fmt: skip
    parser.add_argument(
        "--skip-bad-rows", action="store_true",
        help="leave out rows of a table that cannot be used instead of stopping there; the first "
        "column of the answer is then the line (of text) or row that it is for",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Predict piece by piece, and write the file."""
    if options.out.suffix.lower() not in WRITERS:
        *others, last = WRITERS
        raise CommandError(f"--out {options.out} must end in {', '.join(others)} or {last}")
    check_new_file(options.out, "--out")
    model = _model(options.run)
    if model.prepare.impute is None:
        model.prepare.impute = options.impute

    from tombola.datasets.new_rows import new_rows

    notes: list[str] = []
    counts: Counter[Any] = Counter()
    total, skips = 0, options.skip_bad_rows
    classes = getattr(model.estimator, "classes_", None)
    names = ["place"] * skips + ["cluster" if model.task == "clustering" else "predicted"]
    names += [f"probability of {it}" for it in ([] if classes is None else classes)]
    with (
        Progress(f"predicting {stem_of(options.file)}") as progress,
        replaced_file(options.out) as file,
        WRITERS[options.out.suffix.lower()](file, names, classes) as write,
    ):
        rows = new_rows(
            options.file, model.prepare, model.read_as, notes=notes, skip_bad_rows=skips,
            progress=progress,
        )  # fmt: skip
        for piece in rows:
            done = 0
            for columns in predicted(model, piece):
                size = len(columns[0])
                places = [piece.place(done + k).split(" of ")[0] for k in range(size * skips)]
                write([np.array(places), *columns] if skips else columns)
                done += size
                if model.task != "regression":
                    counts.update(columns[0].tolist())
            total += done
    say(f"{stem_of(options.file)}: {count(total, 'row')}, {model.task}")
    say(*(f"  {note}" for note in notes))
    if counts:
        shown = ", ".join(f"{value} {number:,}" for value, number in counts.most_common(10))
        more = f" and {len(counts) - 10:,} more" if len(counts) > 10 else ""
        say(f"predicted: {shown}{more}")
    say(f"{options.out}")
    return 0


def predicted(model: "SavedModel", rows: Any) -> Iterator[list[Any]]:
    """Yield the columns of the answer for some rows, part by part where they are large."""
    with np.errstate(over="ignore", invalid="ignore"):
        X = model.prepare.transform(rows)
        _check_size(X.data if hasattr(X, "tocsr") else X)
        classes = getattr(model.estimator, "classes_", np.zeros(1))
        step = max(1, ANSWER // (classes.itemsize + 8 * len(classes)))
        for start in range(0, X.shape[0], step):
            part = X[start : start + step]
            columns = [model.estimator.predict(part)]
            if model.task == "classification":
                columns += list(model.estimator.predict_proba(part).T)
            _check_size(columns[-1])
            yield columns


def _check_size(values: Any) -> None:
    if not np.isfinite(values).all():
        raise DataError("a number in the rows is missing, or too large for the model")


def _model(folder: Path) -> "SavedModel":
    """Return the model of a run; refuse a run that is not finished."""
    from tombola.models import read_model

    if not folder.exists():
        raise CommandError(f"there is no folder {folder}")
    try:
        if folder.is_dir() and not read_record(folder).finished:
            raise CommandError(f"the run in {folder} is not finished: continue it with --resume")
        return read_model(folder)
    except FileNotFoundError:
        raise CommandError(f"{folder} holds no model of `tombola train`") from None
    except CheckpointError as error:
        raise CommandError(f"the model cannot be used: {error}") from None


# --- files --------------------------------------------------------------------------------------


@contextmanager
def _text(file: IO[bytes], names: Sequence[str], classes: Any, mark: str) -> Iterator[Any]:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text, lineterminator="\n", delimiter=mark)
    writer.writerow(map(as_cell, names))
    yield lambda columns: writer.writerows(
        zip(*(map(as_cell, column.tolist()) for column in columns), strict=True)
    )
    text.detach()


@contextmanager
def _arrays(file: IO[bytes], names: Sequence[str], classes: Any) -> Iterator[Any]:
    kept: list[list[Any]] = []  # until the end, as the format wants it
    yield kept.append
    columns = [np.concatenate(parts) for parts in zip(*kept, strict=True)]
    many = 0 if classes is None else len(classes)
    arrays: dict[str, Any] = dict(zip(names, columns[: len(columns) - many], strict=False))
    if many:
        arrays |= {"probabilities": np.column_stack(columns[-many:]), "classes": classes}
    np.savez(file, **arrays)


@contextmanager
def _parquet(file: IO[bytes], names: Sequence[str], classes: Any) -> Iterator[Any]:
    import pyarrow
    from pyarrow import parquet

    writer = None

    def write(columns: Sequence[Any]) -> None:
        nonlocal writer
        table = pyarrow.table(dict(zip(names, map(pyarrow.array, columns), strict=True)))
        writer = writer or parquet.ParquetWriter(file, table.schema)
        writer.write_table(table)

    yield write
    if writer is not None:
        writer.close()


# by suffix: give a function that writes columns, some rows at a time
WRITERS: dict[str, Callable[..., Any]] = {
    ".csv": partial(_text, mark=","), ".tsv": partial(_text, mark="\t"), ".parquet": _parquet,
    ".npz": _arrays,
}  # fmt: skip
