"""The protocol of an experiment: data, known and unknown classes, samples of each, methods.

A protocol is read and checked once (:mod:`srosr.experiments.protocol_file`). A trial depends on the protocol, its
number and a seed alone (:meth:`Protocol.draw`), so that every method, on every machine, gets the same samples. Levels
of openness are nested: a trial orders its unknown classes once and uses the first u of them at level u, so that each
sample is coded once per trial.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.array_types import AnyArray, Array, IntArray
from .._support.messages import did_you_mean, join_names
from ..datasets.dataset import Dataset
from ..metrics.unknown_classes import openness

if TYPE_CHECKING:
    import pandas as pd

#: Valid names of methods, which are also names of files.
METHOD_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}", re.ASCII)
#: Label of a test sample whose class is not known.
UNKNOWN = -1


class ProtocolError(ValueError):
    """An invalid protocol; the message names the file and the entry and says what to do."""


@dataclass(frozen=True)
class Source:
    """The source of the samples.

    Attributes
    ----------
    set : str or None
        A name in :data:`srosr.datasets.registry.DATASETS`.
    file : str or None
        Instead of `set`: the path of an ``.npz`` or ``.csv`` file, or of a folder of pictures.
    exclude : tuple of str
        Classes that are not used.
    drop_empty : bool
        Leave out samples that are all zero: they have no direction.
    """

    set: str | None = None
    file: str | None = None
    exclude: tuple[str, ...] = ()
    drop_empty: bool = False


@dataclass(frozen=True)
class KnownClasses:
    """The known classes of a trial.

    Attributes
    ----------
    classes : int
        Number of classes.
    train : int or float
        Training samples per class; a float is a share of the samples, at most 1.0.
    test : int or None
        Test samples per class, disjoint from the training samples; None takes all that are left.
    part, test_part : str or None
        Parts of the data set for training and testing; None takes any.
    """

    classes: int
    train: int | float
    test: int | None = None
    part: str | None = None
    test_part: str | None = None


@dataclass(frozen=True)
class UnknownClasses:
    """The unknown classes of a trial, which occur in testing only.

    Attributes
    ----------
    classes : tuple of int
        Number of classes at each level of openness, in rising order.
    test : int or None
        Samples per class; None takes all.
    part : str or None
        Part of the data set that they come from; None takes any.
    """

    classes: tuple[int, ...]
    test: int | None = None
    part: str | None = None


@dataclass(frozen=True)
class MethodSetting:
    """A method of the experiment.

    Attributes
    ----------
    name : str
        Name in tables and figures.
    method : str
        A name in :func:`srosr.open_set_methods`.
    parameters : dict
        Parameters that differ from the method's defaults, as in the file.
    follows_openness : bool
        Whether the method is given the openness of each level (the paper's weight and W-SVM's threshold depend on it).
    trials : int or None
        Run only the first `trials` trials.
    coverage : bool
        Whether thresholds for target rates are measured. That needs held-out scores, which a method with a fixed
        threshold may not have.
    """

    name: str
    method: str
    parameters: dict[str, Any] = field(default_factory=dict)
    follows_openness: bool = False
    trials: int | None = None
    coverage: bool = True


@dataclass(frozen=True, eq=False)
class Trial:
    """The samples of one trial.

    Attributes
    ----------
    train, test : ndarray of int
        Rows of the data set.
    y_train, y_test : ndarray of int
        Class numbers of the data set; ``UNKNOWN`` (−1) for test samples of unknown classes.
    arrival : ndarray of int (n_test,)
        0 for known test samples, i for samples of the i-th unknown class; level u has those up to u.
    known, unknown : ndarray of int
        Class numbers; the unknown ones in the order in which levels add them.
    levels : tuple of int
        Numbers of unknown classes.
    """

    train: IntArray
    y_train: IntArray
    test: IntArray
    y_test: IntArray
    arrival: IntArray
    known: IntArray
    unknown: IntArray
    levels: tuple[int, ...]

    def openness(self, level: int) -> float:
        """Return the openness with ``level`` unknown classes."""
        return openness(len(self.known), len(self.known), len(self.known) + level)

    @classmethod
    def assemble(
        cls,
        known: Sequence[tuple[IntArray, IntArray]],
        unknown: Sequence[IntArray],
        classes: tuple[IntArray, IntArray],
        levels: tuple[int, ...],
        rng: np.random.Generator,
    ) -> Trial:
        """Return a trial with shuffled training samples.

        ``known`` has the training and test rows of each known class, ``unknown`` the test rows of each unknown class,
        and ``classes`` the numbers of the known and of the unknown classes.
        """
        sizes = [[len(part) for part in parts] for parts in (*zip(*known, strict=True), unknown)]
        train, test = (np.concatenate(parts) for parts in zip(*known, strict=True))
        order = rng.permutation(len(train))
        arrival = np.repeat(np.arange(1, len(unknown) + 1), sizes[2])
        return cls(
            train[order],
            np.repeat(classes[0], sizes[0])[order],
            np.concatenate([test, *unknown]),
            np.concatenate([np.repeat(classes[0], sizes[1]), np.full(len(arrival), UNKNOWN)]),
            np.concatenate([np.zeros(len(test), np.int64), arrival]),
            *classes,
            levels,
        )


@dataclass(frozen=True)
class Protocol:
    """The protocol of an experiment.

    Attributes
    ----------
    name, title, about : str
    trials : int
    data : Source
    known : KnownClasses
    unknown : UnknownClasses
    methods : tuple of MethodSetting
    features : dict or None
        Parameters of :class:`srosr.SpatialPyramid` for a data set of pictures.
    """

    name: str
    title: str
    about: str
    trials: int
    data: Source
    known: KnownClasses
    unknown: UnknownClasses
    methods: tuple[MethodSetting, ...]
    features: dict[str, Any] | None = None

    @property
    def levels(self) -> dict[int, float]:
        """The openness for each number of unknown classes."""
        n = self.known.classes
        return {u: openness(n, n, n + u) for u in self.unknown.classes}

    def find_method(self, name: str) -> MethodSetting:
        """Return the method with this name."""
        for setting in self.methods:
            if setting.name == name:
                return setting
        names = [m.name for m in self.methods]
        raise ProtocolError(
            f"{self.name} has no method {name!r}{did_you_mean(name, names)}; its methods are {join_names(names)}."
        )

    def identity(self) -> dict[str, Any]:
        """Return everything that a trial depends on: all but title, description and number of trials."""
        whole = asdict(self)
        for word in ("title", "about", "trials"):
            del whole[word]
        # The path of a user's file does not matter; its content has a fingerprint.
        whole["data"]["file"] = None
        if self.known.train == 1.0 and isinstance(self.known.train, float):
            whole["known"]["train"] = "all"
        whole["methods"] = {m.pop("name"): m for m in whole["methods"]}
        for m in whole["methods"].values():
            del m["trials"]
        return whole

    def load_dataset(self) -> Dataset:
        """Load the data set."""
        from ..datasets.registry import load_dataset
        from ..datasets.user_data import read_dataset

        if self.data.file is not None:
            return read_dataset(self.data.file)
        assert self.data.set is not None
        return load_dataset(self.data.set)

    def draw(self, dataset: Dataset, trial: int, seed: int = 0) -> Trial:
        """Draw the samples of a trial.

        Parameters
        ----------
        dataset : Dataset
        trial, seed : int
            The random numbers depend on these alone.

        Raises
        ------
        ProtocolError
            If the data set lacks the requested classes or samples.
        """
        rng = np.random.default_rng([seed, trial])
        pools = self._find_pools(dataset)
        known = np.sort(rng.permutation(self._find_known(dataset, pools))[: self.known.classes])
        unknown = rng.permutation(np.setdiff1d(self._find_unknown(pools), known))
        self._check_unknown(len(unknown), dataset)
        unknown = unknown[: self.unknown.classes[-1]]
        parts = []
        for c in known:
            rows = rng.permutation(pools.train[c])
            cut = self._count_train(len(rows))
            left = rows[cut:] if pools.shared else rng.permutation(pools.test[c])
            parts.append((rows[:cut], left[: self.known.test]))
        others = [rng.permutation(pools.unknown[c])[: self.unknown.test] for c in unknown]
        return Trial.assemble(parts, others, (known, unknown), self.unknown.classes, rng)

    def check(self, dataset: Dataset) -> None:
        """Raise ProtocolError if some trial could not be drawn from the data set."""
        pools = self._find_pools(dataset)
        known, unknown = self._find_known(dataset, pools), self._find_unknown(pools)
        self._check_unknown(len(unknown) - min(self.known.classes, len(np.intersect1d(known, unknown))), dataset)
        if dataset.pictures and self.features is None:
            raise ProtocolError(
                f"{self.name}: {dataset.name} holds pictures; add a table [features] that says how to describe them."
            )
        if not dataset.pictures and self.features is not None:
            raise ProtocolError(f"{self.name}: [features] is for pictures, but {dataset.name} holds feature vectors.")

    def prepare_features(self, X: Array, X_test: Array) -> tuple[Array, Array]:
        """Return training and test vectors as the methods get them: unchanged."""
        return X, X_test

    def merge_levels(self, results: pd.DataFrame) -> tuple[pd.DataFrame, str | None]:
        """Return the results as a report shows them, and a description of the openness that replaces the report's."""
        return results, None

    def describe(self) -> list[tuple[str, str]]:
        """Return (name, text) pairs for a report: how classes and samples are drawn."""
        known, unknown, levels = self.known, self.unknown, list(self.levels.values())
        train = f"{known.train:.0%} of its samples" if isinstance(known.train, float) else f"{known.train} samples"
        part, test_part, other = (f" of part {p}" if p else "" for p in (known.part, known.test_part, unknown.part))
        classes = f"{unknown.classes[0]} to {unknown.classes[-1]}" if len(unknown.classes) > 1 else unknown.classes[0]
        return [
            ("known classes", f"{known.classes}, each trained on {train}{part}"),
            ("test samples", f"{_count_samples(known.test)} of each known class{test_part}"),
            ("unknown classes", f"{classes}, {_count_samples(unknown.test)} of each{other}"),
            ("sampling", "without replacement; larger sets of unknown classes contain the smaller ones"),
            ("openness", f"{100 * levels[0]:.2f} % to {100 * levels[-1]:.2f} %"),
        ]

    # -- steps of a draw -----------------------------------------------------------------------------------

    def _check_unknown(self, left: int, dataset: Dataset) -> None:
        """Raise ProtocolError if the known classes leave too few unknown ones."""
        if left < self.unknown.classes[-1]:
            wanted = "a sample" if self.unknown.test is None else f"the requested {self.unknown.test} samples"
            raise ProtocolError(
                f"{self.name}: [unknown] classes goes up to {self.unknown.classes[-1]}, but {self.known.classes} known "
                f"classes can leave only {max(left, 0)} of {dataset.name}{self._describe_source(dataset)} that have "
                f"{wanted}."
            )

    def _describe_source(self, dataset: Dataset) -> str:
        """Return where a user's file has its classes from, for messages."""
        return "" if self.data.file is None else f" ({dataset.source})"

    def _count_train(self, n: int) -> int:
        return round(self.known.train * n) if isinstance(self.known.train, float) else self.known.train

    def _find_pools(self, dataset: Dataset) -> _Pools:
        usable = np.ones(len(dataset.y), bool)
        for name in self.data.exclude:
            if name not in dataset.class_names:
                near = did_you_mean(name, dataset.class_names)
                raise ProtocolError(
                    f"{self.name}: [data] exclude names {name!r}, which is not a class of {dataset.name}{near}."
                )
            usable &= dataset.y != dataset.class_names.index(name)
        if self.data.drop_empty and not dataset.pictures:
            usable &= np.asarray(dataset.X).any(axis=1)

        def find_rows(part: str | None, key: str) -> list[IntArray]:
            there = usable
            if part is not None:
                parts = () if dataset.part is None else tuple(np.unique(dataset.part).tolist())
                if part not in parts:
                    has = f"it has {join_names(parts)}" if parts else "it has no parts"
                    raise ProtocolError(f"{self.name}: {key} = {part!r} is not a part of {dataset.name}; {has}.")
                there = usable & (dataset.part == part)
            return [np.flatnonzero(there & (dataset.y == c)) for c in range(len(dataset.class_names))]

        known, unknown = self.known, self.unknown
        return _Pools(
            find_rows(known.part, "[known] part"),
            find_rows(known.test_part, "[known] test_part"),
            find_rows(unknown.part, "[unknown] part"),
            shared=known.part == known.test_part,
        )

    def _find_known(self, dataset: Dataset, pools: _Pools) -> AnyArray:
        """Return the classes that have the requested training and test samples."""
        wanted = 1 if self.known.test is None else self.known.test
        enough = []
        for c, rows in enumerate(pools.train):
            n = self._count_train(len(rows))
            left = len(rows) - n if pools.shared else len(pools.test[c])
            # With a share, the number of test samples is an upper limit.
            least = 1 if pools.shared and isinstance(self.known.train, float) else wanted
            if n >= 1 and len(rows) >= n and left >= least:
                enough.append(c)
        if len(enough) < self.known.classes:
            train = f"{self.known.train:.0%}" if isinstance(self.known.train, float) else str(self.known.train)
            raise ProtocolError(
                f"{self.name}: [known] asks for {self.known.classes} classes with {train} training and {wanted} test "
                f"samples, but only {len(enough)} of the {len(dataset.class_names)} classes of "
                f"{dataset.name}{self._describe_source(dataset)} have them."
            )
        return np.array(enough)

    def _find_unknown(self, pools: _Pools) -> AnyArray:
        wanted = 1 if self.unknown.test is None else self.unknown.test
        return np.array([c for c, rows in enumerate(pools.unknown) if len(rows) >= wanted], dtype=np.int64)


@dataclass(frozen=True)
class _Pools:
    """Rows of every class for training, testing, and as an unknown class; ``shared`` if the first two are the same."""

    train: list[IntArray]
    test: list[IntArray]
    unknown: list[IntArray]
    shared: bool


def _count_samples(n: int | None) -> str:
    return "all other samples" if n is None else f"{n} samples"
