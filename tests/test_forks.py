"""Forked children repeat the draws of their parent; with a seed for each they do not."""

import json
import multiprocessing
import os

import numpy as np
import pytest

import tombola
from tombola import Stream

N, SIZE = 50, 40

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def in_a_fork(make):
    """What a function returns in a forked child."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, json.dumps(make()).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answers:
        answer = json.load(answers)
    os.waitpid(child, 0)
    return answer


def draws_of(seed):
    return tombola.VRB(N, seed=seed).draw(SIZE).indices.tolist()


def tell_draws(seed, queue):
    queue.put(draws_of(seed))


def trained():
    sampler = tombola.VRB(N, seed=1)
    draw = sampler.draw(300)
    sampler.update(draw, 1.0 + draw.indices % 3)
    return sampler


@forks
def test_forked_children_repeat_the_parent_and_each_other():
    sampler, stream = trained(), Stream(3)
    drawn = [in_a_fork(lambda: sampler.draw(SIZE).indices.tolist()) for _ in range(2)]
    words = [in_a_fork(lambda: stream.integers(1000, SIZE).tolist()) for _ in range(2)]
    assert drawn[0] == drawn[1] == sampler.draw(SIZE).indices.tolist()
    assert words[0] == words[1] == stream.integers(1000, SIZE).tolist()


@forks
def test_a_seed_or_a_stream_for_each_ends_that():
    stream = Stream(3)
    drawn = [in_a_fork(lambda rank=rank: draws_of(1000 + rank)) for rank in range(3)]
    words = [
        in_a_fork(lambda rank=rank: stream.child(rank).integers(1000, SIZE).tolist())
        for rank in range(3)
    ]
    for answers in (drawn, words):
        assert len({tuple(answer) for answer in answers}) == 3
        same = np.mean(np.array(answers[0]) == np.array(answers[1]))
        assert same < 0.3  # not shifted by one, not equal in part


def test_spawned_processes_draw_by_their_seeds():
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=tell_draws, args=(1001, queue))
    process.start()
    answer = queue.get(timeout=120)
    process.join()
    assert answer == draws_of(1001)
    assert answer != draws_of(1000)
