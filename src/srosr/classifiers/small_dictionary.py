"""Small dictionaries: atoms chosen or learned from the training samples by an object with ``fit_resample``.

A model with a small dictionary keeps its atoms and what was learned from all samples, but not the samples. To add or
remove a class, the atoms of the other classes stand for their samples in the regressions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.base import clone

from .._support.array_types import AnyArray, Array, IntArray
from ..coding.problems import Problem
from ..dictionary.dictionary import Dictionary, split_range, widen
from ..dictionary.kernels import NONNEGATIVE_KERNELS
from ..evidence.class_scores import ClassScores
from ..evidence.landmark_scores import LandmarkScorer
from ..evidence.landmarks import RegressionSamples
from ..evidence.scorer_fits import fit_sampled_scorer
from ..evidence.table import CodeMeasures
from ..scoring.cross_fitting import assess_rows
from ..scoring.group_splits import SampleGroups
from ..scoring.splits import MAX_CODINGS, draw_folds, thin_splits
from .class_changes import append_class, append_labels, append_samples

# Samples compared with learned atoms at a time, and folds of a class that is added.
_ROWS = 1024
N_FOLDS = 5


def check_atoms(atoms: Any) -> None:
    """Raise a ValueError unless ``atoms`` is None, a number of atoms a class, a share, or a sampler."""
    if atoms is None or hasattr(atoms, "fit_resample"):
        return
    is_number = isinstance(atoms, (int, float, np.integer, np.floating)) and not isinstance(atoms, (bool, np.bool_))
    if not is_number or not (0 < atoms <= 1 or (1 < atoms < np.inf and atoms == int(atoms))):
        raise ValueError(
            "atoms must be None, a share of each class above 0 and at most 1, a number of atoms a class, or an object "
            f"with fit_resample such as srosr.SelectAtoms(0.25), got {atoms!r}."
        )


def check_sampler_of_new_class(atoms: Any) -> None:
    """Raise a ValueError if nothing finds the atoms of a class that is added to a small dictionary."""
    if atoms is None:
        raise ValueError(
            "atoms: what found the atoms of this model is not known, since a model file holds no object that is not of "
            "srosr; name it before add_class, with set_params(atoms=...), or fit again."
        )
    check_atoms(atoms)


def check_small_recalibration(recalibrate: str, possible: str) -> None:
    """Raise a ValueError if samples were to be coded again that a small dictionary has not kept."""
    if recalibrate != possible:
        raise ValueError(
            f"recalibrate={recalibrate!r} codes all samples again, and a model with a small dictionary keeps its atoms "
            f"alone: use recalibrate={possible!r}, or fit again with all samples."
        )


def make_sampler(atoms: Any, random_state: Any, *, normalize: bool) -> Any:
    """Return the sampler of an ``atoms`` argument that is not None, with a seed if it has none of its own.

    A sampler that can scale samples to unit length does so where the dictionary does, ``normalize``, and only there.
    """
    if hasattr(atoms, "fit_resample"):
        sampler = clone(atoms, safe=False)
    else:
        from ..atoms.learn_atoms import LearnAtoms

        sampler = LearnAtoms(int(atoms) if atoms > 1 or isinstance(atoms, (int, np.integer)) else float(atoms))
    parameters = sampler.get_params(deep=False) if hasattr(sampler, "get_params") else {}
    if "random_state" in parameters and parameters["random_state"] is None:
        sampler.set_params(random_state=random_state)
    if "normalize" in parameters:
        sampler.set_params(normalize=normalize)
    return sampler


class AtomFinder:
    """Finds atoms among training samples.

    Parameters
    ----------
    sampler : object with fit_resample
    X, y : ndarray
        All training samples and their labels.
    build : callable
        From atoms and labels to a dictionary.
    like : Dictionary
        One with the kernel of the atoms. If it takes no negative features, those of learned atoms become zero.
    """

    def __init__(
        self,
        sampler: Any,
        X: AnyArray,
        y: AnyArray,
        build: Callable[[AnyArray, AnyArray], Dictionary],
        like: Dictionary,
    ) -> None:
        self.sampler, self.X, self.y, self.build, self.like = sampler, X, y, build, like
        self.never_negative = isinstance(like.kernel, str) and like.kernel in NONNEGATIVE_KERNELS
        self.classes = np.unique(y)

    def find(self) -> tuple[Dictionary, IntArray | None]:
        """Return the dictionary of atoms found among all samples, and the rows they are, if they are samples."""
        atoms, labels = self.resample(self.sampler, self.X, self.y)
        rows = getattr(self.sampler, "sample_indices_", None)
        return self.build(atoms, labels), None if rows is None else np.asarray(rows, dtype=np.int64)

    def find_among(self, rows: IntArray) -> Dictionary:
        """Return the dictionary of as many atoms of each class, found among some of the samples."""
        return self.build(*self.resample(self.adapt(rows), self.X[rows], self.y[rows]))

    def adapt(self, rows: IntArray) -> Any:
        """Return a sampler that finds as many atoms of each class among some of the samples, if it can be told to."""
        sampler = clone(self.sampler, safe=False)
        if hasattr(self.sampler, "n_atoms_"):
            there = dict(zip(*np.unique(self.y[rows], return_counts=True), strict=True))
            found = dict(zip(self.sampler.classes_, self.sampler.n_atoms_, strict=True))
            sampler.set_params(n_atoms={k: int(min(found.get(k, n), n)) for k, n in there.items()})
        return sampler

    def resample(self, sampler: Any, X: AnyArray, y: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Return atoms and their labels, checked."""
        try:
            atoms, labels = sampler.fit_resample(X, y)
        except ValueError as error:
            if not str(error).startswith("n_atoms"):
                raise
            raise ValueError(str(error).removeprefix("n_")) from None  # as the argument of the classifier is called
        atoms, labels = np.asarray(atoms), np.asarray(labels)
        if atoms.ndim != 2 or atoms.shape[1] != X.shape[1] or labels.shape != (len(atoms),):
            raise ValueError(
                f"atoms: {type(sampler).__name__}.fit_resample must return atoms of {X.shape[1]} features and a label "
                f"for each, got shapes {atoms.shape} and {labels.shape}."
            )
        missing = np.setdiff1d(np.unique(y), labels)
        if len(missing) or len(np.setdiff1d(labels, self.classes)):
            what = f"class {missing[0]} lost its last atom" if len(missing) else "there are atoms of other classes"
            raise ValueError(f"atoms: {what}; every class needs at least one, and no others.")
        if self.never_negative:
            atoms = np.maximum(atoms, 0.0)
        self._check_lengths(atoms, labels)
        return atoms, labels

    def _check_lengths(self, atoms: AnyArray, labels: AnyArray) -> None:
        """Raise a ValueError for a class whose atoms are all zero, unless its samples are."""
        for label in self.classes[~np.isin(self.classes, labels[(atoms != 0).any(axis=1)])]:
            own = labels == label
            if not own.any() or not self.X[self.y == label].any():
                continue
            length = self.like.scale_features(np.zeros((1, atoms.shape[1])), "atoms")[1][0]
            if length == 0:
                raise ValueError(
                    f"atoms: class {label} would lose its last atom, because all atoms found for it are zero; ask for "
                    "more atoms, or find them in another way."
                )


