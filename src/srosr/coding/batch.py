"""The batch: what all chunks of samples share while they are coded, and what it may cost to compute it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._support.array_types import Array
from .._support.threads import Job, ThreadPool
from ..dictionary.dictionary import Dictionary, widen
from .problems import Problem, Ridge
from .products import OnDemandGram, StoredGram
from .spectrum import Spectrum

# Largest Gram matrix that is computed, in bytes; above it columns are computed on demand.
_GRAM_BYTES = 2**30
_STEPS_AN_ATOM, _PATH_STEPS_AN_ATOM = 40, 3
# The span of the atoms is computed from a Gram matrix of at most this many atoms, or from features with at most this
# many multiplications.
_CHEAP_SPECTRUM = 4096
_CHEAP_SVD = 4 * 10**10


class Batch:
    """The Gram matrix, the span of the atoms, limits and the stop flag of a batch.

    Parameters
    ----------
    dictionary : Dictionary
    problem : Problem
    tol : float
    max_iter : int or None
        The user's limit of steps, which is final; None is a generous one.
    n_samples : int
        Number of samples in the batch, which decides what is worth computing.
    pool : ThreadPool
        Computes the Gram matrix.
    """

    def __init__(
        self, dictionary: Dictionary, problem: Problem, tol: float, max_iter: int | None, n_samples: int,
        pool: ThreadPool,
    ) -> None:  # fmt: skip
        self.dictionary, self.problem, self.tol, self.max_iter = dictionary, problem, tol, max_iter
        self.n_samples, self.n_atoms, self.stop = n_samples, dictionary.n_atoms, pool.stop
        self.max_steps = int(max_iter) if max_iter is not None else _STEPS_AN_ATOM * self.n_atoms + 1000
        # Over dependent atoms a path to a small epsilon can lose its way; the fallback solver is then faster.
        self.path_steps = int(max_iter) if max_iter is not None else _PATH_STEPS_AN_ATOM * self.n_atoms + 1000
        #: Computes, over independent atoms, N times a bound on the norm of the inverse of their Gram matrix; set by the
        #: solver that factors it.
        self.bound_inverse: Callable[[], float] | None = None
        self.gram: Array | None = None
        self.products: Any = None  # Products, once the Gram matrix is there
        self._filling: list[Job] = []
        if dictionary.has_gram:
            self.gram = np.ascontiguousarray(dictionary.gram)
        elif _gram_pays(dictionary, n_samples):
            self.gram, fill, tiles = dictionary._gram_work()
            self._filling = [pool.submit(fill, tile) for tile in tiles]

    def wait_for_gram(self) -> None:
        """Wait for the Gram matrix, which may still be being computed."""
        if self.products is not None:
            return
        for job in self._filling:
            job.result()
        if self._filling:
            self.dictionary._gram = self.gram
        self.products = OnDemandGram(self.dictionary) if self.gram is None else StoredGram(self.gram)

    @property
    def spectrum(self) -> Spectrum | None:
        """The span of the atoms, computed by the first thread that needs it; None if that takes too long."""
        dictionary = self.dictionary
        with dictionary._lock:
            if dictionary._spectrum is None:
                n, m = dictionary.n_atoms, dictionary.n_features
                atoms = dictionary.linear_atoms
                if n > _CHEAP_SPECTRUM if atoms is None else n * m * min(n, m) > _CHEAP_SVD:
                    return None
                gram = dictionary.gram if atoms is None else None
                dictionary._spectrum = Spectrum(
                    dictionary.squared_norms, gram=gram, atoms=None if atoms is None else widen(atoms)
                )
            return dictionary._spectrum

    def span_gram(self, spectrum: Spectrum) -> Array | None:
        """Return the Gram matrix in the span's coordinates, computed by the first thread that needs it, if it fits."""
        if self.gram is None and not gram_fits(self.dictionary):
            return None
        with self.dictionary._lock:
            return spectrum.gram

    def keep(self, name: str, compute: Callable[[], Any]) -> Any:
        """Return what the dictionary keeps under a name, computed by the first thread that needs it."""
        return self.dictionary._keep(name, compute)


def gram_fits(dictionary: Dictionary) -> bool:
    """Return whether the Gram matrix of all atoms is small enough to be computed unasked."""
    return 8 * dictionary.n_atoms**2 <= _GRAM_BYTES


def gram_wanted(dictionary: Dictionary, problem: Problem | None = None) -> bool:
    """Return whether a classifier computes the Gram matrix of all its atoms.

    It does if the matrix is small or was given, and for problems that take it: Ridge, where the kernel is not linear.
    """
    needed = isinstance(problem, Ridge) and dictionary.linear_atoms is None
    return gram_fits(dictionary) or dictionary.is_precomputed or needed


def prepare_dictionary(dictionary: Dictionary, n_samples: int) -> None:
    """Compute what batches of so many samples share, before threads with a batch each do so all at once."""
    _ = dictionary.rows  # a subset copies its rows at the first use
    if _gram_pays(dictionary, n_samples):
        _ = dictionary.gram


def _gram_pays(dictionary: Dictionary, n_samples: int) -> bool:
    """Return whether to compute the whole Gram matrix: it must fit, and not dwarf the work on the samples."""
    n = dictionary.n_atoms
    return gram_fits(dictionary) and (n <= 4096 or n_samples * 16 >= n)
