"""A table in many files: the tables of a folder, or the files that match a pattern."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence

from .formats import SUFFIXES
from .row_source import ReadError

#: Suffixes of the files of a folder that are parts of a table; a pattern can match others.
PART_SUFFIXES = (".parquet", ".pq", ".csv", ".tsv", ".csv.gz", ".tsv.gz")
_MAGIC = re.compile(r"[*?[]")


def is_pattern(data: str) -> bool:
    """Return whether a name stands for the files that match it, and not for a file or folder of its own.

    Examples
    --------
    >>> from srosr.tables.table_parts import is_pattern
    >>> is_pattern("days/2026-*.csv"), is_pattern("days")
    (True, False)
    """
    return bool(_MAGIC.search(data)) and not os.path.lexists(data)


def find_parts(data: str) -> list[str]:
    """Return the files of a table in parts, sorted by name.

    Parameters
    ----------
    data : str
        A folder, whose files with the suffix of a table are the parts, except for those whose name begins with a dot or
        an underscore; or a pattern with ``*``, ``?``, ``[...]`` or, for any folders, ``**``.

    Returns
    -------
    list of str
        Empty if a folder has no table.

    Raises
    ------
    ReadError
        If the folder cannot be read, or no file matches the pattern.
    """
    if is_pattern(data):
        found = [path for path in sorted(glob.glob(data, recursive=True)) if os.path.isfile(path)]
        if not found:
            raise ReadError(f"{data} matches no file: check the pattern.")
        return found
    try:
        names = sorted(os.listdir(data))
    except OSError as error:
        raise ReadError(f"{data} cannot be read: {error.strerror or error}.") from None
    tables = [name for name in names if name.lower().endswith(PART_SUFFIXES) and not name.startswith((".", "_"))]
    return [path for path in (os.path.join(data, name) for name in tables) if os.path.isfile(path)]


def name_outputs(parts: Sequence[str], folder: str) -> list[str]:
    """Return the path of the decisions on each part: its name with the suffix ``.parquet``, in a folder.

    Two parts with the same name but for their folders and suffixes are a ReadError.
    """
    names = [f"{_strip_suffix(os.path.basename(part))}.parquet" for part in parts]
    taken: dict[str, str] = {}
    for part, name in zip(parts, names, strict=True):
        other = taken.setdefault(os.path.normcase(name), part)
        if other != part:
            raise ReadError(
                f"{other} and {part} would both become {name}: rename one of them, or predict them into different "
                "folders."
            )
    return [os.path.join(folder, name) for name in names]


def _strip_suffix(name: str) -> str:
    known = [suffix for suffix in SUFFIXES if name.lower().endswith(suffix) and len(name) > len(suffix)]
    return name[: -len(max(known, key=len))] if known else name
