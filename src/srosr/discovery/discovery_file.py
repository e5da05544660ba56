"""Files of discoveries: JSON, checked field by field when read."""

from __future__ import annotations

import json
import math
import os
import re
from typing import Any

import numpy as np

from .._support.array_types import IntArray
from .._support.atomic_files import write_atomically
from .affinity_groups import NOISE
from .discovered_group import ACCEPTED, Group, SampleFingerprint

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
