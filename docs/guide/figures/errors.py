"""Matched and non-matched errors of held-out training samples."""

from digits_example import clf

from srosr import ErrorHistogramDisplay

ErrorHistogramDisplay.from_estimator(clf).plot()
