"""The tail of the matched errors of class 8."""

from digits_example import clf

from srosr import TailDisplay

TailDisplay.from_estimator(clf, 8).plot()
