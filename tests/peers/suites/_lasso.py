"""Our lassos with the constructors of others."""

from peers.adapter import signature_of

__all__ = ["accepting"]


def accepting(ours, theirs, module):
    """A class of ours with the name and the parameters of theirs, for a module to have.

    Parameters that ours does not know change nothing. `n_alphas` is our `alphas`; `weights` of
    columns in the penalty are not offered.
    """

    def fit(self, X, y, **others):
        weights = getattr(self, "weights", None)
        if weights is not None and any(weight != 1.0 for weight in weights):
            raise NotImplementedError("weights of columns in the penalty")
        instead = hasattr(self, "n_alphas") and self.alphas is None
        if instead:
            self.alphas = self.n_alphas
        try:
            return ours.fit(self, X, y, **others)
        finally:
            if instead:
                self.alphas = None

    body = {"__init__": signature_of(theirs), "fit": fit, "__module__": module}
    return type(theirs.__name__, (ours,), body)
