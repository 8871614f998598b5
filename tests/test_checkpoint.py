"""Checkpoints: whole or refused, never half, never code."""

import os
import pickle
import zipfile

import numpy as np
import pytest

import tombola
from states import same
from tombola import VRB, Draw, Uniform, checkpoint
from tombola.checkpoint import CheckpointError
from tombola.state import archive


def play(sampler, rounds):
    drawn = []
    for _ in range(rounds):
        draw = sampler.draw(5)
        sampler.update(draw, 1.0 / (1.0 + draw.indices))
        drawn.append(draw.indices)
    return np.concatenate(drawn)


def test_draws_go_there_and_back(tmp_path):
    path = str(tmp_path / "draw.npz")
    for draw in (VRB(9).draw(4), Draw([1], [0.5], 2, tags=[3]), Uniform(3).draw(0)):
        tombola.save(draw, path)
        assert tombola.load(path) == draw
        assert checkpoint.read(path)["format"] == 2  # what other versions go by


def test_nested_states(tmp_path):
    state = {
        "whole": 2**100,
        "real": 0.1,
        "odd": [None, True, "text", [1, {"deep": np.arange(3)}]],
        "a.b": np.array([1.5]),
        "a": {"b": np.array([2.5]), "json": np.array(7, dtype=np.uint8)},
        "none": np.empty((0, 2), dtype=np.int32),
        "infinite": float("inf"),
        "array": {"array": "x", "list": [], "dict": {}},
        "scalar": np.float32(0.5),
    }
    checkpoint.write(tmp_path / "state", state)
    expected = {**state, "scalar": 0.5}
    assert same(checkpoint.read(tmp_path / "state"), expected)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"f": print}, r"\.f is of type builtin_function_or_method, which a checkpoint cannot"),
        ({"a": {"s": {1}}}, r"\.a\.s is of type set"),
        ({"o": np.array([None])}, r"\.o holds Python objects"),
        ({"o": {1: 2}}, r"\.o has a key 1, which is not a string"),
        ({2: 2}, "the state has a key 2, which is not a string"),
    ],
)
def test_what_cannot_be_kept_is_refused_before_anything_is_written(state, message, tmp_path):
    path = tmp_path / "state"
    checkpoint.write(path, {"old": 1})
    with pytest.raises(TypeError, match=message):
        checkpoint.write(path, state)
    assert checkpoint.read(path) == {"old": 1}
    assert os.listdir(tmp_path) == ["state"]


