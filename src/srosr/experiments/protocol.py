r"""What an experiment is: data, known and unknown classes, samples of each, methods. Written in a TOML file.

A protocol is read and checked once (:mod:`srosr.experiments.protocol_file`); a trial is drawn from it by its number and
a seed alone (:meth:`Protocol.draw`), so that every method, on every machine, meets the same samples. The openness sweep
is nested: a trial draws its unknown classes in one order and meets the first u of them at level u, so that larger
levels hold smaller ones and a sample is coded once a trial.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.array_types import AnyArray, Array, IntArray
from .._support.messages import did_you_mean, join_names
from ..datasets import Dataset
from ..metrics import openness

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MethodSetting", "Protocol", "ProtocolError", "Trial"]

#: What a method may be called: its name is also one of a file.
METHOD_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}", re.ASCII)
#: Label of a test sample whose class is not known.
UNKNOWN = -1


class ProtocolError(ValueError):
    """A protocol that cannot be carried out: which file, which entry, and what to do."""


@dataclass(frozen=True)
class Source:
    """Where the samples come from.

    Attributes
    ----------
    set : str or None
        A name of :data:`srosr.datasets.DATASETS`.
    file : str or None
        Instead of it: the path of an ``.npz`` or ``.csv`` file, or of a folder of pictures.
    exclude : tuple of str
        Classes that are left alone.
    drop_empty : bool
        Leave out samples that are all zero: they have no direction, and nothing can be said of them.
    """

    set: str | None = None
    file: str | None = None
    exclude: tuple[str, ...] = ()
    drop_empty: bool = False


@dataclass(frozen=True)
class KnownClasses:
    """Classes that are learnt.

    Attributes
    ----------
    classes : int
        How many.
    train : int or float
        Training samples of each; a float is a share of its samples, up to 1.0, which is all.
    test : int or None
        Test samples of each, none of them a training sample; None: all that are left.
    part, test_part : str or None
        Parts of the data set to train and to test on; None: any.
    """

    classes: int
    train: int | float
    test: int | None = None
    part: str | None = None
    test_part: str | None = None


@dataclass(frozen=True)
class UnknownClasses:
    """Classes that are met in testing only.

    Attributes
    ----------
    classes : tuple of int
        How many at each level of openness, rising.
    test : int or None
        Samples of each; None: all.
    part : str or None
        Part of the data set they are from.
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
        In tables and figures.
    method : str
        A name of :func:`srosr.open_set_methods`.
    parameters : dict
        Parameters that differ from the method's defaults, as in the file.
    follows_openness : bool
        Whether the method is told the openness of each level (the paper's weight and W-SVM's threshold depend on it).
    trials : int or None
        At most so many trials, the first ones.
    coverage : bool
        Whether thresholds by a target rate are looked at; that takes held-out scores, which a method with a threshold
        of its own need not have.
    """

    name: str
    method: str
    parameters: dict[str, Any] = field(default_factory=dict)
    follows_openness: bool = False
    trials: int | None = None
    coverage: bool = True


@dataclass(frozen=True, eq=False)
class Trial:
    """One drawing of an experiment.

    Attributes
    ----------
    train, test : ndarray of int
        Rows of the data set.
    y_train, y_test : ndarray of int
        Class numbers of the data set; ``UNKNOWN`` (−1) for test samples of unknown classes.
    arrival : ndarray of int (n_test,)
        0 for known test samples, i for those of the i-th unknown class: level u meets those up to u.
    known, unknown : ndarray of int
        Class numbers; the unknown ones in the order of their arrival.
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
        """Openness where ``level`` unknown classes are met."""
        return openness(len(self.known), len(self.known), len(self.known) + level)


