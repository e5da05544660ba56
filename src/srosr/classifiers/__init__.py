"""The estimators on sparse codes, and the contract that every open set classifier keeps."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
