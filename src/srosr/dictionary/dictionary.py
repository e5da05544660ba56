r"""The dictionary: labeled atoms, a kernel, and the Gram matrix from which everything else is computed.

*Gram in, codes out.* A coder never sees features, only inner products: :math:`G = Y^TY` of the atoms,
:math:`C = Y^TQ` with the queries, and the squared lengths of the queries. So a kernel dictionary is coded by the
same code as a linear one, part of a dictionary is an index set into one Gram matrix, and adding or removing a class
appends or drops rows of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from threading import RLock
from typing import Any

import numpy as np
from scipy import linalg

from .._support.array_types import AnyArray, Array, IntArray
from .._support.parameter_checks import is_plain_matrix
from .kernels import Kernel, NamedKernel, compare_to_self, evaluate, resolve_kernel

# How negative an eigenvalue of a Gram matrix may be, relative to its trace, before it counts as indefinite.
_INDEFINITE = 1e-9
# How unsymmetric a Gram matrix may be, relative to its largest entry.
_ASYMMETRIC = 1e-6
# Products are computed in tiles of samples and atoms, so that threads can share them. Large tiles cost less; for few
# atoms smaller ones leave enough tiles to share.
_ROWS = 256
_TILE, _SMALL_TILE = 512, 256
# Rows whose lengths are computed at a time.
_NORM_ROWS = 8192

#: A map that may use threads: ``spread(work, parts)``.
Spread = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]


@dataclass(frozen=True)
class Queries:
    """The similarities of samples to the atoms and to themselves: all that a coder sees of them.

    :meth:`Dictionary.query` computes them from features. With ``kernel="precomputed"`` construct a ``Queries`` yourself
    and pass it wherever samples are expected.

    Parameters
    ----------
    cross : array-like (n_samples, n_atoms)
        Similarity of each sample to each atom, in the order of the rows the atoms came from (for a subset: of the rows
        that are left). The dictionary reorders them.
    squared_norms : array-like (n_samples,)
        Similarity of each sample to itself.

    Attributes
    ----------
    scaled : bool
        Whether a dictionary has applied its order of the atoms and its unit-length scaling.
    """

    cross: Array
    squared_norms: Array
    scaled: bool = field(default=False, init=False)
    #: The samples as the kernel sees them, where :meth:`Dictionary.query` computed the similarities.
    rows: Array | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        cross = _check_array(self.cross, "cross")
        norms = _check_array(self.squared_norms, "squared_norms", ensure_2d=False)
        if norms.shape != (len(cross),):
            raise ValueError(
                f"squared_norms must have one value a row of cross ({len(cross)}), got shape {norms.shape}."
            )
        if (norms < 0).any():
            raise ValueError("squared_norms must not be negative: they are squared lengths.")
        object.__setattr__(self, "cross", np.ascontiguousarray(cross))
        object.__setattr__(self, "squared_norms", norms)

    def __len__(self) -> int:
        return len(self.cross)

    def __getitem__(self, rows: Any) -> Queries:
        own = None if self.rows is None else self.rows[rows]
        return wrap_queries(self.cross[rows], self.squared_norms[rows], scaled=self.scaled, rows=own)


def normalize_rows(values: Array) -> Array:
    """Scale rows to unit length; rows of length zero stay as they are."""
    # Divide by the largest entry first: squares of very large or small features would not be finite.
    largest = np.abs(values).max(axis=1, keepdims=True)
    values = values / np.where(largest > 0, largest, 1.0)
    values *= _unit_factors(np.einsum("ij,ij->i", values, values))[:, None]
    return values


def widen(rows: AnyArray) -> Array:
    """Return rows in double precision, as they are if they are."""
    return np.asarray(rows, dtype=np.float64)


def wrap_queries(cross: Array, squared_norms: Array, *, scaled: bool = True, rows: Array | None = None) -> Queries:
    """Wrap similarities that are already in the atoms' order and scaling, without checking them."""
    queries = object.__new__(Queries)
    vars(queries).update(cross=cross, squared_norms=squared_norms, scaled=scaled, rows=rows)
    return queries


