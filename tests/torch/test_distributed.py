"""Several processes: one global batch or shards, the same state everywhere, nothing lost.

Two real processes play over gloo, once, for all tests that need them; the rest has threads for
ranks.
"""

import itertools
import os
import signal

import numpy as np
import pytest
import torch
from crowd import Crowd, two_processes
from test_resume import digest
from torch import distributed as dist
from torch.utils.data import TensorDataset

import tombola
from tombola.torch import DeviceLoader, ImportanceLoader, TensorDraw
from tombola.torch.communication import Connection, find_connection
from tombola.torch.loader.base import Settings
from tombola.torch.loader.drawing import Shard, Sharded
from tombola.torch.loader.feedback import Feedback, share_feedback

N, BATCH = 300, 8
DATA = TensorDataset(torch.arange(N))
COPY_LOSSES = "tombola.torch.loader.feedback.copy_losses"
FAR = 2**24 + 1  # float32 would make it 2^24


def make(batch=BATCH, lag=2, seed=5, n=N, **options):
    return ImportanceLoader(TensorDataset(torch.arange(n)), batch, seed=seed, lag=lag, **options)


def loss_of(items, number):
    return (1.0 + items.double() % 17) * (1 + number % 3)


def training(loader, skipped=lambda number: False, answer=loss_of):
    """Train, epoch after epoch; yield what was drawn once it is answered."""
    while True:
        for (items,), draw in loader:
            assert items.tolist() == draw.indices.tolist()
            if not skipped(draw.number):
                loader.update(draw, answer(items, draw.number))
            yield items.tolist()


def steps(loader, count, **options):
    """Train for some batches and return them."""
    return list(itertools.islice(training(loader, **options), count))


def joined(ranks):
    """The global batches of what each rank has drawn."""
    return [list(itertools.chain(*parts)) for parts in zip(*ranks, strict=True)]


# --- two processes ---------------------------------------------------------------------------