def find_nearest_samples(dictionary: Dictionary, whole: Dictionary) -> IntArray:
    """Return for each atom the sample of its class most similar to it, as numbers of the dictionary of all samples."""
    nearest = np.zeros(dictionary.n_atoms, np.int64)
    assert dictionary.rows is not None
    for part, own in zip(dictionary.class_slices, whole.class_slices, strict=True):
        samples = whole.subset(np.arange(own.start, own.stop))
        for block in split_range(part.start, part.stop, _ROWS):
            queries = samples.query_features(np.ascontiguousarray(widen(dictionary.rows[block])))
            distances = samples.squared_norms - 2.0 * queries.cross
            nearest[block] = own.start + distances.argmin(axis=1)
    return nearest


def stand_in(dictionary: Dictionary, sizes: IntArray, new: tuple[Array, int] | None = None) -> RegressionSamples:
    """Return what regressions are fitted to where the samples are gone: atoms that stand for those of their class.

    ``sizes`` has the samples of each class of the dictionary; ``new`` the rows of a new class, and its number among the
    classes with it.
    """
    assert dictionary.rows is not None
    rows, class_of = widen(dictionary.rows), dictionary.class_of
    weights = (sizes / np.bincount(class_of))[class_of]
    if new is None:
        return RegressionSamples(rows, class_of, weights)
    added, number = new
    class_of = class_of + (class_of >= number)
    place = int(np.searchsorted(class_of, number))
    return RegressionSamples(
        np.insert(rows, place, added, axis=0),
        np.insert(class_of, place, np.full(len(added), number)),
        np.insert(weights, place, np.ones(len(added))),
    )


class MoreSamples:
    """Samples of known classes that join a small dictionary: as many atoms of each class as it has for the others.

    Parameters
    ----------
    old : Dictionary
    sampler : object with fit_resample
    X : ndarray
    class_of : ndarray of int
        Number of the class of each sample.
    sizes : ndarray of int (n_classes,)
        Number of samples that the atoms of each class were found among.
    """

    def __init__(self, old: Dictionary, sampler: Any, X: Array, class_of: IntArray, sizes: IntArray) -> None:
        rows = old.query_features(np.ascontiguousarray(X)).rows
        assert rows is not None and old.labels is not None
        #: The samples as the kernel sees them.
        self.rows: Array = rows
        shares = np.bincount(old.class_of) / sizes
        found, labels, picked = [], [], []
        for k in np.unique(class_of):
            own, label = np.flatnonzero(class_of == k), np.asarray(old.classes_)[k]
            if not X[own].any():
                continue
            part = clone(sampler, safe=False)
            if hasattr(part, "n_atoms"):
                part.set_params(n_atoms=float(min(shares[k], 1.0)))
            new = NewClass(old.drop(label), part, X[own], label)
            found.append(new.atoms)
            labels.append(np.full(len(new.atoms), label, dtype=old.labels.dtype))
            picked.append(own[new.picked])
        #: The sample that each atom is, or is nearest to; and the dictionary with the atoms.
        self.picked: IntArray = np.concatenate(picked)
        self.dictionary, _ = append_samples(old, np.concatenate(found), np.concatenate(labels))


