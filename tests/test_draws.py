"""The ticket: immutable, sliceable, and enough for an unbiased estimate anywhere."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

from tombola import VRB, Draw
from tombola.checkpoint import CheckpointError


@pytest.fixture
def draw():
    return Draw([4, 0, 4, 2], [0.5, 0.125, 0.5, 0.25], n=5, round=7, tags=[1, 0, 1, 1])


def test_what_it_holds(draw):
    assert draw.indices.tolist() == [4, 0, 4, 2]
    assert draw.indices.dtype == np.int64
    assert draw.probabilities.dtype == np.float64
    assert draw.importances.tolist() == [0.4, 1.6, 0.4, 0.8]  # 1 / (n p), never normalised
    assert (draw.n, draw.round, len(draw)) == (5, 7, 4)
    assert draw.tags.dtype == np.uint8
    assert repr(draw) == "Draw(4 of 5 items, round 7)"


@pytest.mark.parametrize("name", ["indices", "probabilities", "importances", "tags"])
def test_its_arrays_cannot_be_written(draw, name):
    with pytest.raises(ValueError, match="read-only"):
        getattr(draw, name)[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        getattr(draw[1:], name)[0] = 1


@pytest.mark.parametrize("name", ["indices", "probabilities", "n", "round", "tags", "other"])
def test_its_attributes_cannot_be_set_or_deleted(draw, name):
    with pytest.raises(AttributeError, match=f"a draw is immutable: cannot set {name}"):
        setattr(draw, name, 1)
    with pytest.raises(AttributeError, match=f"a draw is immutable: cannot delete {name}"):
        delattr(draw, name)


def test_it_keeps_copies():
    items, chances, tags = np.array([1]), np.array([0.5]), np.array([3], dtype=np.uint8)
    draw = Draw(items, chances, 2, tags=tags)
    items[0], chances[0], tags[0] = 0, 0.25, 4  # all still writeable
    assert (draw.indices[0], draw.probabilities[0], draw.tags[0]) == (1, 0.5, 3)


def test_what_a_sampler_draws_cannot_be_written():
    draw = VRB(10).draw(3)
    with pytest.raises(ValueError, match="read-only"):
        draw.indices[0] = 0
    with pytest.raises(ValueError, match="read-only"):
        draw.probabilities[:] = 1


def test_equality(draw):
    same = Draw.read(draw.to_dict())
    assert draw == same
    assert draw != draw[:3]
    assert draw != Draw(draw.indices, draw.probabilities, 5, 7)  # no tags
    assert draw != Draw(draw.indices, draw.probabilities, 6, 7, draw.tags)
    assert draw != Draw(draw.indices, draw.probabilities, 5, 8, draw.tags)
    assert draw != "draw"
    with pytest.raises(TypeError, match="unhashable"):
        hash(draw)


@pytest.mark.parametrize(
    ("key", "indices"),
    [
        (slice(1, 3), [0, 4]),
        (slice(None, None, -1), [2, 4, 0, 4]),
        (slice(0, 0), []),
        ([3, 0, 0], [2, 4, 4]),
        (np.array([True, False, False, True]), [4, 2]),
        (0, [4]),
        (-1, [2]),
        (np.int32(1), [0]),
    ],
)
def test_parts(draw, key, indices):
    part = draw[key]
    assert isinstance(part, Draw)
    assert part.indices.tolist() == indices
    chances = dict(zip(draw.indices.tolist(), draw.probabilities.tolist(), strict=True))
    assert part.probabilities.tolist() == [chances[item] for item in indices]
    assert part.tags.tolist() == [int(item != 0) for item in indices]
    assert (part.n, part.round) == (5, 7)


def test_parts_out_of_range(draw):
    for position in (4, -5):
        with pytest.raises(IndexError, match=f"position {position} is out of range for a draw of"):
            draw[position]
    assert (draw[-4], draw[3]) == (draw[0], draw[-1])
    assert [part.indices[0] for part in draw] == [4, 0, 4, 2]


def test_split(draw):
    assert [part.indices.tolist() for part in draw.split(2)] == [[4, 0], [4, 2]]
    assert draw.split(1) == [draw]
    assert len(draw.split(4)) == 4
    assert [len(part) for part in Draw([], [], 5).split(3)] == [0, 0, 0]
    for parts in (3, 0, -2, 8):
        with pytest.raises(ValueError, match=f"4 items does not split into {parts} equal parts"):
            draw.split(parts)


def test_the_mean_over_parts_is_the_mean(draw):
    values = np.array([3.0, 1.0, 3.0, 2.0])
    parts = [part.mean(value) for part, value in zip(draw.split(2), np.split(values, 2), strict=1)]
    assert np.mean(parts) == pytest.approx(draw.mean(values), rel=1e-15)


def test_estimates_of_numbers_and_rows(draw):
    values = [10, 1, 10, 5]
    expected = (0.4 * 10 + 1.6 * 1 + 0.4 * 10 + 0.8 * 5) / 4
    assert type(draw.mean(values)) is float
    assert draw.mean(values) == pytest.approx(expected, rel=1e-15)
    assert draw.sum(values) == pytest.approx(5 * expected, rel=1e-15)
    rows = np.stack([values, np.ones(4)], axis=1)
    assert draw.mean(rows) == pytest.approx([expected, 0.8], rel=1e-15)
    assert draw.sum(rows).shape == (2,)
    assert draw.mean(rows.reshape(4, 1, 2)).shape == (1, 2)
    assert draw.mean(rows.astype(np.float32)) == pytest.approx([expected, 0.8])
    assert draw.mean(np.array([True, False, True, True])) == pytest.approx(0.4)


@pytest.mark.parametrize("n", range(1, 7))
def test_the_mean_is_unbiased_by_enumeration(n):
    """Every item, with its probability, and every pair of two draws."""
    chances = np.arange(1, n + 1) / np.arange(1, n + 1).sum()
    values = np.arange(n) ** 2 - 3.0
    one = sum(p * Draw([i], [p], n).mean(values[[i]]) for i, p in enumerate(chances))
    assert one == pytest.approx(values.mean(), abs=1e-12)
    two = 0.0
    for i in range(n):
        for j in range(n):
            estimate = Draw([i, j], chances[[i, j]], n).mean(values[[i, j]])
            two += chances[i] * chances[j] * estimate
    assert two == pytest.approx(values.mean(), abs=1e-12)
    # the wrong estimate: importances divided by their largest, as in prioritised replay
    if n > 1:
        largest = (1 / (n * chances)).max()
        assert abs(one / largest - values.mean()) > 0.1


def test_bad_values(draw):
    with pytest.raises(ValueError, match=r"one entry for each of the 4 items .* shape \(3,\)"):
        draw.mean([1, 2, 3])
    with pytest.raises(ValueError, match=r"got shape \(\)"):
        draw.mean(1.0)
    with pytest.raises(ValueError, match="an empty draw estimates nothing"):
        draw[:0].mean([])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([0, 5], [0.5, 0.5], 5), ValueError, r"indices\[1\] is 5, not from 0 to 4"),
        (([-1], [0.5], 5), ValueError, r"indices\[0\] is -1, not from 0 to 4"),
        (([0.0], [0.5], 5), TypeError, "indices must hold integers, got dtype float64"),
        (([True], [0.5], 5), TypeError, "indices must hold integers, got dtype bool"),
        (([0, 1], [0.5], 5), ValueError, r"equal length, got shapes \(2,\) and \(1,\)"),
        (([[0]], [[0.5]], 5), ValueError, "one dimension"),
        ((0, 0.5, 5), ValueError, "one dimension"),
        (([0, 1], [0.5, 0.0], 5), ValueError, r"probabilities\[1\] is 0.0, not from"),
        (([0], [1.5], 5), ValueError, r"probabilities\[0\] is 1.5, not from"),
        (([0], [-0.5], 5), ValueError, r"probabilities\[0\] is -0.5, not from"),
        (([0], [np.nan], 5), ValueError, r"probabilities\[0\] is nan, not from"),
        (([0], [0.5], True), TypeError, "n must be an integer, got True of type bool"),
        (([0], [0.5], 2.5), TypeError, "n must be an integer, got 2.5 of type float"),
        (([0], [2.0**-201], 5), ValueError, r"probabilities\[0\] is .*, not from 2\^-200"),
        (([0], ["a"], 5), ValueError, "could not convert"),
        (([0], [0.5], 5, 0, [1, 2]), ValueError, r"tags must have shape \(1,\), got \(2,\)"),
    ],
)
def test_bad_input(arguments, error, message):
    with pytest.raises(error, match=message):
        Draw(*arguments)


def test_the_least_nominal_size():
    draw = Draw([3], [0.5], 4, nominal=1)
    assert (draw.size, draw.nominal, draw.mean([6.0])) == (1, 1, 3.0)
    assert Draw([], [], 5, nominal=1).mean([]) == 0.0
    with pytest.raises(ValueError, match=r"nominal must be from 1 to .*, got 0"):
        Draw([3], [0.5], 5, nominal=0)


def test_the_least_probability_has_a_finite_squared_importance():
    draw = Draw([0, 1], [2.0**-200, 1.0], 5)
    assert np.isfinite(draw.importances**2).all()


def test_an_empty_draw():
    draw = Draw([], [], n=3)
    assert len(draw) == 0
    assert draw.indices.dtype == np.int64
    assert draw.importances.size == 0
    assert list(draw) == []


def test_a_dict_and_back(draw):
    saved = draw.to_dict()
    assert sorted(saved) == ["indices", "n", "nominal", "probabilities", "round", "tags"]
    assert Draw.read(saved) == draw
    assert Draw([0], [1.0], 1).to_dict()["tags"] is None
    with pytest.raises(CheckpointError, match=r"indices\[\d\] must be from 0 to 1, got"):
        Draw.read({**saved, "n": 2})
    saved["indices"][:] = 0  # a copy
    assert Draw.read(saved) != draw


def test_pickle_here(draw):
    copy = pickle.loads(pickle.dumps(draw))
    assert copy == draw
    with pytest.raises(ValueError, match="read-only"):
        copy.indices[0] = 0


def test_pickle_through_another_process(draw, tmp_path):
    """A worker gets the draw, and sends a part of it back."""
    (tmp_path / "there").write_bytes(pickle.dumps(draw))
    code = (
        "import pickle, sys\n"
        "there, back = sys.argv[1:]\n"
        "draw = pickle.load(open(there, 'rb'))\n"
        "pickle.dump(draw[1:], open(back, 'wb'))\n"
    )
    paths = [str(tmp_path / "there"), str(tmp_path / "back")]
    subprocess.run([sys.executable, "-c", code, *paths], check=True, timeout=120)
    assert pickle.loads((tmp_path / "back").read_bytes()) == draw[1:]


@pytest.mark.parametrize("name", ["n", "round", "nominal"])
def test_the_largest_numbers_of_a_draw(name):
    """They are 64-bit numbers."""
    given = {"n": 5, name: 2**63 - 1}
    assert getattr(Draw([1], [0.5], **given), name) == 2**63 - 1
    with pytest.raises(ValueError, match=f"{name} must be from"):
        Draw([1], [0.5], **{**given, name: 2**63})


@pytest.mark.parametrize("tags", [[0, 255], [0.0, 255.0], np.array([False, True])])
def test_tags_are_integers_from_0_to_255(tags):
    draw = Draw([1, 2], [0.5, 0.5], n=5, tags=tags)
    assert draw.tags.dtype == np.uint8
    assert draw.tags.tolist() == list(tags)


@pytest.mark.parametrize("wrong", [-1, 256, -1.0, 256.0, 0.5, np.nan])
def test_other_tags_are_refused(wrong):
    with pytest.raises(ValueError, match=rf"tags\[1\] is {wrong}, not an integer from 0 to 255"):
        Draw([1, 2], [0.5, 0.5], n=5, tags=[7, wrong])
