"""What open set classifiers on sparse codes share: a dictionary of the training samples, and samples coded over it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._support.array_types import AnyArray, Array
from .._support.threads import one_blas_thread
from ..coding import Codes, Lasso, Problem, gram_wanted, problem_names, sparse_encode
from ..dictionary import Dictionary, Queries
from .base import OpenSetClassifier

__all__ = ["DEFAULT_PROBLEM", "DictionaryClassifier"]

#: The problem that ``problem=None`` stands for.
DEFAULT_PROBLEM = Lasso(0.02)
# Similarities to the atoms held at once while judging, in bytes.
_BLOCK_BYTES = 256 * 2**20


class DictionaryClassifier(OpenSetClassifier):
    """Base of the open set classifiers whose dictionary is the training samples.

    Attributes
    ----------
    dictionary_ : Dictionary
    problem_ : Problem
    """

    problem: Problem | None
    kernel: str | Callable[[Array, Array], Array]
    gamma: float | None
    degree: float
    coef0: float
    normalize: bool | str
    n_jobs: int | None

    dictionary_: Dictionary
    problem_: Problem

    def encode(self, X: Any) -> Codes:
        """The codes of samples over ``dictionary_``, with their certificates."""
        return sparse_encode(self._checked(X), self.dictionary_, self.problem_, n_jobs=self.n_jobs)

    # -- inside ------------------------------------------------------------------------------------------

    @property
    def _is_precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    @property
    def _problem(self) -> Problem:
        return DEFAULT_PROBLEM if self.problem is None else self.problem

    def _dictionary_of(self, X: Array, y: AnyArray) -> Dictionary:
        """The dictionary of training samples, every class with a direction; its Gram matrix computed if small."""
        dictionary = Dictionary(
            X,
            y,
            kernel=self.kernel,
            normalize=self.normalize,
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
        )
        squares = dictionary.squared_norms
        for label, part in zip(np.asarray(dictionary.classes_), dictionary.class_slices, strict=True):
            if not (squares[part] > 0).any():
                raise ValueError(f"X: all samples of class {label} are zero; there is nothing to recognise it by.")
        # The products every later step starts from, the same whatever the number of threads.
        if gram_wanted(dictionary):
            with one_blas_thread():
                _ = dictionary.gram
        return dictionary

    def _checked(self, X: Any) -> Any:
        check_is_fitted(self, "classes_")
        if isinstance(X, Queries) or self.dictionary_.is_precomputed:
            return self.dictionary_.query(X)
        return super()._checked(X)

    def _coded(self, X: Any) -> Iterator[tuple[Queries, Codes]]:
        """Samples that have been checked, coded a block at a time."""
        rows = max(64, _BLOCK_BYTES // (8 * self.dictionary_.n_atoms))
        for start in range(0, len(X), rows):
            # Among copies of a sample the last bit decides who is stranger: the same whatever the number of threads.
            with one_blas_thread():
                queries = self.dictionary_.query(X[start : start + rows])
            yield queries, sparse_encode(queries, self.dictionary_, self.problem_, n_jobs=self.n_jobs)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.problem is not None and not isinstance(self.problem, Problem):
            raise ValueError(f"problem must be a {problem_names()}, or None, got {self.problem!r}.")
        if self.n_jobs is not None and (not isinstance(self.n_jobs, Integral) or self.n_jobs == 0):
            raise ValueError(f"n_jobs must be a non-zero integer or None, got {self.n_jobs!r}.")