@dataclass(frozen=True)
class Protocol:
    """An experiment.

    Attributes
    ----------
    name, title, about : str
    trials : int
    data : Source
    known : KnownClasses
    unknown : UnknownClasses
    methods : tuple of MethodSetting
    features : dict or None
        Parameters of :class:`srosr.features.SpatialPyramid` for a data set of pictures.
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
        """Openness of each number of unknown classes."""
        n = self.known.classes
        return {u: openness(n, n, n + u) for u in self.unknown.classes}

    def method(self, name: str) -> MethodSetting:
        """A method by its name."""
        for setting in self.methods:
            if setting.name == name:
                return setting
        names = [m.name for m in self.methods]
        raise ProtocolError(
            f"{name!r} is not a method of {self.name}{did_you_mean(name, names)}; it has {join_names(names)}."
        )

    def identity(self) -> dict[str, Any]:
        """What a trial depends on: everything but words and the number of trials."""
        whole = asdict(self)
        for word in ("title", "about", "trials"):
            del whole[word]
        # Whatever the path of a file of one's own, what is in it counts, and that has a fingerprint.
        whole["data"]["file"] = None
        if self.known.train == 1.0 and isinstance(self.known.train, float):
            whole["known"]["train"] = "all"
        whole["methods"] = {m.pop("name"): m for m in whole["methods"]}
        for m in whole["methods"].values():
            del m["trials"]
        return whole

    def dataset(self) -> Dataset:
        """The data set, loaded."""
        from ..datasets import load_dataset, read_dataset

        if self.data.file is not None:
            return read_dataset(self.data.file)
        assert self.data.set is not None
        return load_dataset(self.data.set)

    def draw(self, dataset: Dataset, trial: int, seed: int = 0) -> Trial:
        """Draw a trial.

        Parameters
        ----------
        dataset : Dataset
        trial, seed : int
            All that chance depends on.

        Raises
        ------
        ProtocolError
            Where the data set does not have the classes or samples asked for.
        """
        rng = np.random.default_rng([seed, trial])
        pools = self._pools(dataset)
        known = np.sort(rng.permutation(self._enough_known(dataset, pools))[: self.known.classes])
        unknown = rng.permutation(np.setdiff1d(self._enough_unknown(dataset, pools), known))
        most = self.unknown.classes[-1]
        self._check_unknown(len(unknown), dataset)
        unknown = unknown[:most]
        train, test = [], []
        for c in known:
            rows = rng.permutation(pools.train[c])
            cut = self._n_train(len(rows))
            train.append(rows[:cut])
            left = rows[cut:] if pools.shared else rng.permutation(pools.test[c])
            test.append(left[: self.known.test])
        strangers = [rng.permutation(pools.unknown[c])[: self.unknown.test] for c in unknown]
        rows, tests = np.concatenate(train), np.concatenate(test)
        order = rng.permutation(len(rows))
        labels = np.repeat(known, [len(part) for part in train])
        arrival = np.repeat(np.arange(1, most + 1), [len(part) for part in strangers])
        return Trial(
            rows[order],
            labels[order],
            np.concatenate([tests, *strangers]),
            np.concatenate([np.repeat(known, [len(part) for part in test]), np.full(len(arrival), UNKNOWN)]),
            np.concatenate([np.zeros(len(tests), np.int64), arrival]),
            known,
            unknown,
            self.unknown.classes,
        )

    def check(self, dataset: Dataset) -> None:
        """Refuse a data set that the protocol cannot be carried out on, whichever classes a trial draws."""
        pools = self._pools(dataset)
        known, unknown = self._enough_known(dataset, pools), self._enough_unknown(dataset, pools)
        self._check_unknown(len(unknown) - min(self.known.classes, len(np.intersect1d(known, unknown))), dataset)
        if dataset.pictures and self.features is None:
            raise ProtocolError(
                f"{self.name}: {dataset.name} holds pictures; a table [features] says what to make of them."
            )
        if not dataset.pictures and self.features is not None:
            raise ProtocolError(f"{self.name}: [features] is for pictures, and {dataset.name} holds features.")

    def prepared(self, X: Array, X_test: Array) -> tuple[Array, Array]:
        """Training and test vectors as the methods get them: as they are."""
        return X, X_test

    def reported(self, results: pd.DataFrame) -> tuple[pd.DataFrame, str | None]:
        """The table of results as a report shows it, and its openness in words where the report cannot find them."""
        return results, None

    def facts(self) -> list[tuple[str, str]]:
        """How classes and samples are drawn, for a report."""
        known, unknown, levels = self.known, self.unknown, list(self.levels.values())
        train = f"{known.train:.0%} of its samples" if isinstance(known.train, float) else f"{known.train} samples"
        part, test_part, strange = (f" of part {p}" if p else "" for p in (known.part, known.test_part, unknown.part))
        classes = f"{unknown.classes[0]} to {unknown.classes[-1]}" if len(unknown.classes) > 1 else unknown.classes[0]
        return [
            ("known classes", f"{known.classes}, each trained on {train}{part}"),
            ("tested on", f"{_samples(known.test)} of each known class{test_part}"),
            ("unknown classes", f"{classes}, {_samples(unknown.test)} of each{strange}"),
            ("how they are drawn", "without replacement; larger sets of unknown classes contain smaller ones"),
            ("openness", f"{100 * levels[0]:.2f} % to {100 * levels[-1]:.2f} %"),
        ]

    # -- inside ------------------------------------------------------------------------------------------

    def _check_unknown(self, left: int, dataset: Dataset) -> None:
        """Refuse to meet more unknown classes than the known ones leave."""
        if left < self.unknown.classes[-1]:
            wanted = "a sample" if self.unknown.test is None else f"the {self.unknown.test} samples asked for"
            raise ProtocolError(
                f"{self.name}: [unknown] classes goes up to {self.unknown.classes[-1]}, but {self.known.classes} known "
                f"classes can leave only {max(left, 0)} of {dataset.name}{self._read(dataset)} that have {wanted}."
            )

    def _read(self, dataset: Dataset) -> str:
        """Where a file of one's own has its classes from, for messages."""
        return "" if self.data.file is None else f" ({dataset.source})"

    def _n_train(self, n: int) -> int:
        return round(self.known.train * n) if isinstance(self.known.train, float) else self.known.train

    def _pools(self, dataset: Dataset) -> _Pools:
        usable = np.ones(len(dataset.y), bool)
        for name in self.data.exclude:
            if name not in dataset.class_names:
                near = did_you_mean(name, dataset.class_names)
                raise ProtocolError(
                    f"{self.name}: [data] exclude names {name!r}, which is no class of {dataset.name}{near}."
                )
            usable &= dataset.y != dataset.class_names.index(name)
        if self.data.drop_empty and not dataset.pictures:
            usable &= np.asarray(dataset.X).any(axis=1)

        def of(part: str | None, key: str) -> list[IntArray]:
            there = usable
            if part is not None:
                parts = () if dataset.part is None else tuple(np.unique(dataset.part).tolist())
                if part not in parts:
                    has = f"it has {join_names(parts)}" if parts else "it has no parts"
                    raise ProtocolError(f"{self.name}: {key} = {part!r} is no part of {dataset.name}; {has}.")
                there = usable & (dataset.part == part)
            return [np.flatnonzero(there & (dataset.y == c)) for c in range(len(dataset.class_names))]

        known, unknown = self.known, self.unknown
        return _Pools(
            of(known.part, "[known] part"),
            of(known.test_part, "[known] test_part"),
            of(unknown.part, "[unknown] part"),
            shared=known.part == known.test_part,
        )

    def _enough_known(self, dataset: Dataset, pools: _Pools) -> AnyArray:
        """Classes with the training and test samples asked for."""
        wanted = 1 if self.known.test is None else self.known.test
        enough = []
        for c, rows in enumerate(pools.train):
            n = self._n_train(len(rows))
            left = len(rows) - n if pools.shared else len(pools.test[c])
            # What a share leaves may be fewer than the test samples asked for, which are then a limit.
            least = 1 if pools.shared and isinstance(self.known.train, float) else wanted
            if n >= 1 and len(rows) >= n and left >= least:
                enough.append(c)
        if len(enough) < self.known.classes:
            train = f"{self.known.train:.0%}" if isinstance(self.known.train, float) else str(self.known.train)
            raise ProtocolError(
                f"{self.name}: [known] asks for {self.known.classes} classes with {train} training and {wanted} test "
                f"samples; {dataset.name}{self._read(dataset)} has {len(enough)} such classes of "
                f"{len(dataset.class_names)}."
            )
        return np.array(enough)

    def _enough_unknown(self, dataset: Dataset, pools: _Pools) -> AnyArray:
        wanted = 1 if self.unknown.test is None else self.unknown.test
        return np.array([c for c, rows in enumerate(pools.unknown) if len(rows) >= wanted], dtype=np.int64)


@dataclass(frozen=True)
class _Pools:
    """Rows of every class: to train on, to test on, and as a stranger; ``shared`` where the first two are the same."""

    train: list[IntArray]
    test: list[IntArray]
    unknown: list[IntArray]
    shared: bool


def _samples(n: int | None) -> str:
    return "all other samples" if n is None else f"{n} samples"
