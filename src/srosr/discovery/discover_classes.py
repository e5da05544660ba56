"""``discover``: from a fitted classifier and new samples to groups of those that it rejects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._support.array_types import AnyArray, Array, IntArray
from .._support.devices import to_numpy
from .._support.messages import count_of
from .._support.parameter_checks import check_count, check_flag
from .._support.unknown_label import format_label
from ..classifiers.base import Decisions, OpenSetClassifier
from ..dictionary.dictionary import Dictionary, Queries
from .affinity_groups import NOISE, compute_affinities, find_groups, measure_centrality, measure_tightness
from .discovered_group import ACCEPTED, TIGHT, Group, SampleHasher
from .discovery import Discovery

if TYPE_CHECKING:
    from scipy import sparse

#: Smallest default of ``min_size``, and the share of the root of the number of samples that it is for many samples.
LEAST_SIZE, ROOT_SHARE = 5, 1 / 3


def discover(
    clf: OpenSetClassifier,
    X: Any,
    *,
    rejected_only: bool = True,
    min_size: int | None = None,
    n_typical: int = 8,
    random_state: Any = 0,
) -> Discovery:
    """Group the samples that a fitted classifier rejects: candidates for new classes.

    Samples belong together if they reconstruct each other in sparse codes and are neighbors, both in the space of the
    model (its kernel and scaling). HDBSCAN finds the groups in a spectral embedding of this affinity; see
    :mod:`srosr.discovery.affinity_groups`.

    Parameters
    ----------
    clf : OpenSetClassifier
        A fitted classifier. One without a dictionary is taken to compare samples of unit length.
    X : array-like (n_samples, n_features)
        Samples. Those that are accepted are left out.
    rejected_only : bool, default True
        False groups the accepted samples, too.
    min_size : int, optional
        Smallest number of different samples in a group, at least 2. By default a third of the root of the number of
        rejected samples, at least 5.
    n_typical : int, default 8
        Number of typical samples of each group.
    random_state : int, RandomState or None, default 0
        Draws which samples are coded over which others.

    Returns
    -------
    Discovery

    Notes
    -----
    Copies of a sample count once, and samples of length zero are noise. The order of the rows does not matter. Of more
    than 4,096 samples each is coded over a random choice of 4,096 others.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from srosr import SROSRClassifier
    >>> from srosr.discovery.discover_classes import discover
    >>> X, y = load_digits(return_X_y=True)
    >>> known = y < 6
    >>> clf = SROSRClassifier(n_repeats=5, random_state=0).fit(X[known][:300], y[known][:300])
    >>> found = discover(clf, X[900:][y[900:] >= 6])
    >>> len(found) >= 4, found.groups[0].is_tight
    (True, True)
    """
    check_flag("rejected_only", rejected_only)
    _check_sizes(min_size, n_typical)
    check_random_state(random_state)
    collector = DiscoveryCollector(clf, rejected_only=rejected_only)
    if clf.feature_recipe_ is not None:  # pictures are read once
        X = clf.feature_recipe_.select_features(X, clf.n_features_in_)
    decisions = clf.decide(X)
    collector.add(X, decisions)
    return collector.discover(min_size=min_size, n_typical=n_typical, random_state=random_state)


class DiscoveryCollector:
    """Collects the rejected samples of several batches, to group them.

    Parameters
    ----------
    clf : OpenSetClassifier
    rejected_only : bool, default True
        Whether accepted samples are left out.
    """

    def __init__(self, clf: OpenSetClassifier, *, rejected_only: bool = True) -> None:
        if not isinstance(clf, OpenSetClassifier):
            raise ValueError(
                f"clf must be an open set classifier, got {type(clf).__name__}; a pipeline has a method discover."
            )
        check_is_fitted(clf, "classes_")
        if getattr(clf, "kernel", None) == "precomputed":
            raise ValueError(
                'X must be samples, but the classifier has kernel="precomputed": their similarities to each other, '
                "which discovery needs, are not known."
            )
        self._clf, self._rejected_only = clf, rejected_only
        self._hasher = SampleHasher(clf.n_features_in_)
        self._samples: list[Array] = []
        self._candidates: list[AnyArray] = []
        self._rows: list[IntArray] = []
        self._n_rows = self._n_samples = 0

    def add(self, X: Any, decisions: Decisions, numbers: IntArray | None = None) -> None:
        """Add a batch of samples with the decisions on them, and their row numbers if some were left out."""
        if isinstance(X, Queries):
            raise ValueError("X must be samples, got a srosr.Queries: discovery compares samples with each other.")
        values = np.asarray(to_numpy(self._clf._check_queries(X)), dtype=np.float64)
        rows = np.arange(self._n_rows, self._n_rows + len(values)) if numbers is None else np.asarray(numbers)
        self._hasher.add(values)
        taken = decisions.rejected if self._rejected_only else np.ones(len(values), bool)
        self._samples.append(values[taken])
        self._candidates.append(decisions.candidate[taken])
        self._rows.append(rows[taken])
        self._n_samples += len(values)
        self._n_rows = int(rows[-1]) + 1 if len(rows) else self._n_rows

    @property
    def rows(self) -> IntArray:
        """Rows of the samples to be grouped."""
        return np.concatenate(self._rows) if self._rows else np.empty(0, np.int64)

    @property
    def samples(self) -> Array:
        """The samples to be grouped, as the classifier takes them."""
        return np.concatenate(self._samples)

    def discover(
        self,
        *,
        min_size: int | None = None,
        n_typical: int = 8,
        random_state: Any = 0,
        name: str = "X",
        n_rows: int | None = None,
    ) -> Discovery:
        """Group the samples, see :func:`discover`; ``n_rows`` is the number of rows in the file they come from."""
        _check_sizes(min_size, n_typical)
        rng = check_random_state(random_state)
        taken = "rejected " if self._rejected_only else ""
        if not len(self.rows):
            raise ValueError(
                f"{name} has no {taken}sample among {count_of(self._n_samples, 'sample')}: nothing to group."
            )
        # Sorted, so that the order of the rows does not matter, and without copies.
        unique, first, place = np.unique(self.samples, axis=0, return_index=True, return_inverse=True)
        dictionary = _make_dictionary(self._clf, unique)
        usable = np.flatnonzero(dictionary.squared_norms > 0)
        size = max(LEAST_SIZE, round(ROOT_SHARE * len(usable) ** 0.5)) if min_size is None else int(min_size)
        if len(usable) < 2 * size:
            same = "" if len(unique) == len(self.rows) else f", {len(usable):,} of them different"
            raise ValueError(
                f"{name} has {count_of(len(self.rows), f'{taken}sample')}{same}; groups of at least {size} need "
                f"{2 * size} different ones that are not zero."
            )
        if len(usable) < len(unique):
            dictionary = dictionary.subset(usable)
        affinities = compute_affinities(
            dictionary, rng, n_jobs=getattr(self._clf, "n_jobs", None), device=getattr(self._clf, "device", "cpu")
        )
        found = _UniqueSamples(dictionary, affinities[0], usable, find_groups(affinities, size, rng))
        groups = self._describe_groups(found, found.label_all(len(unique))[place.ravel()], first, n_typical, rng)
        labels = np.full(self._n_rows if n_rows is None else n_rows, ACCEPTED)
        labels[self.rows] = NOISE
        for group in groups:
            labels[group.rows] = group.number
        classes = tuple(format_label(label) for label in self._clf.classes_.tolist())
        return Discovery(labels, groups, size, classes, self._hasher.fingerprint, name)

    def _describe_groups(
        self, found: _UniqueSamples, labels: IntArray, first: IntArray, n_typical: int, rng: np.random.RandomState
    ) -> tuple[Group, ...]:
        """Return the groups in their order, given the labels of all samples and the first sample of each copy."""
        rows, candidates = self.rows, np.concatenate(self._candidates)
        tightness = found.measure_tightness()
        sizes = np.bincount(labels[labels >= 0], minlength=len(tightness))
        order = sorted(range(len(sizes)), key=lambda g: (tightness[g] < TIGHT, -sizes[g], found.find_members(g)[0]))
        out = []
        for number, g in enumerate(order):
            members, own = found.find_members(g), np.flatnonzero(labels == g)
            central = measure_centrality(found.dictionary, members, rng)
            best = found.usable[members[np.argsort(-central, kind="stable")[:n_typical]]]
            typical = tuple(rows[first[best]].tolist())
            out.append(Group(number, np.sort(rows[own]), typical, float(tightness[g]), _count_shares(candidates[own])))
        return tuple(out)


@dataclass(frozen=True, eq=False)
class _UniqueSamples:
    """Different samples that are not zero, their affinity and their groups.

    ``usable`` has their places among all different samples.
    """

    dictionary: Dictionary
    affinity: sparse.csr_array
    usable: IntArray
    labels: IntArray

    def label_all(self, n: int) -> IntArray:
        """Return the labels of all ``n`` different samples."""
        out = np.full(n, NOISE)
        out[self.usable] = self.labels
        return out

    def find_members(self, group: int) -> IntArray:
        """Return the atoms of a group."""
        return np.flatnonzero(self.labels == group)

    def measure_tightness(self) -> Array:
        """Return the tightness of each group."""
        return measure_tightness(self.affinity, self.labels) if (self.labels >= 0).any() else np.empty(0)


def _check_sizes(min_size: Any, n_typical: Any) -> None:
    check_count("min_size", min_size, 2, none=True)
    check_count("n_typical", n_typical)


def _make_dictionary(clf: OpenSetClassifier, X: Array) -> Dictionary:
    """Return a dictionary of samples in the space of the classifier's own, without labels."""
    own = getattr(clf, "dictionary_", None)
    if own is None:
        return Dictionary(X, normalize=True)
    return Dictionary(
        X, kernel=own.kernel, normalize=own.normalize, gamma=own.gamma, degree=own.degree, coef0=own.coef0
    )  # fmt: skip


def _count_shares(candidates: AnyArray) -> tuple[tuple[Any, float], ...]:
    """Return the labels with their shares, the most frequent first."""
    labels, counts = np.unique(candidates, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return tuple(
        (label, count / len(candidates))
        for label, count in zip(labels[order].tolist(), counts[order].tolist(), strict=True)
    )
