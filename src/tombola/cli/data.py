"""Open the data that the arguments of a command ask for."""

import argparse
import ast
from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

from tombola.cli.progress import Progress
from tombola.datasets import DataError, Dataset, catalogue, for_task, load, parts, read, read_table
from tombola.datasets.base import nearest_name
from tombola.datasets.reading import DEFAULTS
from tombola.datasets.sources import stem_of

__all__ = ["OpenData", "check_clusters", "open_data", "wants_scale"]

# the options of files, besides these, and their defaults
OTHERS = ("target", "task", "impute")
FILE_OPTIONS = {name: it for name, it in DEFAULTS.items() if name not in OTHERS}


@dataclass(frozen=True, eq=False, repr=False)
class OpenData(Dataset):
    """A data set whose rows are prepared, by `preparer`; `opening` is the Python that reads it."""

    preparer: Any = None
    opening: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """Return the description of the data for the record of a run."""
        about = {name: getattr(self, name) for name in ("name", "source", "checksum")}
        return {**about, "rows": self.X.shape[0], "columns": self.X.shape[1]}

    def reading(self) -> dict[str, Any]:
        """Return how the file was read, if that is not the default."""
        own = self.read_as.get("reading", {})
        return {name: it for name, it in own.items() if name in FILE_OPTIONS}

    def code(self) -> str:
        """Return lines of Python that read the same rows, and define the same preparation.

        They define X, y, X_test and y_test, as they were read, and `prepare`, a transformer that
        is not fitted: ``prepare.fit_transform(X)`` is the X of this object.
        """
        used = (node.id for node in ast.walk(ast.parse("\n".join(self.opening)))
                if isinstance(node, ast.Name) and node.id != "data")  # fmt: skip
        names = sorted({"Preparer", *used})
        shown = written(type(self.preparer), self.preparer.get_params())
        return "\n".join([
            f"from tombola.datasets import {', '.join(names)}",
            "",
            *self.opening,
            "X, y, X_test, y_test = data.X, data.y, data.X_test, data.y_test",
            f"prepare = {shown}",
        ])  # fmt: skip


def open_data(options: argparse.Namespace, *, hold_out: bool = False) -> OpenData:
    """Return the data that the arguments ask for, checked and prepared.

    With `hold_out`, rows are held out for testing, as `options.test` and `options.seed` say, and
    the preparation is fitted to the remaining rows.
    """
    from tombola.datasets import Preparer

    data, line = _find(options)
    share = options.test if hold_out else 0.0
    seed = options.seed if hold_out else 0
    data = parts.hold_out(data, share, seed)
    opening = (line, f"data = {written(parts.hold_out, {'share': share, 'seed': seed}, 'data')}")
    prepare = Preparer(
        encode=getattr(options, "encode", "auto"),
        keep=_file_options(options)["keep"],
        impute=options.impute,
        scale=wants_scale(options, data.task),
    )
    X = prepare.fit(data.X, names=data.columns or None).transform(data.X)
    X_test = None if data.X_test is None else prepare.transform(data.X_test)
    made = {
        "X": X,
        "X_test": X_test,
        "columns": tuple(prepare.get_feature_names_out()) if data.columns else (),
        "notes": data.notes + prepare.notes_,
    }
    return OpenData(**{**vars(data), **made}, preparer=prepare, opening=opening)


def wants_scale(options: argparse.Namespace, task: str) -> bool:
    """Return whether to standardise dense columns."""
    return task != "clustering" if options.scale is None else bool(options.scale)


def check_clusters(clusters: int, data: OpenData) -> None:
    """Refuse more clusters than rows."""
    n = data.X.shape[0]
    if not 1 <= clusters <= n:
        raise DataError(
            f"--n-clusters must be from 1 to {n:,}, the number of rows, got {clusters:,}"
        )


def _find(options: argparse.Namespace) -> tuple[Dataset, str]:
    """Return the data set of that name, or the content of the file; and the line that reads it."""
    known = [entry.name for entry in catalogue()]
    how = _file_options(options)
    if options.file in known:
        for name, value in how.items():
            if value != FILE_OPTIONS[name]:
                flag = f"--{name.replace('_', '-')}"
                raise DataError(f"{flag} is for files, and {options.file} is a data set by name")
        given = {"folder": options.data and str(options.data), "download": options.download}
        data = load(options.file, **given)
        chosen = {"task": options.task, "target": options.target}
        line = written(load, given, repr(options.file))
        line = written(for_task, chosen, line)
        return for_task(data, **chosen), f"data = {line}"
    if options.file != "-" and not Path(options.file).exists():
        raise DataError(
            f"there is no file {options.file!r}, and no data set of that name: "
            f"{nearest_name(options.file, known)}`tombola datasets` lists them"
        )
    given = {"target": options.target, "task": options.task, **how}
    given["impute"] = options.impute is not None
    with Progress(f"reading {stem_of(options.file)}") as progress:
        data = read_table(options.file, **given, progress=progress)
    given["rows"] = data.read_as["reading"].get("rows")  # as many as memory holds
    line = written(read, given, repr(options.file)).replace("read(", "read_table(", 1)
    return data, f"data = {line}"


def _file_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of files that were given, or their defaults."""
    given = {name: getattr(options, name, default) for name, default in FILE_OPTIONS.items()}
    return {**given, "types": dict(given["types"])}


def written(function: Callable[..., Any], given: dict[str, Any], *first: str) -> str:
    """Return a call in Python, without arguments that have their default."""
    defaults = {name: it.default for name, it in signature(function).parameters.items()}
    named = [f"{k}={v!r}" for k, v in given.items() if v not in ([], {}, defaults[k])]
    return f"{function.__name__}({', '.join([*first, *named])})"
