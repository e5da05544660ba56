"""Missing values of a table filled in by scikit-learn's imputers, of later files as of the training file.

A model that was fitted to a table with gaps keeps an :class:`Imputer` in its feature recipe. All of it is arrays, so
that a model file holds it without pickle: the medians of the columns and, for neighbors, training rows with their gaps.
The neighbors are found by a ``KNNImputer`` that is fitted to those rows anew whenever a model is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from .._support.array_types import AnyArray, Array, IntArray
from .cells import quote_for_shell

Kind = Literal["median", "knn"]
KINDS: tuple[str, ...] = get_args(Kind)
#: Neighbors whose mean fills a gap, the default of scikit-learn's KNNImputer.
N_NEIGHBORS = 5
#: Most training rows that are kept to find neighbors among, so that a model stays small and predictions stay fast.
MOST_DONORS = 5000
# Larger numbers are cut to this where distances are computed, so that their squares do not overflow.
_LARGEST = 1e100


@dataclass(frozen=True, eq=False)
class Imputer:
    """Fills in missing values (NaN) of samples as those of the training table were filled in.

    "median" takes the median of the column, as scikit-learn's ``SimpleImputer`` does. "knn" takes the mean of the
    column over the five nearest training rows that have a value there, as ``KNNImputer`` does; the distance of two rows
    is over the columns that both have. Where no kept training row has a value, it takes the median.

    Attributes
    ----------
    kind : {"median", "knn"}
    medians : ndarray (n_features,)
        Medians of the columns, over the values there are.
    missing_shares : ndarray (n_features,)
        Share of the training rows without a value, by column.
    donors : ndarray (n_donors, n_features) or None
        For "knn": training rows, NaN where a value is missing.
    spread : ndarray (n_features,) or None
        For "knn": what columns are divided by before distances are computed.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr.tables.imputation import Imputer
    >>> X = np.array([[1.0, 10.0], [2.0, np.nan], [9.0, 50.0]])
    >>> imputer = Imputer.fit("median", X)
    >>> imputer.impute(X)[1].tolist(), round(imputer.share, 3)
    ([2.0, 30.0], 0.167)
    """

    kind: str
    medians: Array
    missing_shares: Array
    donors: Array | None = None
    spread: Array | None = None

    @classmethod
    def fit(
        cls,
        kind: str,
        X: Array,
        labels: AnyArray | None = None,
        *,
        names: Sequence[str] | None = None,
        by_spread: bool = False,
        seed: int = 0,
    ) -> Imputer:
        """Learn from training samples how gaps are filled.

        Parameters
        ----------
        kind : {"median", "knn"}
        X : ndarray (n_samples, n_features)
            NaN where a value is missing.
        labels : ndarray (n_samples,), optional
            Classes, for "knn" only: of more than 5,000 rows so many are kept, evenly over the classes.
        names : sequence of str, optional
            Names of the columns, for the message of an error.
        by_spread : bool
            For "knn": divide columns by their standard deviations before distances are computed.
        seed : int
            Of the rows that are kept.

        Raises
        ------
        ValueError
            If a column has no value at all, or numbers that are too large.
        """
        from sklearn.impute import SimpleImputer

        if kind not in KINDS:
            raise ValueError(f'kind must be "median" or "knn", got {kind!r}.')
        gaps = np.isnan(X)
        _check_columns(np.asarray(~gaps.all(axis=0)), names, "has no value in any row, so that none can be imputed")
        with np.errstate(over="ignore", invalid="ignore"):
            medians = np.asarray(SimpleImputer(strategy="median").fit(X).statistics_, dtype=np.float64)
        _check_columns(np.isfinite(medians), names, "has numbers that are too large to impute from")
        donors = spread = None
        if kind == "knn":
            donors = X[draw_rows(np.zeros(len(X)) if labels is None else labels, MOST_DONORS, seed)]
            spread = _measure_spread(X, names) if by_spread else None
        return cls(kind, medians, gaps.mean(axis=0), donors, spread)

    @property
    def share(self) -> float:
        """Share of the cells of the training table that were missing."""
        return float(self.missing_shares.mean())

    def summarize(self, names: Sequence[str] | None = None) -> dict[str, Any]:
        """Return kind and share, and the column with the most missing values in training, if there is one.

        The dict is JSON-serializable; columns without names are called by their numbers from 0.
        """
        worst = int(np.argmax(self.missing_shares))
        there = self.missing_shares[worst] > 0
        return {
            "kind": self.kind,
            "share": self.share,
            "column": (names[worst] if names else str(worst)) if there else None,
            "column_share": float(self.missing_shares[worst]) if there else None,
        }

    def impute(self, X: Array) -> Array:
        """Return samples with all gaps filled; values that are there stay as they are."""
        gaps = np.isnan(X)
        rows = np.flatnonzero(gaps.any(axis=1))
        if not len(rows):
            return X
        out = X.copy()
        filled = np.broadcast_to(self.medians, (len(rows), len(self.medians)))
        if self.kind == "knn":
            from_neighbors = self._ask_neighbors(X[rows])
            filled = np.where(np.isfinite(from_neighbors) & self._has_donors, from_neighbors, filled)
        out[rows] = np.where(gaps[rows], filled, X[rows])
        return out

    def _ask_neighbors(self, X: Array) -> Array:
        """Return samples whose gaps have the means of their neighbors."""
        filled: Array = self._neighbors.transform(self._to_units(X))
        return filled if self.spread is None else filled * self.spread

    @cached_property
    def _neighbors(self) -> Any:
        from sklearn.impute import KNNImputer

        assert self.donors is not None
        # A column may have values in other training rows than these: it stays, and gets the median.
        return KNNImputer(n_neighbors=N_NEIGHBORS, keep_empty_features=True).fit(self._to_units(self.donors))

    def _to_units(self, X: Array) -> Array:
        """Return samples with columns divided by their spread, and no number too large to be squared."""
        with np.errstate(over="ignore"):
            return np.clip(X if self.spread is None else X / self.spread, -_LARGEST, _LARGEST)

    @cached_property
    def _has_donors(self) -> AnyArray:
        """Whether a training row that is kept has a value, by column."""
        assert self.donors is not None
        return np.asarray(~np.isnan(self.donors).all(axis=0))

    # -- files -------------------------------------------------------------------------------------------

    def get_settings(self) -> dict[str, Any]:
        """Return everything but the arrays as a JSON-serializable dict, for a model file."""
        return {"kind": self.kind}

    def get_arrays(self) -> dict[str, AnyArray | None]:
        """Return the arrays by the names they have in a model file, after ``intake/``."""
        return {
            "medians": self.medians,
            "missing_shares": self.missing_shares,
            "donors": self.donors,
            "spread": self.spread,
        }

    @classmethod
    def restore(cls, settings: Any, arrays: dict[str, AnyArray], n_features: int) -> Imputer:
        """Rebuild the imputer that :meth:`get_settings` and :meth:`get_arrays` were called on.

        ``arrays`` are those of the model file; a ValueError or KeyError says that something does not fit.
        """
        _check(isinstance(settings, dict) and settings.get("kind") in KINDS, "imputer")
        kind = settings["kind"]
        medians, shares = arrays["intake/medians"], arrays["intake/missing_shares"]
        donors, spread = arrays.get("intake/donors"), arrays.get("intake/spread")
        for array in (medians, shares):
            right = array.shape == (n_features,) and array.dtype == np.float64
            _check(right and bool(np.isfinite(array).all()), "medians")
        _check(bool(((shares >= 0) & (shares < 1)).all()), "shares of missing values")
        _check((donors is not None) == (kind == "knn") and (spread is None or kind == "knn"), "imputer")
        if donors is not None:
            right = donors.ndim == 2 and donors.shape[1] == n_features and 1 <= len(donors) <= MOST_DONORS
            _check(right and donors.dtype == np.float64 and not bool(np.isinf(donors).any()), "rows to impute from")
        if spread is not None:
            right = spread.shape == (n_features,) and spread.dtype == np.float64
            _check(right and bool((np.isfinite(spread) & (spread > 0)).all()), "scales to impute by")
        return cls(kind, medians, shares, donors, spread)


def draw_rows(labels: AnyArray, most: int, seed: int) -> IntArray:
    """Return at most ``most`` rows in their order, drawn at random and evenly over the classes.

    Every class gives one row after the other until there are enough, or it has no more.

    Examples
    --------
    >>> import numpy as np
    >>> from srosr.tables.imputation import draw_rows
    >>> labels = np.array(["a", "a", "a", "a", "a", "b"])
    >>> np.bincount(draw_rows(labels, 3, seed=0) == 5).tolist()
    [2, 1]
    """
    if len(labels) <= most:
        return np.arange(len(labels))
    keys = np.random.default_rng([seed, 5]).random(len(labels))
    _, number, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    order = np.lexsort((keys, number))
    turn = np.empty(len(labels))
    turn[order] = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.sort(np.lexsort((keys, turn))[:most])


def _measure_spread(X: Array, names: Sequence[str] | None) -> Array:
    """Return the standard deviations of the columns over the values there are, 1 for constant ones."""
    with np.errstate(over="ignore", invalid="ignore"):
        spread = np.nanstd(X, axis=0)
    _check_columns(np.isfinite(spread), names, "has numbers that are too large to impute from")
    rounding = len(X) * np.finfo(np.float64).eps * np.nanmax(np.abs(X), axis=0)
    spread[spread <= rounding] = 1.0
    return spread


def _check_columns(fine: AnyArray, names: Sequence[str] | None, what: str) -> None:
    """Raise a ValueError that names the first column that is not fine."""
    if fine.all():
        return
    place = int(np.argmin(fine))
    if names is None:
        raise ValueError(f"feature {place} {what}; take it out.")
    raise ValueError(f"column {names[place]!r} {what}; --ignore {quote_for_shell(names[place])} leaves it out.")


def _check(holds: Any, what: str) -> None:
    if not holds:
        raise ValueError(f"invalid {what} in the feature recipe.")
