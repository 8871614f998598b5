"""The public function: find the layers of a model to watch, and name those without a rule."""

import warnings
import weakref

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from tombola.torch.norms.hooks import GradientNorms
from tombola.torch.norms.layers import SUPPORTED, is_supported

__all__ = ["gradient_norms"]


def gradient_norms(model: nn.Module) -> GradientNorms:
    """Watch a backward pass; afterwards `of(draw)` has each example's own gradient norm.

    The norm is that of the gradient of the example's own loss, without its importance, over all
    trainable parameters of Linear, Conv1d, Conv2d, Conv3d, Embedding, LayerNorm, RMSNorm and
    GroupNorm layers. The gradients of the parameters are not touched.

    Layers with other trainable parameters are left out of the norm and named in a warning, once
    per model. BatchNorm has no gradient of a single example: it mixes the examples of a batch. The
    norms of the layers below it then measure how the loss of the whole batch depends on an example.

    Assumptions: the first dimension of every layer's output is the batch (an Embedding that is
    looked up once for all examples is detected unless it has as many positions as the batch has
    examples); a weight is used by calling its layer (``F.linear(x, layer.weight)`` is not seen);
    and all forward passes up to the next `of` are of the same examples. A layer may then be called
    several times and share its weight with others. Compiled layers are refused.

    The cost (``benchmarks/torch_norms.py``) is a small overhead per layer, which matters in short
    steps, and for convolutions about that of the gradient of their weights. Feedback may be left
    out, so norms may be taken, for example, at every tenth step.

    Parameters
    ----------
    model : torch.nn.Module
        Its layers are watched inside the ``with`` block, and only there: both the forward and the
        backward pass belong inside.

    Returns
    -------
    GradientNorms
        A context manager; it may be entered again at each step.

    Examples
    --------
    >>> import torch, tombola
    >>> model, x = torch.nn.Linear(3, 1), torch.eye(3)
    >>> draw = tombola.Draw([0, 1, 2], [0.5, 0.25, 0.25], n=3)
    >>> with gradient_norms(model) as norms:
    ...     losses = 4 * model(x).squeeze(1)
    ...     (torch.tensor(draw.importances) * losses).mean().backward()
    >>> norms.of(draw)                       # of 4 (x, 1), without importances
    tensor([5.6569, 5.6569, 5.6569])

    With gradient accumulation or a `GradScaler`, say what else the loss was multiplied by::

        with tombola.torch.gradient_norms(model) as norms:
            for (x, y), draw in micro_batches:
                losses = F.cross_entropy(model(x), y, reduction="none")
                scaler.scale(draw.mean(losses) / 4).backward()
                own = norms.of(draw, scale=scaler.get_scale() / 4)
                loader.update(draw, own, skip_nonfinite=True)    # the scale may overflow
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    layers, others, mixing = {}, [], []
    inside: set[nn.Module] = set()  # of MultiheadAttention, which does not call its layers
    for name, module in model.named_modules():
        if isinstance(module, nn.MultiheadAttention):
            inside.update(module.modules())
        if "_orig_mod" in module._modules or module._compiled_call_impl is not None:
            raise ValueError(
                f"{_shown(name, module)} is compiled: its layers run without hooks, so that "
                "gradient_norms sees nothing of them; use it before torch.compile"
            )
        if isinstance(module, _BatchNorm) and (module.training or not module.track_running_stats):
            mixing.append(_shown(name, module))
        elif module not in inside and is_supported(module):
            layers[name or "the model"] = module
        elif any(p is not None and p.requires_grad for p in module._parameters.values()):
            others.append(_shown(name, module))
    if others or mixing:
        _warn_once(model, others, mixing)
    if not layers:
        raise ValueError(
            f"model ({type(model).__name__}) has no layer that gradient_norms knows: "
            f"{', '.join(kind.__name__ for kind in SUPPORTED)}"
        )
    return GradientNorms(layers)


def _shown(name: str, module: nn.Module) -> str:
    return f"{name or 'the model'} ({type(module).__name__})"


_warned: "weakref.WeakKeyDictionary[nn.Module, str]" = weakref.WeakKeyDictionary()


def _warn_once(model: nn.Module, others: list[str], mixing: list[str]) -> None:
    text = ""
    if others:
        text += f"gradient_norms has no rule for {', '.join(others)}: left out of the norms. "
    if mixing:
        text += (
            f"{', '.join(mixing)}: left out of the norms, since BatchNorm mixes the examples of a "
            "batch; the norms of the layers below measure how the loss of the whole batch depends "
            "on an example. "
        )
    if _warned.get(model) != text:
        _warned[model] = text
        warnings.warn(text.strip(), stacklevel=3)
