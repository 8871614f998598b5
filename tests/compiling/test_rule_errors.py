"""A rule that numba cannot compile: the error names the line of the user, and the reason."""

import inspect

import numpy as np
import pytest

from tombola.compiling import RuleError
from tombola.samplers.arithmetic import normalised
from tombola.samplers.weighted import Rule, Scored, WeightedSampler
from tombola.state import Cell, cell, real


class MeanRule(Rule):
    mean_loss: float = real("running mean of the losses", default=0.0)


class Good(Scored):
    rule: Cell[MeanRule]

    def absorb(self, item, probability, loss):
        self.scores[item] = loss

    def value(self, item):
        return 1.0 + self.scores[item]


class WrongField(Good):
    def value(self, item):
        return self.rule[0].mean_los  # the line


class WrongType(Good):
    def absorb(self, item, probability, loss):
        self.rule[0].mean_loss += 1.0
        self.scores[item] = loss + "a"  # the line


class WrongName(Good):
    def absorb(self, item, probability, loss):
        self.scores[item] = los  # noqa: F821  # the line


class WrongCall(Good):
    def absorb(self, item, probability, loss):
        self.scores[item] = normalised(loss)  # the line


class WrongStatement(Good):
    def absorb(self, item, probability, loss):
        import json  # the line

        self.scores[item] = len(json.dumps(1))


class NotSupported(Good):
    def absorb(self, item, probability, loss):  # the line, as numba names none
        with open("log") as file:
            self.scores[item] = loss + file.fileno()


class Own(WeightedSampler):
    def __init__(self, n, kind):
        super().__init__(n, 0, {"kind": kind})
        rule = MeanRule(mixing=0.1)
        self._begin(kind, rule=cell(rule), scores=np.zeros(n), stale=False)


@pytest.mark.parametrize(
    ("kind", "method", "reason"),
    [
        (WrongField, "value", "there is no field 'mean_los'"),
        (
            WrongType,
            "absorb",
            r"No implementation of .*add.* found for signature: >>> add\(float64",
        ),
        (WrongName, "absorb", "name 'los' is not defined"),
        (WrongCall, "absorb", "missing a required argument: 'unit'"),
        (WrongStatement, "absorb", r"unsupported opcode \(IMPORT_NAME\)"),
        (NotSupported, "absorb", "'with .*' construct is not supported"),
    ],
)
def test_the_line_and_the_reason_are_named(kind, method, reason):
    lines, first = inspect.getsourcelines(getattr(kind, method))
    where = first + next(k for k, line in enumerate(lines) if "the line" in line)
    title = kind.__qualname__.partition("_")[0]

    def play():
        sampler = Own(5, kind)
        sampler.update(sampler.draw(3), np.ones(3))

    with pytest.raises(RuleError, match=f"{title}.{method} cannot be compiled: .*{reason}") as told:
        play()
    text = str(told.value)
    assert f'File "{__file__}", line {where}: ' in text
    assert len(text.splitlines()) == 3
    assert len(text) < 700
    assert told.value.__suppress_context__
    assert told.value.__context__ is not None  # what numba says
    frames = [str(entry.path) for entry in told.traceback]
    assert not any("numba" in path for path in frames)


def test_a_rule_without_mistakes_compiles():
    sampler = Own(5, Good)
    sampler.update(sampler.draw(3), np.ones(3))
    assert sampler.gauge.count == 3
