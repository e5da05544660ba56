"""A pool of child processes for tests that are not asynchronous themselves."""

import asyncio
import time
from pathlib import Path
from threading import Thread

from srosr.server.process_pool import ProcessPool


class PoolInThread:
    """A pool whose event loop runs in a thread."""

    def __init__(self, kind, size, folder, *, memory=None, seconds=60.0, **settings):
        self.loop = asyncio.new_event_loop()
        self.thread = Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.pool = self.wait(self._make(kind, size, memory=memory, seconds=seconds, folder=folder, **settings))

    @staticmethod
    async def _make(kind, size, **settings):
        pool = ProcessPool(kind, size, **settings)
        await pool.start()
        return pool

    def begin(self, *arguments, **keywords):
        """Begin a job; return a future."""
        return asyncio.run_coroutine_threadsafe(self.pool.run(*arguments, **keywords), self.loop)

    def run(self, *arguments, **keywords):
        """Do a job and return its result."""
        return self.begin(*arguments, **keywords).result(120)

    def wait(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(120)

    def close(self):
        self.wait(self.pool.close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def is_gone(pid, seconds=10.0):
    """Return whether a process has ended, or does so soon."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False
