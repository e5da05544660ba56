"""Changes of a fitted classifier without a new fit: more samples, other classes, another domain."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._support.array_types import AnyArray, Array, IntArray
from .._support.devices import find_device, to_numpy
from .._support.parameter_checks import check_choice, check_count
from .._support.threads import one_blas_thread
from ..dictionary.dictionary import Dictionary, Queries
from ..evidence.class_scores import ClassScorer, HoldOut
from ..evidence.landmark_scores import LandmarkScorer, find_landmarks
from ..evidence.scorer_fits import fit_sampled_scorer, fit_scorer
from ..exceptions import CalibrationWarning, warn
from ..scoring.calibration import Calibration, count_atoms, draw_class_passes
from ..scoring.cross_fitting import assess_rows
from ..scoring.cross_test import CodedHoldOut, CrossTest, CrossTester, build_cross_test
from ..scoring.decision_rules import CalibratedRule
from ..scoring.group_splits import SampleGroups, check_group_names, extend_groups
from ..scoring.splits import MAX_CODINGS, draw_folds, split_off_calibration, thin_splits
from ..tails.error_distribution import SplicedDistribution
from ..thresholds.p_values import CalibrationSplit, ClassComparison
from .base import find_target
from .class_changes import (
    LEAST_SAMPLES,
    append_class,
    append_labels,
    append_samples,
    check_enough,
    check_known_labels,
    check_new_label,
    find_copies,
    find_newest,
    join_labels,
    move_cross_tests,
    update_calibration,
)
from .dictionary_classifier import DictionaryClassifier
from .small_dictionary import MoreSamples, NewClass, check_sampler_of_new_class, check_small_recalibration, stand_in

#: Folds of the new samples in an update, and splits of the first pass, which only the paper's rules need.
UPDATE_FOLDS, UPDATE_REPEATS = 5, 10


class ChangingClassifier(DictionaryClassifier):
    """Base of a classifier that learns and forgets without a new fit.

    A method says how to calibrate a dictionary (``_calibrate``), and how to set what follows from it (``_adopt``).
    """

    atoms: Any
    n_repeats: int
    holdout: float
    max_codings: int | None
    tail_size: float | str
    calibration_size: float
    random_state: Any

    rule_: str
    label_by_: str
    calibration_: Calibration
    training_rows_: IntArray
    # Training samples so far, whether there are more than were fitted, and their groups with the groups' names.
    _n_rows: int
    _grown: bool
    _row_groups: IntArray | None
    _group_names: AnyArray | None
    # Samples that calibrate, and those of each class that the model has; None where they are the atoms.
    _n_samples: int | None
    _class_sizes: IntArray | None
    # The calibration split, or the samples of a recalibration and what is known of it; and their scores.
    _calibration_samples: Any
    _calibration_labels: AnyArray
    _calibration_groups: IntArray | None
    _recalibration: dict[str, Any] | None
    _split_scores: CalibrationSplit | None
    # What calibration came from; by rate the calibration samples of each class, and what they guarantee.
    _kept_comparison: tuple[tuple[Any, ...], dict[float, tuple[ClassComparison, str]]] | None = None
    _class_scores: tuple[str, ...]
    _scorer: ClassScorer | LandmarkScorer | None

    @abstractmethod
    def _calibrate(self, dictionary: Dictionary) -> None:
        """Learn everything but the dictionary anew."""

    @abstractmethod
    def _adopt(
        self, dictionary: Dictionary, calibration: Calibration, class_scores: tuple[str, ...],
        scorer: ClassScorer | LandmarkScorer | None = None,
    ) -> None:  # fmt: skip
        """Set the attributes that follow from a dictionary and its calibration."""

    @abstractmethod
    def _make_sampler(self) -> Any:
        """Return what finds atoms among samples."""

    def _find_atom_groups(self, dictionary: Dictionary) -> IntArray | None:
        """Return the number of the group of each atom."""
        return None if self._row_groups is None else self._row_groups[self.training_rows_[dictionary.order]]

    def update(self, X: Any, y: Any, *, groups: Any = None, keep: int | None = None) -> Self:
        """Learn more samples of known classes without fitting again.

        They join the dictionary. Each is coded once over nearly all other atoms, and these held-out scores join the
        others; the weights of evidence and class scores stay. A model with a calibration split, or one that was
        recalibrated, sets the share ``calibration_size`` of the samples aside and guarantees the target anew. A small
        dictionary gets as many atoms for them as it has for others, found among the new samples of each class.

        Parameters
        ----------
        X : array-like (n_samples, n_features)
        y : array-like (n_samples,)
            Their classes, all among ``classes_``.
        groups : array-like (n_samples,), optional
            Their groups, if the model was fitted with groups.
        keep : int, optional
            The most samples that the classes in ``y`` keep: the oldest leave the dictionary and the calibration split,
            and their held-out scores with them. None keeps all. A small dictionary, which keeps no samples, cannot
            forget them.
        """
        check_is_fitted(self, "calibration_")
        check_count("keep", keep, none=True)
        X = self._check_more_samples(X)
        labels = check_known_labels(to_numpy(y), self.classes_, len(X))
        if self._n_samples is not None:
            if keep is not None:
                raise ValueError("keep: a model with a small dictionary keeps no samples, only atoms; leave it out.")
            check_sampler_of_new_class(self.atoms)
        if not X.any():
            raise ValueError("X: all samples are zero; give one that is not.")
        numbers, names = self._number_groups(groups, len(X))
        self._check_not_calibrating(X)
        copies = find_copies(self.dictionary_, X)
        if 2 * copies.sum() > len(X):
            warn(
                f"{int(copies.sum())} of {len(X)} samples are atoms of the model already: held out, they look more "
                "familiar than new samples, so that too many of those will be rejected.",
                CalibrationWarning,
            )
        rows, split = self._split_off(X, labels, numbers)
        if copies[split].any():  # what the dictionary has cannot calibrate
            rows, split = np.sort(np.concatenate([rows, split[copies[split]]])), split[~copies[split]]
        if self._n_samples is not None:
            return self._update_small(X, labels, rows, split, numbers, names)
        dictionary, is_new = append_samples(self.dictionary_, X[rows], labels[rows])
        with self._restore_on_error():
            self._append_rows(X, labels, numbers, names, rows, split)
            if keep is not None:
                classes = np.unique(np.searchsorted(self.classes_, labels))
                stay = find_newest(dictionary.order, dictionary.class_of, classes, keep)
                dictionary, is_new = dictionary.subset(stay), is_new[stay]
                if self._recalibration is None:
                    self._forget_oldest(classes, keep)
            self._calibrate_new(dictionary, is_new, *self._draw_update(dictionary, is_new))
            self._recalibrate_again()
            self.set_threshold(**self._threshold_arguments)
        return self

    def recalibrate(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Set the distribution of the unknown score and the threshold anew, after a change of domain.

        Dictionary, tails and weights stay. The threshold is chosen as it was, by the same target for example.

        Parameters
        ----------
        X : array-like (n_samples, n_features)
            Fresh samples of known classes, as they come now. They take the place of the held-out training samples, and
            since the model has not seen them, the target is guaranteed for samples like them.
        y : array-like (n_samples,), optional
            Their classes. Without them there are no p-values of classes and no prediction sets.
        groups : array-like (n_samples,), optional
            The groups of the samples: the target then holds for samples of a new group.
        """
        check_is_fitted(self, "calibration_")
        X = self._check_more_samples(X)
        target = find_target(self._threshold_arguments, self.threshold, self.target_rejection)
        return self._recalibrate_to(X, y, groups, target)

    def add_class(self, X: Any, label: Any, *, recalibrate: str = "new", groups: Any = None) -> Self:
        """Learn one more class without fitting again.

        Parameters
        ----------
        X : array-like (n_samples, n_features)
            Samples of the new class.
        label : label
            Not among ``classes_``.
        recalibrate : {"new", "all"}, default "new"
            "new": held-out samples of the new class are coded and added to the others; the rest of the calibration
            stays, with the non-matched tails scaled to the new number of classes. "all": all held-out samples are coded
            again, as a fit on all samples would; a small dictionary, which has not kept them, cannot.
        groups : array-like (n_samples,), optional
            The groups of the samples, if the model was fitted with groups.
        """
        check_is_fitted(self, "calibration_")
        check_choice("recalibrate", recalibrate, ("new", "all"))
        label = check_new_label(label, self.classes_, self.unknown_label_)
        X = self._check_more_samples(X)
        labels = append_labels(np.asarray(self.classes_)[:0], label, len(X))
        numbers, names = self._number_groups(groups, len(X))
        rows, split = self._split_off(X, labels, numbers)
        if self._n_samples is not None:
            check_small_recalibration(recalibrate, "new")
            check_sampler_of_new_class(self.atoms)
            new = NewClass(self.dictionary_, self._make_sampler(), X[rows], label)
            atom_rows = rows[new.picked]
        else:
            dictionary, number = append_class(self.dictionary_, X[rows], label)
            atom_rows = rows
        with self._restore_on_error():
            self._append_rows(X, labels, numbers, names, atom_rows, split)
            if self._n_samples is not None:
                self._add_to_small(new, None if numbers is None else numbers[rows])
            elif recalibrate == "all":
                self._calibrate(dictionary)
            else:
                self._calibrate_new(dictionary, dictionary.class_of == number, *self._draw_class(dictionary))
            self._recalibrate_again()
            self.set_threshold(**self._threshold_arguments)
        return self

    def _check_more_samples(self, X: Any) -> Array:
        """Return features of samples for a model that is to be changed."""
        if isinstance(X, Queries) or self.dictionary_.is_precomputed:
            raise ValueError('X must hold features; with kernel="precomputed" a model cannot be changed: fit again.')
        return np.asarray(to_numpy(self._check_queries(X)), dtype=np.float64)

    def _check_not_calibrating(self, X: Array) -> None:
        """Raise a ValueError if most of the samples that are to be learned are those that calibrate the model."""
        if self._calibration_samples is None:
            return
        own = {row.tobytes() for row in np.asarray(self._calibration_samples, dtype=np.float64)}
        n = sum(row.tobytes() in own for row in X)
        if 2 * n > len(X):
            raise ValueError(
                f"X: {n} of {len(X)} samples calibrate the model, which must not learn them; update with others, or "
                "recalibrate with others first."
            )

    def _number_groups(self, groups: Any, n: int) -> tuple[IntArray | None, AnyArray | None]:
        """Return the numbers of the groups of new samples, and the names of all groups."""
        if (groups is None) != (self._row_groups is None):
            raise ValueError(
                "groups: the model was fitted with groups; give those of the new samples."
                if groups is None
                else "groups: the model was fitted without groups; leave them out, or fit again with them."
            )
        if self._group_names is None:
            return None, None
        return extend_groups(groups, self._group_names, n)

    def _split_off(self, X: Array, labels: AnyArray, numbers: IntArray | None) -> tuple[IntArray, IntArray]:
        """Return which new samples join the dictionary, and which the calibration split, if there is one."""
        if self._calibration_samples is None:
            return np.arange(len(X)), np.empty(0, np.int64)
        if self._is_recalibrated_by_groups:  # of which the names are not kept: any of them may return
            return np.arange(len(X)), np.empty(0, np.int64)
        rng, usable = check_random_state(self.random_state), np.asarray(X.any(axis=1))
        if numbers is None or self._row_groups is None or self._calibration_groups is None:
            return split_off_calibration(labels, usable, self.calibration_size, rng)
        # A group that the model has stays on its side, and only new ones are drawn.
        fresh = np.flatnonzero(~np.isin(numbers, self._row_groups))
        split = np.flatnonzero(np.isin(numbers, self._calibration_groups) & usable)
        if len(fresh):
            _, drawn = split_off_calibration(
                labels[fresh], usable[fresh], self.calibration_size, rng, numbers[fresh], may_empty_classes=True
            )
            split = np.union1d(split, fresh[drawn])
        return np.setdiff1d(np.arange(len(X)), split), split

    @property
    def _is_recalibrated_by_groups(self) -> bool:
        return self._recalibration is not None and self._calibration_groups is not None

    def _append_rows(
        self, X: Array, labels: AnyArray, numbers: IntArray | None, names: AnyArray | None, rows: IntArray,
        split: IntArray,
    ) -> None:  # fmt: skip
        """Number new samples after all earlier ones; some become the last atoms of the dictionary, some calibrate."""
        if self._calibration_samples is not None:
            self._calibration_samples = np.concatenate([self._calibration_samples, X[split]])
            self._calibration_labels = join_labels(self._calibration_labels, labels[split])
            if self._recalibration is not None and self._is_recalibrated_by_groups:
                self._recalibration = self._recalibration | {"exact": False}
            elif self._calibration_groups is not None and numbers is not None:
                self._calibration_groups = np.concatenate([self._calibration_groups, numbers[split]])
        if self._row_groups is not None and numbers is not None:
            self._row_groups, self._group_names = np.concatenate([self._row_groups, numbers]), names
        last = int(self.dictionary_.order.max()) + 1
        self.training_rows_ = np.concatenate([self.training_rows_[:last], self._n_rows + rows])
        self._n_rows, self._grown = self._n_rows + len(X), True

    def remove_class(self, label: Any, *, recalibrate: str = "none") -> Self:
        """Forget a class without fitting again.

        Parameters
        ----------
        label : label
            Among ``classes_``; at least two classes must remain.
        recalibrate : {"none", "all"}, default "none"
            "none": held-out samples of the other classes stay as they were coded. "all": they are coded again.
        """
        check_is_fitted(self, "calibration_")
        check_choice("recalibrate", recalibrate, ("none", "all"))
        self._find_class(label)
        if len(self.classes_) == 2:
            raise ValueError(f"class {label!r} cannot be removed: at least two classes must remain.")
        dictionary = self.dictionary_.drop(label)
        if self._n_samples is not None:
            check_small_recalibration(recalibrate, "none")
        with self._restore_on_error():
            self._drop_calibration_samples(dictionary, label)
            self._grown = True
            if recalibrate == "all":
                self._calibrate(dictionary)
            else:
                is_small, stays = self._n_samples is not None, self.classes_ != label
                cross_tests = move_cross_tests(self.calibration_, self.dictionary_, dictionary, of_atoms=not is_small)
                sizes = self._count_samples()[stays]
                calibration = update_calibration(self.calibration_, cross_tests, sizes, self.tail_size)
                scorer = None
                if is_small and isinstance(self._scorer, LandmarkScorer):
                    with one_blas_thread():
                        scorer = fit_sampled_scorer(
                            dictionary, self._class_scores, stand_in(dictionary, sizes), like=self._scorer.view,
                            n_jobs=1, device=find_device(self.device),
                        )  # fmt: skip
                self._class_sizes = sizes if is_small else None
                self._adopt(dictionary, calibration, self._class_scores, scorer)
            self._recalibrate_again()
            self.set_threshold(**self._threshold_arguments)
        return self

    def _count_samples(self) -> IntArray:
        """Return the number of samples of each class."""
        return count_atoms(self.dictionary_) if self._class_sizes is None else self._class_sizes

    def _update_small(
        self, X: Array, labels: AnyArray, rows: IntArray, split: IntArray, numbers: IntArray | None,
        names: AnyArray | None,
    ) -> Self:  # fmt: skip
        """Add samples of known classes to a small dictionary: as many atoms for them as it has for the others.

        The samples are scored by the model as it was, which had no part in them; those of groups that it has are not.
        """
        assert self._n_samples is not None
        old, sizes, n = self.dictionary_, self._count_samples(), self._n_samples
        scorer = self._scorer if isinstance(self._scorer, LandmarkScorer) else None
        class_of: Any = np.searchsorted(self.classes_, labels[rows])
        new = MoreSamples(old, self._make_sampler(), X[rows], class_of, sizes)
        device = find_device(self.device)
        tested = np.flatnonzero(X[rows].any(axis=1))
        if numbers is not None and self._row_groups is not None:  # the model has had a part in these
            tested = tested[~np.isin(numbers[rows][tested], self._row_groups)]
        added = CrossTest.concatenate([])
        if len(tested):
            with one_blas_thread():
                measures, scores = assess_rows(
                    old, scorer, new.rows[tested], self.problem_, self.n_jobs, device=device
                )  # fmt: skip
            coded = CodedHoldOut(HoldOut(n + tested, n + tested, np.arange(len(sizes))), 0, measures)
            added = build_cross_test(
                [coded], np.concatenate([np.zeros(n, np.int64), class_of]), None if scorer is None else [scores],
                self.calibration_.class_fusion, by_residual=self.label_by_ == "residual",
            )  # fmt: skip
        known, simulated, held_out = move_cross_tests(self.calibration_, old, new.dictionary, of_atoms=False)
        cross_tests = (CrossTest.concatenate([known, added]), simulated, CrossTest.concatenate([held_out, added]))
        sizes = sizes + np.bincount(class_of, minlength=len(sizes))
        calibration = update_calibration(self.calibration_, cross_tests, sizes, self.tail_size)
        with self._restore_on_error():
            self._append_rows(X, labels, numbers, names, rows[new.picked], split)
            self._n_samples, self._class_sizes = n + len(rows), sizes
            if scorer is not None:
                with one_blas_thread():
                    scorer = fit_sampled_scorer(
                        new.dictionary, self._class_scores, stand_in(new.dictionary, sizes), like=scorer.view,
                        n_jobs=self.n_jobs, device=device,
                    )  # fmt: skip
            self._adopt(new.dictionary, calibration, self._class_scores, scorer)
            self._recalibrate_again()
            self.set_threshold(**self._threshold_arguments)
        return self

    def _add_to_small(self, new: NewClass, groups: IntArray | None) -> None:
        """Add a class to a small dictionary, and its samples to the calibration."""
        assert self._n_samples is not None
        scorer, old = self._scorer if isinstance(self._scorer, LandmarkScorer) else None, self.calibration_
        sizes, rng = self._count_samples(), check_random_state(self.random_state)
        with one_blas_thread():
            grown, parts = new.assess(
                scorer, sizes, self._class_scores, self.problem_, rng, self.n_jobs, self.max_codings,
                find_device(self.device), groups,
            )  # fmt: skip
        present = np.arange(len(sizes) + 1)
        coded = [
            CodedHoldOut(HoldOut(self._n_samples + fold, fold, present), i, measures)
            for i, (fold, measures, _) in enumerate(parts)
        ]
        class_of = np.full(self._n_samples + len(new.rows), new.number)
        scores = None if grown is None else [part[2] for part in parts]
        by_residual = self.label_by_ == "residual"
        added = build_cross_test(coded, class_of, scores, old.class_fusion, by_residual=by_residual)
        known, simulated, held_out = move_cross_tests(old, self.dictionary_, new.dictionary, of_atoms=False)
        cross_tests = (CrossTest.concatenate([known, added]), simulated, CrossTest.concatenate([held_out, added]))
        sizes = np.insert(sizes, new.number, len(new.rows))
        calibration = update_calibration(old, cross_tests, sizes, self.tail_size)
        self._n_samples, self._class_sizes = self._n_samples + len(new.rows), sizes
        self._adopt(new.dictionary, calibration, self._class_scores, grown)

    def _group_atoms(self, dictionary: Dictionary) -> SampleGroups | None:
        """Return which atoms belong together."""
        numbers = self._find_atom_groups(dictionary)
        return None if numbers is None else SampleGroups(numbers, dictionary.class_of)

    def _draw_class(self, dictionary: Dictionary) -> tuple[list[IntArray], list[IntArray]]:
        """Draw the splits and folds of a dictionary with a new class, as a fit would."""
        rng = check_random_state(self.random_state)
        groups = self._group_atoms(dictionary)
        return draw_class_passes(dictionary, self.rule_, self.n_repeats, self.holdout, self.max_codings, rng, groups)

    def _draw_update(self, dictionary: Dictionary, is_new: AnyArray) -> tuple[list[IntArray], list[IntArray]]:
        """Draw the splits and folds of a dictionary with new samples: folds hold out these alone, and few at a time."""
        rng, groups = check_random_state(self.random_state), self._group_atoms(dictionary)
        slices = dictionary.class_slices
        splits: list[IntArray] = []
        if self.rule_ != "calibrated":  # which shows tails, but does not decide by them: held-out samples do for these
            splits, _ = draw_class_passes(
                dictionary, self.rule_, min(self.n_repeats, UPDATE_REPEATS), self.holdout, self.max_codings, rng, groups
            )
        drawn = draw_folds(slices, rng, UPDATE_FOLDS) if groups is None else groups.draw_folds(rng, UPDATE_FOLDS)
        folds = [fold[is_new[fold]] for fold in drawn]
        return splits, thin_splits(folds, dictionary.class_of, self.max_codings or MAX_CODINGS, rng)

    def _calibrate_new(
        self, dictionary: Dictionary, is_new: AnyArray, splits: list[IntArray], folds: list[IntArray]
    ) -> None:
        """Add held-out samples of a larger dictionary to the calibration, those of its new atoms."""
        scorer, calibration, groups = None, self.calibration_, self._group_atoms(dictionary)
        device = find_device(self.device)
        with one_blas_thread():
            never = find_landmarks(dictionary) if isinstance(calibration.rule, CalibratedRule) else None
            tester = CrossTester(
                dictionary, self.problem_, n_jobs=self.n_jobs, never_tested=never, device=device, groups=groups
            )
            new_known = tester.test_known(splits, only=is_new)
            plan = tester.hold_out_known(folds, only=is_new)
            if isinstance(calibration.rule, CalibratedRule):
                scorer = fit_scorer(
                    dictionary, self._class_scores, [held for _, held in plan], n_jobs=self.n_jobs, device=device
                )
            new_held_out = tester.build(
                tester.encode(plan),
                None if scorer is None else scorer.held_out,
                calibration.class_fusion,
                by_residual=self.label_by_ == "residual",
            )
            if scorer is not None:
                scorer.held_out = []
        known, simulated, old_held_out = move_cross_tests(self.calibration_, self.dictionary_, dictionary)
        cross_tests = (
            CrossTest.concatenate([known, new_known if splits else new_held_out]),
            simulated,
            CrossTest.concatenate([old_held_out, new_held_out]),
        )
        calibration = update_calibration(self.calibration_, cross_tests, count_atoms(dictionary), self.tail_size)
        self._adopt(dictionary, calibration, self._class_scores, scorer)

    def _forget_oldest(self, classes: IntArray, keep: int) -> None:
        """Leave out the oldest calibration samples of some classes, so many that their share is as in the fit."""
        if self._calibration_samples is None:
            return
        most = max(round(keep * self.calibration_size / (1.0 - self.calibration_size)), 1)
        class_of: Any = np.searchsorted(self.classes_, self._calibration_labels)
        rows = find_newest(np.arange(len(class_of)), class_of, classes, most)
        self._calibration_samples = self._calibration_samples[rows]
        self._calibration_labels = self._calibration_labels[rows]
        if self._calibration_groups is not None:
            self._calibration_groups = self._calibration_groups[rows]

    def _recalibrate_to(self, X: Array, y: Any, groups: Any, target: float | None) -> Self:
        """Calibrate by samples collected after the fit."""
        used = X.any(axis=1)
        labels = None if y is None else check_known_labels(to_numpy(y), self.classes_, len(X))[used]
        numbers = None if groups is None else np.unique(check_group_names(groups, len(X)), return_inverse=True)[1]
        numbers = None if numbers is None else numbers.reshape(-1)[used].astype(np.int64)
        X = X[used]
        facts: dict[str, Any] = {"labeled": y is not None, "exact": True, "fresh": True}
        if numbers is None and self._row_groups is not None:
            facts["exact"] = False  # samples of one group are not independent
        if numbers is None:
            check_enough(len(X), target)
        else:
            check_enough(len(np.unique(numbers)), target, "groups")
        if labels is None:
            labels = self.classes_[self._predict_raw(X).candidate]
        n_copies = int(find_copies(self.dictionary_, X).sum())
        if 2 * n_copies > len(X):
            warn(
                f"{n_copies} of {len(X)} samples are atoms of the model: they look more familiar than new samples, so "
                "that too many of those will be rejected; recalibrate with samples that it has not learned.",
                CalibrationWarning,
            )
            facts["exact"] = False
        with self._restore_on_error():
            self._calibration_samples, self._calibration_labels = X, labels
            self._calibration_groups, self._recalibration = numbers, facts
            self._recalibrate_again()
            self.set_threshold(**self._threshold_arguments)
        return self

    def _recalibrate_again(self) -> None:
        """Fit the distribution of a recalibrated model to its calibration samples, over the present dictionary."""
        self._split_scores, facts = None, self._recalibration
        if facts is None:
            return
        n = 0 if self._calibration_samples is None else len(self._calibration_samples)
        if n < LEAST_SAMPLES:
            warn(
                f"of the samples that the model was recalibrated with {n} are left, too few: it is calibrated by "
                "held-out training samples again.",
                CalibrationWarning,
            )
            self._recalibration, self._calibration_samples, self._calibration_groups = None, None, None
            self._calibration_labels = self._calibration_labels[:0]
            return
        rule = self.calibration_.rule
        if not isinstance(rule, CalibratedRule):
            return
        scores = rule.fusion.score(self._gather_evidence(self._calibration_samples).values)
        groups = np.arange(len(scores)) if self._calibration_groups is None else self._calibration_groups
        distribution = SplicedDistribution.fit(scores, self.tail_size, groups=groups, warn=False)
        self.calibration_ = replace(self.calibration_, rule=replace(rule, recalibrated=distribution))

    def _drop_calibration_samples(self, dictionary: Dictionary, label: Any) -> None:
        """Remove the samples of a class from the calibration split; ``dictionary`` is the one without the class."""
        if self._calibration_samples is None:
            return
        stay = self._calibration_labels != label
        if self._recalibration is not None and not self._recalibration["labeled"]:
            self._recalibration = self._recalibration | {"exact": False}  # chosen by candidates
        samples = self._calibration_samples[stay] if stay.any() else None
        if isinstance(samples, Queries):
            # Keep the similarities to the remaining rows, in their order.
            rows = np.isin(np.sort(self.dictionary_.order), dictionary.order)
            samples = Queries(samples.cross[:, rows], samples.squared_norms)
        self._calibration_samples, self._calibration_labels = samples, self._calibration_labels[stay]
        if self._calibration_groups is not None:
            self._calibration_groups = self._calibration_groups[stay]
