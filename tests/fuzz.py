"""Damage a sound state in one field at a time: what an attacker with valid checksums would do."""

import contextlib
import copy
import functools
import hashlib
import io
import reprlib
import sys
import zipfile

import numpy as np

from states import same
from tombola.state import archive

NUMBERS = [
    0, -1, -(2**63), 2**31, 2**62, 2**63 - 1, 2**64, 10**400, 1e308, -1e308, float("nan"),
    float("inf"),
]  # fmt: skip
ODD = [
    None, "text", [], {}, True, [1, 2], {"a": 1}, np.array(["a", "b"]), np.array(2**63 - 1),
    np.array(0.5, dtype=">f8"), np.array(1.0, dtype=np.float16), np.array(1, dtype=">i8"),
    [0.0] * 400 + ["x" * 10**6], np.ma.masked_all(3),
    functools.reduce(lambda inner, _: {"a": inner}, range(400), {}),
]  # fmt: skip


@contextlib.contextmanager
def deep():
    """Let this process itself follow states nested far deeper than the library would."""
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(20 * usual)
    try:
        yield
    finally:
        sys.setrecursionlimit(usual)


def places(state, path=()):
    """Every place in a nested state: dicts and lists, and what they hold."""
    if path:
        yield path
    if isinstance(state, dict):
        for key in state:
            yield from places(state[key], (*path, key))
    elif isinstance(state, list):
        for k in range(len(state)):
            yield from places(state[k], (*path, k))


def damaged(state, rng, inside=()):
    """A copy of a state with one thing wrong below `inside`, and what that is, in words."""
    with deep():
        while True:
            wrong, what = _damaged_once(state, rng, inside)
            if not same(wrong, state):  # swapping equal numbers damages nothing
                return wrong, what


def _damaged_once(state, rng, inside):
    state = copy.deepcopy(state)
    top = state
    for key in inside:
        top = top[key] if isinstance(top, dict) and key in top else None
    choices = list(places(top))
    if not choices:
        inside, top, choices = (), state, list(places(state))
    path = choices[rng.integers(len(choices))]
    holder = top
    for key in path[:-1]:
        holder = holder[key]
    value = holder[path[-1]]
    holder[path[-1]], how = _wrong(value, rng)
    if how == "removed":
        del holder[path[-1]]
    return state, f"{'.'.join(map(str, (*inside, *path)))}: {how}"


def at_an_end(state, rng, inside, ends):
    """A copy of a state with a declared field at an end of its range, or beyond, and what that is.

    `ends` are those that the code declares, by dotted names below `inside`.
    """
    name = list(ends)[rng.integers(len(ends))]
    end = ends[name][rng.integers(2)]
    way = (-1, 0, 1)[rng.integers(3)]
    state = copy.deepcopy(state)
    holder = state
    *path, last = (*inside, *name.split("."))
    for key in path:
        holder = holder[key]
    value = holder[last]
    kind = np.asarray(value).dtype
    with np.errstate(over="ignore"):
        number = end + way if kind.kind in "iu" else np.nextafter(end, way * np.inf)
        number = end if way == 0 else number
    if isinstance(value, np.ndarray):
        if value.size == 0 or (kind.kind in "iu" and not _fits(number, kind)):
            return state, "nothing"
        holder[last] = value.copy()
        holder[last].flat[rng.integers(value.size)] = number
    else:
        holder[last] = type(value)(number)
    return state, f"{name} became {number}, by its range"


def _fits(number, kind):
    return np.iinfo(kind).min <= number <= np.iinfo(kind).max


