"""The sum of non-matched errors, of known classes and of known classes left out in turn."""

from digits_example import clf

from srosr import NonMatchedDisplay

NonMatchedDisplay.from_estimator(clf).plot()