@pytest.mark.parametrize(
    ("thing", "message"),
    [({}, "with a state, such as a sampler, got a dict"), (VRB, "such as a sampler, got VRB"),
     ("x", "save takes what to save first, then the path")],
)  # fmt: skip
def test_only_what_has_a_state_is_saved(thing, message, tmp_path):
    with pytest.raises(TypeError, match=message):
        tombola.save(thing, tmp_path / "x")
    assert os.listdir(tmp_path) == []


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The bytes of a small checkpoint."""
    path = tmp_path_factory.mktemp("small") / "draw"
    tombola.save(Draw([2, 0], [0.5, 0.25], 3), path)
    return path.read_bytes()


def test_truncation_at_every_offset(small, tmp_path):
    path = tmp_path / "draw"
    for size in range(len(small)):
        path.write_bytes(small[:size])
        with pytest.raises(CheckpointError, match=r"draw is (not a complete checkpoint|damaged)"):
            tombola.load(path)
    path.write_bytes(small)
    assert tombola.load(path) == Draw([2, 0], [0.5, 0.25], 3)


def test_a_flip_of_every_byte(small, tmp_path):
    path = tmp_path / "draw"
    for offset in range(len(small)):
        damaged = bytearray(small)
        damaged[offset] ^= 1 << offset % 8
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=r"draw is (not a complete checkpoint|damaged)"):
            tombola.load(path)


def test_files_of_the_old_format_are_told(small, tmp_path):
    path = tmp_path / "old"
    path.write_bytes(small[: -len(archive.MARK)] + b"tombola1")
    with pytest.raises(CheckpointError, match="a checkpoint of an earlier format, which this ver"):
        tombola.load(path)


def test_bytes_too_many(small, tmp_path):
    for number, damaged in enumerate((small + b"\0", b"\0" + small, small + small[-40:])):
        path = tmp_path / str(number)
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError):
            tombola.load(path)


def test_other_files(tmp_path):
    np.savez(tmp_path / "other.npz", x=np.arange(3))
    with pytest.raises(CheckpointError, match="not a tombola file"):
        tombola.load(tmp_path / "other.npz")
    with pytest.raises(FileNotFoundError):
        tombola.load(tmp_path / "absent.npz")


class Bomb:
    """Unpickling this would end in an AssertionError of its own."""

    def __reduce__(self):
        return explode, ()


def explode():
    raise AssertionError("code from a checkpoint was run")


def test_no_pickle(tmp_path):
    """A file with a good checksum whose arrays are pickles is refused, and nothing runs."""
    path = tmp_path / "bomb"
    with path.open("w+b") as file:
        text = np.frombuffer(b'{"dict": {"x": {"array": "x"}}}', dtype=np.uint8)
        np.savez(file, json=text, x=np.array([Bomb()], dtype=object))
        file.write(archive._digest(file, file.seek(0, os.SEEK_END)) + archive.MARK)
    with pytest.raises(CheckpointError, match="an array has the unsupported dtype object"):
        checkpoint.read(path)
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(CheckpointError):
        checkpoint.read(path)


def test_the_archive_is_plain_npz(small, tmp_path):
    """Anyone can look inside with numpy or unzip."""
    path = tmp_path / "draw"
    path.write_bytes(small)
    with zipfile.ZipFile(path) as archive:
        assert all(name.endswith(".npy") for name in archive.namelist())
    with np.load(path) as arrays:
        assert any(array.tolist() == [2, 0] for array in arrays.values())


@pytest.mark.parametrize("step", ["savez", "fsync", "replace"])
def test_a_failing_write_leaves_the_old_file(step, tmp_path, monkeypatch):
    path = tmp_path / "sampler"
    sampler = VRB(5, seed=4)
    tombola.save(sampler, path)
    before = path.read_bytes()
    play(sampler, 3)

    def fail(*args, **kwargs):
        if step == "savez":
            args[0].write(b"half a file")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np if step == "savez" else os, step, fail)
    with pytest.raises(OSError, match="No space left"):
        tombola.save(sampler, path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["sampler"]
    assert same(tombola.load(path).state_dict(), VRB(5, seed=4).state_dict())
    tombola.save(sampler, path)
    assert same(tombola.load(path).state_dict(), sampler.state_dict())


class Own(Uniform):
    pass


@pytest.mark.parametrize("name", ["Own", "load", "__doc__", "os", None, "VRB.__init__"])
def test_unknown_classes(name, tmp_path):
    path = tmp_path / "own"
    state = {**Own(4, seed=1).state_dict(), "class": name}
    checkpoint.write(path, state)
    with pytest.raises(CheckpointError, match=f"the class {name!r} is not one of tombola"):
        tombola.load(path)


def test_classes_of_your_own_load_by_their_state(tmp_path):
    sampler = Own(4, seed=1)
    play(sampler, 3)
    tombola.save(sampler, tmp_path / "own")
    copy = Own(4, seed=1)
    copy.load_state_dict(checkpoint.read(tmp_path / "own"))
    assert np.array_equal(play(copy, 3), play(sampler, 3))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parameters": {**VRB(5).parameters, "seed": 9}}, "saved with another seed"),
        ({"parameters": {**VRB(5).parameters, "bound": 1.0}}, "saved with another bound"),
        ({"parameters": {**VRB(5).parameters, "more": 1}}, "saved with another more"),
    ],
)
def test_states_that_do_not_fit_change_nothing(change, message):
    sampler = VRB(5)
    play(sampler, 3)
    before = sampler.state_dict()
    with pytest.raises(ValueError, match=message):
        sampler.load_state_dict({**before, **change})
    assert same(sampler.state_dict(), before)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*absent to write"):
        tombola.save(VRB(3), tmp_path / "absent" / "sampler")


def test_no_two_arrays_have_the_same_name(tmp_path):
    """A name is the key where it can be; never that of the text."""
    state = {name: np.array([k]) for k, name in enumerate(["json", "ab", "bb", "a b", "b"])}
    state["deep"] = {"b": np.array([5]), "json": np.array([6])}
    state["list"] = [np.array([7]), np.array([8])]
    checkpoint.write(tmp_path / "it", state)
    assert same(checkpoint.read(tmp_path / "it"), state)
    with zipfile.ZipFile(tmp_path / "it") as packed:
        names = packed.namelist()
    assert {"ab.npy", "bb.npy", "b.npy", "json.npy"} < set(names)
    assert len(names) == len(set(names)) == 10


def test_what_is_nested_too_deeply_to_be_read_is_not_written(tmp_path):
    """The deepest state that can be written can be read."""
    state = {"x": np.zeros(2)}
    for _ in range(archive.DEEPEST):
        state = {"in": state}
    checkpoint.write(tmp_path / "deep", state)
    assert checkpoint.read(tmp_path / "deep").keys() == {"in"}
    with pytest.raises(TypeError, match="is nested more than 64 deep"):
        checkpoint.write(tmp_path / "deeper", {"in": state})
    assert not (tmp_path / "deeper").exists()


def test_lists_are_nested_as_deeply_as_dicts(tmp_path):
    state = [np.zeros(2)]
    for _ in range(archive.DEEPEST - 1):
        state = [state]
    checkpoint.write(tmp_path / "deep", {"x": state})
    assert len(checkpoint.read(tmp_path / "deep")["x"]) == 1
    with pytest.raises(TypeError, match="is nested more than 64 deep"):
        checkpoint.write(tmp_path / "deeper", {"x": [state]})


def test_a_list_as_an_array_has_the_width_of_its_longest_text():
    assert checkpoint._bytes_as_array(["a", "bcd"]) == np.array(["a", "bcd"]).nbytes
    assert checkpoint._bytes_as_array([1.5, 2, 3]) == np.array([1.5, 2, 3]).nbytes
    assert checkpoint._bytes_as_array([[1], 2]) == np.inf
    assert checkpoint._bytes_as_array([]) == 0


def test_what_cannot_take_a_state_is_named(tmp_path):
    tombola.save(VRB(3), tmp_path / "sampler")
    with pytest.raises(TypeError, match="into must be something with a state, got 3 of type int"):
        tombola.load(tmp_path / "sampler", into=3)
