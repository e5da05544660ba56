"""The methods users would choose instead, as open set classifiers of one contract (:mod:`srosr.classifiers.base`)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