def live(rank, folder):
    """What each of the two processes does."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    results = {}

    loader = make()
    results["drawn"] = steps(loader, 500)
    results["hash"] = digest(loader.state_dict())
    results["ratio"] = loader.sampler.gauge.second_moment_ratio

    draw = tombola.Draw([FAR + rank], [0.25 + rank / 2**40], 2**40)
    mine = Feedback(due=0, number=rank, draw=draw, losses=np.ones(1))
    told = share_feedback(find_connection("auto", None), [mine], width=3, progress=7)
    results["far"] = [(f.draw.indices[0].item(), f.draw.probabilities[0].item()) for f in told]

    sharded = make(distributed="sharded", n=301)
    batches = training(sharded)
    results["sharded"] = list(itertools.islice(batches, 60))
    results["sharded state"] = sharded.state_dict()
    results["sharded rest"] = list(itertools.islice(batches, 20))

    results["groups"] = len(dist.distributed_c10d._world.pg_map)  # with the default one

    try:
        make(batch=BATCH + rank)
    except ValueError as error:
        results["error"] = str(error)
    try:
        DeviceLoader(torch.arange(9.0))
    except RuntimeError as error:
        results["on a device"] = str(error)
    torch.save(results, f"{folder}/results-{rank}")

    doomed = make()
    for step, _ in enumerate(training(doomed), start=1):
        if step % 5 == 0:
            state = doomed.state_dict()  # all ranks call it, one saves it
            if rank == 0:
                torch.save(state, f"{folder}/part")
                os.replace(f"{folder}/part", f"{folder}/checkpoint")
        if step == 23 and rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    (survivor, killed), results = two_processes(live, folder)
    assert killed == -signal.SIGKILL
    assert survivor not in (0, None)  # it lost its partner and said so
    return results, torch.load(folder / "checkpoint", weights_only=True)


def test_both_ranks_hold_the_same_state_after_500_steps(two):
    assert two[0][0]["hash"] == two[0][1]["hash"]


def test_two_ranks_draw_what_one_process_draws_with_the_same_global_batch(two):
    alone = make(2 * BATCH)
    assert joined([result["drawn"] for result in two[0]]) == steps(alone, 500)
    assert two[0][0]["ratio"] == alone.sampler.gauge.second_moment_ratio < 1


def test_all_loaders_share_one_group(two):
    assert [result["groups"] for result in two[0]] == [2, 2]


def test_indices_above_2_to_the_24_are_gathered_exactly(two):
    for result in two[0]:
        assert result["far"] == [(FAR, 0.25), (FAR + 1, 0.25 + 2.0**-40)]


def test_settings_that_differ_between_ranks_are_named(two):
    for result in two[0]:
        assert result["error"] == (
            "all processes need the same batch_size: rank 0 has 8, rank 1 has 9"
        )


def test_each_rank_would_draw_the_same_from_a_device(two):
    for result in two[0]:
        assert "all 2 would draw the same items: pass distributed=None" in result["on a device"]


def test_a_killed_rank_and_a_restart_with_one_process_lose_nothing(two):
    """The run that continues alone equals, to the last bit, an uninterrupted one."""
    undisturbed = make(2 * BATCH)
    drawn = steps(undisturbed, 60)
    alone = make(2 * BATCH)
    alone.load_state_dict(two[1])
    assert two[1]["position"]["handed"] == 20
    assert steps(alone, 40) == drawn[20:]
    assert digest(alone.state_dict()) == digest(undisturbed.state_dict())


def test_a_restart_with_three_processes_loses_no_feedback(two, monkeypatch):
    crowd = Crowd(3, monkeypatch)

    def resumed(rank):
        loader = make()
        loader.load_state_dict(two[1])
        drawn = steps(loader, 30)
        return drawn, digest(loader.state_dict()), loader.sampler.gauge.count

    results = crowd.run(resumed)
    assert len({state for _, state, _ in results}) == 1
    sizes = [len(batch) for batch in joined([drawn for drawn, _, _ in results])]
    assert results[0][2] == fed(two[1]) + sum(sizes[:-3])  # lag 2, and the last one given


def fed(state):
    """Losses that a state knows of: learnt, or given and not due."""
    counts = state["shards"][0]["sampler"]["tally"]["count"]
    return int(counts) + sum(len(given["losses"]) for given in state["given"])


def test_sharded_ranks_draw_from_their_own_items(two):
    first, second = (result["sharded"] for result in two[0])
    assert {item for batch in first for item in batch} <= set(range(150))
    assert {item for batch in second for item in batch} <= set(range(150, 301))
    relative = [[item - 150 for item in batch] for batch in second]
    assert first[:5] != relative[:5]  # they have streams of their own


def test_a_sharded_run_goes_on_under_one_process(two, monkeypatch):
    """One process takes both shards over; what was drawn ahead is drawn again."""
    states = [result["sharded state"] for result in two[0]]
    crowd = Crowd(1, monkeypatch)

    def resumed(rank):
        loader = make(2 * BATCH, distributed="sharded", n=301, shards=2)
        loader.load_state_dict(states)
        counts = [sampler.gauge.count for sampler in loader.samplers]
        waiting = [len(given["losses"]) for state in states for given in state["given"]]
        drawn = steps(loader, 20)
        return counts, sum(waiting), drawn, [s.gauge.count for s in loader.samplers]

    ((before, waiting, drawn, after),) = crowd.run(resumed)
    assert before == [int(s["shards"][0]["sampler"]["tally"]["count"]) for s in states]
    assert waiting > 0
    sizes = [len(batch) for batch in drawn]
    assert sum(after) == sum(before) + waiting + sum(sizes[:-3])
    for batch in drawn:  # each batch has its part of each shard
        assert abs(sum(item < 150 for item in batch) - len(batch) / 2) <= 1


def test_a_sharded_run_goes_on_as_it_would_have(two, monkeypatch):
    crowd = Crowd(2, monkeypatch)

    def resumed(rank):
        loader = make(distributed="sharded", n=301)
        loader.load_state_dict([result["sharded state"] for result in two[0]])
        return steps(loader, 20)

    assert crowd.run(resumed) == [result["sharded rest"] for result in two[0]]


# --- shards ----------------------------------------------------------------------------------


@pytest.mark.parametrize("cuts", [[0, 2, 11], [0, 1, 4, 11], [0, 7, 8, 10, 11]])
def test_unequal_shards_are_unbiased(cuts):
    """Exactly: the expectation, over what two processes draw, of their averaged estimates."""
    n, world, size = 11, 2, 7
    losses = np.arange(1.0, n + 1) ** 2
    weights = 1.0 + np.arange(n) % 4
    shards = [Shard(a, tombola.Static(weights[a:b])) for a, b in itertools.pairwise(cuts)]
    mean = wrong = 0.0
    for own in (shards[: len(shards) // 2], shards[len(shards) // 2 :]):
        settings = Settings(n=n, batch_size=size, shards=len(shards))
        processes = Sharded(Connection("sharded", 0, world), settings, own)
        seen = {}
        while len(seen) < own[-1].stop - own[0].start:
            batch = processes.draw(0, size)
            draw = TensorDraw(batch.draw, 0, batch.shares)
            exact = draw.ticket.importances / draw.shares
            assert torch.allclose(draw.importances, torch.from_numpy(exact).float())
            seen.update(zip(draw.indices.tolist(), exact, strict=True))
        for shard in own:
            drawn = int(((draw.indices >= shard.start) & (draw.indices < shard.stop)).sum())
            assert drawn >= 1
            chances = shard.sampler.probabilities()
            for k, chance in enumerate(chances):
                expected = drawn / size * chance / world  # of item k, in the average of both
                mean += expected * seen[shard.start + k] * losses[shard.start + k]
                wrong += expected / (len(chances) * chance) * losses[shard.start + k]
    assert mean == pytest.approx(losses.mean(), rel=1e-12)
    assert wrong != pytest.approx(losses.mean(), rel=0.01)  # without the factor of the shard


def test_a_batch_smaller_than_the_shards_is_refused(monkeypatch):
    crowd = Crowd(1, monkeypatch)
    with pytest.raises(ValueError, match="batch_size=2 is less than the 3 shards of a process"):
        crowd.run(lambda rank: make(2, distributed="sharded", shards=3))


def test_every_batch_has_something_of_each_shard_also_the_last(monkeypatch):
    crowd = Crowd(1, monkeypatch)
    (sizes,) = crowd.run(
        lambda rank: [len(draw) for _, draw in make(8, n=17, distributed="sharded", shards=3)]
    )
    assert sizes == [8, 8, 3]


def test_what_sharded_items_cannot_do_is_refused(monkeypatch):
    crowd = Crowd(2, monkeypatch)
    for options, message in [
        ({"sampler": tombola.VRB(N)}, "each shard has a sampler of its own"),
        ({"shards": 1}, "at least as many shards as processes"),
        ({"shards": N + 1}, "at most as many as items"),
    ]:
        with pytest.raises(ValueError, match=message):
            crowd.run(lambda rank, options=options: make(distributed="sharded", **options))
    with pytest.raises(ValueError, match='shards is for distributed="sharded"'):
        make(shards=2, distributed=None)


def test_shards_that_are_not_in_the_states_are_named(monkeypatch):
    crowd = Crowd(2, monkeypatch)
    states = crowd.run(lambda rank: make(distributed="sharded").state_dict())
    alone = Crowd(1, monkeypatch)

    def resumed(rank, states):
        make(16, distributed="sharded", shards=2).load_state_dict(states)

    with pytest.raises(ValueError, match="does not hold items 150 to 299 as one shard"):
        alone.run(lambda rank: resumed(rank, states[:1]))
    alone.run(lambda rank: resumed(rank, states))


def test_draws_of_several_shards_know_it():
    for shards, several in [(1, False), (2, True)]:
        loader = make(distributed="sharded", shards=shards)
        (items,), draw = next(iter(loader))
        assert draw.shards == shards
        if several:
            with pytest.raises(ValueError, match="for feedback only"):
                draw[:2].mean(items[:2])
        loader.update(draw[:2], items[:2])


def test_shards_of_equal_size_have_streams_of_their_own(monkeypatch):
    def begun(rank):
        loader = make(distributed="sharded", shards=4)
        seeds = [sampler.parameters["seed"] for sampler in loader.samplers]
        return seeds, [[item % 75 for item in batch] for batch in steps(loader, 3)]

    (seeds, first), (others, second) = Crowd(2, monkeypatch).run(begun)
    assert len({*seeds, *others}) == 4
    assert first != second


@pytest.mark.parametrize(("before", "after"), [(2, 1), (2, 4), (4, 3)])
def test_shards_move_to_other_processes_with_all_feedback_and_the_rest_of_the_epoch(
    before, after, monkeypatch
):
    """What had been drawn ahead is drawn again: the epoch is as long as it was."""

    def begun(rank):
        loader = make(24 // before, lag=4, n=240, distributed="sharded", shards=4)
        steps(loader, 3)
        while len(loader._batches.current.waiting) < 3:  # as workers would
            loader._batches.draw_next(loader._batches.current)
        return loader.state_dict(), [sampler.gauge.count for sampler in loader.samplers]

    states, counts = zip(*Crowd(before, monkeypatch).run(begun), strict=True)
    given = [len(kept["losses"]) for state in states for kept in state["given"]]
    assert sum(given) == 2 * 24  # the first batch was learnt from

    def resumed(rank):
        loader = make(24 // after, lag=4, n=240, distributed="sharded", shards=4)
        loader.load_state_dict(list(states))
        kept = [sampler.gauge.count for sampler in loader.samplers]
        mine = sum(len(kept.losses) for kept in loader._batches.feedback.gathered)
        assert [draw.number for draw in loader.unanswered] == []
        rest = [len(draw) for _, draw in loader]
        return kept, mine, rest, sum(sampler.gauge.count for sampler in loader.samplers)

    kept, mine, rest, fed = zip(*Crowd(after, monkeypatch).run(resumed), strict=True)
    assert list(itertools.chain(*kept)) == list(itertools.chain(*counts))
    assert sum(mine) == sum(given)
    assert rest == ([24 // after] * 7,) * after
    assert sum(fed) == 3 * 24  # no batch of the rest was answered


# --- replicated ------------------------------------------------------------------------------


def test_feedback_that_a_rank_skips_is_missed_by_all_alike(monkeypatch):
    crowd = Crowd(2, monkeypatch)

    def lived(rank):
        loader = make()
        drawn = steps(loader, 60, skipped=lambda number: number % 3 == rank)
        return drawn, digest(loader.state_dict()["shards"]), loader.sampler.gauge.count

    (one, first, count), (other, second, _) = crowd.run(lived)
    assert first == second
    assert one != other
    assert 0.6 < count / (58 * 2 * BATCH) < 0.7


def test_answers_in_bursts_and_parts_reach_all_ranks(monkeypatch):
    """Three batches at once, each in two parts."""
    crowd = Crowd(3, monkeypatch)

    def lived(rank):
        loader, kept, given = make(), [], 0
        for (items,), draw in loader:
            kept.append((draw, loss_of(items, draw.number)))
            if len(kept) == 3:
                for draw, losses in kept:
                    loader.update(draw[:3], losses[:3])
                    loader.update(draw[3:], losses[3:])
                    given += len(draw)
                kept = []
        return digest(loader.state_dict()["shards"]), given, fed(loader.state_dict())

    results = crowd.run(lived)
    assert len({state for state, _, _ in results}) == 1
    assert results[0][2] == sum(given for _, given, _ in results)


def test_saving_between_the_parts_of_an_answer_changes_nothing(monkeypatch):
    def lived(save):
        def live(rank):
            loader, drawn = make(6, n=60), []
            for _ in range(6):
                for (items,), draw in loader:
                    drawn.append(items.tolist())
                    losses = loss_of(items, draw.number)
                    loader.update(draw[:3], losses[:3])
                    if save:
                        loader.state_dict()
                    loader.update(draw[3:], losses[3:])
            return drawn, digest(loader.state_dict())

        return Crowd(2, monkeypatch).run(live)

    assert lived(save=True) == lived(save=False)


def test_the_state_does_not_depend_on_which_rank_has_answered(monkeypatch):
    def lived(rank):
        loader = make()
        (items,), draw = next(iter(loader))
        if rank == 0:
            loader.update(draw, loss_of(items, 0))
        assert len(loader.unanswered) == rank
        return digest(loader.state_dict())

    first, second = Crowd(2, monkeypatch).run(lived)
    assert first == second


def test_a_state_that_one_rank_alone_asks_for_is_told(monkeypatch):
    def live(rank):
        loader = make()
        for k, _ in enumerate(training(loader)):
            if k == 1 and rank == 1:
                loader.state_dict()

    with pytest.raises(RuntimeError, match=r"state_dict\(\) must be called on all processes"):
        Crowd(2, monkeypatch).run(live)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (({"shards": 3}, {"shards": 2}), "same shards: rank 0 has 3, rank 1 has 2"),
        (({}, {"distributed": "auto"}), r"same distributed \(1 for \"sharded\"\): rank 0 has 1"),
    ],
)
def test_ways_to_draw_that_differ_between_ranks_are_told(options, message, monkeypatch):
    with pytest.raises(ValueError, match=message):
        Crowd(2, monkeypatch).run(lambda rank: make(**{"distributed": "sharded", **options[rank]}))


def test_ranks_that_have_come_apart_are_found(monkeypatch):
    crowd = Crowd(2, monkeypatch)
    with pytest.raises(RuntimeError, match="ranks 0 and 1 have not drawn the same"):
        crowd.run(lambda rank: steps(make(seed=rank), 5))
    crowd = Crowd(2, monkeypatch)
    with pytest.raises(RuntimeError, match="ranks 0 and 1 have not drawn the same"):
        crowd.run(
            lambda rank: steps(make(sampler=tombola.Static(1.0 + rank * np.arange(N) % 7)), 5)
        )


def test_ranks_that_draw_ahead_by_different_numbers_are_told(monkeypatch):
    """They would wait for each other for ever."""
    with pytest.raises(ValueError, match=r"same num_workers \* prefetch_factor: rank 0 has 0"):
        Crowd(2, monkeypatch).run(lambda rank: make(lag=5, num_workers=rank))


def test_a_bad_loss_on_one_rank_is_an_error_on_all(monkeypatch):
    crowd = Crowd(2, monkeypatch)
    monkeypatch.setattr(COPY_LOSSES, lambda draw, losses, skip: losses.numpy)

    def lived(rank):
        answer = lambda items, number: loss_of(items, number) * (float("nan") if rank else 1.0)  # noqa: E731
        with pytest.raises(ValueError, match=r"losses\[0\] of batch 0 is nan"):
            steps(make(), 10, answer=answer)
        return True

    assert crowd.run(lived) == [True, True]


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 4), (3, 2), (4, 3)])
def test_batches_drawn_ahead_are_split_differently(before, after, monkeypatch):
    """Drawn for some ranks, handed out to others: each item once, in equal parts."""

    def begun(rank):
        loader = make(24 // before, lag=4, n=301)
        batches = iter(loader)
        next(batches)
        while len(loader._batches.current.waiting) < 3:  # as workers would
            loader._batches.draw_next(loader._batches.current)
        return loader.state_dict()

    states = Crowd(before, monkeypatch).run(begun)
    assert len({digest(state) for state in states}) == 1
    ahead = [kept["draw"]["indices"].tolist() for kept in states[0]["waiting"]]
    odd = states[0]
    odd["waiting"][1]["draw"] = {**odd["waiting"][1]["draw"]}
    for name in ("indices", "probabilities"):  # one that divides by nothing
        odd["waiting"][1]["draw"][name] = odd["waiting"][1]["draw"][name][:23]

    def resumed(rank):
        loader = make(24 // after, lag=4, n=301)
        loader.load_state_dict(odd)
        drawn = [draw.indices.tolist() for _, draw in loader]
        return drawn, digest(loader.state_dict())

    results = Crowd(after, monkeypatch).run(resumed)
    assert len({state for _, state in results}) == 1
    batches = joined([drawn for drawn, _ in results])
    assert batches[0] == ahead[0]
    assert batches[2] == ahead[2]
    assert batches[1][:23] == ahead[1][:23]
    assert len(batches[1]) == -(-23 // after) * after
    left = 301 - 4 * 24 - (len(batches[1]) - 23)
    sizes = [24] * (left // 24) + [-(-(left % 24) // after) * after]
    assert [len(batch) for batch in batches[3:]] == sizes
    for drawn, _ in results:
        assert [len(part) * after for part in drawn] == [len(batch) for batch in batches]


def test_an_epoch_is_as_long_as_for_one_process_with_the_global_batch(monkeypatch):
    lengths = Crowd(2, monkeypatch).run(lambda rank: (len(make()), len(list(make()))))
    assert lengths == [(len(make(2 * BATCH, distributed=None)), 19)] * 2


# --- how processes are found -----------------------------------------------------------------


@pytest.mark.parametrize("distributed", ["auto", "replicated", "sharded"])
def test_a_loader_made_before_the_process_group_is_told(distributed, monkeypatch):
    loader = make(distributed=distributed)
    monkeypatch.setattr("tombola.torch.loader.base.world_size", lambda: 2)
    with pytest.raises(RuntimeError, match="initialised after this was made"):
        next(iter(loader))
    next(iter(make(distributed=None)))


def test_a_loader_on_a_device_made_before_the_process_group_raises(monkeypatch):
    x = torch.arange(5.0)
    loader, alone = DeviceLoader(x), DeviceLoader(x, distributed=None)
    monkeypatch.setattr("tombola.torch.loader.base.world_size", lambda: 2)
    with pytest.raises(RuntimeError, match="initialised after this was made"):
        next(iter(loader))
    next(iter(alone))


def test_a_group_of_one_process_in_a_larger_world_draws_on_its_own(monkeypatch):
    for module in ("communication", "loader.base", "loader.device"):
        monkeypatch.setattr(f"tombola.torch.{module}.world_size", lambda: 2)
    monkeypatch.setattr(dist, "get_world_size", lambda group: 1)
    assert steps(make(process_group="this one"), 5) == steps(make(distributed=None), 5)


def test_a_destroyed_process_group_leaves_no_threads_behind(tmp_path):
    """A thread of gloo that lives until the interpreter exits may abort the process."""
    threads = len(os.listdir("/proc/self/task"))
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        loader = make(distributed="sharded")
        assert len(os.listdir("/proc/self/task")) > threads
    finally:
        dist.destroy_process_group()
    assert len(os.listdir("/proc/self/task")) == threads
    with pytest.raises(RuntimeError, match="the process group of this loader was destroyed"):
        loader._batches.processes.connection.require_equal({"lag": 1})


def test_processes_without_a_process_group_are_told(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match="one of WORLD_SIZE=2 processes"):
        make()
    assert len(make(distributed=None)) == 38
    with pytest.raises(ValueError, match='"auto", "replicated", "sharded" or None, got \'all\''):
        make(distributed="all")
