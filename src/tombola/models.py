"""Fitted models in files: arrays and JSON, checksummed, without pickle."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.archive import CheckpointError, read, write
from tombola.datasets.dates import FORMS
from tombola.datasets.encode import ENCODE, HASHED, RULES, Encoding
from tombola.datasets.prepare import IMPUTE, Preparation
from tombola.datasets.preparer import Preparer
from tombola.datasets.reading import Reading
from tombola.entries import Entry, is_text
from tombola.estimators.plan import ESTIMATORS
from tombola.validation import brief, is_exactly, legible

__all__ = ["SavedModel", "load_model", "read_model", "save_model"]

FORMAT = 1
MOST = 1e154  # the squares of coefficients and centres are finite
MOST_DAYS = 10**8  # from 1970 to a date, in microseconds a 64-bit number
MOST_CONSTANT = 2**16  # columns without names that are left out
LONGEST = 2**24  # characters of all names of columns


@dataclass(frozen=True, eq=False)
class SavedModel:
    """A fitted model with its preparation.

    Attributes
    ----------
    task : {"classification", "regression", "clustering"}
    prepare : Preparer
    estimator : LinearClassifier, LinearRegressor or MiniBatchKMeans
    read_as : dict
        How the training rows were read: `tombola.datasets.Dataset.read_as`.
    """

    task: str
    prepare: Preparer
    estimator: Any
    read_as: dict[str, Any]

    def pipeline(self) -> Any:
        """Return a fitted pipeline of scikit-learn."""
        from sklearn.pipeline import make_pipeline

        return make_pipeline(self.prepare, self.estimator)


def load_model(path: str | os.PathLike[str]) -> Any:
    """Load the model of a run of `tombola train`: a fitted pipeline of scikit-learn.

    It predicts for rows as `tombola.datasets.read_table` reads them, and for pandas frames with
    the columns of the training file. It is safe to load an untrusted file: it holds data, never
    code, and one that does not describe a valid model raises a `CheckpointError`.

    Parameters
    ----------
    path : path
        The folder of the run, or its file model.npz.

    Examples
    --------
    >>> import tempfile
    >>> from tombola.cli.main import main
    >>> from tombola.datasets import load
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     main(["train", "iris", "--epochs", "5", "--out", folder])  # doctest: +ELLIPSIS
    ...     model = load_model(folder)
    iris: ...
    0
    >>> model.predict(load("iris").X[:2]).tolist()
    ['setosa', 'setosa']
    """
    return read_model(path).pipeline()


# --- write --------------------------------------------------------------------------------------


def save_model(
    path: str | os.PathLike[str],
    estimator: Any,
    arrays: dict[str, NDArray[Any]],
    prepare: Preparer,
    read_as: dict[str, Any],
) -> None:
    """Save a model, with the preparation of its rows.

    Parameters
    ----------
    path : path
    estimator : LinearClassifier, LinearRegressor or MiniBatchKMeans
        Its parameters are kept.
    arrays : dict of ndarray
        What it has learnt: coef and intercept, with classes for classification; or centres.
    prepare : Preparer
        Fitted to the training rows.
    read_as : dict
        How these were read.
    """
    ready, encoding = prepare.preparation_, prepare.encoding_
    task = next(task for task, kind in ESTIMATORS.items() if isinstance(estimator, kind))
    if ready is not None:
        arrays = {**arrays, "kept": ready.kept}
    write(
        path,
        {
            "class": "model",
            "format": FORMAT,
            "task": task,
            "parameters": estimator.get_params(),
            "prepare": {
                "parameters": {**prepare.get_params(), "keep": list(prepare.keep)},
                "encoding": None if encoding is None else encoding.state(),
                "width": prepare.n_features_in_,
                "names": list(getattr(prepare, "feature_names_in_", ())),
            },
            "read_as": read_as,
            **arrays,
        },
    )


# --- read ---------------------------------------------------------------------------------------


def read_model(path: str | os.PathLike[str]) -> SavedModel:
    """Read a saved model, after checking all of it.

    Raises
    ------
    CheckpointError
        If the file is damaged, or does not describe a model.
    FileNotFoundError
    """
    path = Path(path)
    path = path / "model.npz" if path.is_dir() else path
    state = read(path)
    if not is_exactly(state.get("class"), "model"):
        raise CheckpointError(f"{path} does not hold a model of `tombola train`")
    if not is_exactly(state.get("format"), FORMAT):
        raise CheckpointError(
            f"{path} has format {brief(state.get('format'))}, and this version reads {FORMAT}"
        )
    try:
        return _restored(Entry(state))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{path} does not describe a model: {legible(str(error))}") from None


def _restored(state: Entry) -> SavedModel:
    task = state.get("task")
    known = isinstance(task, str) and task in ESTIMATORS
    state.require("task", known, f"one of {', '.join(ESTIMATORS)}")
    prepare = _restored_preparer(state)
    estimator = ESTIMATORS[task](**state.entry("parameters").value)
    estimator._validate_params()
    width = prepare.n_features_in_ if prepare.preparation_ is None else state.get("kept").size
    estimator.n_features_in_ = width
    if task == "clustering":
        estimator.cluster_centers_ = _numbers(state, "centres", None, width)
        state.require("centres", len(estimator.cluster_centers_) > 0, "not empty")
    else:
        _set_coefficients(estimator, task, state, width)
    read_as = state.entry("read_as")
    state.require("read_as", read_as.value.keys() <= {"reading", "first"}, "reading and first")
    if "first" in read_as.value:
        read_as.whole("first", 0, 1)  # columns count from 0 or 1
    if "reading" in read_as.value:
        Reading(**read_as.entry("reading").value).style  # noqa: B018
    return SavedModel(task, prepare, estimator, dict(read_as.value))


def _set_coefficients(estimator: Any, task: str, state: Entry, width: int) -> None:
    coef = _numbers(state, "coef", None, width)
    intercept = _numbers(state, "intercept", len(coef))
    if task == "regression":
        state.require("coef", len(coef) == 1, "of one output")
        estimator.coef_, estimator.intercept_ = coef[0], float(intercept[0])
        return
    _demand(hasattr(estimator, "predict_proba"), f"loss {estimator.loss!r} gives no probabilities")
    classes = state.get("classes")
    _check_classes(classes)
    rows = len(classes) if len(classes) > 2 else 1
    state.require("coef", len(coef) == rows, f"of {rows} outputs, for {len(classes)} classes")
    estimator.classes_, estimator.multilabel_ = classes, False
    estimator.coef_, estimator.intercept_ = coef, intercept


def _numbers(state: Entry, name: str, *shape: int | None) -> NDArray[np.float64]:
    """Return coefficients or centres."""
    return state.numbers(name, *shape, least=-MOST, most=MOST)


def _check_classes(classes: Any) -> None:
    """Refuse classes that are not at least two different numbers or texts."""
    _demand(isinstance(classes, np.ndarray) and classes.ndim == 1, "its classes are no list")
    _demand(classes.dtype.kind in "biufU", f"its classes are of type {classes.dtype}")
    if classes.dtype.kind == "f":
        _demand(bool(np.isfinite(classes).all()), "a class is not finite")
    elif classes.dtype.kind == "U":
        codes = classes.astype(classes.dtype.newbyteorder("=")).view(np.uint32)
        half = (codes >= 0xD800) & (codes <= 0xDFFF)  # of a surrogate pair
        _demand(not (half | (codes > 0x10FFFF)).any(), "a class is not text")
    _demand(len(classes) >= 2 and len(np.unique(classes)) == len(classes), "classes repeat")


def _restored_preparer(state: Entry) -> Preparer:
    stored = state.entry("prepare")
    parameters = stored.entry("parameters")
    prepare = Preparer(**{**parameters.value, "keep": tuple(parameters.texts("keep"))})
    for name, known in (("encode", ENCODE), ("impute", (None, *IMPUTE)), ("scale", (False, True))):
        fine = any(is_exactly(getattr(prepare, name), choice) for choice in known)
        _demand(fine, f"{name} is {brief(getattr(prepare, name))}")
    width, names = stored.whole("width", 1), stored.texts("names")
    stored.require("names", len(names) in (0, width), f"one for each of {width} columns")
    prepare.n_features_in_ = width
    if names:
        prepare.feature_names_in_ = np.array(names, dtype=object)
    prepare.encoding_, prepare.preparation_, prepare.notes_ = None, None, ()
    if stored.get("encoding") is not None:
        prepare.encoding_ = _restored_encoding(stored, names)
    if "kept" in state.value:
        prepare.preparation_ = _restored_preparation(state, prepare, names)
    else:
        _demand(prepare.encoding_ is None, "an encoding needs a preparation")
    return prepare


def _restored_encoding(stored: Entry, names: list[str]) -> Encoding:
    rules = [_checked_rule(rule) for rule in stored.entries("encoding")]
    encoding = Encoding.from_state(rules)
    of = [rule.column for rule in encoding.rules]
    _demand(bool(names) and of == names, "its encoding is not that of its columns")
    long = sum(_width(rule) * (len(rule.column) + len(str(HASHED)) + 1) for rule in encoding.rules)
    _demand(long <= LONGEST, "the names of its columns are too long")
    return encoding


def _restored_preparation(state: Entry, prepare: Preparer, names: list[str]) -> Preparation:
    kept = state.array("kept", np.int64, None)
    encoding, width = prepare.encoding_, prepare.n_features_in_
    state.require("kept", kept.size > 0, "not empty")
    if encoding is not None:
        width = sum(_width(rule) for rule in encoding.rules)
    state.require("kept", (kept >= 0) & (kept < width), f"a column from 0 to {width - 1}")
    state.require("kept", bool((np.diff(kept) > 0).all()), "in rising order")
    if not names:
        _demand(width - kept.size <= MOST_CONSTANT, f"of {width} columns, it keeps {kept.size}")
    parts = {name: state.numbers(name, kept.size) for name in ("fill", "mean", "scale")}
    state.require("scale", parts["scale"] > 0, "above 0")
    if encoding is None:
        columns = tuple(names[j] if names else str(j) for j in kept.tolist())
    else:
        chosen = set(kept.tolist())
        made = _made(encoding)
        columns = tuple(name for j, name in enumerate(made) if j in chosen)
    return Preparation(kept=kept, columns=columns, notes=(), **parts)


def _made(encoding: Encoding) -> Iterator[str]:
    """Yield the names of the columns that an encoding makes; all at once may be many."""
    for rule in encoding.rules:
        yield from rule.names


def _width(rule: Any) -> int:
    """Return how many columns a rule makes, without their names."""
    if hasattr(rule, "size"):
        return int(rule.size)
    return len(rule.shown) if hasattr(rule, "shown") else len(rule.names)


FIELDS: dict[str, Callable[[Any], bool]] = {
    "column": lambda it: is_text(it),
    "values": lambda it: isinstance(it, list) and all(map(is_text, it)),
    "missing": lambda it: isinstance(it, bool),
    "size": lambda it: is_exactly(it, HASHED),
    "shares": lambda it: (
        isinstance(it, np.ndarray) and it.ndim == 1 and it.dtype == np.float64
        and bool(np.isfinite(it).all())
    ),
    "first": lambda it: type(it) is int and abs(it) <= MOST_DAYS,
    "hours": lambda it: isinstance(it, bool),
    "form": lambda it: it is None or (isinstance(it, str) and it in FORMS),
    "names": lambda it: isinstance(it, list) and not it,
}  # fmt: skip


def _checked_rule(rule: Entry) -> dict[str, Any]:
    """Return the description of a rule; raise an error if it does not describe one."""
    kind = rule.get("rule")
    known = isinstance(kind, str) and kind in RULES
    rule.require("rule", known, f"one of {', '.join(RULES)}")
    names = {"rule", *(it.name for it in fields(RULES[kind]))}
    _demand(rule.value.keys() == names, f"a rule {kind} has {', '.join(sorted(names))}")
    for name, value in rule.value.items():
        rule.require(name, name == "rule" or FIELDS[name](value), f"what a rule {kind} has")
    if kind == "Frequency":
        _demand(
            len(rule.value["shares"]) == len(rule.value["values"]) + 1, "shares and values differ"
        )
    return dict(rule.value)


def _demand(fine: bool, fault: str) -> None:
    if not fine:
        raise ValueError(fault)
