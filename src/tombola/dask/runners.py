"""Where tasks are carried out: by Dask's schedulers on this machine, or on a cluster.

Rows are read, or found in the memory of workers, by Dask. The dual variables of a partition stay
where they were made: with the threads of this process, or on the worker that made them, as data
that the driver's client owns and that Dask may spill or move. They have no history for Dask, so
that task graphs do not grow; where they are lost with a worker, the partition starts over.
"""

import time
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError
from typing import Any

import dask
import numpy as np
from numpy.typing import NDArray

from tombola.dask.local import Plan, Report, take_part
from tombola.dask.overview import Setting
from tombola.dask.partition import assemble
from tombola.estimators.clusters import is_forked

__all__ = ["ClusterRunner", "LocalRunner", "make_runner"]

TRIES = 20  # of a round, where workers die in it
PAUSE = 0.5  # seconds before the next one, where nothing could be sent


def make_runner(parts: list[tuple[Any, Any, Any]], client: Any) -> Any:
    """Return what carries out tasks on partitions: by a client, the current one, or here."""
    from distributed import Client, get_client

    if client is None:
        try:
            client = get_client()
        except ValueError:
            return LocalRunner(parts)
    if not isinstance(client, Client):
        raise TypeError(f"client must be a distributed.Client, got {client!r}")
    return ClusterRunner(parts, client)


def on_partition(task: Callable[..., Any], number: int, X: Any, y: Any, w: Any, more: Any) -> Any:
    """Call a task with a partition that is made of blocks, its number, and more arguments."""
    return task(assemble(number, X, y, w), number, *more)


class LocalRunner:
    """Carries out tasks by a scheduler of Dask on this machine, by default threads.

    Each thread has one partition in memory at a time. The dual variables are kept between rounds.
    """

    def __init__(self, parts: list[tuple[Any, Any, Any]]) -> None:
        self.parts = parts
        self.duals: list[Any] = [None] * len(parts)  # arrays; None before the first round

    def map(self, task: Callable[..., Any], *more: Any) -> list[Any]:
        """Return task(partition, number, *more) for all partitions."""
        return self._compute([self._call(task, k, more) for k in range(len(self.parts))])

    def _call(self, task: Callable[..., Any], k: int, more: Any, **options: Any) -> Any:
        """Return a task on a partition, for later."""
        make = dask.delayed(on_partition, traverse=False)
        return make(task, k, *self.parts[k], more, **options)

    def _compute(self, calls: list[Any]) -> list[Any]:
        """Return the results of calls; in a forked child without Dask's threads, which are gone."""
        return list(dask.compute(*calls, **({"scheduler": "sync"} if is_forked() else {})))

    def run(self, setting: Setting, plan: Plan) -> list[Report]:
        """Carry out a round of dual ascent on all partitions; return their reports, in order."""
        calls = [
            self._call(take_part, k, (duals, setting, plan)) for k, duals in enumerate(self.duals)
        ]
        reports, self.duals = map(list, zip(*self._compute(calls), strict=True))
        return reports

    def state(self) -> Iterable[NDArray[np.float64] | None]:
        """Yield the dual variables of each partition, in order; None if they were lost."""
        return iter(self.duals)

    def load(self, duals: Iterable[NDArray[np.float64] | None]) -> None:
        """Set the dual variables of each partition."""
        self.duals = list(duals)

    def close(self) -> None:
        """Forget the dual variables, here or in the workers."""
        self.duals = [None] * len(self.parts)


