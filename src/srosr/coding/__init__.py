"""Coding: from Gram quantities to certified codes.

:mod:`.problems` says what is minimized, :mod:`.solvers` minimize it, :mod:`.certificate` checks the codes,
:mod:`.coder` takes a chunk of samples through all of this, and :mod:`.encode` a batch.
"""
