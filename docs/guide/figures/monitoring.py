"""The figure of a monitor: 700 known digits in random order, then a stream with a third of unknown ones."""

import numpy as np
from digits_example import X, clf, test, y

from srosr import Monitor

rng = np.random.default_rng(0)
known, unknown = (rng.permutation(test[part]) for part in (y[test] >= 4, y[test] < 4))
monitor = Monitor(clf, block=50)
monitor.update(X[known[:700]])
monitor.update(X[rng.permutation(np.r_[known[700:], unknown[: len(known[700:]) // 2]])])
monitor.plot()
