"""OSCR curves of three methods on the same samples."""

import matplotlib.pyplot as plt
from digits_example import X, candidate, score, test, train, truth, y

from srosr import KNNDistance, MaxLogit, OSCRDisplay

figure, ax = plt.subplots(figsize=(5.6, 4.2), layout="constrained")
OSCRDisplay.from_predictions(truth, candidate, score, unknown_label=-1, name="SROSRClassifier").plot(ax)
for rival in (KNNDistance(normalize=True, random_state=0), MaxLogit(normalize=True, random_state=0)):
    rival.fit(X[train], y[train])
    OSCRDisplay.from_estimator(rival, X[test], y[test], name=type(rival).__name__).plot(ax)
