"""Loggers for `ImportanceLoader.log`: functions (name, value, step) for common services.

>>> history = []
>>> logger = lambda name, value, step: history.append((name, value, step))   # is a logger, too
"""

from collections.abc import Callable
from typing import Any

__all__ = ["mlflow", "tensorboard", "wandb"]

Logger = Callable[[str, float, int], Any]


def tensorboard(writer: Any) -> Logger:
    """Return a logger to a ``torch.utils.tensorboard.SummaryWriter``."""
    return lambda name, value, step: writer.add_scalar(name, value, step)


def wandb(run: Any) -> Logger:
    """Return a logger to a run of Weights & Biases, from ``wandb.init()``.

    The values of one step are logged one by one; the run collects them.
    """
    return lambda name, value, step: run.log({name: value}, step=step)


def mlflow(module: Any) -> Logger:
    """Return a logger to the active run of MLflow; the argument is the module ``mlflow``."""
    return lambda name, value, step: module.log_metric(name, value, step=step)
