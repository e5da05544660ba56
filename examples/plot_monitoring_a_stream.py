"""
Monitoring a stream
===================

A classifier in use meets samples that nobody has labeled. Does it still reject as
many as it should, and has anything changed? ``Monitor`` watches the decisions: the
rejection rate, the share of samples near the threshold, the mix of classes, and a test
that raises an alarm if the stream changes.
"""

import numpy as np
from sklearn.datasets import load_digits

from srosr import Monitor, SROSRClassifier

X, y = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
order = rng.permutation(len(X))
X, y = X[order], y[order]
train, rest = np.flatnonzero(y[:600] < 6), np.arange(600, len(X))
clf = SROSRClassifier(random_state=0).fit(X[train], y[train])

# %%
# The stream begins with known digits, as it should. The monitor decides on batches, as
# they come, and records the decisions.

known = rest[y[rest] < 6]
unknown = rest[y[rest] >= 6]
monitor = Monitor(clf, block=50)
for batch in np.array_split(known[:500], 10):
    decisions = monitor.update(X[batch])
print(monitor.summary)

# %%
# No alarm: in a stream that does not change it would be raised in at most one of a
# hundred cases, however long one watches. Then about a third of the digits are unknown.

later = rng.permutation(np.concatenate([known[500:], unknown[:100]]))
for batch in np.array_split(later, 5):
    monitor.update(X[batch])
alarm = monitor.alarm
print(f"the stream changed at sample 500; alarm at sample {alarm.sample},")
print(f"for a change near sample {alarm.change}")

# %%
# The capital is what the monitor wins by betting against "nothing has changed". If
# nothing has, it reaches 100 with a probability of at most 1 / 100.

from matplotlib import pyplot as plt

monitor.plot()
plt.show()

# %%
# The state of a monitor is a small file. ``load`` goes on as if there had been no
# interruption, to the last bit.

import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "state.json"
    monitor.save(path)
    again = Monitor.load(path, clf)
print("samples:", again.samples, "  same report:", again.summary == monitor.summary)

# %%
# After the change has been looked at, ``restart`` begins a new watch: what comes now is
# compared with itself, and not with the time before.

monitor.restart()
monitor.update(X[rng.permutation(np.concatenate([known[:300], unknown[100:250]]))])
print("alarm:", monitor.alarm)
