"""Other open set methods, with the same interface as :class:`srosr.SROSRClassifier`."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
