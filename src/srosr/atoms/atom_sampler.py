"""The contract of everything that finds atoms: ``fit_resample`` as in imbalanced-learn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_random_state

from .._support.array_types import AnyArray, Array, IntArray
from .._support.parameter_checks import check_flag, to_number
from .._support.threads import one_blas_thread
from ..dictionary.dictionary import normalize_rows, split_range
from ..evidence.ridge import compute_squared_distances

# Samples whose distances to the atoms are computed at a time.
_ROWS = 1024
#: The most atoms of a class that are chosen or learned by their risk.
MOST_ATOMS = 4096


class AtomSampler(BaseEstimator, ABC):
    """Base class of atom samplers: training samples in, atoms out.

    A subclass implements ``_find_atoms``.

    Parameters
    ----------
    n_atoms : float, int or mapping, default 0.25
        Atoms to keep: a share in (0, 1] of every class, rounded, at least one atom (1.0 keeps all samples); an integer,
        the number for each class; or a mapping from each class to its number.
    normalize : bool, default True
        Compare samples at unit length, as :class:`srosr.SROSRClassifier` does by default. Atoms that are no samples
        then have unit length.
    random_state : int, RandomState or None
        Seed of everything that is drawn.
    """

    #: The most atoms of a class, None for any number: memory and time of some ways to find them grow with its square.
    most_atoms: int | None = None
    classes_: AnyArray
    n_features_in_: int
    n_atoms_: IntArray
    sample_indices_: IntArray | None
    nearest_indices_: IntArray

    def __init__(self, n_atoms: Any = 0.25, *, normalize: bool = True, random_state: Any = None) -> None:
        self.n_atoms = n_atoms
        self.normalize = normalize
        self.random_state = random_state

    def fit_resample(self, X: Any, y: Any) -> tuple[Array, AnyArray]:
        """Find the atoms of training samples.

        Parameters
        ----------
        X : array-like (n_samples, n_features)
        y : array-like (n_samples,)
            Classes, at least two.

        Returns
        -------
        X_res : ndarray (n_atoms, n_features)
            The atoms, class by class; those that are samples are rows of X as they were given.
        y_res : ndarray (n_atoms,)
        """
        self._check_parameters()
        X, y = _check_samples(X, y)
        classes, class_of = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y has one class, {classes.tolist()[0]!r}; at least two classes are needed.")
        sizes = np.bincount(class_of)
        counts = count_class_atoms(self.n_atoms, classes, sizes)
        self._check_counts(counts, classes)
        order = np.argsort(class_of, kind="stable")
        rows = (normalize_rows(X) if self.normalize else X)[order]
        with one_blas_thread():
            found = self._find_atoms(rows, class_of[order], counts, check_random_state(self.random_state))
            is_sample = found.ndim == 1
            nearest = order[found if is_sample else _find_nearest(found, counts, rows, sizes)]
        self.classes_, self.n_features_in_, self.n_atoms_ = classes, X.shape[1], counts
        self.sample_indices_ = nearest if is_sample else None
        self.nearest_indices_ = nearest
        return (X[nearest] if is_sample else found), np.repeat(classes, counts)

    def _check_parameters(self) -> None:
        check_flag("normalize", self.normalize)

    def _check_counts(self, counts: IntArray, classes: AnyArray) -> None:
        """Raise a ValueError for more atoms of a class than can be found together."""
        k = int(counts.argmax())
        if self.most_atoms is not None and counts[k] > self.most_atoms:
            raise ValueError(
                f"n_atoms asks for {counts[k]:,} atoms of class {classes.tolist()[k]!r}; {type(self).__name__} finds "
                f"at most {self.most_atoms:,} of a class: ask for fewer, or use RandomAtoms."
            )

    @abstractmethod
    def _find_atoms(self, rows: Array, class_of: IntArray, counts: IntArray, rng: Any) -> Any:
        """Return atoms, class by class: as numbers of rows, or as an array of one atom a row.

        ``rows`` are sorted by class, ``class_of`` has the numbers of their classes and ``counts`` the number of atoms
        of each.
        """


def _check_samples(X: Any, y: Any) -> tuple[Array, AnyArray]:
    try:
        values = check_array(X, dtype=np.float64, input_name="X")
    except TypeError as error:
        raise ValueError(f"X: {error}") from None
    labels = np.asarray(y)
    if labels.ndim != 1 or len(labels) != len(values):
        raise ValueError(
            f"y must have one label for each of the {len(values)} samples of X, got an array of shape {labels.shape}."
        )
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError("y contains NaN or infinity; every sample needs a class.")
    if labels.dtype.kind == "O" and len({str if isinstance(v, str) else type(v) for v in labels}) > 1:
        raise ValueError("y mixes types or has missing values; use one kind of label, numbers or text.")
    return values, labels


def _find_nearest(atoms: Array, counts: IntArray, rows: Array, sizes: IntArray) -> IntArray:
    """Return the number of the row of its class that is nearest to each atom."""
    out, first_atom, first_row = np.empty(len(atoms), np.int64), 0, 0
    for count, size in zip(counts.tolist(), sizes.tolist(), strict=True):
        own = rows[first_row : first_row + size]
        squares = np.einsum("ij,ij->i", own, own)
        for part in split_range(first_atom, first_atom + count, _ROWS):
            products = atoms[part] @ own.T
            # The length of the atom itself does not matter for which row is nearest.
            out[part] = first_row + (squares - 2.0 * products).argmin(axis=1)
        first_atom, first_row = first_atom + count, first_row + size
    return out


def compute_row_distances(a: Array, b: Array) -> Array:
    """Return squared distances between the rows of two arrays, (len(a), len(b))."""
    return compute_squared_distances(a @ b.T, np.einsum("ij,ij->i", a, a), np.einsum("ij,ij->i", b, b))


def count_class_atoms(n_atoms: Any, classes: AnyArray, sizes: IntArray) -> IntArray:
    """Return the number of atoms of each class, or raise a ValueError.

    A share of a class is rounded to the nearest number (halves to the even one), and is at least one atom.

    Parameters
    ----------
    n_atoms : float, int or mapping
        A share in (0, 1], a number a class, or a mapping from each class to its number.
    classes : ndarray (n_classes,)
    sizes : ndarray of int (n_classes,)
        Samples of each class.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr.atoms.atom_sampler import count_class_atoms
    >>> count_class_atoms(0.25, np.array(["a", "b"]), np.array([11, 1])).tolist()
    [3, 1]
    """
    if isinstance(n_atoms, Mapping):
        return _count_by_class(n_atoms, classes, sizes)
    if isinstance(n_atoms, Integral) and not isinstance(n_atoms, bool):
        if n_atoms < 1:
            raise ValueError(f"n_atoms must be at least 1 atom a class, got {n_atoms!r}.")
        counts = np.full(len(classes), int(n_atoms), dtype=np.int64)
        _check_sizes(counts, classes, sizes)
        return counts
    share = to_number(n_atoms)
    if not 0.0 < share <= 1.0:
        raise ValueError(
            "n_atoms must be a share of the samples, above 0 up to 1.0, or a positive integer, the number of atoms of "
            f"each class, got {n_atoms!r}."
        )
    return np.maximum(np.rint(share * sizes), 1).astype(np.int64)


def _count_by_class(n_atoms: Mapping[Any, Any], classes: AnyArray, sizes: IntArray) -> IntArray:
    labels = classes.tolist()
    if set(n_atoms) != set(labels):
        other = sorted(map(repr, set(n_atoms) ^ set(labels)))
        raise ValueError(f"n_atoms must have one number for each class of y; {other[0]} is only in one of the two.")
    for label in labels:
        number = n_atoms[label]
        if not isinstance(number, Integral) or isinstance(number, bool) or number < 1:
            raise ValueError(f"n_atoms of class {label!r} must be a positive integer, got {number!r}.")
    counts = np.array([int(n_atoms[label]) for label in labels], dtype=np.int64)
    _check_sizes(counts, classes, sizes)
    return counts


def _check_sizes(counts: IntArray, classes: AnyArray, sizes: IntArray) -> None:
    short = np.flatnonzero(counts > sizes)
    if len(short):
        k = short[0]
        raise ValueError(
            f"n_atoms asks for {counts[k]} atoms of class {classes.tolist()[k]!r}, which has {sizes[k]} "
            f"sample{'s' if sizes[k] > 1 else ''}; give at most {sizes[k]}, or a share."
        )
