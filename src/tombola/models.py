"""Fitted models in files: arrays and JSON, checksummed, without pickle."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.datasets.base import ENCODE, IMPUTE
from tombola.datasets.encode import RULES, Rule
from tombola.datasets.preparer import Preparer
from tombola.datasets.reading import Reading
from tombola.estimators.plan import ESTIMATORS
from tombola.state import (
    CheckpointError,
    Document,
    Floats,
    Ints,
    Scope,
    array,
    body_of,
    count,
    exactly,
    flag,
    integer,
    listed,
    mapping,
    nested,
    optional,
    text,
    variant,
)
from tombola.state.archive import File, read
from tombola.state.fields import Field, require

__all__ = ["SavedModel", "load_model", "read_model", "save_model"]

MOST = 1e154  # the squares of coefficients and centres are finite
MOST_CONSTANT = 2**16  # columns without names that are left out
LONGEST = 2**24  # characters of all names of columns
LEAST = 5e-324  # the least number above 0


@dataclass(frozen=True, eq=False)
class SavedModel:
    """A fitted model with its preparation."""

    task: str
    prepare: Preparer
    estimator: Any
    read_as: dict[str, Any]  # of the training rows: `tombola.datasets.Dataset.read_as`

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


# --- what a file holds --------------------------------------------------------------------------


class Labels(Field):
    """An array of one dimension, of finite numbers or of text."""

    kind = "labels"

    def read(self, value: Any, name: str, scope: Scope, like: Any = None) -> Any:
        """Return an array of labels, or raise a CheckpointError."""
        good = type(value) is np.ndarray and value.ndim == 1 and value.dtype.kind in "biufU"
        require(good, name, "an array of one dimension, of numbers or text", value)
        if value.dtype.kind == "f":
            require(np.isfinite(value), name, "finite", value)
        elif value.dtype.kind == "U":
            codes = value.astype(value.dtype.newbyteorder("=")).view(np.uint32)
            half = (codes >= 0xD800) & (codes <= 0xDFFF)  # of a surrogate pair
            require(not (half | (codes > 0x10FFFF)).any(), name, "text", value)
        return value


labels: Any = Labels


class ParametersState(Document):
    """The parameters of a `Preparer`."""

    encode: str = text("what becomes of text with many values", ENCODE)
    keep: list[str] = listed("columns that are not dropped", text("one of them"))
    impute: str | None = optional(text("what replaces missing values", IMPUTE))
    scale: bool = flag("whether columns are scaled")


class PrepareState(Document):
    """A fitted `Preparer`, without the numbers of its columns."""

    parameters: ParametersState = nested("of the preparer", ParametersState)
    width: int = count("columns of the training rows", least=1)
    names: list[str] = listed("their names, if they have any", text("of a column"))
    rules: list[Rule] | None = optional(
        listed("for each column of a table", variant("of a column", "rule", RULES))
    )

    @property
    def made(self) -> int:
        """The number of columns of numbers, before constant ones are left out."""
        return self.width if self.rules is None else sum(len(rule.parts) for rule in self.rules)

    def fault(self, scope: Scope) -> str:
        """Return what is wrong with the names of columns."""
        if len(self.names) not in (0, self.width):
            return f"names must have one entry for each of {self.width} columns"
        rules = self.rules
        if rules is None:
            return ""
        if not rules or [rule.column for rule in rules] != self.names:
            return "its rules are not those of its columns"
        long = sum(sum(map(len, rule.parts), len(rule.column) * len(rule.parts)) for rule in rules)
        return "the names of its columns are too long" if long > LONGEST else ""


class ReadAsState(Document):
    """How the training rows were read."""

    reading: Mapping[str, Any] | None = optional(mapping("the arguments of `Reading`"))
    first: int | None = optional(integer("the first column of LIBSVM files", 0, 1))


class ModelState(File):
    """What the models of all tasks have."""

    kind, form = "model", 3
    parameters: Mapping[str, Any] = mapping("the parameters of the estimator")
    prepare: PrepareState = nested("how rows become numbers", PrepareState)
    read_as: ReadAsState = nested("how the training rows were read", ReadAsState)
    columns: NDArray[Any] = labels("the names of the columns of numbers")
    # of rows that are not sparse, for each column that is used:
    kept: Ints | None = optional(array("its number", 0, "prepare.made - 1", dtype=np.int64))
    fill: Floats | None = optional(array("what replaces a missing value"))
    mean: Floats | None = optional(array("what is subtracted"))
    scale: Floats | None = optional(array("what it is divided by", LEAST))

    @property
    def width(self) -> int:
        """The number of columns that the estimator has."""
        return self.prepare.width if self.kept is None else self.kept.size

    def fault(self, scope: Scope) -> str:
        """Return what is wrong with the columns that are used."""
        kept, prepare = self.kept, self.prepare
        parts = (kept, self.fill, self.mean, self.scale)
        if len({None if part is None else part.size for part in parts}) > 1:
            return "kept, fill, mean and scale must have the same length"
        if kept is None:
            return "" if prepare.rules is None else "rules need kept, fill, mean and scale"
        if not kept.size or (np.diff(kept) <= 0).any():
            return "kept must not be empty, and in rising order"
        if not prepare.names and prepare.width - kept.size > MOST_CONSTANT:
            return f"of {prepare.width} columns, it keeps {kept.size}"
        return ""


class RegressionState(ModelState):
    """A linear model of one output."""

    task: str = exactly("regression", "what the model does")
    intercept: Floats = array("of each output", -MOST, MOST, shape=(1,))
    coef: Floats = array("of each output", -MOST, MOST, shape=("intercept.size", None))

    def fault(self, scope: Scope) -> str:
        """Return what is wrong with the shape of coef."""
        wrong = self.coef.shape[1] != self.width
        return super().fault(scope) or (f"coef must have {self.width} columns" if wrong else "")


class ClassificationState(RegressionState):
    """A linear model of two classes, or one against the others for each of several."""

    task: str = exactly("classification", "what the model does")
    intercept: Floats = array("of each output", -MOST, MOST)
    classes: NDArray[Any] = labels("the classes")

    def fault(self, scope: Scope) -> str:
        """Return what is wrong with the classes."""
        count = len(self.classes)
        if count < 2 or len(np.unique(self.classes)) < count:
            return "classes must be at least two, all different"
        if len(self.coef) != (count if count > 2 else 1):
            return f"coef has {len(self.coef)} rows, which does not fit {count} classes"
        return super().fault(scope)


class ClusteringState(ModelState):
    """The centres of clusters."""

    task: str = exactly("clustering", "what the model does")
    centres: Floats = array("one row each", -MOST, MOST, shape=(None, None))

    def fault(self, scope: Scope) -> str:
        """Return what is wrong with the shape of the centres."""
        wrong = not len(self.centres) or self.centres.shape[1] != self.width
        return super().fault(scope) or (
            f"centres must not be empty, and have {self.width} columns" if wrong else ""
        )


STATES: dict[str, type[ModelState]] = {
    kind.declared["task"].default: kind
    for kind in (ClassificationState, RegressionState, ClusteringState)
}
MODEL = variant("a model", "task", STATES)


# --- write --------------------------------------------------------------------------------------


def save_model(
    path: str | os.PathLike[str],
    estimator: Any,
    arrays: dict[str, NDArray[Any]],
    prepare: Preparer,
    read_as: dict[str, Any],
) -> None:
    """Save a model: the parameters of its estimator, the arrays that it has learnt, its rows."""
    task = next(task for task, kind in ESTIMATORS.items() if isinstance(estimator, kind))
    rows = PrepareState(
        parameters=ParametersState(**prepare.get_params()), width=prepare.n_features_in_,
        names=list(getattr(prepare, "feature_names_in_", ())),
        rules=None if prepare.rules_ is None else [*prepare.rules_],
    )  # fmt: skip
    how = ReadAsState(reading=read_as.get("reading"), first=read_as.get("first"))
    STATES[task](
        parameters=estimator.get_params(), prepare=rows, read_as=how, kept=prepare.kept_, **arrays
    ).save(path)


# --- read ---------------------------------------------------------------------------------------


def read_model(path: str | os.PathLike[str]) -> SavedModel:
    """Read a saved model; a CheckpointError says what is wrong with the file."""
    path = Path(path)
    path = path / "model.npz" if path.is_dir() else path
    saved = read(path)
    try:
        return _restored(
            MODEL.read(body_of(saved, ModelState.kind, ModelState.form), "", Scope({}))
        )
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{path} does not describe a model: {error}") from None


def _restored(state: Any) -> SavedModel:
    estimator = ESTIMATORS[state.task](**state.parameters)
    estimator._validate_params()
    estimator.n_features_in_ = state.width
    if state.task == "clustering":
        estimator.cluster_centers_ = state.centres
    elif state.task == "regression":
        estimator.coef_, estimator.intercept_ = state.coef[0], float(state.intercept[0])
    else:
        if not hasattr(estimator, "predict_proba"):
            raise ValueError(f"loss {estimator.loss!r} gives no probabilities")
        estimator.classes_, estimator.multilabel_ = state.classes, False
        estimator.coef_, estimator.intercept_ = state.coef, state.intercept
    read_as = {name: it for name, it in state.read_as.to_dict().items() if it is not None}
    Reading.of(**read_as.get("reading", {}))
    saved = state.prepare
    prepare = Preparer(**{**saved.parameters.to_dict(), "keep": tuple(saved.parameters.keep)})
    prepare.n_features_in_ = saved.width
    if saved.names:
        prepare.feature_names_in_ = np.array(saved.names, dtype=object)
    prepare.rules_ = None if saved.rules is None else tuple(saved.rules)
    prepare.notes_ = ()
    for name in ("kept", "fill", "mean", "scale"):
        setattr(prepare, f"{name}_", getattr(state, name))
    return SavedModel(state.task, prepare, estimator, read_as)
