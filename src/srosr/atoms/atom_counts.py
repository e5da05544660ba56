"""How many atoms each class gets: ``n_atoms`` as a share, a number or a number for each class."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np

from .._support.array_types import AnyArray, IntArray
from .._support.parameter_checks import to_number


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
    >>> from srosr.atoms.atom_counts import count_class_atoms
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
