"""Streams of samples are watched: rejection rate, a test for changes, samples near the threshold, mix of classes."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
