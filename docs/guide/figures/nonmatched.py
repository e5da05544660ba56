"""The sum of non-matched errors, for known classes and for simulated unknowns."""

from digits_example import clf

from srosr import NonMatchedDisplay

NonMatchedDisplay.from_estimator(clf).plot()
