"""From codes to evidence: for each class, and for a sample being unknown."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
