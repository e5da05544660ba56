"""Coding: from Gram quantities to certified codes.

:mod:`.problems` says what is minimized, :mod:`.solvers` minimize it, :mod:`.certificate` checks the codes,
:mod:`.coder` takes a chunk of samples through all of this, and :mod:`.encode` a batch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
