"""Fitted models in files: arrays and JSON, checksummed, without pickle."""

import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.archive import CheckpointError, read, write
from tombola.datasets.dates import FORMS
from tombola.datasets.encode import RULES, Encoding
from tombola.datasets.prepare import Preparation
from tombola.datasets.preparer import Preparer
from tombola.datasets.reading import Reading
from tombola.estimators.plan import ESTIMATORS

__all__ = ["SavedModel", "load_model", "read_model", "save_model"]

FORMAT = 1
LARGEST = 2**20  # columns that hashed text may have


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
    if state.get("class") != "model":
        raise CheckpointError(f"{path} does not hold a model of `tombola train`")
    if state.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} has format {state.get('format')}, and this version reads {FORMAT}"
        )
    try:
        return _restored(state)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise CheckpointError(f"{path} does not describe a model: {error}") from None


def _restored(state: dict[str, Any]) -> SavedModel:
    task = state["task"]
    _demand(task in ESTIMATORS, f"it is for {task!r}")
    prepare = _restored_preparer(state)
    estimator = ESTIMATORS[task](**state["parameters"])
    estimator._validate_params()
    width = prepare.n_features_in_ if prepare.preparation_ is None else state["kept"].size
    estimator.n_features_in_ = width
    if task == "clustering":
        estimator.cluster_centers_ = _numbers(state, "centres", (None, width))
        _demand(len(estimator.cluster_centers_) > 0, "it has no centres")
    else:
        _set_coefficients(estimator, task, state, width)
    read_as = state["read_as"]
    Reading(**read_as.get("reading", {}))
    _demand(read_as.get("first", 1) in (0, 1), "columns count from 0 or 1")
    return SavedModel(task, prepare, estimator, read_as)


def _set_coefficients(estimator: Any, task: str, state: dict[str, Any], width: int) -> None:
    coef = _numbers(state, "coef", (None, width))
    intercept = _numbers(state, "intercept", (len(coef),))
    if task == "regression":
        _demand(len(coef) == 1, f"it has {len(coef)} outputs")
        estimator.coef_, estimator.intercept_ = coef[0], float(intercept[0])
        return
    classes = state["classes"]
    _demand(isinstance(classes, np.ndarray) and classes.ndim == 1, "its classes are no list")
    _demand(len(coef) == (len(classes) if len(classes) > 2 else 1), "its classes do not fit")
    _demand(len(classes) >= 2 and len(np.unique(classes)) == len(classes), "classes repeat")
    estimator.classes_, estimator.multilabel_ = classes, False
    estimator.coef_, estimator.intercept_ = coef, intercept


def _restored_preparer(state: dict[str, Any]) -> Preparer:
    stored = state["prepare"]
    prepare = Preparer(**{**stored["parameters"], "keep": tuple(stored["parameters"]["keep"])})
    width, names = stored["width"], stored["names"]
    _demand(type(width) is int and width > 0, f"it has {width!r} columns")
    _demand(not names or len(names) == width, "names and columns differ in number")
    _demand(_strings(names), "a name is not a string")
    prepare.n_features_in_ = width
    if names:
        prepare.feature_names_in_ = np.array(names, dtype=object)
    prepare.encoding_, prepare.preparation_, prepare.notes_ = None, None, ()
    made = names or [str(j) for j in range(width)]
    if stored["encoding"] is not None:
        prepare.encoding_ = Encoding.from_state([_checked_rule(it) for it in stored["encoding"]])
        _demand(bool(names), "an encoding needs names")
        _demand({rule.column for rule in prepare.encoding_.rules} <= set(names), "unknown column")
        made = list(prepare.encoding_.names)
    if "kept" in state:
        kept = state["kept"]
        _demand(kept.dtype.kind == "i" and kept.ndim == 1 and kept.size > 0, "kept is no list")
        _demand(0 <= kept.min() <= kept.max() < len(made), "kept names columns that are not there")
        _demand(bool((np.diff(kept) > 0).all()), "kept is not in order")
        shape = (kept.size,)
        parts = {name: _numbers(state, name, shape) for name in ("fill", "mean", "scale")}
        _demand(bool((parts["scale"] > 0).all()), "a scale is not above 0")
        columns = tuple(made[j] for j in kept)
        prepare.preparation_ = Preparation(kept=kept, columns=columns, notes=(), **parts)
    else:
        _demand(prepare.encoding_ is None, "an encoding needs a preparation")
    return prepare


FIELDS: dict[str, Callable[[Any], bool]] = {
    "column": lambda it: isinstance(it, str),
    "values": lambda it: isinstance(it, (list, tuple)) and _strings(it),
    "missing": lambda it: isinstance(it, bool),
    "size": lambda it: type(it) is int and 0 < it <= LARGEST,
    "shares": lambda it: isinstance(it, np.ndarray) and it.ndim == 1 and it.dtype == np.float64,
    "first": lambda it: type(it) is int,
    "hours": lambda it: isinstance(it, bool),
    "form": lambda it: it is None or it in FORMS,
    "names": lambda it: list(it) == [],
}


def _checked_rule(rule: Any) -> dict[str, Any]:
    """Return the description of a rule; raise an error if it does not describe one."""
    kind = RULES[rule["rule"]]
    _demand({"rule", *(it.name for it in fields(kind))} == set(rule), f"odd rule {rule['rule']!r}")
    for name, value in rule.items():
        _demand(name == "rule" or FIELDS[name](value), f"{name} of a rule is {value!r}")
    if rule["rule"] == "Frequency":
        _demand(len(rule["shares"]) == len(rule["values"]) + 1, "shares and values differ")
    return dict(rule)


def _strings(values: Any) -> bool:
    return all(isinstance(value, str) for value in values)


def _numbers(state: dict[str, Any], name: str, shape: tuple[int | None, ...]) -> NDArray[Any]:
    """Return an array of finite numbers of a shape, in which None stands for any length."""
    values = state[name]
    fits = isinstance(values, np.ndarray) and values.dtype.kind == "f" and values.ndim == len(shape)
    fits = fits and all(want in (None, it) for want, it in zip(shape, values.shape, strict=True))
    _demand(fits, f"{name} has another shape or type than {shape}")
    _demand(bool(np.isfinite(values).all()), f"{name} holds numbers that are not finite")
    return np.asarray(values)


def _demand(fine: bool, fault: str) -> None:
    if not fine:
        raise ValueError(fault)
