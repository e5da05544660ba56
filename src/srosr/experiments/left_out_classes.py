r"""Known classes left out in turn: a comparison of methods where there is no unknown sample.

Which method refuses strangers best cannot be asked of strangers nobody has met. But every known class can play one: in
a *round* the classes are dealt into groups, and each group is left out of training once, so that every class is unknown
in exactly one trial of a round. Of the classes that stay known, some samples are held out for testing.

A class with fewer than `LEAST_SAMPLES` samples cannot be in training and testing: it is only ever unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._support.array_types import Array, IntArray
from .._support.messages import count_of, join_names
from ..datasets import Dataset
from ..rivals import open_set_methods
from ..tables import standard_scale
from .protocol import UNKNOWN, KnownClasses, MethodSetting, Protocol, ProtocolError, Source, Trial, UnknownClasses

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LEAST_SAMPLES", "Rotation", "rotation_of", "usual_folds", "usual_rounds"]

#: Two to train on, which every method can do with, and one to test on.
LEAST_SAMPLES = 3
#: Known classes that every trial needs: among fewer nothing is recognised.
LEAST_KNOWN = 2
MOST_FOLDS = 5
ENOUGH_TRIALS = 10
SIGNIFICANCE = 0.05


@dataclass(frozen=True)
class Rotation(Protocol):
    """An experiment in which classes are left out in turn; trial t is group t mod `folds` of round t div `folds`.

    Attributes
    ----------
    folds : int
        Groups that the classes of a round are dealt into.
    standardise : bool
        Whether features are shifted and scaled to mean 0 and standard deviation 1, by the training samples of a trial.
    """

    folds: int = MOST_FOLDS
    standardise: bool = False

    def left_out(self, dataset: Dataset, round: int, seed: int = 0) -> list[IntArray]:
        """The groups of a round: class numbers, each class in one group, large classes spread evenly.

        Parameters
        ----------
        dataset : Dataset
        round, seed : int
            All that chance depends on.
        """
        rng = np.random.default_rng([seed, round, 2])
        able, small = _able_and_small(dataset)
        dealt = np.concatenate([rng.permutation(able), rng.permutation(small)])
        return [np.sort(dealt[fold :: self.folds]) for fold in range(self.folds)]

    def draw(self, dataset: Dataset, trial: int, seed: int = 0) -> Trial:
        """The samples of a trial: parts of the known classes to train and to test on, all samples of those left out.

        Parameters
        ----------
        dataset : Dataset
        trial, seed : int
            All that chance depends on.
        """
        round, fold = divmod(trial, self.folds)
        unknown = self.left_out(dataset, round, seed)[fold]
        known = np.setdiff1d(_able_and_small(dataset)[0], unknown)
        rng = np.random.default_rng([seed, trial])
        train, test = [], []
        for c in known:
            rows = rng.permutation(np.flatnonzero(dataset.y == c))
            n_test = self._n_test(len(rows))
            test.append(rows[:n_test])
            train.append(rows[n_test:])
        strangers = [np.flatnonzero(dataset.y == c) for c in unknown]
        rows, order = np.concatenate(train), rng.permutation(sum(map(len, train)))
        n_known, n_strangers = sum(map(len, test)), [len(part) for part in strangers]
        return Trial(
            rows[order],
            dataset.y[rows[order]],
            np.concatenate([*test, *strangers]),
            np.concatenate([*(dataset.y[part] for part in test), np.full(sum(n_strangers), UNKNOWN)]),
            np.concatenate([np.zeros(n_known, np.int64), np.repeat(np.arange(1, len(unknown) + 1), n_strangers)]),
            known,
            unknown,
            (len(unknown),),
        )

    def check(self, dataset: Dataset) -> None:
        """Refuse a data set whose classes cannot take turns."""
        able, small = _able_and_small(dataset)
        if len(able) < LEAST_KNOWN + 1:
            names = join_names([dataset.class_names[c] for c in small], 5)
            few = f" ({names} {'has' if len(small) == 1 else 'have'} fewer)" if len(small) else ""
            raise ProtocolError(
                f"{dataset.name} has {count_of(len(able), 'class', 'classes')} of at least {LEAST_SAMPLES} "
                f"samples{few}: three are needed, to leave one out and keep two known; add classes or samples."
            )
        if not 2 <= self.folds <= len(able) or len(able) - math.ceil(len(able) / self.folds) < LEAST_KNOWN:
            raise ProtocolError(
                f"{self.folds} folds of {len(able)} classes (of at least {LEAST_SAMPLES} samples) would leave an empty "
                f"group, or fewer than two known classes: take {usual_folds(len(able))}."
            )

    def prepared(self, X: Array, X_test: Array) -> tuple[Array, Array]:
        """Training and test vectors, standardised by the training ones where that is asked for."""
        if not self.standardise:
            return X, X_test
        centre, scale = standard_scale(X)
        return (X - centre) / scale, (X_test - centre) / scale

    def reported(self, results: pd.DataFrame) -> tuple[pd.DataFrame, str | None]:
        """The results at one level: groups may differ by a class, and their trials are still to be compared as one."""
        if results.empty:
            return results, None
        of_trials = results.drop_duplicates("trial")
        opened, counts = of_trials["openness"], sorted({int(n) for n in of_trials["n_unknown"]})
        shown = [f"{100 * value:.2f}" for value in sorted({opened.min(), opened.max()})]
        classes = " or ".join(map(str, counts)) if len(counts) < 3 else f"{counts[0]} to {counts[-1]}"
        left = "1 class" if counts == [1] else f"{classes} classes"
        words = f"openness {' to '.join(shown)}\N{NO-BREAK SPACE}% ({left} left out in turn)"
        return results.assign(n_unknown=counts[-1], openness=float(opened.mean())), words

    def facts(self) -> list[tuple[str, str]]:
        """How classes take turns, for a report."""
        share = 1.0 - float(self.known.train)
        return [
            (
                "unknown classes",
                f"every class in turn: {self.folds} groups, dealt anew in each round, left out one by one",
            ),
            (
                "known classes",
                f"all others; {share:.0%} of the samples of each, drawn anew in each trial, are for testing",
            ),
            ("tested on", "the held-out samples of known classes and all samples of the classes left out"),
            ("columns", "standardised on the training samples of each trial" if self.standardise else "as they are"),
        ]

    def _n_test(self, n: int) -> int:
        """Of so many samples, those for testing: one at least, and two are left."""
        return min(max(round((1.0 - float(self.known.train)) * n), 1), n - 2)


def rotation_of(
    dataset: Dataset,
    *,
    file: str,
    folds: int | None = None,
    rounds: int | None = None,
    test_share: float = 0.3,
    target_rejection: float = 0.05,
    standardise: bool = False,
    methods: Iterable[str] | None = None,
) -> Rotation:
    """The comparison of all methods on a data set, with the parameters that they have by default.

    Parameters
    ----------
    dataset : Dataset
    file : str
        Where workers find it.
    folds : int, optional
        None: as many as there are classes, at most five.
    rounds : int, optional
        None: so many that there are ten trials, and enough to tell the methods apart.
    test_share : float
        Of the samples of a known class.
    target_rejection : float
        Share of known samples that every method may refuse, by its own means.
    standardise : bool
    methods : iterable of str, optional
        Those that are to run, to choose the number of rounds by; None: all.

    Raises
    ------
    ProtocolError
        If the classes cannot take turns.
    """
    able, small = _able_and_small(dataset)
    folds = usual_folds(len(able)) if folds is None else folds
    usual = open_set_methods()
    n_methods = len(usual) if methods is None else len(set(methods))
    rounds = usual_rounds(folds, n_methods) if rounds is None else rounds
    largest = math.ceil((len(able) + len(small)) / folds)
    settings = []
    for name, clf in usual.items():
        # What is compared is what a fit with the method's defaults would be.
        own = {key: value for key, value in clf.get_params(deep=False).items() if key == "normalize"}
        settings.append(MethodSetting(name, name, {"target_rejection": target_rejection} | own))
    rotation = Rotation(
        dataset.name,
        f"Comparison on {dataset.name}",
        "Which method suits these data? Known classes play the unknown ones: they are dealt into groups, and each "
        "group is left out of training once a round. Every method is fitted to the same samples, with its defaults "
        f"and a threshold that is to refuse {100 * target_rejection:g} % of known samples, and then meets held-out "
        "samples of the known classes and all of those left out.",
        folds * rounds,
        Source(file=file),
        KnownClasses(max(len(able) - largest, LEAST_KNOWN), 1.0 - test_share),
        UnknownClasses((largest,)),
        tuple(settings),
        {} if dataset.pictures else None,
        folds,
        standardise,
    )
    rotation.check(dataset)
    return rotation


def usual_folds(n_classes: int) -> int:
    """Groups for so many classes: one a class, at most five."""
    return max(2, min(n_classes, MOST_FOLDS))


def usual_rounds(folds: int, n_methods: int) -> int:
    """Rounds that make ten trials, or as many as it takes to tell so many methods apart at all.

    The smallest p-value of Wilcoxon's signed-rank test over n trials is :math:`2^{1-n}`, and Holm's correction
    multiplies it by the number of comparisons.
    """
    needed = 2 + math.floor(math.log2(max(n_methods - 1, 1) / SIGNIFICANCE))
    return math.ceil(max(ENOUGH_TRIALS, needed) / folds)


def _able_and_small(dataset: Dataset) -> tuple[IntArray, IntArray]:
    """Classes that can be known, and those that have too few samples for it; classes without any are neither."""
    sizes = np.bincount(dataset.y, minlength=len(dataset.class_names))
    return np.flatnonzero(sizes >= LEAST_SAMPLES), np.flatnonzero((sizes > 0) & (sizes < LEAST_SAMPLES))
