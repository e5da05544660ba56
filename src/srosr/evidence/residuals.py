r"""Class evidence of a code: class residuals, sparsity concentration, and the ratio of the two smallest residuals.

All of it comes from Gram quantities: with :math:`x_k` the part of a code on class k,

.. math:: r_k^2 = \|y - Y_kx_k\|^2 = \|y\|^2 - 2x_k^Tc_k + x_k^TG_{kk}x_k.

The public functions check their arguments; :func:`compute_residuals`, :func:`compute_concentration` and
:func:`divide_smallest_two` do the work and are called directly where the arguments are known to be right.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from .._support.array_types import Array
from .._support.compiled import loop
from ..coding.encode import Codes
from ..dictionary.dictionary import Dictionary, Queries, widen

# Samples whose Gram blocks are computed together where the Gram matrix is not stored.
_BLOCK_ROWS = 256

#: Lengths below this are rounding: the ratio of two such lengths means nothing.
TINY = 1e-9
#: Residuals closer to the smallest than this share of the sample's length equal it but for rounding.
TIE = 1e-10


def class_residuals(X: Any, codes: Any, dictionary: Dictionary) -> Array:
    r"""Compute the reconstruction error of each class, :math:`r_k = \|y - Y_kx_k\|_2`.

    Parameters
    ----------
    X : array-like (n_samples, n_features) or Queries
        The samples that were coded.
    codes : Codes, sparse array or ndarray (n_samples, n_atoms)
    dictionary : Dictionary
        The dictionary the samples were coded over, with labels.

    Returns
    -------
    residuals : ndarray (n_samples, n_classes)
        In the order of ``dictionary.classes_``. Within 1e-7 of the direct formula for samples and atoms of unit length
        and codes of :math:`\|x\|_1 \le 1`, growing in proportion to them. Those that equal the smallest but for
        rounding are set to it.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr import Dictionary, Lasso, class_residuals, sparse_encode
    >>> d = Dictionary(np.eye(3), ["a", "a", "b"])
    >>> codes = sparse_encode([[0.6, 0.0, 0.8]], d, Lasso(0.1))
    >>> np.round(class_residuals([[0.6, 0.0, 0.8]], codes, d), 3)
    array([[0.806, 0.608]])
    """
    x = _check_codes(codes, dictionary)
    queries = dictionary.query(X)
    if len(queries) != x.shape[0]:
        raise ValueError(f"X has {len(queries)} samples, codes has {x.shape[0]}.")
    _check_labels(dictionary)
    return compute_residuals(queries, x, dictionary)


def sparsity_concentration(codes: Any, dictionary: Dictionary) -> Array:
    r"""Compute the sparsity concentration index of Wright et al. (2009).

    .. math:: \mathrm{SCI}(x) = \frac{K \max_k \|x_k\|_1 / \|x\|_1 - 1}{K - 1} \in [0, 1]

    It is one where a single class carries the whole code and zero where all classes carry the same. The index of a zero
    code is 0. With one class the index of any other code is 1.

    Parameters
    ----------
    codes : Codes, sparse array or ndarray (n_samples, n_atoms)
    dictionary : Dictionary
        With labels.

    Returns
    -------
    sci : ndarray (n_samples,)

    References
    ----------
    J. Wright, A. Y. Yang, A. Ganesh, S. S. Sastry, Y. Ma, "Robust face recognition via sparse representation", IEEE
    TPAMI 31, 2009.
    """
    x = _check_codes(codes, dictionary)
    _check_labels(dictionary)
    return compute_concentration(x, dictionary)


def residual_ratio(residuals: Any) -> Array:
    """Divide the smallest class residual by the second smallest; small is confident.

    Where both are zero, or rounding, the two classes are equally good and the ratio is 1.

    Parameters
    ----------
    residuals : array-like (n_samples, n_classes)
        From :func:`class_residuals`, at least two classes.

    Returns
    -------
    ratio : ndarray (n_samples,)
        In [0, 1].

    References
    ----------
    V. M. Patel, T. Wu, S. Biswas, P. J. Phillips, R. Chellappa, "Dictionary-based face recognition under variable
    lighting and pose", IEEE TIFS 7, 2012.
    """
    try:
        r = np.asarray(residuals, dtype=np.float64)
    except TypeError:
        raise ValueError(f"residuals must be an array of numbers, got {type(residuals).__name__}.") from None
    if r.ndim != 2 or r.shape[1] < 2:
        raise ValueError(f"residuals must have one row a sample and at least two classes, got shape {r.shape}.")
    if not np.isfinite(r).all() or (r < 0).any():
        raise ValueError("residuals must be finite and not negative: they are lengths.")
    return divide_smallest_two(r)


def compute_residuals(queries: Queries, x: sparse.csr_array, dictionary: Dictionary) -> Array:
    """Compute the class residuals of codes in CSR form, over a dictionary with labels.

    Those that equal the smallest but for rounding are set to it: where copies of an atom are in two classes, no label
    hangs on the last digit.
    """
    class_of, n_classes = dictionary.class_of, len(dictionary.class_slices)
    rows = np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))
    linear = np.zeros((x.shape[0], n_classes))
    np.add.at(linear, (rows, class_of[x.indices]), x.data * queries.cross[rows, x.indices])
    squares = queries.squared_norms[:, None] - 2.0 * linear + _compute_quadratic(x, dictionary)
    residuals = np.sqrt(np.maximum(squares, 0.0))
    least = residuals.min(axis=1, keepdims=True)
    return np.where(residuals <= least + TIE * np.sqrt(queries.squared_norms[:, None]), least, residuals)


def compute_concentration(x: sparse.csr_array, dictionary: Dictionary) -> Array:
    """Compute the sparsity concentration index of codes in CSR form, over a dictionary with labels."""
    n, n_classes = x.shape[0], len(dictionary.class_slices)
    rows = np.repeat(np.arange(n), np.diff(x.indptr))
    cells = rows * n_classes + dictionary.class_of[x.indices]
    mass = np.bincount(cells, np.abs(x.data), n * n_classes).reshape(n, n_classes)
    total = mass.sum(axis=1)
    share = np.divide(mass.max(axis=1), total, out=np.zeros(n), where=total > 0)
    if n_classes == 1:
        return (total > 0).astype(np.float64)
    return np.clip((n_classes * share - 1.0) / (n_classes - 1.0), 0.0, 1.0)


def divide_smallest_two(lengths: Array) -> Array:
    """Divide the smallest length of each row by the second smallest; 1 where both are rounding."""
    best = np.partition(lengths, 1, axis=1)
    return np.divide(best[:, 0], best[:, 1], out=np.ones(len(lengths)), where=best[:, 1] > TINY)


def _check_codes(codes: Any, dictionary: Dictionary) -> sparse.csr_array:
    if not isinstance(dictionary, Dictionary):
        raise ValueError(f"dictionary must be a srosr.Dictionary, got {type(dictionary).__name__}.")
    values = codes.codes if isinstance(codes, Codes) else codes
    try:
        values = values if sparse.issparse(values) else np.asarray(values, dtype=np.float64)
    except TypeError:
        raise ValueError(f"codes must be Codes or an array of numbers, got {type(codes).__name__}.") from None
    if values.ndim != 2 or values.shape[1] != dictionary.n_atoms:
        raise ValueError(f"codes must have {dictionary.n_atoms} columns, one an atom, got shape {values.shape}.")
    out = sparse.csr_array(values)
    if not np.isfinite(out.data).all():
        raise ValueError("codes contains NaN or infinity.")
    return out


def _check_labels(dictionary: Dictionary) -> None:
    if dictionary.labels is None:
        raise ValueError("dictionary has no labels; class evidence needs Dictionary(atoms, labels).")


def _compute_quadratic(x: sparse.csr_array, dictionary: Dictionary) -> Array:
    """Compute x_k' G_kk x_k for every sample and class."""
    class_of, n_classes = dictionary.class_of, len(dictionary.class_slices)
    out = np.zeros((x.shape[0], n_classes))
    if dictionary.has_gram:
        _add_quadratic(x.indptr, x.indices, x.data, dictionary.gram, class_of, out)
        return out
    atoms = dictionary.linear_atoms
    if atoms is not None:
        for start in range(0, x.shape[0], _BLOCK_ROWS):
            part = x[start : start + _BLOCK_ROWS]
            # The reconstruction of each class with a part in a code, in the order of samples and classes.
            cells = np.repeat(np.arange(part.shape[0]), np.diff(part.indptr)) * n_classes + class_of[part.indices]
            order = np.argsort(cells, kind="stable")
            found, first = np.unique(cells[order], return_index=True)
            used, columns = np.unique(part.indices[order], return_inverse=True)
            if len(found):
                shape = (len(found), len(used))
                by_class = sparse.csr_array((part.data[order], columns, np.append(first, len(order))), shape)
                images = by_class @ widen(atoms[used])
                out[start : start + _BLOCK_ROWS].flat[found] = np.einsum("ij,ij->i", images, images)
        return out
    for i in range(x.shape[0]):
        part = slice(x.indptr[i], x.indptr[i + 1])
        support, values = x.indices[part], x.data[part]
        if len(support) == 0:
            continue  # scikit-learn's kernels take no empty arrays
        block = dictionary.block(support, support)
        block = np.where(class_of[support][:, None] == class_of[support], block, 0.0)
        np.add.at(out[i], class_of[support], values * (block @ values))
    return out


@loop()
def _add_quadratic(indptr, indices, data, gram, class_of, out):
    for s in range(out.shape[0]):
        for a in range(indptr[s], indptr[s + 1]):
            i = indices[a]
            k = class_of[i]
            total = 0.0
            for b in range(indptr[s], indptr[s + 1]):
                j = indices[b]
                if class_of[j] == k:
                    total += data[b] * gram[i, j]
            out[s, k] += data[a] * total
