"""A protocol that leaves known classes out in turn, to compare methods without unknown samples.

In a *round* the classes are divided into groups, and each group is left out of training once, so that every class is a
simulated unknown in exactly one trial of the round. Of the classes that remain known, some samples are held out for
testing.

A class with fewer than `LEAST_SAMPLES` samples is too small for both training and testing and is always unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._support.array_types import Array, IntArray
from .._support.messages import count_of, join_names
from ..datasets.dataset import Dataset
from ..rivals.methods import open_set_methods
from ..tables.feature_recipe import compute_scale
from .protocol import KnownClasses, MethodSetting, Protocol, ProtocolError, Source, Trial, UnknownClasses

if TYPE_CHECKING:
    import pandas as pd

#: Two samples for training, the least that every method accepts, and one for testing.
LEAST_SAMPLES = 3
#: Known classes that every trial needs.
LEAST_KNOWN = 2
MOST_FOLDS = 5
ENOUGH_TRIALS = 10
SIGNIFICANCE = 0.05


@dataclass(frozen=True)
class ComparisonProtocol(Protocol):
    """A protocol that leaves classes out in turn; trial t uses group t mod `folds` of round t div `folds`.

    Attributes
    ----------
    folds : int
        Number of groups in a round.
    standardize : bool
        Whether features are scaled to mean 0 and standard deviation 1 over the training samples of a trial.
    """

    folds: int = MOST_FOLDS
    standardize: bool = False

    def deal_groups(self, dataset: Dataset, round: int, seed: int = 0) -> list[IntArray]:
        """Return the class numbers of each group of a round; small classes are spread evenly."""
        rng = np.random.default_rng([seed, round, 2])
        able, small = _split_by_size(dataset)
        dealt = np.concatenate([rng.permutation(able), rng.permutation(small)])
        return [np.sort(dealt[fold :: self.folds]) for fold in range(self.folds)]

    def draw(self, dataset: Dataset, trial: int, seed: int = 0) -> Trial:
        """Draw the samples of a trial: all samples of the classes left out are test samples.

        Parameters and errors are those of :meth:`Protocol.draw`.
        """
        round, fold = divmod(trial, self.folds)
        unknown = self.deal_groups(dataset, round, seed)[fold]
        known = np.setdiff1d(_split_by_size(dataset)[0], unknown)
        rng = np.random.default_rng([seed, trial])
        parts = []
        for c in known:
            rows = rng.permutation(np.flatnonzero(dataset.y == c))
            n_test = self._count_test(len(rows))
            parts.append((rows[n_test:], rows[:n_test]))
        others = [np.flatnonzero(dataset.y == c) for c in unknown]
        return Trial.assemble(parts, others, (known, unknown), (len(unknown),), rng)

    def check(self, dataset: Dataset) -> None:
        """Raise ProtocolError if there are too few classes to leave any out."""
        able, small = _split_by_size(dataset)
        if len(able) < LEAST_KNOWN + 1:
            names = join_names([dataset.class_names[c] for c in small], 5)
            few = f" ({names} {'has' if len(small) == 1 else 'have'} fewer)" if len(small) else ""
            raise ProtocolError(
                f"{dataset.name} has {count_of(len(able), 'class', 'classes')} of at least {LEAST_SAMPLES} "
                f"samples{few}; at least three are needed, so that two stay known when one is left out."
            )
        if not 2 <= self.folds <= len(able) or len(able) - math.ceil(len(able) / self.folds) < LEAST_KNOWN:
            raise ProtocolError(
                f"{self.folds} folds of {len(able)} classes (of at least {LEAST_SAMPLES} samples) would have an empty "
                f"group or leave fewer than two known classes; use {choose_folds(len(able))}."
            )

    def prepare_features(self, X: Array, X_test: Array) -> tuple[Array, Array]:
        """Return training and test vectors, standardized by the training vectors if `standardize` is set."""
        if not self.standardize:
            return X, X_test
        center, scale = compute_scale(X)
        return (X - center) / scale, (X_test - center) / scale

    def merge_levels(self, results: pd.DataFrame) -> tuple[pd.DataFrame, str | None]:
        """Return the results with one common level, since groups may differ by a class, and the openness in words."""
        if results.empty:
            return results, None
        of_trials = results.drop_duplicates("trial")
        opened, counts = of_trials["openness"], sorted({int(n) for n in of_trials["n_unknown"]})
        shown = [f"{100 * value:.2f}" for value in sorted({opened.min(), opened.max()})]
        classes = " or ".join(map(str, counts)) if len(counts) < 3 else f"{counts[0]} to {counts[-1]}"
        left = "1 class" if counts == [1] else f"{classes} classes"
        words = f"openness {' to '.join(shown)}\N{NO-BREAK SPACE}% ({left} left out in turn)"
        return results.assign(n_unknown=counts[-1], openness=float(opened.mean())), words

    def describe(self) -> list[tuple[str, str]]:
        """Return (name, text) pairs for a report: how classes are left out."""
        groups = f"{self.folds} groups, drawn anew in each round, are left out one after another"
        held_out = f"{1.0 - float(self.known.train):.0%} of the samples of each, drawn anew in each trial"
        return [
            ("unknown classes", f"every class in turn: {groups}"),
            ("known classes", f"all others; {held_out}, are held out for testing"),
            ("test samples", "the held-out samples of known classes and all samples of the classes left out"),
            ("columns", "standardized on the training samples of each trial" if self.standardize else "unchanged"),
        ]

    def _count_test(self, n: int) -> int:
        """Return how many of n samples are for testing: at least one, and at most n - 2."""
        return min(max(round((1.0 - float(self.known.train)) * n), 1), n - 2)


def plan_comparison(
    dataset: Dataset,
    *,
    file: str,
    folds: int | None = None,
    rounds: int | None = None,
    test_share: float = 0.3,
    target_rejection: float = 0.05,
    standardize: bool = False,
    methods: Iterable[str] | None = None,
) -> ComparisonProtocol:
    """Return the protocol that compares all methods on a data set, each with its default parameters.

    Workers read the data set from ``file``. By default there are as many ``folds`` as classes, at most five, and the
    fewest ``rounds`` that give ten trials and can separate the ``methods`` that will run (None: all). ``test_share`` is
    the share of the samples of a known class that are for testing, ``target_rejection`` the share of known samples that
    the threshold of every method may reject. Raises ProtocolError if there are too few classes.
    """
    able, small = _split_by_size(dataset)
    folds = choose_folds(len(able)) if folds is None else folds
    usual = open_set_methods()
    n_methods = len(usual) if methods is None else len(set(methods))
    rounds = choose_rounds(folds, n_methods) if rounds is None else rounds
    largest = math.ceil((len(able) + len(small)) / folds)
    settings = []
    for name, clf in usual.items():
        # The comparison is between fits with the methods' own defaults.
        own = {key: value for key, value in clf.get_params(deep=False).items() if key == "normalize"}
        settings.append(MethodSetting(name, name, {"target_rejection": target_rejection} | own))
    protocol = ComparisonProtocol(
        dataset.name,
        f"Comparison on {dataset.name}",
        "Which method suits these data? Known classes serve as simulated unknowns: they are divided into groups, and "
        "each group is left out of training once per round. Every method is fitted to the same samples with its "
        f"default parameters and a threshold that should reject {100 * target_rejection:g} % of known samples. It is "
        "tested on held-out samples of the known classes and on all samples of the classes left out.",
        folds * rounds,
        Source(file=file),
        KnownClasses(max(len(able) - largest, LEAST_KNOWN), 1.0 - test_share),
        UnknownClasses((largest,)),
        tuple(settings),
        {} if dataset.pictures else None,
        folds,
        standardize,
    )
    protocol.check(dataset)
    return protocol


def choose_folds(n_classes: int) -> int:
    """Return the default number of groups: one per class, at most five."""
    return max(2, min(n_classes, MOST_FOLDS))


def choose_rounds(folds: int, n_methods: int) -> int:
    """Return the default number of rounds: enough for ten trials, and to separate so many methods at all.

    The smallest p-value of Wilcoxon's signed-rank test over n trials is :math:`2^{1-n}`, and Holm's correction
    multiplies it by the number of comparisons.
    """
    needed = 2 + math.floor(math.log2(max(n_methods - 1, 1) / SIGNIFICANCE))
    return math.ceil(max(ENOUGH_TRIALS, needed) / folds)


def _split_by_size(dataset: Dataset) -> tuple[IntArray, IntArray]:
    """Return the classes that can be known and those with too few samples; classes without samples are neither."""
    sizes = np.bincount(dataset.y, minlength=len(dataset.class_names))
    return np.flatnonzero(sizes >= LEAST_SAMPLES), np.flatnonzero((sizes > 0) & (sizes < LEAST_SAMPLES))
