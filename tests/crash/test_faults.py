"""A save that fails names the file, keeps the last save, leaves nothing behind, can be redone."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

import tombola
from crash.faults import check_error, check_folder, error_of, fail_at_every_step, largest_file
from crash.steps import STEPS
from tombola import checkpoint
from tombola.state import files
from tombola.state.files import replaced_file, write_text


def versions_of_a_sampler():
    sampler = tombola.VRB(40, seed=3)
    states = [sampler.state_dict()]
    sampler.update(sampler.draw(8), np.ones(8))
    return [*states, sampler.state_dict()]


def test_a_checkpoint_with_a_fault_at_every_step(tmp_path):
    path, states = tmp_path / "state", versions_of_a_sampler()
    seen = fail_at_every_step(lambda k: checkpoint.write(path, states[k]), tmp_path, path)
    assert set(seen) == set(STEPS)
    assert seen["write"] > 60


def test_a_text_with_a_fault_at_every_step(tmp_path):
    path = tmp_path / "text"
    seen = fail_at_every_step(lambda k: write_text(path, f"{k}" * 2000), tmp_path, path)
    assert set(seen) == set(STEPS)


def test_a_file_that_may_not_grow(tmp_path):
    path, states = tmp_path / "state", versions_of_a_sampler()
    checkpoint.write(path, states[1])
    size, new = path.stat().st_size, path.read_bytes()
    checkpoint.write(path, states[0])
    old = path.read_bytes()
    for limit in range(0, size, 97):
        with largest_file(limit):
            error = error_of(lambda: checkpoint.write(path, states[1]))
        check_error(error, errno.EFBIG, path)
        check_folder(tmp_path)
        assert path.read_bytes() == old
    with largest_file(size):
        checkpoint.write(path, states[1])
    assert path.read_bytes() == new


def test_an_error_about_another_file_is_left_alone(tmp_path):
    with pytest.raises(FileNotFoundError) as caught, replaced_file(tmp_path / "new"):
        (tmp_path / "absent").read_bytes()
    assert caught.value.filename == str(tmp_path / "absent")
    check_folder(tmp_path)


def nameless(path, data):
    """Lets the system's error out, which names no file."""
    handle, name = files.tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with files.os.fdopen(handle, "w+b") as file:
            file.write(data)
        files.os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)


def untidy(path, data):
    """Leaves the temporary file behind."""
    try:
        handle, name = files.tempfile.mkstemp(dir=path.parent, suffix=".part")
        with files.os.fdopen(handle, "w+b") as file:
            file.write(data)
        files.os.replace(name, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def in_place(path, data):
    """Writes into the file itself."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        with files.os.fdopen(handle, "w+b") as file:
            file.write(data)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


@pytest.mark.parametrize(
    ("writer", "words"),
    [(nameless, "No space left"), (untidy, "left behind"), (in_place, "not intact")],
)
def test_a_wrong_writer_is_found_out(tmp_path, writer, words):
    """Else the tests above would prove nothing."""
    path = tmp_path / "text"
    with pytest.raises(AssertionError, match=words):
        fail_at_every_step(lambda k: writer(path, b"%d" % k * 2000), tmp_path, path)