def _wrong(value, rng):
    kind = rng.integers(8)
    if kind == 0:
        return None, "removed"
    if kind == 1:
        odd = ODD[rng.integers(len(ODD))]
        return odd, f"became {reprlib.repr(odd)}"
    if isinstance(value, dict) and rng.integers(2):
        odd = [*ODD, *NUMBERS][rng.integers(len(ODD) + len(NUMBERS))]
        return {**value, "more": odd}, f"got a new entry {reprlib.repr(odd)}"
    if isinstance(value, np.ndarray) and value.ndim and value.size:
        return _wrong_array(value, rng)
    if isinstance(value, (int, float)) or (isinstance(value, np.ndarray) and value.ndim == 0):
        number = NUMBERS[rng.integers(len(NUMBERS))]
        if rng.integers(2):
            number = np.asarray(value).item() + int(rng.integers(-3, 4))
        return number, f"{value} became {reprlib.repr(number)}"
    odd = ODD[rng.integers(len(ODD))]
    return odd, f"became {reprlib.repr(odd)}"


def _wrong_array(array, rng):
    array = array.copy()
    kind = rng.integers(7)
    if kind == 0:
        return array[:-1], "one shorter"
    if kind == 6 and array.size < 10_000:
        return np.resize(array, 1000 * array.size), "a thousand times longer"
    if kind == 1:
        other = np.float32 if array.dtype.kind in "biuf" and array.dtype != np.float32 else "U9"
        return array.astype(other), "other type"
    if kind == 2:
        return array.reshape(1, *array.shape), "another dimension"
    if kind == 3 and array.size > 1:
        a, b = rng.integers(array.size, size=2)
        array.flat[a], array.flat[b] = array.flat[b], array.flat[a]
        return array, f"[{a}] and [{b}] swapped"
    at = rng.integers(array.size)
    if array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        some = [
            limits.min,
            limits.max,
            min(array.size, limits.max),
            array.flat[(at + 1) % array.size],
            0,
        ]
        array.flat[at] = some[rng.integers(len(some))]
    elif array.dtype.kind == "f":
        some = [np.nan, np.inf, -np.inf, -1.0, 1e300, 0.0, 5e-324]
        with np.errstate(over="ignore"):
            array.flat[at] = some[rng.integers(len(some))]
    else:
        return array[:-1], "one shorter"
    return array, f"[{at}] became {array.flat[at]}"


# ---- bytes


def damaged_bytes(data, rng):
    """A copy of a file's bytes with some of them wrong, and what that is, in words."""
    data = bytearray(data)
    at = int(rng.integers(len(data)))
    kind = rng.integers(5)
    if kind == 0:
        return bytes(data[:at]), f"cut at {at}"
    if kind == 1:
        size = int(rng.integers(1, 50))
        del data[at : at + size]
        return bytes(data), f"{size} bytes removed at {at}"
    if kind == 2:
        more = rng.bytes(int(rng.integers(1, 50)))
        data[at:at] = more
        return bytes(data), f"{len(more)} bytes inserted at {at}"
    if kind == 3:
        other = int(rng.integers(len(data)))
        size = int(rng.integers(1, 200))
        data[at : at + size] = data[other : other + size]
        return bytes(data), f"{size} bytes copied from {other} to {at}"
    places = rng.integers(len(data), size=int(rng.integers(1, 9)))
    for place in places:
        data[place] ^= 1 << int(rng.integers(8))
    return bytes(data), f"bits flipped at {sorted(places.tolist())}"


def damaged_members(data, rng):
    """A copy of a file's bytes with one member of its archive damaged, and all checksums valid."""
    body = data[:-TAIL]
    if rng.integers(4) == 0:
        body, what = damaged_bytes(body, rng)
        return sealed(body), what
    with zipfile.ZipFile(io.BytesIO(body)) as packed:
        members = {name: packed.read(name) for name in packed.namelist()}
    name = list(members)[rng.integers(len(members))]
    members[name], what = damaged_bytes(members[name], rng)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as packed:
        for member, content in members.items():
            packed.writestr(member, content)
    return sealed(stream.getvalue()), f"{name}: {what}"


TAIL = 32 + len(archive.MARK)


def sealed(body):
    """An archive as a file with a valid checksum."""
    return body + hashlib.sha256(body).digest() + archive.MARK
