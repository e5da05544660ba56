"""The base of the open set classifiers on sparse codes: samples are coded over a dictionary of the training samples."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.utils.validation import check_is_fitted

from .._support.array_types import AnyArray, Array
from .._support.devices import check_device, find_device, is_tensor, to_numpy
from .._support.parameter_checks import check_n_jobs
from .._support.threads import ThreadPool, one_blas_thread
from ..coding.batch import gram_wanted
from ..coding.encode import Codes, sparse_encode
from ..coding.problems import Lasso, Problem, problem_names
from ..dictionary.dictionary import Dictionary, Queries
from ..evidence.coded_blocks import map_blocks, map_coded_blocks
from ..evidence.table import Evidence, build_evidence, measure_codes
from .base import OpenSetClassifier, RawPrediction

if TYPE_CHECKING:
    from ..evidence.device_evidence import DeviceGatherer

#: The problem for ``problem=None``.
DEFAULT_PROBLEM = Lasso(0.02)
# Atoms on which a user's kernel is checked where the Gram matrix of all is too large.
_CHECKED = 2048
# From so many samples on, those in single precision stay so.
_MANY = 4096
# Samples for which it is worth starting a thread that computes their similarities.
_SPREAD_ROWS = 512
# Similarities to the atoms held at once during prediction, in bytes.
_BLOCK_BYTES = 256 * 2**20


class DictionaryClassifier(OpenSetClassifier):
    """Base of the open set classifiers whose dictionary is the training samples.

    The candidate is the class with the smallest residual, unless a method has other class scores
    (``_select_class_scores``); a method says how to compute the unknown score from the evidence (``_score_evidence``).

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
    device: Any

    dictionary_: Dictionary
    problem_: Problem

    def encode(self, X: Any) -> Codes:
        """Return the codes of samples over ``dictionary_``, with their certificates."""
        return sparse_encode(
            to_numpy(self._check_queries(X)), self.dictionary_, self.problem_, n_jobs=self.n_jobs, device=self.device
        )

    @abstractmethod
    def _score_evidence(self, evidence: Evidence) -> Array:
        """Compute the unknown score from evidence."""

    # -- learning ----------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.problem is not None and not isinstance(self.problem, Problem):
            raise ValueError(f"problem must be a {problem_names()}, or None, got {self.problem!r}.")
        check_n_jobs(self.n_jobs)
        check_device(self.device)

    @property
    def _problem(self) -> Problem:
        return DEFAULT_PROBLEM if self.problem is None else self.problem

    def _store(self, X: Any) -> AnyArray:
        """Return training samples as they are stored: many in single precision stay so."""
        return np.asarray(X, dtype=np.float32 if X.dtype == np.float32 and len(X) > _MANY else np.float64)

    def _make_dictionary(self, X: AnyArray, y: AnyArray) -> Dictionary:
        """Make the dictionary of samples, without its Gram matrix."""
        try:
            return Dictionary(
                X, y, kernel=self.kernel, normalize=self.normalize, gamma=self.gamma, degree=self.degree,
                coef0=self.coef0, dtype=str(X.dtype) if X.dtype == np.float32 else "float64",
            )  # fmt: skip
        except ValueError as error:
            text = str(error)
            if not text.startswith("atoms contain"):
                raise
            raise ValueError(f"X{text.removeprefix('atoms')}") from None  # atoms are called so here

    def _build_dictionary(self, X: AnyArray, y: AnyArray) -> Dictionary:
        """Build the dictionary of atoms, with its Gram matrix if that is small and not computed on a device."""
        dictionary = self._make_dictionary(X, y)
        squares = dictionary.squared_norms
        for label, part in zip(np.asarray(dictionary.classes_), dictionary.class_slices, strict=True):
            if not (squares[part] > 0).any():
                raise ValueError(f"X: all samples of class {label} are zero; give one that is not.")
        # Every later step starts from these products: they must not depend on the number of BLAS threads.
        with one_blas_thread():
            if gram_wanted(dictionary, self._problem):
                if callable(self.kernel) or find_device(self.device) is None:
                    _ = dictionary.gram
            elif callable(self.kernel):
                # The Gram matrix of some atoms checks whether a kernel may be one.
                some = np.unique(np.arange(_CHECKED) * dictionary.n_atoms // _CHECKED)
                _ = dictionary.subset(some).gram
        return dictionary

    # -- prediction --------------------------------------------------------------------------------------

    def _check_queries(self, X: Any) -> Any:
        check_is_fitted(self, "classes_")
        if isinstance(X, Queries) or self.dictionary_.is_precomputed:
            return self.dictionary_.query(X)
        recipe = self.feature_recipe_
        if recipe is None and is_tensor(X) and X.ndim == 2 and X.shape[1] == self.n_features_in_ and len(X):
            device = find_device(self.device)
            if device is not None and not X.is_complex():
                samples = X.detach().to(device)
                if bool(samples.isfinite().all()):
                    return samples
        return super()._check_queries(X)

    def _predict_raw(self, X: Any) -> RawPrediction:
        # One BLAS thread for all of it: no answer depends on the machine, or on what else predicts in this process.
        with one_blas_thread():
            return self._conclude(self._gather_evidence(X))

    def _conclude(self, evidence: Evidence) -> RawPrediction:
        """Return the candidates and scores that evidence speaks for."""
        scores = self._select_class_scores(evidence)
        return RawPrediction(scores.argmax(axis=1), self._score_evidence(evidence), scores, evidence.empty)

    def _select_class_scores(self, evidence: Evidence) -> Array:
        """Return the class scores by which samples are labeled."""
        return -evidence.residuals

    def _gather_evidence(self, X: Any) -> Evidence:
        """Code samples that have been checked and build their evidence table, on the device if there is one."""
        device = find_device(self.device)
        if device is not None:
            with one_blas_thread():
                return self._start_gathering(device).gather(X)
        X = to_numpy(X)
        # Among copies of a sample the last bit decides which scores higher: one thread, whatever the machine.
        with one_blas_thread():
            if isinstance(X, Queries) or gram_wanted(self.dictionary_, self.problem_):
                parts = []
                for queries, codes in self._encode_blocks(X):
                    parts += map_blocks(self._build_evidence, queries, codes, self.n_jobs)
            else:
                parts = map_coded_blocks(self._build_evidence, X, self.dictionary_, self.problem_, self.n_jobs)
            return Evidence.concatenate(parts)

    def _start_gathering(self, device: Any) -> DeviceGatherer:
        """Return what gathers the evidence of the codes alone on a device."""
        from ..evidence.device_evidence import DeviceGatherer

        return DeviceGatherer(self.dictionary_, self.problem_, device, n_jobs=self.n_jobs)

    def _encode_blocks(self, X: Any) -> Iterator[tuple[Queries, Codes]]:
        """Code samples that have been checked, one block at a time."""
        dictionary = self.dictionary_
        if isinstance(X, Queries):
            X = dictionary.query(X)
        n_rows = max(64, _BLOCK_BYTES // (8 * dictionary.n_atoms))
        for start in range(0, len(X), n_rows):
            block = X[start : start + n_rows]
            if not isinstance(block, Queries):
                block = self._query_features(np.ascontiguousarray(block, dtype=np.float64))
            yield block, sparse_encode(block, dictionary, self.problem_, n_jobs=self.n_jobs)

    def _query_features(self, block: Array) -> Queries:
        """Compute the similarities of samples, many of them in threads, but for a kernel of the user's."""
        if len(block) < 2 * _SPREAD_ROWS or callable(self.kernel):
            return self.dictionary_.query_features(block)
        with ThreadPool(min(int(effective_n_jobs(self.n_jobs)), len(block) // _SPREAD_ROWS)) as pool:
            return self.dictionary_.query_features(block, spread=pool.map)

    def _build_evidence(self, queries: Queries, codes: Codes) -> Evidence:
        """Build the evidence of the codes alone."""
        return build_evidence(measure_codes(queries, codes, self.dictionary_))
