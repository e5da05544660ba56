"""The result of a discovery: groups of rejected samples that may be new classes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._support.array_types import IntArray
from .._support.messages import count_of, list_names
from .affinity_groups import NOISE
from .discovered_group import N_SHOWN, Group, SampleFingerprint, read_discovery, write_discovery


@dataclass(frozen=True, eq=False)
class Discovery:
    """Groups of rejected samples that may be new classes. It prints as a table.

    Attributes
    ----------
    labels : ndarray of int (n_rows,)
        The group of each row of X; −1 for rejected samples of no group, −2 for samples that were not grouped because
        they were accepted.
    groups : tuple of Group
        Tight groups first, larger ones first.
    min_size : int
        Smallest number of different samples in a group.
    classes : tuple of str
        The known classes of the model.
    fingerprint : SampleFingerprint
        Identifies X.
    name : str
        The name of X, or of the file it was read from.
    """

    labels: IntArray
    groups: tuple[Group, ...]
    min_size: int
    classes: tuple[str, ...]
    fingerprint: SampleFingerprint
    name: str = "X"

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def n_grouped(self) -> int:
        """Number of samples in groups."""
        return int((self.labels >= 0).sum())

    @property
    def noise(self) -> IntArray:
        """Rows of rejected samples that are in no group."""
        return np.flatnonzero(self.labels == NOISE)

    @property
    def text(self) -> str:
        """A table with a line for each group, below a sentence on all samples."""
        grouped, noise = self.n_grouped, len(self.noise)
        n_tight = sum(group.is_tight for group in self.groups)
        accepted = self.fingerprint.n_samples - grouped - noise
        first = (
            f"{grouped:,} of {count_of(grouped + noise, 'sample')} in {count_of(len(self.groups), 'group')} "
            f"({n_tight} tight), {noise:,} in none{f'; {accepted:,} accepted' if accepted else ''}."
        )
        if not self.groups:
            return first
        return "\n".join([first, *_align_columns([self.columns(), *(self.describe_row(g) for g in self.groups)])])

    @staticmethod
    def columns() -> tuple[str, ...]:
        """Return the headings of the table."""
        return "group", "samples", "tightness", "nearest known class", "most typical rows"

    @staticmethod
    def describe_row(group: Group) -> tuple[str, ...]:
        """Return the cells of a group in the table."""
        typical = list_names(group.typical[:N_SHOWN])
        return str(group.number), f"{group.size:,}", group.tightness_text, group.nearest_text, typical

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serializable dict."""
        return {
            "data": self.name,
            "n_rows": len(self.labels),
            "n_samples": self.fingerprint.n_samples,
            "n_features": self.fingerprint.n_features,
            "sha256": self.fingerprint.sha256,
            "classes": list(self.classes),
            "min_size": self.min_size,
            "groups": [group.to_dict() for group in self.groups],
            "noise": self.noise.tolist(),
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON file that :meth:`load` reads and ``srosr add-class --from-discovery`` takes."""
        write_discovery(self.to_dict(), path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Discovery:
        """Read a file that :meth:`save` wrote; of a damaged one a ValueError says what is wrong."""
        return Discovery(**read_discovery(path))


def _align_columns(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
