"""States that somebody crafted: valid checksums, one field wrong. Refused, or harmless."""

import functools
import hashlib
import io
import json
import os
import zipfile

import numpy as np
import pytest

import tombola
from fuzz import damaged
from players import SAMPLERS, played, use
from states import same
from tombola import Draw, Stream, checkpoint
from tombola.checkpoint import CheckpointError
from tombola.state import archive


def attack(name, count, seed):
    """Damage a state `count` times; return how many were refused and how many harmless."""
    rng = np.random.default_rng(seed)
    honest = played(name).state_dict()
    refused = harmless = 0
    for _ in range(count):
        state, what = damaged(honest, rng, inside=("parts",) if rng.integers(3) else ())
        sampler = SAMPLERS[name](1)
        before = sampler.state_dict()
        try:
            sampler.load_state_dict(state)
        except CheckpointError:
            refused += 1
            assert same(sampler.state_dict(), before), what
            continue
        harmless += 1
        with np.errstate(all="ignore"):
            use(sampler)
    return refused, harmless


@pytest.mark.parametrize("name", SAMPLERS)
def test_one_field_wrong(name):
    refused, harmless = attack(name, 150, seed=3)
    assert refused > 50
    assert refused + harmless == 150


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLERS)
def test_one_field_wrong_at_length(name):
    refused, harmless = attack(name, 100_000 // len(SAMPLERS) + 1, seed=4)
    print(f"{name}: {refused} refused, {harmless} harmless")
    assert refused > harmless / 2


def with_checksum(path, archive_bytes):
    path.write_bytes(archive_bytes)
    with path.open("r+b") as file:
        file.write(archive._digest(file, len(archive_bytes)) + archive.MARK)
    return path


def crafted(path, members, compression=zipfile.ZIP_STORED):
    """A file with a valid checksum and these members: arrays, or raw bytes."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as packed:
        for name, content in members:
            if isinstance(content, np.ndarray):
                inner = io.BytesIO()
                np.lib.format.write_array(inner, content)
                content = inner.getvalue()
            packed.writestr(name, content)
    return with_checksum(path, stream.getvalue())


def text(value):
    return np.frombuffer(
        value if isinstance(value, bytes) else json.dumps(value).encode(), np.uint8
    )


HUGE = (
    np.lib.format.magic(1, 0)
    + b"\x76\x00"
    + (b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }".ljust(117) + b"\n")
)


NOTHING = HUGE.replace(b"<f8", b"<U0")  # a million million strings of no length
LONG = np.lib.format.magic(1, 0) + b"\x58\x1b" + b"-" * 7000  # Python's parser has no memory for it
X = {"array": "x"}  # an array that is used more than once


def nested(depth, kind="dict"):
    put = {
        "dict": lambda inner, _: {"dict": {"a": inner}},
        "list": lambda inner, _: {"list": [inner]},
    }
    return {
        "dict": {
            "a": functools.reduce(put[kind], range(depth - 1), {kind: [] if kind == "list" else {}})
        }
    }


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([], "it has no description"),
        ([("json.npy", text(b"{"))], "is not a valid checkpoint"),
        ([("json.npy", text(b'{"list":' * 100_000))], "is not a valid checkpoint"),
        ([("json.npy", text([1, 2]))], "does not describe a state"),
        ([("json.npy", text({"dict": {"x": {"array": "x"}}}))], "is not a valid checkpoint: 'x'"),
        ([("json.npy", text({"a": 1, "b": 2}))], "does not have the structure of a saved state"),
        ([("json.npy", text({"list": {"a": 1}}))], "the structure of a saved state"),
        ([("json.npy", text({"other": [1]}))], "the structure of a saved state"),
        ([("json.npy", text({"dict": [1]}))], "the structure of a saved state"),
        ([("json.npy", text({"other": {"a": 1}}))], "the structure of a saved state"),
        ([("json.npy", text({"dict": {}})), ("x.txt", b"hi")], "'x.txt' is not a stored array"),
        ([("json.npy", HUGE)], "the size of an array does not match its header"),
        ([("json.npy", NOTHING)], "unsupported dtype <U0"),
        ([("json.npy", b"no array")], "is not a valid checkpoint"),
        ([("json.npy", LONG)], "is not a valid checkpoint"),
        ([("json.npy", text(nested(65)))], "nested more than 64 deep"),
        ([("json.npy", text(nested(65, "list")))], "nested more than 64 deep"),
        (
            [("x.npy", np.zeros(3)), ("json.npy", text({"dict": {"a": X, "b": {"list": [X]}}}))],
            "is not a valid checkpoint: 'x'",
        ),
    ],
)
def test_odd_archives(members, message, tmp_path):
    path = crafted(tmp_path / "odd", members)
    with pytest.raises(CheckpointError, match=message):
        checkpoint.read(path)


def test_a_member_that_occurs_twice(tmp_path):
    members = [("json.npy", text({"dict": {}})), ("json.npy", text({"dict": {}}))]
    with pytest.warns(UserWarning, match="Duplicate name"):
        path = crafted(tmp_path / "twice", members)
    with pytest.raises(CheckpointError, match="occurs twice"):
        checkpoint.read(path)


def test_a_small_file_never_becomes_large(tmp_path):
    members = [("json.npy", text({"dict": {}})), ("x.npy", np.zeros(10**7))]
    path = crafted(tmp_path / "bomb", members, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 200_000
    with pytest.raises(CheckpointError, match="larger than the file"):
        checkpoint.read(path)


def test_a_file_above_the_ceiling_is_refused_unless_allowed(tmp_path):
    checkpoint.write(tmp_path / "state", {"x": np.zeros(1000)})
    with pytest.raises(CheckpointError, match="more than the limit of 5,000"):
        checkpoint.read(tmp_path / "state", largest=5000)
    size = (tmp_path / "state").stat().st_size
    assert checkpoint.read(tmp_path / "state", largest=size)["x"].size == 1000


def test_a_file_of_a_checksum_alone_is_no_checkpoint(tmp_path):
    """The checksum is that of nothing, and right."""
    path = with_checksum(tmp_path / "empty", b"")
    with pytest.raises(CheckpointError, match="is not a valid checkpoint"):
        checkpoint.read(path)


def test_checksums_of_more_than_one_block(tmp_path):
    """What is saved is read; a change in the last of several blocks is seen."""
    state = {"x": np.arange(300_000.0)}
    checkpoint.write(tmp_path / "state", state)
    content = (tmp_path / "state").read_bytes()
    assert content[-40:-8] == hashlib.sha256(content[:-40]).digest()
    assert (checkpoint.read(tmp_path / "state")["x"] == state["x"]).all()
    (tmp_path / "state").write_bytes(content[:-50] + b"!" + content[-49:])
    with pytest.raises(CheckpointError, match="is damaged"):
        checkpoint.read(tmp_path / "state")


@pytest.mark.parametrize(
    "state",
    [
        {"class": "VRB"},
        {"class": "VRB", "format": 3, "parameters": {"n": 3}},
        {**tombola.VRB(3).state_dict(), "parameters": {"n": 3, "colour": 1}},
        {**tombola.VRB(3).state_dict(), "parameters": {"n": "three"}},
        {**tombola.VRB(3).state_dict(), "parameters": {"n": -3}},
        {"class": "Sampler", "format": 3},
        {"class": "Draw"},
        {"class": "Draw", "format": 2},
        {"class": "Draw", "format": 2, **Draw([1], [1.0], n=3).to_dict(), "indices": np.array([5])},
        {"class": "Draw", "format": 2, **Draw([1], [1.0], n=3).to_dict(), "probabilities": [1.0]},
    ],
)
def test_wrong_classes_and_parameters(state, tmp_path):
    checkpoint.write(tmp_path / "it", state)
    with pytest.raises(CheckpointError):
        tombola.load(tmp_path / "it")


def test_parameters_cannot_ask_for_more_memory_than_the_file_holds(tmp_path):
    state = tombola.VRB(3).state_dict()
    state["parameters"]["n"] = 10**12
    checkpoint.write(tmp_path / "it", state)
    with pytest.raises(CheckpointError, match="has no array of"):
        tombola.load(tmp_path / "it")


@pytest.mark.parametrize("parts", [{}, {"index": {}}, {"index": {"weights": 5}}])
def test_a_state_without_arrays_is_refused_even_for_one_item(parts, tmp_path):
    checkpoint.write(tmp_path / "it", {**tombola.VRB(1).state_dict(), "parts": parts})
    with pytest.raises(CheckpointError, match="has no array of 1 entries"):
        tombola.load(tmp_path / "it")


def test_a_state_is_checked_before_a_sampler_is_made(tmp_path):
    """Without its position, it is named as incomplete, although its parameters are wrong too."""
    state = {**tombola.VRB(3).state_dict(), "parameters": {"n": 3, "colour": 1}}
    del state["position"]
    checkpoint.write(tmp_path / "it", state)
    with pytest.raises(CheckpointError, match="the state is incomplete: it has no position"):
        tombola.load(tmp_path / "it")


def test_the_fuzz_changes_something():
    rng = np.random.default_rng(0)
    honest = played("VRB").state_dict()
    assert all(not same(honest, damaged(honest, rng)[0]) for _ in range(100))
    assert Stream(0).position == 0


# ---- what no field has


@pytest.mark.parametrize("field", ["class", "format"])
@pytest.mark.parametrize("odd", [np.array(["a", "b"]), np.array("VRB"), np.array(3), [3], True])
def test_a_class_or_format_of_another_type_is_refused(field, odd, tmp_path):
    state = {**tombola.VRB(5).state_dict(), field: odd}
    with pytest.raises(CheckpointError):
        tombola.VRB(5).load_state_dict(state)
    checkpoint.write(tmp_path / "it", state)
    with pytest.raises(CheckpointError, match="it"):
        tombola.load(tmp_path / "it")


def test_a_number_may_be_an_array_without_dimensions_but_not_too_large():
    sampler = tombola.VRB(5)
    state = sampler.state_dict()
    state["tally"]["rounds"] = np.array(7)
    sampler.load_state_dict(state)
    assert sampler.rounds == 7
    state["tally"]["rounds"] = np.array(2**63 - 1)
    with pytest.raises(
        CheckpointError, match=r"tally\.rounds must be .* from 0 .*, got 9223372036854775807"
    ):
        sampler.load_state_dict(state)
    assert sampler.rounds == 7


@pytest.mark.parametrize(
    ("sampler", "name", "odd"),
    [
        (tombola.Static([1.0, 2.0]), "weights", [1.0] * 400 + ["x" * 10**6]),
        (tombola.GroupVRB(["a", "b"]), "labels", ["a"] * 400 + ["b" * 10**6]),
        (tombola.GroupVRB(["a", "b"]), "labels", [["a"], "b"]),
        (tombola.MABS(3, step=1.0), "bound", ["x" * 10**6] * 400),
    ],
)
def test_a_parameter_that_is_a_list_is_not_longer_than_the_state(sampler, name, odd, tmp_path):
    state = sampler.state_dict()
    state["parameters"][name] = odd
    checkpoint.write(tmp_path / "it", state)
    with pytest.raises(CheckpointError, match=f"parameters.{name} is a list that is not of this"):
        tombola.load(tmp_path / "it")


@pytest.mark.parametrize("labels", [["short", "a label of some length"], [3, 5], [True, False]])
def test_labels_of_groups_are_loaded(labels, tmp_path):
    sampler = tombola.GroupVRB(np.array(labels)[[0, 1, 1]], labels=labels)
    sampler.save(tmp_path / "it")
    assert tombola.load(tmp_path / "it").labels == labels


@pytest.mark.parametrize(
    ("sampler", "name", "odd", "message"),
    [
        (tombola.Static([1.0, 2.0]), "weights", np.ones(1000), "has no array of 1000 entries"),
        (
            tombola.GroupVRB(["a", "b"]),
            "groups",
            np.zeros(1000, int),
            "has no array of 1000 entries",
        ),
        (
            tombola.VRM([[1.0, 2.0]]),
            "components",
            np.ones((1000, 1)),
            "no array of 1002001 entries",
        ),
        (tombola.VRM([[1.0, 2.0]]), "components", np.ones((1, 2), bool), "not an array of float64"),
        (tombola.VRM([[1.0, 2.0]]), "components", np.ones(2), "not an array of float64"),
        (tombola.VRM([[1.0, 2.0]]), "components", None, "not an array of float64"),
        (tombola.Uniform(3), "n", 2**64, "n must be at most 2"),
        (tombola.Uniform(3), "n", 10**400, "n must be at most 2"),
    ],
)
def test_samplers_are_not_made_larger_than_their_state(sampler, name, odd, message, tmp_path):
    state = sampler.state_dict()
    state["parameters"][name] = odd
    checkpoint.write(tmp_path / "it", state)
    with pytest.raises(CheckpointError, match=message):
        tombola.load(tmp_path / "it")


def test_what_is_no_file_is_not_read(tmp_path):
    """A device may not end, and a pipe waits for somebody who writes."""
    with pytest.raises(CheckpointError, match="is not a file"):
        tombola.load("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CheckpointError, match="is not a file"):
        tombola.load(tmp_path / "pipe")


@pytest.mark.parametrize("place", ["array", "parts", "parameters", "refresh", "draw"])
def test_messages_have_an_end(place, tmp_path):
    """Whatever a file names, and however long that is; a terminal only shows them."""
    long = "\x1b[2J\n" + "y" * 10**6
    if place == "array":
        path = crafted(tmp_path / "it", [("json.npy", text({"dict": {"x": {"array": long}}}))])
    else:
        path, state = tmp_path / "it", tombola.SRG(3).state_dict()
        if place == "refresh":
            state["parameters"]["refresh"] = long
        elif place == "draw":
            state = {"class": "Draw", "format": 2, **Draw([1], [0.5], n=3).to_dict(), long: 1}
        else:
            state[place][long] = 1
        checkpoint.write(path, state)
    with pytest.raises(CheckpointError) as caught:
        tombola.load(path)
    assert len(str(caught.value)) < 6000
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("largest", [1e301, 1.7e308])
def test_losses_near_the_largest_float_can_be_saved(largest, tmp_path):
    sampler = tombola.Uniform(3)
    sampler.update(sampler.draw(2), [1.0, largest])
    sampler.save(tmp_path / "it")
    assert same(tombola.load(tmp_path / "it").state_dict(), sampler.state_dict())


@pytest.mark.parametrize(
    ("name", "part", "field", "odd"),
    [
        ("AdaptiveWeighted", "shares", None, np.zeros(2)),  # probabilities became NaN
        ("AdaptiveWeighted", "shares", None, np.array([0.0, 1.0])),
        ("MirrorDescent", "rule", "least", 1.0),  # the rest could not be loaded again after use
        ("VRB", "rule", "first_root", 1e308),
        ("EpochVRB", "rule", "first_root", 1e308),
        ("Safe", "visited", None, np.full(40, 1e308)),
        ("Safe", "norms", None, np.full(40, 1e200)),
    ],
)
def test_numbers_that_would_leave_their_range_are_refused(name, part, field, odd):
    state = played(name).state_dict()
    if field is None:
        state["parts"][part] = odd
    else:
        state["parts"][part][field] = odd
    with pytest.raises(CheckpointError, match=part):
        SAMPLERS[name](1).load_state_dict(state)


def test_a_sampler_without_shuffled_epochs_never_deals_them():
    sampler = tombola.VRB(40, shuffle=False)
    for name, odd in (("left", int(sampler.state.fallback[0].block) + 1), ("shuffling", 1)):
        state = sampler.state_dict()
        state["parts"]["fallback"][name] = odd
        with pytest.raises(CheckpointError, match=rf"fallback\.{name} must be .*, got {odd}"):
            sampler.load_state_dict(state)
    state = sampler.state_dict()
    state["parts"]["fallback"]["left"] = 0  # a block ends here, if it ever does
    sampler.load_state_dict(state)
    sampler.update(sampler.draw(600), np.ones(600))
    assert sampler.draw(600).n == 40
    assert sampler.mode == "adaptive"
