"""Why the two was rejected."""

import matplotlib.pyplot as plt
from digits_example import clf, two

from srosr import ExplanationDisplay

figure, axes = plt.subplots(2, 2, figsize=(8.4, 6.4), layout="constrained")
ExplanationDisplay.from_estimator(clf, two).plot(axes.ravel(), image_shape=(8, 8))
