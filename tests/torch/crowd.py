"""Ranks that are threads of one process: quick, and every collective is a meeting point."""

import threading

import numpy as np

from tombola.torch.communication import Connection


class Crowd:
    """As many ranks as asked for; `run` calls a function of the rank on each of them."""

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
