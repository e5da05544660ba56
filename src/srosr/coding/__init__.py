"""Coding: from Gram quantities to certified codes.

:mod:`.problems` says what is minimised, :mod:`.homotopy` (and :mod:`.reverse`, :mod:`.least_squares`, :mod:`.omp`,
:mod:`.on_demand`) minimise it, :mod:`.certificate` checks the answer, :mod:`.safe` solves again what does not hold, and
:mod:`.encode` puts them together.
"""
