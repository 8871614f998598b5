"""Words that users of scikit-learn know and that mean something else here: errors name ours."""

import functools
from collections.abc import Mapping
from typing import Any, TypeVar

__all__ = ["check_values", "check_words", "names_ours"]

Kind = TypeVar("Kind", bound=type)

PARAMETERS = {
    "dual": 'solver="sdca" for the dual problem',
    "eta0": 'rate, with solver="sgd" or "adagrad"',
    "learning_rate": 'rate, with solver="sgd" or "adagrad"',
    "n_iter": "max_iter",
    "penalty": "alpha, and l1_ratio: 0 for l2, 1 for l1, between them for elasticnet",
    "positive": "Lasso or ElasticNet, with positive=True",
    "shuffle": 'sampler="shuffle", or "uniform"',
}
PENALTIES = {
    "l1": "l1_ratio=1.0",
    "l2": "l1_ratio=0.0",
    "elasticnet": "l1_ratio from 0 to 1",
    None: "alpha=0.0",
}
VALUES = {
    ("loss", "log"): "log_loss",
    ("loss", "squared_loss"): "squared_error",
    ("multi_class", "multinomial"): "softmax",
    ("solver", "cholesky"): "auto",
    ("solver", "lbfgs"): "auto",
    ("solver", "liblinear"): "sdca",
    ("solver", "newton-cg"): "auto",
    ("solver", "newton-cholesky"): "auto",
    ("solver", "lsqr"): "auto",
    ("solver", "sag"): "saga",
    ("solver", "sparse_cg"): "auto",
    ("solver", "svd"): "auto",
}


def check_words(given: Mapping[str, Any], name: str, error: type[Exception] = TypeError) -> None:
    """Raise an error that names our parameter for the first familiar one of another meaning."""
    for word, value in given.items():
        if word not in PARAMETERS:
            continue
        ours = PARAMETERS[word]
        if word == "penalty" and (value is None or isinstance(value, str)):
            ours = PENALTIES.get(value, ours)
        raise error(f"{name} has no parameter {word}, got {word}={value!r}: use {ours}")


def check_values(given: Mapping[str, Any], name: str) -> None:
    """Raise a ValueError that names our value for the first familiar one of another meaning."""
    for word, value in given.items():
        ours = VALUES.get((word, value)) if isinstance(value, str) else None
        if ours is not None:
            raise ValueError(f'{word}={value!r} is not a choice of {name}: use {word}="{ours}"')


def names_ours(kind: Kind) -> Kind:
    """Make the constructor of a class refuse familiar parameters by an error that names ours."""
    init: Any = kind.__init__  # type: ignore[misc]

    @functools.wraps(init)
    def checked(self: Any, *values: Any, **given: Any) -> None:
        check_words(given, kind.__name__)
        init(self, *values, **given)

    kind.__init__ = checked  # type: ignore[misc]
    return kind
