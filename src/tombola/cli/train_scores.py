"""The scores of `tombola train` on the rows held out."""

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from tombola.cli.data import OpenData
    from tombola.cli.train_fit import Fit

__all__ = ["Meaning", "held_out", "meaning", "scores_of"]


class Meaning(NamedTuple):
    """What a score is.

    Attributes
    ----------
    words : str
    better : str
        "higher", "lower", or "" for a score to compare with.
    """

    words: str
    better: str


MEANINGS = {
    "accuracy of the commonest class": Meaning(
        "the same, had the commonest class been predicted for every row", ""
    ),
    "mean accuracy over the classes": Meaning(
        "the share of rows predicted right in each class, averaged over the classes", "higher"
    ),
    "accuracy": Meaning("the share of rows whose class is predicted right", "higher"),
    "average precision": Meaning(
        "precision averaged over recall, from 0 to 1; random scores reach the share of the class",
        "higher",
    ),
    "root mean squared error": Meaning("in the unit of the target", "lower"),
    "R squared": Meaning("the share of the target's variance that is explained", "higher"),
    "mean squared distance to the nearest centre": Meaning(
        "in the squared unit of the columns as trained on", "lower"
    ),
}


def meaning(name: str) -> Meaning:
    """Return what a score means, by its name.

    Examples
    --------
    >>> meaning("average precision of spam").better
    'higher'
    """
    return next((it for start, it in MEANINGS.items() if name.startswith(start)), Meaning("", ""))


def held_out(data: "OpenData") -> dict[str, Any] | None:
    """Return the number of rows held out and a checksum of them, as prepared."""
    X: Any = data.X_test
    if X is None:
        return None
    digest = hashlib.sha256()
    for array in (X.data, X.indices, X.indptr) if hasattr(X, "tocsr") else (X,):
        digest.update(np.ascontiguousarray(array).tobytes())
    return {"rows": int(X.shape[0]), "checksum": digest.hexdigest()}


def scores_of(fit: "Fit") -> dict[str, float]:
    """Return the scores of the model on the rows held out; none where there are none."""
    data, w = fit.data, fit.solution
    if data.X_test is None:
        return {}
    if fit.plan.task == "clustering":
        (part,) = fit.plan.estimator.parts(data.X_test)
        return {"mean squared distance to the nearest centre": part.make().value(w)}
    outputs = np.asarray(data.X_test @ w[:, :-1].T) + w[:, -1]
    truth: Any = data.y_test
    if fit.classes is not None:
        return _class_scores(fit.classes, data.y, outputs, truth)
    errors = truth - outputs[:, 0]
    spread = float(((truth - truth.mean()) ** 2).mean())
    found = {"root mean squared error": float(np.sqrt((errors**2).mean()))}
    if spread > 0:
        found["R squared"] = 1.0 - float((errors**2).mean()) / spread
    return found


def _class_scores(classes: Any, y: Any, outputs: Any, truth: Any) -> dict[str, float]:
    from sklearn.metrics import average_precision_score

    two = len(classes) == 2
    numbers = (outputs[:, 0] > 0).astype(int) if two else outputs.argmax(axis=1)
    right = classes[numbers] == truth
    shares = [right[truth == label].mean() for label in classes if (truth == label).any()]
    commonest = max(classes, key=lambda label: (y == label).sum())
    found = {
        "accuracy": float(right.mean()),
        "accuracy of the commonest class": float((truth == commonest).mean()),
        "mean accuracy over the classes": float(np.mean(shares)),
    }
    if two and (truth == classes[1]).any():
        found[f"average precision of {classes[1]}"] = float(
            average_precision_score(truth == classes[1], outputs[:, 0])
        )
    return found
