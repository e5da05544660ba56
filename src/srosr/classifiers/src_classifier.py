"""Sparse representation-based classification (SRC), the closed-set method on which open set recognition builds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from .._support.array_types import AnyArray, Array
from .._support.devices import check_device, find_device, to_numpy
from .._support.parameter_checks import check_n_jobs
from ..coding.encode import Codes, sparse_encode
from ..coding.problems import Lasso, Problem, problem_names
from ..dictionary.dictionary import Dictionary, Queries, wrap_queries
from ..evidence.residuals import class_residuals

#: The problem for ``problem=None``.
DEFAULT_PROBLEM = Lasso(0.05)
# Similarities to the atoms held at once during prediction, in bytes.
_BLOCK_BYTES = 256 * 2**20


@dataclass(eq=False, repr=False, kw_only=True)
class SRCClassifier(ClassifierMixin, BaseEstimator):
    r"""Sparse representation-based classification.

    The training samples are the dictionary. A sample is coded over all of them and goes to the class whose own part of
    the code reconstructs it best, :math:`\arg\min_k \|y - Y_kx_k\|_2`. (Where the code is zero, because the penalty is
    too large for the sample, all classes tie and the first is returned.)

    Parameters
    ----------
    problem : BPDN, Lasso, Ridge or OMP, optional
        The coding problem; None is ``Lasso(0.05)``. To search over it: ``{"problem": [Lasso(0.01), Lasso(0.05)]}``.
    kernel : str or callable, default "linear"
        As for :class:`Dictionary`. With "precomputed" ``fit`` takes the Gram matrix of the training samples and the
        other methods take a :class:`Queries` with columns in the order of the training samples: residuals need the
        lengths of the samples, which a plain matrix of similarities does not contain. Cross-validation, which passes
        plain matrices, thus needs a named kernel or a function.
    gamma, degree, coef0 :
        Parameters of the named kernels.
    normalize : bool or {"feature", "kernel"}, default True
        Scale samples to unit length, see :class:`Dictionary`.
    occlusion : bool, default False
        Code over [Y I], with an error term for every feature, as the original SRC does for corrupted or partly covered
        images. The classes then explain the sample less that error. Linear kernel only.
    n_jobs : int, optional
        Number of threads.
    device : {"cpu", "cuda", "auto"} or torch.device, default "cpu"
        Where ``predict``, ``decision_function`` and ``residuals`` code samples: "cuda" is an NVIDIA GPU and needs
        PyTorch, "auto" the GPU if there is one. With ``occlusion`` it is the CPU.

    Attributes
    ----------
    classes_ : ndarray (n_classes,)
    dictionary_ : Dictionary
    problem_ : Problem
    n_features_in_ : int

    See Also
    --------
    sparse_encode : computes the codes alone.

    References
    ----------
    J. Wright, A. Y. Yang, A. Ganesh, S. S. Sastry, Y. Ma, "Robust face recognition via sparse representation", IEEE
    TPAMI 31, 2009.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from srosr import SRCClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = SRCClassifier().fit(X[:1000], y[:1000])
    >>> bool(clf.score(X[1000:1200], y[1000:1200]) > 0.95)
    True
    """

    problem: Problem | None = field(default=None, kw_only=False)
    kernel: str | Callable[[Array, Array], Array] = "linear"
    gamma: float | None = None
    degree: float = 3
    coef0: float = 1.0
    normalize: bool | str = True
    occlusion: bool = False
    n_jobs: int | None = None
    device: Any = "cpu"

    def fit(self, X: Any, y: Any) -> SRCClassifier:
        """Build the dictionary from the training samples.

        Parameters
        ----------
        X : array-like (n_samples, n_features)
            Training samples; with ``kernel="precomputed"`` their Gram matrix.
        y : array-like (n_samples,)
            Their classes.
        """
        if self.problem is not None and not isinstance(self.problem, Problem):
            raise ValueError(f"problem must be a {problem_names()}, or None, got {self.problem!r}.")
        check_n_jobs(self.n_jobs)
        check_device(self.device)
        if self.occlusion and self.kernel != "linear":
            raise ValueError(
                f'occlusion=True needs kernel="linear", got {self.kernel!r}: the error is in the features.'
            )
        X, y = validate_data(self, to_numpy(X), to_numpy(y), dtype=[np.float64, np.float32])
        try:
            check_classification_targets(y)
        except TypeError:
            raise ValueError("y mixes types of labels that cannot be compared; use one kind.") from None
        self.problem_ = DEFAULT_PROBLEM if self.problem is None else self.problem
        self.dictionary_ = Dictionary(
            X, y, kernel=self.kernel, normalize=self.normalize, gamma=self.gamma, degree=self.degree, coef0=self.coef0
        )
        self.classes_ = self.dictionary_.classes_
        self._extended: Dictionary | None = None
        if self.occlusion:
            self._extended = Dictionary(np.vstack([self.dictionary_._values, np.eye(self.n_features_in_)]))
        return self

    def predict(self, X: Any) -> AnyArray:
        """Return the class with the smallest residual for each sample."""
        smallest = self.residuals(X).argmin(axis=1)
        return np.asarray(self.classes_)[smallest]

    def decision_function(self, X: Any) -> Array:
        """Return minus the class residuals, (n_samples, n_classes); for two classes the first minus the second."""
        residuals = self.residuals(X)
        if residuals.shape[1] == 2:
            return residuals[:, 0] - residuals[:, 1]
        return -residuals

    def residuals(self, X: Any) -> Array:
        """Return the reconstruction error of each class, (n_samples, n_classes), in the order of ``classes_``."""
        X, device = self._check_queries(X), find_device(self.device)
        if device is not None and self._extended is None:
            from ..evidence.device_evidence import DeviceGatherer

            return DeviceGatherer(self.dictionary_, self.problem_, device, n_jobs=self.n_jobs).measure_residuals(X)
        rows = max(64, _BLOCK_BYTES // (8 * self.dictionary_.n_atoms))
        return np.concatenate([self._compute_residuals(X[i : i + rows]) for i in range(0, len(X), rows)])

    def encode(self, X: Any) -> Codes:
        """Return the codes of samples over ``dictionary_`` (with occlusion: followed by a column for each feature)."""
        X = self._check_queries(X)
        if self._extended is not None:
            return sparse_encode(self._normalize_rows(X), self._extended, self.problem_, n_jobs=self.n_jobs)
        return sparse_encode(X, self.dictionary_, self.problem_, n_jobs=self.n_jobs, device=self.device)

    # -- inside ------------------------------------------------------------------------------------------

    def _check_queries(self, X: Any) -> Any:
        check_is_fitted(self)
        if isinstance(X, Queries) and self._extended is not None:
            raise ValueError(
                "X must hold features, not similarities, with occlusion=True: the error is in the features."
            )
        if isinstance(X, Queries) or self.dictionary_.is_precomputed:
            return self.dictionary_.query(X)
        return validate_data(self, to_numpy(X), dtype=[np.float64, np.float32], reset=False)

    def _normalize_rows(self, X: Array) -> Array:
        return self.dictionary_._scale_rows(np.asarray(X, dtype=np.float64), "X")[0]

    def _compute_residuals(self, X: Any) -> Array:
        if self._extended is None:
            queries = self.dictionary_.query(X)
            codes = sparse_encode(queries, self.dictionary_, self.problem_, n_jobs=self.n_jobs)
            return class_residuals(queries, codes, self.dictionary_)
        rows = self._normalize_rows(X)
        codes = sparse_encode(rows, self._extended, self.problem_, n_jobs=self.n_jobs).codes
        n = self.dictionary_.n_atoms
        clean = rows - codes[:, n:].toarray()
        queries = wrap_queries(clean @ self.dictionary_._values.T, np.einsum("ij,ij->i", clean, clean))
        return class_residuals(queries, sparse.csr_array(codes[:, :n]), self.dictionary_)
