"""Other open set methods, with the same interface as :class:`srosr.SROSRClassifier`."""