def split_range(start: int, stop: int, size: int) -> list[slice]:
    """Split a range into consecutive slices of ``size``, the last one shorter."""
    return [slice(a, min(a + size, stop)) for a in range(start, stop, size)]


def _map_in_turn(work: Callable[[Any], Any], parts: Sequence[Any]) -> list[Any]:
    return [work(part) for part in parts]


def _check_array(X: Any, name: str, *, single: bool = False, **options: Any) -> Array:
    """Return numbers as a two-dimensional float64 array, or raise a ValueError that names the argument.

    Numbers in single precision stay so if ``single``.
    """
    if is_plain_matrix(X):
        return np.ascontiguousarray(X) if options.get("order") == "C" else X
    from sklearn.utils import check_array

    try:
        if getattr(X, "dtype", None) == np.dtype(object):
            raise ValueError(f"an array of objects; convert it to numbers first, e.g. {name}.astype(float).")
        return check_array(X, dtype=[np.float64, np.float32] if single else np.float64, input_name=name, **options)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from None


def _unit_factors(squared: Array) -> Array:
    """Return the factors that scale to unit length, 1 for length zero."""
    return 1.0 / np.sqrt(np.where(squared > 0, squared, 1.0))


class Dictionary:
    """Labeled atoms in the space of a kernel, with their Gram matrix computed once.

    Atoms are kept sorted by label (stably), so that each class is one slice; ``order`` says which input row
    each atom came from, and codes have their columns in the order of the atoms.

    Parameters
    ----------
    atoms : array-like (n_atoms, n_features)
        One atom a row; with ``kernel="precomputed"`` the (n_atoms, n_atoms) Gram matrix.
    labels : array-like (n_atoms,), optional
        Class of each atom. Coding does not need labels; class evidence does.
    kernel : str or callable, default "linear"
        "linear", "rbf", "poly", "chi2" (exponential), "histogram_intersection", "precomputed", or a function of two
        arrays of rows that returns their similarities, positive semidefinite (with several threads it is called from
        all of them at a time).
    normalize : bool or {"feature", "kernel"}, default False
        Scale atoms and queries to unit length: ``True`` or ``"kernel"`` in the space of the kernel, ``"feature"``
        before the kernel is applied. (For the linear kernel the two are the same.) Rows of length zero stay zero.
    gamma : float, optional
        Parameter of "rbf", "poly" and "chi2"; None is 1 / n_features, for "chi2" 1.
    degree, coef0 :
        Parameters of "poly".
    dtype : {"float64", "float32"}, default "float64"
        How features of atoms are stored. In single precision they take half the memory; inner products of the stored
        numbers are computed in double precision all the same.

    Attributes
    ----------
    n_atoms, n_features : int
    labels : ndarray (n_atoms,) or None
    classes_ : ndarray (n_classes,) or None
    class_slices : list of slice
    class_of : ndarray of int (n_atoms,)
        Number of the class of each atom.
    order : ndarray (n_atoms,)

    Examples
    --------
    >>> import numpy as np
    >>> from srosr import Dictionary
    >>> d = Dictionary([[3.0, 4.0], [0.0, 2.0], [1.0, 0.0]], ["b", "a", "b"], normalize=True)
    >>> d.labels, d.class_slices
    (array(['a', 'b', 'b'], dtype='<U1'), [slice(0, 1, None), slice(1, 3, None)])
    >>> np.round(d.gram, 2)
    array([[1. , 0.8, 0. ],
           [0.8, 1. , 0.6],
           [0. , 0.6, 1. ]])
    """

    _rows: tuple[AnyArray, IntArray | None]  # rows as the kernel sees them, and which of them for a subset
    _scale: Array  # factors that give unit length in the kernel's space
    _gram: Array | None

    def __init__(
        self,
        atoms: Any,
        labels: Any = None,
        *,
        kernel: str | Callable[[Array, Array], Array] = "linear",
        normalize: bool | str = False,
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1.0,
        dtype: str = "float64",
    ) -> None:
        if dtype not in ("float64", "float32"):
            raise ValueError(f'dtype must be "float64" or "float32", got {dtype!r}.')
        if not (isinstance(normalize, (bool, np.bool_)) or normalize in ("feature", "kernel")):
            raise ValueError(f'normalize must be True, False, "feature" or "kernel", got {normalize!r}.')
        # Single precision is checked as it is: a copy in double precision would take twice the memory again.
        values: Any = _check_array(atoms, "atoms", order="C", single=dtype == "float32")
        self.kernel = kernel
        self.normalize = normalize
        self.gamma, self.degree, self.coef0 = gamma, degree, coef0
        self.n_features: int = values.shape[1]
        self._kernel: Kernel = resolve_kernel(kernel, self.n_features, gamma, degree, coef0)
        known = None if labels is None else _check_labels(labels, len(values))
        order = np.arange(len(values)) if known is None else np.argsort(known, kind="stable")
        gram = None
        if self.is_precomputed:
            if values.shape[0] != values.shape[1]:
                raise ValueError(
                    f'atoms must be a square Gram matrix with kernel="precomputed", got shape {values.shape}.'
                )
            if normalize == "feature":
                raise ValueError('normalize="feature" needs features; with kernel="precomputed" use "kernel".')
            gram = _check_gram(values, "atoms")[np.ix_(order, order)]
            scale = _unit_factors(np.diagonal(gram)) if normalize else np.ones(len(gram))
            gram = gram * scale * scale[:, None]
            values = np.empty((len(gram), 0))
        else:
            values, scale = self._scale_atoms(values.copy() if known is None else values[order], dtype)
        self._set(values, scale, None if known is None else known[order], order, gram)

    # -- properties -----------------------------------------------------------------------------------

    @property
    def is_precomputed(self) -> bool:
        """Whether the user supplies similarities instead of features."""
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""
        return len(self._scale)

    @property
    def has_gram(self) -> bool:
        """Whether the Gram matrix has been computed already."""
        return self._gram is not None

    @property
    def gram(self) -> Array:
        """Inner products of the atoms, (n_atoms, n_atoms), computed at the first use and kept."""
        if self._gram is None:
            gram, fill, tiles = self._gram_work()
            _map_in_turn(fill, tiles)
            self._gram = gram
        return self._gram

    @property
    def linear_atoms(self) -> Array | None:
        """The atoms as scaled feature rows where the kernel is linear, else None; perhaps in single precision."""
        return self._values if self._is_linear_kernel else None

    @property
    def rows(self) -> Array | None:
        """The atoms as the kernel sees them, one a row, perhaps in single precision; None if it is precomputed."""
        return None if self.is_precomputed else self._values

    @property
    def squared_norms(self) -> Array:
        """Squared lengths of the atoms: the diagonal of the Gram matrix, or computed at the first use and kept."""
        if self._gram is not None:
            return np.diagonal(self._gram).copy()
        return self._keep("squared_norms", self._compute_squared_norms).copy()

    def _compute_squared_norms(self) -> Array:
        blocks = split_range(0, self.n_atoms, _NORM_ROWS if isinstance(self._kernel, NamedKernel) else self.n_atoms)
        squares = [compare_to_self(self._kernel, widen(self._values[block])) for block in blocks]
        return np.concatenate(squares) * self._scale**2

    def columns(self, atoms: Any) -> Array:
        """Return columns of the Gram matrix, (n_atoms, len(atoms)), without computing the rest of it."""
        return self.block(slice(None), atoms)

    def block(self, rows: Any, columns: Any) -> Array:
        """Return ``gram[rows][:, columns]``, without computing the rest of the Gram matrix."""
        if self._gram is not None:
            return self._gram[rows][:, columns]
        left = widen(self._values[rows])
        # The product of an array with itself costs half of one with a copy.
        same = rows is columns or (isinstance(rows, slice) and isinstance(columns, slice) and rows == columns)
        out = evaluate(self._kernel, left, left if same else widen(self._values[columns]))
        factors = self._scale[rows], self._scale[columns]
        is_scaled = all((factor == 1.0).all() for factor in factors)
        return out if is_scaled else out * factors[0][:, None] * factors[1]

    def query(self, X: Any, *, name: str = "X") -> Queries:
        """Compute the similarities of samples to the atoms, scaled like the atoms.

        Parameters
        ----------
        X : array-like (n_samples, n_features) or Queries
            With ``kernel="precomputed"`` a :class:`Queries`.
        """
        if isinstance(X, Queries):
            if X.cross.shape[1] != self.n_atoms:
                raise ValueError(
                    f"{name} has similarities to {X.cross.shape[1]} atoms, the dictionary has {self.n_atoms}."
                )
            if X.scaled:
                return X
            if self.normalize and not self.is_precomputed:
                raise ValueError(
                    f"{name} holds similarities that are not scaled like this dictionary's atoms "
                    f"(normalize={self.normalize!r}); pass the samples themselves."
                )
            # From the order of the rows to that of the atoms.
            X = Queries(X.cross[:, np.argsort(np.argsort(self.order))], X.squared_norms)
            # Lengths before unit-length scaling, as the similarities are.
            lengths = np.sqrt(self.squared_norms) / self._scale
            most = np.sqrt(X.squared_norms)[:, None] * lengths
            if (np.abs(X.cross) > most * (1.0 + _ASYMMETRIC) + np.finfo(np.float64).tiny).any():
                raise ValueError(
                    f"{name} is impossible: a similarity to an atom is larger than the lengths of the two allow, "
                    "k(a, b)^2 <= k(a, a) k(b, b); check the self-similarities."
                )
            factor = _unit_factors(X.squared_norms) if self.normalize else np.ones(len(X))
            return wrap_queries(X.cross * (factor[:, None] * self._scale), X.squared_norms * factor**2)
        if self.is_precomputed:
            raise ValueError(
                f'{name} must be a srosr.Queries (similarities to atoms and to themselves) with kernel="precomputed".'
            )
        return self.query_features(self.check_features(X, name), name)

    def check_features(self, X: Any, name: str = "X") -> Array:
        """Return samples as a float64 array with the atoms' number of features, or raise a ValueError."""
        values = _check_array(X, name, order="C")
        if values.shape[1] != self.n_features:
            raise ValueError(f"{name} has {values.shape[1]} features, the dictionary's atoms have {self.n_features}.")
        return values

    # -- other dictionaries from this one -----------------------------------------------------------------------------

    def subset(self, indices: Any) -> Dictionary:
        """Return the dictionary of some of the atoms, with their part of the Gram matrix if that has been computed.

        Parameters
        ----------
        indices : array-like of int or bool
            Atoms to keep, in this dictionary's order.
        """
        index = np.asarray(indices)
        if index.dtype == bool and index.shape != (self.n_atoms,):
            raise ValueError(f"indices has {index.size} flags for {self.n_atoms} atoms.")
        index = np.flatnonzero(index) if index.dtype == bool else index
        if index.ndim != 1 or not np.issubdtype(index.dtype, np.integer) or len(index) == 0:
            raise ValueError("indices must be a non-empty one-dimensional array of atom numbers or flags.")
        if index.min() < -self.n_atoms or index.max() >= self.n_atoms:
            raise ValueError(f"indices must lie between 0 and {self.n_atoms - 1}.")
        if self.labels is not None:
            index = index[np.argsort(self.labels[index], kind="stable")]
        gram = None if self._gram is None else _pick_block(self._gram, index)
        rows, picked = self._rows  # at once: another thread may be copying the rows of this subset
        return self._derive(
            rows,
            self._scale[index],
            None if self.labels is None else self.labels[index],
            self.order[index],
            gram,
            index if picked is None else picked[index],
        )

    def without_gram(self) -> Dictionary:
        """Return the same dictionary without its Gram matrix, which is then computed at the first use.

        It has the same bits on as many BLAS threads, unless it was that of a subset or atoms were appended.
        """
        if self.is_precomputed:
            raise ValueError('without_gram needs features; with kernel="precomputed" the Gram matrix is all there is.')
        return self._derive(self._values, self._scale, self.labels, self.order, None)

    def append(self, X: Any, y: Any = None) -> Dictionary:
        """Return the dictionary with more atoms; only their own similarities are computed.

        Parameters
        ----------
        X : array-like (n_new, n_features)
            They are numbered after the present atoms in ``order``.
        y : array-like (n_new,)
            Their labels, where the dictionary has labels.
        """
        if self.is_precomputed:
            raise ValueError('append needs features; with kernel="precomputed" build a new Dictionary.')
        values = self.check_features(X)
        if (y is None) != (self.labels is None):
            raise ValueError(
                "y is missing: the dictionary's atoms have labels."
                if y is None
                else "y must be left out: the dictionary's atoms have no labels."
            )
        new_labels = None if y is None else _check_labels(y, len(values), name="y")
        kinds = {labels.dtype.kind in "OUS" for labels in (new_labels, self.labels) if labels is not None}
        if len(kinds) > 1:
            raise ValueError("y mixes text and numbers with the dictionary's labels; use one kind.")
        new, new_scale = self._scale_rows(values, "X")
        gram = None
        if self._gram is not None:
            factor = self._scale[:, None] * new_scale
            cross = evaluate(self._kernel, widen(self._values), new) * factor
            own = evaluate(self._kernel, new, new) * new_scale * new_scale[:, None]
            gram = np.block([[self._gram, cross], [cross.T, 0.5 * (own + own.T)]])
            if not isinstance(self._kernel, NamedKernel):
                gram = _check_gram(gram, "kernel")
        labels = None if self.labels is None else np.concatenate([self.labels, new_labels])
        order = np.concatenate([self.order, self.order.max() + 1 + np.arange(len(new))])
        sort = np.arange(len(order)) if labels is None else np.argsort(labels, kind="stable")
        return self._derive(
            np.concatenate([self._values, new.astype(self._values.dtype, copy=False)])[sort],
            np.concatenate([self._scale, new_scale])[sort],
            None if labels is None else labels[sort],
            order[sort],
            None if gram is None else gram[np.ix_(sort, sort)],
        )

    def drop(self, label: Any) -> Dictionary:
        """Return the dictionary without one class."""
        if self.labels is None or self.classes_ is None:
            raise ValueError("drop needs labels; this dictionary has none.")
        if np.ndim(label) != 0:
            raise ValueError(f"label must be one class, got {label!r}; drop several one after the other.")
        keep = self.labels != label
        if keep.all():
            raise ValueError(f"label {label!r} is not one of the dictionary's classes {self.classes_.tolist()}.")
        if not keep.any():
            raise ValueError(f"label {label!r} is the only class: dropping it would leave no atom.")
        return self.subset(keep)

    def __len__(self) -> int:
        return self.n_atoms

    def __repr__(self) -> str:
        name = self.kernel if isinstance(self.kernel, str) else getattr(self.kernel, "__name__", "callable")
        classes = "" if self.classes_ is None else f", {len(self.classes_)} classes"
        return f"<Dictionary of {self.n_atoms} atoms{classes}, kernel={name!r}, normalize={self.normalize!r}>"

    # -- internals ------------------------------------------------------------------------------------------

    def _keep(self, name: str, compute: Callable[[], Any]) -> Any:
        """Return what is kept under a name, computed by the first thread that needs it while the others wait.

        It saves time alone. No choice may depend on it, else a second call would return other bits than the first.
        """
        with self._lock:
            if name not in self._kept:
                self._kept[name] = compute()
            return self._kept[name]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=RLock())

    def _gram_work(self) -> tuple[Array, Callable[[tuple[slice, slice]], None], list[tuple[slice, slice]]]:
        """Return an empty Gram matrix, a function that fills one tile of it, and the tiles.

        There is one tile for a user's kernel, which is called once for all atoms.
        """
        gram = np.empty((self.n_atoms, self.n_atoms))

        def fill(tile: tuple[slice, slice]) -> None:
            rows, columns = tile
            left, factor = widen(self._values[rows]), self._scale[rows]
            right = left if rows is columns else widen(self._values[columns])
            part = evaluate(self._kernel, left, right, out=gram[rows, columns])
            if not self._is_linear_kernel:
                part = part * factor[:, None] * self._scale[columns]
                gram[rows, columns] = part if rows is not columns else 0.5 * (part + part.T)
            if rows is not columns:
                gram[columns, rows] = gram[rows, columns].T

        def fill_all(tile: tuple[slice, slice]) -> None:
            gram[tile] = _check_gram(self.block(*tile), "kernel")

        if not isinstance(self._kernel, NamedKernel):
            return gram, fill_all, [(slice(None), slice(None))]
        edges = split_range(0, self.n_atoms, _TILE if self.n_atoms > 2 * _TILE else _SMALL_TILE)
        pairs = [(a, b) for i, a in enumerate(edges) for b in edges[i + 1 :]]
        return gram, fill, pairs + [(a, a) for a in edges]  # the long ones first

    def _scale_atoms(self, values: AnyArray, dtype: str) -> tuple[AnyArray, Array]:
        """Return :meth:`_scale_rows` of atoms, stored as ``dtype``; of many atoms block by block, in place."""
        if dtype == "float64" and len(values) <= _NORM_ROWS:
            return self._scale_rows(values, "atoms")
        stored, scale = values.astype(dtype, copy=False), np.empty(len(values))
        for block in split_range(0, len(values), _NORM_ROWS):
            stored[block], scale[block] = self._scale_rows(widen(values[block]), "atoms")
        return stored, scale

    def _scale_rows(self, values: Array, name: str) -> tuple[Array, Array]:
        """Return rows as the kernel is to see them, and the factors that give unit length in its space."""
        if isinstance(self._kernel, NamedKernel):
            self._kernel.check(values, name)
        in_features = self.normalize == "feature" or (self.normalize and self._is_linear_kernel)
        if in_features:
            return normalize_rows(values), np.ones(len(values))
        if self.normalize:
            squares = compare_to_self(self._kernel, values)
            if not (squares >= 0).all():
                raise ValueError(
                    f"kernel: a sample of {name} has a negative similarity to itself; it must be positive semidefinite."
                )
            return values, _unit_factors(squares)
        return values, np.ones(len(values))

    @property
    def _is_linear_kernel(self) -> bool:
        return isinstance(self._kernel, NamedKernel) and self._kernel.name == "linear"

    def query_features(self, values: Array, name: str = "X", spread: Spread = _map_in_turn) -> Queries:
        """Compute :meth:`query` for features that have been checked, a C-ordered float64 array.

        ``spread(function, parts)`` maps a function over tiles of the products, perhaps with threads.
        """
        blocks = split_range(0, len(values), _ROWS)
        cross = np.empty((len(values), self.n_atoms))
        norms = np.empty(len(values))

        def prepare(block: slice) -> tuple[slice, Array, Array]:
            rows, factor, norms[block] = self._prepare_rows(values[block], name)
            return block, rows, factor

        def fill(tile: tuple[tuple[slice, Array, Array], slice]) -> None:
            (block, rows, factor), columns = tile
            part = evaluate(self._kernel, rows, widen(self._values[columns]), out=cross[block, columns])
            if not self._is_linear_kernel:
                cross[block, columns] = part * (factor[:, None] * self._scale[columns])

        whole = not isinstance(self._kernel, NamedKernel)
        size = self.n_atoms if whole else _TILE if len(blocks) > 1 else _SMALL_TILE
        tiles = split_range(0, self.n_atoms, size)
        prepared = spread(prepare, blocks)
        spread(fill, [(rows, columns) for rows in prepared for columns in tiles])
        rows = prepared[0][1] if len(prepared) == 1 else np.concatenate([rows for _, rows, _ in prepared])
        return wrap_queries(cross, norms, rows=rows)

    def scale_features(self, values: Array, name: str = "X") -> tuple[Array, Array]:
        """Return rows as the kernel sees them and their squared lengths, without comparing them with the atoms."""
        blocks = split_range(0, len(values), _ROWS)
        parts = [self._prepare_rows(values[block], name) for block in blocks]
        return np.concatenate([rows for rows, _, _ in parts]), np.concatenate([norms for _, _, norms in parts])

    def _prepare_rows(self, values: Array, name: str) -> tuple[Array, Array, Array]:
        """Return rows as the kernel sees them, the factors that give unit length, and the squared lengths."""
        rows, factor = self._scale_rows(values, name)
        squares = compare_to_self(self._kernel, rows)
        if not np.isfinite(squares).all() or (squares < 0).any():
            raise ValueError(
                f"{name}: a squared length is negative or not finite; scale the features or check the kernel."
            )
        return rows, factor, squares * factor**2

    @property
    def _values(self) -> Any:
        """Rows as the kernel sees them; a subset copies its rows at the first use, since most never need them."""
        if self._rows[1] is not None:
            with self._lock:  # threads that get here meanwhile wait, instead of copying the rows too
                rows, picked = self._rows
                if picked is not None:
                    self._rows = (rows[picked], None)
        return self._rows[0]

    def _set(
        self,
        values: Array,
        scale: Array,
        labels: AnyArray | None,
        order: IntArray,
        gram: Array | None,
        picked: IntArray | None = None,
    ) -> None:
        self._rows = (np.ascontiguousarray(values), picked)
        self._scale, self._gram = scale, gram
        # Held while one thread computes what all of them share.
        self._lock = RLock()
        # Coders keep factorizations of the Gram matrix here.
        self._kept: dict[str, Any] = {}
        self._spectrum: Any = None
        self.labels, self.order = labels, order
        self.classes_: AnyArray | None = None
        self.class_slices: list[slice] = []
        self.class_of: IntArray = np.empty(0, np.int64)
        if labels is not None:
            self.classes_, starts = np.unique(labels, return_index=True)
            ends = np.append(starts[1:], len(labels))
            self.class_slices = [slice(int(a), int(b)) for a, b in zip(starts, ends, strict=True)]
            self.class_of = np.repeat(np.arange(len(starts)), ends - starts)

    @classmethod
    def _rebuild(
        cls, values: Array, scale: Array, labels: AnyArray, order: IntArray, gram: Array | None, n_features: int,
        *, kernel: str, normalize: bool | str, gamma: float | None, degree: float, coef0: float,
    ) -> Dictionary:  # fmt: skip
        """Rebuild a dictionary from the parts a file holds, after checking that they belong together."""
        n = len(scale)
        precomputed = kernel == "precomputed"
        if values.shape != (n, 0 if precomputed else n_features) or scale.shape != (n,) or order.shape != (n,):
            raise ValueError("the dictionary's values, scale and order differ in length.")
        if labels.shape != (n,) or n == 0 or not (labels[:-1] <= labels[1:]).all():
            raise ValueError("the dictionary's labels are not one for each atom, sorted.")
        if (gram is None and precomputed) or (gram is not None and gram.shape != (n, n)):
            raise ValueError("the dictionary's Gram matrix is missing or not square.")
        arrays = [scale] if gram is None else [scale, gram]
        right = all(a.dtype == np.float64 and np.isfinite(a).all() for a in arrays) and order.dtype == np.int64
        if not right or values.dtype not in (np.float64, np.float32) or not _are_finite(values):
            raise ValueError("the dictionary's numbers are not finite, or not of the right type.")
        if len(np.unique(order)) != n or order.min() < 0:
            raise ValueError("the dictionary's order does not name rows.")
        if gram is not None and not (
            np.abs(gram - gram.T).max() <= _ASYMMETRIC * np.abs(gram).max() and (np.diagonal(gram) >= 0).all()
        ):
            raise ValueError("the dictionary's Gram matrix is not symmetric, or has a negative diagonal.")
        out = object.__new__(cls)
        out.kernel, out.normalize, out.n_features = kernel, normalize, n_features
        out.gamma, out.degree, out.coef0 = gamma, degree, coef0
        out._kernel = resolve_kernel(kernel, n_features, gamma, degree, coef0)
        out._set(values, scale, labels, order, gram)
        return out

    def _derive(self, *parts: Any) -> Dictionary:
        """Return a dictionary with the same kernel and other parts, see :meth:`_set`."""
        other = copy(self)
        other._set(*parts)
        return other


