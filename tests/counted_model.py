"""Models that note when they are used, and in which process they are unpickled, for the tests of Dask."""

import os
import time
from pathlib import Path

from srosr import OSNN

FOLDER = "SROSR_TEST_UNPICKLED"


#: Lengths of the batches on which a :class:`RecordingOSNN` of this process decided.
BATCHES: list[int] = []


class RecordingOSNN(OSNN):
    """OSNN that notes on how many samples it decides."""

    def decide(self, X):
        BATCHES.append(len(X))
        return super().decide(X)


class CountedOSNN(OSNN):
    """OSNN whose copies in other processes leave a file each in the folder that an environment variable names."""

    def __setstate__(self, state):
        super().__setstate__(state)
        if FOLDER in os.environ:
            Path(os.environ[FOLDER], f"{os.getpid()}-{time.time_ns()}").touch()


def name_shared(seconds, shared):
    """Return the process and the type of what is shared, after some time."""
    time.sleep(seconds)
    return os.getpid(), type(shared).__name__
