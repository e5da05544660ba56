"""Coding: from Gram quantities to certified codes.

:mod:`.problems` says what is minimised, :mod:`.homotopy` (and :mod:`.reverse`, :mod:`.least_squares`, :mod:`.omp`,
:mod:`.on_demand`) minimise it, :mod:`.certificate` checks the answer, :mod:`.safe` solves again what does not hold, and
:mod:`.encode` puts them together.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
