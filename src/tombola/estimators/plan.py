"""Plans: a model and the scaling before it, as one object that is raced, printed and fitted."""

from collections import defaultdict
from dataclasses import dataclass
from inspect import signature
from typing import Any

from sklearn.base import clone, is_clusterer
from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import make_pipeline

from tombola.estimators.linear_classifier import LinearClassifier
from tombola.estimators.linear_regressor import LinearRegressor
from tombola.estimators.mini_batch_kmeans import MiniBatchKMeans

__all__ = ["ESTIMATORS", "Plan"]

ESTIMATORS: dict[str, Any] = {
    "classification": LinearClassifier,
    "regression": LinearRegressor,
    "clustering": MiniBatchKMeans,
}


@dataclass(frozen=True)
class Plan:
    """What a fit does: problem, solver, sampler and scaling.

    The parameters of the estimator decide all but the scaling. ``estimator.parts(X, y)`` are the
    problems, ``estimator.choose(problem, seed, groups)`` is what solves them, as in its `fit`.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> plan = Plan(LinearClassifier(solver="adagrad", sampler="vrb"), (StandardScaler(),))
    >>> print(plan.code())
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from tombola.estimators import LinearClassifier
    <BLANKLINE>
    model = make_pipeline(
        StandardScaler(),
        LinearClassifier(sampler="vrb", solver="adagrad"),
    )
    model.fit(X, y)
    """

    estimator: Any  # LinearClassifier, LinearRegressor or MiniBatchKMeans
    scaling: tuple[Any, ...] = ()  # transformers before it
    target_scaling: Any = None  # a transformer of y, for regression

    @property
    def task(self) -> str:
        """The task: classification, regression or clustering."""
        return next(t for t, kind in ESTIMATORS.items() if isinstance(self.estimator, kind))

    def model(self) -> Any:
        """Return the scikit-learn model, not fitted: the estimator, or a pipeline that ends in it.

        A call of its `fit` carries out the plan.
        """
        model = clone(self.estimator)
        if self.scaling:
            model = make_pipeline(*map(clone, self.scaling), model)
        if self.target_scaling is not None:
            model = TransformedTargetRegressor(model, transformer=clone(self.target_scaling))
        return model

    def code(self) -> str:
        """Return the lines of Python that make the model of this plan, and fit it."""
        imports: dict[str, set[str]] = defaultdict(set)
        steps = [_written(step, imports) for step in (*self.scaling, self.estimator)]
        lines = [f"model = {steps[0]}"]
        if self.scaling:
            imports["sklearn.pipeline"].add("make_pipeline")
            lines = ["model = make_pipeline(", *(f"    {step}," for step in steps), ")"]
        if self.target_scaling is not None:
            imports["sklearn.compose"].add("TransformedTargetRegressor")
            scaler = _written(self.target_scaling, imports)
            lines.append(f"model = TransformedTargetRegressor(model, transformer={scaler})")
        lines.append("model.fit(X)" if is_clusterer(self.estimator) else "model.fit(X, y)")
        head = ["import tombola"] if "tombola." in steps[-1] else []
        head += [f"from {m} import {', '.join(sorted(imports[m]))}" for m in sorted(imports)]
        return "\n".join([*head, "", *lines])


def _written(step: Any, imports: dict[str, set[str]]) -> str:
    """Return the call that makes an estimator, without defaults; note its import."""
    kind = type(step)
    imports[".".join(kind.__module__.split(".")[:2])].add(kind.__name__)
    given = []
    for name, parameter in signature(kind).parameters.items():
        value, default = getattr(step, name), parameter.default
        if value is default or (type(value) is type(default) and value == default):
            continue
        given.append(f'{name}="{value}"' if isinstance(value, str) else f"{name}={value!r}")
    return f"{kind.__name__}({', '.join(given)})"
