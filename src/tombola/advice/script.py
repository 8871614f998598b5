"""Models and the scripts that fit them, as Python code."""

from collections import defaultdict
from collections.abc import Sequence
from inspect import signature
from typing import Any

import numpy as np

from tombola.advice.data import HELD_OUT

__all__ = ["call_of", "opening", "script"]


SCORES = {
    "regression": "R squared",
    "clustering": "mean squared distance to the nearest centre",
}


def call_of(estimator: Any, imports: dict[str, set[str]] | None = None) -> str:
    """Return the call that makes an estimator, without its defaults; note the imports.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> call_of(LogisticRegression(C=0.5, solver="saga"))
    "LogisticRegression(C=0.5, solver='saga')"
    """
    kind = type(estimator)
    if imports is not None:
        imports[".".join(kind.__module__.split(".")[:2])].add(kind.__name__)
    given = []
    for place, (name, parameter) in enumerate(signature(kind).parameters.items()):
        value, default = getattr(estimator, name), parameter.default
        if value is default or (type(value) is type(default) and value == default):
            continue
        text = repr(value)
        inner = hasattr(value, "get_params")
        if inner:
            text = call_of(value, imports)
        given.append(text if inner and place == 0 else f"{name}={text}")
    return f"{kind.__name__}({', '.join(given)})"


def opening(X: Any, y: Any, task: str, seed: int) -> str:
    """Return lines that split the arrays X and y, as the advice has done."""
    lines = ["import numpy as np", "from tombola.datasets import split", ""]
    lines.append("X = X.tocsr()" if hasattr(X, "tocsr") else "X = np.asarray(X)")
    labels = "None"
    if task == "clustering":
        lines.append(f"train, test = split(X.shape[0], {HELD_OUT}, {seed})")
        return "\n".join([*lines, "X, X_test = X[train], X[test]"])
    as_text = ".astype(str)" if np.asarray(y).dtype.kind == "O" else ""
    lines.append(f"y = np.asarray(y){as_text}")
    labels = "y" if task == "classification" else "None"
    lines.append(f"train, test = split(X.shape[0], {HELD_OUT}, {seed}, {labels})")
    return "\n".join([*lines, "X, X_test, y, y_test = X[train], X[test], y[train], y[test]"])


def script(
    estimator: Any,
    begin: str,
    task: str,
    *,
    prepared: bool = False,
    dropped: Sequence[Any] = (),
    positive: Any = None,
    first: bool = False,
) -> str:
    """Return a script: read or split the data, fit the model, print its score.

    Parameters
    ----------
    estimator : object
        The model, with its seed.
    begin : str
        Lines that define X, y, X_test and y_test, and `prepare` if `prepared`.
    task : str
    prepared : bool
        Whether the model is a pipeline that begins with `prepare`.
    dropped : list
        Classes whose rows are left out.
    positive : object
        The class whose average precision is the score; None for accuracy.
    first : bool
        Whether that is the first of the two classes, for which margins are negative.
    """
    imports: dict[str, set[str]] = defaultdict(set)
    call = call_of(estimator, imports)
    lines = []
    if dropped:
        if prepared:
            imports["sklearn.frozen"].add("FrozenEstimator")
            lines.append("prepare = FrozenEstimator(prepare.fit(X))  # to the rows of all classes")
        lines += [
            f"small = {[plain(label) for label in dropped]!r}  # classes too small to judge",
            "kept, kept_test = ~np.isin(y, small), ~np.isin(y_test, small)",
            "X, y, X_test, y_test = X[kept], y[kept], X_test[kept_test], y_test[kept_test]",
        ]
    lines.append(f"model = {call}")
    if prepared:
        imports["sklearn.pipeline"].add("make_pipeline")
        lines[-1] = f"model = make_pipeline(prepare, {call})"
    lines.append("model.fit(X)" if task == "clustering" else "model.fit(X, y)")
    if task == "clustering":
        lines += ["score = -model.score(X_test) / X_test.shape[0]"]
        name = SCORES[task]
    elif task == "regression" or positive is None:
        lines += ["score = model.score(X_test, y_test)"]
        name = SCORES.get(task, "accuracy")
    else:
        imports["sklearn.metrics"].add("average_precision_score")
        lines += [
            f"margins = {'-' if first else ''}model.decision_function(X_test)",
            f"score = average_precision_score(y_test == {plain(positive)!r}, margins)",
        ]
        name = f"average precision of {positive}"
    lines.append(f"print({name + ':'!r}, score)")
    head = [f"from {m} import {', '.join(sorted(imports[m]))}" for m in sorted(imports)]
    if dropped and "import numpy as np" not in begin.split("\n"):
        head.insert(0, "import numpy as np")
    return "\n".join([begin, "", *head, "", *lines])


def plain(label: Any) -> Any:
    """Return a label as a plain Python value."""
    return label.item() if hasattr(label, "item") else label
