"""Sparse representation-based classification (SRC), the closed-set method open set recognition starts from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from .._support.array_types import AnyArray, Array
from ..coding import Codes, Lasso, Problem, problem_names, sparse_encode
from ..dictionary import Dictionary, Queries, scaled_queries
from ..evidence import class_residuals

__all__ = ["SRCClassifier"]

#: The problem that ``problem=None`` stands for.
DEFAULT_PROBLEM = Lasso(0.05)
# Similarities to the atoms held at once while predicting, in bytes.
_BLOCK_BYTES = 256 * 2**20


class SRCClassifier(ClassifierMixin, BaseEstimator):
    r"""Sparse representation-based classification.

    The training samples are the dictionary. A sample is coded over all of them and goes to the class whose own part of
    the code reconstructs it best, :math:`\arg\min_k \|y - Y_kx_k\|_2`. (Where the code is zero, because the penalty is
    too large for the sample, no class explains anything; all tie and the first is named.)

    Parameters
    ----------
    problem : BPDN, Lasso, Ridge or OMP, optional
        The coding problem; None is ``Lasso(0.05)``. To search over it: ``{"problem": [Lasso(0.01), Lasso(0.05)]}``.
    kernel : str or callable, default "linear"
        As for :class:`Dictionary`. With "precomputed" fit takes the Gram matrix of the training samples and the other
        methods a :class:`Queries` with columns in the order of the training samples: residuals need the samples' own
        lengths, which a plain matrix of similarities does not tell. So cross-validation, which hands on plain
        matrices, needs a kernel that is named or a function.
    gamma, degree, coef0 :
        Parameters of the named kernels.
    normalize : bool or {"feature", "kernel"}, default True
        Scale samples to unit length, see :class:`Dictionary`.
    occlusion : bool, default False
        Code over [Y I]: an error term of its own for every feature, as the original SRC does for corrupted or partly
        covered pictures. The classes then explain what is left of the sample without the error. Linear kernel only.
    n_jobs : int, optional
        Threads over samples.

    Attributes
    ----------
    classes_ : ndarray (n_classes,)
    dictionary_ : Dictionary
    problem_ : Problem
    n_features_in_ : int

    See Also
    --------
    sparse_encode : the codes alone.

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

    def __init__(
        self,
        problem: Problem | None = None,
        *,
        kernel: str | Callable[[Array, Array], Array] = "linear",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1.0,
        normalize: bool | str = True,
        occlusion: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.problem = problem
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.normalize = normalize
        self.occlusion = occlusion
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any) -> SRCClassifier:
        """Keep the training samples as dictionary.

        Parameters
        ----------
        X : array-like (n_samples, n_features)
            Training samples; with ``kernel="precomputed"`` their Gram matrix.
        y : array-like (n_samples,)
            Their classes.
        """
        if self.problem is not None and not isinstance(self.problem, Problem):
            raise ValueError(f"problem must be a {problem_names()}, or None, got {self.problem!r}.")
        if self.occlusion and self.kernel != "linear":
            raise ValueError(
                f'occlusion=True needs kernel="linear", got {self.kernel!r}: the error is in the features.'
            )
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        try:
            check_classification_targets(y)
        except TypeError:
            raise ValueError("y mixes types of labels that cannot be compared; use one kind.") from None
        self.problem_ = DEFAULT_PROBLEM if self.problem is None else self.problem
        self.dictionary_ = Dictionary(
            X,
            y,
            kernel=self.kernel,
            normalize=self.normalize,
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
        )
        self.classes_ = self.dictionary_.classes_
        self._extended: Dictionary | None = None
        if self.occlusion:
            self._extended = Dictionary(np.vstack([self.dictionary_._values, np.eye(self.n_features_in_)]))
        return self

    def predict(self, X: Any) -> AnyArray:
        """The class with the smallest residual, for each sample."""
        smallest = self.residuals(X).argmin(axis=1)
        return np.asarray(self.classes_)[smallest]

    def decision_function(self, X: Any) -> Array:
        """Negative class residuals, (n_samples, n_classes); with two classes the first residual minus the second."""
        residuals = self.residuals(X)
        if residuals.shape[1] == 2:
            return residuals[:, 0] - residuals[:, 1]
        return -residuals

    def residuals(self, X: Any) -> Array:
        """Class-wise reconstruction errors, (n_samples, n_classes), in the order of ``classes_``."""
        return np.concatenate([self._residuals(block) for block in self._blocks(X)])

    def encode(self, X: Any) -> Codes:
        """The codes of samples over ``dictionary_`` (with occlusion: followed by one column a feature)."""
        checked = self._checked(X)
        if self._extended is not None:
            return sparse_encode(self._unit_rows(checked), self._extended, self.problem_, n_jobs=self.n_jobs)
        return sparse_encode(checked, self.dictionary_, self.problem_, n_jobs=self.n_jobs)

    # -- inside ------------------------------------------------------------------------------------------

    def _checked(self, X: Any) -> Any:
        check_is_fitted(self)
        if isinstance(X, Queries):
            if self._extended is not None:
                raise ValueError("X must hold features, not similarities, with occlusion=True: the error is in them.")
            return self.dictionary_.query(X)
        if self.dictionary_.is_precomputed:
            return self.dictionary_.query(X)  # says what is needed instead
        return validate_data(self, X, dtype=[np.float64, np.float32], reset=False)

    def _blocks(self, X: Any) -> Iterator[Any]:
        checked = self._checked(X)
        rows = max(64, _BLOCK_BYTES // (8 * self.dictionary_.n_atoms))
        for start in range(0, len(checked), rows):
            yield checked[start : start + rows]

    def _unit_rows(self, X: Array) -> Array:
        return self.dictionary_._scaled(np.asarray(X, dtype=np.float64), "X")[0]

    def _residuals(self, X: Any) -> Array:
        if self._extended is None:
            queries = self.dictionary_.query(X)
            codes = sparse_encode(queries, self.dictionary_, self.problem_, n_jobs=self.n_jobs)
            return class_residuals(queries, codes, self.dictionary_)
        rows = self._unit_rows(X)
        codes = sparse_encode(rows, self._extended, self.problem_, n_jobs=self.n_jobs).codes
        n = self.dictionary_.n_atoms
        clean = rows - codes[:, n:].toarray()
        queries = scaled_queries(clean @ self.dictionary_._values.T, np.einsum("ij,ij->i", clean, clean))
        return class_residuals(queries, sparse.csr_array(codes[:, :n]), self.dictionary_)
