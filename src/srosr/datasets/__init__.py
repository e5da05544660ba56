"""Data sets: public ones by name, found at hand or downloaded and checked, and the user's own.

A set is a :class:`Dataset`: samples, the class of each, names, and a fingerprint that is the same everywhere.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
