"""The scores of `tombola train` on the rows held out, and what they mean."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from tombola.cli.train_fit import Trained

__all__ = ["Meaning", "meaning", "scores_of"]


class Meaning(NamedTuple):
    """What a score is, and which is better: "higher", "lower", or "" for one to compare with."""

    words: str
    better: str

    @property
    def legend(self) -> str:
        """Both in words."""
        return self.words + (f"; {self.better} is better" if self.better else "")


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


def scores_of(trained: "Trained") -> dict[str, float]:
    """Return the scores of the model on the rows held out; none where there are none."""
    data, model, task = trained.data, trained.model, trained.plan.task
    X, truth = data.X_test, data.y_test
    if X is None:
        return {}
    if task == "clustering":
        return {"mean squared distance to the nearest centre": -model.score(X) / X.shape[0]}
    assert truth is not None
    predicted = model.predict(X)
    if task == "classification":
        return _class_scores(model, data.y, predicted, X, truth)
    mean_squared, spread = float(((truth - predicted) ** 2).mean()), float(truth.var())
    found = {"root mean squared error": mean_squared**0.5}
    if spread > 0:
        found["R squared"] = 1.0 - mean_squared / spread
    return found


def _class_scores(model: Any, y: Any, predicted: Any, X: Any, truth: Any) -> dict[str, float]:
    from sklearn.metrics import average_precision_score

    classes, right = model.classes_, predicted == truth
    shares = [right[truth == label].mean() for label in classes if (truth == label).any()]
    commonest = max(classes, key=lambda label: (y == label).sum())
    found = {
        "accuracy": float(right.mean()),
        "accuracy of the commonest class": float((truth == commonest).mean()),
        "mean accuracy over the classes": float(np.mean(shares)),
    }
    if len(classes) == 2 and (truth == classes[1]).any():
        found[f"average precision of {classes[1]}"] = float(
            average_precision_score(truth == classes[1], model.decision_function(X))
        )
    return found
