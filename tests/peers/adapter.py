"""An estimator with the parameters of another library, fitted by one of ours."""

import functools
import inspect

from sklearn.base import BaseEstimator


class Adapter(BaseEstimator):
    """Their constructor, our fit: all else is asked of an estimator of ours, in `_model`.

    A subclass sets `ours`, and `translated`; its `__init__` is the signature of theirs:
    `__init__ = signature_of(theirs)`. If only parameters are missing that change nothing, a
    subclass of our class with these parameters is simpler. Other methods that take parameters of
    theirs, `partial_fit` for example, are for the subclass to write: `self._prepared(X, y)` is the
    estimator of ours to call.
    """

    ours = None  # a class of ours

    def translated(self, X, y):
        """Return the parameters of ours: a dict. X is None before a fit."""
        raise NotImplementedError

    def _prepared(self, X=None, y=None):
        if "_model" not in vars(self):
            self._model = self.ours()
        return self._model.set_params(**self.translated(X, y))

    def fit(self, X, y=None, sample_weight=None, **others):
        self._prepared(X, y).fit(X, y, sample_weight=sample_weight, **others)
        return self

    def __getattr__(self, name):
        if name.startswith("__") or name == "_model":
            raise AttributeError(name)
        return getattr(vars(self).get("_model") or self._prepared(), name)

    def __dir__(self):
        return {*super().__dir__(), *dir(self._prepared())}

    def __sklearn_tags__(self):
        return self._prepared().__sklearn_tags__()

    def __sklearn_is_fitted__(self):
        return any(name.endswith("_") and name[0] != "_" for name in vars(self._prepared()))


def signature_of(theirs):
    """Return a constructor that only sets the parameters that their constructor has."""
    signature = inspect.signature(theirs.__init__)

    @functools.wraps(theirs.__init__)
    def __init__(self, *values, **given):  # noqa: N807
        bound = signature.bind(self, *values, **given)
        bound.apply_defaults()
        for name, value in list(bound.arguments.items())[1:]:
            setattr(self, name, value)

    return __init__
