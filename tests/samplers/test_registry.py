"""Samplers by name: one meaning, whoever asks."""

import pytest

import tombola
from tombola.samplers.registry import GROUPED, NAMES, UNGROUPED, make_sampler

LABELS = ["cat", "dog", "dog", "dog"]
KINDS = {
    "vrb": tombola.VRB,
    "group-vrb": tombola.GroupVRB,
    "epoch-vrb": tombola.EpochVRB,
    "shuffle": tombola.Shuffle,
    "uniform": tombola.Uniform,
    "balanced": tombola.Static,
}


@pytest.mark.parametrize("name", KINDS)
def test_a_name_means_the_same_with_and_without_groups(name):
    assert type(make_sampler(name, 4, 1, LABELS)) is KINDS[name]
    if name in GROUPED:
        with pytest.raises(ValueError, match=f"sampler='{name}' needs class labels"):
            make_sampler(name, 4, 1)
    else:
        assert type(make_sampler(name, 4, 1)) is KINDS[name]


def test_the_names_are_complete():
    assert set(NAMES) == {"auto", *KINDS}
    assert set(NAMES) - set(UNGROUPED) == set(GROUPED)


def test_auto_is_the_solvers_own_sampler_then_group_vrb_then_vrb():
    own = tombola.Static([1.0, 2.0, 3.0, 4.0])
    assert make_sampler("auto", 4, 1, LABELS, own=lambda: own) is own
    assert type(make_sampler("auto", 4, 1, LABELS)) is tombola.GroupVRB
    assert type(make_sampler("auto", 4, 1)) is tombola.VRB


def test_samplers_that_forget_do_not_shuffle():
    for name in ("vrb", "group-vrb"):
        assert make_sampler(name, 4, 1, LABELS).parameters["shuffle"]
        assert not make_sampler(name, 4, 1, LABELS, forget=True).parameters["shuffle"]
    assert make_sampler("vrb", 4, 1, forget=True).parameters["memory"] == 20


def test_further_names_are_listed_in_the_error():
    extra = {"cyclic": lambda: tombola.Uniform(4)}
    assert type(make_sampler("cyclic", 4, 1, extra=extra)) is tombola.Uniform
    with pytest.raises(ValueError, match=r"'best' is not a sampler; the names are .*'cyclic'"):
        make_sampler("best", 4, 1, extra=extra)


def test_samplers_and_functions():
    given = tombola.VRB(4, seed=5)
    made = make_sampler(given, 4, 1)
    assert made is not given
    assert made.parameters == given.parameters
    assert make_sampler(lambda n, seed, groups: tombola.Uniform(n, seed=seed), 4, 1).n == 4
    with pytest.raises(ValueError, match="over 4 items, the dataset has 5 items"):
        make_sampler(given, 5, 1, what="items", whose="the dataset")
    with pytest.raises(TypeError, match="must return a tombola sampler"):
        make_sampler(lambda n, seed, groups: None, 4, 1)
    with pytest.raises(TypeError, match="must be a name, a tombola sampler or a function"):
        make_sampler(3, 4, 1)
