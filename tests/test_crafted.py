"""States that somebody crafted: valid checksums, one field wrong. Refused, or harmless."""

import hashlib
import io
import json
import zipfile

import numpy as np
import pytest

import tombola
from fuzz import damaged
from players import ours, rivals
from states import same
from tombola import Draw, Stream, archive, checkpoint
from tombola.checkpoint import CheckpointError

N = 40
SAMPLERS = {**ours(N, largest=3.0, horizon=1000), **rivals(N, largest=3.0)}


def played(name):
    sampler = SAMPLERS[name](1)
    rng = np.random.default_rng(0)
    for _ in range(30):
        draw = sampler.draw(7)
        if sampler.feedback == "all":
            sampler.update_all(rng.exponential(size=N))
        else:
            sampler.update(draw, rng.exponential(size=7))
    return sampler


def assert_harmless(sampler):
    """Draws stay within the items, probabilities sum to one, and feedback is taken."""
    n = sampler.n
    for size in (1, 300):
        draw = sampler.draw(size)
        assert 0 <= draw.indices.min() <= draw.indices.max() < n
        assert (draw.probabilities > 0).all()
        assert (draw.probabilities <= 1 + 1e-9).all()
        if sampler.feedback == "all":
            sampler.update_all(np.ones(n))
        else:
            sampler.update(draw, np.linspace(0.0, 2.0, size))
    p = sampler.probabilities()
    assert p.shape == (n,)
    assert p.sum() == pytest.approx(1.0, rel=1e-6)


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
            assert_harmless(sampler)
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
        {"class": "VRB", "format": 2, "parameters": {"n": 3}},
        {**tombola.VRB(3).state_dict(), "parameters": {"n": 3, "colour": 1}},
        {**tombola.VRB(3).state_dict(), "parameters": {"n": "three"}},
        {**tombola.VRB(3).state_dict(), "parameters": {"n": -3}},
        {"class": "Sampler", "format": 2},
        {"class": "Draw"},
        {"class": "Draw", "arrays": {"indices": np.array([5]), "probabilities": [1.0], "n": 3}},
        {"class": "Draw", "arrays": {"indices": np.array([1]), "probabilities": [2.0], "n": 3}},
        {"class": "Draw", "arrays": [1, 2]},
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
    with pytest.raises(CheckpointError, match="has no array of n"):
        tombola.load(tmp_path / "it")


@pytest.mark.parametrize("parts", [{}, {"index": {}}, {"index": {"weights": 5}}])
def test_a_state_without_arrays_is_refused_even_for_one_item(parts, tmp_path):
    checkpoint.write(tmp_path / "it", {**tombola.VRB(1).state_dict(), "parts": parts})
    with pytest.raises(CheckpointError, match="has no array of n=1 items"):
        tombola.load(tmp_path / "it")


def test_a_state_is_checked_before_a_sampler_is_made(tmp_path):
    """Without its position, it is named as incomplete, although its parameters are wrong too."""
    state = {**tombola.VRB(3).state_dict(), "parameters": {"n": 3, "colour": 1}}
    del state["position"]
    checkpoint.write(tmp_path / "it", state)
    with pytest.raises(CheckpointError, match="the state has no 'position'"):
        tombola.load(tmp_path / "it")


def test_a_list_is_not_an_array():
    """Of the right length and type, it would reach a kernel."""
    sampler = tombola.GroupVRB([0, 1, 0])
    state = sampler.state_dict()
    state["parts"]["index"]["weights"] = state["parts"]["index"]["weights"].tolist()
    with pytest.raises(CheckpointError, match=r"index\.weights has another type"):
        sampler.load_state_dict(state)


def test_the_stream_goes_on_from_its_position_alone():
    sampler, other = tombola.VRB(9, seed=5), tombola.VRB(9, seed=5)
    sampler.draw(7)
    other.load_state_dict(sampler.state_dict())
    assert other.state.stream[0].position == sampler.state.stream[0].position
    assert (other.draw(30).indices == sampler.draw(30).indices).all()


def test_a_draw_from_outside_is_checked():
    with pytest.raises(ValueError, match=r"indices\[0\] is 7, not from 0 to 2"):
        Draw.from_arrays({"indices": np.array([7]), "probabilities": np.array([1.0]), "n": 3})


def test_the_fuzz_changes_something():
    rng = np.random.default_rng(0)
    honest = played("VRB").state_dict()
    assert all(not same(honest, damaged(honest, rng)[0]) for _ in range(100))
    assert Stream(0).position == 0
