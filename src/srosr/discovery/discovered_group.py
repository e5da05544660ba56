"""A group of rejected samples that may be a new class, and files of groups: JSON, checked field by field when read."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._support.array_types import IntArray
from .._support.atomic_files import write_atomically
from .._support.messages import count_of, format_number, join_names
from .._support.unknown_label import format_label
from .affinity_groups import NOISE


@dataclass(frozen=True)
class SampleFingerprint:
    """Number and SHA-256 of samples, as the classifier takes them, in their order.

    Attributes
    ----------
    n_samples, n_features : int
    sha256 : str
        Of the features in double precision, row after row.
    """

    n_samples: int
    n_features: int
    sha256: str


class SampleHasher:
    """Computes the fingerprint of samples that come batch by batch.

    Parameters
    ----------
    n_features : int
        Number of features of a sample.
    """

    def __init__(self, n_features: int) -> None:
        self._n_samples, self._n_features = 0, n_features
        self._hash = hashlib.sha256()

    def add(self, X: Any) -> None:
        """Add the samples of a batch."""
        values = np.ascontiguousarray(X, dtype="<f8")
        self._n_samples += len(values)
        self._hash.update(values.data)

    @property
    def fingerprint(self) -> SampleFingerprint:
        """The fingerprint of all samples added."""
        return SampleFingerprint(self._n_samples, self._n_features, self._hash.hexdigest())


#: The label of rows that were not grouped: accepted by the classifier, or left out when the data were read.
ACCEPTED = -2
#: Tightness from which on a group is called tight: on the data of the design, groups below it were often mixtures.
TIGHT = 0.8
# Known classes and typical rows that are named in the text.
_NAMED, N_SHOWN = 2, 5


@dataclass(frozen=True, eq=False)
class Group:
    """A group of rejected samples.

    Attributes
    ----------
    number : int
        From 0; tight groups first, larger ones first.
    rows : ndarray of int
        Its samples, by their rows in X, in ascending order.
    typical : tuple of int
        Rows of its most typical samples, those closest to its mean in the model's space first.
    tightness : float
        From 0, what a random group would have, to 1: how much of the affinity of its samples stays within it.
    nearest : tuple of (label, share)
        The known classes that its samples would have been assigned to, with their shares, the largest first.
    """

    number: int
    rows: IntArray
    typical: tuple[int, ...]
    tightness: float
    nearest: tuple[tuple[Any, float], ...]

    @property
    def size(self) -> int:
        """Number of its samples."""
        return len(self.rows)

    @property
    def is_tight(self) -> bool:
        """Whether it is likely to be one class rather than a mixture or noise."""
        return self.tightness >= TIGHT

    @property
    def tightness_text(self) -> str:
        """The tightness, and what it means, in words."""
        return f"{format_number(self.tightness, 2)} {'tight' if self.is_tight else 'loose'}"

    @property
    def nearest_text(self) -> str:
        """The nearest known classes in words."""
        named = [f"{format_label(label)} ({100 * share:.0f} %)" for label, share in self.nearest[:_NAMED]]
        return ", ".join(named)

    @property
    def text(self) -> str:
        """The group in one sentence."""
        return (
            f"Group {self.number}: {count_of(self.size, 'sample')}, {'tight' if self.is_tight else 'loose'} "
            f"({format_number(self.tightness, 2)}); nearest known class {self.nearest_text}; most typical rows "
            f"{join_names(self.typical[:N_SHOWN])}."
        )

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serializable dict."""
        return {
            "number": self.number,
            "size": self.size,
            "tightness": self.tightness,
            "tight": self.is_tight,
            "nearest": [{"label": label, "share": share} for label, share in self.nearest],
            "typical": list(self.typical),
            "rows": self.rows.tolist(),
        }


FORMAT, VERSION = "srosr discovery", 1
# Rows of the data in a valid file: more would not fit into memory when it is read.
_MOST_ROWS = 10**8


class DiscoveryFileError(ValueError):
    """A file is not a discovery, or is damaged; the message is one sentence that names it."""