class NewClass:
    """A class that is added to a small dictionary: its atoms, and its samples assessed over atoms found without them.

    Parameters
    ----------
    old : Dictionary
    sampler : object with fit_resample
    X : ndarray
        Samples of the class.
    label : label
    """

    def __init__(self, old: Dictionary, sampler: Any, X: Array, label: Any) -> None:
        self.old, self.sampler, self.label = old, sampler, label
        rows = old.query_features(np.ascontiguousarray(X)).rows
        assert rows is not None
        self.rows: Array = rows
        atoms, picked = self._find(np.arange(len(X)))
        self.atoms = atoms
        self.dictionary, self.number = append_class(old, atoms, label)
        if picked is None:
            samples = Dictionary(self.rows)
            queries = samples.query_features(np.ascontiguousarray(atoms, dtype=np.float64))
            picked = (samples.squared_norms - 2.0 * queries.cross).argmin(axis=1)
        #: The sample that each atom is, or is nearest to.
        self.picked = picked

    def _find(self, which: IntArray) -> tuple[Array, IntArray | None]:
        """Return the atoms found among some samples of the class, and which samples they are, if they are samples."""
        rows = self.rows[which]
        assert self.old.rows is not None and self.old.labels is not None
        n = self.old.n_atoms
        X, y = np.concatenate([widen(self.old.rows), rows]), append_labels(self.old.labels, self.label, len(rows))
        sampler = self._count_atoms(len(rows))
        atoms, labels = AtomFinder(sampler, X, y, Dictionary, self.old).resample(sampler, X, y)
        own, picked = labels == self.label, getattr(sampler, "sample_indices_", None)
        return atoms[own], None if picked is None else which[np.asarray(picked)[own] - n]

    def _count_atoms(self, n: int) -> Any:
        """Return a sampler for n samples of the class, which keeps the atoms of the others.

        A mapping without the class stands for the mean number of atoms of the other classes.
        """
        sampler = clone(self.sampler, safe=False)
        wanted, (classes, counts) = (
            getattr(sampler, "n_atoms", None),
            np.unique(np.asarray(self.old.labels), return_counts=True),
        )
        if isinstance(wanted, Mapping):
            wanted = wanted.get(self.label, min(round(float(counts.mean())), len(self.rows)))
        if isinstance(wanted, (int, float, np.integer, np.floating)):
            is_share = isinstance(wanted, (float, np.floating))
            own = max(round(wanted * len(self.rows)), 1) if is_share else int(wanted)
            if own > len(self.rows):
                raise ValueError(
                    f"X: class {self.label} has {len(self.rows)} samples, fewer than the {own} atoms wanted."
                )
            sampler.set_params(
                n_atoms=dict(zip(classes.tolist(), counts.tolist(), strict=True)) | {self.label: min(own, n)}
            )
        return sampler

    def assess(
        self, old: LandmarkScorer | None, sizes: IntArray, kinds: tuple[str, ...], problem: Problem, rng: Any,
        n_jobs: int | None, max_codings: int | None = None, device: Any = None, groups: IntArray | None = None,
    ) -> tuple[LandmarkScorer | None, list[tuple[IntArray, CodeMeasures, ClassScores]]]:  # fmt: skip
        """Return the class scores with the new class, and its samples by folds, coded and scored without the fold.

        Where all samples are more than the budget ``max_codings``, the new class has its share of it. Samples of one of
        the ``groups`` (numbers) are in one fold.
        """
        n, budget = len(self.rows), max_codings or MAX_CODINGS
        share = min(budget / (n + int(sizes.sum())), 1.0)

        def fit(dictionary: Dictionary, which: IntArray) -> LandmarkScorer | None:
            if old is None:
                return None
            samples = stand_in(self.old, sizes, (self.rows[which], self.number))
            return fit_sampled_scorer(dictionary, kinds, samples, like=old.view, n_jobs=n_jobs, device=device)

        parts = []
        usable = np.einsum("ij,ij->i", self.rows, self.rows) > 0
        folds = list(draw_folds([slice(0, n)], rng, N_FOLDS))
        if groups is not None:
            together = SampleGroups(np.unique(groups, return_inverse=True)[1].reshape(-1), np.zeros(n, np.int64))
            folds = list(together.draw_folds(rng, N_FOLDS))
        tests = thin_splits(folds, np.zeros(n, np.int64), max(round(share * n), 1), rng)
        for fold, test in zip(folds, tests, strict=True):
            test, kept = test[usable[test]], np.delete(np.arange(n), fold)
            if len(test):
                dictionary, _ = append_class(self.old, self._find(kept)[0], self.label)
                scorer = fit(dictionary, kept)
                parts.append((test, *assess_rows(dictionary, scorer, self.rows[test], problem, n_jobs, device=device)))
        return fit(self.dictionary, np.arange(n)), parts
