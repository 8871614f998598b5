"""Compare nested states, what `state_dict` returns and solvers keep; and find what they declare."""

import numpy as np

from tombola.state import State
from tombola.state.fields import Field, Scope, within


def leaves(state, name=""):
    """Every array, number and string of a nested state, by its dotted name."""
    if isinstance(state, (list, tuple)):
        state = dict(enumerate(state))
    if isinstance(state, dict):
        found = {}
        for key, inner in state.items():
            found |= leaves(inner, f"{name}.{key}" if name else key)
        return found
    return {name: state}


def numbers(state):
    """Every array and number of a live state by its dotted name, also what is not saved."""
    found = {}
    for name, part in state._asdict().items():
        if isinstance(part, tuple):
            inner = numbers(part)
        elif part.dtype.names is not None:
            inner = {key: part[key][0] for key in part.dtype.names}
        else:
            inner = {"": part}
        found |= {f"{name}.{key}".rstrip("."): leaf for key, leaf in inner.items()}
    return found


def same(first, second):
    """Whether two states are equal to the last bit, types included."""
    ours, theirs = leaves(first), leaves(second)
    return ours.keys() == theirs.keys() and all(
        type(leaf) is type(theirs[name])
        and np.asarray(leaf).dtype == np.asarray(theirs[name]).dtype
        and np.array_equal(leaf, theirs[name])
        for name, leaf in ours.items()
    )


def assert_same(first, second):
    """Two states are equal to the last bit."""
    ours, theirs = leaves(first), leaves(second)
    assert ours.keys() == theirs.keys()
    for name, leaf in ours.items():
        np.testing.assert_array_equal(leaf, theirs[name], err_msg=name)


def declared(state, outer=None, name=""):
    """Name, declaration, numpy type and scope of every number and array that a state saves."""
    scope = Scope({}, state, outer)
    for part, how in state.parts.items():
        live, where = getattr(state, part), within(name, part)
        if isinstance(how, Field):
            if how.saved:
                yield where, how, live.dtype, scope
        elif isinstance(live, State):
            yield from declared(live, scope, where)
        else:
            inner = Scope({}, live[0], scope)
            for key, field in how.declared.items():
                if field.saved:
                    yield f"{where}.{key}", field, live.dtype[key], inner


def ends_of(state):
    """The least and the largest valid value of everything that a state saves, by dotted name."""
    return {name: how.ends(scope) for name, how, _, scope in declared(state)}
