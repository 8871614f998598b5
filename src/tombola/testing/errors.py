"""Checks that bad feedback is refused."""

import re
from typing import Any

import numpy as np

from tombola.draws import Draw
from tombola.testing.judging import check_refusal, check_usable, promise
from tombola.testing.playing import Factory, play

__all__ = ["check_bad_feedback"]


def check_bad_feedback(factory: Factory, n: int = 6) -> None:
    """Check that bad feedback raises an error that names its position, and changes nothing."""
    sampler = factory(n, 13)
    play(sampler, rounds=10)
    if sampler.feedback == "all":
        _check_bad_losses(sampler, sampler.update_all, (), n)
        return
    draw = sampler.draw(20)
    _check_bad_losses(sampler, sampler.update, (draw,), len(draw))
    fine = np.full(len(draw), 0.5)
    foreign = Draw(draw.indices, draw.probabilities, n + 1)
    check_refusal(sampler, sampler.update, (foreign, fine), ValueError, "a draw over n + 1 items")
    for thing in (None, draw.indices, (draw.indices, draw.probabilities)):
        what = f"a {type(thing).__name__} instead of a draw"
        check_refusal(sampler, sampler.update, (thing, fine), TypeError, what)
    check_usable(sampler, n, "after refused feedback")


def _check_bad_losses(sampler: Any, call: Any, arguments: tuple[Any, ...], size: int) -> None:
    """Put each kind of bad loss at the end of a batch that is valid otherwise."""
    fine = np.linspace(0.5, 1.0, size)
    position = size - 1
    for bad in (np.nan, np.inf, -np.inf, -0.5):
        losses = fine.copy()
        losses[position] = bad
        text = check_refusal(sampler, call, (*arguments, losses), ValueError, f"a loss of {bad}")
        promise(
            re.search(rf"\b{position}\b", text) is not None,
            f"the error for a loss of {bad} does not name its position {position}: {text}",
        )
    wrong_shapes: list[tuple[Any, str]] = [
        (fine[:-1], "an array of losses that is too short"),
        (np.append(fine, 0.5), "an array of losses that is too long"),
        (fine.reshape(1, -1), "a two-dimensional array of losses"),
        (0.5, "a single number as losses"),
    ]
    for wrong, what in wrong_shapes:
        check_refusal(sampler, call, (*arguments, wrong), ValueError, what)
    wrong_types: list[tuple[Any, str]] = [
        (np.full(size, "1"), "an array of text as losses"),
        (fine.astype(complex), "an array of complex losses"),
        (np.full(size, None), "an array of None as losses"),
    ]
    for wrong, what in wrong_types:
        check_refusal(sampler, call, (*arguments, wrong), TypeError, what)
