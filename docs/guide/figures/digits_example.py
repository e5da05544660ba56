"""The model shared by the figures of this guide: digits 4 to 9 are known from 30 samples each, 0 to 3 are unknown."""

import numpy as np
from sklearn.datasets import load_digits

from srosr import SROSRClassifier, mark_unknown

X, y = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
train = np.concatenate([rng.permutation(np.flatnonzero(y == digit))[:30] for digit in range(4, 10)])
test = np.setdiff1d(np.arange(len(y)), train)
clf = SROSRClassifier(random_state=0).fit(X[train], y[train])
truth = mark_unknown(y[test], clf.classes_, unknown_label=-1)
is_known = truth != -1
score = clf.unknown_score(X[test])
candidate = clf.candidate(X[test])

# The first test seven that is recognized, and the first test two that is rejected.
answers = clf.predict(X[test])
seven = X[test][(truth == 7) & (answers == 7)][0]
two = X[test][(y[test] == 2) & (answers == -1)][0]