def _pick_block(gram: Array, index: IntArray) -> Array:
    """Return ``gram[index][:, index]``: whole rows first, many times faster than both at once, a few rows at a time."""
    out = np.empty((len(index), len(index)))
    for block in split_range(0, len(index), _ROWS):
        out[block] = gram.take(index[block], axis=0).take(index, axis=1)
    return out


def _are_finite(values: AnyArray) -> bool:
    """Return whether all numbers are finite, block by block: the array may be larger than memory."""
    return all(bool(np.isfinite(values[block]).all()) for block in split_range(0, len(values), _NORM_ROWS))


def _check_labels(labels: Any, n: int, name: str = "labels") -> AnyArray:
    if isinstance(labels, (list, tuple)) and len({isinstance(v, (str, bytes)) for v in labels}) > 1:
        raise ValueError(f"{name} mixes text and numbers; use one kind of label.")
    out = np.asarray(labels)
    if out.ndim != 1 or len(out) != n:
        raise ValueError(
            f"{name} must be one-dimensional with one entry for each of the {n} atoms, got shape {out.shape}."
        )
    if out.dtype.kind == "f" and not np.isfinite(out).all():
        raise ValueError(f"{name} contains NaN or infinity; every atom needs a class.")
    if out.dtype.kind == "O":
        kinds = {str if isinstance(v, str) else type(v) for v in out}
        if len(kinds) > 1 or kinds == {type(None)}:
            raise ValueError(f"{name} mixes types or has missing values; use one kind of label for every atom.")
    return out


def _check_gram(gram: Array, name: str) -> Array:
    """Return a symmetric copy of a positive semidefinite matrix, or raise a ValueError."""
    largest = np.abs(gram).max()
    if np.abs(gram - gram.T).max() > _ASYMMETRIC * largest:
        raise ValueError(f"{name}: the Gram matrix is not symmetric; similarities must satisfy k(a, b) = k(b, a).")
    out = 0.5 * (gram + gram.T)
    trace = np.trace(out)
    if largest == 0:
        return out
    if trace <= 0:
        raise ValueError(
            f"{name}: the Gram matrix is indefinite (its trace is {trace:.3g}); it must be positive semidefinite."
        )
    shifted = out + _INDEFINITE * trace * np.eye(len(out))
    try:
        linalg.cholesky(shifted, lower=True, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError:
        raise ValueError(
            f"{name}: the Gram matrix is indefinite; a kernel must be positive semidefinite "
            "(clip its negative eigenvalues, or choose another similarity)."
        ) from None
    return out
