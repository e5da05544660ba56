"""Model files: fitted classifiers written to and read from disk without pickle."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
