"""What tests of kernels share: where they run, and wrong variants of them.

Kernels run on a CUDA device where there is one, else under Triton's interpreter on few items.
"""

import functools
import importlib.util
import os
import pathlib

import numpy as np
import pytest
import torch

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
if not CUDA:
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before the kernels are imported

from tombola.torch.device import board, group_vrb, launching, sampler, vrb  # noqa: E402

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton")

long = (lambda test: test) if CUDA else pytest.mark.slow  # seconds on a GPU, interpreted a minute


def cuda_tests(function):
    """Mark a test that needs a GPU."""
    for mark in (
        needs_triton,
        pytest.mark.cuda,
        pytest.mark.skipif(not CUDA, reason="needs a CUDA device"),
        pytest.mark.filterwarnings("ignore:Synchronization debug mode:UserWarning"),
    ):
        function = mark(function)
    return function


def on(sampler, values):
    """Return values as a tensor where the sampler is."""
    return torch.as_tensor(np.asarray(values), device=sampler.device)


def use_kernels(monkeypatch):
    """Let samplers and indexes on any device run kernels."""
    monkeypatch.setattr(launching, "runs_kernels", lambda device: True)
    if not CUDA:  # few programs to interpret
        monkeypatch.setattr(sampler, "draw_launch", lambda size: (32, 1, 1))


def fixtures(make):
    """The fixtures `new`, of either kind, and `on_board`, of the kind that runs on a device.

    They are functions that call `make` with a device before their own arguments.
    """

    def on_board(monkeypatch):
        use_kernels(monkeypatch)
        return functools.partial(make, DEVICE)

    @pytest.fixture(params=["cpu", pytest.param("triton", marks=needs_triton)])
    def new(request, monkeypatch):
        return functools.partial(make, "cpu") if request.param == "cpu" else on_board(monkeypatch)

    return new, pytest.fixture(on_board)


def change_kernels(monkeypatch, folder, module, old, new, more=""):
    """Replace a piece of the text of one module of kernels, of which new boards are made."""
    original = importlib.import_module(f"tombola.torch.device.{module}")
    text = pathlib.Path(original.__file__).read_text()
    assert text.count(old) == 1, old
    path = folder / f"{module}_variant.py"
    path.write_text(text.replace(old, new) + more)
    specification = importlib.util.spec_from_file_location(path.stem, path)
    changed = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(changed)
    for user in (board, sampler, vrb, group_vrb):
        monkeypatch.setattr(
            user, "kernels", lambda name: changed if name == module else launching.kernels(name)
        )


def refuse(sampler, draw, *losses, then=None):
    """Feed losses that are refused: on the CPU by `update`, elsewhere by what asks for errors."""
    for batch in losses:
        sampler.update(draw, on(sampler, batch))
    (then or sampler.check)()


def numbers_of(sampler):
    state = sampler.state_dict()
    return repr(state.get("state", state))


def changed(state, path, value):
    """A copy of a nested state with one entry replaced."""
    name, *rest = path
    return {**state, name: changed(state[name], rest, value) if rest else value}
