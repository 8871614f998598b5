"""Fitted models in files: arrays and JSON, checksummed, without pickle."""

import os
import reprlib
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
from tombola.estimators.plan import ESTIMATORS
from tombola.validation import is_exactly

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
            f"{path} has format {reprlib.repr(state.get('format'))}, and this version reads "
            f"{FORMAT}"
        )
    try:
        return _restored(state)
    except KeyError as error:
        raise CheckpointError(f"{path} does not describe a model: it has no {error}") from None
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{path} does not describe a model: {error}") from None


def _restored(state: dict[str, Any]) -> SavedModel:
    task = state["task"]
    _demand(isinstance(task, str) and task in ESTIMATORS, f"it is for {reprlib.repr(task)}")
    prepare = _restored_preparer(state)
    estimator = ESTIMATORS[task](**_dict(state, "parameters"))
    estimator._validate_params()
    width = prepare.n_features_in_ if prepare.preparation_ is None else state["kept"].size
    estimator.n_features_in_ = width
    if task == "clustering":
        estimator.cluster_centers_ = _numbers(state, "centres", (None, width), MOST)
        _demand(len(estimator.cluster_centers_) > 0, "it has no centres")
    else:
        _set_coefficients(estimator, task, state, width)
    read_as = _dict(state, "read_as")
    _demand(read_as.keys() <= {"reading", "first"}, f"read_as is {reprlib.repr(read_as)}")
    first = read_as.get("first", 1)
    _demand(type(first) is int and first in (0, 1), "columns count from 0 or 1")
    if "reading" in read_as:
        Reading(**_dict(read_as, "reading")).style  # noqa: B018
    return SavedModel(task, prepare, estimator, read_as)


def _set_coefficients(estimator: Any, task: str, state: dict[str, Any], width: int) -> None:
    coef = _numbers(state, "coef", (None, width), MOST)
    intercept = _numbers(state, "intercept", (len(coef),), MOST)
    if task == "regression":
        _demand(len(coef) == 1, f"it has {len(coef)} outputs")
        estimator.coef_, estimator.intercept_ = coef[0], float(intercept[0])
        return
    _demand(hasattr(estimator, "predict_proba"), f"loss {estimator.loss!r} gives no probabilities")
    classes = state["classes"]
    _check_classes(classes)
    _demand(len(coef) == (len(classes) if len(classes) > 2 else 1), "its classes do not fit")
    estimator.classes_, estimator.multilabel_ = classes, False
    estimator.coef_, estimator.intercept_ = coef, intercept


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


def _restored_preparer(state: dict[str, Any]) -> Preparer:
    stored = _dict(state, "prepare")
    parameters = _dict(stored, "parameters")
    prepare = Preparer(**{**parameters, "keep": tuple(_texts(parameters, "keep"))})
    for name, known in (("encode", ENCODE), ("impute", (None, *IMPUTE)), ("scale", (False, True))):
        given = getattr(prepare, name)
        fine = any(is_exactly(given, choice) for choice in known)
        _demand(fine, f"{name} is {reprlib.repr(given)}")
    width, names = stored["width"], _texts(stored, "names")
    _demand(type(width) is int and width > 0, f"it has {reprlib.repr(width)} columns")
    _demand(not names or len(names) == width, "names and columns differ in number")
    prepare.n_features_in_ = width
    if names:
        prepare.feature_names_in_ = np.array(names, dtype=object)
    prepare.encoding_, prepare.preparation_, prepare.notes_ = None, None, ()
    if stored["encoding"] is not None:
        prepare.encoding_ = _restored_encoding(stored["encoding"], names)
    if "kept" in state:
        prepare.preparation_ = _restored_preparation(state, prepare, names)
    else:
        _demand(prepare.encoding_ is None, "an encoding needs a preparation")
    return prepare


def _restored_encoding(rules: Any, names: list[str]) -> Encoding:
    _demand(isinstance(rules, list), "its encoding is no list")
    encoding = Encoding.from_state([_checked_rule(rule) for rule in rules])
    of = [rule.column for rule in encoding.rules]
    _demand(bool(names) and of == names, "its encoding is not that of its columns")
    long = sum(_width(rule) * (len(rule.column) + len(str(HASHED)) + 1) for rule in encoding.rules)
    _demand(long <= LONGEST, "the names of its columns are too long")
    return encoding


def _restored_preparation(
    state: dict[str, Any], prepare: Preparer, names: list[str]
) -> Preparation:
    kept, encoding, width = state["kept"], prepare.encoding_, prepare.n_features_in_
    fits = isinstance(kept, np.ndarray) and kept.dtype.kind == "i" and kept.ndim == 1
    _demand(fits and kept.size > 0, "kept is no list")
    if encoding is not None:
        width = sum(_width(rule) for rule in encoding.rules)
    _demand(0 <= kept.min() <= kept.max() < width, "kept names columns that are not there")
    _demand(bool((np.diff(kept) > 0).all()), "kept is not in order")
    if not names:
        _demand(width - kept.size <= MOST_CONSTANT, f"of {width} columns, it keeps {kept.size}")
    parts = {name: _numbers(state, name, (kept.size,)) for name in ("fill", "mean", "scale")}
    _demand(bool((parts["scale"] > 0).all()), "a scale is not above 0")
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
    "column": lambda it: _is_text(it),
    "values": lambda it: isinstance(it, list) and all(map(_is_text, it)),
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


def _checked_rule(rule: Any) -> dict[str, Any]:
    """Return the description of a rule; raise an error if it does not describe one."""
    kind: Any = rule.get("rule") if isinstance(rule, dict) else None
    _demand(isinstance(kind, str) and kind in RULES, f"{reprlib.repr(kind)} is no rule")
    _demand({"rule", *(it.name for it in fields(RULES[kind]))} == set(rule), f"odd rule {kind!r}")
    for name, value in rule.items():
        fine = name == "rule" or FIELDS[name](value)
        _demand(fine, f"{name} of a rule is {reprlib.repr(value)}")
    if kind == "Frequency":
        _demand(len(rule["shares"]) == len(rule["values"]) + 1, "shares and values differ")
    return dict(rule)


# --- entries ------------------------------------------------------------------------------------


def _is_text(value: Any) -> bool:
    """Return whether it is a string without half a surrogate pair, which no file can hold."""
    return isinstance(value, str) and value == value.encode(errors="replace").decode()


def _texts(state: dict[str, Any], name: str) -> list[str]:
    values = state[name]
    _demand(isinstance(values, list) and all(map(_is_text, values)), f"{name} is no list of texts")
    return list(values)


def _dict(state: dict[str, Any], name: str) -> dict[str, Any]:
    _demand(isinstance(state[name], dict), f"{name} is {reprlib.repr(state[name])}")
    return dict(state[name])


def _numbers(
    state: dict[str, Any], name: str, shape: tuple[int | None, ...], most: float = np.inf
) -> NDArray[Any]:
    """Return an array of finite numbers of a shape, in which None stands for any length."""
    values = state[name]
    fits = isinstance(values, np.ndarray) and values.dtype == np.float64
    fits = fits and values.ndim == len(shape)
    fits = fits and all(want in (None, it) for want, it in zip(shape, values.shape, strict=True))
    _demand(fits, f"{name} has another shape or type than {shape}")
    _demand(bool(np.isfinite(values).all()), f"{name} holds numbers that are not finite")
    _demand(bool((np.abs(values) <= most).all()), f"{name} holds numbers above {most:g}")
    return np.asarray(values)


def _demand(fine: bool, fault: str) -> None:
    if not fine:
        raise ValueError(fault)
