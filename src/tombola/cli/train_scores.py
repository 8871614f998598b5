"""The scores of `tombola train` on the rows held out."""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tombola.cli.train_fit import Fit

__all__ = ["scores_of"]


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
