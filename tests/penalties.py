"""Penalties in the two ways of writing them."""


def elastic(l1=0.0, l2=0.0):
    """The alpha and l1_ratio of the penalty l1 |w|_1 + l2/2 |w|^2."""
    alpha = l1 + l2
    return {"alpha": alpha, "l1_ratio": l1 / alpha if alpha else 0.0}