class ClusterRunner(LocalRunner):
    """Carries out tasks on the workers of a cluster, which keep the dual variables: futures."""

    def __init__(self, parts: list[tuple[Any, Any, Any]], client: Any) -> None:
        super().__init__(parts)
        self.client, self.attempts = client, 0
        self.name = f"tombola-{uuid.uuid4().hex[:12]}"

    def map(self, task: Callable[..., Any], *more: Any) -> list[Any]:
        """Return task(partition, number, *more) for all partitions."""
        return self._carry_out(
            lambda k, sent, name: self._call(task, k, sent, dask_key_name=name), more
        )

    def run(self, setting: Setting, plan: Plan) -> list[Report]:
        """Carry out a round; partitions whose dual variables were lost start over."""
        make = dask.delayed(cluster_round, traverse=False)
        keys: dict[int, str] = {}

        def call(k: int, sent: Any, name: str) -> Any:
            keys[k] = f"{name}-duals"
            return make(
                k, *self.parts[k], self.duals[k], sent, keys[k], self.client.id, dask_key_name=name
            )

        reports = self._carry_out(call, (setting, plan))
        from distributed import Future

        self.duals = [Future(keys[k], self.client, state="memory") for k in range(len(self.parts))]
        return reports

    def _carry_out(self, call: Callable[[int, Any, str], Any], data: Any) -> list[Any]:
        """Return the results of calls for all partitions, also where workers die meanwhile."""
        from distributed import KilledWorker

        results: dict[int, Any] = {}
        missing = list(range(len(self.parts)))
        alone: set[int] = set()  # that were tried without dual variables
        lost: Exception | None = None
        for _ in range(TRIES):
            self.attempts += 1
            try:
                self._wait()
                (sent,) = self.client.scatter([data], broadcast=True, hash=False)
            except OSError as error:  # a worker died while it was sent something
                lost = error
                time.sleep(PAUSE)
                continue
            tasks = [call(k, sent, f"{self.name}-{self.attempts}-{k}") for k in missing]
            futures = dict(zip(missing, self.client.compute(tasks), strict=True))
            failed = []
            for k, future in futures.items():
                try:
                    results[k] = future.result()
                except CancelledError as error:
                    lost = error
                    failed.append(k)
                except KilledWorker as error:
                    raise RuntimeError(
                        f"workers died again and again with the task of partition {k}: it may need "
                        "more memory than they have, use smaller partitions"
                    ) from error
            if not failed:
                return [results[k] for k in range(len(self.parts))]
            held = self._is_held(sent)
            for k in failed:
                if self.duals[k] is not None and not self._is_held(self.duals[k]):
                    self.duals[k] = None
                elif self.duals[k] is None and held:
                    if k in alone:
                        raise RuntimeError(
                            f"the rows of partition {k} were lost with a worker that died: they "
                            "lived in its memory only; read them from files, or persist a "
                            "collection that is"
                        )
                    alone.add(k)
            missing = failed
        raise RuntimeError(f"workers died in all of {TRIES} attempts at a round") from lost

    def _wait(self) -> None:
        """Wait for a worker where there is none, as any task does: only they can be sent data."""
        if not self.client.ncores():
            self.client.submit(int, pure=False).result()

    def _is_held(self, future: Any) -> bool:
        """Return whether a worker has the data of a future."""
        try:
            return bool(self.client.who_has([future]).get(future.key))
        except CancelledError:
            return False

    def state(self) -> Iterable[NDArray[np.float64] | None]:
        """Yield the dual variables of each partition, in order; None where they were lost."""
        for future in self.duals:
            try:
                yield None if future is None else future.result()
            except CancelledError:
                yield None

    def load(self, duals: Iterable[NDArray[np.float64] | None]) -> None:
        """Send dual variables to the workers."""
        self.duals = [
            None if own is None else self.client.scatter([own], hash=False)[0] for own in duals
        ]


def cluster_round(
    number: int, X: Any, y: Any, w: Any, duals: Any, sent: Any, key: str, owner: str
) -> Report:
    """Carry out a round on a partition in a worker, which keeps the dual variables."""
    report: Report
    report, duals = on_partition(take_part, number, X, y, w, (duals, *sent))
    keep(key, duals, owner)
    return report


def keep(key: str, value: NDArray[np.float64], owner: str) -> None:
    """Keep a value in the memory of this worker, for the client `owner`, as scattered data."""
    from distributed import get_client, get_worker

    worker, client = get_worker(), get_client()

    async def put() -> None:
        worker.update_data(data={key: value})
        await client.scheduler.update_data(
            who_has={key: [worker.address]}, nbytes={key: value.nbytes}, client=owner
        )

    client.sync(put)
