"""Ranks that are threads of one process, for speed, or two processes."""

import threading

import numpy as np
import torch

from tombola.torch.communication import Connection


def two_processes(function, folder):
    """Call a function (rank, folder) in two processes; return their exit codes and results.

    The results of a rank are what it saves as ``{folder}/results-{rank}``.
    """
    context = torch.multiprocessing.get_context("spawn")
    processes = [context.Process(target=function, args=(rank, str(folder))) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        process.kill()
    results = [torch.load(folder / f"results-{rank}", weights_only=True) for rank in range(2)]
    return [process.exitcode for process in processes], results


class Crowd:
    """As many ranks as asked for; `run` calls a function of the rank on each of them.

    Every collective is a meeting point.
    """

    def __init__(self, world, monkeypatch):
        self.world = world
        self.here = threading.local()
        self.told = [None] * world
        self.meeting = threading.Barrier(world)
        monkeypatch.setattr("tombola.torch.loader.loader.find_connection", self.find_connection)

    def find_connection(self, distributed, process_group):
        if distributed is None:
            return Connection()
        mode = "replicated" if distributed == "auto" else distributed
        return Connection(mode, self.here.rank, self.world, self.gather)

    def gather(self, message):
        self.told[self.here.rank] = message.copy()
        self.meeting.wait(20)
        told = np.stack(self.told)
        self.meeting.wait(20)
        return told

    def run(self, function):
        """Return what each rank returned, or raise the first error."""
        results, errors, deserted = [None] * self.world, [], []

        def live(rank):
            self.here.rank = rank
            try:
                results[rank] = function(rank)
            except threading.BrokenBarrierError:
                deserted.append(rank)  # another rank has failed, or did not come
            except Exception as error:
                errors.append((rank, error))
                self.meeting.abort()

        threads = [threading.Thread(target=live, args=(rank,)) for rank in range(self.world)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.meeting.reset()
        if errors:
            raise sorted(errors, key=lambda pair: pair[0])[0][1]
        if deserted:
            raise TimeoutError(f"ranks {sorted(deserted)} waited for another one in vain")
        return results