def write_discovery(fields: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Write the dict of a discovery to a file, complete or not at all."""
    content: dict[str, Any] = {"format": FORMAT, "version": VERSION} | fields
    groups = ",\n".join(f"  {_dump(group)}" for group in content["groups"])
    lines = [f"{_dump(name)}: {_dump(value)}" for name, value in content.items() if name != "groups"]
    text = "{\n " + ",\n ".join([*lines, f'"groups": [\n{groups}\n ]']) + "\n}\n"
    write_atomically(path, text.encode("utf-8", "surrogatepass"))


def read_discovery(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a file of a discovery and check it; return the attributes of the discovery.

    Raises
    ------
    DiscoveryFileError
        If the file is not a discovery, or something in it does not fit.
    OSError
        If it cannot be read.
    """
    with open(path, "rb") as file:
        content = file.read()
    name = os.fspath(path)
    try:
        found = json.loads(content.decode("utf-8", "surrogatepass"), parse_constant=_reject_constant)
    except (ValueError, RecursionError):
        raise DiscoveryFileError(f"{name} is not a discovery file: it is not JSON.") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise DiscoveryFileError(f"{name} is not a discovery file: srosr discover -o writes one.")
    if type(found.get("version")) is not int or found["version"] != VERSION:
        raise DiscoveryFileError(f"{name} is a discovery file of another version of srosr: run srosr discover again.")
    try:
        return _restore(found)
    except MemoryError:
        raise DiscoveryFileError(f"{name} has more rows than there is memory for: is it one that you wrote?") from None
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        what = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise DiscoveryFileError(f"{name} is a damaged discovery file: {what}.") from None


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _restore(found: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of a discovery from the dict of its file."""
    n_rows = _get_integer(found, "n_rows", 0, _MOST_ROWS)
    n_samples = _get_integer(found, "n_samples", 0, n_rows)
    n_features = _get_integer(found, "n_features", 1)
    sha256, name = found["sha256"], found["data"]
    _check(isinstance(sha256, str) and re.fullmatch(r"[0-9a-f]{64}", sha256, re.ASCII), "invalid sha256")
    _check(isinstance(name, str), "invalid data")
    classes = found["classes"]
    _check(isinstance(classes, list) and all(isinstance(label, str) for label in classes), "invalid classes")
    _check(isinstance(found["groups"], list), "invalid groups")
    groups = tuple(_restore_group(one, number, n_rows) for number, one in enumerate(found["groups"]))
    noise = _read_rows(found["noise"], n_rows, "noise")
    every = np.concatenate([noise, *(group.rows for group in groups)])
    _check(len(np.unique(every)) == len(every) <= n_samples, "a row is listed twice")
    labels = np.full(n_rows, ACCEPTED)
    labels[noise] = NOISE
    for group in groups:
        labels[group.rows] = group.number
    return {
        "labels": labels,
        "groups": groups,
        "min_size": _get_integer(found, "min_size", 2),
        "classes": tuple(classes),
        "fingerprint": SampleFingerprint(n_samples, n_features, sha256),
        "name": name,
    }


def _restore_group(found: Any, number: int, n_rows: int) -> Group:
    where = f"group {number}"
    _check(isinstance(found, dict), f"invalid {where}")
    _check(type(found["number"]) is int and found["number"] == number, f"invalid number of {where}")
    rows = _read_rows(found["rows"], n_rows, where)
    _check(len(rows) > 0, f"{where} has no rows")
    typical = _read_rows(found["typical"], n_rows, f"the typical rows of {where}", ordered=False)
    _check(bool(np.isin(typical, rows).all()), f"a typical row of {where} is not in it")
    nearest = found["nearest"]
    _check(isinstance(nearest, list) and all(isinstance(one, dict) for one in nearest), f"invalid classes of {where}")
    pairs = []
    for one in nearest:
        label = one["label"]
        right = isinstance(label, str | int | bool) or (isinstance(label, float) and math.isfinite(label))
        _check(right, f"invalid class of {where}")
        pairs.append((label, _read_share(one["share"], f"share of {where}")))
    tightness = _read_share(found["tightness"], f"tightness of {where}")
    return Group(number, rows, tuple(typical.tolist()), tightness, tuple(pairs))


def _read_rows(values: Any, n_rows: int, what: str, *, ordered: bool = True) -> IntArray:
    right = isinstance(values, list) and all(type(value) is int and 0 <= value < n_rows for value in values)
    _check(right, f"invalid rows of {what}")
    rows = np.array(values, dtype=np.int64)
    _check(not ordered or bool((np.diff(rows) > 0).all()), f"invalid order of the rows of {what}")
    return rows


def _read_share(value: Any, what: str) -> float:
    _check(isinstance(value, int | float) and not isinstance(value, bool) and 0.0 <= value <= 1.0, f"invalid {what}")
    return float(value)


def _get_integer(found: dict[str, Any], name: str, least: int, most: int = 2**62) -> int:
    value = found[name]
    _check(type(value) is int and least <= value <= most, f"invalid {name}")
    return int(value)


def _check(holds: Any, what: str) -> None:
    if not holds:
        raise ValueError(what)


def _reject_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
